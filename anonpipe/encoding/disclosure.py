"""Categorical disclosure control of key variables: frequencies, global recoding, local suppression.

All works on the distinct combinations of codes (-1 for null) and how many records have each, in an order of their own:
results do not depend on the order of the records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np

from anonpipe.encoding.row_hash import row_numbers
from anonpipe.errors import InputError
from anonpipe.types import BoolArray, FloatArray, IntArray

MOST_TRIED = 500_000_000  # Sets of keys, times combinations
MOST_LEVELS = 100_000  # Combinations of levels that are looked at
NULL = -1


def key_frequencies(codes: IntArray, records: FloatArray, wildcard: bool = True) -> FloatArray:
    """Records that have the same keys as each combination.

    - `codes`: of distinct combinations, -1 for null, shape (n, n_keys).
    - `records`: how many records have each, or the sum of their survey weights, shape (n,).
    - `wildcard`: a null stands for any category, of either record (sdcMicro's `freqCalc`); else it is a category.

    Examples
    --------
    The example of sdcMicro's `freqCalc` (of the CASC project), records and weights:

    >>> keys = np.array([[1, 2, 5, 1], [1, 2, 1, 1], [3, 3, 1, 5], [4, 3, 1, 4], [4, 3, 1, 1], [6, 2, 1, 5]])
    >>> key_frequencies(keys, np.array([2, 2, 1, 1, 1, 1])).tolist()
    [2.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    >>> keys[2, :2], keys[3, 3], keys[4, 0] = -1, -1, -1
    >>> key_frequencies(keys, np.array([110.0, 84.5, 17.0, 541.0, 8.0, 5.0])).tolist()
    [110.0, 84.5, 563.0, 566.0, 549.0, 22.0]

    Templ, Kowarik & Meindl (2015), doi:10.18637/jss.v067.i04, section 3.
    """
    if not wildcard:
        which = np.unique(_numbered(codes), return_inverse=True)[1]
        return np.asarray(np.bincount(which, weights=records)[which], dtype=np.float64)
    counted = np.zeros(len(codes))
    patterns, pattern = np.unique(codes == NULL, axis=0, return_inverse=True)
    members = [np.flatnonzero(pattern.reshape(-1) == at) for at in range(len(patterns))]
    for (own, mine), (other, theirs) in product(zip(patterns, members, strict=True), repeat=2):
        both = _numbered(codes[np.concatenate([mine, theirs])][:, ~(own | other)])
        which = np.unique(both, return_inverse=True)[1]
        sums = np.bincount(which[len(mine) :], weights=records[theirs], minlength=int(which.max()) + 1)
        counted[mine] += sums[which[: len(mine)]]
    return counted


def counted_rows(cells: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distinct rows of cells, and how many records have each."""
    _, first, records = np.unique(row_numbers(cells), return_index=True, return_counts=True)
    return cells[first], np.asarray(records, dtype=np.float64)


def with_nulls(cells: FloatArray, nulls: Sequence[float]) -> IntArray:
    """Codes of staged cells, in which NaN or a number of each column, shape (n_keys,), stands for null."""
    codes = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in cells.T]
    return np.where(np.isnan(cells) | (cells == nulls), NULL, np.stack(codes, axis=1))


def _numbered(codes: IntArray) -> IntArray:
    """One number for each combination, 0 where there are no keys."""
    return row_numbers(codes.astype(np.float64)) if codes.shape[1] else np.zeros(len(codes), dtype=np.int64)


def suppress(codes: IntArray, records: FloatArray, k: int, cost: Sequence[float], wildcard: bool = False) -> BoolArray:
    """Which keys of each combination become null, so that none is of fewer than k records; shape (n, n_keys).

    - `codes`, `records`: sorted distinct combinations and their records, as of `key_frequencies`.
    - `cost`: of a suppressed value of each key; of equal ones keys with more categories go first.
    - `wildcard`: a combination needs k records that agree in the keys that stay, as in sdcMicro. Else it needs k that
      are null in the same keys: only then does an intruder who knows all keys of a person find k records.

    Sets of keys are tried from the cheapest on; each combination gets the first that suffices. Fewer than k that are
    left join another class, each the one that costs least: both lose the keys in which they differ. The fewest
    suppressions are NP-hard (Meyerson & Williams 2004, doi:10.1145/1055558.1055591).
    """
    width = codes.shape[1]
    sizes = [len(np.unique(column)) for column in codes.T]
    sets = [each for count in range(1, width + 1) for each in combinations(range(width), count)]
    sets.sort(key=lambda each: (math.fsum(cost[at] for at in each), -math.prod(sizes[at] for at in each), each))
    tried_rows = len(sets) * len(codes) * (2 * len(np.unique(codes == NULL, axis=0)) if wildcard else 1)
    if tried_rows > MOST_TRIED:
        raise InputError(f"{width} keys of {len(codes):,} combinations are too many to suppress; name fewer, or recode")
    kept, rare = codes.copy(), key_frequencies(codes, records, wildcard) < k
    for chosen in sets:
        if not rare.any():
            break
        tried = codes.copy() if wildcard else kept.copy()
        places = np.array(chosen)
        tried[np.ix_(np.ones_like(rare) if wildcard else rare, places)] = NULL
        matched = np.ones_like(rare) if wildcard else rare | (kept == NULL).any(axis=1)
        enough = np.zeros_like(rare)
        enough[matched] = key_frequencies(tried[matched], records[matched], wildcard) >= k
        kept[np.ix_(rare & enough, places)] = NULL
        rare &= ~enough
    if rare.any() and records.sum() < k:
        raise InputError(f"there are fewer than k={k} records; add some")
    for at in np.flatnonzero(rare):
        differs, sizes_now = kept != kept[at], key_frequencies(kept, records, False)
        lost = (differs * (sizes_now[:, None] * (kept != NULL) + records[at])) @ np.array(cost)
        host = int(np.argmin(np.where(rare, np.inf, lost)))
        joined = (kept == kept[host]).all(axis=1)
        joined[at], rare[at] = True, False
        kept[np.ix_(joined, differs[host])] = NULL
    return np.asarray(kept != codes)


def recoding_loss(ancestors: IntArray, records: FloatArray) -> FloatArray:
    """Share of its categories that a record's category stands for beyond its own, at each level (Iyengar 2002).

    `ancestors`: the code of each value at each level, shape (n_values, n_levels); `records` of each value.
    """
    leaves = [np.bincount(level)[level] for level in ancestors.T]
    lost = np.array([records @ (each - 1.0) for each in leaves])
    return np.asarray(lost / max(1, len(ancestors) - 1) / max(1.0, records.sum()))


def best_levels(
    codes: IntArray, records: FloatArray, ancestors: Sequence[IntArray], k: int, most: float, wildcard: bool = False
) -> tuple[int, ...]:
    """The level of each key with the least loss at which at most a share of the records is in classes under k.

    - `codes`, `records`: distinct combinations and their records, as of `key_frequencies`.
    - `ancestors`: of each key as of `recoding_loss`; of one level where it is settled.
    - `most`: the share that is left to suppression.

    A node above a good one is good, and one below a failed one fails (Samarati 2001, doi:10.1109/69.971193): of the
    nodes that are left, in the order of their loss, first the last and then one at three quarters is tried (as
    in El Emam et al. 2009, doi:10.1197/jamia.M3144), until none is left.
    """
    by_value = [
        np.asarray(np.bincount(own[own != NULL], records[own != NULL], len(a)), dtype=np.float64)
        for own, a in zip(codes.T, ancestors, strict=True)
    ]
    losses = [recoding_loss(*each) for each in zip(ancestors, by_value, strict=True)]
    count, heights = math.prod(map(len, losses)), sum(len(loss) - 1 for loss in losses) + 1
    if count > MOST_LEVELS or count // heights * len(codes) > MOST_TRIED:  # tries are about those of one height
        raise InputError(
            f"{count:,} combinations of levels, of {len(codes):,} combinations of values, are too many to try; give "
            "some columns a level (disclosure.recode.NAME.level), round numbers (base), or name fewer keys"
        )
    nodes = sorted(
        product(*(range(len(loss)) for loss in losses)),
        key=lambda node: (math.fsum(loss[at] for loss, at in zip(losses, node, strict=True)), node),
    )
    levels, left = np.array(nodes), np.arange(count)
    best: tuple[int, ...] | None = None
    while len(left):
        at = left[-1 if len(left) == count else 3 * len(left) // 4]
        general = recoded(codes, [a[:, level] for a, level in zip(ancestors, nodes[at], strict=True)])
        if records[key_frequencies(general, records, wildcard) < k].sum() <= most * records.sum():
            best, left = nodes[at], left[left < at]
        else:
            left = left[(levels[left] > levels[at]).any(axis=1)]
    if best is None:
        raise InputError(
            f"no level of the hierarchies leaves at most {most:g} of the records in classes under k={k}; give a higher "
            "level, fewer keys, or a larger disclosure.max_suppressed"
        )
    return best


def recoded(codes: IntArray, targets: Sequence[IntArray]) -> IntArray:
    """The codes of each key replaced by its targets; nulls stay."""
    columns = [np.where(own == NULL, NULL, target[own]) for own, target in zip(codes.T, targets, strict=True)]
    return np.stack(columns, axis=1)


def populated_levels(ancestors: IntArray, population: FloatArray, least: float) -> IntArray:
    """The level of each area at which it and all its siblings have a population of `least` or more, shape (n,).

    Where one is too small, all of its parent's areas are raised: else the parent less its larger areas would tell of
    the small one. `ancestors`: as of `recoding_loss`; raises InputError where the highest level is too small.
    """
    level = np.zeros(len(ancestors), dtype=np.int64)
    for at, own in enumerate(ancestors.T):
        small = (level == at) & (np.bincount(own, population)[own] < least * (1.0 - 1e-9))  # sums are rounded
        if not small.any():
            continue
        if at + 1 == ancestors.shape[1]:
            raise InputError(
                f"{len(np.unique(own[small]))} areas of the highest level have a population under {least:g}; give the "
                "hierarchy a higher level, or lower minimum_population"
            )
        parents = ancestors[:, at + 1]
        level[np.isin(parents, parents[small])] = at + 1
    return level
