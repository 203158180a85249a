"""Attack: two tables that have different columns of the same persons are joined by way of the release.

The second criterion of the European guidance on anonymisation (Article 29 Working Party, opinion 05/2014, WP 216).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anonpipe.audience import Audience
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._interval import Share, beyond_control, exact_share
from anonpipe.evaluate.risk._known import Known
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.utility import Measurement
from anonpipe.types import BoolArray, IntArray

_SOURCE = "Giomi, Boenisch, Wehmeyer & Tasnádi (2023), doi:10.56553/popets-2023-0055, section 4.2"


@dataclass(frozen=True)
class Linkability:
    """How often both halves of a record lead to the same released one."""

    # attack, control: of records of the original, and of held-out ones, with 95 % intervals
    attack: Share
    control: Share
    # risk, low, high: (attack - control) / (1 - control), with its 95 % interval; NaN where all held-out ones are
    # joined
    risk: float
    low: float
    high: float
    # records, controls: records tried
    records: int
    controls: int

    def measurements(self, of: int) -> tuple[Measurement, ...]:
        """What the release gives away, of so many records."""
        defined = self.risk == self.risk
        return (
            Measurement(
                name="linkability.risk",
                title="Linkability (European guidance, criterion 2): halves of a person's columns joined, beyond the "
                "hold-out",
                value=self.risk,
                unit="share",
                better="lower",
                source=_SOURCE,
                records=self.records,
                of=of,
                audience=Audience.ENOUGH,
                low=self.low if defined else None,
                high=self.high if defined else None,
                baseline=0.0,
                baseline_is="a release that says no more of its own persons than of others",
                note="One table has every second column, another the others; joined are records of which one released "
                f"record is among the nearest by either: {100 * self.attack.value:.1f} % of the members, "
                f"{100 * self.control.value:.1f} % of {self.controls} held-out records."
                + ("" if defined else " Not defined: every held-out record is joined."),
                parts=(("members", self.attack.value), ("hold-out", self.control.value)),
            ),
        )


def joined(one: IntArray, other: IntArray) -> BoolArray:
    """Whether the nearest rows by one half of the columns, shape (n, count), and those by the other share one.

    Examples
    --------
    >>> joined(np.array([[4, 7], [1, -1]]), np.array([[7, 5], [2, -1]])).tolist()
    [True, False]
    """
    return np.asarray(((one[:, :, None] == other[:, None, :]) & (one[:, :, None] >= 0)).any(axis=(1, 2)))


def linkability(members: BoolArray, controls: BoolArray) -> Linkability:
    """Hold joined members against joined held-out records.

    Parameters
    ----------
    members, controls
        Whether each is joined, one or more.

    References
    ----------
    Giomi, Boenisch, Wehmeyer & Tasnádi (2023), doi:10.56553/popets-2023-0055, section 4.2.

    Examples
    --------
    >>> found = linkability(np.repeat([True, False], [30, 70]), np.repeat([True, False], [10, 90]))
    >>> round(found.risk, 3), found.low > 0
    (0.222, True)
    """
    attack, control = (exact_share(int(each.sum()), len(each)) for each in (members, controls))
    risk, low, high = beyond_control(attack, control)
    return Linkability(attack, control, risk, low, high, len(members), len(controls))


def _of_release(known: Known) -> Measured | Reason:
    halves = known.halves
    return halves if isinstance(halves, Reason) else linkability(*halves).measurements(known.rows)


MEASURE = Measure(
    key="linkability",
    title="linkability",
    figures=("linkability.risk",),
    function=_of_release,
)
