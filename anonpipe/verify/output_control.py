"""What recipients may see: decided here, on numbers and on what checks and measures say of themselves.

Whatever is unknown is withheld: a check of another key, a figure of which
nobody says who may see it, or on how many records or columns it rests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anonpipe.audience import Audience
from anonpipe.verify.catalogue import SAID, Counts, Reason
from anonpipe.verify.check import Check, Withheld
from anonpipe.verify.verdict import Verdict

SEVERAL = 3
"""Columns from which on the worst difference of all of them does not give a moment of the original."""


def fewest_told(k: int) -> int:
    """Records that a figure has to be measured on before recipients see it: in one of few, single persons show.

    Examples
    --------
    >>> fewest_told(5)
    100
    """
    return 20 * k


def tellable(audience: Audience | None, records: int | None, columns: int | None, k: int) -> bool:
    """Whether recipients may see a figure.

    Parameters
    ----------
    audience
        What the figure says of itself; None where it says nothing.
    records
        That it rests on; None where that is not known.
    columns
        Of which it is the worst or the mean; None where that is not known,
        0 where no column has what it is a figure of, so that it tells nothing.
    k
        Smallest permissible group.

    Examples
    --------
    >>> tellable(Audience.ENOUGH, 99, None, 5), tellable(Audience.ENOUGH, 100, None, 5), tellable(None, 100, 9, 5)
    (False, True, False)
    >>> tellable(Audience.SEVERAL, 100, 2, 5), tellable(Audience.SEVERAL, 100, 3, 5)
    (False, True)
    """
    if audience is Audience.OPEN:
        return True
    if audience is None or audience is Audience.STEWARD or records is None or records < fewest_told(k):
        return False
    return audience is Audience.ENOUGH or (columns is not None and (columns == 0 or columns >= SEVERAL))


def released_checks(verdict: Verdict, k: int, rows: int) -> tuple[Check, ...]:
    """The checks as recipients may see them.

    A number of rows between 0 and k is not told, as a share neither. Nor are
    figures that are not `tellable`, nor the column in which one is worst:
    with the released moment, a difference of that column's gives the
    original's. Checks that this version does not know are left out.

    Parameters
    ----------
    verdict, k, rows
        Of the release.
    """
    return tuple(released_check(check, k, rows) for check in verdict.checks if check.kind is not None)


def released_check(check: Check, k: int, rows: int) -> Check:
    """One check as recipients may see it; what a measure says of records that it refuses is the steward's."""
    reason = Reason.WITHHELD if check.reason is Reason.REFUSED else check.reason
    about = {name: value for name, value in check.about.items() if name != SAID}
    told = replace(check, columns=(), about={**about, "k": k}, reason=reason)
    withheld = _withheld(check, k, rows)
    return told if withheld is None else replace(told, measured=None, withheld=withheld)


def _withheld(check: Check, k: int, rows: int) -> Withheld | None:
    kind, measured = check.kind, check.measured
    if measured is None:
        return None
    if kind is None or not tellable(kind.audience, check.records, check.compared, k):
        return Withheld.FIGURE
    if kind.counts is Counts.ROWS and 0 < measured < k:
        return Withheld.FEW_ROWS
    if kind.counts is Counts.SHARE and 0 < measured * rows < k - 0.5:
        return Withheld.FEW_OF_SHARE
    return None


def group_size_histogram(counts: Mapping[int, int], k: int) -> list[dict[str, Any]]:
    """Groups by size, in ranges of at least k groups each, so that no cell of the manifest is under k.

    Examples
    --------
    >>> group_size_histogram({5: 7, 6: 2, 9: 1}, 3)
    [{'from': 5, 'to': 5, 'groups': 7}, {'from': 6, 'to': 9, 'groups': 3}]
    """
    cells: list[dict[str, Any]] = []
    for size in sorted(counts):
        if cells and (cells[-1]["groups"] < k):
            cells[-1] = {"from": cells[-1]["from"], "to": size, "groups": cells[-1]["groups"] + counts[size]}
        else:
            cells.append({"from": size, "to": size, "groups": counts[size]})
    if len(cells) > 1 and cells[-1]["groups"] < k:
        last = cells.pop()
        cells[-1] = {"from": cells[-1]["from"], "to": last["to"], "groups": cells[-1]["groups"] + last["groups"]}
    if len(cells) == 1 and cells[0]["groups"] < k:
        return [{"from": cells[0]["from"], "to": cells[0]["to"], "groups": f"fewer than {k}"}]
    return cells
