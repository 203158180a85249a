"""The attacks on a register that is released again and again: differences of two nights, and the mean of many.

`joined`: some persons join, and who holds the releases of both nights subtracts the counts of every category, the
pairs with the status, and the sums of ages, were the second one not refused (`refused`). `trained`: a classifier that
has seen the counts of many registers grow names the category of a joiner. `watched`: who knows everybody else averages
many nights before and after. `numbers`: values of joiners are read from the steps that they make in a distribution.
`groups`: records of a group that come out as its mean, `n + 1` times that of a night less `n` times that of the night
before, are who joined it.
`values`: `joined` and `numbers` of columns that are masked as they are.
`averaged`: a few persons leave and join every night, and who knows all columns of a
person but one guesses that from the nearest released rows of all nights together.

`python -m tests.attacks.nights`
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anonpipe.encoding.shares import Rounding
from anonpipe.errors import InputError
from anonpipe.job.model import Job, parse_job
from anonpipe.job.plain_yaml import load_yaml
from anonpipe.pipeline.cut import Cut, RowPartition, withhold
from anonpipe.pipeline.run import _written, assess_only, execute, to_the_end
from anonpipe.propose.demo import demo_job, write_registry
from anonpipe.rng import keyed
from tests import small

ROWS, K, TRIALS = 1_500, 5, 20
NIGHTS, CHANGED, TARGETS, NEAREST = 20, 5, 500, 5
MASKED = ("sex", "stage", "site", "treatment", "region")
STATUS, STAGES = "vital_status", ("Regional", "Distant")
NUMBERS = ("age", "tumour_size_mm", "follow_up_months")
METHODS: dict[str, dict[str, Any]] = {
    "mdav and micro_perturbation": {},
    "local_synthesis": {"mask": {"method": "local_synthesis"}},
}
REPEATS: dict[str, dict[str, Any]] = {"before": {}, "after": {"repeat": {"growing": True}}}


class Learnt(NamedTuple):
    """What two nights tell of the joiners.

    Attributes
    ----------
    columns, status
        Share of the masked columns, and of the status, of which the joiners' counts of all categories are told rightly.
    pairs
        Share of the joiners' counts of pairs of a category and the status.
    ages
        Mean error of the joiners' mean age, in years.
    named
        Where all joiners have one stage out of two, how often it is the one that rose by more.
    """

    columns: float
    status: float
    pairs: float
    ages: float
    named: float

    def __str__(self) -> str:
        return (
            f"told rightly: columns {self.columns:6.1%}, status {self.status:6.1%}, pairs with it {self.pairs:6.1%}; "
            f"mean age wrong by {self.ages:5.2f} years; the stage of two that all have {self.named:6.1%}"
        )


def persons(folder: Path, rows: int) -> pa.Table:
    """Invented persons of a registry."""
    path = folder / "persons.parquet"
    write_registry(path, rows)
    return pq.read_table(path)


def job_of(folder: Path, table: pa.Table, **changes: Any) -> Job:
    """The demonstration's job for a night's table."""
    data = folder / "night.parquet"
    pq.write_table(table, data)
    content = load_yaml(demo_job(str(data), str(folder / "out"), K))
    usual = {"measure": {"utility": False, "risk": False}, "partition": {"rows": 5_000}, "gates": {}}
    return parse_job(small.changed(content | usual, **changes))


def released(folder: Path, table: pa.Table, **changes: Any) -> pd.DataFrame:
    """What is released of a night, whatever the verdict."""
    return to_the_end(job_of(folder, table, **changes), False, lambda _: None, "ignore", _written).to_pandas()


def counts(frame: pd.DataFrame, columns: tuple[str, ...]) -> pd.Series:
    """Records of each combination of categories."""
    return frame.groupby([frame[name].astype(str) for name in columns]).size()


def _of_those(then: pd.DataFrame, now: pd.DataFrame, joiners: pd.DataFrame, columns: tuple[str, ...]) -> list[bool]:
    """Of each category that a joiner has, or that changed: whether its difference is the joiners' count."""
    true = counts(joiners, columns)
    told = counts(now, columns).sub(counts(then, columns), fill_value=0)
    places = true.index.union(told[told != 0].index)
    return (told.reindex(places, fill_value=0) == true.reindex(places, fill_value=0)).tolist()


def joined(
    folder: Path, joiners: int, alike: bool = False, trials: int = TRIALS, rows: int = ROWS, **changes: Any
) -> Learnt:
    """Release a night and, in each trial, the next one with other joiners; with `alike` all of one stage, and alive."""
    every = persons(folder, 2 * rows)
    base, rng = every.slice(0, rows), np.random.default_rng(3)
    then, coming = released(folder, base, **changes), every.slice(rows).to_pandas()
    found: list[Learnt] = []
    for trial in range(trials):
        stage = STAGES[trial % 2]
        those = coming.index[(coming["stage"] == stage) & (coming[STATUS] == "Alive")] if alike else coming.index
        new = every.take(rows + rng.choice(those, joiners, replace=False))
        now, true = released(folder, pa.concat_tables([base, new]), **changes), new.to_pandas()
        rose = counts(now, ("stage",)).sub(counts(then, ("stage",)), fill_value=0)[list(STAGES)]
        ages = now["age"].mean() * (rows + joiners) - then["age"].mean() * rows  # whatever the rows that are released
        found.append(
            Learnt(
                float(np.mean([all(_of_those(then, now, true, (name,))) for name in MASKED])),
                float(all(_of_those(then, now, true, (STATUS,)))),
                float(np.mean(np.concatenate([_of_those(then, now, true, (STATUS, name)) for name in MASKED]))),
                float(abs(ages / joiners - true["age"].mean())),
                float(rose[stage] == rose.max()) / float((rose == rose.max()).sum()),
            )
        )
    return Learnt(*np.mean(found, axis=0).tolist())


def on_values(folder: Path) -> dict[str, Any]:
    """The demonstration's columns, numbers masked as they are."""
    columns = load_yaml(demo_job("-", str(folder), K))["columns"]
    return columns | {name: columns[name] | {"transform": "none"} for name in NUMBERS}


SHARES = (0.45, 0.28, 0.17, 0.10)


class Trained(NamedTuple):
    """How often a joiner's category is named by a classifier that has seen many registers grow, and of the surest.

    Attributes
    ----------
    outside
        By who names the commonest.
    """

    outside: float
    every: float
    surest: float

    def __str__(self) -> str:
        return (
            f"named by the commonest {self.outside:.1%}, trained {self.every:.1%}, surest twentieth {self.surest:.1%}"
        )


def trained(joiners: int, base: int | None, registers: int = 12_000, rows: int = 750) -> Trained:
    """Train on what counts of one column in one stratum are released before and after; None for exact ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    before = rng.multinomial(rows, SHARES, size=registers)
    new = rng.multinomial(joiners, SHARES, size=registers)
    told = np.array([_told(one, base, at, rng) for at, one in enumerate(before + new)])
    told -= np.array([_told(one, base, at, rng) for at, one in enumerate(before)])
    own = (rng.random(registers)[:, None] * joiners > np.cumsum(new, axis=1)).sum(axis=1)
    half = registers // 2
    model = HistGradientBoostingClassifier(max_iter=80, max_leaf_nodes=15).fit(told[:half], own[:half])
    chances = model.predict_proba(told[half:])
    right, sure = chances.argmax(axis=1) == own[half:], np.argsort(-chances.max(axis=1))[: half // 20]
    return Trained(float((own[half:] == 0).mean()), float(right.mean()), float(right[sure].mean()))


def watched(nights: int, base: int | None, registers: int = 400, rows: int = 750) -> float:
    """How often the category that k joiners share is named by who knows everybody else, and averages so many nights.

    Nights before and after the one in which they join; others, whom the intruder subtracts, join in each.
    """
    rng, right = np.random.default_rng(1), []
    for register in range(registers):
        known = rng.multinomial(rows, SHARES) + np.cumsum(rng.multinomial(CHANGED, SHARES, size=2 * nights), axis=0)
        shared = int(rng.choice(len(SHARES), p=SHARES))
        here = known.copy()
        here[nights:, shared] += K
        left = np.array([_told(one, base, register, rng) for one in here]) - known
        right.append((left[nights:].mean(axis=0) - left[:nights].mean(axis=0)).argmax() == shared)
    return float(np.mean(right))


def _told(counts: Any, base: int | None, register: int, rng: np.random.Generator) -> Any:
    """Counts of a stratum as they are released: rounded, and less the records that are withheld."""
    if base is None:
        return counts
    rounding = Rounding(base, keyed(b"an attack", str(register)))
    made, rows = rounding.counts(counts, "stage", [str(at) for at in range(len(counts))]), int(counts.sum())
    [part] = withhold(Cut((RowPartition(0, (0,), rows),), (), 1), rounding, rng).partitions
    return made - rng.multivariate_hypergeometric(made, part.withheld)


def refused(folder: Path, joiners: int, alive: bool = False, rows: int = ROWS, **changes: Any) -> bool:
    """Whether a register is refused that was released with so many persons fewer."""
    every = persons(folder, 2 * rows)
    coming = every.slice(rows)
    if alive:
        coming = coming.filter(pc.equal(coming[STATUS].cast(pa.string()), "Alive"))
    base, job = every.slice(0, rows), {"output": str(folder / f"out-{joiners}-{alive}"), "repeat": {}} | changes
    with patch.dict(os.environ, {"ANONPIPE_HOME": str(folder / f"home-{joiners}-{alive}")}):
        assert execute(job_of(folder, base, **job), cluster=False).version is not None
        try:
            execute(job_of(folder, pa.concat_tables([base, coming.slice(0, joiners)]), **job), cluster=False)
        except InputError:
            return True
    return False


def sorted_out(
    folder: Path, joiners: int = 20, trials: int = 5, rows: int = ROWS, **changes: Any
) -> tuple[float, float]:
    """How far the joiners' sorted tumour sizes, read from the steps in the difference of counts, are wrong, in mm.

    And how far the register's own quantiles are from them, which who holds one release has.
    """
    every, rng, wrong = persons(folder, 2 * rows).to_pandas(), np.random.default_rng(4), []
    base, coming = every.iloc[:rows], every.iloc[rows:].query(f"{STATUS} == 'Alive'").dropna(subset=["tumour_size_mm"])
    then = _sizes(released(folder, pa.Table.from_pandas(base, preserve_index=False), **changes))
    own = _sizes(base)
    for _ in range(trials):
        new = coming.loc[rng.choice(coming.index, joiners, replace=False)]
        made = released(folder, pa.Table.from_pandas(pd.concat([base, new]), preserve_index=False), **changes)
        now, true = _sizes(made), np.sort(new["tumour_size_mm"].to_numpy(float))
        places = np.unique(np.r_[then, now])
        scale = [(len(own) + extra) / len(sizes) for extra, sizes in ((joiners, now), (0, then))]
        more, less = (np.searchsorted(sizes, places, side="right") for sizes in (now, then))
        steps = np.maximum.accumulate(scale[0] * more - scale[1] * less)
        read = places[np.minimum(np.searchsorted(steps, np.arange(joiners) + 0.5), len(places) - 1)]
        known = np.quantile(then, (np.arange(joiners) + 0.5) / joiners)
        wrong.append((np.abs(read - true).mean(), np.abs(known - true).mean()))
    return np.mean(wrong, axis=0)


def _sizes(made: pd.DataFrame) -> Any:
    return np.sort(made.loc[made[STATUS] == "Alive", "tumour_size_mm"].dropna().to_numpy(float))


VALUES = ("a", "b", "c")


def subtracted(
    folder: Path, transform: str, joiners: int = 10, trials: int = 5, rows: int = ROWS, **changes: Any
) -> tuple[float, float]:
    """Share of joiners all of whose numbers are a difference of two groups' sums, to 0.05; the same of others.

    The others are five times as many who never were in it. Groups of about Ward's sizes, released as centroids.
    """
    base, hit, missed = _numbered(rows, 0), [], []
    how = {"cluster": {"method": "k_ward"}, "synthesize": {"method": "centroid"}, **changes}
    then = _centroids(folder / "then", base, transform, **how)
    for trial in range(trials):
        new, others = _numbered(joiners, 1 + trial), _numbered(5 * joiners, 1_001 + trial)
        now = _centroids(folder / f"now-{trial}", pd.concat([base, new], ignore_index=True), transform, **how)
        hit.append(_found_by_difference(then, now, new).mean())
        missed.append(_found_by_difference(then, now, others).mean())
    return float(np.mean(hit)), float(np.mean(missed))


def _numbered(rows: int, seed: int) -> pd.DataFrame:
    """Three numbers that go together, of ill and well persons."""
    rng = np.random.default_rng(seed)
    values = 0.5 * rng.normal(size=(rows, 1)) + rng.normal(size=(rows, len(VALUES)))
    who = {"person": seed * 10**6 + np.arange(rows), "status": rng.choice(["ill", "well"], rows)}
    return pd.DataFrame(who | dict(zip(VALUES, values.T, strict=True)))


def _centroids(folder: Path, frame: pd.DataFrame, transform: str, **how: Any) -> pd.DataFrame:
    """The distinct rows of a release."""
    columns = {"person": {"role": "identifier"}, "status": {"kind": "binary", "role": "key"}}
    columns |= {name: {"kind": "continuous", "transform": transform} for name in VALUES}
    usual = {"k": K, "strata": {"by": ["status"]}, "measure": small.OFF, "partition": {"rows": 5_000}}
    job = small.job(folder, pa.Table.from_pandas(frame, preserve_index=False), columns, **usual | how)
    made = to_the_end(job, False, lambda _: None, "ignore", _written).to_pandas()
    return made.round(dict.fromkeys(VALUES, 9)).drop_duplicates()


def _found_by_difference(then: pd.DataFrame, now: pd.DataFrame, persons: pd.DataFrame) -> Any:
    """Of each person whether some group that is new, less one near it that is gone, leaves him."""
    names, found = list(VALUES), np.zeros(len(persons), dtype=bool)
    both = then.merge(now, how="outer", indicator=True)
    for status, those in persons.groupby("status"):
        here = both[both["status"] == status]
        gone, new = (here.loc[here["_merge"] == side, names].to_numpy() for side in ("left_only", "right_only"))
        old, grown = np.nonzero(np.abs(gone[:, None] - new).max(axis=2) < 1.5)
        for size in range(K, 2 * K):
            left = (size + 1) * new[grown] - size * gone[old]
            near = np.abs(those[names].to_numpy()[:, None] - left).max(axis=2).min(axis=1, initial=np.inf)
            found[persons.index.get_indexer(those.index)] |= near < 0.05
    return found


class Guessed(NamedTuple):
    """How often a category is guessed after so many nights: of members, of outsiders, and of the surest of both."""

    nights: int
    members: float
    outsiders: float
    surest_members: float
    surest_outsiders: float
    ages: float
    ages_outside: float

    def __str__(self) -> str:
        return (
            f"{self.nights:2d} nights: category guessed of members {self.members:6.1%}, others {self.outsiders:6.1%}; "
            f"surest tenth {self.surest_members:6.1%}, {self.surest_outsiders:6.1%}; age wrong by {self.ages:5.2f}, "
            f"{self.ages_outside:5.2f} years"
        )


def averaged(
    folder: Path, nights: int = NIGHTS, changed: int = CHANGED, rows: int = ROWS, targets: int = TARGETS, **changes: Any
) -> Iterator[Guessed]:
    """After 1, 2, 5, 10 and 20 nights, in each of which as many persons leave as join."""
    every = persons(folder, rows + 2 * targets + nights * changed)
    known = every.to_pandas()
    members, outsiders = known.iloc[:targets], known.iloc[-targets:]
    asked = pd.concat([members, outsiders], ignore_index=True)
    scale = known[list(NUMBERS)].std()
    names = (*MASKED, STATUS)
    votes = {name: np.zeros((len(asked), known[name].nunique())) for name in MASKED}
    codes = {name: {value: at for at, value in enumerate(sorted(known[name].astype(str).unique()))} for name in names}
    ages = np.zeros(len(asked))
    for night in range(nights):
        # the oldest entries after the targets leave, new ones come
        here = np.r_[0:targets, targets + night * changed : rows + night * changed]
        made = released(folder, every.take(here), **changes)
        parts = {
            name: (asked[name].astype(str).to_numpy()[:, None] != made[name].astype(str).to_numpy()).astype(float)
            for name in names
        }
        for name in NUMBERS:
            one, other = (
                frame[name].fillna(known[name].mean()).to_numpy(float) / scale[name] for frame in (asked, made)
            )
            parts[name] = np.square(one[:, None] - other)
        whole = sum(parts.values())
        for name in MASKED:
            near = np.argpartition(whole - parts[name], NEAREST, axis=1)[:, :NEAREST]
            code = made[name].astype(str).map(codes[name]).to_numpy()
            for column in range(NEAREST):
                votes[name][np.arange(len(asked)), code[near[:, column]]] += 1.0
        near = np.argpartition(whole - parts["age"], NEAREST, axis=1)[:, :NEAREST]
        ages += made["age"].to_numpy(float)[near].mean(axis=1)
        if night + 1 in (1, 2, 5, 10, 20):
            yield _guessed(asked, votes, codes, ages / (night + 1), night + 1, targets)


def _guessed(
    asked: pd.DataFrame, votes: dict[str, Any], codes: dict[str, Any], ages: Any, nights: int, targets: int
) -> Guessed:
    figures = []
    for part in (slice(0, targets), slice(targets, None)):
        right, sure = [], []
        for name in MASKED:
            true = asked[name].astype(str).map(codes[name]).to_numpy()[part]
            given = votes[name][part]
            hit = given.argmax(axis=1) == true
            order = np.argsort(-given.max(axis=1), kind="stable")[: len(hit) // 10]
            right.append(hit.mean())
            sure.append(hit[order].mean())
        off = np.abs(ages[part] - asked["age"].to_numpy(float)[part]).mean()
        figures.append((float(np.mean(right)), float(np.mean(sure)), float(off)))
    (a, b, c), (d, e, f) = figures
    return Guessed(nights, a, d, b, e, c, f)


USE = {"column_shapes": "columns", "pair_shapes": "pairs", "survival_curves": "survival curves"}


def useful(folder: Path, rows: int = 4_000, **changes: Any) -> str:
    """How far the furthest column, pair and survival curve are from the original, as a multiple of chance."""
    job = job_of(folder, persons(folder, rows), **changes, measure={"utility": True, "risk": False})
    found = {one.name: one.value for one in assess_only(job)[1].utility}
    return ", ".join(f"{what} {found[name]:.2f}" for name, what in USE.items())


def main(which: str = "") -> None:
    """Print a line a setting; `which` of the attacks."""
    for found in _of_counts(which):
        print(found, flush=True)
    for found in _of_groups() if which in ("", "groups") else ():
        print(found, flush=True)
    for name, changes in METHODS.items() if which in ("", "values") else ():
        for found in _of_values(**changes):
            print(f"growing, transform: none, {name}, {found}", flush=True)
    for repeats, repeat in REPEATS.items():
        for name, changes in METHODS.items():
            for found in _found({**changes, **repeat}, which):
                print(f"{repeats}, {name}, {found}", flush=True)


def _of_counts(which: str) -> Iterator[str]:
    for joiners, base in product((1, 3, 5, 8, 12), (None, 5, 20)) if which in ("", "trained") else ():
        yield f"{joiners} join, counts rounded to {base}: {trained(joiners, base)}"
    for nights, base in product((1, 5, 20, 100), (None, 5, 20)) if which in ("", "watched") else ():
        yield f"{K} alike, {nights} nights, rounded to {base}: {watched(nights, base):.1%}"


def _of_groups() -> Iterator[str]:
    for transform, changes in (("none", {}), ("normal_scores", {}), ("normal_scores", REPEATS["after"])):
        with tempfile.TemporaryDirectory() as folder:
            told, others = subtracted(Path(folder), transform, **changes)
        yield f"groups, {transform}, {changes}: of joiners {told:.1%}, of others {others:.1%}"


def _of_values(**changes: Any) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = {**changes, **REPEATS["after"], "columns": on_values(folder)}
        for joiners in (1, 5):
            yield f"{joiners} join: {joined(folder, joiners, trials=8, **given)}"
        yield f"20 join, alive: sorted tumour sizes wrong by {sorted_out(folder, **given)[0]:.2f} mm"


def _found(changes: dict[str, Any], which: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        if which in ("", "refused"):
            for joiners, alive in ((1, False), (3, False), (20, True), (40, False)):
                no = refused(Path(folder), joiners, alive, **changes)
                yield f"{joiners} join{', alive' if alive else ''}: {'refused' if no else 'released'}"
        if which in ("", "joined"):
            for joiners, alike in ((1, False), (3, False), (5, False), (5, True)):
                told = joined(Path(folder), joiners, alike, **changes)
                yield f"{joiners} join{', alive and of one stage' if alike else ''}: {told}"
        if which in ("", "numbers"):
            read, known = sorted_out(Path(folder), **changes)
            yield f"20 join, alive: sorted tumour sizes wrong by {read:.2f} mm; the register's own by {known:.2f} mm"
        if which in ("", "useful"):
            yield f"furthest from the original, 1 being chance: {useful(Path(folder), **changes)}"
        if which in ("", "averaged"):
            yield from map(str, averaged(Path(folder), **changes))


if __name__ == "__main__":
    main(*sys.argv[1:])
