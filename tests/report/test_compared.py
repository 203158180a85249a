"""Figures of both tables are those that pandas finds in them."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from anonpipe.display import _share_table
from anonpipe.errors import InputError
from anonpipe.report import read_report, report_of_release
from anonpipe.report.compared import MOST_CATEGORIES
from anonpipe.storage import release
from tests import runs, small

ROWS = 700

COLUMNS = {
    "plain": {"kind": "continuous"},
    "logged": {"kind": "continuous", "transform": "log", "bounds": [0.0001, None]},
    "holes": {"kind": "integer"},
    "day": {"kind": "date"},
    "place": {"kind": "categorical"},
    "flag": {"kind": "binary"},
    "grade": {"kind": "ordinal"},
    "year": {"kind": "integer", "role": "key"},
    "since": {"kind": "date", "role": "key"},
    "many": {"kind": "integer", "role": "key"},
}


def _table():
    rng = np.random.default_rng(8)
    base = rng.normal(size=ROWS)
    place = np.where(np.arange(ROWS) < 3, "rare", rng.choice(["a", "b", "c d"], ROWS, p=[0.5, 0.3, 0.2]))
    years = rng.integers(2001, 2005, ROWS)
    return pa.table(
        {
            "plain": base + rng.normal(size=ROWS),
            "logged": np.exp(base),
            "holes": pa.array(rng.integers(0, 50, ROWS), mask=rng.random(ROWS) < 0.2),
            "day": pa.array(rng.integers(0, 5_000, ROWS).astype("int32")).cast(pa.date32()),
            "place": pa.array(place),
            "flag": pa.array(base + rng.normal(size=ROWS) > 0, mask=rng.random(ROWS) < 0.1),
            "grade": pa.array(np.digitize(base, [-1.0, 0.0, 1.0])),
            "year": pa.array(years),
            "since": pa.array(years.astype("int32") * 365, mask=rng.random(ROWS) < 0.3).cast(pa.date32()),
            "many": pa.array(np.repeat(np.arange(70), 10)),
        }
    )


LOOSE = {name: 1e9 for name in ("mean", "covariance", "covariance_with_keys")}
LOOSE |= {"rows_under_k": 10**6, "category_share": 1.0, "null_share": 1.0, "unchanged_record_rate": 1.0}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The original, the release, and the steward's report of it."""
    folder = tmp_path_factory.mktemp("both")
    with small.private_home(folder, runs.SECRET):
        table = _table()
        job = small.job(folder, table, COLUMNS, gates=LOOSE, strata={"by": ["year"]}, cluster={"refine": False})
        outcome = small.run(job)
        assert outcome.version is not None, [check for check in outcome.verdict.failed]
        yield table.to_pandas(), small.released(job).to_pandas(), report_of_release(job.output, None)


def _numbers(frame, name):
    if name in ("day", "since"):
        return frame[name].map(lambda day: np.nan if pd.isna(day) else (day - date(1970, 1, 1)).days).astype(float)
    return frame[name].astype(float)


def test_means_deviations_and_nulls(both):
    original, released, report = both
    told = {one.name: one for one in report.compared.numbers}
    assert list(told) == ["plain", "logged", "holes", "day", "year", "since"]
    for name, one in told.items():
        for frame, mean, sd, nulls in (
            (original, one.mean, one.sd, one.nulls),
            (released, one.mean_released, one.sd_released, one.nulls_released),
        ):
            values = _numbers(frame, name)
            assert mean == pytest.approx(values.mean(), rel=1e-9, abs=1e-9)
            assert sd == pytest.approx(values.std(), rel=2e-3 if name == "since" else 1e-9)
            assert nulls == pytest.approx(values.isna().mean(), abs=1e-12)
        assert one.date == (name in ("day", "since"))


def test_shares_of_all_rows_and_no_rare_category(both):
    original, released, report = both
    told = {(one.column, one.category): one for one in report.compared.shares}
    expected = {}
    for name in ("place", "flag", "grade"):
        counts = original[name].dropna().value_counts()
        expected[name] = [str(value) for value, count in counts.items() if count >= 5][:MOST_CATEGORIES]
        assert report.compared.categories[name] == sum(counts >= 5)
    assert {name: [c for column, c in told if column == name] for name in expected} == expected
    assert ("place", "rare") not in told and len(expected["flag"]) == 2
    for (name, category), one in told.items():
        for frame, share in ((original, one.original), (released, one.released)):
            assert share == pytest.approx((frame[name].astype(str) == category).mean(), abs=1e-12)


def test_how_many_categories_are_not_shown_is_told(both):
    found = both[2].compared
    many = found.model_copy(update={"categories": found.categories | {"place": 16}})
    rows = list(_share_table(many).columns[0].cells)
    shown = sum(one.column == "place" for one in found.shares)
    assert f"[bold]place[/] ({shown} of 16)" in rows and "[bold]flag[/]" in rows


def _variables(frame, report):
    """What is correlated, as a frame: nulls of categories are no category, rare ones count as the commonest."""
    frame = frame.assign(place=frame["place"].replace("rare", "a"))
    found = {name: _numbers(frame, name) for name in ("plain", "logged", "day", "year")}
    shown = {}
    for one in report.compared.shares:
        shown.setdefault(one.column, []).append(one.category)
    for name, categories in shown.items():
        for category in categories[1:] if len(categories) == 2 else categories:
            found[f"{name} = {category}"] = (frame[name].astype(str) == category).astype(float)
    return pd.DataFrame(found)


def test_correlations_of_columns_without_nulls(both):
    original, released, report = both
    before, after = (_variables(frame, report).corr() for frame in (original, released))
    pairs = report.compared.pairs
    changes = [abs(one.released - one.original) for one in pairs]
    assert changes == sorted(changes, reverse=True) and len(pairs) == report.compared.pairs_compared
    assert len({frozenset((one.first, one.second)) for one in pairs}) == len(pairs)
    seen = 0
    for one in pairs:
        if {one.first, one.second} <= set(before):
            assert one.original == pytest.approx(before.loc[one.first, one.second], abs=1e-9)
            assert one.released == pytest.approx(after.loc[one.first, one.second], abs=1e-9)
            seen += 1
    width, of = len(before), [name.partition(" = ")[0] for name in before]
    own = sum(of[i] == of[j] for i in range(width) for j in range(i))
    assert seen == width * (width - 1) // 2 - own > 20


def test_what_is_not_measured_is_named(both):
    assert both[2].compared.left_out == ("many",)


def test_recipients_are_told_nothing_of_it(both, tmp_path):
    content = json.loads(both[2].model_dump_json())
    table = _table().to_pandas()
    made = small.job(tmp_path, pa.Table.from_pandas(table), COLUMNS, gates=LOOSE)
    assert small.run(made).version
    given = release.resolve(made.output)
    recipients = json.loads(given.filesystem.cat_file(given.path("_report.json")))
    assert recipients["compared"] is None and content["compared"] is not None
    path = tmp_path / "leak.json"
    path.write_text(json.dumps(recipients | {"compared": content["compared"]}))
    with pytest.raises(InputError, match="is no report of the form"):
        read_report(path)


def test_the_report_stays_small_with_many_columns(tmp_path):
    rng = np.random.default_rng(2)
    names = [f"x{at}" for at in range(60)]
    table = pa.table({name: rng.normal(size=120) for name in names})
    job = small.job(tmp_path, table, {name: {"kind": "continuous"} for name in names}, gates=LOOSE)
    assert small.run(job).version
    found = report_of_release(job.output, None).compared
    assert len(found.numbers) == 60 and len(found.pairs) == 1_000 and found.pairs_compared == 60 * 59 // 2


def test_pictures_and_figures_are_in_the_order_of_the_table(tmp_path):
    """Neither in that of the job nor by their names."""
    names = ["place", "income", "age"]
    columns = {name: small.COLUMNS[name] for name in ("income", "age", "place")}
    measured = {"utility": True, "risk": False}
    job = small.job(tmp_path, small.plain_table().select(names), columns, measure=measured, gates=LOOSE)
    assert small.run(job).version is not None
    found = report_of_release(job.output, None)
    assert [one.name for one in found.pictures] == names
    assert list(found.correlations.names) == [one.name for one in found.compared.numbers] == names[1:]


@pytest.mark.parametrize("small_strata", ["merge", "drop"])
def test_both_places_tell_the_same_original_as_it_was(tmp_path, small_strata):
    """Of a category that is suppressed in every stratum, of one in some, and of a stratum that joins another."""
    rng = np.random.default_rng(5)
    rows = 900
    place = np.array(["a", "b"])[(rng.random(rows) < 0.3).astype(int)].astype(object)
    ward = np.where(np.arange(rows) < 600, "east", "west").astype(object)
    place[[1, 2, 3, 601, 602, 603]] = "gone"  # three in each stratum
    place[[*range(10, 20), 610, 611]] = "some"  # ten in one, two in the other
    place[np.arange(30, 80)] = None
    ward[800:804], place[800:804] = "tiny", "a"
    table = pa.table({"x": rng.normal(size=rows), "place": pa.array(place), "ward": pa.array(ward)})
    columns = {
        "x": {"kind": "continuous"},
        "place": {"kind": "categorical"},
        "ward": {"kind": "categorical", "role": "key"},
    }
    measure = {"risk": False, "rows": 300}
    strata = {"by": ["ward"], "small": small_strata}
    job = small.job(tmp_path, table, columns, gates=LOOSE, strata=strata, measure=measure)
    assert small.run(job).version is not None
    report = report_of_release(job.output, None)
    kept = table.to_pandas()[lambda frame: (frame["ward"] != "tiny") | (small_strata == "merge")]
    told = {(one.column, one.category): one.original for one in report.compared.shares}
    drawn = {one.name: one for one in report.pictures if one.labels}
    assert {name: drawn[name].of_all_rows for name in drawn} == {"place": True, "ward": True}
    for name, picture in drawn.items():
        expected = {c: n / len(kept) for c, n in kept[name].value_counts().items() if n >= 5}
        assert dict(zip(picture.labels, picture.original, strict=True)) == pytest.approx(expected, abs=1e-6)
        assert {c: share for (column, c), share in told.items() if column == name} == pytest.approx(expected, abs=1e-6)
    assert {"gone", "some"} < set(drawn["place"].labels) and drawn["place"].nulls_original == round(50 / len(kept), 6)
    assert drawn["place"].released[drawn["place"].labels.index("gone")] == 0.0

    external = read_report(Path(job.output) / "release" / "_report.json")
    assert not any(one.of_all_rows or "gone" in one.labels for one in external.pictures)
