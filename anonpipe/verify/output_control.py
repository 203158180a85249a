"""What recipients may see: decided here, on numbers and on what checks and measures say of themselves.

Whatever is unknown is withheld: a check of another key, a figure of which
nobody says who may see it, or on how many records or columns it rests.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anonpipe.encoding.identifiers import doubled
from anonpipe.evaluate.measurement import Audience, Measurement, Reason
from anonpipe.evaluate.utility import Binning, Estimate, ModelFit
from anonpipe.verify.catalogue import KINDS, REFUSAL, Check, Counting, Withheld
from anonpipe.verify.verdict import Verdict

SEVERAL = 3  # Columns from which on the worst difference of all of them does not give a moment of the original


def fewest_records(k: int) -> int:
    """Records that a figure has to be measured on before recipients see it: in one of few, single persons show."""
    return 20 * k


def tellable(audience: Audience | None, records: int | None, columns: int | None, k: int) -> bool:
    """Whether recipients may see a figure."""
    if audience is Audience.OPEN:
        return True
    if audience is None or audience is Audience.STEWARD or on_too_few(records, k):
        return False
    return audience is Audience.ENOUGH or (columns is not None and (columns == 0 or columns >= SEVERAL))


def released_checks(
    verdict: Verdict, k: int, rows: int, series: bool = False, least: int | None = None
) -> tuple[Check, ...]:
    """The checks as recipients may see them, without keys that this version does not know."""
    # Numbers and shares of rows between 0 and k are withheld. So are figures that are not `tellable`, and the column in
    # which one is worst: with the released moment, a difference of that column's gives the original's.
    released = (released_check(check, k, rows, least) for check in verdict.checks if check.kind is not None)
    return tuple(_of_series(check, rows) if series else check for check in released)


def _of_series(check: Check, rows: int) -> Check:
    """A check of one of several releases: counts are those of the release, and figures and sizes are withheld."""
    # The limits on what is written widen by the records of a table or stratum: one digit does not give that number.
    limit, own = check.limit, KINDS[check.key].audience is Audience.OPEN
    if check.of is not None:
        check = replace(check, of=rows, records=None if check.records is None else min(check.records, rows))
    elif limit and not (own or KINDS[check.key].at_least):
        power = 10.0 ** math.floor(math.log10(limit))
        check = replace(check, limit=float(f"{math.ceil(limit / power - 1e-9) * power:.1g}"))
    if check.measured is None or (own and check.key != "group.smallest"):
        return check
    return replace(check, measured=None, withheld=Withheld.FIGURE)


def released_check(check: Check, k: int, rows: int, least: int | None = None) -> Check:
    """One check as recipients may see it; what a measure says of records that it refuses is the steward's."""
    reason = Reason.WITHHELD if check.reason is Reason.REFUSED else check.reason
    whom = {} if least is None else {"whom": "units"}
    about = {name: value for name, value in check.about.items() if name != REFUSAL} | {"k": k, **whom}
    released = replace(check, columns=(), point=None, high=None, about=about, reason=reason, doubted=check.doubt)
    withheld = _withheld(check, least or k, rows)
    return released if withheld is None else replace(released, measured=None, withheld=withheld)


def _withheld(check: Check, k: int, rows: int) -> Withheld | None:
    kind, measured = check.kind, check.measured
    if measured is None:
        return None
    if kind is None or not tellable(kind.audience, check.records, check.compared, k):
        return Withheld.FIGURE
    if kind.counts is Counting.ROWS and 0 < measured < k:
        return Withheld.FEW_ROWS
    if kind.counts is Counting.SHARE and 0 < measured * rows < k - 0.5:
        return Withheld.FEW_OF_SHARE
    return None


def about(count: int, what: str, base: int) -> str:
    """A count of the original as recipients may know it: a multiple of what k persons may add to it."""
    return f"fewer than {base:,} {what}" if count < base else f"about {base * round(count / base):,} {what}"


DIGITS = 3  # Of a released figure: in full precision one record's distance would tell its value


def disclosive(one: Measurement) -> bool:
    """Whether a measure is for the steward on however many records."""
    if one.audience is Audience.SEVERAL:
        return one.columns is None or one.columns < SEVERAL
    return one.audience not in (Audience.OPEN, Audience.ENOUGH)


def on_too_few(records: int | None, k: int) -> bool:
    """Whether a figure of records is withheld for their number; None where that is not known."""
    return records is None or records < fewest_records(k)


def released_measures(measured: Iterable[Measurement], k: int, least: int | None = None) -> tuple[Measurement, ...]:
    """What is not disclosive, was not measured on few records, and does not count fewer than k persons or units."""
    released = (one for one in measured if not disclosive(one) and not on_too_few(one.records, least or k))
    return tuple(replace(_coarsened(_hidden_count(one, k, least)), worst=(), then=()) for one in released)


def _hidden_count(one: Measurement, k: int, least: int | None) -> Measurement:
    """An exact share of all records is a count of persons, and so is the rest: reported from k on only."""
    rows = least or k
    if one.unit != "share" or one.low is not None or one.records != one.of:
        return one

    def few(share: float) -> bool:
        return 1e-6 < min(abs(share), abs(1.0 - share)) * one.of < rows - 1e-6

    def with_gaps(shares: Sequence[float]) -> tuple[float, ...]:
        return tuple(math.nan if few(share) else share for share in shares)

    if few(one.value):
        fewer = f"fewer than {k} records" if least is None else f"records that may be of fewer than {k} units"
        note = f"{fewer}, or all but {'fewer' if least is None else 'such'}; the figure is not reported. {one.note}"
        return replace(one, value=math.nan, note=note.strip(), parts=(), curves=())
    parts = tuple(zip((name for name, _ in one.parts), with_gaps([share for _, share in one.parts]), strict=True))
    curves = tuple(replace(line, y=with_gaps(line.y), baseline=with_gaps(line.baseline)) for line in one.curves)
    return replace(one, parts=parts, curves=curves)


def _coarsened(one: Measurement) -> Measurement:
    """All numbers of a figure with few digits."""
    numbers = {name: _coarse(getattr(one, name)) for name in ("value", "low", "high", "baseline")}
    parts = tuple((name, _coarse(value)) for name, value in one.parts)
    curves = tuple(
        replace(line, **{axis: _coarse(getattr(line, axis)) for axis in ("x", "y", "baseline")}) for line in one.curves
    )
    return replace(one, **numbers, parts=parts, curves=curves)


def _coarse(number: Any) -> Any:
    """A number, or each of several; None stays."""
    if number is None or isinstance(number, Sequence):
        return number and tuple(map(_coarse, number))
    return float(f"{number:.{DIGITS}g}")


def released_estimates(fit: ModelFit, k: int) -> dict[str, Estimate]:
    """The coefficients of a fit to the release that recipients may see: those that they can compute themselves."""
    # None where a function of the formula has learnt from the original: of ``standardize(age)`` they are in its
    # deviations, of ``bs(age, df=4)`` they follow from its quantiles and extremes. Nor one that rests on fewer than k
    # records. What the fitted design does not know is withheld.
    if fit.learnt is not False:
        return {}
    return {
        name: estimate
        for name, estimate in fit.estimates.items()
        if estimate is not None and fit.behind.get(name, 0) >= k
    }


# Of the coefficients; not the overlap of their intervals, which of few leads back to those of the original
RELEASED_SHARES = ("changed_significance", "changed_direction", "outside")


def bins_for_recipients(k: int, least: int | None = None) -> Binning:
    """Bins of k records of either table; nothing is gained by subtracting one rounded count from another."""
    # Where units have several records, bins of `least`, which are of k units for certain; counts are multiples of it.
    rows = least or k
    return Binning(rows, rows, from_release=True, rounded=rows, units=None if least is None else k)


def bins_for_steward(k: int) -> Binning:
    """Bins of k original records, with their very counts."""
    return Binning(k)


def group_size_histogram(counts: Mapping[int, int], k: int, units: bool = False) -> list[dict[str, Any]]:
    """Groups by size, in ranges of at least k groups each, so that no cell of the manifest is under k."""
    # Where units have several rows, one of them may make up nearly all of a group: ranges then go from k, 2 k, 4 k and
    # so on to the next of these, as the size of one group would tell of that unit.
    if units:
        ranges: Counter[int] = Counter()
        for size, groups in counts.items():
            ranges[doubled(k, size // 2 + 1)] += groups
        counts = ranges
    cells: list[dict[str, Any]] = []
    for size in sorted(counts):
        if cells and cells[-1]["groups"] < k:
            cells[-1] |= {"to": size, "groups": cells[-1]["groups"] + counts[size]}
        else:
            cells.append({"from": size, "to": size, "groups": counts[size]})
    if len(cells) > 1 and cells[-1]["groups"] < k:
        last = cells.pop()
        cells[-1] |= {"to": last["to"], "groups": cells[-1]["groups"] + last["groups"]}
    if len(cells) == 1 and cells[0]["groups"] < k:
        cells[0]["groups"] = f"fewer than {k}"
    return [cell | {"to": 2 * cell["to"] - 1} for cell in cells] if units else cells
