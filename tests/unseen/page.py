"""The table of docs/threats.md on generated tables, from data/unseen.csv: `python -m tests.unseen.page`.

`python -m tests.unseen --csv data/unseen.csv` puts what it measures in the place of the rows of `after`.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "data" / "unseen.csv"
PAGE = ROOT / "docs" / "threats.md"
BETWEEN = re.compile(r"(?<=<!-- unseen -->\n).*?(?=<!-- end of unseen -->)", re.DOTALL)
RISKS = ("membership", "tracing", "counting", "linkage", "linkability", "inference")
FIELDS = (
    "run",
    "table",
    "method",
    "edits",
    "verdict",
    *(f"{risk}{end}" for risk in RISKS for end in ("", "_low", "_high")),
)


def read(path: Path = FIGURES) -> list[dict[str, str]]:
    """The rows of both runs."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def replace(rows: list[dict[str, str]], path: Path = FIGURES) -> None:
    """Put rows in the place of those of the same run and table."""
    kept = {(row["run"], row["table"]): row for row in [*(read(path) if path.exists() else []), *rows]}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept.values())


def figure(row: dict[str, str], risk: str) -> str:
    """A risk with the half width of its interval; – where nothing was released."""
    if not row.get(risk):
        return "–"
    return f"{float(row[risk]):.3f}±{(float(row[f'{risk}_high']) - float(row[f'{risk}_low'])) / 2:.3f}"


def lines(rows: list[dict[str, str]]) -> list[str]:
    """The table: the figures of the run `after`."""
    shown = [[row["table"], *(figure(row, risk) for risk in RISKS)] for row in rows if row["run"] == "after"]
    return [f"| {' | '.join(cells)} |" for cells in (("table", *RISKS), ["---"] * (1 + len(RISKS)), *shown)]


def main() -> None:
    """Write the table."""
    block = "\n".join(lines(read())) + "\n"
    PAGE.write_text(BETWEEN.sub(lambda _: block, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
