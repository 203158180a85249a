"""What a measure of risk tells of itself, in one record at the end of its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, Self, TypeVar

import numpy as np

from anonpipe.errors import AnonpipeError
from anonpipe.evaluate.measurement import Figure, Measurement, Reason
from anonpipe.evaluate.risk._guesses import Guesses
from anonpipe.evaluate.risk._nearest import Nearest
from anonpipe.methods.grouping import ClassDisclosure
from anonpipe.types import BoolArray, FloatArray, IntArray

Measured = Sequence[Measurement]
Given = TypeVar("Given")


@dataclass(frozen=True)
class RiskMeasure:
    """An attack, or a measure of disclosure; direction, unit, source and audience stand in each `Measurement`."""

    key: str  # Its own name; `unmeasured.KEY` is the check where it was not measured
    title: str  # What it is, in words for that check
    figures: tuple[Figure, ...]  # Not every release has all; in a key `*` stands for a name of the job's
    # `function(data)`: its figures of a release, or why there are none
    function: Callable[[AttackData], Measured | Reason]
    # Whether it still means what it says where persons have several rows, of which it is given one; else not measured
    counts_units: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of its figures."""
        return tuple(figure.key for figure in self.figures)

    def of(self, data: AttackData) -> Measured | Reason:
        """The figures of a release, or why there are none."""
        try:
            found = self.function(data)
        except MissingError as missing:
            found = missing.reason
        names = [] if isinstance(found, Reason) else [one.name for one in found]
        if any(not any(fnmatchcase(name, known) for known in self.keys) for name in names):
            raise AnonpipeError(f"{self.key} gave other figures than {', '.join(self.keys)}; please report this")
        return found


class MissingError(Exception):
    """What a measure needs is not there."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


def require(part: Given | Reason) -> Given:
    """A part of what attacks are given; where it is not there, the measure has no figures for this reason."""
    if isinstance(part, Reason):
        raise MissingError(part)
    return part


# --- What attacks are given of a release ----------------------------------------------

Link = Literal["none", "own", "unknown"]


@dataclass(frozen=True, eq=False)
class NearestMatches:
    """The nearest records of the whole table."""

    nearest: Nearest  # As found in all partitions together
    groups: IntArray | None = None  # The group of each, of the shape of `nearest.rows`; None where it is not needed


@dataclass(frozen=True, eq=False)
class EquivalenceClasses:
    """Records that a reader cannot distinguish: of one group, and equal in the unchanged columns."""

    found: NearestMatches  # The nearest released records, with the number of what each is alike to
    own: IntArray  # That number for each record looked for
    sizes: IntArray | FloatArray  # How many are alike to it; of units with several rows, how many a row of the unit

    @property
    def chances(self) -> FloatArray:
        """With what chance the link of each is right: in its own group of n each of the n stands for it, 1/n."""
        assert self.found.groups is not None
        return np.asarray((self.found.groups[:, 0] == self.own) / self.sizes)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Released rows and the original rows that they replace, row for row."""

    original: FloatArray  # Values of the masked columns, shape (n_rows, n_columns)
    released: FloatArray
    names: Sequence[str]  # Of the columns
    categories: Sequence[int]  # Places of those that have no order


@dataclass(frozen=True, eq=False)
class WholeGroups:
    """Features of all records of some groups, before and after, and the group of each."""

    original: FloatArray
    released: FloatArray
    labels: IntArray


@dataclass(frozen=True, eq=False)
class ClassShares:
    """What groups tell of a class column, the shares of its classes, and the sizes of the groups (None: unknown)."""

    disclosed: ClassDisclosure
    shares: FloatArray
    sizes: IntArray | None


@dataclass(frozen=True, eq=False)
class InferenceTask:
    """Records whose columns are guessed from the release."""

    released: FloatArray  # Values of some released records, which the scale is taken of
    members: FloatArray  # Values of original records that are looked for
    controls: FloatArray  # Those of held-out ones
    found: Guesses  # What the closest of all released records say of each column
    names: Sequence[str]  # Of all columns
    columns: Sequence[int]  # Places of those that are guessed
    categories: Sequence[int]  # Places of those without order


@dataclass(frozen=True, eq=False)
class StratumGuesses:
    """Guesses of a column that makes the strata, by the closest record in all columns but those of the strata."""

    members: BoolArray  # Whether the closest released record has the value of each record looked for
    controls: BoolArray  # The same of held-out records, else of the closest other original of each
    linked: BoolArray | None  # Whether the closest released record is its own or of its group; None for neither
    commonest: float  # Share of the commonest value among the records looked for
    held: bool  # Whether the controls were held out


@dataclass(frozen=True, eq=False)
class AttackScenario:
    """What comes of looking for persons by a few columns."""

    knows: Sequence[str]  # Names of these columns
    # Persons (or other units; records where each is one) of each class of the original: alike in these columns. All
    # classes, or of large tables a random choice
    sizes: IntArray
    # For how many persons each size counts; None for those of the class. One each where values are known within limits:
    # then each person has a class of its own, of all who are near enough
    persons: IntArray | None = None
    # own, chances: size of the class of each record looked for, 0 where it is not among `sizes`, and with what chance
    # its link is right
    own: IntArray | None = None
    chances: FloatArray | Reason = Reason.ONLY_A_RUN
    sampling_fraction: float | None = None  # Share of the population that is in the original; None for not declared
    of: int = 0  # Persons that there are, a person of several classes counting in each; 0 for those of `sizes`
    weights: FloatArray | None = None  # Sum of the survey weights of each class, which estimates its persons


@dataclass(frozen=True, eq=False)
class Matches:
    """What meets each of some predicates."""

    counts: IntArray  # How many records do, shape (n_predicates,)
    rows: IntArray  # The sum of their numbers, so that of one it is its number

    def __add__(self, other: Self) -> Self:
        """What is in either of two parts."""
        return type(self)(self.counts + other.counts, self.rows + other.rows)


@dataclass(frozen=True, eq=False)
class PredicateMatches:
    """What meets each predicate."""

    released: Matches  # In the release
    original: Matches
    controls: Matches  # Of records that were held out
    rows: int  # Records of the original, or units of several
    held: int  # Those held out: no more
    wanted: int  # Attacks, at most
    whom: str = "record"  # Or `unit`


@dataclass(frozen=True, eq=False, kw_only=True)
class AttackData:
    """What an intruder may know of a release, and what the method says of itself; a `Reason` for what there is not."""

    k: int  # Smallest permissible group
    rows: int  # Records of the release
    features: Sequence[str]  # Names of the columns of features
    rng: Callable[[str], np.random.Generator]  # The generator of one use, by its name
    # own_row, own_group: of each record looked for the released row made from it, and its group; None where a row is
    # not made from one record, or there are no groups
    own_row: IntArray | None
    own_group: IntArray | None = None
    own_size: IntArray  # Records of that group; 0 without groups
    unlinked: Reason  # Why there is neither `own_row` nor `own_group`, where there is not
    grouped: bool = False  # Whether each record is in one group
    # released, original, by_rank, whitened: the nearest released records of those looked for, their nearest other
    # originals, and the nearest released ones by ranks and by Mahalanobis distance (None: of groups)
    released: NearestMatches
    original: NearestMatches
    by_rank: NearestMatches
    whitened: NearestMatches | None
    numbers: tuple[Sequence[str], FloatArray]  # Names and original values of masked numbers and dates, NaN for null
    alike: EquivalenceClasses | None = None  # Indistinguishable ones, where records are in groups
    assigned: FloatArray | Reason = Reason.ONLY_A_RUN  # Right links by assignment, as of `assigned_cells`
    held: NearestMatches | Reason  # The nearest released records of held-out ones
    # Mean distances to the nearest record of each copy of the release, of those looked for and of held-out ones; None
    # of one copy
    mean_distances: tuple[FloatArray, FloatArray] | Reason | None = None
    guessed: InferenceTask | Reason  # Records whose columns are guessed
    singled: Mapping[str, PredicateMatches] | Reason  # Of predicates on `one` column and on `several`
    # Whether both halves of a record lead to the same released one, of those looked for and of those held out
    halves: tuple[BoolArray, BoolArray] | Reason
    pairs: Pairs | Reason  # A paired sample
    groups: WholeGroups | Reason = Reason.ONLY_A_RUN  # Some whole groups
    classes: Mapping[str, ClassShares] | Reason = Reason.ONLY_A_RUN  # What groups tell of the class columns
    strata: Mapping[str, StratumGuesses] | Reason = Reason.ONLY_A_RUN  # Guesses of the columns that make the strata
    scenarios: Mapping[str, AttackScenario] | Reason
    # Records whose moments are kept, of the smallest such part, and their columns
    moments: tuple[int, EffectiveDimension] | Reason = Reason.ONLY_A_RUN
    smallest_group: int | Reason | None = Reason.ONLY_A_RUN  # Its records; None where the whole table is one group
    link: Link  # What ties a released record to one person; see `link_by`
    exact_moments: bool = False  # Whether mean and scatter of every group are kept exactly
    own_columns: int = 0  # Columns of which each released record keeps one person's values
    fewest_alike: int | None = None  # Fewest records of a group that are equal in these; None where it is not known


# --- How many columns there are for what their moments tell, and how unequally far from the mean records lie in them --


class EffectiveDimension(NamedTuple):
    """Of a table's columns what decides how much their moments tell."""

    columns: int  # How many are linearly independent
    spread: float  # Variance of the records' squared Mahalanobis distances


def effective_dimension(numbers: int, attributes: Iterable[FloatArray]) -> EffectiveDimension:
    """Of so many numbers, and of attributes the shares of whose categories these are, all taken for independent.

    A normal number adds 1 to the mean of the squared distance and 2 to its variance. An attribute of q categories adds
    1 / s - 1 for records in a category of share s: q - 1 on average, with a variance of the sum of 1 / s less q².
    """
    there = [shares[shares > 0] for shares in attributes]
    spread = 2.0 * numbers + sum(float((1.0 / shares).sum()) - len(shares) ** 2 for shares in there)
    return EffectiveDimension(numbers + sum(len(shares) - 1 for shares in there), spread)
