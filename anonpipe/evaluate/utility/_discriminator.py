"""How well a boosted forest, trained on some records, tells the others of the release from those of the original."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from anonpipe.environment import one_thread
from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.utility._auc import Auc, auc
from anonpipe.evaluate.utility._check import checked_tables
from anonpipe.types import IntArray

LEAST_RECORDS = 20  # Of either table: half of them to train on, half to judge by

_MOST_CODES = 250


def discriminator(
    original: npt.ArrayLike,
    released: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    categories: Sequence[int] = (),
    paired: bool = False,
    rounds: int = 60,
) -> Auc:
    """Area under the ROC curve of a classifier on records that it has not seen: 0.5 is chance, 1 certainty.

    Parameters
    ----------
    original, released
        Finite numbers of the same columns, shapes (n_rows, width) and
        (n_released, width), 20 rows or more each.
    rng
        Halves the records, and seeds the classifier.
    categories
        Places of the columns that are codes from 0 to 249 of categories.
    paired
        Whether row i of the release replaces row i of the original. Both are
        then in the same half. Apart, a value that the release keeps would be
        learned as the original's and judged as the release's, and a copy would
        come out below chance.
    rounds
        Trees, of at most 31 leaves each.

    Returns
    -------
    Auc
        With DeLong's interval, which takes the judged records as independent.

    Notes
    -----
    Below 0.5 is chance, or a value that is unique in either table.

    The measure is of the release and of this classifier: a better one may
    find more. Rounding, repeated records and values that cannot be are found
    at once, though most analyses do not mind them.

    Raises
    ------
    InputError
        The tables are not as described.
    JobError
        Categories that do not exist, or fewer than 1 round.

    References
    ----------
    Lopez-Paz & Oquab (2017), Revisiting classifier two-sample tests, ICLR;
    gradient boosting: Friedman (2001), Ann. Stat. 29:1189-1232.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> old = rng.normal(size=(200, 2))
    >>> discriminator(old, old, rng=rng, paired=True).value
    0.5
    >>> discriminator(old, old + 5, rng=rng).value > 0.99
    True
    """
    old, new = checked_tables(original, released, least_rows=LEAST_RECORDS)
    width = old.shape[1]
    if rounds < 1 or any(not 0 <= place < width for place in categories):
        raise JobError(
            f"rounds={rounds} and {len(categories)} categories were given; give 1 or more rounds, and "
            f"places from 0 to {width - 1}"
        )
    if paired and len(old) != len(new):
        raise InputError(f"{len(old)} and {len(new)} records cannot be paired; give as many of each")
    codes = np.concatenate([old, new])[:, list(categories)]
    if codes.size and (codes.min() < 0 or codes.max() >= _MOST_CODES or (codes != np.floor(codes)).any()):
        raise InputError(f"categories hold other values than the codes 0 to {_MOST_CODES - 1}; join rare categories")
    from sklearn.ensemble import HistGradientBoostingClassifier

    train, judge = _halves(len(old), rng)
    other_train, other_judge = (train, judge) if paired else _halves(len(new), rng)
    model = HistGradientBoostingClassifier(
        max_iter=rounds,
        early_stopping=False,
        categorical_features=list(categories) or None,
        random_state=int(rng.integers(2**31)),
    )
    labels = np.repeat([0, 1], [len(train), len(other_train)])
    # On cores that are in use its threads, idle most of the time on so few records, wait for one another and burn more
    # than they add.
    with one_thread():
        model.fit(np.concatenate([old[train], new[other_train]]), labels)
        return auc(model.decision_function(new[other_judge]), model.decision_function(old[judge]))


def _halves(rows: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    order = rng.permutation(rows)
    return np.sort(order[: rows // 2]), np.sort(order[rows // 2 :])
