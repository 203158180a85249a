"""Made-up odd CSV files: init and plan end with a documented exit code and show no cell."""

from __future__ import annotations

import random
import sys

import pytest

from anonpipe import cli
from tests.small import CANARY

CELLS = {
    "number": lambda draw: str(draw.randrange(50)),
    "huge": lambda draw: str(draw.randrange(10**25)),
    "exponent": lambda draw: f"{draw.randrange(9)}.5e{draw.choice([0, 99, 200, 300, 308])}",
    "text": lambda draw: draw.choice(["a", "b", CANARY]),
    "null": lambda draw: "",
    "time": lambda draw: f"2020-01-{10 + draw.randrange(18)}T10:{10 + draw.randrange(50)}:00",
    "lines": lambda draw: f'"{draw.choice("xy")}\n{CANARY}"',
    "mixed": lambda draw: draw.choice(["1", "x", CANARY, "", "NaN", "inf"]),
    "foreign": lambda draw: f"caf\xe9{draw.choice('ab')}",
    "control": lambda draw: f"\x1b[31m{CANARY}",
    "identifier": lambda draw: f"{CANARY}{draw.randrange(10**9)}",
}


def odd_file(draw: random.Random) -> bytes:
    """Any number of rows and columns, some damage, and any of the usual encodings."""
    kinds = draw.choices(list(CELLS), k=draw.choice([1, 2, 3, 5, 30]))
    mark, end = draw.choice(",,;\t"), draw.choice(["\n", "\n", "\r\n"])
    rows = [mark.join(CELLS[kind](draw) for kind in kinds) for _ in range(draw.choice([0, 1, 4, 60, 200]))]
    names = [f"{draw.choice(['age', 'id', 'months', 'dead', 'x y', 'é', '-'])}{at}" for at in range(len(kinds))]
    if draw.random() < 0.1:
        names[-1] = names[0]
    lines = [mark.join(names), *rows]
    damage = draw.random()
    if damage < 0.1:
        lines[-1] += mark + CANARY
    elif damage < 0.2:
        lines[-1] = f'"{CANARY}'
    content = end.join(lines).encode(draw.choice(["utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16"]))
    return content[: len(content) // 2] if damage > 0.95 else content


@pytest.mark.parametrize("seed", range(40))
def test_odd_files_end_in_a_job_or_in_one_clear_line(tmp_path, capfd, monkeypatch, seed):
    path, job = tmp_path / "t.csv", tmp_path / "job.yaml"
    path.write_bytes(odd_file(random.Random(seed)))
    for command in (["init", str(path), "--output", str(tmp_path / "out")], ["plan", str(job)]):
        monkeypatch.setattr(sys, "argv", ["anonpipe", *command])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        shown, said = capfd.readouterr()
        assert code in (0, 2), said
        assert CANARY not in shown + said and "Traceback" not in said and "\x1b[31m" not in shown + said
        if code:
            assert said.startswith("error: ") and shown == ""
            break
        job.write_text(shown)
