"""Local suppression: no stratum releases a synthetic category, or its null, that fewer than k of its records hold.

A category that one person of a stratum has is that person, whatever else of
the record is synthetic: methods keep the counts of categories inside strata,
and which stratum a record belongs to is released. In each stratum the records
of all categories under k, together with those whose
value is missing, are released as missing if they are at least k; if they are
fewer, or if the column may not hold nulls, they join its commonest category.
Numbers that are missing in fewer than k records are released as numbers of
their groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from anonpipe.columns import Column, Kind
from anonpipe.encoding.columns import ColumnScan
from anonpipe.encoding.scan import Scan
from anonpipe.partition.strata import Strata
from anonpipe.partition.unit_sets import UnitSets
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True)
class Suppression:
    """Which codes are released as another one, stratum by stratum."""

    # Column name to its changes: each the stratum, the code (nulls: the number of categories) and the code that it is
    # released as
    targets: dict[str, list[tuple[int, int, int]]]
    missing: dict[str, int]  # The code of nulls of each of these columns: its number of categories
    ordinal: tuple[str, ...] = ()  # Columns among them whose nulls are NaN in the cells
    largest_share: float = 0.0  # Of the records, those that it changes in the column where it changes most
    # Of each of these columns the records of each code before, nulls last
    before: dict[str, list[int]] = field(default_factory=dict)
    largest_in: str = ""  # That column; empty where nothing is changed

    def apply(self, cells: FloatArray, names: tuple[str, ...], stratum: IntArray) -> None:
        """Replace suppressed codes in place.

        Shapes: stratum (n_rows,).
        """
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
    """For each code, nulls last, the code it is released as.

    Shapes: counts (n_categories,).

    Examples
    --------
    >>> released_codes(np.array([50, 2, 4, 30]), 0, 5, True)  # six records become missing
    [0, 4, 4, 3, 4]
    >>> released_codes(np.array([50, 2, 30]), 1, 5, True)  # three records join the commonest
    [0, 0, 2, 0]
    >>> units = UnitSets.of(np.array([0, 0, 1, 1, 1]), np.array([1, 1, 2, 3, 4], dtype=np.uint64), 2)
    >>> released_codes(np.array([50, 30]), 0, 2, True, units)  # 50 records of one unit
    [1, 1, 2]
    """
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
    changed, warnings, largest, largest_in = dict(scan.columns), [], 0, ""
    targets: dict[str, list[tuple[int, int, int]]] = {}
    before: dict[str, list[int]] = {}
    for name, scanned in scan.columns.items():
        if not columns[name].role.synthesized:
            continue
        if scanned.counts is None:
            if scanned.nulls > 0 and _held_by(scan.null_units.get(name), scanned.nulls) < k:
                changed[name] = replace(scanned, nulls=0, rows=scanned.rows - scanned.nulls)
                warnings.append(_filled(name, scanned.nulls, k))
            continue
        counts = _counts_inside(scan, name, strata)
        units = _units_inside(scan, name, strata)
        found = [
            change for of in sorted(counts) for change in _changes(of, counts[of], k, nullable[name], units.get(of))
        ]
        every = found + _left_out(counts, found)
        if every:
            changed[name] = _with_counts(scanned, *_after(counts, every), columns[name])
            targets[name] = every
            before[name] = np.sum([held for of, held in counts.items() if of >= 0], axis=0).tolist()
        if found:
            moved = sum(int(counts[of][code]) for of, code, _ in found)
            if moved > largest:
                largest, largest_in = moved, name
            gone = sum(int(counts[of][code]) for of, code, target in found if target == _missing(scan, name))
            told = _suppressed(name, moved, gone, k, nullable[name], stratified=bool(scan.strata_by))
            warnings.append(told)
    ordinal = tuple(name for name in targets if columns[name].kind is Kind.ORDINAL)
    missing = {name: _missing(scan, name) for name in targets}
    suppression = Suppression(targets, missing, ordinal, largest / max(1, scan.rows), before, largest_in)
    return replace(scan, columns=changed), suppression, warnings


def _held_by(units: UnitSets | None, rows: int) -> int:
    """What k counts of some rows at one place."""
    return rows if units is None else int(units.counts(1)[0])


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


def _changes(of: int, counts: IntArray, k: int, nullable: bool, units: UnitSets | None) -> list[tuple[int, int, int]]:
    """What is released as another code in one stratum; records that are left out need nothing."""
    if of < 0:
        return []
    codes = released_codes(counts[:-1], int(counts[-1]), k, nullable, units)
    return [(of, code, target) for code, target in enumerate(codes) if code != target and counts[code]]


def _filled(name: str, nulls: int, k: int) -> str:
    return f"column {name!r}: {nulls} missing values, of fewer than k={k}, are released as numbers of their groups"


def _suppressed(name: str, moved: int, gone: int, k: int, nullable: bool, *, stratified: bool) -> str:
    """What becomes of records that are rare, of which so many are released as missing."""
    where = " of a stratum" if stratified else ""
    there = " there" if stratified else ""
    why = f"as fewer than k={k} would be missing{there}" if nullable else "as the input's schema allows no nulls there"
    common = f"{'' if gone == 0 else f'{moved - gone} '}as the commonest category, {why}"
    ends = [f"{'' if gone == moved else f'{gone} '}as missing"] * (gone > 0) + [common] * (gone < moved)
    records, are = ("1 record has", "is") if moved == 1 else (f"{moved} records have", "are")
    return (
        f"column {name!r}: {records} a category, or none, that fewer than k={k} records{where} have, and {are} "
        f"released {', '.join(ends)}"
    )


def _after(counts: Mapping[int, IntArray], changes: list[tuple[int, int, int]]) -> tuple[IntArray, int]:
    """Records of each category after the changes, and those without a value."""
    total = np.sum(list(counts.values()), axis=0)
    for of, code, target in changes:
        total[target] += counts[of][code]
        total[code] -= counts[of][code]
    return total[:-1], int(total[-1])


def _left_out(counts: Mapping[int, IntArray], changes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Records of small strata that are left out take the commonest code where no other has theirs: it is not released.

    They are encoded with the others before they are left out.
    """
    if -1 not in counts:
        return []
    categories, nulls = _after({of: each for of, each in counts.items() if of >= 0}, changes)
    kept = np.append(categories, nulls)
    return [(-1, int(code), int(np.argmax(kept))) for code in np.flatnonzero((counts[-1] > 0) & (kept == 0))]


def _with_counts(scanned: ColumnScan, counts: IntArray, nulls: int, column: Column) -> ColumnScan:
    changed = replace(scanned, counts=counts, nulls=nulls)
    if column.kind is not Kind.ORDINAL:
        return changed
    codes, total = np.arange(len(counts)), max(1, int(counts.sum()))
    mean = float((codes * counts).sum() / total)
    spread = float((np.square(codes - mean) * counts).sum())
    return replace(changed, mean=mean, m2=spread, constant=int(np.count_nonzero(counts)) <= 1)
