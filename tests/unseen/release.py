"""A release as a newcomer makes it: by `anonpipe init`, then the code book, then the remedies that are printed."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import yaml

from anonpipe.errors import AnonpipeError
from anonpipe.job.measure import usual_hold_out
from anonpipe.job.model import parse_job
from anonpipe.pipeline.run import execute
from anonpipe.propose.propose import default_output, propose_job
from anonpipe.storage import release
from tests.unseen.tables import CodeBook

MOST_EDITS = 6
"""After so many a newcomer gives up."""


@dataclass
class Attempt:
    """One run: how many edits the job had, and what was printed."""

    edits: int
    passed: bool
    word: str
    failed: list[str]
    texts: list[str]
    covariance: float = float("nan")  # The worst in parts of its limit


@dataclass
class Released:
    """What a newcomer came to; `table` is None where nothing was released."""

    edits: list[str]
    attempts: list[Attempt]
    content: dict[str, Any]  # The job as it was run last
    proposal: str
    seconds: float
    table: pd.DataFrame | None = None

    @property
    def method(self) -> str:
        return str((self.content.get("mask") or self.content["cluster"])["method"])

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]


def as_newcomer(name: str, table: pd.DataFrame, book: CodeBook, folder: Path) -> Released:
    """Propose a job, fill it in, run it, and follow what is printed until the table is released."""
    data, began = folder / f"{name}.parquet", time.process_time()
    table.to_parquet(data)
    with _at_home(folder, 0):
        proposal = propose_job(str(data), str(folder / default_output(str(data))), 5)
        desk = Desk(yaml.safe_load(proposal), data, book)
        edits = desk.fill_in(proposal)
        attempts, tried = [_run(desk.content, len(edits))], set[str]()
        while not attempts[-1].passed and len(edits) < MOST_EDITS:
            done = next_remedy(desk, attempts[-1], tried)
            if done is None:
                break
            edits.append(done)
            attempts.append(_run(desk.content, len(edits)))
    made = Released(edits, attempts, desk.content, proposal, time.process_time() - began)
    if made.last.passed:
        made.table = _read(desk.content["output"])
    return made


def again(made: Released, folder: Path, secret: int) -> bool:
    """Whether the job that was released passes with another secret, too."""
    elsewhere = made.content | {"output": str(folder / f"another-{secret}")}
    with _at_home(folder, secret):
        return _run(elsewhere, len(made.edits)).passed


def _at_home(folder: Path, secret: int) -> AbstractContextManager[Any]:
    """Secret, release log and staging of a steward in a folder; each secret is another's."""
    settings = {"HOME": str(folder / f"home-{secret}"), "STAGING": str(folder / "staging")}
    settings["SECRET"] = hashlib.sha256(f"unseen {secret}".encode()).hexdigest()
    return mock.patch.dict(os.environ, {f"ANONPIPE_{name}": value for name, value in settings.items()})


def _read(output: str) -> pd.DataFrame:
    where = release.resolve(output)
    names = [entry["name"] for entry in release.read_manifest(where)["files"]]
    return pd.concat([pd.read_parquet(where.path(each)) for each in names], ignore_index=True)


def _run(content: dict[str, Any], edits: int) -> Attempt:
    """Run a job here; a refusal before any work is an attempt as well."""
    try:
        outcome = execute(parse_job(content), cluster=False)
    except AnonpipeError as error:
        return Attempt(edits, False, type(error).__name__, [], [str(error)])
    verdict = outcome.verdict
    failed = [f"{check.key} {check.ratio:.2f}" for check in verdict.failed]
    texts = [*outcome.summary, *(f"remedy: {each}" for each in outcome.remedies)]
    texts += [f"warning: {each}" for each in outcome.warnings]
    worst = [check.ratio for check in verdict.checks if check.key.startswith("covariance")]
    return Attempt(edits, outcome.version is not None, verdict.word, failed, texts, max(worst, default=float("nan")))


# --- edits ----------------------------------------------------------------------------------------------------------


@dataclass
class Desk:
    """What a newcomer edits, and knows: the job, the input, the code book."""

    content: dict[str, Any]
    data: Path
    book: CodeBook

    @property
    def columns(self) -> dict[str, dict[str, Any]]:
        return dict(self.content["columns"])

    @property
    def coded(self) -> list[str]:
        """Masked columns of categories."""
        kinds = ("categorical", "ordinal")
        return [n for n, each in self.columns.items() if each["kind"] in kinds and each["role"] == "masked"]

    def fill_in(self, proposal: str) -> list[str]:
        """Make the edits that the proposal asks for, as far as the code book answers; what was edited."""
        edits = []
        for name, column in self.columns.items():
            if column.get("event") == []:
                column["event"] = list(self.book.event)
                edits.append(f"{name}.event")
            if column.get("levels") == []:
                column["levels"] = list(self.book.levels.get(name, []))
                edits.append(f"{name}.levels")
        asked = [name for name in self.book.unknown if _asks_for_code(proposal, name)]
        if asked:
            frame = pd.read_parquet(self.data)
            for name in asked:
                frame[name] = frame[name].mask(frame[name] == self.book.unknown[name])
            frame.to_parquet(self.data)
            edits.append(f"nulls in the input: {', '.join(asked)}")
        return edits


def _asks_for_code(proposal: str, name: str) -> bool:
    """Whether the entry of a column asks if a value is a code for unknown."""
    entry = re.search(rf"^  {re.escape(name)}:\n((?:    .*\n)*)", proposal, re.MULTILINE)
    return entry is not None and "a code for" in entry[1]


Edit = Callable[[Desk, str], bool]
"""Change job or input as a printed text says; False if there is nothing to change."""


def _local_synthesis(desk: Desk, text: str) -> bool:
    grouped = [desk.content.pop(key, None) for key in ("cluster", "synthesize")]
    desk.content["mask"] = {"method": "local_synthesis"}
    return any(grouped)


def _larger_k(desk: Desk, text: str) -> bool:
    desk.content["k"] *= 2
    return True


def _merge(desk: Desk, text: str) -> bool:
    strata = desk.content.get("strata", {"small": "merge"})
    before, strata["small"] = strata["small"], "merge"
    return bool(before != "merge")


def _ordinal(desk: Desk, text: str) -> bool:
    """Declare the columns ordinal of which the code book tells an order."""
    ordered = [name for name in desk.coded if name in desk.book.levels and desk.columns[name]["kind"] != "ordinal"]
    for name in ordered:
        desk.columns[name] |= {"kind": "ordinal", "levels": list(desk.book.levels[name])}
    return bool(ordered)


def _join(desk: Desk, text: str) -> bool:
    """Join the texts of fewer than 4 k records in each column of categories."""
    frame, changed = pd.read_parquet(desk.data), False
    for name in desk.coded:
        rare = frame[name].map(frame[name].value_counts()) < 4 * desk.content["k"]
        if pd.api.types.is_string_dtype(frame[name]) and frame.loc[rare, name].nunique() > 1:
            frame[name], changed = frame[name].mask(rare, "other"), True
    frame.to_parquet(desk.data)
    return changed


def _drop(desk: Desk, text: str) -> bool:
    """Drop the column that is named, else the one of most categories."""
    named = [name for name, each in desk.columns.items() if f"'{name}'" in text and each["role"] == "masked"]
    counts = pd.read_parquet(desk.data, columns=desk.coded).nunique()
    if not named and not len(counts):
        return False
    name = named[0] if named else counts.idxmax()
    desk.columns[name]["role"] = "dropped"
    measure = desk.content.get("measure", {})
    scenarios = [each | {"knows": [n for n in each["knows"] if n != name]} for each in measure.get("scenarios", [])]
    if scenarios:  # nobody is found by a column that is not released
        measure["scenarios"] = [each for each in scenarios if each["knows"]]
    return True


def _larger_hold_out(desk: Desk, text: str) -> bool:
    """Hold out as many times more as the text says, at most half of the table."""
    found, measure = re.search(r"([\d.]+) times as many", text), desk.content.get("measure", {})
    before = measure.get("hold_out", 0.0)
    before = usual_hold_out(pq.read_metadata(desk.data).num_rows) if before == "default" else before
    if found is None or not before:
        return False
    measure["hold_out"] = min(0.5, float(np.ceil(100 * before * float(found[1]))) / 100)
    return bool(measure["hold_out"] > before)


def _finer(desk: Desk, text: str) -> bool:
    return any([column.pop("step", None) is not None for column in desk.columns.values()])


def _coarser(desk: Desk, text: str) -> bool:
    stepped = [column for column in desk.columns.values() if "step" in column]
    for column in stepped:
        column["step"] *= 10
    return bool(stepped)


def _untransformed(desk: Desk, text: str) -> bool:
    named = [column for name, column in desk.columns.items() if f"'{name}'" in text]
    for column in named:
        column["transform"] = "none"
    return bool(named)


def _no_limit(desk: Desk, text: str) -> bool:
    gates = re.findall(r"gates\.(\w+)", text)
    desk.content.setdefault("gates", {})[gates[-1]] = None
    return True


REMEDIES: dict[str, Edit] = {
    "mask: {method: local_synthesis}": _local_synthesis,
    "the same figure would pass": _larger_hold_out,
    "merge": _merge,
    "ordinal": _ordinal,
    "finer step": _finer,
    "coarser steps": _coarser,
    "transform: none": _untransformed,
    "join rare categories": _join,
    "join categories": _join,
    "joined categories": _join,
    "a larger k": _larger_k,
    "drop a column": _drop,
    "drop columns": _drop,
    "fewer columns": _drop,
    "raise gates.": _no_limit,
    "null removes the limit": _no_limit,
}
"""What printed remedies say, as edits, in the order in which they are tried: a limit goes last."""


def next_remedy(desk: Desk, attempt: Attempt, tried: set[str]) -> str | None:
    """Follow the first remedy that was printed and not tried yet; what was done, None if no more was printed."""
    said = " ".join(text for text in attempt.texts if not text.startswith("warning: "))
    for phrase, edit in REMEDIES.items():
        if phrase in said.lower() and phrase not in tried:
            tried.add(phrase)
            if edit(desk, said):
                return phrase
    return None
