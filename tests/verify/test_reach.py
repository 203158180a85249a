"""How near decoding gets to covariances is known beforehand; what is further off is refused, whatever the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nchypergeom_fisher, norm, poisson

from anonpipe import anonymize
from anonpipe.pipeline.procedure.record import Decoder
from anonpipe.verify import gates
from tests import small

pytestmark = pytest.mark.secret("5e3f1c8a9b7d2e604f1122334455667788")

SHARES = (0.6, 0.2, 0.1, 0.05, 0.03, 0.02)


def table(rows: int, nulls: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Two numbers, one of them full of zeros, counts in fives, and two categories with rare ones; all go together."""
    rng = np.random.default_rng(seed)
    z = 0.75 * rng.normal(size=(rows, 1)) + 0.66 * rng.normal(size=(rows, 5))
    edges = np.cumsum(SHARES)[:-1]
    frame = pd.DataFrame(
        {
            "x": z[:, 0].round(2),
            "zeros": np.where(z[:, 1] < 0.3, 0.0, np.exp(z[:, 1]).round(1)),
            "fives": 5 * np.rint(10 + 3 * z[:, 2]),
            "a": np.array(list("abcdef"))[np.searchsorted(np.quantile(z[:, 3], edges), z[:, 3])],
            "b": np.array(list("uvwxyz"))[np.searchsorted(np.quantile(z[:, 4], edges), z[:, 4])],
        }
    )
    frame.loc[rng.random(rows) < nulls, "x"] = np.nan
    return frame


def job(**changes):
    kinds = {"x": 0.01, "zeros": 0.1, "fives": 5}
    columns = {name: {"kind": "continuous", "step": step, "bounds": [None, None]} for name, step in kinds.items()}
    columns |= {name: {"kind": "categorical"} for name in "ab"}
    open_gates = {"unchanged_record_rate": 1, "local_suppression_rate": 1}
    return {
        "k": 5,
        "columns": columns,
        "measure": small.OFF,
        "gates": open_gates,
        "mask": {"method": "local_synthesis"},
    } | changes


def failed(verdict):
    return {check.key for check in verdict.checks if check.blocks}


@pytest.mark.parametrize(("rows", "nulls"), [(30, 0.0), (60, 0.3), (100, 0.4), (300, 0.0)])
def test_awkward_tables_are_released(rows, nulls):
    _, verdict, _ = anonymize(table(rows, nulls), job())
    assert failed(verdict) == set()


def test_columns_that_no_record_has_both_of_are_released():
    """Of smokers alone the cigarettes, of those who quit alone the year: no covariance is to be kept."""
    frame = table(3000)
    asked = np.random.default_rng(1).choice(3, len(frame), p=[0.3, 0.3, 0.4])
    frame["x"], frame["fives"] = frame["x"].where(asked == 0), frame["fives"].where(asked == 1)
    _, verdict, _ = anonymize(frame, job())
    assert failed(verdict) == set()


@pytest.mark.parametrize("column", ["x", "zeros", "fives", "a"])
@pytest.mark.parametrize(("rows", "nulls"), [(300, 0.0), (300, 0.2)])
def test_a_column_that_is_shuffled_after_decoding_is_refused(monkeypatch, column, rows, nulls):
    """Margins are all kept: nothing but a covariance tells."""
    whole = Decoder.decode
    at = sorted(job()["columns"]).index(column)

    def shuffled(self, channels, cells, params, part, draws):
        made = whole(self, channels, cells, params, part, draws)
        made.cells[:, at] = np.random.default_rng(part).permutation(made.cells[:, at])
        return made

    monkeypatch.setattr(Decoder, "decode", shuffled)
    _, verdict, _ = anonymize(table(rows, nulls), job())
    assert "covariance" in failed(verdict)


def test_halved_correlations_of_numbers_refused_without_nulls(monkeypatch):
    """Every second record exchanges its number, of few ties, with another one."""
    whole = Decoder.decode

    def halved(self, channels, cells, params, part, draws):
        made = whole(self, channels, cells, params, part, draws)
        some = np.arange(0, len(made.cells), 2)
        made.cells[some, 3] = np.random.default_rng(part).permutation(made.cells[some, 3])
        return made

    monkeypatch.setattr(Decoder, "decode", halved)
    _, verdict, _ = anonymize(table(400), job())
    assert failed(verdict) == {"covariance"}


@pytest.fixture
def compared(monkeypatch):
    """What is compared of a table of 40 rows, of whose numbers k ranks share a mean."""
    seen = []
    whole = gates._moments
    monkeypatch.setattr(gates, "_moments", lambda compared, limits: seen.append(compared) or whole(compared, limits))
    anonymize(table(40), job())
    return seen[0]


def test_k_ranks_and_means_effect_on_variance_is_known_exactly(compared):
    scored = np.array([each.scored for each in compared.view.variables])
    shift, own, _ = compared._released_scores
    released, original = compared.released, np.diag(compared.covariance)
    assert scored.sum() == 3 and np.abs(own / original - 1.0)[scored].max() > 0.005
    assert np.allclose(shift[scored], released.mean[scored], atol=1e-9)
    assert np.allclose(own[scored], np.diag(released.covariance)[scored], atol=1e-9)
    assert np.abs(compared.mean_off[scored]).max() < 1e-9 and np.diag(compared.covariance_off)[scored].max() < 1e-9


def test_what_is_off_counts_beyond_both_ends_of_what_is_known(compared):
    """A literal twin: the distance to the nearest number between the original, the values' and the scores' moment."""
    for factor in (-2.0, 0.5, 0.97, 1.0, 1.03, 2.0):
        changed = replace(compared, released=moved(compared.released, factor))
        released, scale = changed.released.covariance, changed.scale
        for at, row in enumerate(changed.covariance_off):
            for other, off in enumerate(row):
                ends = [compared.covariance[at, other], *(known[at, other] for known in compared._known)]
                near = min(max(released[at, other], min(ends)), max(ends))
                expected = abs(released[at, other] - near) / (scale[at] * scale[other])
                assert off == pytest.approx(expected, abs=1e-12)


def moved(moments, factor):
    """The same moments with other covariances."""
    centred = moments.cross - moments.sums * moments.sums.T / moments.n
    return replace(moments, cross=moments.cross + (factor - 1.0) * centred)


def test_groups_giving_back_own_categories_have_no_allowance(monkeypatch):
    seen = []
    whole = gates._moments
    monkeypatch.setattr(gates, "_moments", lambda c, limits: seen.append(c.reach) or whole(c, limits))
    anonymize(table(200), job(mask=None, cluster={"method": "mdav"}))
    assert seen and not any(each.any() for each in seen)


@pytest.mark.parametrize(
    ("rows", "one", "two", "odds"), [(4000, 200, 90, 8.0), (4000, 40, 30, 200.0), (900, 90, 400, 0.3)]
)
def test_records_in_both_categories_vary_as_fishers_law_says(rows, one, two, odds):
    law = nchypergeom_fisher(rows, one, two, odds)
    shares, covariance = (one / rows, two / rows), law.mean() / rows - one * two / rows**2
    expected = rows * gates.joint_variance(*map(np.array, (*shares, covariance)))
    assert abs(expected / law.var() - 1.0) < 0.05
    assert covariance < 0 or expected > rows * np.prod([each * (1 - each) for each in shares])  # and more than without


@pytest.mark.parametrize("mean", [2.0, 8.0, 40.0])
def test_rare_counts_exceed_normal_law_by_their_skewness(mean):
    chance = 1e-6
    normal = mean + float(norm.isf(chance)) * np.sqrt(mean)
    assert normal < poisson.isf(chance, mean) <= normal + gates.skewness_quantile(2 * chance) + 1.5
