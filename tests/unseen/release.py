"""A release as a newcomer makes it: by `anonpipe init`, then the code book, then the remedies that are printed."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from anonpipe.errors import AnonpipeError
from anonpipe.job.model import parse_job
from anonpipe.pipeline.run import execute
from anonpipe.propose.propose import default_output, propose_job
from anonpipe.storage import release
from tests.unseen.tables import CodeBook

MOST_EDITS = 6
"""After so many a newcomer gives up."""


@dataclass
class Attempt:
    """One run: the job as it stood, and what was printed."""

    edits: int
    passed: bool
    word: str
    failed: list[str]
    texts: list[str]
    covariance: float = float("nan")  # The worst in parts of its limit


@dataclass
class Released:
    """What a newcomer came to; `table` is None where nothing was released."""

    method: str
    edits: list[str]
    attempts: list[Attempt]
    content: dict[str, Any]
    proposal: str
    seconds: float
    table: pd.DataFrame | None = None

    @property
    def first(self) -> Attempt:
        return self.attempts[0]

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]


def as_newcomer(
    name: str, table: pd.DataFrame, book: CodeBook, folder: Path, secret: int = 0, follow: bool = True
) -> Released:
    """Propose a job, fill it in, run it, and if wanted follow what is printed until the table is released."""
    os.environ |= {"ANONPIPE_HOME": str(folder / "home"), "ANONPIPE_STAGING": str(folder / "staging")}
    os.environ["ANONPIPE_SECRET"] = hashlib.sha256(f"unseen {secret}".encode()).hexdigest()
    data = folder / f"{name}.parquet"
    table.to_parquet(data)
    began = time.process_time()
    proposal = propose_job(str(data), str(folder / default_output(str(data))), 5)
    content = yaml.safe_load(proposal)
    edits = fill_in(content, proposal, book, data)
    attempts: list[Attempt] = []
    tried: set[str] = set()
    while True:
        attempt = _run(content, len(edits))
        attempts.append(attempt)
        if attempt.passed or not follow or len(edits) >= MOST_EDITS:
            break
        said = _next_remedy(attempt, content, data, tried)
        if said is None:
            break
        edits.append(said)
    made = Released(_method(content), edits, attempts, content, proposal, time.process_time() - began)
    if made.last.passed:
        made.table = _read(content["output"])
    return made


def _read(output: str) -> pd.DataFrame:
    where = release.resolve(output)
    names = [entry["name"] for entry in release.read_manifest(where)["files"]]
    return pd.concat([pd.read_parquet(where.path(each)) for each in names], ignore_index=True)


def _method(content: dict[str, Any]) -> str:
    mask = content.get("mask")
    return str(mask["method"] if mask else content.get("cluster", {}).get("method", "groups"))


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


def fill_in(content: dict[str, Any], proposal: str, book: CodeBook, data: Path) -> list[str]:
    """Make the edits that the proposal asks for, as far as the code book answers; what was edited."""
    edits, columns = [], content["columns"]
    for name, column in columns.items():
        if column.get("event") == [] and book.event:
            column["event"] = list(book.event)
            edits.append(f"{name}.event")
        if column.get("levels") == [] and name in book.levels:
            column["levels"] = list(book.levels[name])
            edits.append(f"{name}.levels")
        if name in book.unknown and _asks_for_code(proposal, name):
            frame = pd.read_parquet(data)
            frame[name] = frame[name].mask(frame[name] == book.unknown[name])
            frame.to_parquet(data)
            edits.append(f"{name}: null in the input")
    return edits


def _asks_for_code(proposal: str, name: str) -> bool:
    """Whether the entry of a column asks if a value is a code for unknown."""
    entry = re.search(rf"^  {re.escape(name)}:\n((?:    .*\n)*)", proposal, re.MULTILINE)
    return entry is not None and "a code for" in entry[1]


Edit = Callable[[dict[str, Any], Path, str], bool]
"""Change a job or its input as a remedy says of a check; False if there is nothing to change."""


def _local_synthesis(content: dict[str, Any], data: Path, text: str) -> bool:
    if _method(content) == "local_synthesis":
        return False
    for key in ("cluster", "synthesize"):
        content.pop(key, None)
    content["mask"] = {"method": "local_synthesis"}
    return True


def _larger_k(content: dict[str, Any], data: Path, text: str) -> bool:
    content["k"] *= 2
    return True


def _merge(content: dict[str, Any], data: Path, text: str) -> bool:
    strata = content.get("strata")
    if not strata or strata.get("small") == "merge":
        return False
    strata["small"] = "merge"
    return True


def _drop(content: dict[str, Any], data: Path, text: str) -> bool:
    """Drop the column that is named, or the one of most categories."""
    columns = content["columns"]
    open_ones = [name for name, column in columns.items() if column.get("role", "masked") == "masked"]
    named = [name for name in open_ones if f"'{name}'" in text]
    coded = [name for name in open_ones if columns[name].get("kind") in ("categorical", "ordinal")]
    counts = pd.read_parquet(data, columns=coded).nunique()
    choice = named[0] if named else counts.idxmax() if len(counts) else None
    if choice is None:
        return False
    columns[choice]["role"] = "dropped"
    return True


def _join(content: dict[str, Any], data: Path, text: str) -> bool:
    """Join the categories of fewer than 4 k records in all columns of categories."""
    frame, changed = pd.read_parquet(data), False
    for name, column in content["columns"].items():
        if column.get("role", "masked") != "masked" or column.get("kind") not in ("categorical", "ordinal"):
            continue
        if not pd.api.types.is_string_dtype(frame[name]):
            continue
        counts = frame[name].map(frame[name].value_counts())
        rare = counts < 4 * content["k"]
        if rare.any() and frame.loc[rare, name].nunique() > 1:
            frame[name], changed = frame[name].mask(rare, "other"), True
    if changed:
        frame.to_parquet(data)
    return changed


def _finer(content: dict[str, Any], data: Path, text: str) -> bool:
    return any([column.pop("step", None) is not None for column in content["columns"].values()])


def _coarser(content: dict[str, Any], data: Path, text: str) -> bool:
    stepped = [column for column in content["columns"].values() if "step" in column]
    for column in stepped:
        column["step"] *= 10
    return bool(stepped)


def _untransformed(content: dict[str, Any], data: Path, text: str) -> bool:
    named = [name for name in content["columns"] if f"'{name}'" in text]
    for name in named:
        content["columns"][name]["transform"] = "none"
    return bool(named)


def _raise(content: dict[str, Any], data: Path, text: str) -> bool:
    gate = re.search(r"gates\.(\w+)", text[text.index("raise gates.") :])
    if gate is None:
        return False
    content.setdefault("gates", {})[gate[1]] = None
    return True


REMEDIES: dict[str, Edit] = {
    "mask: {method: local_synthesis}": _local_synthesis,
    "merge": _merge,
    "a larger k": _larger_k,
    "join rare categories": _join,
    "joined categories": _join,
    "join categories": _join,
    "drop a column": _drop,
    "drop columns": _drop,
    "fewer columns": _drop,
    "finer step": _finer,
    "coarser steps": _coarser,
    "transform: none": _untransformed,
    "raise gates.": _raise,
}
"""What printed remedies say, as edits; those that loosen a limit last."""


def _next_remedy(attempt: Attempt, content: dict[str, Any], data: Path, tried: set[str]) -> str | None:
    """Follow the first remedy that was printed and not tried yet; limits are loosened last."""
    texts = [text for text in attempt.texts if not text.startswith("warning: ")]
    said = " ".join(text for text in texts if "remedy" in text) or " ".join(texts)
    for phrase, edit in REMEDIES.items():
        if phrase in said.lower() and phrase not in tried:
            tried.add(phrase)
            if edit(content, data, said):
                return phrase
    return None
