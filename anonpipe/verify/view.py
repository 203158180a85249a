"""The variables on which original and release are compared.

One variable a number or ordinal (missing stays missing), one a category of a
coded column, all in standard deviations of the original, so that means and
covariances of any column can be held against one limit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from anonpipe.columns import Column, Kind
from anonpipe.encoding.scores import Scores
from anonpipe.types import FloatArray


@dataclass(frozen=True)
class Variable:
    """One measured variable."""

    column: str  # Name of the table's column
    position: int  # Its position among the cells
    category: int | None  # The category's position that the variable indicates, or None for a number
    # mean, sd: of the original column (for an indicator, of the indicator); where the release's are known, these
    mean: float
    sd: float
    synthesized: bool  # Whether the column's values are replaced
    # offset, least: of a column that is masked by its logarithm, what is added before it is taken, and the lower bound;
    # the variable is the logarithm. None, 0 for others. Only values that have no logarithm count as the lower bound:
    # others that masking lifts to it are measured as they are, so that a bound that cuts the data is seen.
    offset: float | None = None
    least: float = 0.0
    # Whether it is a column on another scale once more, as it is: its mean is compared by a limit of its own
    own_unit: bool = False
    # Whether the release tells a probability of the category in each record, not the category
    probability: bool = False
    # Whether the column is masked by normal scores. The variable is then the mean score of the records of the value:
    # what the value says of the score.
    scored: bool = False
    # Of such a column as it is, the variance that its release has whatever is drawn, in this unit: 1, or 0 of a
    # constant; its mean is 0. None for others. Of the original, these differ: by extremes that are drawn in.
    known_variance: float | None = None

    @property
    def on_other_scale(self) -> bool:
        """Whether it is a column that is masked by its logarithm or scores, on that scale."""
        return self.offset is not None or self.scored

    @property
    def name(self) -> str:
        """The column, and for an indicator the category's number (never its value)."""
        if self.offset is not None:
            return f"log {self.column}"
        if self.scored:
            return f"score of {self.column}"
        return self.column if self.category is None else f"{self.column}[{self.category}]"


@dataclass(frozen=True)
class View:
    """All measured variables of a table."""

    variables: tuple[Variable, ...]
    scores: Scores | None = None

    @property
    def synthesized(self) -> npt.NDArray[np.bool_]:
        """Which variables belong to synthesized columns, on the scale that is masked, shape (n_variables,)."""
        return np.array([variable.synthesized and not variable.own_unit for variable in self.variables], dtype=bool)

    @property
    def own_unit(self) -> npt.NDArray[np.bool_]:
        """Which variables are columns as they are that are masked on another scale, shape (n_variables,)."""
        return np.array([variable.own_unit for variable in self.variables], dtype=bool)

    @property
    def known_variance(self) -> FloatArray:
        """The variances that the release has whatever is drawn, NaN where that is not known, shape (n_variables,)."""
        known = [np.nan if each.known_variance is None else each.known_variance for each in self.variables]
        return np.array(known, dtype=np.float64)

    @property
    def probability(self) -> npt.NDArray[np.bool_]:
        """Which variables are categories that are released as probabilities, shape (n_variables,)."""
        return np.array([variable.probability for variable in self.variables], dtype=bool)

    @property
    def indicator(self) -> npt.NDArray[np.bool_]:
        """Which variables indicate a category, shape (n_variables,)."""
        return np.array([variable.category is not None for variable in self.variables], dtype=bool)

    @property
    def of_ordinal(self) -> npt.NDArray[np.bool_]:
        """Which of these are of a column whose position is a variable too, an ordinal's, shape (n_variables,)."""
        numbers = {variable.position for variable in self.variables if variable.category is None}
        positions = [variable.position in numbers for variable in self.variables]
        return np.asarray(self.indicator & np.array(positions, dtype=bool))

    @property
    def sd(self) -> FloatArray:
        """Standard deviations of the original columns, shape (n_variables,)."""
        return np.array([variable.sd for variable in self.variables])

    def measure(self, cells: FloatArray, probabilities: Mapping[int, FloatArray] | None = None) -> FloatArray:
        """The variables' values.

        Shapes: probabilities (n_rows, n_codes).
        """
        told, scored = probabilities or {}, self._scored(cells)
        values = np.empty((len(cells), len(self.variables)))
        for at, variable in enumerate(self.variables):
            column = cells[:, variable.position]
            if variable.category is not None and variable.position in told:
                column = _column(told[variable.position], variable.category)
            elif variable.category is not None:
                column = (column == variable.category).astype(np.float64)
            if variable.scored:
                column = scored[variable.position]
            if variable.offset is not None:
                column = np.log(np.where(column + variable.offset <= 0.0, variable.least, column) + variable.offset)
            values[:, at] = (column - variable.mean) / variable.sd
        return values

    def _scored(self, cells: FloatArray) -> dict[int, FloatArray]:
        """What the values of columns that are masked by scores say of these, by position."""
        if self.scores is None:
            return {}
        stratum = self.scores.strata.assign(cells)
        return {each.position: each.middles(cells, stratum) for each in self.scores.columns}


def _column(probabilities: FloatArray, code: int) -> FloatArray:
    """The probability of a category; none of one that does not occur."""
    return probabilities[:, code] if code < probabilities.shape[1] else np.zeros(len(probabilities))


def build_view(
    columns: Mapping[str, Column],
    mean: Mapping[str, float],
    sd: Mapping[str, float],
    counts: Mapping[str, npt.NDArray[np.int64]],
    most_categories: int = 50,
    *,
    log_mean: Mapping[str, float] | None = None,
    log_sd: Mapping[str, float] | None = None,
    as_probabilities: Collection[str] = (),
    scores: Scores | None = None,
    restored: Collection[int] = (),
) -> View:
    """Choose the variables of a table; an ordinal counts as a number and by its categories."""
    variables: list[Variable] = []
    released = {} if scores is None else {at: each.released_moments for at, each in scores.by_position().items()}
    for position, (name, column) in enumerate(columns.items()):
        synthesized = column.role.synthesized
        if name not in counts or (column.kind is Kind.ORDINAL and synthesized):
            by_logarithm = column.offset is not None
            if by_logarithm:
                own = (log_mean or {})[name], (log_sd or {})[name] or 1.0
                least = column.numeric_bounds[0] or 0.0
                variables.append(Variable(name, position, None, *own, synthesized, column.offset, least))
            if column.scored:
                variables.append(Variable(name, position, None, 0.0, 1.0, synthesized, scored=True))
            known = None if position in restored else released.get(position)
            centre, spread = (mean[name], sd[name]) if known is None else known
            variance, own_unit = None if known is None else float(spread > 0.0), by_logarithm or column.scored
            number = Variable(name, position, None, centre, spread or 1.0, synthesized, own_unit=own_unit)
            variables.append(replace(number, known_variance=variance))
        if name in counts and (_dummies(column) or len(counts[name]) <= most_categories):
            variables.extend(_indicators(name, position, counts[name], synthesized, name in as_probabilities))
    return View(tuple(variables), scores)


def _dummies(column: Column) -> bool:
    """Whether the column is coded in dummies, whose number is limited already."""
    return column.role.synthesized and column.kind is not Kind.ORDINAL


def _indicators(
    name: str, position: int, counts: npt.NDArray[np.int64], synthesized: bool, probability: bool
) -> Sequence[Variable]:
    share = counts / max(1, counts.sum())
    spread = np.sqrt(share * (1.0 - share))
    first = 1 if len(counts) == 2 else 0  # two categories: one indicator says it all
    return [
        Variable(
            name, position, code, float(share[code]), float(spread[code]) or 1.0, synthesized, probability=probability
        )
        for code in range(first, len(counts))
    ]
