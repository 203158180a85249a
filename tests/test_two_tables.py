"""`anonpipe evaluate`: any release beside its original, whoever made it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pytest
import yaml
from sklearn.metrics import cohen_kappa_score

from anonpipe import two_tables as reading
from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import Reason
from anonpipe.job.model import parse_job
from anonpipe.report import report_of_release
from anonpipe.two_tables import evaluate_release
from tests import small
from tests.small import CANARY

pytestmark = pytest.mark.secret("5e" * 32)

COLUMNS = {
    "age": {"kind": "integer"},
    "income": {"kind": "continuous"},
    "place": {"kind": "categorical"},
}


def people(rows, seed, nulls=0.05):
    """Numbers that go together, a category, and one column with nulls."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    income = np.exp(9 + age / 60 + rng.normal(0, 0.4, rows))
    place = rng.choice(["north", "south", "west"], rows, p=[0.5, 0.3, 0.2])
    missing = rng.random(rows) < nulls
    return pa.table({"age": age, "income": pa.array(income, mask=missing), "place": place})


def job_of(columns=None, **changes):
    """A job that describes the columns."""
    return parse_job({"input": "-", "output": "out", "k": 5, "columns": columns or COLUMNS, **changes})


def figure(found, name):
    """The value of a measure."""
    return found.assessment.measurement(name).value


def test_a_copy_is_told_from_another_sample_of_the_population(tmp_path):
    original, control = people(1500, 1, 0), small.write_table(tmp_path, people(1500, 2, 0), "control.parquet")
    first = small.write_table(tmp_path, original, "first.parquet")
    shuffled = original.take(np.random.default_rng(5).permutation(1500))
    copy = small.write_table(tmp_path, shuffled, "copy.parquet")
    sample = small.write_table(tmp_path, people(1800, 3, 0), "sample.parquet")
    same, other = (evaluate_release(first, each, job_of(), hold_out=control) for each in (copy, sample))
    assert figure(same, "closest_record.equal") == 1.0 and figure(other, "closest_record.equal") < 0.01
    assert figure(same, "membership_auc") > 0.95 and abs(figure(other, "membership_auc") - 0.5) < 0.04
    assert figure(same, "basic.means") == 0.0 and 0 < figure(other, "basic.means") < 0.1
    assert figure(same, "singling_out.several") > 0.9 > 0.2 > abs(figure(other, "singling_out.several"))
    assert figure(same, "linkability") > 0.5 > 0.1 > abs(figure(other, "linkability"))
    assert figure(same, "attribute_inference") > 0.5 > abs(figure(other, "attribute_inference"))
    assert same.rows == (1500, 1500) and other.rows == (1500, 1800)
    unmeasured = {each.key: each.reason.value for each in other.assessment.not_checked}
    assert (
        unmeasured["unmeasured.linkage"] == Reason.NO_PAIRING
        and unmeasured["unmeasured.collusion"] == Reason.ONLY_A_RUN
    )


def test_links_are_right_or_wrong_only_where_rows_stand_for_rows(tmp_path):
    original = people(900, 1, 0)
    noisy = original.set_column(0, "age", pc.add(original["age"], pa.array(np.resize([-1, 0, 1], 900))))
    first, second = small.write_table(tmp_path, original, "a.parquet"), small.write_table(tmp_path, noisy, "b.parquet")
    limited = job_of(gates={"reidentification_rate": 0.09}, measure={"utility": False})
    paired = evaluate_release(first, second, limited, paired=True)
    assert figure(paired, "reidentification_rate") > 0.8 and not paired.verdict.passed
    unknown = evaluate_release(first, second, limited)
    assert unknown.verdict.word != "passed" and "not evaluated: gates.reidentification_rate;" in unknown.warnings[-1]
    assert not [check for check in unknown.verdict.checks if check.key == "risk.reidentification_rate"]
    with pytest.raises(InputError, match="900 rows and the release 300"):
        evaluate_release(first, small.write_table(tmp_path, noisy.slice(0, 300), "c.parquet"), paired=True)


@pytest.mark.parametrize(("changed", "refused"), [(20, True), (300, False)])
def test_unchanged_records_are_counted_where_rows_stand_for_rows(tmp_path, changed, refused):
    columns = COLUMNS | {"age": {"kind": "integer", "role": "key"}}  # the mask leaves it as it is
    original, other = people(600, 1), people(600, 2)
    rows = [*other.slice(0, changed).to_pylist(), *original.slice(changed).to_pylist()]
    release = pa.Table.from_pylist(rows, original.schema).set_column(0, "age", original["age"])
    first, second = (
        small.write_table(tmp_path, each, name) for each, name in ((original, "a.parquet"), (release, "b.parquet"))
    )
    job = job_of(columns, measure=small.OFF, gates={"rows_under_k": 600})
    (check,) = [
        each for each in evaluate_release(first, second, job, paired=True).verdict.checks if each.key == "records.kept"
    ]
    texts = [[f"{row['income']} {row['place']}" for row in table.to_pylist()] for table in (original, release)]
    assert check.measured == pytest.approx(cohen_kappa_score(*texts)) and check.blocks == refused
    assert (check.records, check.of) == (600, 600)
    for given in ({"job": job}, {"paired": True}):
        found = evaluate_release(first, second, **given).verdict
        assert "records.kept" not in [each.key for each in found.checks]
        assert "only with --paired and --job" in found.notes[-2]


@pytest.mark.parametrize("role", ["key", "masked"])
def test_unchanged_records_are_those_that_a_run_counts(tmp_path, role):
    """Keys are to stay as they are, as weights that categories decide may; drawn again, these hide no record."""
    weight = {"kind": "continuous", "role": "sampling_weight", "by": ["place"]}
    columns = {name: column | {"role": role} for name, column in COLUMNS.items()}
    columns |= {"place": {"kind": "categorical", "role": "key"}, "weight": weight}
    keys = {"disclosure": {"key": ["place"], "non_key": ["age", "income"]}} if role == "key" else {}
    seeds = (1, 1) if role == "key" else (1, 2)
    weights = [pa.array(np.random.default_rng(seed).uniform(1, 9, 600)) for seed in seeds]
    tables = [people(600, 1).append_column("weight", each) for each in weights]
    first, second = (small.write_table(tmp_path, each, f"{at}.parquet") for at, each in enumerate(tables))
    verdict = evaluate_release(first, second, job_of(columns, measure=small.OFF, **keys), paired=True).verdict
    measured = [check.measured for check in verdict.checks if check.key == "records.kept"]
    assert measured == ([] if role == "key" else [1.0])


def test_the_figures_are_those_of_the_run_that_made_the_release(tmp_path):
    job = small.job(tmp_path, people(1200, 4), COLUMNS, mask=small.QUICK, measure={"queries": 1200})
    assert small.run(job).version is not None
    told = {one.name: one for one in report_of_release(job.output, job.report.internal).utility}
    found = evaluate_release(job.input, job.output, job)
    for name in (
        "basic.means",
        "basic.sums",
        "distance.ks",
        "distance.wasserstein",
        "hellinger.columns",
        "auc.boosted",
    ):
        if name in told and not name.startswith("auc"):
            assert figure(found, name) == pytest.approx(told[name].value, abs=1e-9), name
    same = [
        name for name, one in told.items() if one.value is not None and figure(found, name) == pytest.approx(one.value)
    ]
    assert len(same) > 15 and {"basic.means", "basic.sums"} <= set(same), same
    assert found.verdict.passed and "gates.covariance" in found.verdict.notes[-1]


def test_form_and_cut_of_the_files_change_nothing(tmp_path, monkeypatch):
    first, release = people(400, 1), people(450, 2)
    whole = small.write_table(tmp_path, release, "release.parquet")
    for at in range(3):
        small.write_table(tmp_path, release.slice(150 * at, 150), f"cut/part-{at}.parquet")
    pcsv.write_csv(release, tmp_path / "release.csv")
    dictionary = release.set_column(2, "place", release["place"].dictionary_encode())
    narrow = small.write_table(tmp_path, dictionary.set_column(0, "age", dictionary["age"].cast("int16")), "n.parquet")
    original = small.write_table(tmp_path, first, "original.parquet")
    forms = [whole, str(tmp_path / "cut"), str(tmp_path / "release.csv"), narrow]
    job = job_of(measure={"utility": False})
    found = [evaluate_release(original, each, job, hold_out=whole) for each in forms]
    read = reading.read_batches
    monkeypatch.setattr(reading, "read_batches", lambda source, unit, names: read(source, unit, names, 58))
    found.append(evaluate_release(original, whole, job, hold_out=whole))
    figures = [[(one.name, one.value) for one in each.assessment.measured] for each in found]
    for other in figures[1:]:
        assert [name for name, _ in other] == [name for name, _ in figures[0]]
        assert np.allclose([v for _, v in other], [v for _, v in figures[0]], rtol=1e-9, atol=1e-12, equal_nan=True)


def test_identifiers_and_rare_key_combinations_in_release_fail(tmp_path):
    columns = COLUMNS | {"place": {"kind": "categorical", "role": "key"}, "sex": {"kind": "binary", "role": "key"}}
    columns["ssn"] = {"role": "identifier"}
    original = (
        people(600, 1).append_column("sex", pa.array(["f", "m"] * 300)).append_column("ssn", pa.array(range(600)))
    )
    release = original.filter(pc.greater(original["age"], 70))
    first, second = (small.write_table(tmp_path, each, f"{each.num_rows}.parquet") for each in (original, release))
    found = evaluate_release(first, second, job_of(columns, measure=small.OFF), k=30)
    checks = {check.key: check for check in found.verdict.checks}
    assert {"unmeasured.utility", "unmeasured.risk"} <= set(checks)
    counts = release.group_by(["place", "sex"]).aggregate([([], "count_all")])["count_all"].to_numpy()
    assert checks["keys.rare"].measured == counts[counts < 30].sum() > 0
    assert checks["columns.forbidden"].measured == 1 and not found.verdict.passed
    proposed = evaluate_release(first, second)
    assert "column 'ssn' is in the release and looks like an identifier of persons" in proposed.warnings
    assert set(proposed.columns) == {"age", "income", "place", "sex"}


def test_scenarios_are_counted_in_the_original(tmp_path):
    original, release = people(500, 1), people(500, 2)
    first, second = (
        small.write_table(tmp_path, original, "a.parquet"),
        small.write_table(tmp_path, release, "b.parquet"),
    )
    scenarios = [
        {"name": "neighbour", "knows": ["age", "place"]},
        {"name": "near", "knows": ["age", "place"], "tolerance": {"age": 3}},
    ]
    found = evaluate_release(first, second, job_of(measure={"utility": False, "scenarios": scenarios}))
    sizes = original.group_by(["age", "place"]).aggregate([([], "count_all")])["count_all"].to_numpy()
    assert figure(found, "scenarios.neighbour.original_uniques") == pytest.approx((sizes == 1).sum() / 500)
    ages, places = original["age"].to_numpy(), np.array(original["place"].to_pylist())
    near = [((abs(ages - age) <= 3) & (places == place)).sum() for age, place in zip(ages, places, strict=True)]
    assert figure(found, "scenarios.near.original_uniques") == pytest.approx(np.mean(np.array(near) == 1))
    assert figure(found, "scenarios.near.marketer") == pytest.approx(np.mean(1 / np.array(near)))


def test_the_recipients_analyses_are_fitted_to_both(tmp_path):
    first = small.write_table(tmp_path, people(800, 1), "a.parquet")
    turned = people(800, 1).set_column(0, "age", pa.array(np.random.default_rng(99).integers(18, 90, 800)))
    second = small.write_table(tmp_path, turned, "b.parquet")
    analysis = {"name": "by age", "model": "linear", "formula": "income ~ age", "limits": {"changed_significance": 0.1}}
    found = evaluate_release(first, second, job_of(analyses=[analysis], measure=small.OFF))
    assert found.assessment.analyses[0].comparison.shares.changed_significance == 1.0 and not found.verdict.passed
    without = small.write_table(tmp_path, turned.drop_columns(["age"]), "c.parquet")
    with pytest.raises(InputError, match="analysis 'by age' needs column 'age', which is not compared: not in the rel"):
        evaluate_release(first, without, job_of(analyses=[analysis]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.set_column(1, "income", pa.array([CANARY] * 300)), "'income' holds numbers .* and texts"),
        (lambda t: t.set_column(1, "income", pa.array([np.inf] * 300)), "'income' holds 300 infinite"),
        (lambda t: t.rename_columns(["a", "b", "c"]), "no column in common"),
        (lambda t: t.set_column(2, "place", pa.array([1.5] * 300)), "'place' holds texts .* and numbers"),
    ],
)
def test_incomparable_tables_are_refused_without_their_values(change, words, tmp_path):
    first = small.write_table(tmp_path, small.plain_table(), "a.parquet")
    second = small.write_table(tmp_path, change(small.plain_table()), "b.parquet")
    with pytest.raises(InputError, match=words) as caught:
        evaluate_release(first, second, job_of())
    assert CANARY not in str(caught.value)


def test_units_of_several_rows_are_not_attacked_as_rows(tmp_path):
    first = small.write_table(tmp_path, people(400, 1).append_column("pid", pa.array(np.arange(400) // 2)), "a.parquet")
    second = small.write_table(tmp_path, people(400, 2), "b.parquet")
    found = evaluate_release(first, second, job_of(COLUMNS | {"pid": {"role": "unit"}}))
    assert not found.assessment.risk and found.assessment.utility
    assert ("unmeasured.risk", Reason.UNITS) in [(each.key, each.reason) for each in found.assessment.not_checked]


def test_the_command(tmp_path, capsys, monkeypatch):
    call = small.commands(capsys, monkeypatch)
    original = people(600, 1, 0)
    first, second = (
        small.write_table(tmp_path, original, "a.parquet"),
        small.write_table(tmp_path, original, "b.parquet"),
    )
    content = {"input": "-", "output": "out", "k": 5, "columns": COLUMNS, "gates": {"reidentification_rate": 0.09}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(content))
    told = call("evaluate", first, second, "--paired", "--json")
    shown = json.loads(told.out)
    assert told.code == 0 and shown["rows"] == {"original": 600, "release": 600}
    assert {one["name"]: one["value"] for one in shown["risk"]}["reidentification_rate"] == 1.0
    failed = call("evaluate", first, second, "--paired", "--job", tmp_path / "job.yaml", "--quiet")
    assert failed.code == 3 and failed.out == "" and "re-identification rate: 1, at most 0.09" in failed.err
    job = content | {"gates": {"membership_auc": 0.6}, "measure": {"hold_out": 0.05, "utility": False}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    unheld = call("evaluate", first, second, "--job", tmp_path / "job.yaml")
    told = " ".join((unheld.out + unheld.err).split())
    without = "membership inference, singling out, linkability, attribute inference"
    assert unheld.code == 0 and f"{without}: no records were given that the rel" in told
    assert "not evaluated: gates.membership_auc;" in told and " failed " not in unheld.out
    table = call("evaluate", first, second)
    assert table.code == 0 and "only a run of anonpipe measures it" in " ".join(table.out.split())
    assert "verdict: not checked" in table.out  # no limit was given, and so none was held
    assert max(map(len, table.out.splitlines())) <= 80
    assert call("evaluate", first, second, "--set", "k=9").code == 2


def test_page_shows_both_tables_and_nothing_only_a_run_knows(tmp_path, capsys, monkeypatch):
    call = small.commands(capsys, monkeypatch)
    first = small.write_table(tmp_path, people(900, 1), "a.parquet")
    second = small.write_table(tmp_path, people(900, 2), "b.parquet")
    page = tmp_path / "page.html"
    told = call("evaluate", first, second, "--html", page)
    assert told.code == 0 and f"{page}: internal report" in " ".join(told.out.split())
    assert page.stat().st_mode & 0o077 == 0
    text = page.read_text()
    for word in ("Nothing was held against a limit", first, second, "Columns before and after", "Risk", "<svg"):
        assert word in text, word
    for word in (
        "Nothing was released",
        "There are no groups",
        "What was done",
        "does not guarantee",
        "Strata",
        "</p></p>",
    ):
        assert word not in text, word
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job_of(gates={"column_shapes": 0.01}).model_dump(mode="json")))
    told = call("evaluate", first, second, "--job", tmp_path / "job.yaml", "--html", page, "--quiet")
    assert told.code == 3 and "not kept" in page.read_text() and "page.html" not in told.out
