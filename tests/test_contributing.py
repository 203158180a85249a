"""The examples of CONTRIBUTING.md are files as they would stand in the package."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from anonpipe.columns import Kind as ColumnKind
from anonpipe.evaluate import risk
from anonpipe.evaluate.utility._tables import typed_tables
from anonpipe.methods.grouping import METHODS, cluster
from anonpipe.methods.record import by_name, union_of
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.methods.synthesis import synthesize
from anonpipe.moments import GroupedMoments
from anonpipe.verify import catalogue
from tests.benchmarks.mutations import MUTANTS
from tests.in_memory import run_steps

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```python (\w+)\n(.*?)^```$", PAGE, re.M | re.S))


def module(kind, change=("", "")):
    """A block as a module of its own, which pydantic finds under its name; `change` is made in its text first."""
    made = sys.modules[f"example_{kind}"] = ModuleType(f"example_{kind}")
    text = BLOCKS[kind].replace(*change) if change[0] else BLOCKS[kind]
    exec(compile(text, f"CONTRIBUTING.md, {kind}", "exec", dont_inherit=True), made.__dict__)
    return made


def test_all_kinds_have_an_example_and_named_files_exist():
    assert set(BLOCKS) == {"grouping", "synthesizer", "masker", "utility", "risk", "gate"}
    for name in re.findall(r"`((?:anonpipe|tests)/[\w/.]+\.py)`", PAGE):
        assert "NAME" in name or (ROOT / name).exists(), name


def test_the_grouping_groups(monkeypatch):
    record = module("grouping").METHOD
    monkeypatch.setitem(METHODS, record.name, record)
    features = np.random.default_rng(0).normal(size=(60, 2))
    labels = cluster(features, 5, record.name, rng=np.random.default_rng(1))
    assert np.bincount(labels).min() >= 5
    assert union_of({**METHODS}) is not None


def test_the_synthesizer_keeps_what_it_guarantees(monkeypatch):
    record = module("synthesizer").METHOD
    monkeypatch.setitem(SYNTHESIZERS, record.name, record)
    features = np.random.default_rng(0).normal(size=(60, 2))
    groups = np.arange(60), np.arange(0, 61, 5)
    made = synthesize(features, *groups, record.name, rng=np.random.default_rng(1), share=0.3)
    guarantee = record.guarantee(record.options(method=record.name, share=0.3))
    told = guarantee.expect([GroupedMoments.of(features, *groups)], None)
    assert np.allclose(np.cov(made.T), told.covariance, rtol=1e-12)
    assert np.allclose(made.mean(axis=0), features.mean(axis=0), atol=1e-14)


def test_a_synthesizer_without_a_guarantee_cannot_be_imported():
    with pytest.raises(TypeError, match="guarantee"):
        module("synthesizer", ("    guarantee=_guarantee,\n", ""))
    with pytest.raises(TypeError, match="shrunk can be asked for in jobs and guarantees nothing"):
        module("synthesizer", ("guarantee=_guarantee", "guarantee=None"))


def test_the_masker_masks():
    made = module("masker")
    record = made.METHOD
    assert by_name(type(record), [made]) == {"mirror": record}
    features = np.random.default_rng(0).normal(3, 1, size=(50, 2))
    made = run_steps(features, record.steps(share=0.5), key=b"k" * 16, parts=[20, 30])
    off, old = made - features.mean(axis=0), features - features.mean(axis=0)
    assert np.allclose(np.abs(off), np.abs(old)) and (np.sign(off) != np.sign(old)).any()


def test_the_measures_measure():
    old = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    tables = typed_tables(old, old.assign(x=[0.0, 0.0, 2.0, 3.0]), {"x": ColumnKind.CONTINUOUS})
    (found,) = module("utility").MEASURE.of(tables)
    assert found.value == 0.25
    pairs = risk.Pairs(np.array([[1.0, np.nan]]), np.array([[2.0, np.nan]]), ("a", "b"), ())
    (found,) = module("risk").MEASURE.of(SimpleNamespace(pairs=pairs, rows=1))
    assert found.value == 0.5


def test_the_gate_is_one_that_a_job_can_set():
    kind = eval(compile(BLOCKS["gate"], "CONTRIBUTING.md, gate", "eval"), dict(vars(catalogue)))
    assert kind.key == "risk.unchanged_values" and kind.gate.needs == ("risk",) and kind.remedy
    measure = module("risk").MEASURE
    assert kind.gate.figures == measure.keys and kind.gate.unmeasured == f"unmeasured.{measure.key}"


def test_faults_of_the_mutation_benchmark_are_of_this_code():
    places = {
        each.name: (ROOT / "anonpipe" / each.file).read_text(encoding="utf-8").count(each.right) for each in MUTANTS
    }
    assert len(places) == len(MUTANTS) > 10 and set(places.values()) == {1}
