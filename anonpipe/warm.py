"""Compile all kernels ahead, for container images and fast first runs.

Every method works once on a small made-up table, so that what is compiled is
what runs call. Nothing is released, and no secret is made.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from anonpipe.errors import InfeasibleError, OutputError
from anonpipe.job.model import Job, parse_job
from anonpipe.job.plain_yaml import load_yaml
from anonpipe.kernels import compiled
from anonpipe.methods.grouping import METHODS, cluster, hold_units, information_loss_bound, refine
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.record import in_jobs
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.pipeline.run import assess_only
from anonpipe.propose.demo import demo_job, write_registry
from anonpipe.rng import trial_secret

ROWS = 6_000


def warm(on_name: Callable[[str], None] = lambda _: None, only: Collection[str] | None = None) -> Path:
    """Compile what is not compiled yet."""
    place = compiled.lasting()
    if place is None:
        raise OutputError("no private folder for compiled code can be written; set NUMBA_CACHE_DIR to one")
    for name in METHODS:
        if only is None or name in only:
            on_name(name)
            _group(name)
    with tempfile.TemporaryDirectory(prefix="anonpipe-warm-") as folder, trial_secret(secrets.token_bytes(32)):
        for name, job in _jobs(Path(folder)):
            if only is None or name in only:
                on_name(name)
                assess_only(job)
    return place


def _group(method: str) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 1 if method == "optimal_univariate" else 3))
    classes = rng.integers(0, 3, 300) if METHODS[method].classes else None
    try:
        labels = cluster(features, 5, method, rng=rng, block_rows=100, classes=classes)
    except InfeasibleError:  # `rhs` refuses most tables, after it has worked on them
        return
    refine(features, labels, 5)
    hold_units(features, labels, np.arange(300) // 3, 5)
    information_loss_bound(features, 5)


def _jobs(folder: Path) -> Iterator[tuple[str, Job]]:
    """Small jobs that together run every synthesizer, every masker, and every measure."""
    data = folder / "registry.parquet"
    write_registry(data, ROWS)
    plain = load_yaml(demo_job(str(data), str(folder / "out"), 5))
    plain |= {"run": {"staging": str(folder / "staging")}, "partition": {"rows": 1_000}}  # so that strata are cut
    quiet = {"measure": {"utility": False, "risk": False, "allow": "nothing is published"}}
    classed = {**plain["columns"], "stage": plain["columns"]["stage"] | {"role": "sensitive"}}
    conditions = {"l_diversity": 2, "t_closeness": 0.5}
    scenarios = [{"name": "neighbour", "knows": ["age", "sex"]}]
    yield "measures", parse_job(plain | {"measure": {"hold_out": 0.1, "scenarios": scenarios}})
    yield "classes", parse_job(plain | {"columns": classed, "sensitive": conditions})
    for rule in ("most_probable", "sampled", "histogram", "probabilities"):
        yield rule, parse_job(plain | quiet | {"decode": {"categories": rule}})
    for name in in_jobs(SYNTHESIZERS):
        options = {"rule": "rank"} if name == "r_microhybrid" else {}  # the other rule asks for large groups
        yield name, parse_job(plain | quiet | {"synthesize": {"method": name, **options}})
    for name in ("centred", "exact"):
        yield name, parse_job(plain | quiet | {"synthesize": {"method": "micro_perturbation", "form": name}})
    ungrouped: dict[str, Any] = {key: value for key, value in plain.items() if key not in ("cluster", "synthesize")}
    for name in MASKERS:
        yield name, parse_job(ungrouped | quiet | {"mask": {"method": name}})
