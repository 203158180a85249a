"""README: the job is valid, names exist, and a stranger reads it in five minutes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from anonpipe.cli import app
from anonpipe.job.model import parse_job
from anonpipe.methods.grouping import METHODS as GROUPINGS
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.verify.catalogue import GATES
from tests.test_docs import count_words

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)


def block(language, containing=""):
    return next(text for kind, text in BLOCKS if kind == language and containing in text)


def test_length():
    assert len(README.splitlines()) <= 112 and count_words(README) <= 1_100


def test_sentences_are_short():
    prose = re.sub(r"^(```.*?^```|\|.*?\|$|#.*?$)", "", README, flags=re.M | re.S)
    prose = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    sentences = [part.split() for part in re.split(r"[.!?:;](?=\s)|\n\n|^- ", prose, flags=re.M) if part.split()]
    assert sum(map(len, sentences)) / len(sentences) <= 16 and max(map(len, sentences)) <= 25


def test_job_is_valid():
    job = parse_job(yaml.safe_load(block("yaml")) | {"input": "registry.parquet", "output": "release"})
    assert job.k == 5 and len(block("yaml").splitlines()) <= 12


def test_output_fits_a_terminal():
    """At most 20 lines of 80 columns."""
    lines = block("text", "RELEASED").splitlines()
    assert len(lines) <= 20 and max(map(len, lines)) <= 80


@pytest.mark.parametrize("command", sorted(set(re.findall(r"(?:bin/|`|^)anonpipe (?!-|replaces)(\w+)", README, re.M))))
def test_command_exists(command):
    assert command in get_command(app).commands


def test_methods_and_gates_exist():
    named = set(re.findall(r"`(?:mask|cluster|synthesize): (\w+)`", README))
    assert named and named <= {*GROUPINGS, *SYNTHESIZERS, *MASKERS}
    gates = re.search(r"gates: {(.*?)}", README)[1]
    assert set(re.findall(r"(\w+):", gates)) <= set(GATES)
