"""What means and covariances that are kept tell of who is in the table: expected, drawn, refused and limited."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.risk import (
    EffectiveDimension,
    columns_for_membership,
    effective_dimension,
    membership_from_moments,
    rows_for_membership,
)
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.preview import preview
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)


def attacked(rows, numbers, attributes, seed):
    """Literally: two samples of one population, distances of all to the first one's mean in its covariance."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(2 * rows, numbers))]
    parts += [np.eye(len(s))[rng.choice(len(s), 2 * rows, p=s)][:, 1:] for s in attributes]
    table = np.hstack(parts)
    inside = table[:rows]
    away = table - inside.mean(axis=0)
    far = np.einsum("ij,jk,ik->i", away, np.linalg.inv(np.cov(inside.T)), away)
    return (far[:rows, None] < far[None, rows:]).mean()


TABLES = {
    "numbers": (300, 25, [], 0.02),
    "halves": (400, 0, [np.array([0.5, 0.5])] * 40, 0.03),
    "rare categories": (800, 2, [np.array([0.6, 0.3, 0.07, 0.03])] * 20, 0.02),
    "answers from 1 to 5": (600, 0, [np.array([0.1, 0.2, 0.4, 0.2, 0.1])] * 15, 0.02),
}


@pytest.mark.parametrize("name", TABLES)
def test_what_is_expected_is_what_an_attack_finds(name):
    rows, numbers, attributes, within = TABLES[name]
    found = np.mean([attacked(rows, numbers, attributes, seed) for seed in range(8)])
    assert membership_from_moments(rows, effective_dimension(numbers, attributes)) == pytest.approx(found, abs=within)
    assert found > 0.52  # there is something to be told


def test_more_records_tell_less_and_as_few_as_columns_tell_all():
    width = effective_dimension(12, [np.array([0.7, 0.2, 0.1])])
    told = [membership_from_moments(rows, width) for rows in (15, 16, 40, 400, 40_000)]
    assert told[0] == 1.0 and told == sorted(told, reverse=True) and told[-1] < 0.501
    enough = rows_for_membership(width, 0.55)
    assert membership_from_moments(enough, width) <= 0.55 < membership_from_moments(enough - 1, width)
    with pytest.raises(InputError, match="moments of 1 records"):
        membership_from_moments(1, width)


def wide(rows, columns, seed=1):
    rng = np.random.default_rng(seed)
    return pa.table({f"c{at}": rng.normal(size=rows) for at in range(columns)})


def job(folder, table, **changes):
    columns = {name: {"kind": "continuous"} for name in table.column_names}
    return small.job(folder, table, columns, **{"measure": {"utility": False, "queries": 100}} | changes)


@pytest.mark.parametrize(("rows", "numbers"), [(60, 30), (500, 90), (3_000, 203)])
def test_as_many_columns_are_enough_as_are_said(rows, numbers):
    width = effective_dimension(numbers, [np.array([0.5, 0.3, 0.2])] * 3)
    most = columns_for_membership(rows, width, 0.6)
    areas = [
        membership_from_moments(rows, EffectiveDimension(columns, width.spread * columns / width.columns))
        for columns in (most, most + 1)
    ]
    assert 0 < most < width.columns and areas[0] <= 0.6 < areas[1]
    assert columns_for_membership(10**9, width, 0.6) == width.columns


@pytest.mark.parametrize("mask", ["local_synthesis", "spectral_swap", "synthesis", "data_shuffle"])
def test_too_many_columns_for_records_are_refused_before_work(tmp_path, mask):
    given = job(tmp_path, wide(150, 40), mask={"method": mask})
    for look in (preview, small.run):
        with pytest.raises(JobError, match=r"150 records and 40 independent feature columns") as refused:
            look(given)
        text = str(refused.value)
        said = re.search(r"expected AUC (0\.\d{3}), limit 0\.6 .* (\d+) records .* about (\d+) feature col", text)
        assert float(said[1]) == pytest.approx(membership_from_moments(150, effective_dimension(40, [])), abs=6e-4)
        enough, fewer = int(said[2]), int(said[3])
        assert membership_from_moments(enough, effective_dimension(40, [])) <= 0.6
        assert membership_from_moments(150, effective_dimension(fewer, [])) <= 0.6
        assert membership_from_moments(150, effective_dimension(fewer + 1, [])) > 0.6
        advice = [text.find(each) for each in ("Drop columns", "take fewer strata", "null removes")]
        assert advice[0] > 0 and advice == sorted(advice) and "kind: ordinal" not in text
    assert small.left_behind(tmp_path) == []


def test_refusal_names_the_categories_of_most_columns(tmp_path):
    """Only those of several feature columns, for which its advice helps."""
    table = wide(150, 30)
    columns = {name: {"kind": "continuous"} for name in table.column_names}
    for name, levels in (("flag", 2), ("site", 6), ("kin", 3)):
        table = table.append_column(name, pa.array([f"{name} {at % levels}" for at in range(150)]))
        columns[name] = {"kind": "categorical"}
    with pytest.raises(JobError, match=r"Most have 'site' \(5\), 'kin' \(2\): join categories, or declare ordered"):
        preview(
            small.job(
                tmp_path, table, columns, mask={"method": "local_synthesis"}, measure={"utility": False, "queries": 100}
            )
        )


def test_without_limit_it_is_released_and_verdict_names_it(tmp_path):
    given = job(tmp_path, wide(150, 40), mask={"method": "local_synthesis"}, gates={"membership_auc": None})
    verdict, assessment = pipeline.assess_only(given)
    assert assessment.measurement("membership.expected").value > 0.8
    assert "membership_auc" in verdict.unlimited and not verdict.failed


def test_groups_that_tell_too_much_refused_unless_job_lifts(tmp_path):
    def failing(folder, table, **changes):
        verdict = pipeline.assess_only(job(tmp_path / folder, table, **changes))[0]
        return "risk.membership_auc" in {check.key for check in verdict.failed}, verdict.unlimited

    assert failing("wide", wide(150, 40)) == (True, ())
    assert failing("few", wide(600, 3)) == (False, ())
    assert failing("lifted", wide(150, 40), gates={"membership_auc": None}) == (False, ("membership_auc",))


def test_small_stratum_decides_and_is_merged_where_asked(tmp_path):
    table = wide(600, 20).append_column("side", pa.array(["a"] * 300 + ["b"] * 230 + ["c"] * 70))
    columns = {name: {"kind": "continuous"} for name in table.column_names[:-1]}
    columns["side"] = {"kind": "categorical", "role": "key"}
    given = {"mask": {"method": "local_synthesis"}, "measure": {"utility": False, "queries": 100}}
    with pytest.raises(JobError, match="the smallest stratum has 70 records"):
        preview(small.job(tmp_path, table, columns, strata={"by": ["side"]}, **given))
    merged = preview(small.job(tmp_path, table, columns, strata={"by": ["side"], "small": "merge"}, **given))
    assert sorted(rows for _, rows in merged.strata) == [230, 370]
