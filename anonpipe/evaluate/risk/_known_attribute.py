"""Attack: the victim's group is known, and one of its attributes; how well are the others recovered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._group_guesses import by_closest, by_mean, by_moments
from anonpipe.evaluate.risk._groups import STEPS, Tally, attacked, others
from anonpipe.evaluate.risk._interval import beyond, grouped_share
from anonpipe.evaluate.risk._known import Known
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.utility import Curve, Measurement

Guess = Literal["closest", "moments", "mean"]


@dataclass(frozen=True)
class KnownAttribute:
    """How well an attacker who knows one attribute and the group recovers the others."""

    guess: Guess  # How the attacker guesses
    tolerance: float  # Largest error of a value that counts as recovered, in units of the features
    share: float  # Share of values recovered, over records, known columns and other columns
    # low, high: ends of its 95 % interval over groups; None where all records were attacked
    low: float | None
    high: float | None
    elsewhere: float  # The same share, had the attacker been sent to another group; NaN for one group
    from_mean: float  # The same share of an attacker who guesses the mean of the released records
    by_known: tuple[tuple[str, float], ...]  # Name of each known column and the share recovered through it
    curve: Curve  # Shares recovered within `STEPS`, and those of the better baseline
    # records, of: records attacked, and that there are
    records: int
    of: int

    @property
    def baseline(self) -> float:
        """The better of the two guesses that need no group."""
        return float(np.nanmax([self.elsewhere, self.from_mean]))

    def measurements(self) -> tuple[Measurement, ...]:
        """The share recovered beside what the same attacker recovers without the group."""
        how = {
            "closest": "takes the released record of the group that is closest in the known attribute",
            "moments": "solves for the record from the group's released mean and scatter",
            "mean": "takes the group's released mean, whatever the known attribute says",
        }[self.guess]
        short = {"closest": "by the closest record", "moments": "by the group's moments", "mean": "by the group's mean"}
        return (
            Measurement(
                name=f"known_attribute.{self.guess}",
                title=f"Values recovered by who knows a person's group and one attribute, {short[self.guess]}",
                value=self.share,
                unit="share",
                better="lower",
                source="own attack; groups of three with exact moments leave one angle free",
                records=self.records,
                of=self.of,
                audience=Audience.ENOUGH,
                low=self.low,
                high=self.high,
                baseline=self.baseline,
                baseline_is="the better of the same guess in another group and of the mean of the released records",
                note=(
                    f"The attacker {how}; recovered is what is within {self.tolerance:g} standard deviations. "
                    "Where two answers are left, the better counts. Parts: by the attribute that is known."
                ),
                parts=self.by_known,
                curves=(self.curve,),
            ),
        )


def known_attribute(
    original: npt.ArrayLike,
    released: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    guess: Guess = "closest",
    tolerance: float = 0.1,
    names: Sequence[str] | None = None,
    of: int | None = None,
) -> KnownAttribute:
    """Attack every record of whole groups through each of its attributes in turn.

    Parameters
    ----------
    original, released
        Finite features of the synthesized columns, shape (n_rows, width), width
        of 2 or more, on one scale.
    labels
        Group of row i of both, whole numbers, shape (n_rows,). The order of
        rows inside a group does not matter.
    rng
        Picks the other group of the baseline.
    guess
        `closest`: the released record of the group that is closest in the
        known attribute (equally close: the lower row). `moments`: see Notes.
        `mean`: the mean of the group's released records, which is the best of
        the three where noise is laid over true group means.
    tolerance
        Largest error of a recovered value, in units of the features.
    names
        Of the columns.
    of
        Records in the release, of which these are whole groups; None for all.

    Notes
    -----
    *Moments.* The released records of a group of n have mean m and scatter
    V diag(s²) Vᵀ, and if those are the originals', every original is
    m + (u s) Vᵀ for some u of the group. A known attribute is one linear
    equation in u, of which the shortest solution is taken: the prediction by
    the regression within the group. Where the scatter has rank n - 1, as
    groups of up to width + 1 records have, the length of u is known too,
    √((n-1)/n): in a group of two that is no news, as u is one number; in a
    group of three two answers are left, and the one nearer to the record
    counts, because any other knowledge tells them apart. Beyond three a whole
    sphere of answers is left, and the shortest solution stands.

    All guesses take the group as known, so this is an upper limit of what a
    person who must find the group first would recover.

    Time n · width² and, for moments, n · width · min(group, width); memory
    a few times the features.

    Raises
    ------
    InputError
        Tables or labels do not fit, or there is one column only.
    JobError
        Unknown guess, tolerance, names or `of`.

    Examples
    --------
    >>> old = np.array([[0.0, 1.0], [1.0, -1.0], [5.0, 0.0], [7.0, 2.0]])
    >>> known_attribute(old, old[[1, 0, 3, 2]], [0, 0, 1, 1], rng=np.random.default_rng(0)).share
    1.0
    """
    if guess not in get_args(Guess):
        raise JobError(f"unknown guess {guess!r}; known are: {', '.join(get_args(Guess))}")
    given = attacked(original, released, labels, tolerance, names, of)
    width = given.original.shape[1]
    if width < 2:
        raise InputError("there is one column only; this attack needs one to know and one to guess")
    n_groups = len(given.sizes)
    guesser = {"closest": by_closest, "moments": by_moments, "mean": by_mean}[guess](given)
    other = others(n_groups, rng)[given.group]
    own, elsewhere, mean = (Tally(given.group, n_groups, tolerance) for _ in range(3))
    of_mean = np.abs(given.released.mean(axis=0) - given.original)
    by_known = []
    for known in range(width):
        rest = np.arange(width) != known
        by_known.append((given.names[known], own.add(guesser(known, given.group)[:, rest])))
        elsewhere.add(guesser(known, other)[:, rest])
        mean.add(of_mean[:, rest])
    share, low, high = grouped_share(own.hits, own.trials)
    better = elsewhere if n_groups > 1 and elsewhere.share > mean.share else mean
    return KnownAttribute(
        guess=guess,
        tolerance=tolerance,
        share=share,
        low=low if given.sampled else None,
        high=high if given.sampled else None,
        elsewhere=elsewhere.share if n_groups > 1 else float("nan"),
        from_mean=mean.share,
        by_known=tuple(by_known),
        curve=Curve("Values recovered", "error, sd", "share", STEPS, own.curve, better.curve),
        records=len(given.group),
        of=given.of,
    )


GUESSES: tuple[Literal["closest", "moments", "mean"], ...] = ("closest", "moments", "mean")


def _of_groups(known: Known) -> Measured | Reason:
    if known.grouped and len(known.features) < 2:
        return Reason.ONE_COLUMN
    groups = known.groups
    if isinstance(groups, Reason):
        return groups
    if len(np.unique(groups.labels)) < 2:
        return Reason.ONE_GROUP_SAMPLED
    found = [
        known_attribute(
            groups.original,
            groups.released,
            groups.labels,
            rng=known.rng(guess),
            guess=guess,
            names=known.features,
            of=known.rows,
        )
        for guess in GUESSES
    ]
    return [*(each for one in found for each in one.measurements()), _gained(found)]


def _gained(found: Sequence[KnownAttribute]) -> Measurement:
    """What the best of the guesses gains over those that need no group."""
    gained = [beyond(one.share, one.low, one.high, one.baseline) for one in found]
    at = int(np.argmax([-1.0 if np.isnan(value) else value for value, _ in gained]))
    (value, (low, high)), best = gained[at], found[at]
    return Measurement(
        name="known_attribute.gained",
        title="Gained by who knows a person's group and one attribute, of what is not recovered without the group",
        value=value,
        unit="share",
        better="lower",
        source="own attack; (share - baseline) / (1 - baseline), as of attribute inference",
        records=best.records,
        of=best.of,
        audience=Audience.ENOUGH,
        low=low,
        high=high,
        baseline=0.0,
        baseline_is="no more than is recovered without the group",
        note=f"By the guess that gains most ({best.guess}). The baseline is taken as it was measured.",
    )


MEASURE = Measure(
    key="known_attribute",
    title="attack through a known attribute",
    figures=(*(f"known_attribute.{guess}" for guess in GUESSES), "known_attribute.gained"),
    function=_of_groups,
    counts_units=True,
)
