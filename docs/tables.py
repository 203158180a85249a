"""The table of docs/measures.md: checks and limits from the catalogue, measures as a small run gives them.

Written again by `python docs/tables.py`.
"""

from __future__ import annotations

import re
import tempfile
from fnmatch import fnmatchcase
from itertools import groupby, takewhile
from pathlib import Path

import numpy as np
import pandas as pd

from anonpipe import anonymize
from anonpipe.propose.demo import write_registry
from anonpipe.verify.catalogue import GATES, KINDS, MEASURED, UNMEASURED, CheckKind

PAGE = Path(__file__).with_name("measures.md")
BETWEEN = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.DOTALL)
WORK = re.compile(r"(.+? \(?(?:19|20)\d\d\)?)")  # Names and year
PLACE = re.compile(r", (?:sections?|eq\.|Table|Definition|of values) .*$")
BY_JOB = "job"  # A limit that follows from what a job declares
RATE = "reidentification_rate"
OPEN_GATES = ("mean", "covariance", "covariance_with_keys", "rows_under_k")

JOB = {
    "k": 5,
    "columns": {
        "patient_id": {"role": "identifier"},
        "age": {"kind": "integer", "bounds": [18, 100]},
        "sex": {"kind": "binary"},
        "stage": {"kind": "categorical", "role": "sensitive"},
        "site": {"kind": "categorical"},
        "diagnosis_date": {"kind": "date", "bounds": ["2000-01-01", "2019-12-31"]},
        "follow_up_months": {"kind": "continuous", "role": "survival_time", "bounds": [0.1, 252.0], "step": 0.1},
        "vital_status": {"kind": "binary", "role": "survival_status", "event": ["Dead"]},
        "weight": {"kind": "continuous", "role": "sampling_weight", "by": ["sex"]},
    },
    "strata": {"by": ["vital_status"]},
    "repeat": {"allow": "all persons are simulated"},
    "measure": {"hold_out": 0.3, "scenarios": [{"name": "S", "knows": ["age", "sex"]}], "sampling_fraction": 0.1},
    "gates": dict.fromkeys(OPEN_GATES, 5000)
    | dict.fromkeys(("reidentification_rate", "membership_auc", "weighted_estimates")),
}  # fmt: skip
FORMS = ({"cluster": {"method": "mdav"}}, {"mask": {"method": "noise"}})  # Groups, and records changed one by one


def measured() -> dict[str, dict[str, str]]:
    """Title, unit and source of each figure; `*` in place of a column's or scenario's name."""
    with tempfile.TemporaryDirectory() as folder:
        write_registry(Path(folder) / "registry.parquet", rows=3000)
        persons = pd.read_parquet(Path(folder) / "registry.parquet")
    persons = persons.assign(weight=np.where(persons["sex"] == "female", 8.0, 12.0))[list(JOB["columns"])]
    figures: dict[str, dict[str, str]] = {}
    for form in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            life = Path(folder) / "life.csv"
            life.write_text("age,qx\n60,0.01\n", encoding="utf-8")
            relative = {"relative_survival": {"life_table": str(life), "age": "age"}}
            report = anonymize(persons, JOB | form | {"measure": JOB["measure"] | relative}).report
        for part, measure in [*(("utility", m) for m in report.utility), *(("risk", m) for m in report.risk)]:
            general = re.sub(r"^(sensitive|scenarios)\.\w+\.", r"\1.*.", measure.name)
            about = {key: str(getattr(measure, key)) for key in ("title", "unit", "source")}
            about["source"] = about["source"].split(";")[0]
            about["title"] = re.sub(r"(, | in )?[Ss]cenario 'S'|Sensitive 'stage': ", "", about["title"])
            first = figures.setdefault(general, about | {"part": part})
            if general == RATE and about["title"] not in first["title"]:  # another figure where records have one source
                first["title"] += f". Of masks: {about['title']}"
    families = list(dict.fromkeys((about["part"], name.split(".")[0]) for name, about in figures.items()))
    order = {family: at for at, family in enumerate(families)}
    return dict(sorted(figures.items(), key=lambda item: order[item[1]["part"], item[0].split(".")[0]]))


def rows() -> list[tuple[str, ...]]:
    """Name, definition, unit, default limit, source."""
    table = []
    for kind in KINDS.values():
        if kind.key in UNMEASURED or (kind.gate is not None and kind.gate.name in MEASURED):
            continue
        name = f"`gates.{kind.gate.name}`" if kind.gate else f"`{kind.key}`"
        family = f"`{kind.key.split('.')[0]}."
        if kind.key.endswith((".stratum", ".group")) and table[-1][0].startswith(family):
            table[-1] = (table[-1][0][:-1] + f", .{kind.scope}`", *table[-1][1:])
            continue
        limit = _number(kind.gate.default) if kind.gate else BY_JOB
        if name not in [row[0] for row in table]:
            table.append((name, _title(kind), kind.unit, limit, ""))
    alike = []
    for name, about in measured().items():
        limits = [
            f"`{gate.name}`: {_number(gate.default)}"
            for gate in MEASURED.values()
            if about["part"] in gate.needs
            and any(fnmatchcase(name, pattern) for pattern in (*gate.figures, *gate.other_attackers))
        ]
        family, _, own = name.rpartition(".")
        alike.append(((family, about["unit"], ", ".join(limits), about["source"]), own, about["title"]))
    for (family, *cells), members in groupby(alike, lambda row: row[0]):
        table += [
            (f"`{family}{'.' * bool(family)}{own}`", title, *cells)
            for own, title in _joined([(own, title) for _, own, title in members])
        ]
    return table


def _joined(members: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names and titles; neighbours of almost the same title are one: `(closest, mean)`, by the closest / mean."""
    joined: list[tuple[list[str], list[list[str]]]] = []
    for own, title in members:
        words = re.findall(r"\w+|\W+", title)
        if joined and _frame([*joined[-1][1], words]) is not None:
            joined[-1][0].append(own)
            joined[-1][1].append(words)
        else:
            joined.append(([own], [words]))
    return [
        (names[0] if len(names) == 1 else f"({', '.join(names)})", _frame(titles) or "".join(titles[0]))
        for names, titles in joined
    ]


def _common(titles: list[list[str]]) -> int:
    """How many words and marks all begin with."""
    return len(list(takewhile(lambda words: len(set(words)) == 1, zip(*titles, strict=False))))


def _frame(titles: list[list[str]]) -> str | None:
    """One title for several that share at least nine words and marks in a row at an end; None for others."""
    first = _common(titles)
    last = _common([title[first:][::-1] for title in titles])
    if max(first, last) < 9:
        return None
    end = len(titles[0]) - last
    inner = list(dict.fromkeys("".join(title[first : len(title) - last]) for title in titles))
    if not all(re.match(r"\w", part) for part in inner):
        return None
    return "".join(titles[0][:first]) + " / ".join(inner) + "".join(titles[0][end:])


def as_table(table: list[tuple[str, ...]]) -> str:
    """Markdown; the source of the row above is not repeated, and one of an earlier row keeps its names and place."""
    lines = ["| name | definition | unit | default limit | source |", "|---|---|---|---|---|"]
    before, cited = "", set()
    for *cells, source in table:
        work = WORK.match(source)
        shown = "″" if source and source == before else source
        if shown == source and work and work[1] in cited:
            shown = work[1] + "".join(PLACE.findall(source)[-1:])
        cited.add(work[1] if work else "")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in (*cells, shown)) + " |")
        before = source
    return "\n".join(lines) + "\n"


def _title(kind: CheckKind) -> str:
    """The title of a check, with general words in its fields."""
    title = kind.title if isinstance(kind.title, str) else kind.title({"closeness": "equal or ordered"})
    words = {"k": "k", "inside": "group", "column": "a column", "diversity": "distinct or entropy"}
    title = re.sub(r"k = \{k\}", "k", title).replace(" ({names})", "")
    return re.sub(r"\{(\w+)[^}]*\}", lambda field: words.get(field[1], ""), title).replace(" :", ":").strip()


def _number(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:g}"


def limits() -> dict[str, str]:
    """Every gate with its default limit, as the table shows it."""
    return {name: _number(gate.default) for name, gate in GATES.items()}


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BETWEEN.sub(lambda _: as_table(rows()), text), encoding="utf-8")
