"""What every grouping method of a published recipe promises: one row of a table each.

The literal twin that it equals, the sizes of its groups, and its information losses on the Tarragona table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InfeasibleError
from anonpipe.methods.grouping import METHODS, cluster, information_loss
from tests.methods.grouping.classed import REFUSING, class_problems, run
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.naive import classes, hierarchical, mdav_family, spanning_tree, two_phase


def same_labels(labels, twin):
    return (labels == twin).all()


def same_groups(labels, twin):
    """Whether two labellings differ in the numbers of the groups only."""
    pairs = np.unique(np.stack([labels, twin]), axis=1)
    return pairs.shape[1] == labels.max() + 1 == twin.max() + 1


def of_two_phases(name):
    return lambda features, k: two_phase.labels_of(getattr(two_phase, name)(features, k), len(features))


def of_sets(name):
    """A twin that forms lists of rows."""
    return lambda features, k: two_phase.labels_of(getattr(hierarchical, name)(features, k), len(features))


def any_sizes(sizes, n, k):
    return True


def as_many_as_possible(sizes, n, k):
    return len(sizes) == n // k


def all_but_the_last_have_k(sizes, n, k):
    return (sizes[:-1] == k).all()


def all_but_one_have_k(sizes, n, k):
    return (sizes > k).sum() <= 1


def the_last_is_larger_where_k_remain(sizes, n, k):
    return n % (2 * k) < k or (sizes[:-1] == k).all()


def below_twice(sizes, n, k):
    return sizes.max() < 2 * k


def split_where_there_is_room(sizes, n, k):
    return n <= 2 * k or len(sizes) > 1


@dataclass(frozen=True)
class Contract:
    twin: Callable
    losses: dict[int, float]  # By k
    sizes: Callable = any_sizes
    within: float = 1e-8  # Of the losses
    relative: float = 0.0
    same: Callable = same_labels
    most_tied: int = 60  # Records of tables with ties; None where these leave the groups open
    power: int = 1  # Of normal values in plain tables
    rows: tuple[int, ...] = (2, 3, 5, 6, 9, 10, 50, 83)
    widths: tuple[int, ...] = (1, 2, 10, 50)
    options: tuple[dict, ...] = field(default=({},))


def losses(*percent):
    """At k = 3, 4, 5 and 10."""
    return dict(zip((3, 4, 5, 10), percent, strict=True))


TWO_PHASE = {"power": 3, "rows": (2, 3, 5, 9, 10, 50, 90), "widths": (1, 2, 10), "most_tied": 40}
DENSITY = TWO_PHASE | {"rows": (2, 3, 5, 9, 10, 32), "most_tied": 20}
TREE = {"rows": (1, 2, 3, 5, 9, 10, 35), "widths": (1, 2, 50), "most_tied": 30}

CONTRACTS = {
    "mdav": Contract(
        mdav_family.mdav,
        losses(16.93258762, 19.54578612, 22.46128236, 33.19288477),
        the_last_is_larger_where_k_remain,
        rows=(2, 3, 5, 6, 9, 10, 50, 83, 123),
    ),
    "mdav_generic": Contract(
        mdav_family.mdav_generic,
        losses(16.93258762, 19.54596204, 22.46185966, 33.19288477),
        all_but_the_last_have_k,
    ),
    # Published
    "mdav_1": Contract(
        mdav_family.mdav_1, losses(16.93258762, 19.54578612, 22.46128236, 33.19235838), as_many_as_possible
    ),
    "cbfs": Contract(mdav_family.cbfs, losses(16.96606768, 19.73002464, 22.81849636, 33.21542203), as_many_as_possible),
    "v_mdav": Contract(
        mdav_family.v_mdav,
        losses(16.96295884, 19.69400506, 22.87783061, 33.25267324),
        most_tied=40,
        options=({}, {"gamma": 1.1}, {"gamma": 0.0}, {"gamma": 0.5}, {"gamma": 3.0}),
    ),
    "md": Contract(
        mdav_family.md, losses(16.98336107, 19.53640728, 22.52724449, 33.18343058), all_but_one_have_k, most_tied=40
    ),
    "diameter_fixed": Contract(
        mdav_family.diameter_fixed, losses(16.98336107, 19.53624759, 22.52711396, 33.18343058), most_tied=40
    ),
    "pairwise_systematic": Contract(
        mdav_family.pairwise_systematic,
        losses(17.26488060, 19.40533772, 22.74462945, 37.36095910),
        all_but_the_last_have_k,
    ),
    # Published, to all digits
    "dba_1": Contract(
        of_two_phases("dba_1"),
        losses(20.69948803, 23.82761456, 26.00129826, 35.39295837),
        as_many_as_possible,
        within=6e-9,
        **DENSITY,
    ),
    "dba_2": Contract(
        of_two_phases("dba_2"),
        losses(16.15265063, 22.67107728, 25.45039236, 34.80675148),
        within=6e-9,
        same=same_groups,
        **DENSITY,
    ),
    "tfrp_1": Contract(
        of_two_phases("tfrp_1"), losses(17.228, 19.396, 22.110, 33.186), as_many_as_possible, within=5e-4, **TWO_PHASE
    ),
    "tfrp_2": Contract(
        of_two_phases("tfrp_2"), losses(16.881, 19.181, 21.847, 33.088), within=5e-4, same=same_groups, **TWO_PHASE
    ),
    # Printed at k = 3 is 16.38261429: its third digit is wrong
    "mdav_2": Contract(
        of_two_phases("mdav_2"),
        losses(16.68261429, 19.01314997, 22.07965363, 33.17932950),
        within=6e-9,
        same=same_groups,
        **TWO_PHASE,
    ),
    "kd_tree": Contract(classes.kd_tree, {}, below_twice, rows=(1, 2, 3, 5, 9, 10, 30), most_tied=40),
    "mst": Contract(spanning_tree.mst, {}, **TREE),
    "mst_d": Contract(
        spanning_tree.mst_d,
        losses(16.63, 19.66, 24.50, 38.58),
        within=0.0,
        relative=0.005,
        **TREE | {"rows": (1, 2, 5, 9, 10, 15, 40), "most_tied": None},
    ),
    # Measured, not published
    "k_ward": Contract(
        of_sets("k_ward"),
        losses(16.210911, 20.238125, 21.833512, 36.728001),
        within=6e-6,
        same=same_groups,
        most_tied=None,
        power=3,
        rows=(1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 27),
        widths=(1, 2, 3, 50),
    ),
    # Published are 17.10, 20.51, 26.04 and 38.80: the paper leaves choices open, see the docstring
    "mu_approx": Contract(
        of_sets("mu_approx"),
        losses(17.098991, 20.206624, 26.004528, 39.37037),
        within=6e-6,
        same=same_groups,
        most_tied=None,
        power=3,
        rows=(1, 2, 3, 5, 9, 10, 30, 45),
        widths=(1, 2, 3, 50),
    ),
}
"""By method; those whose twins need classes or a generator have tests of their own."""

CLASS_TWINS = {
    "class_kd_tree": (classes.kd_tree, 35, {"alpha": (0.0, 0.2, 0.5)}),
    "class_mdav": (classes.class_mdav, 60, {"alpha": (0.0, 0.2, 0.5, 1.0)}),
    "crest": (spanning_tree.crest, 20, {"alpha": (0.0, 0.3, 0.5, 1.0), "neighbours": tuple(range(2, 10))}),
    "crest_partial": (spanning_tree.crest_partial, 30, {}),
    "mst_t_close": (spanning_tree.mst_t_close, 25, {"t": (0.0, 0.1, 0.2, 0.25, 1 / 3, 0.5, 1.0)}),
}
"""Twins of the methods that need classes, the most records that they are given, and options in the twins' order."""

SIZES = {method: (contract.sizes, contract.options) for method, contract in CONTRACTS.items()} | {
    "class_kd_tree": (below_twice, ({},)),
    "class_mdav": (all_but_the_last_have_k, ({},)),
    "condensation": (as_many_as_possible, ({},)),
    "fuzzy_c_means": (
        below_twice,
        [
            {"fuzziness": fuzziness, "shrink": shrink, "iterations": 5}
            for fuzziness, shrink in product((1.01, 1.1, 2.0, 50.0), (0.1, 0.5, 0.99))
        ],
    ),
    "kmeans": (as_many_as_possible, ({},)),
    "mhm": (below_twice, [{"order": order} for order in ("npn", "md", "mdav", "cbfs")]),
    "optimal_univariate": (below_twice, ({},)),
    "spectral_rhs": (split_where_there_is_room, ({},)),
}
"""What is said of the sizes of groups beside the least and the largest, and the options with which it is tried."""

LINE = [0, 9, 1, 10, 8]
PAIRS = [0, 1, 1.5, 8.5, 9, 10]
EXAMPLES = {
    **dict.fromkeys(
        [
            "mdav",
            "cbfs",
            "md",
            "diameter_fixed",
            "pairwise_systematic",
            "k_ward",
            "mu_approx",
            "mst",
            "kd_tree",
            "spectral_rhs",
            "optimal_univariate",
            "mhm",
        ],
        (LINE, [0, 1, 0, 1, 1]),
    ),
    "mdav_generic": ([0, 9, 1, 10, 8, 5, 4.5], [0, 1, 0, 1, 2, 2, 2]),
    "mdav_1": ([0, 1, 20, 21, 5, 12, 16], [0, 0, 1, 1, 2, 2, 1]),
    "v_mdav": ([0, 0.1, 0.2, 5, 5.1, 9, 9.1], [1, 1, 1, 2, 2, 0, 0]),
    "mst_d": ([0, 1, 2, 3, 9, 9.5], [0, 0, 1, 1, 2, 2]),
    "rhs": (LINE, [0, 1, 0, 1, 0]),
    "tfrp_1": (LINE, [1, 0, 1, 0, 0]),
    "tfrp_2": (PAIRS, [1, 1, 1, 0, 0, 0]),
    "dba_1": ([0, 9, 1, 10.1, 8.9], [1, 0, 1, 0, 0]),
    "dba_2": (PAIRS, [0, 0, 0, 1, 1, 1]),
    "mdav_2": (PAIRS, [0, 0, 0, 1, 1, 1]),
}
"""Values of one column, and their groups of 2 or more."""

every_method = pytest.mark.parametrize("method", CONTRACTS)


def assert_same(method, features, k, options):
    contract, before = CONTRACTS[method], features.copy()
    labels = run(method, features, k, **options)
    assert labels.dtype == np.int64
    assert contract.same(labels, contract.twin(features, k, **options))
    assert (features == before).all()


@pytest.mark.parametrize("method", EXAMPLES)
def test_examples(method):
    values, groups = EXAMPLES[method]
    assert run(method, np.array(values, dtype=float)[:, None], 2).tolist() == groups


@pytest.mark.parametrize("method", sorted(METHODS))
@settings(deadline=None, max_examples=30)
@given(problem=class_problems(most_rows=120), data=st.data())
def test_every_method_keeps_its_promise(method, problem, data):
    """Groups of k or more, in blocks or not; the same for the same seed; the input as it was."""
    features, k, codes, shares = problem
    entry, (sizes_are_right, options) = METHODS[method], SIZES.get(method, (any_sizes, ({},)))
    if method == "optimal_univariate":
        features = features[:, :1].copy()
    options, seed, blocks = (data.draw(each) for each in (st.sampled_from(options), st.integers(0, 3), st.booleans()))
    options = options | ({"block_rows": max(2 * k, len(features) // 3)} if blocks else {})
    options = options | ({"classes": codes, "class_shares": shares} if entry.classes else {})
    before = features.copy(), codes.copy(), shares.copy()
    try:
        labels = cluster(features, k, method, rng=np.random.default_rng(seed), **options)
    except InfeasibleError:
        assert method in REFUSING
        return
    sizes = np.bincount(labels)
    assert labels.dtype == np.int64 and len(labels) == len(features) and sizes.min() >= k
    assert entry.largest is None or sizes.max() <= max(k, entry.largest(k))
    assert blocks or sizes_are_right(sizes, len(features), k)
    assert all((a == b).all() for a, b in zip(before, (features, codes, shares), strict=True))
    again = np.random.default_rng(seed if entry.draws else seed + 1)
    assert (cluster(features, k, method, rng=again, **options) == labels).all()


@pytest.mark.parametrize("method", [method for method, entry in METHODS.items() if entry.draws])
def test_another_seed_gives_other_groups(method):
    features = np.random.default_rng(0).normal(size=(400, 3))
    first, second = (cluster(features, 5, method, rng=np.random.default_rng(seed)) for seed in (1, 2))
    assert not same_groups(first, second)


@pytest.mark.parametrize(
    ("method", "option", "text"),
    [
        *(("v_mdav", {"gamma": gamma}, "Input should be") for gamma in (-0.1, np.inf, np.nan)),
        *(("mst_t_close", {"t": t}, "than or equal to [01]") for t in (-0.1, 1.1, np.nan)),
        *(("class_kd_tree", {"alpha": alpha}, "than or equal to [01]") for alpha in (-1.0, 1.01, np.nan)),
        *(("crest", {"alpha": alpha}, "") for alpha in (-0.1, 2, np.nan)),
        ("class_mdav", {"alpha": 1.5}, "less than or equal to 1"),
        ("crest", {"neighbours": 1}, "greater than or equal to 2"),
        ("kmeans", {"iterations": 0}, "greater than or equal to 1"),
        ("fuzzy_c_means", {"fuzziness": 1.0}, "greater than or equal to 1.01"),
        ("fuzzy_c_means", {"fuzziness": np.nan}, ""),
        ("fuzzy_c_means", {"step": -0.1}, ""),
        ("fuzzy_c_means", {"shrink": 1.0}, "less than 1"),
        ("fuzzy_c_means", {"shrink": 0.0}, "greater than 0"),
        ("fuzzy_c_means", {"iterations": 0}, ""),
        ("mhm", {"order": "row"}, "Input should be 'npn', 'md', 'mdav' or 'cbfs'"),
    ],
)
def test_wrong_options_are_refused(method, option, text):
    codes = {"classes": np.zeros(6, dtype=int)} if METHODS[method].classes else {}
    ((name, value),) = option.items()
    with pytest.raises(ValueError, match=f"{method} was given {name}={value!r}.*: .*{text}"):
        run(method, np.zeros((6, 1)), 2, **codes, **option)


@pytest.mark.parametrize("method", [method for method, contract in CONTRACTS.items() if contract.most_tied])
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_same_as_the_naive_twin_with_ties(method, data):
    # Sums and squares of whole numbers are exact in any order, so that ties are ties for both.
    features, k = data.draw(grouping_problems(most_rows=CONTRACTS[method].most_tied))
    assert_same(method, np.round(features * 4), k, data.draw(st.sampled_from(CONTRACTS[method].options)))


@pytest.mark.parametrize("method", CLASS_TWINS)
@settings(deadline=None, max_examples=60)
@given(data=st.data(), tied=st.booleans())
def test_same_as_the_naive_twin_of_classes(method, data, tied):
    twin, most_rows, allowed = CLASS_TWINS[method]
    features, k, codes, shares = data.draw(class_problems(most_rows=most_rows))
    features = np.round(features * 4) if tied else features
    options = {name: data.draw(st.sampled_from(values)) for name, values in allowed.items()}
    expected = twin(features, k, codes, shares, *options.values())
    assert (run(method, features, k, codes, shares, **options) == expected).all()


@every_method
def test_same_as_the_naive_twin(method):
    contract = CONTRACTS[method]
    for rows, width in product(contract.rows, contract.widths):
        features = np.random.default_rng(rows).normal(size=(rows, width)) ** contract.power
        sizes = (1, 2, 3, 5) if rows <= 20 else (2, 5)  # the twins' loops over many records take seconds
        for k, options in product(sizes, contract.options[:2]):
            if k <= rows:
                assert_same(method, features, k, options)


@pytest.mark.parametrize(("method", "k"), [(name, k) for name, contract in CONTRACTS.items() for k in contract.losses])
def test_reference_figures(method, k):
    contract, features = CONTRACTS[method], tarragona()
    expected = pytest.approx(contract.losses[k], abs=contract.within, rel=contract.relative)
    assert information_loss(features, run(method, features, k)) == expected
