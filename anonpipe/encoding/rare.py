"""Local suppression: no stratum releases a synthetic category, or its null, that fewer than k of its records hold.

A category that one person of a stratum has is that person: methods keep the counts of categories inside strata. In each
stratum the records of all categories under k, together with those whose value is missing, are released as missing if
they are at least k; if they are fewer, if the column may not hold nulls, or if survey weights are calibrated by it,
they join its commonest category. Numbers that are missing in fewer than k records are released as numbers of their
groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from anonpipe.columns import Column, Kind
from anonpipe.encoding.columns import ColumnScan, Outermost, Sums, coded_scan, logarithms, with_moments
from anonpipe.encoding.quantiles import DOMINANCE, FEWEST
from anonpipe.encoding.scan import Scan
from anonpipe.errors import KEEP_EXTREMES, InputError, by_column, plural
from anonpipe.partition.strata import Strata, UnitSets
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True)
class Suppression:
    """Which codes are released as another one, stratum by stratum."""

    # Column name to its changes: each the stratum, the code (nulls: the number of categories) and its new code
    targets: dict[str, list[tuple[int, int, int]]]
    missing: dict[str, int]  # The code of nulls of each of these columns: its number of categories
    ordinal: tuple[str, ...] = ()  # Columns among them whose nulls are NaN in the cells
    largest_share: float = 0.0  # Of the records, those that it changes in the column where it changes most
    # Of each of these columns the records of each code before, nulls last
    before: dict[str, list[int]] = field(default_factory=dict)
    largest_in: str = ""  # That column; empty where nothing is changed

    def apply(self, cells: FloatArray, names: tuple[str, ...], stratum: IntArray) -> None:
        """Replace suppressed codes in place; stratum (n_rows,)."""
        for name, changes in self.targets.items():
            position, missing = names.index(name), self.missing[name]
            codes = np.where(np.isnan(cells[:, position]), missing, cells[:, position]).astype(np.int64)
            of, code, target = np.array(sorted(changes), dtype=np.int64).T
            keys, wanted = of * (missing + 1) + code, stratum * (missing + 1) + codes
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            differs = keys[at] == wanted
            cells[differs, position] = target[at[differs]]
            if name in self.ordinal:
                cells[differs & (target[at] == missing), position] = np.nan


def released_codes(counts: IntArray, nulls: int, k: int, nullable: bool, units: UnitSets | None = None) -> list[int]:
    """For each code, nulls last, the code it is released as; counts (n_categories,)."""
    missing = len(counts)
    held = counts if units is None else np.asarray(units.counts(missing + 1))[:missing]
    rare = (counts > 0) & (held < k)
    affected = int(counts[rare].sum()) + nulls if units is None else units.together(np.append(rare, True))
    fit = (counts > 0) & ~rare
    common = int(np.argmax(np.where(fit, counts, -1) if fit.any() else counts))
    target = missing if nullable and affected >= k else common
    codes = list(range(missing + 1))
    for code in np.flatnonzero(rare):
        codes[code] = target
    if nulls > 0 and affected < k:
        codes[missing] = target
    return codes


def suppress_rare(
    scan: Scan, columns: Mapping[str, Column], nullable: Mapping[str, bool], k: int, strata: Strata
) -> tuple[Scan, Suppression, list[str]]:
    """Plan the suppression, and say what the scan looks like after it."""
    calibrated = {name for column in columns.values() for name in column.calibrate}
    changed, warnings, largest, largest_in = dict(scan.columns), [], 0, ""
    rare: list[tuple[str, str, str]] = []
    targets: dict[str, list[tuple[int, int, int]]] = {}
    before: dict[str, list[int]] = {}
    for name, scanned in scan.columns.items():
        if not columns[name].role.synthesized:
            continue
        if scanned.counts is None:
            units = scan.null_units.get(name)
            without = scanned.nulls if units is None else int(units.counts(1)[0])
            if scanned.nulls > 0 and without < k:
                changed[name] = replace(scanned, nulls=0, rows=scanned.rows - scanned.nulls)
                warnings.append(
                    f"column {name!r}: {scanned.nulls} missing values, of fewer than k={k}, are released as numbers of "
                    "their groups"
                )
            continue
        counts = _counts_inside(scan, name, strata)
        inside = _units_inside(scan, name, strata)
        found: list[tuple[int, int, int]] = []
        for of in sorted(of for of in counts if of >= 0):  # records that are left out need nothing
            may_be_null = nullable[name] and name not in calibrated
            codes = released_codes(counts[of][:-1], int(counts[of][-1]), k, may_be_null, inside.get(of))
            found += [(of, code, target) for code, target in enumerate(codes) if code != target and counts[of][code]]
        every = found + _left_out(counts, found)
        if every:
            held, nulls = _after(counts, every)
            changed[name] = replace(coded_scan(scanned.categories, held, nulls, scanned.outside), unused=scanned.unused)
            targets[name] = every
            before[name] = np.sum([codes for of, codes in counts.items() if of >= 0], axis=0).tolist()
            gone_values = int(np.count_nonzero(np.array(before[name])[np.append(held, nulls) == 0]))
            if name in calibrated and gone_values:
                warnings.append(_JOINED.format(name=name, joined=plural(gone_values, "value")))
        if found:
            moved = sum(int(counts[of][code]) for of, code, _ in found)
            if moved > largest:
                largest, largest_in = moved, name
            gone = sum(int(counts[of][code]) for of, code, target in found if target == _missing(scan, name))
            why = "as weights are calibrated by it" if name in calibrated else ""
            why = why if nullable[name] else "as the input's schema allows no nulls there"
            cause = _suppressed(moved, gone, k, why, stratified=bool(scan.strata_by))
            rare.append((name, plural(moved, "record"), cause))
    ordinal = tuple(name for name in targets if columns[name].kind is Kind.ORDINAL)
    missing = {name: _missing(scan, name) for name in targets}
    suppression = Suppression(targets, missing, ordinal, largest / max(1, scan.rows), before, largest_in)
    return replace(scan, columns=changed), suppression, [*warnings, *by_column(rare)]


def _missing(scan: Scan, name: str) -> int:
    """The code of nulls: the number of categories."""
    return len(scan.columns[name].categories or ())


def _counts_inside(scan: Scan, name: str, strata: Strata) -> dict[int, IntArray]:
    """Records of each code, nulls last, in each stratum; -1 is what is left out with small strata."""
    scanned, size = scan.columns[name], _missing(scan, name) + 1
    if name not in scan.inside:
        return {0: np.append(np.asarray(scanned.counts), scanned.nulls).astype(np.int64)}
    codes, rows = scan.inside[name]
    of = _stratum_of(codes, strata)
    found, which = np.unique(of, return_inverse=True)
    counts = np.zeros((len(found), size), dtype=np.int64)
    np.add.at(counts, (which, codes[:, -1]), rows)
    return dict(zip(found.tolist(), counts, strict=True))


def _units_inside(scan: Scan, name: str, strata: Strata) -> dict[int, UnitSets]:
    """The units of each code, nulls last, in each stratum; empty where each row is one."""
    if name not in scan.inside_units:
        return {}
    codes, units = scan.inside[name][0], scan.inside_units[name]
    of = _stratum_of(codes, strata)
    return {at: units.moved(np.where(of == at, codes[:, -1], -1)) for at in np.unique(of).tolist()}


def _stratum_of(codes: IntArray, strata: Strata) -> IntArray:
    """The stratum of combinations of codes of the strata columns and another one."""
    combination = np.zeros(len(codes), dtype=np.int64)
    for column, count in zip(codes.T[:-1], strata.sizes, strict=True):
        combination = combination * count + column
    return np.asarray(strata.stratum, dtype=np.int64)[combination]


_JOINED = (
    "column {name!r}, by which weights are calibrated: no released record has {joined} of it (null is one). Their sums "
    "count with those of the smallest others; join rare categories in the input, or take fewer strata or random groups"
)


def _suppressed(moved: int, gone: int, k: int, why: str, *, stratified: bool) -> str:
    """What becomes of records that are rare, of which so many are released as missing; `why` no more are, if known."""
    where, there = (" of a stratum", " there") if stratified else ("", "")
    why = why or f"as fewer than k={k} would be missing{there}"
    ends = ["missing"] * (gone > 0) + [f"the commonest category, {why}"] * (gone < moved)
    return f"categories, or none, that fewer than k={k} records{where} have are released as {' or as '.join(ends)}"


def _after(counts: Mapping[int, IntArray], changes: list[tuple[int, int, int]]) -> tuple[IntArray, int]:
    """Records of each category after the changes, and those without a value."""
    total = np.sum(list(counts.values()), axis=0)
    for of, code, target in changes:
        total[target] += counts[of][code]
        total[code] -= counts[of][code]
    return total[:-1], int(total[-1])


def _left_out(counts: Mapping[int, IntArray], changes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Left-out records, encoded with the others, take the commonest code where theirs occurs nowhere else."""
    if -1 not in counts:
        return []
    categories, nulls = _after({of: each for of, each in counts.items() if of >= 0}, changes)
    kept = np.append(categories, nulls)
    return [(-1, int(code), int(np.argmax(kept))) for code in np.flatnonzero((counts[-1] > 0) & (kept == 0))]


# --- Extremes of columns that are masked on their own scale, or as logarithms: few that dominate are coded -----------
# A mean over k records discloses a value that makes up most of it, and the sum of few that do. The means of columns by
# normal scores are made so that this does not happen (`anonpipe.encoding.quantiles`). For others each method makes its
# own means, so that dominant values are coded before any method sees them: in each stratum, and at both ends.


@dataclass(frozen=True)
class Extremes:
    """Values that are top- or bottom-coded."""

    # Of each column of which some are, the lowest and the highest value of each stratum; infinite for none
    limits: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)  # By how much the mean of each of these is moved, in its unit
    reach: dict[str, float] = field(default_factory=dict)  # How far the furthest was from where it is now

    def apply(self, cells: FloatArray, names: tuple[str, ...], stratum: IntArray) -> None:
        """Top- and bottom-code values, in place; those of records that are left out (stratum -1) stay."""
        for name, limits in self.limits.items():
            low, high = np.array([*limits, (-np.inf, np.inf)])[stratum].T
            position = names.index(name)
            cells[:, position] = np.minimum(np.maximum(cells[:, position], low), high)


def code_extremes(
    scan: Scan, columns: Mapping[str, Column], stratum: IntArray, strata: int, least: int
) -> tuple[Scan, Extremes]:
    """Find the limits of top and bottom coding, and the scan after it."""
    least = max(least, FEWEST)
    extremes, changed, by_combination = Extremes(), dict(scan.columns), dict(scan.by_combination)
    for name, found in scan.outermost.items():
        if least > found.looked_at:
            raise InputError(
                f"column {name!r}: its {found.looked_at:,} outermost rows are examined for dominant values, and "
                f"{least:,} are needed to hold k units for certain; give the largest units fewer rows, or the "
                f"column transform: normal_scores, or {KEEP_EXTREMES}"
            )
        limits = _limits(found.moved(stratum, strata), columns[name], strata, least)
        low, high = np.array([*limits, (-np.inf, np.inf)])[stratum[found.places]].T
        drawn = np.clip(found.values, low, high)
        at = np.flatnonzero(drawn != found.values)
        if not len(at):
            continue
        before = scan.columns[name]
        changed[name] = _without(before, columns[name], found.values[at], drawn[at], drawn)
        if name in by_combination:
            by_combination[name] = _moved(by_combination[name], found.places[at], found.values[at], drawn[at])
        extremes.limits[name] = limits
        extremes.moved[name] = float((drawn[at] - found.values[at]).sum() / before.values)
        extremes.reach[name] = float(np.abs(drawn[at] - found.values[at]).max())
    return replace(scan, columns=changed, by_combination=by_combination), extremes


def _limits(found: Outermost, column: Column, strata: int, least: int) -> list[tuple[float, float]]:
    """The lowest and the highest value of each stratum."""
    limits = []
    for at in range(strata):
        values = found.at(at)
        scales = [values] if column.offset is None else [values, logarithms(values, column)]
        # From either end, descending; of logarithms that are averaged values count, too
        ends = [-each for each in scales], [each[::-1] for each in scales]
        below, above = (max(drawn_to(each, int(found.counts[at]), least) for each in end) for end in ends)
        limits.append((values[below] if below else -np.inf, values[-1 - above] if above else np.inf))
    return limits


def drawn_to(values: FloatArray, records: int, least: int) -> int:
    """How many of the first values are coded as the next one.

    Two rules, of which each looks at how far the first are beyond a border, the value after the outermost `least`, and
    only at values further out than the range of all others. *Few apart*: fewer than `least` that are ten times as far
    out as the next, and as the range of the `least` below, and that have ten times as much as all others together: a
    mean discloses their sum. *p %*: the others have less than a tenth of the first, for the holder of the second, who
    takes his own away; then as many count as one as make it safe. With fewer than three times `least` values only the
    first rule is used, and compares with the nearer half of the others.
    """
    roomy = records >= 3 * least
    run = least if roomy else records // 2
    if run < 1:
        return 0
    border = values[run]
    # The other end may have some, too, and must not make the rest look wide
    last = -1 - run if roomy else -1 - (records - run - 1) // 2
    excess, wide = values[:run] - border, border - values[last]
    held, after = np.cumsum(excess), np.append(excess[1:], 0.0)
    length = border - values[2 * run - 1] if roomy else wide
    apart = (DOMINANCE * excess > np.maximum(length, after)) & (held[-1] - held < DOMINANCE * held) & (excess > wide)
    few = int(np.flatnonzero(np.append(True, apart[: least - 1]))[-1])
    if not roomy or excess[0] <= wide:
        return few
    for number in range(max(few, 0) + 1, run - 1):  # so many count as the last of them
        if held[-1] - held[number] >= DOMINANCE * number * excess[number - 1]:
            return 0 if number == 1 else number - 1
    return run


def _without(
    scanned: ColumnScan, column: Column, before: FloatArray, after: FloatArray, every: FloatArray
) -> ColumnScan:
    """The scan of a column of which some values are others; `every` are the outermost as they are then."""
    sums = _replaced(scanned.sums, before, after)
    log_sums = scanned.log_sums
    if log_sums is not None:
        log_sums = _replaced(log_sums, logarithms(before, column), logarithms(after, column))
    least, most = float(every.min()), float(every.max())
    return with_moments(
        replace(scanned, sums=sums, log_sums=log_sums, least=least, most=most, constant=bool(least == most))
    )


def _replaced(sums: Sums | None, before: FloatArray, after: FloatArray) -> Sums | None:
    if sums is None:
        return None
    gone, come = Sums.of(before), Sums.of(after)
    return Sums(sums.total - gone.total + come.total, sums.squares - gone.squares + come.squares)


def _moved(
    numbers: tuple[FloatArray, FloatArray, FloatArray], places: IntArray, before: FloatArray, after: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Numbers, means and squared deviations of each place, of which some values are others."""
    n, mean, m2 = numbers
    centred = np.square(before - mean[places]), np.square(after - mean[places])
    shift = np.bincount(places, after - before, len(n)) / np.maximum(n, 1.0)
    rest = m2 + np.bincount(places, centred[1] - centred[0], len(n)) - n * np.square(shift)
    return n, mean + shift, np.maximum(rest, 0.0)


def extremes_kept(columns: Mapping[str, Column]) -> Sequence[str]:
    """Columns on a scale of their own whose extremes the job keeps."""
    return [name for name, column in columns.items() if column.extremes == "keep"]
