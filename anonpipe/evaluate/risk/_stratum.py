"""Attack: who is found by the other columns is known by the stratum that the released record lies in.

Groups are formed inside strata, so that a released record has the status (dead
or alive, say) of everyone in its group. Who links a person to it learns that
status, whatever k is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anonpipe.audience import Audience
from anonpipe.errors import JobError
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._attribute_inference import SOURCE, AttributeRisk, risk_of_column
from anonpipe.evaluate.risk._known import Known, StratumGuesses
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.utility import Measurement


@dataclass(frozen=True)
class StratumInference:
    """How well the columns that make the strata are guessed of persons who are looked for by all others."""

    columns: tuple[AttributeRisk, ...]  # Of each stratum column what the release gives away
    # Share of persons whose closest released record is of their own group (or their own); None where no released record
    # stands for a group or a person
    linked: float | None
    linked_right: tuple[float, ...]  # Of each column the share of right guesses among those; NaN where there are none
    held: bool  # Whether held-out persons are the control; else the closest other original record makes the guess
    # records, of: persons looked for, and that there are
    records: int
    of: int

    def measurements(self) -> tuple[Measurement, ...]:
        """Risk of the worst column, and the share of right guesses beside the control."""
        at = max(range(len(self.columns)), key=lambda each: self._badness(self.columns[each]))
        worst, right = self.columns[at], self.linked_right[at]
        names = " and ".join(repr(one.name) for one in self.columns)
        control = "held-out persons" if self.held else "the closest other original record in its place"
        how = (
            f"Guessed as the {worst.name!r} of the closest released record in all columns but those of the strata "
            f"({names}); control: {control}."
        )
        if untold := [one.name for one in self.columns if math.isnan(one.risk)]:
            how = f"Not defined of {', '.join(map(repr, untold))}, of which the control is always right. {how}"
        found = ""
        if self.linked is not None and right == right:
            found = (
                f"Who is found is known: of {100 * self.linked:.1f} % of the persons the closest released record is of "
                f"their own group, and {100 * right:.1f} % of these have its {worst.name!r}. "
            )
        return (
            Measurement(
                name="strata.inference",
                title="What the release gives away of a person's stratum to who finds the person by the other columns",
                value=worst.risk,
                unit="share",
                better="lower",
                source=SOURCE,
                records=self.records,
                of=self.of,
                audience=Audience.ENOUGH,
                low=worst.low,
                high=worst.high,
                baseline=0.0,
                baseline_is="a release that says no more of its own persons than others' records do",
                note=how,
                parts=tuple((one.name, one.risk) for one in self.columns),
                worst=(worst.name,),
            ),
            Measurement(
                name="strata.success",
                title="Persons whose stratum is guessed right from the closest released record",
                value=worst.members,
                unit="share",
                better="near baseline",
                source=SOURCE,
                records=self.records,
                of=self.of,
                audience=Audience.STEWARD,
                baseline=worst.controls,
                baseline_is=control,
                note=f"{found}The commonest value is right for {100 * worst.constant:.1f} %. {how}",
                parts=tuple((one.name, one.members) for one in self.columns),
            ),
        )

    @staticmethod
    def _badness(one: AttributeRisk) -> float:
        return -math.inf if math.isnan(one.risk) else one.risk


def stratum_inference(guesses: Mapping[str, StratumGuesses], of: int) -> StratumInference:
    """What a release gives away of the strata of its persons.

    Parameters
    ----------
    guesses
        Of each stratum column whose guesses are right.
    of
        Persons that there are.

    Notes
    -----
    The risk is (members - controls) / (1 - controls), as for any other
    attribute: of what cannot be guessed anyway, the share that the release gives away. Without a hold-out
    the control is the same intruder with the original records of all *other* persons: what they say
    of a person follows from the population. Each interval errs with a chance of 5 % over
    the number of columns (Bonferroni); members and controls count as independent, which is too
    wide where both are guesses of the same persons.

    Raises
    ------
    JobError
        No column.

    References
    ----------
    Giomi, Boenisch, Wehmeyer & Tasnádi (2023), doi:10.56553/popets-2023-0055.

    Examples
    --------
    >>> import numpy as np
    >>> half = np.arange(40) % 2 == 0
    >>> told = StratumGuesses(members=np.ones(40, bool), controls=half, linked=half, commonest=0.5, held=False)
    >>> found = stratum_inference({"status": told}, 40)
    >>> found.columns[0].risk, found.linked, found.linked_right
    (1.0, 0.5, (1.0,))
    """
    if not guesses:
        raise JobError("no column makes strata; give one or more")
    tail = 0.025 / len(guesses)
    every = list(guesses.values())
    linked = every[0].linked
    return StratumInference(
        columns=tuple(
            risk_of_column(name, one.members, one.controls, one.commonest, tail) for name, one in guesses.items()
        ),
        linked=None if linked is None else float(linked.mean()),
        linked_right=tuple(
            math.nan if one.linked is None or not one.linked.any() else float(one.members[one.linked].mean())
            for one in every
        ),
        held=every[0].held,
        records=len(every[0].members),
        of=of,
    )


def least_shown(other: float, members: int, controls: int) -> float:
    """Upper end of the interval that a release which tells nothing of the strata may show: no lower limit can be met.

    Parameters
    ----------
    other
        Share of the persons who have another value than the commonest.
    members, controls
        Persons looked for, and those who are their control.

    Notes
    -----
    Who guesses by a record that is near by chance errs in 2 p (1 - p) of the cases, p being the share. Of few such
    errors half may come about, so that half is reckoned with. 1 where not one is to be expected.

    Examples
    --------
    >>> [round(least_shown(dead / 8_000, 2_000, 2_000), 2) for dead in (1, 7, 30, 800)]
    [1.0, 0.92, 0.69, 0.18]
    """
    wrong = other * (1.0 - other)
    guesses, others = (np.arange(of) >= round(wrong * of) for of in (members, controls))
    high = risk_of_column("", guesses, others, 0.0, 0.025).high
    return 1.0 if high is None else high


def _of_release(known: Known) -> Measured | Reason:
    guesses = known.strata
    if isinstance(guesses, Reason):
        return guesses
    found = stratum_inference(guesses, known.rows)
    return Reason.ALL_GUESSED if all(math.isnan(one.risk) for one in found.columns) else found.measurements()


MEASURE = Measure(
    key="strata",
    title="inference of the stratum",
    figures=("strata.inference", "strata.success"),
    function=_of_release,
    counts_units=True,
)
