"""The parts of the benchmark of risk and utility that need no other tool; see `tests.benchmarks.frontier`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.survfunc import SurvfuncRight

from anonpipe.job.model import parse_job
from anonpipe.job.plain_yaml import parse_setting
from anonpipe.propose.propose import propose_job
from tests.benchmarks.frontier import cart, known_cases, measures, peers, show
from tests.benchmarks.frontier.__main__ import JUDGES
from tests.benchmarks.frontier.comparable import plain, points
from tests.benchmarks.frontier.criteria import CRITERIA, judged
from tests.benchmarks.frontier.page import PAGE, cells, page, read, remeasured, wide
from tests.benchmarks.frontier.settings import METHODS, TRANSFORMS, grid
from tests.benchmarks.frontier.tables import WITH_RULES, capped, costs, halves, load, trial
from tests.benchmarks.populations import POPULATIONS, broken

KINDS = {"x": "numerical", "y": "numerical", "c": "categorical"}
HALVES = {"shapes": 0.99, "told_apart": 0.5, "survival": 0.03, "survival_by": 0.1, "copies": 0.002, "membership": 0.5}
HALVES |= {"membership_units": 0.5, "broken": 0.0}
GOOD = HALVES | {"shapes": 0.999, "linked": 0.002, "singling_surely": -0.01, "singling_many_surely": 0.0}


def table(rows, seed=0):
    """y follows x, c follows the sign of x; a tenth of y is null."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    y = np.where(rng.random(rows) < 0.1, np.nan, 2 * x + 0.1 * rng.standard_normal(rows))
    return plain(pd.DataFrame({"x": x, "y": y, "c": np.where(x > 0, "up", "down")}), KINDS)


def test_sequential_cart_takes_donor_values_keeps_relations():
    original = table(2_000)
    made = cart.sequential_cart(original, KINDS, np.random.default_rng(1))
    assert len(made) == len(original)
    for name in KINDS:
        assert made[name].isin(original[name]).all()
    assert ((made["x"] > 0) == (made["c"] == "up")).mean() > 0.99
    assert abs(made["y"].isna().mean() - 0.1) < 0.03
    assert made["x"].corr(made["y"]) > 0.9
    assert measures.told_apart(original, made, KINDS) < 0.55


def test_donors_are_of_the_same_leaf_and_all_of_them_are_drawn():
    known, new = np.array([7, 3, 7, 5, 3]), np.repeat([3, 5, 7], 50)
    donors = cart._donors(known, new, np.random.default_rng(0))
    assert (known[donors] == new).all()
    assert set(donors) == {0, 1, 2, 3, 4}


def test_halves_share_no_row_lose_none_and_are_the_same_again():
    frame = pd.DataFrame({"row": range(1_001)})
    kept, control = halves(frame, 0.7, 5)
    assert (len(kept), len(control)) == (701, 300)
    assert sorted([*kept["row"], *control["row"]]) == list(range(1_001))
    assert kept.equals(halves(frame, 0.7, 5)[0])
    assert not kept.equals(halves(frame, 0.7, 6)[0])
    assert len(capped(frame, 100, 1)) == 100
    assert capped(frame, 2_000, 1) is frame


def test_the_survival_curve_is_that_of_statsmodels():
    rng = np.random.default_rng(3)
    time, event = rng.integers(1, 20, 300).astype(float), rng.random(300) < 0.6
    times, alive, risk = measures.survival(time, event)
    other = SurvfuncRight(time, event.astype(int))
    at = np.searchsorted(times, other.surv_times)
    np.testing.assert_allclose(alive[at], other.surv_prob)
    np.testing.assert_array_equal(risk[at], other.n_risk)


def test_survival_errors_are_the_largest_distance_of_the_curves():
    time = np.arange(1.0, 101.0)
    original = pd.DataFrame({"time": time, "dead": "yes", "stage": "one"})
    released = original.assign(time=np.minimum(time + 30, 130.0))
    arguments = "time", ("dead", "yes")
    assert measures.survival_error(original, original, *arguments) == 0
    assert measures.survival_error(original, released, *arguments) == pytest.approx(0.3)
    both = pd.concat([original, original.assign(stage="two")], ignore_index=True)
    shifted = pd.concat([original, released.assign(stage="two")], ignore_index=True)
    assert measures.survival_errors(both, shifted, *arguments, "stage") == pytest.approx((0.15, 0.3))
    assert measures.survival_errors(both, original, *arguments, "stage")[1] == 1.0


def test_cox_coefficients_move_by_standard_errors():
    rng = np.random.default_rng(4)
    x = rng.standard_normal(800)
    kinds = {"x": "numerical", "time": "numerical", "dead": "categorical"}
    original = pd.DataFrame({"x": x, "time": rng.exponential(np.exp(-0.5 * x)), "dead": "True"})
    same = measures.cox_errors(original, original, kinds, "time", ("dead", True))
    broken = measures.cox_errors(original, original.assign(x=rng.permutation(x)), kinds, "time", ("dead", True))
    assert same == (0, 0)
    assert broken[0] > 5


def test_attacks_find_copies_and_nothing_in_another_sample():
    original, control, other = table(600, 1), table(400, 2), table(600, 3)
    assert measures.copies(original, original) == 1
    assert measures.copies(original, other) == 0
    assert measures.membership(original, control, original, KINDS)[0] > 0.98
    assert measures.told_apart(original, other, KINDS) == pytest.approx(0.5, abs=0.08)
    assert measures.told_apart(original, other.assign(y=other["y"].abs()), KINDS) > 0.7


def test_points_are_ranks_categories_as_far_apart_as_ends():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 1_000.0], "c": ["a", "b", "a", "a"]})
    more = pd.DataFrame({"x": [2.5, np.nan, -9.0], "c": ["a", "b", "other"]})
    found, other = points([frame, more], {"x": "numerical", "c": "categorical"})
    np.testing.assert_allclose(found[:, 0], [0.125, 0.375, 0.625, 0.875])
    np.testing.assert_allclose(other[:, :2], [[0.5, 0], [0.5, 1], [0.125, 0]])
    assert np.linalg.norm(found[0, 2:] - found[1, 2:]) == pytest.approx(1)
    assert np.linalg.norm(found[0, 2:] - other[2, 2:]) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_membership_is_chance_for_a_table_of_others(seed):
    """Also where members and released rows are as many: no measure by the members' own ranks."""
    area, low, high = measures.membership(*(table(500, 10 * seed + at) for at in range(3)), KINDS)
    assert abs(area - 0.5) < 1.7 * (high - low) / 2
    assert high - low < 0.09


WORSE = {
    "column shapes": {"shapes": 0.994}, "told apart (AUC), distance from two halves": {"told_apart": 0.44},
    "survival error, overall": {"survival": 0.031}, "survival error, worst category": {"survival_by": 0.11},
    "re-identification": {"linked": 0.011}, "membership (AUC)": {"membership": 0.521},
    "singling out, one column: low end beyond control": {"singling_surely": 0.001},
    "singling out, four columns: low end beyond control": {"singling_many_surely": 0.001},
    "exact copies": {"copies": 0.003}, "membership of whole units (AUC)": {"membership_units": 0.521},
    "rows that break a rule": {"broken": 0.0001},
}  # fmt: skip


@pytest.mark.parametrize("title", [one.title for one in CRITERIA])
def test_each_criterion_fails_alone(title):
    assert all(one.passed for one in judged(GOOD, HALVES))
    assert [one.title for one in judged(GOOD | WORSE[title], HALVES) if not one.passed] == [title]


def test_what_is_not_measured_does_not_pass():
    without = {name: value for name, value in GOOD.items() if name != "linked"}
    [one] = [one for one in judged(without, HALVES) if one.title == "re-identification"]
    assert (one.passed, one.outcome) == (False, "not measured")
    some = {"survival", "survival_by", "membership_units", "broken"}
    plain_halves = {name: value for name, value in HALVES.items() if name not in some}
    assert {one.measure for one in judged(GOOD, HALVES)} - {one.measure for one in judged(GOOD, plain_halves)} == some


@pytest.mark.parametrize("made", [costs, trial])
def test_every_setting_is_a_job_on_the_made_tables(made, tmp_path):
    from anonpipe.job.model import load_job

    one = made(2_000)
    one.frame.to_parquet(tmp_path / "table.parquet")
    (tmp_path / "job.yaml").write_text(propose_job(str(tmp_path / "table.parquet"), "out", 5))
    tried = list(grid())
    more = {"default of init": 1, "generalize": 1}
    assert len(tried) == sum(len(ks) * more.get(method, len(TRANSFORMS)) for method, ks, _ in METHODS)
    assert len({(setting.method, setting.k) for setting in tried}) == len(tried)
    for setting in tried:
        given = [*one.settings, *setting.changes_of(one.numbers)]
        job = load_job(tmp_path / "job.yaml", dict(map(parse_setting, given)))
        assert job.k == setting.k
        assert parse_job(job.model_dump(mode="json")) == job


def in_units(first, rows=90):
    """Units of one to four rows, whose number no row of another part has."""
    size = np.arange(rows) % 4 + 1
    return pd.DataFrame({"unit": np.repeat(np.arange(first, first + rows), size)}).assign(row=lambda t: t.index)


def test_units_stay_whole_and_in_order_in_every_split(tmp_path):
    frame = in_units(0)
    mixed = frame.sample(frac=1, random_state=0)
    for parts in (halves(mixed, 0.7, 3, "unit"), (capped(mixed, 100, 1, "unit"), mixed)):
        assert parts[0]["unit"].nunique() == (63 if len(parts[1]) < len(mixed) else 40)
        for unit, rows in parts[0].groupby("unit"):
            assert [*rows["row"]] == [*mixed["row"][mixed["unit"] == unit]]
    (tmp_path / "releases").mkdir()
    frame.to_parquet(tmp_path / "original.parquet")
    in_units(500).to_parquet(tmp_path / "control.parquet")
    peers.make_baselines(tmp_path, 2, "unit")
    for told in (tmp_path / "releases").glob("*.json"):
        about = json.loads(told.read_text())
        sides = [pd.read_parquet(tmp_path / about[key]) for key in ("original", "control", "released") if key in about]
        assert not set(sides[0]["unit"]) & set(sides[1]["unit"])
        assert [side["unit"].nunique() for side in sides] == [45, 45]
        assert sum(map(len, sides)) == len(frame)


def test_whole_units_are_recognised_where_single_rows_are_not():
    """Rows of other persons side by side: each is a member's, no unit is."""
    rng = np.random.default_rng(0)
    rows = [pd.DataFrame({"x": rng.standard_normal(1_200), "y": rng.standard_normal(1_200)}) for _ in range(2)]
    key = pd.Series(np.repeat(np.arange(400), 3))
    mixed = rows[0].sample(frac=1, random_state=1).reset_index(drop=True)
    kinds = {"x": "numerical", "y": "numerical"}
    assert measures.membership(rows[0], rows[1], mixed, kinds)[0] > 0.95
    assert measures.membership_of_units((rows[0], rows[1], mixed), (key, key, key)) == pytest.approx(0.5, abs=0.08)
    whole = rows[0].loc[np.repeat(rng.permutation(400), 3) * 3 + np.tile([0, 1, 2], 400)]
    assert measures.membership_of_units((rows[0], rows[1], whole), (key, key, key)) > 0.95


def test_rows_of_a_unit_do_not_tell_which_table_they_are_of():
    """Other persons of the same population: what repeats in a person's rows gives both tables away otherwise."""

    def persons(seed):
        born, noise = np.random.default_rng(seed).standard_normal((2, 1_200))
        return pd.DataFrame({"born": born[:300].repeat(4), "x": noise}), pd.Series(np.arange(300).repeat(4))

    (one, its), (other, others) = persons(1), persons(2)
    kinds = {"born": "numerical", "x": "numerical"}
    assert measures.told_apart(one, other, kinds) > 0.57
    assert measures.told_apart(one, other, kinds, units=(its, others)) == pytest.approx(0.5, abs=0.04)
    assert measures.told_apart(one, other + 3, kinds, units=(its, None)) > 0.95


@pytest.mark.parametrize("name", WITH_RULES)
def test_broken_rules_are_counted_in_rows_of_all_tools(tmp_path, name):
    from tests.benchmarks.frontier.releases import count_broken

    table = load(name, 1)
    column = next(each for each in ("net", "income", "employees") if each in table.kinds)
    worse = table.frame.copy()
    worse.loc[:9, column] += 1
    (tmp_path / "releases").mkdir()
    for about, frame in (("own", table.frame), ("worse", worse), ("peer", plain(worse, table.kinds))):
        frame.to_parquet(tmp_path / "releases" / f"{about}.parquet")
        told = {"released": f"releases/{about}.parquet", "figures": {"shapes": 1.0}}
        (tmp_path / "releases" / f"{about}.json").write_text(json.dumps(told))
    count_broken(tmp_path, table)
    found = {told.stem: json.loads(told.read_text())["figures"] for told in (tmp_path / "releases").glob("*.json")}
    assert found["own"] == {"shapes": 1.0, "broken": 0.0}
    assert found["worse"]["broken"] == found["peer"]["broken"] == 10 / len(worse)


def test_order_of_years_is_a_rule_of_whole_units():
    table = load("panel", 1)
    assert broken(table.frame, table.checks) == 0
    assert broken(table.frame.iloc[::-1], table.checks) > 0.5
    assert broken(table.frame.iloc[::-1].drop(columns="person"), table.checks) == 0


@pytest.mark.parametrize("name", WITH_RULES)
def test_a_steward_s_rules_unit_and_weight_are_in_the_job(tmp_path, name):
    from anonpipe.job.model import load_job

    table, known = load(name, 1), POPULATIONS[name](300, np.random.default_rng(0))
    table.frame.to_parquet(tmp_path / "table.parquet")
    (tmp_path / "job.yaml").write_text(propose_job(str(tmp_path / "table.parquet"), "out", 5))
    for setting in grid(["local_synthesis, normal scores", "mdav + micro_perturbation"], [5]):
        given = [*table.settings, *setting.changes_of(table.numbers)]
        job = load_job(tmp_path / "job.yaml", dict(map(parse_setting, given)))
        assert [*job.rules] == [*known.rules]
        for role, column in (("unit", known.unit), ("sampling_weight", known.weight)):
            assert [each for each, said in job.columns.items() if said.role == role] == [column] * bool(column)
    assert table.unit not in table.kinds


def test_new_tables_join_the_stored_cells():
    figures = {"who": "anonpipe", "method": METHODS[0][0], "k": 5, "refused": False, **GOOD, "copies": 0.003}
    half = {"who": "baseline", "method": show.HALVES, "k": 0, "refused": False, **HALVES}
    both = [figures | {"table": "old"}, half | {"table": "old"}]
    stored = cells(pd.DataFrame(both))
    again = pd.DataFrame(
        [both[0] | {"shapes": 0.9}, figures | {"table": "new"}, half | {"table": "new", "copies": 1.0}]
    )
    found = remeasured(again, stored).set_index(["table", "method", "measure"])
    assert found.index.is_unique
    assert [*found.loc[("old", METHODS[0][0], "shapes"), ["value", "outcome"]]] == ["0.9000", "missed"]
    assert found.loc[("old", METHODS[0][0], "copies"), "outcome"] == "missed"
    assert found.loc[("new", METHODS[0][0], "copies"), "outcome"] == "met"
    assert found.loc[("new", show.HALVES, "copies"), "value"] == "1.0000"


def test_the_stored_cells_are_rows_of_settings_again():
    made = wide(read())
    assert set(made["who"]) == {"anonpipe", "peer", "baseline"}
    assert not made.duplicated(["table", "method", "k"]).any()
    row = made[(made["table"] == "pima") & (made["method"] == "SDV Gaussian copula")].iloc[0]
    cell = read().set_index(["table", "method", "measure"]).loc[("pima", "SDV Gaussian copula", "pairs"), "value"]
    assert (row["who"], row["k"], row["refused"], row["pairs"]) == ("peer", 0, False, float(cell))


def test_baselines_share_no_row_with_their_counterpart(tmp_path):
    (tmp_path / "releases").mkdir()
    for name, first in (("original", 0), ("control", 700)):
        pd.DataFrame({"row": range(first, first + 300)}).to_parquet(tmp_path / f"{name}.parquet")
    peers.make_baselines(tmp_path, 2)
    for told in (tmp_path / "releases").glob("*.json"):
        about = json.loads(told.read_text())
        first, second = (key for key in ("original", "control", "released") if key in about)
        rows = [set(pd.read_parquet(tmp_path / about[key])["row"]) for key in (first, second)]
        assert not rows[0] & rows[1]
        assert len(rows[0] | rows[1]) == 300


@pytest.mark.parametrize("torch", [None, "there"])
def test_deep_peers_are_made_where_torch_is(tmp_path, monkeypatch, torch):
    def made(original, kinds, draw):
        return original.iloc[draw:]

    (tmp_path / "releases").mkdir()
    table(20).to_parquet(tmp_path / "original.parquet")
    monkeypatch.setattr(peers, "find_spec", {"torch": torch}.get)
    monkeypatch.setattr(peers, "PEERS", {"tree": made})
    monkeypatch.setattr(peers, "DEEP", {"deep": made})
    peers.make_peers(tmp_path, KINDS, 2)
    found = {json.loads(told.read_text())["method"] for told in (tmp_path / "releases").glob("*.json")}
    assert found == ({"tree", "deep"} if torch else {"tree"})
    assert len(pd.read_parquet(tmp_path / "releases" / "tree,_1.parquet")) == 19


def test_tables_and_map_are_made_of_what_was_judged(tmp_path):
    releases = tmp_path / "pima" / "releases"
    releases.mkdir(parents=True)
    told = {"table": "", "k": None, "refused": False, "seconds": 1.0, "released": "x.parquet"}
    first = METHODS[0][0]
    for draw, shapes in enumerate((0.99, 0.999)):
        more = {"pairs": 0.9, "singling": 0.01, "singling_many": 0.02}
        more |= {f"{name}_attack": 0.2 for name in ("singling", "singling_many")}
        more |= {"singling_control": 0.1, "singling_many_control": 0.16}
        more |= {f"{name}_{who}_error": 0.05 for name in ("singling", "singling_many") for who in ("attack", "control")}
        for who, method, k in (("anonpipe", first, 5), ("peer", "cart", None), ("baseline", show.HALVES, None)):
            about = told | {"who": who, "method": method, "k": k, "draw": draw, "linked": 0.002}
            about |= {"table": "pima", "refused": who == "anonpipe" and draw == 1}
            about["figures"] = GOOD | more | {"shapes": shapes}
            (releases / f"{method}{draw}.json").write_text(json.dumps(about))
    failed = told | {"table": "pima", "who": "anonpipe", "method": "noise", "k": 5, "draw": 0, "problem": "no way"}
    (releases / "noise.json").write_text(json.dumps(failed))
    figures = show.collect(tmp_path)
    made = show.summary(figures)
    own = made[made["method"] == first].iloc[0]
    assert own["shapes"] == pytest.approx(0.9945)
    assert own["shapes_half"] == pytest.approx(12.706 * 0.0045, rel=1e-3)
    assert own["refused"]
    text = show.text(made, figures)
    assert f"{first}, k=5 (r)" in text
    assert "noise, k=5: not made. no way" in text
    found = show.criteria_of_all(made)
    assert [*made["singling_surely"]] == pytest.approx([0.05] * 3)  # 0.2 - 0.1 less the error of two draws of 0.071
    assert [*made["singling_many_surely"]] == pytest.approx([-0.01] * 3)
    failed = [*found[found["outcome"] == "failed"]["criterion"]]
    assert failed == ["column shapes", "singling out, one column: low end beyond control"]
    assert f"{first}, k=5" in show.criteria_text(found)
    told = page(cells(made))
    assert f"| {first}, k=5 | 1/1 | 0.9945 | 0.500 |" in told
    assert f"| {first}, k=5 | 0/1 | 1/1 |" in told
    assert "| cart | 0/1 | 1/1 |" in told
    own_cells = cells(made).set_index(["method", "measure"])
    assert [*own_cells.loc[(first, "shapes"), ["value", "half", "outcome"]]] == ["0.9945", "0.0572", "missed"]
    assert own_cells.loc[(first, "linked"), "outcome"] == "met"
    show.draw_map(made, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"


def test_the_page_shows_the_stored_figures():
    """`python -m tests.benchmarks.frontier.page` writes it again."""
    assert PAGE.read_text(encoding="utf-8") == page(read())


def test_a_column_that_is_not_released_goes_with_its_settings():
    whole = trial(500)
    left = whole.without(["nodes"])
    assert "nodes" in whole.kinds
    assert "nodes" not in left.kinds
    assert "nodes" not in left.frame
    assert set(whole.settings) - set(left.settings) == {"columns.nodes.bounds=[0, null]"}


def _literal_shapes(original, released):
    """One minus the largest distance of the distributions; of categories, one minus the total variation."""
    found = []
    for name, kind in known_cases.KINDS.items():
        one, other = original[name].dropna(), released[name].dropna()
        at = np.unique(np.concatenate([one, other])) if kind != "categorical" else sorted({*one, *other})
        if kind == "categorical":
            found.append(1 - sum(abs((one == value).mean() - (other == value).mean()) for value in at) / 2)
        else:
            found.append(1 - max(abs((one <= value).mean() - (other <= value).mean()) for value in at))
    return found


@pytest.mark.skipif(not JUDGES.exists(), reason="the judges' environment is not there")
def test_other_tools_find_what_is_known():
    command = [JUDGES, "-m", "tests.benchmarks.frontier.known_cases"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    shapes = _literal_shapes(known_cases.table(1_000, 1), known_cases.table(800, 4, spread=1.5))
    assert found["sdmetrics"]["shapes"] == pytest.approx(np.mean(shapes), abs=1e-9)
    assert found["sdmetrics"]["worst_shape"] == pytest.approx(min(shapes), abs=1e-9)
    for attack in ("singling", "singling_many", "linkability", "inference"):
        assert found["itself"][f"{attack}_low"] > 0.1
        assert found["another"][f"{attack}_low"] == 0
    assert found["copula"] == [True, False, 1_000, 1_000, 1_000]
    assert found["copula's shapes"] > 0.95


def test_what_was_begun_with_other_options_is_not_gone_on_with(tmp_path):
    from tests.benchmarks.frontier.__main__ import _same

    _same(tmp_path, {"rows": 10, "seed": 1})
    _same(tmp_path, {"rows": 10, "seed": 1})
    with pytest.raises(SystemExit, match="begun with"):
        _same(tmp_path, {"rows": 20, "seed": 1})


def test_a_refused_setting_is_looked_at_with_open_gates(tmp_path):
    """No row is lost, the same secret gives the same table, and what exists is not made again."""
    from tests.benchmarks.frontier.releases import prepare, release
    from tests.benchmarks.frontier.settings import Setting

    table = prepare(tmp_path, costs(500), seed=1)
    for changes, refused in (((), False), (("gates.local_suppression_rate=0",), True)):
        setting = Setting(f"tried, refused: {refused}", 5, changes)
        about = release(tmp_path, table, setting, 0)
        assert about["refused"] is refused
        assert len(pd.read_parquet(tmp_path / about["released"])) == 350
        assert 0 < about["linked"] < 0.5
        assert release(tmp_path, table, setting, 0) == about
