"""An attack: values of single persons are planted, and none may come out, whatever the method."""

from __future__ import annotations

import contextlib
import pickle
import traceback

import numpy as np
import pyarrow as pa
import pytest

from anonpipe import anonymize
from anonpipe.errors import AnonpipeError, EngineError, InfeasibleError, InputError, JobError, OutputError
from anonpipe.job.model import parse_job
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.pipeline.preview import preview
from anonpipe.pipeline.run import execute
from tests import small

pytestmark = pytest.mark.secret("9f3c17a2b85de06441c7f29e8ab350d6" * 2)

COST, BORN = 98_765_432.11, np.datetime64("1871-03-17")
ROWS = 240
COLUMNS = {
    "cost": {"kind": "continuous"},
    "born": {"kind": "date"},
    "months": {"kind": "continuous", "role": "survival_time", "step": 0.1},
    "status": {"kind": "categorical", "role": "survival_status", "event": ["Dead"]},
}
PLAIN = small.unscored(COLUMNS)
LOOSE = {"mean": 9, "covariance": 99, "covariance_with_keys": 99, "unchanged_record_rate": 1, "rows_under_k": ROWS}
OPTIONS = {"suppression": {"share": 0.5}, "synthesis": {"draw": "quantiles"}}
HANDING_ON = [
    {"mask": {"method": "spectral_swap", "basis": "columns"}},
    {"decode": {"restore_survival_times": True}},
]


def _table():
    rng = np.random.default_rng(0)
    cost = np.round(rng.lognormal(9, 0.6, ROWS), 2)
    born = np.datetime64("1950-01-01") + rng.integers(0, 9_000, ROWS)
    cost[11], born[23] = COST, BORN
    months, status = np.round(rng.exponential(90, ROWS), 1), rng.choice(["Alive", "Dead"], ROWS)
    return pa.table({"cost": cost, "born": pa.array(born.astype("datetime64[D]")), "months": months, "status": status})


def _handed_on(verdict):
    return next(check for check in verdict.lines if "reproduced above chance" in check.name)


@pytest.mark.parametrize(
    "how",
    [
        *({"synthesize": {"method": name}} for name in SYNTHESIZERS if name not in ("histogram", "r_microhybrid")),
        {"synthesize": {"method": "r_microhybrid"}, "k": 10},
        *({"mask": {"method": name, **OPTIONS.get(name, {})}} for name in MASKERS),
        {"decode": {"restore_survival_times": True, "jitter_restored_times": 2.0}},
    ],
    ids=str,
)
@pytest.mark.parametrize("columns", [COLUMNS, PLAIN], ids=["normal scores", "as they are"])
def test_no_method_hands_on_a_planted_value(how, columns):
    job = {"k": 5, "columns": columns, "gates": LOOSE, "measure": small.OFF} | how
    released, verdict, _ = anonymize(_table(), job)
    assert released is not None, [check for check in verdict.lines if check.outcome == "failed"]
    assert np.abs(released["cost"].to_numpy() - COST).min() > 1
    assert BORN not in released["born"].to_numpy().astype("datetime64[D]")
    assert _handed_on(verdict).measured == "0"


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_value_met_by_chance_between_heaps_is_released(seed):
    """Distances to 0.1 km, further ones rounded to 1 or 5 km: on the step, rare ones are met by chance."""
    rng = np.random.default_rng(seed)
    km = np.exp(rng.normal(1.6, 1.1, 6_000))
    rounded = np.where(rng.random(6_000) < 0.6, np.maximum(5, np.rint(km / 5) * 5), km.round())
    table = {"km": np.where(km < 3, km.round(1), rounded), "age": rng.integers(6, 90, 6_000)}
    columns = {"km": {"kind": "continuous", "step": 0.1}, "age": {"kind": "integer"}}
    _, verdict, _ = anonymize(pa.table(table), {"k": 5, "columns": columns, "gates": LOOSE, "measure": small.OFF})
    assert _handed_on(verdict).measured == "0"


@pytest.mark.parametrize("how", HANDING_ON, ids=str)
def test_what_hands_on_values_is_not_released(how):
    job = {"k": 5, "columns": PLAIN, "gates": LOOSE, "measure": small.OFF} | how
    released, verdict, _ = anonymize(_table(), job)
    assert released is None and _handed_on(verdict).outcome == "failed"


def _raised(error):
    """The error, as raised while one that quotes a value is handled."""
    try:
        try:
            raise ValueError(small.CANARY)
        except ValueError:
            raise error from None
    except AnonpipeError as caught:
        return caught


def _reachable(error):
    """All errors that lead from one to others, as services that report errors follow them."""
    found = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


@pytest.mark.parametrize("kind", [AnonpipeError, InputError, JobError, EngineError, OutputError, InfeasibleError])
def test_no_error_leads_to_the_error_of_a_library_behind_it(kind):
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: None)
        error = _raised(kind("it is wrong"))
    assert _reachable(error) == [error]
    printed = "".join(traceback.format_exception(error)) + repr(vars(error))
    assert small.CANARY not in printed and small.CANARY.encode() not in pickle.dumps(error)
    assert type(pickle.loads(pickle.dumps(error))) is kind and str(error) == "it is wrong"


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("text.csv", f"{small.CANARY},1\n", "integer"),
        ("wide.csv", f"1,2,{small.CANARY}\n", "integer"),
        ("quote.csv", f'"{small.CANARY},1\n', "integer"),
        ("bytes.csv", f"{small.CANARY}\udcff,1\n", "categorical"),
    ],
)
@pytest.mark.parametrize("call", [preview, lambda job: execute(job, cluster=False)], ids=["plan", "run"])
def test_no_unreadable_value_is_reachable_from_the_error(tmp_path, name, text, kind, call):
    rows = "".join(f"{at},{at / 7}\n" for at in range(200))
    (tmp_path / name).write_bytes(f"x,y\n{rows}{text}".encode(errors="surrogateescape"))
    columns = {"x": {"kind": kind}, "y": {"kind": "continuous"}}
    job = parse_job({"input": str(tmp_path / name), "output": str(tmp_path / "out"), "k": 5, "columns": columns})
    with pytest.raises(AnonpipeError) as caught:
        call(job)
    for error in _reachable(caught.value):
        assert small.CANARY not in f"{error!r} {error} {vars(error)}"
