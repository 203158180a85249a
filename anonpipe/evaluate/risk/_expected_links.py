"""Links to persons where an intruder can find a group, but no released record has a single source in it."""

from __future__ import annotations

import numpy as np

from anonpipe.audience import Audience
from anonpipe.evaluate.risk._known import Alike
from anonpipe.evaluate.utility import Measurement


def expected_links(alike: Alike, *, records: int) -> Measurement:
    """The share of records that are linked correctly, to be expected where links inside a group are a draw.

    A record whose nearest released record lies in its own group of n counts
    as 1/n: each of the n stands for it with the same probability. Records of
    a group that differ in an unchanged column make groups of their own, as a
    reader sees whose they are not. It is what the literature's shares of
    correct links measure where released records are drawn again in each group.

    Parameters
    ----------
    alike
        The nearest released records of each record looked for, and the group of each.
    records
        Records of the table; if more than were looked for, these are a random
        sample.

    Notes
    -----
    The interval is the normal one of a mean, but not below 0 nor above 1.

    References
    ----------
    Li and Sarkar (2013), Manage. Sci. 59:796-812, doi:10.1287/mnsc.1120.1584,
    section 6.1; Oganian and Domingo-Ferrer (2017), Definition 1.

    Examples
    --------
    >>> from anonpipe.evaluate.risk import Found, Nearest
    >>> found = Found(Nearest(np.zeros((2, 1)), np.array([[0], [3]])), np.array([[0], [1]]))
    >>> expected_links(Alike(found, own=np.array([0, 0]), sizes=np.array([4, 4])), records=2).value
    0.125
    """
    assert alike.found.groups is not None
    hits = (alike.found.groups[:, 0] == alike.own) / alike.sizes
    value, queries = float(hits.mean()), len(hits)
    low = high = None
    if queries < records:
        reach = 1.96 * float(hits.std()) / np.sqrt(queries)
        low, high = max(0.0, value - reach), min(1.0, value + reach)
    return Measurement(
        name="linkage.expected",
        title="Records linked to the right released record, to be expected of a draw inside their group",
        value=value,
        unit="share",
        better="lower",
        source="Li & Sarkar 2013, section 6.1; Oganian & Domingo-Ferrer 2017, Definition 1",
        records=queries,
        of=records,
        audience=Audience.ENOUGH,
        low=low,
        high=high,
        baseline=1.0 / records,
        baseline_is="a blind guess",
        note="A record that is found counts as 1/n, of n in its group that share its key variables.",
    )
