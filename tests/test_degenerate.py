"""Every synthesizer and every masker on a table that has all at once what formulas stumble over."""

import numpy as np
import pandas as pd
import pytest

from anonpipe import anonymize
from anonpipe.storage import release
from tests import small

pytestmark = pytest.mark.secret("91" * 32)

GATES = {
    "mean": 9,
    "covariance": 9,
    "covariance_with_keys": 9,
    "category_share": 1,
    "null_share": 1,
    "unchanged_record_rate": 1,
    "local_suppression_rate": 1,
}
COLUMNS = {
    "number": {"kind": "continuous"},
    "twice": {"kind": "continuous"},
    "constant": {"kind": "integer"},
    "missing": {"kind": "continuous"},
    "place": {"kind": "categorical"},
    "stratum": {"kind": "binary", "role": "sensitive"},
}
SMALL = 10
STEPS = {"number": 0.1, "twice": 0.1, "missing": 0.1, "constant": 2}
METHODS = [
    *({"synthesize": {"method": method}} for method in ("centroid", "gaussian", "pca", "micro_perturbation")),
    *({"synthesize": {"method": method, "moments": "expected"}} for method in ("gaussian", "pca")),
    {"synthesize": {"method": "r_microhybrid", "rule": "rank"}},
    *({"synthesize": {"method": "micro_perturbation", "form": form}} for form in ("centred", "published")),
    {"synthesize": {"method": "micro_perturbation", "form": "exact", "noise_scope": "stratum"}},
    *({"mask": {"method": method}} for method in ("noise", "data_shuffle", "synthesis")),
    {"mask": {"method": "data_shuffle", "conditioning": ["stratum"], "scope": "table"}},
    {"mask": {"method": "noise", "form": "exact"}},
    {"mask": {"method": "synthesis", "draw": "quantiles"}},
    {"mask": {"method": "sequential_regression"}},
    {"mask": {"method": "generalize", "release": "interval", "steps": STEPS, "origin": {"constant": 2}}},
]

HANDING_ON = [
    {"mask": {"method": "spectral_swap"}},
    {"mask": {"method": "spectral_swap", "basis": "columns"}},
    {"mask": {"method": "suppression", "share": 0.2}},
]
"""The small stratum varies along one axis only: permuting it, or suppressing nothing of it, leaves its values, which
normal scores would release as means of k."""


def awkward(rows=64):
    """Collinear and constant columns; a stratum of one or two groups, with nulls only and one category."""
    rng = np.random.default_rng(0)
    small = np.arange(rows) >= rows - SMALL
    number = rng.normal(size=rows).round(2)
    return pd.DataFrame(
        {
            "number": number,
            "twice": 2 * number + 1,
            "constant": 3,
            "missing": np.where(small | (rng.random(rows) < 0.3), np.nan, rng.normal(size=rows)),
            "place": np.where(small, "u", rng.choice(["u", "v", "w"], rows)),
            "stratum": np.where(small, "q", "p"),
        }
    )


def job(how):
    off = small.OFF
    return {"k": 5, "columns": COLUMNS, "strata": {"by": ["stratum"]}, "gates": GATES, "measure": off, **how}


@pytest.mark.parametrize("how", METHODS, ids=lambda how: "-".join(map(str, next(iter(how.values())).values())))
def test_promises_are_kept(how):
    frame = awkward()
    made, verdict, _ = anonymize(frame, job(how))
    assert verdict.passed, [(check.name, check.measured) for check in verdict.lines if check.outcome == "failed"]
    assert (made["constant"] == 3).all() and len(made) == len(frame)
    assert made["stratum"].value_counts().to_dict() == frame["stratum"].value_counts().to_dict()
    guaranteed = [check for check in verdict.lines if "deviation from its expected value" in check.name]
    promises_nothing = ("data_shuffle", "quantiles", "sequential_regression", "generalize")
    assert guaranteed or any(word in next(iter(how.values())).values() for word in promises_nothing)


@pytest.mark.parametrize("how", HANDING_ON, ids=lambda how: "-".join(map(str, next(iter(how.values())).values())))
def test_one_dimension_stratum_revealing_values_is_withheld(how):
    made, verdict, _ = anonymize(awkward(), job(how) | {"columns": small.unscored(COLUMNS)})
    failed = [check.name for check in verdict.lines if check.outcome == "failed"]
    assert made is None
    assert failed == ["rare original values reproduced above chance (in fewer than 5 records)"]
    if how["mask"].get("basis") != "columns":  # without the small stratum there is room to turn
        rest = awkward().query("stratum == 'p'")
        assert anonymize(rest, job(how) | {"columns": small.unscored(COLUMNS)})[1].passed


def test_columns_of_any_name_are_counted(tmp_path):
    """A key variable may be called as the counts of its own combinations are."""
    table = small.plain_table(200).rename_columns(["rows", "copy", "count"])
    columns = {
        "rows": {"kind": "integer", "role": "key"}, "copy": {"kind": "continuous"}, "count": {"kind": "categorical"},
    }  # fmt: skip
    job = small.job(tmp_path, table, columns, gates={"rows_under_k": 1_000})
    assert small.run(job).verdict.passed and small.released(job).column_names == table.column_names
    assert release.read_manifest(release.resolve(job.output))["columns"]["copy"]["treatment"] == "synthetic"
