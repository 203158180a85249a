"""The regression that a proposed job begins with."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from anonpipe.evaluate.utility import fit_models
from anonpipe.job.model import parse_job
from anonpipe.propose.propose import propose_job
from tests import small


def frame(rows=800):
    rng = np.random.default_rng(2)
    size, ward = rng.normal(20, 5, rows).round(2), rng.choice([1, 2, 3], rows)
    return pd.DataFrame(
        {
            "tumour size": size,
            "class": rng.choice(["a", "b"], rows),
            "ward": ward,
            "weight": (3 * size + 5 * (ward == 2) + rng.normal(0, 4, rows)).round(2),
            "noise": rng.normal(size=rows).round(3),
            "C": rng.normal(size=rows).round(3),
            "seldom": np.where(rng.random(rows) < 0.5, np.nan, size + 1).round(2),
        }
    )


def proposed(folder, table):
    path = small.write_table(folder, pa.Table.from_pandas(table, preserve_index=False))
    return parse_job(yaml.safe_load(propose_job(path, str(folder / "out"), 5)))


def test_the_best_explained_number_is_modelled_by_the_others(tmp_path):
    table = frame()
    (analysis,) = proposed(tmp_path, table).analyses
    assert (analysis.model, analysis.declared) == ("linear", {})
    response, terms = analysis.formula.split(" ~ ")
    assert {response, terms.split(" + ")[0]} == {"weight", 'Q("tumour size")'}
    assert 'Q("class")' in terms and "C(ward)" in terms
    assert "seldom" not in terms and "C +" not in terms
    (model,) = fit_models(table, [analysis.analysis])
    assert model.fit.problem is None and model.fit.rows == len(table)


@pytest.mark.parametrize("names", [["class", "ward"], ["weight", "noise"]])
def test_none_is_proposed_where_there_is_little_to_explain(tmp_path, names):
    assert proposed(tmp_path, frame()[names]).analyses == ()


def test_at_most_eight_predictors(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(600, 20)), columns=[f"v{at}" for at in range(20)])
    table["sum"] = table.sum(axis=1) + np.random.default_rng(1).normal(size=600)
    (analysis,) = proposed(tmp_path, table).analyses
    assert analysis.formula.startswith("sum ~ ") and analysis.formula.count("+") == 7
