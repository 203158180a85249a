"""What an office's tables keep: rules, coefficients, weighted totals; and what tells released rows and units.

    python -m tests.benchmarks.rules [table ...] [--rows 3000] [--without] [--units POPULATIONS]

*register*: dates in order. *followed*: to a closing date; *monthly*: so, with dates of months. *claims*: no cost
without a visit, and the cost of a visit. *schools*: 36 columns of which six follow from others. *panel*: persons in up
to four years. *households*: members, with weights by region. *wide*: 60 columns. Each population is drawn once, so that
all samples have its parameters: the original, the control, and another sample that is judged like the release (last
line of each table).

*Broken*: rows that break a rule. *Told*: area under the curve of gradient boosting that tells rows from the control,
with differences, sums and ratios of the pairs that are most related; 0.5 is chance. *Outside*: coefficients beyond the
original's 95 % interval; *totals*: weighted totals by category beyond it. *Member*: area under the curve of the
distance to the nearest released row. *Units*: told and member, of numbers, means, first and last values of units.
*Linked*: records whose nearest released one is their own, by the run.

Of 1,000 units the standard error of an area is 0.013. So `--units` judges units alone, of as many populations as it
says, each with a secret of its own: attacks by the nearest unit and by the number of near ones, rows side by side or
summed up, and how units are told apart. Eight populations make it 0.004.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from anonpipe import anonymize
from tests.benchmarks.frontier.comparable import by_unit, kind_of, numbers_of, plain, points
from tests.benchmarks.frontier.measures import membership
from tests.benchmarks.populations import POPULATIONS, broken

LIMITS = {name: None for name in ("membership_auc", "attribute_inference", "singling_out", "linkability")}
LIMITS |= {"covariance": 1.0, "mean": 0.1, "column_shapes": None, "tail_linkage": None}
MOST_ROWS = 2_000  # Of either table for the classifier
MOST_PAIRS = 200  # Of columns, whose differences, sums and ratios it has


def with_pairs(frame, pairs):
    """All columns, and of the pairs the difference, the sum and the ratio, shape (n_rows, n_features)."""
    table = numbers_of(frame)
    found = [table.to_numpy()]
    for one, other in pairs:
        left, right = table[one].to_numpy(), table[other].to_numpy()
        ratio = np.divide(left, right, out=np.full(len(left), np.nan), where=right != 0)
        found.append(np.column_stack([left - right, left + right, ratio]))
    return np.concatenate(found, axis=1)


def told_apart(released, control, seed=0):
    """Area under the curve of a classifier on rows that it has not seen."""
    related = numbers_of(control).rank().corr().abs().fillna(0.0)
    pairs = sorted(combinations(related, 2), key=lambda pair: -related.loc[pair])[:MOST_PAIRS]
    sides = [side.sample(min(len(side), MOST_ROWS), random_state=seed) for side in (released, control)]
    x = with_pairs(pd.concat(sides, ignore_index=True), pairs)
    y, rng = np.repeat([1, 0], list(map(len, sides))), np.random.default_rng(seed)
    train, test = np.array_split(rng.permutation(len(y)), 2)
    with threadpool_limits(1):
        model = HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(x[train], y[train])
        return float(roc_auc_score(y[test], model.predict_proba(x[test])[:, 1]))


def member(original, control, released):
    """Area under the curve of the distance to the nearest released row."""
    kinds = {name: kind_of(column) for name, column in original.items()}
    return membership(*(plain(side, kinds) for side in (original, control, released)), kinds)[0]


def side_by_side(frame, key):
    """Of each unit the number of rows, and its columns row by row."""
    key = key.to_numpy()
    numbers = numbers_of(frame).assign(unit=key, row=pd.Series(key).groupby(key).cumcount())
    found = numbers.set_index(["unit", "row"]).unstack()
    found.columns = [f"{name} {row}" for name, row in found.columns]
    return found.assign(rows=pd.Series(key).value_counts()).reset_index(drop=True)


def counted(original, control, released):
    """Area under the curve of the number of released units nearer than the fifth nearest one mostly is."""
    kinds = dict.fromkeys(original, "numerical")
    known, *sides = points(
        [plain(side.reindex(columns=original.columns), kinds) for side in (released, original, control)], kinds
    )
    search = NearestNeighbors(n_neighbors=20).fit(known)
    near = [search.kneighbors(side)[0] for side in sides]
    counts = [(each < np.median(near[0][:, 4])).sum(axis=1) for each in near]
    return float(roc_auc_score(np.repeat([1, 0], [len(each) for each in near]), np.concatenate(counts)))


def units_judged(name, rows, populations):
    """Mean and standard error over populations of attacks on units, and of how they are told apart."""
    found = []
    for at in range(populations):
        os.environ["ANONPIPE_SECRET"] = hashlib.sha256(bytes([at])).hexdigest()
        population = POPULATIONS[name](3 * rows, np.random.default_rng(100 + at))
        original, control, other = samples(population, rows)
        made = released_of(population, original, population.rules)[0]
        if made is None:
            continue
        line, tables = [], (original, pd.concat([control, other]), made)  # whose units have numbers of their own
        for form in (side_by_side, by_unit):
            forms = [form(side.drop(columns=population.unit), side[population.unit]) for side in tables]
            forms[1:] = [side.reindex(columns=forms[0].columns) for side in forms[1:]]
            line += [member(*forms), counted(*forms)]
        sides = (by_unit(side.drop(columns=population.unit), side[population.unit]) for side in (made, control))
        found.append([*line, told_apart(*sides)])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    parts = [f"{mean:.3f} ± {each:.3f}" for mean, each in zip(np.mean(found, axis=0), error, strict=True)]
    words = ("side by side, nearest", "counted", "summed up, nearest", "counted", "told")
    told = "; ".join(f"{word} {part}" for word, part in zip(words, parts, strict=True))
    print(f"{name}, {len(found)} of {populations} populations: {told}", flush=True)


def outside(population, original, released):
    """Share of coefficients, and of weighted totals by category, beyond the original's 95 % interval."""
    off = []
    for formula in population.models:
        fit = smf.logit if formula.startswith("I(") else smf.ols
        before, after = (
            fit(formula, side, missing="drop").fit(**({"disp": 0} if fit is smf.logit else {}))
            for side in (original, released)
        )
        after = after.params.reindex(before.params.index)
        off.append(((after - before.params).abs() / before.bse > 1.96)[1:])
    by, of = population.totals
    sums = []
    for side in (original, released):
        weighted = side[of].fillna(0.0) * (1.0 if population.weight is None else side[population.weight])
        parts = pd.get_dummies(side[by]).astype(float).mul(weighted, axis=0)
        sums.append((parts.sum() / len(side), parts.std() / np.sqrt(len(side))))
    totals = (sums[1][0].reindex(sums[0][0].index).fillna(0.0) - sums[0][0]).abs() > 1.96 * sums[0][1]
    return float(np.concatenate(off).mean()), float(totals.mean())


def judged(population, original, released, control):
    """The figures of one line."""
    unit = population.unit
    bare = [side if unit is None else side.drop(columns=unit) for side in (original, control, released)]
    found = [
        broken(released, population.checks),
        told_apart(bare[2], bare[1]),
        *outside(population, original, released),
        member(*bare),
    ]
    if unit is None:
        return [*found, np.nan, np.nan]
    units = [by_unit(one, side[unit]) for one, side in zip(bare, (original, control, released), strict=True)]
    return [*found, told_apart(units[2], units[1]), member(*units)]


def samples(population, rows):
    """Three samples of a population: rows, or whole units, in their order."""
    key = np.arange(len(population.frame)) if population.unit is None else population.frame[population.unit]
    third = np.unique(key)[-1] // 3 + 1
    return [part.reset_index(drop=True) for _, part in population.frame.groupby(key // third)]


def released_of(population, original, rules):
    """The released table, the share of linked records and processor seconds; a text where it is refused."""
    job = {"k": 5, "columns": population.columns, "gates": LIMITS, "mask": {"method": "local_synthesis"}}
    job |= {"measure": {"utility": False, "hold_out": 0}} | population.more | ({"rules": list(rules)} if rules else {})
    begin = time.process_time()
    made = anonymize(original, job)
    if made.table is None:
        return None, ", ".join(f"{each.key} {each.measured}" for each in made.verdict.failed), 0.0
    linked = {each.name: each.value for each in made.report.risk}.get("reidentification_rate", np.nan)
    return made.table, linked, time.process_time() - begin


def main() -> None:
    """Print two or three lines a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(POPULATIONS)}; all without")
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--without", action="store_true", help="a line without rules, too")
    parser.add_argument("--units", type=int, default=0, metavar="POPULATIONS", help="units alone, of so many")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.environ.setdefault("ANONPIPE_SECRET", "5e1b07c93ad264f8" * 4)
    os.environ["ANONPIPE_HOME"] = tempfile.mkdtemp()
    if given.units:
        for name in given.tables or ("panel", "households"):
            units_judged(name, given.rows, given.units)
        return
    print(f"{'':28} broken   told outside totals member | units: told member | linked seconds")
    for name in given.tables or POPULATIONS:
        population = POPULATIONS[name](3 * given.rows, np.random.default_rng(1))
        original, control, other = samples(population, given.rows)
        lines = [("", population.rules)] + [("without rules", ())] * given.without
        for how, rules in lines:
            made, linked, seconds = released_of(population, original, rules)
            if made is None:
                print(f"{name + ' ' + how:28} refused: {linked}", flush=True)
                continue
            _print(f"{name} {how}", judged(population, original, made, control), linked, seconds)
        _print(f"{name}, another sample", judged(population, original, other, control), np.nan, np.nan)


def _print(name, found, linked, seconds):
    told = " ".join(f"{each:{width}.3f}" for each, width in zip(found, (6, 6, 7, 6, 6, 14, 6), strict=True))
    print(f"{name:28} {told}   {linked:6.4f} {seconds:7.1f}", flush=True)


if __name__ == "__main__":
    main()
