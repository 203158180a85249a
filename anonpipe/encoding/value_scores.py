"""Masked normal scores whose values have the wanted covariances (NORTA: normal to anything, Cario & Nelson 1997).

Values are handed out by the ranks of masked scores, and a value says of a score only its range. So what the release
says is a step function of the rank: the mean score of the value (`Ranks.middles`). Its covariances are smaller than
those of the scores where values are tied, and others where scores are not normal. Masks hold the covariances of what
the original says. Two things make the release have them: a linear map of the masked scores, near the identity, and
categories that are matched to what will be said in place of the scores (`anonpipe.encoding.matching`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anonpipe.encoding.features import FeatureEncoder
from anonpipe.encoding.scores import ScoredColumn, Scores
from anonpipe.methods.masking import DrawnSample
from anonpipe.types import FloatArray, IntArray

SAMPLE_ROWS = 40_000  # Records of a scope that the map is learned from; all, if they are fewer

_KNOTS = np.linspace(0.0, 1.0, 2_001)  # Positions at which the distribution of masked scores is kept

_STEPS = 12  # Most steps of the search for the map

_GAIN = 0.98  # Of the sum of squares that a step leaves at most, or it is a smaller one

_LEAST = 1e-3  # Smallest eigenvalue that the map makes of a correlation matrix, unless it has smaller ones


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """What is learned of the masked scores of a scope."""

    # mean, matrix: scores s become mean + matrix (s - mean); shapes (n_scored,) and (n_scored, n_scored)
    mean: FloatArray
    matrix: FloatArray
    classes: IntArray  # Column and class of each distribution, shape (n, 2)
    knots: FloatArray  # Mapped scores at `_KNOTS` of each, shape (n, n_knots)


@dataclass(frozen=True, eq=False)
class ValueScores:
    """The columns that are masked by normal scores, as channels."""

    columns: tuple[ScoredColumn, ...]
    channels: tuple[int, ...]  # Where each stands among the channels
    scores: Scores  # Of the table
    maps: bool  # Whether they are all numbers of the table; else only categories are matched to them

    @classmethod
    def fit(cls, features: FeatureEncoder) -> ValueScores | None:
        """Those of a table; None without any."""
        numbers = [block for block in features.numbers if not block.ordinal]
        scored = [(block.scored, block.start) for block in numbers if block.scored is not None]
        if features.scores is None or not scored:
            return None
        columns, channels = zip(*scored, strict=True)
        return cls(tuple(columns), tuple(channels), features.scores, len(scored) == len(numbers))

    def stratum(self, cells: FloatArray) -> int:
        """That of the records of a part."""
        return int(self.scores.strata.assign(cells[:1])[0]) if len(cells) else 0

    def count(
        self, part: FloatArray, *, params: object, stratum: int, draws: Callable[[str], np.random.Generator]
    ) -> DrawnSample:
        """Masked scores of some records, and their stratum."""
        strata = np.full((len(part), 1), stratum)
        return DrawnSample.of(part[:, self.channels], strata, SAMPLE_ROWS, max(1, len(part)), draws("value scores"))

    def learn(self, sample: DrawnSample, *, params: object, rng: np.random.Generator) -> ScoreMap:
        """The map and the distributions of a scope.

        One step adds to the covariances of the masked scores what is lacking of those of the values, divided by the
        slopes of the values (Newton's method where all is normal); one that gains little is halved.
        """
        scores, classes = sample.scores, self._classes(sample.codes[:, 0])
        mean, spread = scores.mean(axis=0), scores.std(axis=0)
        unit = np.where(spread > 0.0, spread, 1.0)
        standard = (scores - mean) / unit
        wanted = standard.T @ standard / max(1, len(standard))
        latent, added, best, least, step = wanted, np.zeros_like(wanted), np.eye(len(unit)), np.inf, 1.0
        for _ in range(_STEPS if self.maps and len(unit) > 1 else 0):
            tried = _correlations(latent + step * added, wanted) if added.any() else wanted
            matrix = transport(wanted, tried) if added.any() else best
            made = standard @ matrix.T
            said = self._said(mean + unit * made, classes) / unit
            centred = said - said.mean(axis=0)
            lack = wanted - centred.T @ centred / len(centred)
            np.fill_diagonal(lack, 0.0)
            left = float(np.square(lack).sum())
            if left > _GAIN * least:
                step /= 2.0
                continue
            slope = np.maximum((centred * made).mean(axis=0), 0.1)
            latent, added, best, least = tried, lack / np.outer(slope, slope), matrix, left
        matrix = best * np.outer(unit, 1.0 / unit)
        mapped = mean + (scores - mean) @ matrix.T
        found = [
            ((at, own), np.quantile(mapped[column == own, at], _KNOTS))
            for at, column in enumerate(classes.T)
            for own in np.unique(column[column >= 0]).tolist()
        ]
        owners = np.array([owner for owner, _ in found], dtype=np.int64).reshape(-1, 2)
        return ScoreMap(mean, matrix, owners, np.array([knots for _, knots in found]).reshape(-1, len(_KNOTS)))

    def mapped(self, part: FloatArray, params: ScoreMap) -> FloatArray:
        """The channels with mapped scores."""
        made = part.copy()
        made[:, self.channels] = params.mean + (part[:, self.channels] - params.mean) @ params.matrix.T
        return made

    def said(self, mapped: FloatArray, params: ScoreMap, stratum: int) -> FloatArray:
        """Mapped channels, with what their values say in the place of scores."""
        made, here = mapped.copy(), self._classes(np.array([stratum]))[0]
        for (at, own), knots in zip(params.classes.tolist(), params.knots, strict=True):
            if here[at] == own:
                channel = self.channels[at]
                positions = np.interp(mapped[:, channel], knots, _KNOTS)
                made[:, channel] = self.columns[at].said(positions, own)
        return made

    def _classes(self, strata: IntArray) -> IntArray:
        """The class of records of each stratum, shape (n_strata, n_scored); -1 where the status decides."""
        found = [column.classes[strata] for column in self.columns]
        return np.stack([np.where((of == of[:, :1]).all(axis=1), of[:, 0], -1) for of in found], axis=1)

    def _said(self, scores: FloatArray, classes: IntArray) -> FloatArray:
        """What the values say of scores whose records are all there; scores of no one class stay."""
        made = scores.copy()
        for at, column in enumerate(classes.T):
            for own in np.unique(column[column >= 0]).tolist():
                inside = column == own
                ranks = np.empty(int(inside.sum()))
                ranks[np.argsort(scores[inside, at], kind="stable")] = np.arange(len(ranks)) + 0.5
                made[inside, at] = self.columns[at].said(ranks / len(ranks), own)
        return made


def _correlations(wanted: FloatArray, original: FloatArray) -> FloatArray:
    """The wanted matrix made a correlation matrix: negative eigenvalues are raised, then the diagonal is restored."""
    values, vectors = np.linalg.eigh(wanted)
    least = min(_LEAST, max(float(np.linalg.eigvalsh(original)[0]), 0.0))
    raised = (vectors * np.maximum(values, least)) @ vectors.T
    unit = np.sqrt(np.divide(np.diag(original), np.diag(raised), out=np.zeros(len(values)), where=np.diag(raised) > 0))
    return np.asarray(raised * np.outer(unit, unit))


def transport(given: FloatArray, wanted: FloatArray) -> FloatArray:
    """The symmetric map that changes a covariance into another one and moves normal records least.

    References
    ----------
    Olkin & Pukelsheim (1982), Linear Algebra and its Applications 48:257-263: A = S (S V S)^(-1/2) S is that of V to
    S², in the form given^(-1/2) (given^(1/2) wanted given^(1/2))^(1/2) given^(-1/2).

    Examples
    --------
    >>> transport(np.diag([1.0, 4.0]), np.diag([4.0, 1.0])).round(12).tolist()
    [[2.0, 0.0], [0.0, 0.5]]
    """
    values, vectors = np.linalg.eigh(given)
    there = values > 1e-9 * max(float(values[-1]), 0.0)
    root = np.sqrt(np.where(there, values, 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=there)
    half, back = (vectors * root) @ vectors.T, (vectors * inverse) @ vectors.T
    inner, turned = np.linalg.eigh(half @ wanted @ half)
    middle = (turned * np.sqrt(np.maximum(inner, 0.0))) @ turned.T
    return np.asarray(back @ middle @ back)
