"""The released distribution of a column: its shape, and what it tells of one person."""

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from anonpipe.encoding.quantiles import DOMINANCE, FEW_VALUES, PENALTY, Quantiles, Radix, _apart, _blocks, coarsened
from anonpipe.encoding.values import Grid
from anonpipe.evaluate.risk._membership import counted_membership
from tests.evaluate.risk.tasks import task

TOP = 98_765_432.0


def fitted(values, k=5, low=-np.inf, high=np.inf):
    return Quantiles.fit(Radix.of(np.asarray(values, dtype=float)), k, low, high)


def released(found, rows=None):
    """One value a rank."""
    rows = found.rows if rows is None else rows
    return found.at((np.arange(rows) + 0.5) / rows)


def distance(before, after):
    """Kolmogorov and Smirnov's, by sorting everything."""
    where = np.concatenate([before, after])
    ranks = [np.searchsorted(np.sort(each), where, side="right") / len(each) for each in (before, after)]
    return np.abs(ranks[0] - ranks[1]).max()


def literal(values, k):
    """Pieces as lists of values: atoms, and runs cut from below on; few between atoms go to the nearest."""
    values, least = np.sort(values), max(k, 3)
    distinct, counts = np.unique(values, return_counts=True)
    atoms = distinct[counts >= k]
    pieces = {float(a): ["atom", list(values[values == a])] for a in atoms}
    edges = [-np.inf, *atoms, np.inf]
    for below, above in itertools.pairwise(edges):
        inside = list(values[(values > below) & (values < above)])
        if len(inside) < least and len(atoms):
            for value in inside:
                near = below if np.isinf(above) or (np.isfinite(below) and value - below <= above - value) else above
                pieces[float(near)][1].append(value)
            continue
        while inside:
            taken = [v for v in np.unique(inside)]
            size, run = 0, []
            for value in taken:
                run += [value] * inside.count(value)
                size = len(run)
                if size >= least and len(inside) - size >= least:
                    break
            pieces[(run[0] + run[-1]) / 2] = ["run", run]
            inside = inside[size:]
    return [pieces[at] for at in sorted(pieces)]


VALUES = st.lists(st.integers(-6, 30), min_size=8, max_size=80).map(lambda v: np.array(v, dtype=float))


@settings(deadline=None, max_examples=150)
@given(VALUES, st.integers(2, 8))
def test_pieces_are_those_of_the_literal_twin(values, k):
    found, pieces = fitted(values, k), literal(values, k)
    assert found.edges.tolist() == np.cumsum([0, *(len(held) for _, held in pieces)]).tolist()
    assert min(np.diff(found.edges)) >= min(k, len(values))
    ranked, edges = np.sort(values), found.edges
    for at, (kind, held) in enumerate(pieces):
        if kind == "atom":
            assert found.halves[at] == 0 and list(held).count(found.centres[at]) >= k
        else:
            assert ranked[max(0, edges[at] - 1)] <= found.centres[at] <= ranked[min(len(ranked), edges[at + 1] + 1) - 1]


@settings(deadline=None, max_examples=150)
@given(VALUES, st.integers(3, 8), st.booleans())
def test_it_ascends_keeps_its_means_and_stays_inside_bounds(values, k, bounded):
    low, high = (-2.0, 20.0) if bounded else (-np.inf, np.inf)
    found = fitted(values, k, low, high)
    made = released(found)
    assert (np.diff(made) >= -1e-9).all() and made.min() >= low - 1e-9 and made.max() <= high + 1e-9
    assert np.isclose(made.mean(), found.mean) and np.isclose(found.mean - found.coded - found.clipped, values.mean())


def test_runs_keep_their_means_and_the_table_its_mean():
    values = np.random.default_rng(0).normal(size=1_000)
    found = fitted(values)
    ranked = np.sort(values)
    for begin, end, centre in list(zip(found.edges, found.edges[1:], found.centres, strict=False))[1:-1]:
        assert np.isclose(ranked[begin:end].mean(), centre) and end - begin >= 5
    assert abs(found.coded) < 2e-3 and abs(released(found).mean() - values.mean() - found.coded) < 1e-12


SHAPES = {
    "normal": lambda rng: rng.normal(size=3_000),
    "skewed": lambda rng: np.exp(rng.normal(3, 1.5, 3_000)),
    "a tenth zeros": lambda rng: np.where(rng.random(3_000) < 0.1, 0.0, rng.gamma(2, 10, 3_000)),
    "heaped at fives": lambda rng: np.where(rng.random(3_000) < 0.5, 5 * rng.integers(0, 20, 3_000), 97 * rng.random()),
    "bounded": lambda rng: np.clip(rng.normal(0.5, 0.5, 3_000), 0, 1),
    "few integers": lambda rng: rng.integers(0, 4, 3_000).astype(float),
    "negative": lambda rng: -np.exp(rng.normal(size=3_000)),
    "near a billion": lambda rng: 1e9 + rng.random(3_000),
    "denormal": lambda rng: rng.integers(0, 3_000, 3_000) * 5e-324,
    "halves": lambda rng: rng.integers(0, 40, 3_000) + 0.5,
    "constant": lambda rng: np.full(3_000, 7.0),
    "zeros of both signs": lambda rng: np.where(rng.random(3_000) < 0.5, 0.0, -0.0),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_distribution_is_that_of_the_column(shape):
    values = SHAPES[shape](np.random.default_rng(3))
    found = fitted(values)
    assert distance(values, released(found)) <= 8 / len(values)
    assert abs(found.coded) <= 0.02 * values.std() + 1e-300


@pytest.mark.parametrize("rows", [5, 9, 10, 14, 15])
def test_fewest_records(rows):
    values = np.sort(np.random.default_rng(rows).normal(size=rows))
    found = fitted(values)
    assert len(found.centres) == rows // 5 and min(np.diff(found.edges)) >= 5
    assert not np.isin(np.round(released(found), 12), np.round(values, 12)).any()


def test_the_largest_income_does_not_come_back():
    """Its holder is one of a run of five: the mean of five would be a fifth of it, and five times the mean is known."""
    for seed in range(20):
        values = np.append(np.exp(np.random.default_rng(seed).normal(10, 1, 499)), TOP)
        for found in (fitted(values), fitted(values, 3), fitted(-values), fitted(values[-7:]), fitted(values[-5:], 2)):
            assert np.abs(found.centres).max() + found.halves.max() < 0.05 * TOP
            assert abs(found.coded) * found.rows > 0.9 * TOP  # what that costs the sum is known


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(0, 1e6), min_size=10, max_size=40), st.integers(3, 7))
def test_nobody_in_the_outermost_run_can_tell_the_largest_value(values, k):
    """The second largest takes all that he can know, his own and what lies at the border, off the sum of the run."""
    values = np.sort(np.array(values))
    found = fitted(values, k)
    if found.halves[-1] == 0.0 or len(found.centres) == 1:
        return
    begin = found.edges[-2]
    held, border = values[begin:], values[begin - 1]
    largest = held[-1] - border
    if largest <= 1e-6 * max(1.0, border):
        return
    estimate = len(held) * (found.centres[-1] - border) - (held[-2] - border)
    assert abs(estimate - largest) >= 0.999 * DOMINANCE * largest or np.isclose(held[-2], held[-1])


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([1e-3, 0.02, 0.5, 1.0, 3.0, 40.0, 900.0])), min_size=2),
    st.sampled_from([0.0, 0.01, 1.0]),
    st.integers(2, 8),
)
def test_who_stands_apart_is_who_a_list_tells(steps, width, fewer):
    counts, excess = np.array([n for n, _ in steps]), np.cumsum([step for _, step in steps])[::-1].copy()
    each, found = np.repeat(excess, counts).tolist(), 0
    for m in range(1, min(fewer, len(each))):
        between = each[m - 1] != each[m]
        if between and 10 * max(width, each[m]) < each[m - 1] and 10 * sum(each[m:]) < sum(each[:m]):
            found = m
    assert _apart(counts, excess, width, fewer, DOMINANCE) == np.searchsorted(np.cumsum(counts), found, side="left") + (
        found > 0
    )


@pytest.mark.parametrize("k", [3, 5, 20])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_fewer_than_k_alike_standing_apart_are_drawn_in(k, side):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        others = rng.lognormal(10, 1, rng.integers(k, 800))
        for giants in range(2, k):
            alike = TOP * (1.0 + 0.3 * rng.random(giants))
            found = fitted(side * np.append(others, alike), k)
            assert np.abs(found.centres).max() < 0.1 * TOP and abs(found.coded) * found.rows > 0.9 * alike.sum()
        found = fitted(side * np.append(others, TOP * (1.0 + 0.3 * rng.random(k))), k)
        assert np.abs(found.centres).max() > 0.5 * TOP  # k of them are a mean of k


@pytest.mark.parametrize("rows", range(5, 20))
def test_giants_at_both_ends_of_few_records_not_told_by_spread(rows):
    """Of one run the mean distance from the mean is released: all others being near, it tells both giants."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        low, high = -1_000.0 * rng.uniform(0.9, 1.1, 2) * [1, -1]
        found = fitted(np.append(rng.uniform(0, 10, rows - 2), [low, high]))
        ends = (found.centres - found.halves).min(), (found.centres + found.halves).max()
        spread = rows * (ends[1] - ends[0]) / 8  # half of the sum of distances from the mean of one run
        assert abs(spread - (high - low) / 2) > 0.9 * (high - low) / 2
        assert ends[0] > 0.1 * low and ends[1] < 0.1 * high


def test_all_but_two_near_ones_are_not_few():
    rng = np.random.default_rng(1)
    for side in (1.0, -1.0):
        values = side * np.append(rng.normal(10.0, 2.0, 18), [0.0, 1e-3])
        found = fitted(values, 20)
        assert abs(found.coded) < 0.3 and found.centres[0] != pytest.approx(side * 1e-3, abs=1.0)


def test_chance_hardly_ever_sets_few_records_apart():
    rng, found = np.random.default_rng(3), 0
    for _ in range(300):
        excess = np.sort(rng.exponential(size=200))[::-1][:10]
        found += _apart(np.ones(5, dtype=np.int64), excess[:5] - excess[5], excess[5] - excess[9], 5, DOMINANCE) > 0
    assert found <= 2


def test_a_value_of_k_minus_one_records_is_no_atom_and_no_mean():
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.normal(size=500), np.full(4, 2.0), np.full(5, 3.0)])
    found = fitted(values)
    assert 3.0 in found.centres and not np.isclose(found.centres, 2.0, atol=1e-9).any()


def test_few_records_beyond_an_atom_count_as_it():
    values = np.concatenate([np.zeros(50), np.ones(30), [7.0, 8.0, 9.0, 1e6]])
    found = fitted(values)
    assert found.centres.tolist() == [0.0, 1.0] and found.edges.tolist() == [0, 50, 84]
    assert np.isclose(found.coded + found.clipped, (34 - values[50:].sum()) / 84)


def test_one_record_more_tells_its_value_by_both_exact_means():
    """The means of a column are kept: two of them give the value that is between. Releases of overlapping tables are
    what the release log refuses; an extreme is not even then told."""
    rng = np.random.default_rng(8)
    values = rng.normal(size=400)
    without = fitted(values)
    for extra, told in ((0.3, True), (1_000.0, False)):
        both = fitted(np.append(values, extra))
        guess = both.mean * both.rows - without.mean * without.rows
        assert (abs(guess - extra) < 2.0) == told


@pytest.mark.parametrize("k", [3, 5, 20])
def test_evenly_spaced_values_do_not_return_without_step(k):
    """Days in years: means of neighbours are neighbours, and straight pieces between them meet these again."""
    days = np.random.default_rng(k).choice(7_300, 3_000, replace=False)
    values = np.sort(1975 + days / 365.0)
    straight, bent = (Quantiles.fit(Radix.of(values), k, stepped=stepped) for stepped in (True, False))
    met = [
        np.isclose(released(found)[:, None], values, rtol=0, atol=1e-9).any(axis=1).sum() for found in (straight, bent)
    ]
    assert met[1] <= 3 and (k == 20 or met[0] > 100)
    assert np.isclose(released(bent).mean(), released(straight).mean(), rtol=0, atol=1e-9)
    assert (np.diff(released(bent)) >= np.minimum(np.diff(released(straight)), 0.0)).all()


@given(VALUES, st.integers(3, 9))
@settings(max_examples=60, deadline=None)
def test_bent_pieces_ascend_and_keep_their_means(values, k):
    straight, bent = (Quantiles.fit(Radix.of(values), k, stepped=stepped) for stepped in (True, False))
    assert np.allclose(released(bent).mean(), released(straight).mean(), rtol=0, atol=1e-9)
    assert (np.diff(bent.at(np.linspace(0, 1, 2_000))) >= -1e-12).all()
    ranks, records = bent.at_ranks()
    assert np.allclose(np.repeat(ranks, records.astype(int)), released(bent), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("k", "n"), [(5, 5), (5, 9), (5, 400), (20, 400)])
def test_moved_means_tell_no_set_of_neighbours(k, n):
    values = np.sort(np.random.default_rng(n).lognormal(10, 1, n))
    found, sums = Radix.of(values), np.append(0.0, np.cumsum(values))
    exact, moved = (Quantiles.fit(found, k, rng=rng) for rng in (None, np.random.default_rng(1)))
    ends = exact.edges
    assert (moved.edges == ends).all() and (np.diff(moved.centres) > 0).all()
    known = np.array([(sums[j] - sums[i]) / (j - i) for i in range(n) for j in range(i + k, min(n, i + 2 * k) + 1)])
    nearest = np.abs(moved.centres[:, None] - known).min(axis=1) / moved.centres
    of_exact = np.abs(exact.centres[:, None] - known).min(axis=1) / exact.centres
    assert len(ends) == 2 or np.median(of_exact) < 1e-12  # a single run may have its extremes drawn in
    assert (nearest > 1e-9).all()
    assert np.abs(moved.mean - values.mean() - exact.coded) < 0.5 * values.std() / np.sqrt(n)
    assert (np.diff(moved.at(np.linspace(0, 1, 999))) >= 0).all()
    again = Quantiles.fit(found, k, rng=np.random.default_rng(1))
    assert (again.centres == moved.centres).all()


def test_moves_stay_in_the_bounds_and_leave_heaps():
    values = np.concatenate([np.zeros(30), np.random.default_rng(2).beta(0.3, 0.3, 300), np.ones(30)])
    for secret in range(20):
        moved = Quantiles.fit(Radix.of(values), 5, 0.0, 1.0, rng=np.random.default_rng(secret))
        ends = np.concatenate([moved.centres - moved.halves, moved.centres + moved.halves])
        assert ends.min() >= 0.0 and ends.max() <= 1.0 and (np.diff(moved.centres) > 0).all()
        assert moved.centres[0] == 0.0 and moved.centres[-1] == 1.0
        assert moved.coded == pytest.approx(moved.mean - values.mean())


# --- Pieces joined into blocks ---


def gain(counts, widths, begins):
    """The log-likelihood of blocks that begin so, less what they cost."""
    whole, ends = counts.sum(), [*begins[1:], len(counts)]
    blocks = [(counts[a:b].sum(), widths[a:b].sum()) for a, b in zip(begins, ends, strict=True)]
    likely = sum(m * np.log(m / width) for m, width in blocks if m)
    return likely - sum(PENALTY + np.log(whole / max(m, 1)) for m, _ in blocks)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0.01, 9.0)), min_size=1, max_size=11))
def test_blocks_are_the_best_of_all_ways_to_cut(cells):
    counts, widths = np.array([n for n, _ in cells]), np.array([width for _, width in cells])
    if not counts.any():
        return
    inner = range(1, len(counts))
    ways = [[0, *cut] for size in range(len(counts)) for cut in itertools.combinations(inner, size)]
    best = max(gain(counts, widths, way) for way in ways)
    assert gain(counts, widths, _blocks(counts, widths, PENALTY).tolist()) == pytest.approx(best)


@settings(deadline=None, max_examples=150)
@given(VALUES, st.integers(3, 8), st.sampled_from([None, 1.0]), st.booleans(), st.none() | st.integers(0, 99))
def test_blocks_are_whole_pieces_ascend_and_keep_their_means(values, k, step, bounded, seed):
    low, high = (-2.0, 20.0) if bounded else (-np.inf, np.inf)
    pieces = Quantiles.fit(Radix.of(values), k, low, high, stepped=step is not None)
    blocks = pieces.smoothed(step, rng=None if seed is None else np.random.default_rng(seed))
    assert np.isin(blocks.edges, pieces.edges).all() and blocks.rows == pieces.rows and blocks.coded == pieces.coded
    sums = np.append(0.0, np.cumsum(np.diff(pieces.edges) * pieces.centres))
    at = np.searchsorted(pieces.edges, blocks.edges)
    assert np.allclose(np.diff(sums[at]) / np.diff(blocks.edges), blocks.centres)
    made = released(blocks)
    assert np.isclose(made.mean(), pieces.mean) and (np.diff(blocks.at(np.linspace(0, 1, 999))) >= -1e-9).all()
    beyond = (step or 0.0) / 2  # rounded away
    ends = (pieces.centres - pieces.halves).min() - beyond, (pieces.centres + pieces.halves).max() + beyond
    assert made.min() >= max(low - beyond, ends[0]) - 1e-9 and made.max() <= min(high + beyond, ends[1]) + 1e-9
    ranks, records = blocks.at_ranks()
    assert np.allclose(np.repeat(ranks, records.astype(int)), made, rtol=0, atol=1e-9)


@settings(deadline=None, max_examples=80)
@given(VALUES, st.integers(3, 8), st.lists(st.integers(-8, 32), max_size=3), st.booleans())
def test_as_many_records_as_before_are_below_a_limit(values, k, limits, drawn):
    ends = [limit + 0.5 for limit in limits]
    rng = np.random.default_rng(3) if drawn else None
    pieces = Quantiles.fit(Radix.of(values), k, limits=ends, rng=rng)
    made = np.rint(released(pieces.smoothed(1.0, rng=rng, limits=ends)))
    for end in ends:
        below = np.count_nonzero(values < end), np.count_nonzero(made < end)
        assert abs(below[0] - below[1]) < 2 * max(k, 3), end  # fewer have no piece of their own, or one that is coded


def test_a_limit_inside_a_block_is_met_exactly():
    values = np.random.default_rng(1).integers(0, 95, 2_000).astype(float)
    for k in (5, 40):  # atoms of a year, and runs of some years
        pieces = Quantiles.fit(Radix.of(values), k, limits=[15.5, 66.5])
        for limits, right in (([15.5, 66.5], True), ([], False)):
            made = np.rint(released(pieces.smoothed(1.0, limits=limits)))
            same = [np.count_nonzero(made < end) == np.count_nonzero(values < end) for end in (15.5, 66.5)]
            assert all(same) == right


def test_what_lies_evenly_is_one_block_and_heaps_are_their_own():
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        even = rng.integers(0, 100, 1_000)
        found.append(len(fitted(even).smoothed(1.0).centres))
        heaps = fitted(np.append(even, np.repeat([20, 50], 60))).smoothed(1.0)
        assert {20.0, 50.0} <= set(heaps.centres[heaps.halves == 0])
    many = fitted(np.random.default_rng(1).integers(0, 100, 20_000))
    assert len(fitted(even).smoothed().centres) < 10 > len(many.smoothed(None, 100).centres)
    assert (many.smoothed().centres == np.arange(100)).all()  # 200 records each: of few columns, atoms
    assert np.mean(np.array(found) > 6) <= 0.1  # five by the tails
    few = fitted(np.repeat(np.arange(FEW_VALUES), 50)).smoothed(1.0)
    assert np.diff(few.edges).tolist() == [50] * FEW_VALUES


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step", [None, 1e-3])
def test_blocks_are_nearer_than_another_sample(shape, step):
    values = SHAPES[shape](np.random.default_rng(3))
    step = None if shape in ("denormal", "near a billion") else step
    values = values if step is None else np.rint(values / step) * step
    made = released(fitted(values).smoothed(step))
    made = made if step is None else np.rint(made / step) * step
    assert distance(values, made) <= max(0.7 * 0.869 * np.sqrt(2 / 3_000), 8 / 3_000)
    assert abs(made.mean() - values.mean()) <= 0.02 * values.std() + 1e-6


@pytest.mark.parametrize("rows", [3_000, 20_000])
def test_counts_of_days_vary_as_those_of_another_sample(rows):
    rng = np.random.default_rng(0)
    days, others = np.floor(rng.beta(1.3, 1.0, (2, rows)) * rows / 5)
    pieces = Quantiles.fit(Radix.of(days), 5, 0.0)
    even, drawn = pieces.smoothed(1.0, 10), pieces.smoothed(1.0, 10, rng=np.random.default_rng(3))
    found = [dispersion(each) for each in (others, np.rint(released(even)), np.rint(released(drawn)))]
    assert found[0] > 0.9 and found[1] < 0.3 and 0.6 < found[2] < 1.2
    off = [ks_2samp(days, released(each)).statistic for each in (even, drawn)]
    assert off[1] < off[0] + 0.2 / np.sqrt(rows)


def dispersion(days):
    """Variance over mean of counts a day; the mean is that of 16 days beside."""
    counts = np.bincount(days.astype(int)).astype(float)
    mean = np.convolve(counts, np.where(np.arange(17) == 8, 0.0, 1 / 16), "valid")
    return np.square(counts[8:-8] - mean).sum() / (mean.sum() * 17 / 16)


def test_counts_of_values_tell_no_members():
    """1,000 of 2,000 persons, 24 columns in steps of 0.01: pieces of k = 5 give members away, blocks hardly."""
    areas = []
    for seed in range(3):
        whole = np.random.default_rng(seed).normal(size=(2_000, 24)).round(2)
        pieces = [fitted(column) for column in whole[:1_000].T]
        for made in (pieces, [each.smoothed(0.01) for each in pieces]):
            table = np.column_stack([released(each).round(2) for each in made])
            areas.append(counted_membership(task(table, whole[:1_000], whole[1_000:])).value)
    assert np.mean(areas[::2]) > 0.72 and np.mean(areas[1::2]) < 0.57


# --- Steps and heaps that nearly all records lie on

_MONTHS = np.arange("1990-01", "2010-01", dtype="datetime64[M]").astype("datetime64[D]").astype(float)
_DAYS = Grid(1.0, 7_000.0, 15_000.0)


def naive_grid(values, grid, k):
    """The coarsest step and the values of k records, by trial of all steps."""
    counts = collections.Counter(values.tolist())
    often = sorted(value for value, rows in counts.items() if rows >= k)
    step = grid.step
    for times in range(2, 600) if len(often) > FEW_VALUES else ():
        on = [value for value in values if round((value - often[0]) / grid.step) % times == 0]
        if all(round((value - often[0]) / grid.step) % times == 0 for value in often) and len(on) >= 0.99 * len(values):
            step = times * grid.step
    heaped = sum(counts[value] for value in often) >= 0.95 * len(values) and len(often) > 1
    return step, often if heaped and np.median(np.diff(often)) > 1.5 * step else None


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (lambda rng, n: np.round(rng.lognormal(8, 0.6, n) / 500) * 500, 1.0),
        (lambda rng, n: np.where(rng.random(n) < 0.995, rng.integers(-40, 60, n) * 10 + 3, rng.integers(0, 9, n)), 1.0),
        (lambda rng, n: rng.integers(0, 90, n) + 0.5, 0.5),
        (lambda rng, n: np.round(0.3 * rng.integers(0, 60, n), 1), 0.1),
        (lambda rng, n: rng.choice([10, 20, 50, 100, 250], n), 1.0),
        (lambda rng, n: np.where(rng.random(n) < 0.3, rng.integers(3, 20, n) * 5, rng.integers(18, 100, n)), 1.0),
        (lambda rng, n: rng.poisson(4, n), 1.0),
        (lambda rng, n: np.where(rng.random(n) < 0.9, 0, rng.integers(1, 9_999, n)), 1.0),
        (lambda rng, n: np.full(n, 7), 1.0),
    ],
)
@pytest.mark.parametrize("rows", [5, 300, 1_200])
def test_steps_and_heaps_are_those_of_the_twin(values, step, rows):
    made = np.asarray(values(np.random.default_rng(rows), rows), dtype=float)
    grid = Grid(step, -1e6, 1e6)
    found = coarsened(grid, Radix.of(made, np.arange(rows) % 3), 5)
    wanted, heaps = naive_grid(made, grid, 5)
    assert found.step == wanted and (found.heaps is None) == (heaps is None)
    if heaps is not None:
        assert found.heaps.tolist() == heaps
    on = found.round(made)
    assert (on == made).mean() >= 0.95  # to the last digit
    np.testing.assert_array_equal(found.round(on), on)
    assert np.abs(on - made).max() <= max(found.step / 2, 0.0 if heaps is None else np.median(np.diff(heaps)))


@pytest.mark.parametrize(
    ("dates", "first", "apart"),
    [
        (_MONTHS, _MONTHS[0], 240),
        (_MONTHS + 14, _MONTHS[0] + 14, 240),
        (_MONTHS[1:] - 1, _MONTHS[1] - 1, 239),
        (_MONTHS[::3] + 9, _MONTHS[0] + 9, 80),
        (_MONTHS[6::12], _MONTHS[6], 20),
    ],
)
@pytest.mark.parametrize("rows", [600, 6_000])
def test_dates_of_months_stay_on_their_day(dates, first, apart, rows):
    rng = np.random.default_rng(rows)
    values = np.append(rng.choice(dates, rows), rng.integers(7_500, 14_000, rows // 200))  # a few are exact
    values[0] = first
    heaps = coarsened(_DAYS, Radix.of(values), 5, dates=True).heaps
    assert np.isin(dates, heaps).all() and len(heaps[(heaps >= dates[0]) & (heaps <= dates[-1])]) == apart
    ended = np.append(values, np.full(rows // 2, 14_321.0))
    assert coarsened(_DAYS, Radix.of(ended), 5, dates=True).heaps.tolist() == sorted([*heaps, 14_321.0])
    anywhere = rng.integers(7_500, 14_000, rows).astype(float)
    assert coarsened(_DAYS, Radix.of(anywhere), 5, dates=True).heaps is None


@pytest.mark.parametrize("apart", [1, 5, 15])
def test_times_of_day_stay_such(apart):
    """Hours and minutes as one number, of which a few are none; and numbers that look like them, but for one law."""
    rng = np.random.default_rng(apart)
    values = 100.0 * rng.binomial(16, 0.7, 3_000) + apart * rng.integers(0, 60 // apart, 3_000)
    values = np.append(values, rng.integers(0, 2_000, 10))
    found = coarsened(_grid(), Radix.of(values), 5)
    released = found.round(values + rng.integers(-30, 31, len(values)))
    wanted = [100 * hour + minute for hour in range(24) for minute in range(0, 60, apart)]
    assert np.isin(released, [*wanted, *found.heaps]).all() and set(wanted) <= set(found.heaps)
    assert np.isin(values, released).mean() > 0.9 and np.isin(found.heaps, wanted).mean() > 0.99
    months = 100 * rng.integers(1, 24, 3_000) + rng.integers(1, 32, 3_000)
    below = [rng.integers(0, end, 3_000) for end in (60, 90, 2_000)]
    for others in (months, *below, 25 * below[1]):
        grid = coarsened(_grid(), Radix.of(others.astype(float)), 5)
        assert grid.heaps is None or 1_145.0 not in grid.heaps


def test_values_of_fewer_than_k_records_are_no_heaps():
    values = np.append(np.repeat([10.0, 20.0, 50.0, 75.0], [300, 300, 300, 4]), 33.0)
    assert coarsened(_grid(), Radix.of(values), 5).heaps.tolist() == [10.0, 20.0, 50.0]
    assert _grid().round(values).tolist() == values.tolist()
    far = coarsened(_grid(), Radix.of(values), 5).round(np.array([12.0, 34.0, 36.0, 62.0, 900.0]))
    assert far.tolist() == [10.0, 20.0, 50.0, 50.0, 900.0]  # tails stay where they are


def test_places_among_heaps_ascend_beyond_their_ends():
    grid = Grid(1.0, -np.inf, np.inf, heaps=np.array([0.0, 10.0, 30.0]))
    assert grid.scaled(np.array([-30.0, 0.0, 5.0, 20.0, 30.0, 45.0])).tolist() == [-2.0, 0.0, 0.5, 1.5, 2.0, 3.0]
    values = np.array([-9.0, 4.0, 29.0, np.nan])
    assert np.array_equal(grid.mirrored.round(-values), -grid.round(values), equal_nan=True)


@pytest.mark.parametrize("times", [1e-3, 1e30])
def test_numbers_off_their_step_or_too_large_keep_the_grid(times):
    values = np.repeat(times * np.arange(40.0), 20)
    assert coarsened(_grid(), Radix.of(values), 5).step == 1.0


def _grid():
    return Grid(1.0, -np.inf, np.inf)
