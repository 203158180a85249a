"""Attack: all members of a group but one pool their records and the release to find the last one's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._groups import STEPS, Tally, attacked
from anonpipe.evaluate.risk._interval import beyond, grouped_share
from anonpipe.evaluate.risk._known import Known
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.utility import Curve, Measurement


@dataclass(frozen=True)
class Collusion:
    """How well all members of a group but one recover the last one's values."""

    tolerance: float  # Largest error of a value that counts as recovered, in units of the features
    share: float  # Share of the last members' values recovered, each member being the last in turn
    # low, high: ends of its 95 % interval over groups; None where all groups were attacked
    low: float | None
    high: float | None
    from_group: float  # The same share of one who knows the group and pools nothing: its released mean
    median_error: float  # Median error of a recovered value, in units of the features
    by_column: tuple[tuple[str, float], ...]  # Name of each column and the share recovered of it
    curve: Curve  # Shares recovered within `STEPS`, with and without pooling
    # records, of: records attacked, and that there are
    records: int
    of: int

    def measurements(self) -> tuple[Measurement, ...]:
        """The share recovered beside what the group's released mean alone gives, and what is gained over that."""
        gained, (low, high) = beyond(self.share, self.low, self.high, self.from_group)
        return (
            Measurement(
                name="collusion.recovered",
                title="Values of a person recovered by all other members of its group together",
                value=self.share,
                unit="share",
                better="lower",
                source="own attack; group sums that are kept exactly give the last member away",
                records=self.records,
                of=self.of,
                audience=Audience.ENOUGH,
                low=self.low,
                high=self.high,
                baseline=self.from_group,
                baseline_is="the released mean of the group, without pooling",
                note=(
                    "The sum of the group's released records less those of the others; recovered is what is within "
                    f"{self.tolerance:g} standard deviations. All members but one must know that they share a group."
                ),
                parts=self.by_column,
                curves=(self.curve,),
            ),
            Measurement(
                name="collusion.gained",
                title="Gained by all other members of a person's group together, of what it does not tell anyway",
                value=gained,
                unit="share",
                better="lower",
                source="own attack; (share - baseline) / (1 - baseline), as of attribute inference",
                records=self.records,
                of=self.of,
                audience=Audience.ENOUGH,
                low=low,
                high=high,
                baseline=0.0,
                baseline_is="no more than the group's released mean tells",
                note="The baseline is taken as it was measured.",
            ),
        )


def collusion(
    original: npt.ArrayLike,
    released: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    tolerance: float = 0.1,
    names: Sequence[str] | None = None,
    of: int | None = None,
) -> Collusion:
    """Guess every record of whole groups from the sum of the released ones and the records of all other members.

    Parameters
    ----------
    original, released, labels, tolerance, names, of
        As for `known_attribute`; one column will do.

    Notes
    -----
    The guess for the last of n members is the sum of the released records less
    the originals of the others, so that its error is the change of the group's
    sum: nothing where sums are kept exactly, whatever the group's size, and n
    times the error of the mean otherwise. Where the sum is noisy a more
    careful attacker would lean towards the released mean, which is the
    baseline here.

    Raises
    ------
    InputError, JobError
        The arguments do not fit; see `known_attribute`.

    Examples
    --------
    >>> old = np.array([[0.0], [1.0], [5.0]])
    >>> found = collusion(old, np.full((3, 1), 2.0), [0, 0, 0])
    >>> found.share, found.from_group
    (1.0, 0.0)
    """
    given = attacked(original, released, labels, tolerance, names, of)
    changed = np.abs(given.sums(given.released) - given.sums(given.original))[given.group]
    from_mean = np.abs(given.means(given.released)[given.group] - given.original)
    pooled, alone = (Tally(given.group, len(given.sizes), tolerance) for _ in range(2))
    pooled.add(changed)
    alone.add(from_mean)
    share, low, high = grouped_share(pooled.hits, pooled.trials)
    by_column = (changed <= tolerance).mean(axis=0)
    return Collusion(
        tolerance=tolerance,
        share=share,
        low=low if given.sampled else None,
        high=high if given.sampled else None,
        from_group=alone.share,
        median_error=float(np.median(changed)),
        by_column=tuple((name, float(part)) for name, part in zip(given.names, by_column, strict=True)),
        curve=Curve("Values recovered", "error, sd", "share", STEPS, pooled.curve, alone.curve),
        records=len(given.group),
        of=given.of,
    )


def _of_groups(known: Known) -> Measured | Reason:
    groups = known.groups
    if isinstance(groups, Reason):
        return groups
    found = collusion(groups.original, groups.released, groups.labels, names=known.features, of=known.rows)
    return found.measurements()


MEASURE = Measure(
    key="collusion",
    title="collusion of a group's members",
    figures=("collusion.recovered", "collusion.gained"),
    function=_of_groups,
)
