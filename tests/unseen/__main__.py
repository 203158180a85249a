"""Generated tables unlike the demonstration, released as a newcomer would, and attacked from outside: one table.

    python -m tests.unseen [claims panel …] [--secrets 5] [--markdown]

*Edits*: entries that were filled in, and remedies that were followed until the table was released. *Dropped*: columns
that are not released, of those that name nobody. *Covariance*: the worst, in parts of its limit. *Membership*, by
nearest rows, *tracing*, by means and covariances, *counting*, by counts of single values: an AUC. *Linkage*,
*linkability*, *inference*: success on the originals less that on other records of the population. All with 95 %
intervals. Seconds are of the processor.
*Refused*: of `--secrets` others, how many refuse the job in the end.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.unseen import attacks
from tests.unseen.attacks import UNKNOWN, Figure
from tests.unseen.page import replace
from tests.unseen.release import Released, again, as_newcomer
from tests.unseen.tables import TABLES, CodeBook, drawn

LIMITS = {
    "membership": 0.60,
    "tracing": 0.60,
    "counting": 0.60,
    "linkage": 0.09,
    "linkability": 0.10,
    "inference": 0.10,
}
"""Above which a released table with "passed" in its verdict is a finding."""

FIRST_TRY = 1
"""Edits, at most, of what is released at the first try."""


@dataclass
class Row:
    """What became of a table."""

    name: str
    made: Released
    figures: dict[str, Figure] = field(default_factory=dict)
    refused: list[bool] = field(default_factory=list)  # By other secrets

    @property
    def book(self) -> CodeBook:
        return TABLES[self.name].book

    @property
    def roles(self) -> dict[str, str]:
        return {name: column["role"] for name, column in self.made.content["columns"].items()}

    @property
    def released(self) -> bool:
        return self.made.table is not None

    @property
    def dropped(self) -> list[str]:
        """Columns that are not released, of those that name nobody."""
        named = {*self.book.names, self.book.unit}
        return [name for name, role in self.roles.items() if role in ("dropped", "identifier") and name not in named]

    @property
    def survival_kept(self) -> bool | None:
        """Whether time and status are released as such; None for a table without."""
        if self.book.time is None or self.book.status is None:
            return None
        roles = self.roles[self.book.time], self.roles[self.book.status]
        return self.released and roles == ("survival_time", "survival_status")

    @property
    def unit_kept(self) -> bool | None:
        """Whether k counts units; None for a table of one row each."""
        return None if self.book.unit is None else self.released and self.roles[self.book.unit] == "unit"

    @property
    def findings(self) -> list[str]:
        """Figures above their limit although the verdict says passed."""
        above = [(name, each) for name, each in self.figures.items() if each.value > LIMITS[name]]
        return [f"{self.name}: {name} {each}" for name, each in above if self.made.last.word.startswith("passed")]


HEADINGS = (
    *("table", "method", "edits", "dropped", "unit", "survival", "verdict", "covariance"),
    *(*LIMITS, "seconds", "refused"),
)


def cells(row: Row) -> list[str]:
    """A line of the table."""
    said = {True: "kept", False: "lost", None: ""}
    last = row.made.last
    return [
        *(row.name, row.made.method, str(len(row.made.edits)), str(len(row.dropped))),
        *(said[row.unit_kept], said[row.survival_kept]),
        last.word if row.released else f"{last.word}: {', '.join(last.failed)}",
        "–" if np.isnan(last.covariance) else f"{last.covariance:.2f}",
        *(str(row.figures.get(name, UNKNOWN)) for name in LIMITS),
        f"{row.made.seconds:.0f}",
        f"{sum(row.refused)}/{len(row.refused)}" if row.refused else "",
    ]


def entry(row: Row) -> dict[str, str]:
    """The line of a file of figures."""
    said = {"run": "after", "table": row.name, "method": row.made.method, "edits": str(len(row.made.edits))}
    said["verdict"] = row.made.last.word
    for name, each in row.figures.items():
        said |= {f"{name}{end}": f"{value:.4f}" for end, value in zip(("", "_low", "_high"), each, strict=True)}
    return said


def look_at(name: str, secrets: int = 0, size: int | None = None, with_anonymeter: bool = True) -> Row:
    """Release a table and attack it."""
    tables, book = drawn(name, size=size), TABLES[name].book
    with tempfile.TemporaryDirectory(prefix=f"unseen-{name}-") as folder:
        row = Row(name, as_newcomer(name, tables.original, book, Path(folder)))
        if row.released:
            row.refused = [not again(row.made, Path(folder), secret) for secret in range(1, secrets + 1)]
    if row.made.table is not None:
        held = attacks.comparable(*tables, row.made.table, book.unit)
        row.figures = {
            "membership": attacks.membership(held),
            "tracing": attacks.tracing(held),
            "counting": attacks.counting(held),
            "linkage": attacks.linkage(held),
        }
        if with_anonymeter:
            row.figures["linkability"] = attacks.linkability(held)
            row.figures["inference"] = attacks.inference(held, book.secrets)
    return row


def criteria(rows: Sequence[Row]) -> list[str]:
    """What the table comes to."""
    findings = [finding for row in rows for finding in row.findings]
    first = sum(row.released and len(row.made.edits) <= FIRST_TRY for row in rows)
    limits = ", ".join(f"{name} {limit:.2f}" for name, limit in LIMITS.items())
    lines = [f"passed, and above {limits}: {len(findings)}", *(f"  {finding}" for finding in findings)]
    lines.append(f"released with at most {FIRST_TRY} edit: {first} of {len(rows)}")
    kept: dict[str, Callable[[Row], bool | None]] = {
        "survival kept": lambda row: row.survival_kept,
        "unit kept": lambda row: row.unit_kept,
    }
    for what, of in kept.items():
        told = [of(row) for row in rows if of(row) is not None]
        lines += [f"{what}: {sum(map(bool, told))} of {len(told)}"] if told else []
    return lines


def shown(lines: Sequence[Sequence[str]], markdown: bool) -> str:
    """The lines as a table."""
    if markdown:
        rule = ["---"] * len(lines[0])
        return "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], rule, *lines[1:]))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(TABLES)}; all if none is given")
    parser.add_argument("--secrets", type=int, default=0, help="repeat with so many other secrets")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--csv", type=Path, help="also write the figures into this file, in the place of earlier ones")
    parser.add_argument("--texts", type=Path, help="also write every proposal and printed text to this file")
    given = parser.parse_args()
    if unknown := set(given.names) - set(TABLES):
        parser.error(f"there is no table {', '.join(sorted(unknown))}")
    if not attacks.has_anonymeter():
        print("linkability and inference are left out: " + (attacks.__doc__ or "").strip().splitlines()[-1].strip())
    warnings.filterwarnings("ignore")
    rows = []
    for name in given.names or TABLES:
        rows.append(look_at(name, given.secrets, with_anonymeter=attacks.has_anonymeter()))
        print(shown([HEADINGS, cells(rows[-1])], given.markdown).splitlines()[-1], flush=True)
        if given.csv:
            replace([entry(rows[-1])], given.csv)
        if given.texts:
            with given.texts.open("a") as file:
                file.write("\n".join([f"== {name}", rows[-1].made.proposal, *_texts(rows[-1].made), ""]))
    print("\n" + shown([HEADINGS, *map(cells, rows)], given.markdown), *criteria(rows), sep="\n")


def _texts(made: Released) -> list[str]:
    lines = [f"edits: {', '.join(made.edits)}"]
    for attempt in made.attempts:
        lines += [f"-- after {attempt.edits} edits: {attempt.word}", *attempt.texts]
    return lines


if __name__ == "__main__":
    main()
