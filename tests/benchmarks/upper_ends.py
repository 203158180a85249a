"""How often the upper ends of reported 95 % intervals of risks hold, and what default limits make of them: many draws.

    python -m tests.benchmarks.upper_ends [plain laboratory …] [--draws 400] [--rows 2000 --hold-out 0.1] [--membership]

Each draw takes other persons, another release and other held-out persons. Releases: another sample of the population,
the persons with noise, and a tenth, a fifth or a third of them copied among others; of membership alone without noise
and thirds. Truths of the first are known: one in as
many links, an area of 0.5, nothing beyond the hold-out. Those of the others are means over all draws; of attribute
inference the largest mean of a column. *Held*: upper ends at or above the truth, 97.5 % if exact. *Above*: estimates
above the default limit. *Refused*: by the default limit as it allows for few records. `plain` is a table of its own.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from anonpipe.evaluate.measurement import Measurement
from anonpipe.evaluate.risk import (
    Coding,
    Matches,
    Nearest,
    Ordered,
    PredicateMatches,
    candidates,
    joined,
    nearest,
    outermost,
)
from anonpipe.evaluate.risk._inference import attribute_inference
from anonpipe.evaluate.risk._linkage import linkability, score_linkage
from anonpipe.evaluate.risk._membership import (
    counted_membership,
    membership,
    traced_membership,
    trained_membership,
)
from anonpipe.evaluate.risk._singling_out import singling_out
from anonpipe.pipeline.evaluation.measures import _judged
from anonpipe.types import FloatArray
from anonpipe.verify.catalogue import GATES
from tests.evaluate.risk.tasks import task
from tests.unseen.tables import TABLES

Rng = np.random.Generator
Draw = Callable[[Rng, int], FloatArray]

MOST_VALUES = 10  # A number with no more values is an attribute


def plain(rng: Rng, rows: int) -> FloatArray:
    """Three correlated numbers, a skewed one, and two attributes of which one has rare categories."""
    z = rng.normal(size=(rows, 6)) @ np.linalg.cholesky(0.6 * np.eye(6) + 0.4).T
    groups = np.digitize(z[:, 4], [-0.5, 0.7]), np.digitize(z[:, 5], [0.5, 1.2, 1.8, 2.3])
    return np.column_stack([z[:, :3], np.exp(1.2 * z[:, 3]), *groups]).astype(np.float64)


def population(name: str) -> tuple[Draw, list[int]]:
    """How rows of a table are drawn, as numbers and codes, and the places of its attributes."""
    if name == "plain":
        return plain, [4, 5]
    made, attributes = TABLES[name], []
    sample = made.draw(np.random.default_rng(0), 4_000).drop(columns=[*made.book.names])
    columns = [each for each in sample if sample[each].nunique() < len(sample) / 4 or sample[each].dtype.kind in "fi"]
    codes = {}
    for at, column in enumerate(columns):
        if sample[column].dtype.kind not in "fiM" or sample[column].nunique() <= MOST_VALUES:
            attributes.append(at)
            codes[column] = sorted(sample[column].dropna().unique(), key=str)

    def draw(rng: Rng, rows: int) -> FloatArray:
        frame, cells = made.draw(rng, rows).head(rows), np.empty((rows, len(columns)))
        for at, column in enumerate(columns):
            values = frame[column]
            if column in codes:
                values = pd.Series(pd.Categorical(values, codes[column]).codes).replace(-1, np.nan)
            elif values.dtype.kind == "M":
                values = values.astype("int64")
            cells[:, at] = values.to_numpy(np.float64, na_value=np.nan)
        return cells

    return draw, attributes


def noisy(rng: Rng, table: FloatArray, attributes: list[int]) -> FloatArray:
    """The persons with noise of 0.4 standard deviations; one category in five is another's."""
    released = table.copy()
    for at in range(table.shape[1]):
        if at in attributes:
            moved = rng.random(len(table)) < 0.2
            released[moved, at] = rng.permutation(table[moved, at])
        else:
            released[:, at] += 0.4 * np.nanstd(table[:, at]) * rng.normal(size=len(table))
    return released


def copied(rng: Rng, table: FloatArray, others: FloatArray, share: float) -> FloatArray:
    """Some persons as they are, others in the place of the rest."""
    return np.where(rng.random((len(table), 1)) < share, table, others)


def releases(rng: Rng, table: FloatArray, others: FloatArray, attributes: list[int]) -> dict[str, FloatArray]:
    """One of each kind."""
    shares = {f"{share:.0%} copied": copied(rng, table, others, share) for share in (0.1, 0.2, 0.33)}
    return {"another sample": others, "noise": noisy(rng, table, attributes)} | shares


def _near(coding: Coding, released: FloatArray, asked: FloatArray, columns: slice) -> Nearest:
    of_released, of_asked = (np.hstack(coding.each(table)[columns]) for table in (released, asked))
    return nearest(of_released, of_asked, 5)


def figures(
    rng: Rng,
    original: FloatArray,
    released: FloatArray,
    held: FloatArray,
    attributes: list[int],
    targets: int,
    alone: bool,
) -> Iterator[tuple[str, Measurement, dict[str, float]]]:
    """The gate that limits it, a figure, and what its truth is the largest mean of; those of membership `alone`."""
    asked = rng.choice(len(original), min(targets, len(original)), replace=False)
    members, of = original[asked], len(original)
    coding = Coding.of(released, np.concatenate([members, held]), attributes)
    whole = [_near(coding, released, table, slice(None)) for table in (members, held)]
    tables = released, members, held
    given = task(*tables, attributes)
    yield from _alone(
        ("membership_auc", membership(*(each.distances[:, 0] for each in whole), of=of)[0]),
        ("membership_auc", trained_membership(given, of=of)),
        ("membership_auc", traced_membership(given, of=of)),
        ("membership_auc", counted_membership(given, of=of)),
    )
    if alone:
        return
    linked = score_linkage(whole[0], asked, rows=of)[0]
    yield from _alone(("reidentification_rate", linked))
    halves = [[_near(coding, released, table, slice(at, None, 2)).rows for at in (0, 1)] for table in tables[1:]]
    yield from _alone(("linkability", linkability(*(joined(*each) for each in halves), of=of)))
    inference = attribute_inference(given, of=of)
    worst = {each.name: each.risk for each in inference.columns}
    yield "attribute_inference", inference.measurements()[0], worst
    for name, each in candidates(released, outermost(released), of, attributes, targets, rng).items():
        matches: list[Matches] = [each.matches(Ordered.of(table)) for table in (released, original, held)]
        met = PredicateMatches(*matches, of, len(held), targets)
        yield from _alone(("singling_out", singling_out(met).measurement(name, met)))


def _alone(*pairs: tuple[str, Measurement]) -> Iterator[tuple[str, Measurement, dict[str, float]]]:
    for gate, each in pairs:
        yield gate, each, {each.name: each.value}


def known(gate: str, rows: int) -> float:
    """The truth of another sample."""
    return {"reidentification_rate": 1.0 / rows, "membership_auc": 0.5}.get(gate, 0.0)


LINE = "{:<14} {:<15} {:<24} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}"


def show(table: str, draws: int, rows: int, hold_out: float, targets: int, alone: bool) -> None:
    """A line for each release and figure."""
    draw, attributes = population(table)
    held, found = round(rows * hold_out), defaultdict(list)
    parts: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for at in range(draws):
        rng = np.random.default_rng([at, held, rows])
        original, others, controls = (draw(rng, count) for count in (rows - held, rows - held, held))
        made = releases(rng, original, others, attributes)
        for kind in ("another sample", "10% copied", "20% copied") if alone else made:
            for gate, figure, of in figures(rng, original, made[kind], controls, attributes, targets, alone):
                key = kind, gate, figure.name
                ends = [np.nan if end is None else end for end in (figure.value, figure.low, figure.high)]
                found[key].append([*ends, _judged(gate, figure, True)[0]])
                for part, value in of.items():
                    parts[key][part].append(value)
    for key, each in found.items():
        kind, gate, name = key
        value, low, high, judged = np.array(each).T
        truth = known(gate, rows - held)
        if kind != "another sample":
            truth = max(np.nanmean(values) for values in parts[key].values())
        there, limit = ~np.isnan(high), GATES[gate].default
        shares = (high[there] >= truth).mean(), (value > limit).mean(), (judged > limit).mean()
        numbers = truth, np.nanmean(value), np.nanmean(high - low) / 2
        told = *(f"{one:.3f}" for one in numbers), *(f"{100 * share:.1f}" for share in shares)
        print(LINE.format(table, kind, name, *told), flush=True)


def main() -> None:
    """Draw, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=["plain"])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--hold-out", type=float, default=0.1)
    parser.add_argument("--targets", type=int, default=500)
    parser.add_argument("--membership", action="store_true", help="its figures alone, which are cheap")
    given = parser.parse_args()
    print(LINE.format("table", "release", "figure", "truth", "mean", "half", "held %", "above %", "refus. %"))
    for table in given.tables:
        show(table, given.draws, given.rows, given.hold_out, given.targets, given.membership)


if __name__ == "__main__":
    main()
