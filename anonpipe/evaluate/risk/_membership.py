"""Attack: does the distance to the release tell whether a person was in the original table."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._groups import records_of
from anonpipe.evaluate.risk._interval import difference, wilson
from anonpipe.evaluate.risk._known import Known
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.risk._trained_membership import trained_on
from anonpipe.evaluate.utility import Auc, Measurement, auc
from anonpipe.types import FloatArray

FALSE_ALARMS = 0.01  # Share of persons outside that the careful attacker takes for members

_NOTE = (
    "The attacker knows a person's whole record and looks at its distance to the closest released one; "
    "a trained classifier, which is measured too, may do better."
)


@dataclass(frozen=True)
class Membership:
    """How well members are told from persons of a hold-out."""

    # Chance that a member is closer to the release than a held-out person, with its 95 % interval; 0.5 is guessing
    area: Auc
    # Share of members taken for members less that of held-out persons, at the threshold that an attacker learns from
    # other persons
    advantage: float
    # advantage_low, advantage_high: its 95 % interval
    advantage_low: float
    advantage_high: float
    # found, found_low, found_high: share of members found by an attacker who accuses 1 % of the others at most, and its
    # interval; NaN and None for fewer than 100 held out
    found: float
    found_low: float | None
    found_high: float | None
    # members, held_out: records of each
    members: int
    held_out: int
    of: int  # Members that there are

    def measurements(self) -> tuple[Measurement, ...]:
        """Area under the curve, advantage, and members found at few false alarms."""
        source = (
            "Yeom et al. (2018), doi:10.1109/CSF.2018.00027; Carlini et al. (2022), doi:10.1109/SP46214.2022.9833649"
        )
        few = math.isnan(self.found)
        return (
            Measurement(
                name="membership.auc",
                title="Chance that a person of the table is closer to the release than one who is not in it",
                value=self.area.value,
                unit="probability",
                better="near baseline",
                source=source,
                records=min(self.members, self.held_out),
                of=self.of,
                audience=Audience.ENOUGH,
                low=self.area.low,
                high=self.area.high,
                baseline=0.5,
                baseline_is="guessing",
                note=f"Against {self.held_out} persons held out. {_NOTE}",
            ),
            Measurement(
                name="membership.advantage",
                title="Share of members recognised, less the share of others taken for members",
                value=self.advantage,
                unit="share",
                better="lower",
                source=source,
                records=min(self.members, self.held_out),
                of=self.of,
                audience=Audience.ENOUGH,
                low=self.advantage_low,
                high=self.advantage_high,
                baseline=0.0,
                baseline_is="guessing",
                note=f"Threshold learnt on one half of the persons and used on the other, both ways. {_NOTE}",
            ),
            Measurement(
                name="membership.found_at_1_percent",
                title="Share of members recognised by an attacker who is wrong about 1 % of the others",
                value=self.found,
                unit="share",
                better="lower",
                source=source,
                records=min(self.members, self.held_out),
                of=self.of,
                audience=Audience.ENOUGH,
                low=self.found_low,
                high=self.found_high,
                baseline=FALSE_ALARMS,
                baseline_is="guessing",
                note=f"Not defined: only {self.held_out} persons held out, 100 needed." if few else _NOTE,
            ),
        )


def membership(members: npt.ArrayLike, held_out: npt.ArrayLike, *, of: int | None = None) -> Membership:
    """Attack by distance to the closest released record.

    Parameters
    ----------
    members
        That distance of records that the release was made from, shape (n,),
        in an order that means nothing; n of 2 or more.
    held_out
        That of records of the same population that it was not made from,
        shape (m,), likewise.
    of
        Members that there are, of which these are a sample; None for all.

    Notes
    -----
    The best threshold on the same persons would promise an advantage where
    there is none, so it is learnt on every second one of each side and used
    on the others, then the other way round (of equally good ones the
    smallest distance).

    Raises
    ------
    InputError
        Fewer than two distances on a side, or some that are no distances.

    Examples
    --------
    >>> found = membership([0.0, 0.1, 0.2, 0.1], [2.0, 1.5, 3.0, 2.5])
    >>> found.area.value, found.advantage
    (1.0, 1.0)
    """
    inside, outside = _checked(members, "members"), _checked(held_out, "held-out records")
    taken, alarms = 0, 0
    for half in (0, 1):
        threshold = _best_threshold(inside[half::2], outside[half::2])
        taken += int((inside[1 - half :: 2] <= threshold).sum())
        alarms += int((outside[1 - half :: 2] <= threshold).sum())
    n, m = len(inside), len(outside)
    low, high = difference((taken, n), (alarms, m))
    found, found_low, found_high = _found(inside, outside)
    return Membership(
        area=auc(-inside, -outside),
        advantage=taken / n - alarms / m,
        advantage_low=low,
        advantage_high=high,
        found=found,
        found_low=found_low,
        found_high=found_high,
        members=n,
        held_out=m,
        of=records_of(of, n, "members"),
    )


def _checked(distances: npt.ArrayLike, what: str) -> FloatArray:
    found = np.asarray(distances, dtype=np.float64)
    if found.ndim != 1 or len(found) < 2 or not np.isfinite(found).all() or found.min() < 0:
        raise InputError(f"the distances of {what} have shape {found.shape}; give two or more, finite and 0 or more")
    return found


def _best_threshold(inside: FloatArray, outside: FloatArray) -> float:
    """Half-way from the distance with most members less others to the next; below all where none has a gain."""
    tried = np.unique(np.concatenate([inside, outside]))
    within, alarms = (np.searchsorted(np.sort(side), tried, side="right") for side in (inside, outside))
    # The difference of the shares in whole numbers, so that equal ones are equal.
    gain = within * len(outside) - alarms * len(inside)
    best = int(np.argmax(gain))
    if gain[best] <= 0:
        return -1.0
    return float(tried[best : best + 2].mean())


def _found(inside: FloatArray, outside: FloatArray) -> tuple[float, float | None, float | None]:
    """Share of members below the distance that 1 % of the others do not pass, and its interval."""
    allowed = int(FALSE_ALARMS * len(outside))
    if not allowed:
        return math.nan, None, None
    hits = int((inside < np.sort(outside)[allowed]).sum())
    return hits / len(inside), *wilson(hits, len(inside))


def _of_release(known: Known) -> Measured | Reason:
    held = known.held
    if isinstance(held, Reason):
        return held
    members, others = (found.nearest.distances[:, 0] for found in (known.released, held))
    return (*membership(members, others, of=known.rows).measurements(), *trained_on(known))


MEASURE = Measure(
    key="membership",
    title="membership inference",
    figures=("membership.auc", "membership.advantage", "membership.found_at_1_percent", "membership.trained_auc"),
    function=_of_release,
    counts_units=True,
)
