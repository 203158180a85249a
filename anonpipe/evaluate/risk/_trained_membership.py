"""Attack: a classifier is trained to tell who was in the original table, by what the release says of each column.

A distance that is small among many like persons is large among few: who looks at one distance alone
does not know where a person stands. Somebody who has records of both kinds learns it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, logit

from anonpipe.audience import Audience
from anonpipe.evaluate.coding import spread
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._groups import records_of
from anonpipe.evaluate.risk._guesses import Guesses
from anonpipe.evaluate.risk._known import Known
from anonpipe.evaluate.utility import Auc, Measurement, auc
from anonpipe.types import FloatArray

_FOLDS, _TREES = 5, 40
_WIDER = 1.5  # Square root of (1/5 + 1/4) / (1/5): how much wider intervals are as folds learn from each other


def signs(told: FloatArray, asked: FloatArray, found: Guesses, categories: Sequence[int]) -> FloatArray:
    """What the release shows of each record, as numbers for a classifier; shape (n_asked, 3 · n_columns).

    Of each column: how far its closest released record in all other columns is, by itself and as a share of the
    last of the close ones, and how far the closest one's value is from its own (in standard deviations of the
    released column; categories 0 or 1, and a null is as far as another category). Not where the record itself
    lies: by that two samples of one population differ, too.
    """
    columns = []
    for at in range(asked.shape[1]):
        own, guess = asked[:, at], found.values[:, at, 0]
        if at in categories:
            off = (own != guess).astype(np.float64)
        else:
            off = np.abs(own - guess) / (spread(told[:, at]) or 1.0)
        off = np.where(np.isnan(own) & np.isnan(guess), 0.0, np.where(np.isnan(off), 1.0, off))
        near, last = found.squared[:, at, 0], found.squared[:, at, -1]
        last = np.where(np.isfinite(last), last, near)
        columns += [np.sqrt(near), np.sqrt(np.divide(near, last, out=np.ones_like(near), where=last > 0)), off]
    return np.asarray(np.minimum(np.column_stack(columns), np.finfo(np.float32).max))


def trained_membership(
    told: FloatArray,
    members: FloatArray,
    controls: FloatArray,
    found: Guesses,
    categories: Sequence[int] = (),
    *,
    of: int | None = None,
    seed: int = 0,
) -> Measurement:
    """Tell members from held-out records by a forest, which has seen others of both.

    Parameters
    ----------
    told
        Cells of some released records, which the scale is taken of.
    members, controls
        Cells of records that the release was made from, and of held-out ones; five or more each.
    found
        What the closest released records say of each column of members, then of controls.
    categories
        Numbers of the columns that hold codes.
    of
        Members that there are, of which these are a sample; None for all.
    seed
        Of the folds and the trees.

    Notes
    -----
    Extremely randomised trees in five folds: each record is judged by trees that have not seen it, so that
    a release that tells nothing comes out at 0.5 but for chance. Both kinds weigh alike. Folds that learn from
    each other err together: DeLong's variance is taken 9/4 times, the correction for five folds.

    References
    ----------
    Shokri et al. (2017), doi:10.1109/SP.2017.41; Carlini et al. (2022), doi:10.1109/SP46214.2022.9833649
    (why single distances are no measure); Nadeau & Bengio (2003), doi:10.1023/A:1024068626366 (folds);
    Geurts et al. (2006), doi:10.1007/s10994-006-6226-1 (the trees).
    """
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    asked = np.concatenate([members, controls])
    inside = np.arange(len(asked)) < len(members)
    forest = ExtraTreesClassifier(_TREES, min_samples_leaf=5, class_weight="balanced", random_state=seed)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    features = signs(told, asked, found, categories)
    scores = cross_val_predict(forest, features, inside, cv=folds, method="predict_proba")[:, 1]
    area = auc(scores[inside], scores[~inside])
    low, high = _widened(area)
    return Measurement(
        name="membership.trained_auc",
        title="Chance that a trained classifier ranks a person of the table above one who is not in it",
        value=area.value,
        unit="probability",
        better="near baseline",
        source="Shokri et al. (2017), doi:10.1109/SP.2017.41; Carlini et al. (2022), doi:10.1109/SP46214.2022.9833649",
        records=min(len(members), len(controls)),
        of=records_of(of, len(members), "members"),
        audience=Audience.ENOUGH,
        low=low,
        high=high,
        baseline=0.5,
        baseline_is="guessing",
        note=f"{len(members)} members and {len(controls)} held-out persons, in {_FOLDS} folds; each is judged by trees "
        "that have learnt from others. The attacker knows the whole record, and whether some others were in the table.",
    )


def _widened(area: Auc) -> tuple[float, float]:
    """Ends of the interval, further away on the logit scale; as they are where that is infinite."""
    if min(area.value, area.low) <= 0 or max(area.value, area.high) >= 1:
        return area.low, area.high
    middle, ends = logit(area.value), logit(np.array([area.low, area.high]))
    low, high = expit(middle + _WIDER * (ends - middle))
    return float(low), float(high)


def trained_on(known: Known) -> Sequence[Measurement]:
    """The figure of a release; none where there are no guesses to learn from."""
    guessed = known.guessed
    if isinstance(guessed, Reason):
        return ()
    given = guessed.told, guessed.members, guessed.controls, guessed.found, guessed.categories
    return (trained_membership(*given, of=known.rows),)
