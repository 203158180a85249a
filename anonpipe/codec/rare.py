"""Local suppression: no synthetic column releases a category, or a null, that fewer than k records hold.

A category that one person has is that person, whatever else of the record is
synthetic. The records of all categories under k, together with those whose
value is missing, are released as missing if they are at least k; if they are
fewer, or if the column may not hold nulls, they join the commonest category.
Numbers that are missing in fewer than k records are released as numbers of
their groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.codec.columns import ColumnScan
from anonpipe.codec.scan import Scan
from anonpipe.schema import Column, Kind

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Suppression:
    """Which codes are released as another one.

    Attributes
    ----------
    targets
        Column name to a list: for each code, nulls last, the code it is released as.
    ordinal
        Columns among them whose nulls are NaN in the cells.
    largest_share
        Of the records, those that it changes in the column where it changes most.
    """

    targets: dict[str, list[int]]
    ordinal: tuple[str, ...] = ()
    largest_share: float = 0.0

    def apply(self, cells: FloatArray, names: tuple[str, ...]) -> None:
        """Replace suppressed codes in place; cells of shape (n_rows, n_columns), `names` their columns."""
        for name, targets in self.targets.items():
            position = names.index(name)
            codes = np.where(np.isnan(cells[:, position]), len(targets) - 1, cells[:, position]).astype(np.int64)
            changed = np.asarray(targets, dtype=np.int64)[codes]
            differs = changed != codes
            cells[differs, position] = changed[differs]
            if name in self.ordinal:
                cells[differs & (changed == len(targets) - 1), position] = np.nan

    def to_dict(self) -> dict[str, Any]:
        """JSON-able content."""
        return {"targets": self.targets, "ordinal": list(self.ordinal), "largest_share": self.largest_share}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Suppression:
        """Read what `to_dict` gave."""
        return cls(content["targets"], tuple(content["ordinal"]), content["largest_share"])


def released_codes(counts: IntArray, nulls: int, k: int, nullable: bool) -> list[int]:
    """For each code, nulls last, the code it is released as.

    Parameters
    ----------
    counts
        Records of each category, shape (n_categories,).
    nulls
        Records without a value.
    k
        Smallest number of records that may share a released category.
    nullable
        Whether the column may hold nulls.

    Examples
    --------
    >>> released_codes(np.array([50, 2, 4, 30]), 0, 5, True)  # six records become missing
    [0, 4, 4, 3, 4]
    >>> released_codes(np.array([50, 2, 30]), 1, 5, True)  # three records join the commonest
    [0, 0, 2, 0]
    """
    missing = len(counts)
    rare = np.flatnonzero((counts > 0) & (counts < k))
    affected = int(counts[rare].sum()) + nulls
    target = missing if nullable and affected >= k else int(np.argmax(counts))
    codes = list(range(missing + 1))
    for code in rare:
        codes[code] = target
    if nulls > 0 and affected < k:
        codes[missing] = target
    return codes


def suppress_rare(
    scan: Scan, columns: Mapping[str, Column], nullable: Mapping[str, bool], k: int
) -> tuple[Scan, Suppression, list[str]]:
    """Plan the suppression, and say what the scan looks like after it.

    Parameters
    ----------
    scan
        Of the whole input.
    columns
        The job's columns.
    nullable
        Whether each column may hold nulls.
    k
        Smallest number of records that may share a category.

    Returns
    -------
    scan
        The same as if suppressed values had never been there.
    suppression
        To be applied to cells.
    warnings
        Columns and counts, no category.
    """
    changed, targets, warnings = dict(scan.columns), {}, []
    for name, scanned in scan.columns.items():
        if not columns[name].role.synthesized:
            continue
        if scanned.counts is None:
            if 0 < scanned.nulls < k:
                changed[name] = replace(scanned, nulls=0, rows=scanned.rows - scanned.nulls)
                warnings.append(_filled(name, scanned.nulls, k))
            continue
        codes = released_codes(scanned.counts, scanned.nulls, k, nullable[name])
        if codes != list(range(len(codes))):
            changed[name], targets[name] = _recounted(scanned, codes, columns[name]), codes
            warnings.append(_suppressed(name, scanned, codes))
    ordinal = tuple(name for name in targets if columns[name].kind is Kind.ORDINAL)
    share = max((_moved(scan.columns[name], codes) for name, codes in targets.items()), default=0) / max(1, scan.rows)
    return replace(scan, columns=changed), Suppression(targets, ordinal, share), warnings


def _filled(name: str, nulls: int, k: int) -> str:
    return f"column {name!r}: {nulls} missing values, fewer than k={k}, are released as numbers of their groups"


def _moved(scanned: ColumnScan, codes: list[int]) -> int:
    """Records that are released as another code."""
    counts = np.append(scanned.counts if scanned.counts is not None else [], scanned.nulls)
    return int(counts[[code for code, target in enumerate(codes) if code != target]].sum())


def _suppressed(name: str, scanned: ColumnScan, codes: list[int]) -> str:
    target = next(target for code, target in enumerate(codes) if code != target)
    place = "missing" if target == len(codes) - 1 else "the commonest category"
    rows = _moved(scanned, codes)
    return f"column {name!r}: {rows} records of categories under k (or missing) are released as {place}"


def _recounted(scanned: ColumnScan, targets: list[int], column: Column) -> ColumnScan:
    before = np.append(scanned.counts if scanned.counts is not None else [], scanned.nulls).astype(np.int64)
    after = np.bincount(targets, weights=before, minlength=len(before)).astype(np.int64)
    counts, nulls = after[:-1], int(after[-1])
    changed = replace(scanned, counts=counts, nulls=nulls)
    if column.kind is not Kind.ORDINAL:
        return changed
    codes, total = np.arange(len(counts)), max(1, int(counts.sum()))
    mean = float((codes * counts).sum() / total)
    spread = float((np.square(codes - mean) * counts).sum())
    return replace(changed, mean=mean, m2=spread, constant=int(np.count_nonzero(counts)) <= 1)
