"""Attack: all of a person's columns but one are known, and the release is used to guess the last."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from anonpipe.errors import InputError
from anonpipe.evaluate.coding import middle_spread
from anonpipe.evaluate.measurement import (
    Audience,
    Measurement,
    Reason,
    Share,
    beyond_control,
    exact_share,
    grouped_share,
    share_figure,
)
from anonpipe.evaluate.risk._guesses import FEWEST, NEIGHBOURS, SHARES, agreed, best_constant, by_sureness, surest
from anonpipe.evaluate.risk._measure import AttackData, InferenceTask, Measured, RiskMeasure, StratumGuesses, require
from anonpipe.types import BoolArray, FloatArray

_GIOMI = "Giomi, Boenisch, Wehmeyer & Tasnádi (2023), doi:10.56553/popets-2023-0055 (attribute inference with control)"
_figure = partial(share_figure, source=_GIOMI)
_UPPER_TAIL = 0.025  # Chance that an upper end is too low, whatever the number of columns
_NO_MORE = "a release that says no more of its own persons than of others"

_RISK = _figure(
    "attribute_inference", "Attribute inference (WP 216) of the worst column, above the hold-out", baseline_is=_NO_MORE
)
_SUREST = {
    share: _figure(
        f"attribute_inference.surest_{100 * share:g}",
        f"Attribute inference by the surest {100 * share:g} % of the guesses, worst column",
        audience=Audience.STEWARD,
        baseline_is=_NO_MORE,
    )
    for share in SHARES
}
_SUCCESS = _figure(
    "attribute_inference.success",
    "Values guessed correctly from all other columns",
    audience=Audience.STEWARD,  # the best constant's share is how common the original's commonest value is
    better="near baseline",
    baseline_is="the same guesses of held-out records",
)
_STRATUM = _figure(
    "stratum_inference",
    "Inference of a person's stratum from all other columns",
    baseline_is="a release that says no more of its own persons than others' records do",
)
_STRATUM_SUCCESS = _figure(
    "strata.success",
    "Strata guessed correctly from the closest released record",
    audience=Audience.STEWARD,
    better="near baseline",
)


@dataclass(frozen=True)
class AttributeRisk:
    """How well one column is guessed."""

    name: str  # Of the column
    members: float  # Share of right guesses for records that the release was made from
    controls: float  # The same for held-out records
    constant: float  # Share of right guesses for members by the one best value, whatever is known
    # (members - controls) / (1 - controls), of what cannot be guessed anyway the share that the release gives away, and
    # its interval; NaN and None where controls are always guessed. Lower ends of all columns attacked hold together.
    risk: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class SurestGuesses:
    """How well each column is guessed by those who only guess where they are surest."""

    share: float  # Of the guesses of a column, members and held-out records each
    columns: tuple[AttributeRisk, ...]
    members: int  # Guesses of each column for members
    controls: int  # Guesses of each column for held-out records


@dataclass(frozen=True)
class AttributeInference:
    """How well each column is guessed from all others."""

    tolerance: float  # Largest error of a right guess of a number, in parts of `middle_spread`
    columns: tuple[AttributeRisk, ...]  # One for each column attacked
    success: tuple[float, float, float]  # Share of right guesses for members over all columns, and its 95 % interval
    control: float  # The same share for held-out records
    # records, controls, of: members and held-out records attacked, and members that there are
    records: int
    controls: int
    of: int
    surest: tuple[SurestGuesses, ...]  # The same where the nearest released records agree most
    # Of members and of held-out records the share of guesses on which all of the nearest agree, and the share of these
    # that is right, over all columns
    agree: tuple[tuple[float, float], tuple[float, float]]

    @property
    def worst(self) -> AttributeRisk:
        """The column whose risk by all guesses has the largest lower end; the first where none is defined."""
        return _worst(self.columns)

    @property
    def worse_where_sure(self) -> tuple[tuple[SurestGuesses, AttributeRisk], ...]:
        """Columns of which the surest guesses give away more than all guesses of any do, and certainly something."""
        # Certainly: few guesses are far off by chance alone, and would make the largest risk of every release.
        known = _certain(self.worst)
        pairs = ((each, one) for each in self.surest for one in each.columns)
        return tuple((each, one) for each, one in pairs if one.low is not None and one.low > max(0.0, known))

    @property
    def worst_interval(self) -> tuple[float, float] | tuple[None, None]:
        """95 % interval of the largest risk: the largest of both ends; None where none is defined."""
        # The lower ends hold together, and the upper end of the column that is worst in truth is among the upper ones.
        return _largest(self._intervals)

    @property
    def _intervals(self) -> tuple[AttributeRisk, ...]:
        return (*self.columns, *(one for _, one in self.worse_where_sure))

    def measurements(self) -> tuple[Measurement, ...]:
        """Risk of the worst column, of the surest guesses, and success over all columns and on the hold-out."""
        shown = max(self.worse_where_sure, key=lambda pair: _certain(pair[1]), default=None)
        worst = self.worst if shown is None else shown[1]
        widest = max(self._intervals, key=lambda one: -math.inf if one.high is None else one.high)
        note = (
            "Guessed by the closest released record in all other columns; a number is right within "
            f"{self.tolerance:g} standard deviations of a normal column that is as wide between its quartiles. "
            f"{self.controls} held-out records are the control: what is guessed of them is known without their data."
        )
        weak = [column.name for column in self.columns if column.members < column.constant]
        if weak:
            note += f" In {len(weak)} of {len(self.columns)} columns the one best value is right more often."
        shares = []
        for column in self.columns:
            named = (("members", column.members), ("hold-out", column.controls), ("best constant", column.constant))
            shares += [(f"{column.name}, {what}", value) for what, value in named]
        undefined = "Not defined: every held-out value is guessed. " if math.isnan(worst.risk) else ""
        among = f", of the surest {100 * shown[0].share:g} % of the guesses, " if shown else ""
        risk = _RISK.measured(
            worst.risk,
            min(self.records, self.controls),
            self.of,
            interval=self.worst_interval,
            baseline=0.0,
            note=f"{undefined}Worst of {len(self.columns)} columns: {worst.name!r}{among}; the largest of several is "
            f"somewhat too large by chance, and the lower end allows for that (Bonferroni). {note}",
            parts=_risks(self.columns),
            columns=len(self.columns),
            worst=tuple(dict.fromkeys((worst.name, widest.name))),
        )
        sizes, interval, parts = (self.records, self.of), self.success[1:], tuple(shares)
        success = _SUCCESS.measured(
            self.success[0], *sizes, interval=interval, baseline=self.control, note=note, parts=parts
        )
        return risk, *map(self._of_surest, self.surest), success

    def _of_surest(self, surest: SurestGuesses) -> Measurement:
        worst = _worst(surest.columns)
        (inside, right), (outside, others) = self.agree
        return _SUREST[surest.share].measured(
            worst.risk,
            surest.members,
            self.of,
            interval=_largest(surest.columns),
            baseline=0.0,
            note=f"The more of the {NEIGHBOURS} closest released records agree, and then the closer they are, the "
            f"surer is a guess: {surest.members} guesses of members, {surest.controls} of held-out records. Worst "
            f"column: {worst.name!r}, right in {100 * worst.members:.1f} % against {100 * worst.controls:.1f} %; the "
            "lower end allows for its being the worst of all columns and shares (Bonferroni). "
            f"In {100 * inside:.1f} % of the guesses all {NEIGHBOURS} agree, and {100 * right:.1f} % of these are "
            f"right; of held-out records in {100 * outside:.1f} %, {100 * others:.1f} % right.",
            parts=_risks(surest.columns),
        )


def _risks(columns: Sequence[AttributeRisk]) -> tuple[tuple[str, float], ...]:
    return tuple((column.name, column.risk) for column in columns)


def _worst(columns: Sequence[AttributeRisk]) -> AttributeRisk:
    """That with the largest lower end: the largest estimate is that of a rare category, by chance."""
    return max(columns, key=_certain)


def _certain(column: AttributeRisk) -> float:
    return -math.inf if column.low is None else column.low


def _largest(columns: Sequence[AttributeRisk]) -> tuple[float, float] | tuple[None, None]:
    """The largest of both ends of all intervals."""
    ends = [(one.low, one.high) for one in columns if one.low is not None and one.high is not None]
    return (max(low for low, _ in ends), max(high for _, high in ends)) if ends else (None, None)


def attribute_inference(task: InferenceTask, *, tolerance: float = 0.1, of: int | None = None) -> AttributeInference:
    """Guess each column of members and of held-out records from all their other columns, by the closest record.

    - `task`: two columns or more. What is found is of a search of the whole release for members and then controls; of
      a search of a sample that holds what became of the members the risk is somewhat too large, as fewer others are
      close.
    - `tolerance`: largest error of a right guess of a number, in parts of the released column's `middle_spread`: of its
      standard deviation if it is normal. One dominant value makes the standard deviation so large that any guess is
      right. A null is right where a null is guessed.
    - `of`: members that there are, of which these are a sample; None for all.

    *Distances.* A number counts by its z-score on the released scale, a category as much as one number on average: its
    dummies are scaled so that two released records differ by 2 in squares. Nulls of a number lie at its mean, with a
    dummy of their own.

    *The control.* Guesses right for held-out persons too follow from the population, which is what a release is for;
    what members have beyond is what it says of its own persons.

    *The surest guesses.* Who may choose whom to guess of takes those on whom the nearest released records agree. The
    guess is then what most of these hold. The surest members are held against the surest held-out records, as many of
    all.

    *The interval.* The risk is 1 less the ratio of the shares of wrong guesses, of members and of controls, whose exact
    intervals are joined on the logarithmic scale (Donner & Zou). As the worst of m columns is reported, each lower end
    errs with a chance of 2.5 % / m (Bonferroni), with the surest guesses of three shares 2.5 % / 4 m. Of releases that
    say no more of their own persons than of others, no more than 2.5 % show a risk above 0. Each upper end errs with a
    chance of 2.5 %: the largest is too low only if that of the column which is worst in truth is.
    """
    asked, n, secrets = np.concatenate([task.members, task.controls]), len(task.members), task.columns
    if not secrets or asked.shape[1] < 2:
        raise InputError(
            f"{len(secrets)} of {asked.shape[1]} columns are masked; it takes a masked column and another one"
        )
    right = np.empty((len(asked), len(secrets)), dtype=np.bool_)
    constant, sure = [], []
    for place, at in enumerate(secrets):
        values, found = task.released[:, at], task.found
        allowed = 0.0 if at in task.categories else tolerance * middle_spread(values)
        right[:, place] = _right(found.values[:, at, 0], asked[:, at], allowed)
        best = np.full(n, best_constant(values, allowed))
        constant.append(float(_right(best, task.members[:, at], allowed).mean()))
        sure.append(_sure(found.values[:, at], found.squared[:, at], asked[:, at], allowed, n))
    tail = 0.025 / (len(secrets) * (1 + len(SHARES)))
    named = [task.names[at] for at in secrets]
    shares = [share for share in SHARES if share * min(n, len(asked) - n) >= FEWEST]
    return AttributeInference(
        tolerance=tolerance,
        columns=tuple(
            risk_of_column(name, right[:n, place], right[n:, place], constant[place], tail)
            for place, name in enumerate(named)
        ),
        success=grouped_share(right[:n].sum(axis=1), np.full(n, len(secrets))),
        control=float(right[n:].mean()),
        records=n,
        controls=len(asked) - n,
        of=n if of is None else of,
        surest=tuple(_surest(share, named, sure, constant, tail) for share in shares),
        agree=(_all_agree([one.members for one in sure]), _all_agree([one.controls for one in sure])),
    )


class _Ordered(NamedTuple):
    """Guesses of one column, the surest first: whether each is right, and whether all neighbours agree."""

    right: BoolArray
    agree: BoolArray


class _Sure(NamedTuple):
    """Of one column those of members and of held-out records."""

    members: _Ordered
    controls: _Ordered


def _sure(values: FloatArray, squared: FloatArray, truth: FloatArray, allowed: float, members: int) -> _Sure:
    guesses, agree = agreed(values, squared, allowed)
    right = _right(guesses, truth, allowed)
    sides = []
    for side in (slice(0, members), slice(members, len(truth))):
        ordered = by_sureness(agree[side], squared[side, 0])
        sides.append(_Ordered(right[side][ordered], (agree[side] == values.shape[1])[ordered]))
    return _Sure(*sides)


def _surest(
    share: float, names: Sequence[str], sure: Sequence[_Sure], constant: Sequence[float], tail: float
) -> SurestGuesses:
    members, controls = (len(surest(np.arange(len(side.right)), share)) for side in sure[0])
    columns = tuple(
        _risk(name, partial(_surest_right, one, members, controls), one.controls.right[:controls], best, tail)
        for name, one, best in zip(names, sure, constant, strict=True)
    )
    return SurestGuesses(share, columns, members, controls)


def _surest_right(sure: _Sure, members: int, controls: int, tail: float) -> Share:
    """Share of right guesses among the surest of members, its interval for as sure guesses as the controls' may be."""
    # Where few are sure for a simple reason (a value is null where another is), the surest of few controls may hold
    # some that are not: the last of them stands at a quantile of a beta distribution.
    from scipy.stats import beta  # Imported here as it is slow to load

    right, others = sure.members.right, len(sure.controls.right)
    at = beta.ppf([tail, 1.0 - tail], controls, others - controls + 1)
    counts = np.clip(np.rint(at * len(right)).astype(np.int64), 1, len(right)).tolist()
    found = exact_share(int(right[:members].sum()), members, tail)
    ends = [found, *(exact_share(int(right[:count].sum()), count, tail) for count in counts)]
    return Share(found.value, min(end.low for end in ends), max(end.high for end in ends))


def _all_agree(columns: Sequence[_Ordered]) -> tuple[float, float]:
    """Share of the guesses on which all agree, and of these the share that is right; 0 without any."""
    agree, right = (np.concatenate(each) for each in zip(*((one.agree, one.right) for one in columns), strict=True))
    return float(agree.mean()), float(right[agree].mean()) if agree.any() else 0.0


def _right(guesses: FloatArray, truth: FloatArray, allowed: float) -> BoolArray:
    # A guess at the very edge must not depend on rounding.
    right: BoolArray = (np.abs(guesses - truth) <= allowed * (1 + 1e-9)) | (np.isnan(guesses) & np.isnan(truth))
    return right


def risk_of_column(name: str, members: BoolArray, controls: BoolArray, constant: float, tail: float) -> AttributeRisk:
    """Share of what is not guessed of controls that is guessed of members; `tail`: chance that its lower end errs."""
    return _risk(name, partial(exact_share, int(members.sum()), len(members)), controls, constant, tail)


def _risk(
    name: str, attack: Callable[[float], Share], controls: BoolArray, constant: float, tail: float
) -> AttributeRisk:
    right = partial(exact_share, int(controls.sum()), len(controls))
    members, others = attack(tail), right(tail)
    if others.value == 1.0:
        return AttributeRisk(name, members.value, others.value, constant, math.nan, None, None)
    risk, low, _ = beyond_control(members, others)
    high = beyond_control(attack(_UPPER_TAIL), right(_UPPER_TAIL))[2]
    return AttributeRisk(name, members.value, others.value, constant, risk, low, high)


def _of_release(data: AttackData) -> Measured:
    return attribute_inference(require(data.guessed), of=data.rows).measurements()


_FIGURES = (_RISK, *_SUREST.values(), _SUCCESS)
MEASURE = RiskMeasure("attribute_inference", "attribute inference", _FIGURES, _of_release, counts_units=True)


# --- Attack: who is found by the other columns is known by the stratum that the released record lies in ---------------
# Groups are formed inside strata, so that a released record has the status (dead or alive, say) of everyone in its
# group. Who links a person to it learns that status, whatever k is.


def stratum_risks(guesses: Mapping[str, StratumGuesses]) -> tuple[AttributeRisk, ...]:
    """What a release gives away of each stratum column of its persons, of those whose guesses are right.

    The risk is (members - controls) / (1 - controls), as for any other attribute: of what cannot be guessed anyway, the
    share that the release gives away. Without a hold-out the control is the same intruder with the original records of
    all *other* persons: what they say of a person follows from the population. Each lower end errs with a chance of
    2.5 % over the number of columns (Bonferroni), each upper end with 2.5 %. Members and controls count as independent,
    which is too wide where both are guesses of the same persons.
    """
    tail = 0.025 / max(1, len(guesses))
    return tuple(risk_of_column(name, one.members, one.controls, one.commonest, tail) for name, one in guesses.items())


def stratum_inference(guesses: Mapping[str, StratumGuesses], of: int) -> tuple[Measurement, Measurement]:
    """Risk of the worst column, and the shares of right guesses of members and control; of so many persons."""
    columns = stratum_risks(guesses)
    worst = max(columns, key=lambda column: -math.inf if math.isnan(column.risk) else column.risk)
    guess = guesses[worst.name]
    names = " and ".join(map(repr, guesses))
    control = "held-out persons" if guess.held else "the closest other original record in its place"
    how = (
        f"Guessed as the {worst.name!r} of the closest released record in all columns but those of the strata "
        f"({names}); control: {control}."
    )
    if untold := [one.name for one in columns if math.isnan(one.risk)]:
        how = f"Not defined of {', '.join(map(repr, untold))}, of which the control is always right. {how}"
    found = ""
    if guess.linked is not None and guess.linked.any():
        found = (
            f"Who is found is known: of {100 * guess.linked.mean():.1f} % of the persons the closest released record "
            f"is of their own group, and {100 * guess.members[guess.linked].mean():.1f} % of these have its "
            f"{worst.name!r}. "
        )
    sizes, interval, parts = (len(guess.members), of), _largest(columns), _risks(columns)
    risk = _STRATUM.measured(
        worst.risk, *sizes, interval=interval, baseline=0.0, note=how, parts=parts, worst=(worst.name,)
    )
    note = f"{found}The commonest value is right for {100 * worst.constant:.1f} %. {how}"
    right = tuple((column.name, column.members) for column in columns)
    success = replace(_STRATUM_SUCCESS, baseline_is=control)
    return risk, success.measured(worst.members, *sizes, baseline=worst.controls, note=note, parts=right)


def least_shown(other: float, members: int, controls: int) -> float:
    """Upper end of the interval that a release which tells nothing of the strata may show: no lower limit can be met.

    - `other`: share of the persons who have another value than the commonest.
    - `members`, `controls`: persons looked for, and those who are their control.

    Who guesses by a record that is near by chance errs in 2 p (1 - p) of the cases, p being the share. Of few such
    errors half may come about, so that half is reckoned with. 1 where not one is to be expected.
    """
    wrong = other * (1.0 - other)
    guesses, others = (np.arange(of) >= round(wrong * of) for of in (members, controls))
    high = risk_of_column("", guesses, others, 0.0, 0.025).high
    return 1.0 if high is None else high


def _of_strata(data: AttackData) -> Measured | Reason:
    risk, success = stratum_inference(require(data.strata), data.rows)
    return Reason.ALL_GUESSED if math.isnan(risk.value) else (risk, success)


_OF_STRATA = (_STRATUM, _STRATUM_SUCCESS)
STRATA = RiskMeasure("strata", "inference of the stratum", _OF_STRATA, _of_strata, counts_units=True)
