"""What holds for every masker."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import AnonpipeError, InputError, JobError
from anonpipe.methods.masking import MASKERS, Columns, Reduce, Rows
from anonpipe.moments import Moments
from tests.in_memory import mask, run_steps
from tests.methods.masking.tables import KEY, correlated, run, split_tables, splits, tables

OPTIONS = {
    "noise": [{}, {"form": "centred", "amount": 0.1}, {"basis": "columns"}],
    "pram": [{}, {"retain": 0.5}],
    "data_shuffle": [{}],
    "rank_swap": [{}, {"k": 2, "percent": 50.0}],
    "spectral_swap": [{}, {"basis": "columns"}],
    "synthesis": [{}, {"draw": "quantiles"}, {"basis": "columns"}],
    "suppression": [{"share": 0.2, "outside": 2.0}, {"outside": 1.0, "basis": "columns"}],
    "sequential_regression": [{}, {"rounds": 2}],
    "local_synthesis": [{"k": 2, "components": 2, "shape": "diagonal", "iterations": 5}],
    "generalize": [{"k": 2}, {"k": 1, "cuts": "strict", "release": "interval"}],
}
GROUPED = OPTIONS["local_synthesis"][0]
CASES = [(method, options) for method, cases in OPTIONS.items() for options in cases]


def test_every_masker_is_among_the_cases():
    assert set(OPTIONS) == set(MASKERS)


@pytest.mark.parametrize("method", MASKERS)
def test_the_record_describes_exactly_the_options_there_are(method):
    entry = MASKERS[method]
    assert entry.name == method == entry.function.__name__
    assert tuple(entry.about) == tuple(inspect.signature(entry.function).parameters)
    if entry.expect is not None:
        beside = {"moments", "largest"} if entry.permutes else {"moments"}
        named = inspect.signature(entry.expect).parameters
        rest = {name for name, each in named.items() if each.kind is each.VAR_KEYWORD}  # any that decide nothing
        own, every = set(named) - rest, set(entry.about) | beside
        assert own < every if rest else own == every


@pytest.mark.parametrize(("method", "options"), CASES)
def test_steps_have_names_of_their_own(method, options):
    steps = MASKERS[method].steps(**options)
    assert all(isinstance(step, Rows | Columns | Reduce) for step in steps)
    assert len({step.name for step in steps}) == len(steps)


@pytest.mark.parametrize(("method", "options"), CASES)
@given(features=tables(), seed=st.integers(0, 9))
@settings(max_examples=12, deadline=None)
def test_table_is_masked_same_from_same_seed_and_unchanged(method, options, features, seed):
    before = features.copy()
    masked, again = (mask(features, method, rng=np.random.default_rng(seed), **options) for _ in range(2))
    assert np.array_equal(features, before)
    assert np.array_equal(masked, again) and np.isfinite(masked).all()
    assert not np.shares_memory(masked, features)
    channels = 2 if options.get("release") == "interval" else 1
    assert masked.shape == (len(features), channels * features.shape[1])


@pytest.mark.parametrize("method", ["data_shuffle", "rank_swap", "spectral_swap", "suppression", "local_synthesis"])
@given(case=split_tables())
@settings(max_examples=30, deadline=None)
def test_means_are_exact_in_any_split(method, case):
    features, parts = case
    options = {"suppression": {"share": 0.5}, "local_synthesis": GROUPED}.get(method, {})
    try:
        masked = run(features, method, parts, **options)[:, : features.shape[1]]
    except InputError:
        assert method == "suppression"
        return
    far = np.abs(features).max()
    assert np.abs(masked.mean(axis=0) - features.mean(axis=0)).max() <= 1e-13 * far


@pytest.mark.parametrize("method", [m for m in MASKERS if m != "generalize"])
def test_constant_columns_stay_constant(method):
    features = correlated(40, 3)
    features[:, 1] = 7.7
    options = {"suppression": {"outside": 2.0}, "local_synthesis": GROUPED}.get(method, {})
    masked = run(features, method, [10, 30], **options)
    assert np.abs(masked[:, 1] - 7.7).max() < 1e-12


@pytest.mark.parametrize("method", ["noise", "spectral_swap", "synthesis", "sequential_regression", "suppression"])
def test_columns_that_depend_on_each_other_still_do(method):
    features = correlated(60, 4)
    features[:, 3] = features[:, 0] - 2 * features[:, 1]
    masked = run(features, method, [20, 25, 15], **({"share": 0.2} if method == "suppression" else {}))
    assert np.abs(masked[:, 3] - (masked[:, 0] - 2 * masked[:, 1])).max() < 1e-9 * np.abs(features).max()


@pytest.mark.parametrize("method", ["spectral_swap", "data_shuffle"])
def test_whole_columns_are_permuted_alike_in_any_split(method):
    """Their draws are by column: a split changes rounding only (and, for shuffling, the draws by part)."""
    features = correlated(50, 3)
    whole, cut = run(features, method), run(features, method, [7, 0, 43])
    if method == "spectral_swap":
        assert np.allclose(whole, cut, rtol=0, atol=1e-10)
    assert np.allclose(np.sort(whole, axis=0), np.sort(cut, axis=0), rtol=0, atol=1e-10)


def test_other_keys_and_parts_draw_otherwise():
    features = correlated(30, 2)
    a, b = run(features, "noise", [15, 15]), run(features, "noise", [15, 15], key=b"another key of thirty-two bytes.")
    assert not np.isclose(a, b).any()
    first, second = (a - features)[:15], (a - features)[15:]
    assert not np.isclose(first, second).any()


REFUSED = [
    ("nothing", {}, JobError),
    ("noise", {"level": 1}, JobError),
    ("noise", {"amount": 0.0}, JobError),
    ("noise", {"amount": float("nan")}, JobError),
    ("noise", {"form": "fine"}, JobError),
    ("noise", {"basis": "fourier"}, JobError),
    ("spectral_swap", {"basis": "fourier"}, JobError),
    ("synthesis", {"basis": "fourier"}, JobError),
    ("synthesis", {"draw": "cards"}, JobError),
    ("suppression", {"share": 1.0}, JobError),
    ("suppression", {"share": 0.0}, JobError),
    ("suppression", {"outside": -1.0}, JobError),
    ("suppression", {"share": 1e-9}, InputError),
    ("data_shuffle", {"conditioning": (0, 0)}, JobError),
    ("data_shuffle", {"conditioning": (5,)}, JobError),
    ("data_shuffle", {"conditioning": (0, 1)}, JobError),
    ("sequential_regression", {"rounds": 0}, JobError),
    ("sequential_regression", {"penalty": 0.0}, JobError),
    ("sequential_regression", {"parameters": "guessed"}, JobError),
    ("sequential_regression", {"categories": ((0,), (0,))}, JobError),
    ("sequential_regression", {"categories": ((9,),)}, JobError),
    ("sequential_regression", {"categories": ((0,),)}, InputError),
    ("generalize", {}, JobError),
    ("generalize", {"k": 0}, JobError),
    ("generalize", {"k": 99}, InputError),
    ("generalize", {"k": 2, "cuts": "any"}, JobError),
    ("generalize", {"k": 2, "release": "all"}, JobError),
    ("generalize", {"k": 2, "suppress_above": 0.0}, JobError),
    ("generalize", {"k": 2, "steps": (1.0,)}, JobError),
    ("generalize", {"k": 2, "steps": (-1.0, 1.0)}, JobError),
    ("generalize", {"k": 2, "origin": (0.0, 0.0)}, JobError),
]


@pytest.mark.parametrize(("method", "options", "error"), REFUSED)
def test_what_is_not_allowed_is_refused(method, options, error):
    with pytest.raises(error):
        mask(correlated(20, 2), method, rng=np.random.default_rng(0), **options)


@pytest.mark.parametrize(
    "features",
    [
        np.zeros(3),
        np.zeros((3, 0)),
        np.zeros((1, 3)),
        np.zeros((0, 2)),
        np.array([[1.0], [np.nan]]),
        np.full((3, 1), 1e101),
    ],
)
def test_tables_that_cannot_be_masked_are_refused(features):
    with pytest.raises(InputError):
        mask(features, "spectral_swap", rng=np.random.default_rng(0))


@pytest.mark.parametrize("parts", [[3], [30, -10], [10, 11]])
def test_partitions_must_add_up(parts):
    with pytest.raises(InputError):
        mask(correlated(20, 2), "noise", rng=np.random.default_rng(0), partitions=parts)


def test_a_part_that_is_too_small_for_a_step_is_refused():
    with pytest.raises(InputError, match="part has 2"):
        run(correlated(20, 2), "generalize", [18, 2], k=3)


def test_a_step_that_loses_rows_is_found_out():
    steps = (Rows("lose", lambda part, *, params, rng: part[1:]),)
    with pytest.raises(AnonpipeError, match="lose"):
        run_steps(correlated(5, 2), steps, key=KEY, parts=[5])


@given(data=st.data(), features=tables(widths=(1, 3)))
@settings(max_examples=30, deadline=None)
def test_the_driver_hands_every_row_and_column_once_in_order(data, features):
    parts = data.draw(splits(len(features)))
    steps = (
        Rows(
            "double",
            lambda part, *, params, rng: np.concatenate([part, part], axis=1),
            channels=lambda given, params: 2 * given,
        ),
        Reduce("count", lambda part, *, params: Moments.of(part), lambda m, *, params, rng: m.n),
        Columns("number", lambda column, *, place, params, rng: column + place * params),
    )
    n, width = features.shape
    wanted = np.concatenate([features, features], axis=1) + n * np.arange(2 * width)
    assert np.array_equal(run_steps(features, steps, key=KEY, parts=parts), wanted)
