import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.evaluate.risk import fewest_alike
from anonpipe.evaluate.risk._probabilistic import MEASURE, link_by, probabilistic_bound
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.synthesis import METHODS, synthesize
from tests.in_memory import mask
from tests.naive import attacks as naive


def link_of(method):
    return link_by((METHODS | MASKERS)[method])


def known(k=5, group=5, link="none", records=100, width=1, exact_moments=False, own_columns=0, fewest_alike=None):
    return SimpleNamespace(
        k=k, smallest_group=group, link=link, rows=records, features=["x"] * width, exact_moments=exact_moments,
        own_columns=own_columns, fewest_alike=fewest_alike,
    )  # fmt: skip


def judged(**how):
    return probabilistic_bound(known(**how))


def test_made_from_groups_of_k():
    found = judged(group=8)
    assert (found.answer, found.bound, found.reasons) == ("holds", 1 / 8, ())
    (measured,) = MEASURE.of(known(group=8))
    assert measured.value == 1 / 8 and measured.baseline == 1 / 5 and "holds" in measured.note
    assert judged(group=None).bound == 1 / 100


@pytest.mark.parametrize(
    ("how", "answer", "reason"),
    [
        ({"group": 4}, "does not hold", "smallest group has 4"),
        ({"link": "own"}, "does not hold", "made from one person"),
        ({"link": "unknown"}, "cannot be said", "not known for this method"),
        ({"own_columns": 2}, "cannot be said", "2 columns of their own"),
        ({"own_columns": 2, "fewest_alike": 4}, "does not hold", "only 4"),
        ({"exact_moments": True, "width": 4}, "cannot be said", "span of its originals"),
        ({"k": 2, "group": 2, "exact_moments": True, "width": 1}, "does not hold", "group of two as it was"),
        ({"link": "unknown", "group": 4}, "does not hold", "smallest group"),
    ],
)
def test_what_breaks_it(how, answer, reason):
    found = judged(**how)
    assert found.answer == answer
    assert any(reason in each for each in found.reasons)
    (measured,) = MEASURE.of(known(**how))
    assert answer in measured.note and reason in measured.note and "Assumed: " in measured.note
    if answer == "cannot be said":
        assert math.isnan(found.bound)
    elif not math.isnan(found.bound):
        assert found.bound > 1 / how.get("k", 5)


def test_what_does_not_break_it():
    assert judged(exact_moments=True, width=3).answer == "holds"
    alike = judged(group=9, own_columns=1, fewest_alike=6)
    assert (alike.answer, alike.bound) == ("holds", 1 / 6)
    assert judged(k=1, group=1).bound == 1.0


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("centroid", {}),
        ("gaussian", {"moments": "exact"}),
        ("pca", {"moments": "expected", "n_table": 1200}),
        ("micro_perturbation", {"factor": 0.5 * np.eye(3), "form": "centred"}),
    ],
)
def test_knowing_group_and_record_is_right_within_the_bound(method, options):
    """The closest released record of the group stands for the victim once in n; of noise it does far more often."""
    rng = np.random.default_rng(0)
    original, labels = rng.normal(size=(1200, 3)), np.repeat(np.arange(200), 6)
    assert link_of(method) == "none"
    released = synthesize(original, *sort_groups(labels), method, rng=rng, **options)
    found = judged(k=6, group=6, records=1200)
    # Six standard errors.
    assert linked_in_groups(original, released, rng) < found.bound + 6 * (found.bound / 1200) ** 0.5
    assert link_of("noise") == "own"
    assert linked_in_groups(original, mask(original, "noise", rng=rng), rng) > 3 * found.bound


def linked_in_groups(original, released, rng):
    """Share of records whose own released one is the closest of its group of six, equally close ones drawn by lot."""
    old, new = original.reshape(200, 6, 3), released.reshape(200, 6, 3)
    squared = ((old[:, :, None] - new[:, None]) ** 2).sum(axis=3).round(9)
    lots = rng.random(squared.shape)
    best = np.lexsort((lots, squared), axis=2)[:, :, 0]
    return (best == np.arange(6)).mean()


def test_every_method_has_a_link():
    links = {name: link_of(name) for name in (*METHODS, *MASKERS)}
    assert all(links[name] == "none" for name in METHODS)
    assert {name for name, link in links.items() if link == "own"} == {"noise", "pram", "rank_swap", "suppression"}
    # The literature calls fully synthetic data the strongest case, and noise no case at all.
    assert links["sequential_regression"] == "none"


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(0, 3))
def test_fewest_alike_as_the_twin(seed, n, width):
    rng = np.random.default_rng(seed)
    labels, cells = rng.integers(0, 3, n) * 5, rng.integers(0, 2, (n, width)).astype(float)
    cells[rng.random(cells.shape) < 0.1] = np.nan
    assert fewest_alike(labels, cells) == naive.fewest_alike(labels.tolist(), cells.tolist())
