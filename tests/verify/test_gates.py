"""Each gate passes where it should, and fails where one thing is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from anonpipe.columns import Column
from anonpipe.encoding.cells import Tally
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import LossBound, class_disclosure
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.record import Guarantee
from anonpipe.methods.synthesis import METHODS, synthesize
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, PairwiseMoments, merge_all, noise_factor, s_delta
from anonpipe.verify.catalogue import GATES, MEASURED, Check, Outcome, held, worst_entry, worst_of
from anonpipe.verify.expectations import Scanned, StagingCheck, Target, build_view
from anonpipe.verify.gates import ClassConditions, Evidence, GroupEvidence, MaskEvidence
from anonpipe.verify.gates import judge as judge_evidence
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import line
from tests.in_memory import mask

NOTHING = ClassConditions(None, "distinct", None, "total_variation")
LIMITS = {name: gate.default for name, gate in GATES.items() if name not in MEASURED}
COLUMNS = {"x": Column(kind="continuous"), "y": Column(kind="continuous"), "c": Column(kind="binary", role="key")}


GROUPS = ("smallest_group", "bound", "classes", "spread", "grouped", "scopes")


@dataclass(frozen=True)
class Expectation:
    """A synthesizer, and whether its noise is that of the stratum."""

    method: str
    form: str | None
    strata: bool

    @property
    def guarantee(self) -> Guarantee:
        """What its record guarantees."""
        record, scope = METHODS[self.method], {"noise_scope": "stratum" if self.strata else "table"}
        options = {record.forms: self.form} if self.form else {}
        return record.guarantee(record.options(method=self.method, **options, **(scope if record.noise else {})))


def judge(evidence, expectation, k, limits, asked):
    """The verdict where this was promised and asked."""
    return judge_evidence(
        replace(evidence, by=replace(evidence.by, guarantee=expectation.guarantee, asked=asked)), k, limits
    )


def tally(cells: np.ndarray) -> Tally:
    """What cells of two numbers and, where there is a third column, a category hold."""
    numbers = np.pad(cells[:, :2], ((0, 0), (0, cells.shape[1] - 2)))
    codes = {2: np.bincount(cells[:, 2].astype(int), minlength=3)} if cells.shape[1] > 2 else {}
    n = np.array([len(cells), len(cells), 0])[: cells.shape[1]]
    mean = numbers.mean(axis=0)
    return Tally(len(cells), n.astype(float), mean, np.square(numbers - mean).sum(axis=0), codes)


def evidence(expectation: Expectation, seed: int = 1, n: int = 4000, **changes) -> Evidence:
    """What an honest run of two strata measures."""
    rng = np.random.default_rng(seed)
    original, released, grouped, made, spread = [], [], [], [], []
    c = np.repeat([0.0, 1.0], [n // 4, n - n // 4])
    x = rng.normal(size=n) + c
    cells = np.column_stack([x, 0.5 * x + rng.normal(size=n), c])
    mean, sd = cells.mean(axis=0), cells.std(axis=0, ddof=1)
    counts = {"c": np.bincount(c.astype(int))}
    view = build_view(COLUMNS, dict(zip("xy", mean, strict=False)), dict(zip("xy", sd, strict=False)), counts)
    features = (cells[:, :2] - mean[:2]) / sd[:2]
    labels = [np.arange(np.sum(c == at)) // 5 for at in (0, 1)]
    groups = [sort_groups(part) for part in labels]
    whole = [GroupedMoments.of(features[c == at], *groups[at]) for at in (0, 1)]
    factor = None
    if expectation.method == "micro_perturbation":
        factor = noise_factor(s_delta(whole[0].merge(whole[1]), expectation.form))
    for at in (0, 1):
        options = {"form": expectation.form, "factor": factor} if factor is not None else {}
        if expectation.method == "pca":
            options = {"moments": expectation.form} | ({"n_table": n} if expectation.form == "expected" else {})
        new = synthesize(features[c == at], *groups[at], expectation.method, rng=rng, **options)
        back = np.column_stack([new * sd[:2] + mean[:2], c[c == at]])
        original.append(PairwiseMoments.of(view.measure(cells[c == at])))
        released.append(PairwiseMoments.of(view.measure(back)))
        grouped.append(whole[at])
        made.append(Moments.of(new))
        spread.append(GroupSpread.of(features[c == at], *groups[at]))
    strata = tuple(tally(cells[c == at]) for at in (0, 1))
    content = {
        "staging_check": StagingCheck(tally(cells), strata, (strata, strata), {}, ()),
        "rows_in": n, "rows_held_out": 0, "rows_dropped": 0, "rows_out": n, "rows_under_k": 0,
        "unchanged_records": 0, "equal_by_chance": 0, "chance_variance": 0,
        "suppressed": (0.0, ""), "handed_on": (0, ""), "unchanged": ("c",),
        "released_names": ("x", "y", "c"), "forbidden_names": ("id",), "beyond_limits": 0, "files": 1, "view": view,
        "feature_columns": (0, 1, None), "splits_ties": True,
        "original": original, "released": released, "synthesized": made,
    }  # fmt: skip
    told = {
        "guarantee": expectation.guarantee, "identical": expectation.method == "centroid", "asked": NOTHING,
        "smallest_group": 5, "grouped": whole, "bound": LossBound(3.0, None),
        "classes": {"c": class_disclosure(np.arange(n) // 5, np.arange(n) % 5 // 3)},
        "spread": spread if expectation.form == "expected" else None,
        "scopes": [0, 1] if expectation.strata else [0, 0],
    }  # fmt: skip
    by = GroupEvidence(**(told | {name: changes.pop(name) for name in list(changes) if name in GROUPS}))
    return Evidence(**(content | changes), by=by)


def masked(method="spectral_swap", **options):
    """What an honest run of a masker measures; there are no groups."""
    honest = evidence(EXPECTATIONS[0])
    rng, masker = np.random.default_rng(3), MASKERS[method]
    features = rng.normal(size=(4000, 2)) @ np.array([[1.0, 0.4], [0.0, 0.8]])
    made = mask(features, method, rng=rng, **options)
    total = Moments.of(features)
    view = build_view({"x": COLUMNS["x"], "y": COLUMNS["y"]}, dict.fromkeys("xy", 0.0), dict.fromkeys("xy", 1.0), {})
    expected = masker.expect(total, **options) if masker.expect else None
    return replace(
        honest, view=view, feature_columns=(0, 1), original=[PairwiseMoments.of(features)],
        released=[PairwiseMoments.of(made)], synthesized=[Moments.of(made)],
        by=MaskEvidence(method, [Target(total, expected)], 0 if masker.exact_columns else None, None),
        staging_check=StagingCheck(tally(features), (tally(features),), ((tally(features),),) * 2, {}, ()),
    )  # fmt: skip


EXPECTATIONS = [
    Expectation("centroid", None, True),
    Expectation("gaussian", "exact", True),
    Expectation("pca", "exact", True),
    Expectation("pca", "expected", False),
    Expectation("micro_perturbation", "independent", False),
    Expectation("micro_perturbation", "centred", False),
    Expectation("micro_perturbation", "published", False),
]


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda p: f"{p.method}-{p.form}")
def test_honest_runs_pass(expectation):
    verdict = judge(evidence(expectation), expectation, 5, LIMITS, NOTHING)
    assert verdict.passed, [check for check in verdict.lines if check.outcome is Outcome.FAILED]
    assert {check.outcome for check in verdict.checks if check.mandatory} == {Outcome.PASSED}
    assert any(check.on.startswith("1 written file") for check in verdict.lines)
    assert Verdict.from_dict(verdict.to_dict()) == verdict


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"rows_out": 3999}, "rows lost"),
        ({"rows_out": 4001}, "rows lost"),
        ({"smallest_group": 4}, "smallest group"),
        ({"forbidden_names": ("y",)}, "identifiers or dropped"),
        ({"beyond_limits": 1}, "outside declared"),
        ({"rows_under_k": 1}, "records below k = 5"),
        ({"unchanged_records": 41}, "replicated records"),
        ({"unchanged_records": 81, "equal_by_chance": 40}, "replicated records"),
        ({"suppressed": (0.051, "c")}, "local-suppression rate"),
    ],
)
def test_one_wrong_count_fails_its_gate_alone(change, failing):
    expectation = EXPECTATIONS[1]
    verdict = judge(evidence(expectation, **change), expectation, 5, LIMITS, NOTHING)
    failed = [check.name for check in verdict.lines if check.outcome is Outcome.FAILED]
    assert not verdict.passed and len(failed) == 1 and failing in failed[0]


def test_small_error_in_exact_method_fails_until_decoding():
    expectation, honest = EXPECTATIONS[1], evidence(EXPECTATIONS[1])
    shifted = [replace(part, mean=part.mean + 1e-7) for part in honest.synthesized]
    verdict = judge(replace(honest, synthesized=shifted), expectation, 5, LIMITS, NOTHING)
    failed = {check.name for check in verdict.lines if check.outcome is Outcome.FAILED}
    assert failed == {
        "mean, deviation from its expected value",
        "mean in each stratum, deviation from its expected value",
    }


def test_the_published_form_passed_off_as_unbiased_is_caught():
    independent = Expectation("micro_perturbation", "independent", False)
    biased = evidence(Expectation("micro_perturbation", "published", False), n=40_000)
    verdict = judge(biased, independent, 5, LIMITS, NOTHING)
    assert "covariance, deviation from its expected value" in {
        c.name for c in verdict.lines if c.outcome is Outcome.FAILED
    }


def test_a_swapped_written_column_fails_the_covariance():
    expectation, honest = EXPECTATIONS[1], evidence(EXPECTATIONS[1])
    released = [replace(part, cross=part.cross * 1.2) for part in honest.released]
    verdict = judge(replace(honest, released=released), expectation, 5, LIMITS, NOTHING)
    assert any(c.name.startswith("covariance") and c.outcome is Outcome.FAILED for c in verdict.lines)


def test_what_cannot_be_measured_fails():
    for key in ("mean", "group.smallest"):  # at most, and at least
        assert held(key, float("nan"), 1.0).outcome is Outcome.FAILED
        assert held(key, None, 1.0).outcome is Outcome.FAILED
    assert held("mean", None, None).outcome is Outcome.NOT_CHECKED
    assert not Verdict((held("mean", None, None),)).passed
    assert Verdict((held("null_share", None, None),)).passed
    assert not Verdict((Check("what no version knows", Outcome.NOT_CHECKED),)).passed


@pytest.mark.parametrize(
    ("asked", "failing"),
    [
        (ClassConditions(2, "distinct", 0.3, "total_variation"), []),
        (ClassConditions(1.9, "entropy", 0.3, "ordered"), []),
        (ClassConditions(3, "distinct", None, "total_variation"), ["distinct l-diversity of 'c'"]),
        (ClassConditions(1.99, "entropy", 0.1, "ordered"), ["entropy l-diversity of 'c'", "t-closeness of 'c'"]),
    ],
)
def test_conditions_on_classes(asked, failing):
    """Three records of one class and two of the other in every group; in the table it is two to three."""
    expectation = EXPECTATIONS[0]
    told = class_disclosure(np.arange(4000) // 5, np.arange(4000) % 5 // 3, np.array([0.4, 0.6]))
    verdict = judge(evidence(expectation, classes={"c": told}), expectation, 5, LIMITS, asked)
    failed = [check for check in verdict.lines if check.outcome is Outcome.FAILED]
    assert [check.name.startswith(name) for check, name in zip(failed, failing, strict=True)] == [True] * len(failing)
    assert all(check.mandatory for check in failed)
    assert any("sensitive 'c': 0.00 % of the records" in note for note in verdict.notes)


def test_the_loss_is_told_with_its_bound():
    expectation = EXPECTATIONS[0]
    exact = judge(evidence(expectation), expectation, 5, LIMITS, NOTHING).notes[0]
    assert "lower bound of any grouping with this k 3.00 % (exact neighbours of every record)" in exact
    sampled = judge(evidence(expectation, bound=LossBound(2.5, 128)), expectation, 5, LIMITS, NOTHING).notes[0]
    assert "2.50 % (exact neighbours of 128 records, confidence 99%)" in sampled
    assert "averaged" in judge(evidence(expectation, bound=None), expectation, 5, LIMITS, NOTHING).notes[0]


MASKS = [
    ("noise", {}),
    ("noise", {"form": "exact"}),
    ("spectral_swap", {}),
    ("synthesis", {}),
    ("suppression", {"share": 0.3}),
    ("sequential_regression", {}),
    ("data_shuffle", {}),
]


@pytest.mark.parametrize(("method", "options"), MASKS)
def test_honest_maskers_pass_without_a_word_of_groups(method, options):
    verdict = judge_evidence(masked(method, **options), 5, LIMITS)
    assert verdict.passed, [check for check in verdict.lines if check.outcome is Outcome.FAILED]
    names = [check.name for check in verdict.lines]
    assert not any("group" in name or "stratum" in name for name in names)
    assert any("forms no groups" in note for note in verdict.notes)
    assert ("covariance, deviation from its expected value" in names) == (method != "data_shuffle")
    assert ("columns that hold other values than guaranteed" in names) == (method == "data_shuffle")


def failures(evidence):
    return [check.name for check in judge_evidence(evidence, 5, LIMITS).lines if check.outcome is Outcome.FAILED]


def test_what_a_masker_promises_exactly_is_held_exactly():
    honest = masked("noise", form="exact")
    assert honest.by.whole.expected.covariance_error.max() == 0
    shifted = replace(honest, synthesized=[replace(p, mean=p.mean + 1e-7) for p in honest.synthesized])
    assert failures(shifted) == ["mean, deviation from its expected value"]
    wider = replace(honest, synthesized=[replace(p, scatter=p.scatter * (1 + 1e-7)) for p in honest.synthesized])
    assert failures(wider) == ["covariance, deviation from its expected value"]


def test_plain_noise_passed_off_as_corrected_is_caught():
    honest = masked("noise")
    plain = replace(honest, synthesized=[replace(p, scatter=p.scatter * 1.15) for p in honest.synthesized])
    assert "covariance, deviation from its expected value" in failures(plain)


def test_a_masker_that_loses_a_value_or_a_twin_is_caught():
    honest = masked("data_shuffle")
    assert failures(replace(honest, by=replace(honest.by, columns_changed=1))) == [
        "columns that hold other values than guaranteed"
    ]
    alike = replace(honest, by=replace(honest.by, columns_changed=None, fewest_alike=4))
    assert failures(alike) == ["smallest set of rows equal in all synthetic columns"]
    assert failures(replace(alike, by=replace(alike.by, fewest_alike=5))) == []


def test_without_promise_written_rows_are_held_to_gates_alone():
    honest = masked("data_shuffle")
    assert not any(allowed.any() for allowed in honest.by.whole.allowance)
    moved = replace(honest, released=[replace(part, cross=part.cross * 1.2) for part in honest.released])
    assert failures(moved) == ["covariance"]


def test_each_covariance_is_held_to_its_own_limit():
    """Of two columns one is masked strongly: what its variance may differ by is not allowed to the other's."""
    honest = evidence(Expectation("micro_perturbation", "independent", False), n=400)
    wide = replace(honest.by.grouped[0], within=honest.by.grouped[0].within * np.array([[1.0, 0.0], [0.0, 0.01]]))
    uneven = replace(honest, by=replace(honest.by, grouped=[wide, wide]))
    uneven = replace(uneven, synthesized=[Moments(p.total.n, p.total.mean, p.total.scatter) for p in (wide, wide)])
    allowed = uneven.by.whole.allowance[1]
    assert allowed[0, 0] > 2 * allowed[1, 1]
    limit = LIMITS["covariance"]
    off = (allowed[1, 1] + limit + allowed[0, 0] + limit) / 2
    assert off < allowed[0, 0] + limit  # the largest of all limits would let it pass
    whole = merge_all(uneven.original)
    moved = whole.cross.copy()
    moved[1, 1] += off * whole.covariance[1, 1] * (whole.rows - 1)
    moved[0, 0] += 0.9 * allowed[0, 0] * whole.covariance[0, 0] * (whole.rows - 1)
    uneven = replace(uneven, original=[whole], released=[replace(whole, cross=moved)])
    told = {check.name: check for check in judge_evidence(uneven, 5, LIMITS).lines}
    assert told["covariance"].outcome is Outcome.FAILED
    assert told["covariance"].on == "1 written file, most in column 'y'"
    assert told["covariance"].measured == f"{off:.3g} sd x sd"
    assert told["covariance"].limit == f"at most {allowed[1, 1] + limit:.3g} sd x sd"


FILES = {"files": 1}


def test_entry_nearest_its_limit_is_told_with_its_own_limit():
    found = worst_entry("mean", np.array([3.0, 2.0, 0.0]), np.array([9.0, 2.5, 0.0]), (["x", "y", "z"],))
    assert (line(found).measured, line(found).limit) == ("2 sd", "at most 2.5 sd")
    assert found.columns == ("y",) and found.compared == 3 and "column 'y'" in line(replace(found, about=FILES)).on
    assert worst_entry("mean", np.array([1e-300]), np.array([0.0])).outcome is Outcome.FAILED
    assert worst_entry("mean", np.array([5.0, np.nan]), 9.0).outcome is Outcome.FAILED
    assert worst_entry("mean", np.empty(0), 9.0).outcome is Outcome.PASSED
    many = [held("values.beyond", 2_000.0, 4_000.0), held("values.beyond", 1_500.0, 1_600.0), held("mean", 1.0, 2.0)]
    assert line(replace(worst_of(many), about=FILES)).measured == "1,500"


def test_strata_that_share_a_scope_are_held_together():
    expectation = Expectation("micro_perturbation", "independent", True)
    honest = evidence(expectation, scopes=[0, 0])
    assert honest.by.strata == [] and len(evidence(expectation).by.strata) == 2


LOST = "staged data differ from the input: rows, nulls, categories"
MOVED = "staged data differ from the input: means and variances"


def found(honest, stage, **changes):
    """The same where the first stratum was found otherwise in one stage."""
    first, *rest = honest.staging_check.read[stage]
    read = list(honest.staging_check.read)
    read[stage] = (replace(first, **changes), *rest)
    return replace(honest, staging_check=replace(honest.staging_check, read=tuple(read)))


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("mask", [False, True])
def test_staging_rows_unlike_the_scan_fail_mandatory_gates(stage, mask):
    honest = masked("data_shuffle") if mask else evidence(EXPECTATIONS[1])
    first = honest.staging_check.read[stage][0]
    some = np.array([7.0, 0.0, 0.0])[: len(first.n)]
    assert LOST in failures(found(honest, stage, n=first.n - some))
    assert failures(found(honest, stage, rows=first.rows - 1)) == [LOST]
    assert failures(found(honest, stage, mean=first.mean + 1e-6 * some)) == [MOVED]
    assert failures(found(honest, stage, m2=first.m2 * (1 + 1e-6 * some))) == [MOVED]
    assert failures(found(honest, stage, mean=first.mean * (1 + 1e-15))) == []
    if not mask:
        assert failures(found(honest, stage, codes={2: first.codes[2] + np.array([-1, 1, 0])})) == [LOST]
    checks = {check.name: check for check in judge_evidence(honest, 5, LIMITS).lines}
    assert checks[LOST].mandatory and checks[MOVED].mandatory


def test_two_strata_exchanging_rows_fail_though_table_is_same():
    honest = evidence(EXPECTATIONS[1])
    (a, b), other = honest.staging_check.read
    shift = np.array([0.01, 0.0, 0.0])
    moved = (replace(a, mean=a.mean + shift * b.rows), replace(b, mean=b.mean - shift * a.rows))
    assert failures(replace(honest, staging_check=replace(honest.staging_check, read=(moved, other)))) == [MOVED]


def test_damage_shared_with_originals_fails_written_gates_too():
    """A fifth of the values are gone before anything is computed: original and release agree, the scan does not."""
    honest = evidence(EXPECTATIONS[1])
    whole, damaged = merge_all(honest.original), []
    for part in (*honest.original, *honest.released):
        n = part.n.copy()
        n[0, :], n[:, 0] = n[0, :] * 4 // 5, n[:, 0] * 4 // 5
        damaged.append(replace(part, n=n, sums=part.sums * 0.8, cross=part.cross * 0.8))
    assert np.isclose(whole.null_share[0], 0.0)
    shared = replace(honest, original=damaged[:2], released=damaged[2:])
    assert "null shares" in failures(shared) and "covariance" in failures(shared)


def test_columns_counted_alone_gain_no_category_by_drops():
    """Strata of three records were dropped: which categories went with them is not known, but none may have grown."""
    honest = evidence(EXPECTATIONS[1])
    counts = honest.staging_check.table.codes[2]
    unknown = replace(honest.staging_check.table, codes={})
    strata = tuple(replace(part, codes={}) for part in honest.staging_check.strata)
    before = {2: counts + np.array([2, 1, 0])}
    dropped = replace(
        honest, staging_check=replace(honest.staging_check, table=unknown, strata=strata, before_drop=before)
    )
    assert failures(dropped) == []
    for change in ([-1, 0, 0], [-4, 0, 4], [0, -3, 3]):
        codes = {2: dropped.staging_check.read[0][0].codes[2] + np.array(change)}
        assert failures(found(dropped, 0, codes=codes)) == [LOST]


def test_handed_on_value_of_person_fails_and_names_its_column():
    honest = masked("data_shuffle")
    verdict = judge_evidence(replace(honest, handed_on=(1, "x")), 5, LIMITS)
    [failed] = [check for check in verdict.lines if check.outcome is Outcome.FAILED]
    assert failed.mandatory and "reproduced above chance" in failed.name and "column 'x'" in failed.on


def test_what_scan_knows_is_what_is_measured_of_same_cells():
    """Numbers with nulls, an ordinal whose nulls are NaN, categories whose null is one: means, variances, shares."""
    rng = np.random.default_rng(5)
    cells = np.column_stack([rng.normal(3, 2, 300), rng.integers(0, 4, 300), rng.integers(0, 4, 300)]).astype(float)
    cells[:40, 0], cells[cells[:, 1] == 3, 1] = np.nan, np.nan
    columns = {
        "number": Column(kind="continuous"),
        "grade": Column(kind="ordinal", levels=("a", "b", "c")),
        "place": Column(kind="categorical"),
    }
    counts = {1: np.bincount(np.nan_to_num(cells[:, 1], nan=3).astype(int)), 2: np.bincount(cells[:, 2].astype(int))}
    mean, sd = np.nanmean(cells, axis=0), np.nanstd(cells, axis=0)
    told = dict(zip(columns, mean, strict=True)), dict(zip(columns, sd, strict=True))
    view = build_view(columns, *told, {"grade": counts[1], "place": counts[2]})
    there = np.array([260.0, 0, 0])
    whole = Tally(300, there, np.array([mean[0], 0, 0]), np.array([sd[0] ** 2 * 260, 0, 0]), counts)
    known, found = Scanned.of(whole, view, ()), PairwiseMoments.of(view.measure(cells))
    for a, b in (
        (known.mean, found.mean),
        (known.variance, np.diag(found.covariance)),
        (known.null_share, found.null_share),
    ):
        assert np.allclose(a[~np.isnan(a)], b[~np.isnan(a)], rtol=1e-9, atol=1e-12)
        assert np.isnan(a).sum() <= 1  # the nulls of the ordinal, which are in no category
    assert Scanned.of(whole, view, (0,)).null_share[0] == 0.0


def test_what_rules_replaced_is_allowed_what_chance_leads_to():
    honest = replace(masked("data_shuffle"), splits_ties=False)
    moved = replace(honest, moved={"x": (3000, 800)})
    checks = [{check.key: check for check in judge_evidence(each, 5, LIMITS).checks} for each in (honest, moved)]
    before, after = (each["covariance"].limit for each in checks)
    assert before is not None and after is not None and after > before + 0.02

    def failed(evidence, off):
        (released,) = evidence.released
        sums = released.sums + np.array([[off * 4000], [0.0]])  # of the first column, whichever others are there
        shifted = replace(evidence, released=[replace(released, sums=sums)])
        return "mean" in {
            check.key for check in judge_evidence(shifted, 5, LIMITS).checks if check.outcome is Outcome.FAILED
        }

    allowed = LIMITS["mean"] + 4.0556 * np.sqrt(2 * 0.2 / 4000)  # the quantile of 1e-4 / 2 variables, two-sided
    assert failed(honest, LIMITS["mean"] + 0.005) and not failed(honest, LIMITS["mean"] - 0.002)
    assert failed(moved, allowed + 0.003) and not failed(moved, allowed - 0.003)
    other = replace(honest, moved={"y": (3000, 800)})
    assert failed(other, LIMITS["mean"] + 0.005)
