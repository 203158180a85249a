"""Disclosure control before a run: key variables are recoded and locally suppressed in a copy of the input.

The rows are read twice in blocks: combinations of categories are counted, then the changed rows are written. Memory is
that of a block and of the distinct combinations. The run takes the changed rows for its input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anonpipe.columns import Column, Kind
from anonpipe.encoding import disclosure as keys
from anonpipe.encoding.disclosure import NULL
from anonpipe.encoding.row_hash import row_numbers
from anonpipe.encoding.scan import TotalLine
from anonpipe.encoding.tracers import Tracer
from anonpipe.encoding.values import numbers, plain_type
from anonpipe.errors import InputError, plural
from anonpipe.evaluate.risk._scenario import individual_risk
from anonpipe.files import make_private
from anonpipe.job.disclosure import Disclosure, Recoding
from anonpipe.job.model import Job
from anonpipe.job.sections import SurveyDesign
from anonpipe.rng import generator, keyed, steward_secret
from anonpipe.source import Source, open_source, read_batches
from anonpipe.storage.sketch import Sketch
from anonpipe.types import BoolArray, FloatArray, IntArray

FOLDER = "recoded"  # Of the staging; not sealed, as its pages have checksums
RECORD = "recoded.record"
MOST_COMBINATIONS = 5_000_000
MOST_REPLICATES = 1_000
_HELD_ROWS = 1_000_000  # Combinations of blocks that wait to be counted together
_GROUP_ROWS = 65_536
Texts = npt.NDArray[np.object_]
_ROWS, _WEIGHT = "rows of a combination", "weights of a combination"


@dataclass(frozen=True, eq=False)
class Controlled:
    """What disclosure control did to the input of a run."""

    digest: str  # Of the job as it was given
    sketches: dict[str, Sketch]  # Of the rows as they were, for the release logs
    facts: dict[str, Any]  # For recipients: no count under k
    # figures, warnings, in_short: for the steward; the last of the figures on one line
    figures: tuple[str, ...]
    warnings: tuple[str, ...]
    in_short: str

    @property
    def meaning(self) -> str:
        """What the measures are held against, without a count of the data."""
        names = ", ".join(self.facts["non_key"])
        return (
            f"columns recoded or suppressed before all measures: {', '.join(self.facts['columns']) or 'none'}. The "
            "release is compared with the table after that. Where other columns are unchanged, rows are those of "
            "persons: who knows such a row sees that the person is a member"
            + (f". Persons' true values that nothing holds against k: {names}" if names else "")
        )


def control(job: Job, source: Source, folder: Path) -> tuple[Job, Source, Controlled]:
    """Recode and suppress the input into a private folder; the job and the input of the changed rows."""
    given = job.disclosure or Disclosure()
    of_design = () if job.design is None else (job.design.strata, job.design.cluster)
    names = tuple(dict.fromkeys((*given.key, *job.recategorized, *of_design)))
    counts, coded, sketches = _counted(job, given, source, names)
    changes, facts, of_steward = _decided(job, given, counts, coded)
    path = make_private(folder) / "rows.parquet"
    _write(job, source, counts, changes, path)
    recoded = set(job.recategorized)
    columns = {n: _declared(column, given.recode.get(n), n in recoded) for n, column in job.columns.items()}
    types = {name: kind for name, kind in source.pandas_types.items() if name not in job.recategorized}
    made = replace(open_source(str(path)), pandas_types=types, labels=source.labels)
    done = job.disclosure and given.model_copy(update={"recode": {}})
    settled = job.model_copy(update={"columns": columns, "disclosure": done})
    return settled, made, Controlled(job.digest(), sketches, facts, **of_steward)


def _declared(column: Column, recoding: Recoding | None, recategorized: bool) -> Column:
    """A column as it is after recoding."""
    if recategorized:
        gone: dict[str, Any] = dict.fromkeys(("levels", "bounds", "step", "transform"))
        return column.model_copy(update=gone | {"kind": Kind.CATEGORICAL})
    if recoding is None or column.role.unchanged:
        return column
    (low, high), step = column.numeric_bounds, recoding.base or column.step
    low, high = (own if coded is None else coded for own, coded in ((low, recoding.bottom), (high, recoding.top)))
    return column.model_copy(update={"bounds": (low, high), "step": step})


@dataclass(frozen=True, eq=False)
class _Counts:
    """Distinct combinations of keys and recoded columns, after top and bottom coding and rounding."""

    values: dict[str, pa.Array]  # Of each column, sorted
    codes: IntArray  # Places among the values, -1 for null, shape (n, n_columns), sorted
    # records, weights: rows of each combination, and the sum of their survey weights, or rows over the share sampled
    records: FloatArray
    weights: FloatArray


def _counted(
    job: Job, given: Disclosure, source: Source, names: tuple[str, ...]
) -> tuple[_Counts, dict[str, int], dict[str, Sketch]]:
    """Read the input once: combinations, rows beyond `bottom` or `top`, and sketches of the rows."""
    first, weight, coded = next(iter(job.columns)), job.weight_column, dict.fromkeys(given.recode, 0)
    tracer, totals = Tracer.of(source.schema, job.columns, keyed(steward_secret(), "records")), TotalLine(first)
    held: list[pa.Table] = []
    for unit in source.units:
        wanted = {*tracer.names, *names, *given.recode, first, *([weight] if weight else [])}
        for first_row, batch in read_batches(source, unit, sorted(wanted)):
            tracer.add(batch, first_row)
            totals.add(batch)
            for name, each in given.recode.items():
                coded[name] += each.beyond(numbers(batch.column(name))) if each.numeric else 0
            rows = np.ones(batch.num_rows)
            weights = rows / (job.measure.sampling_fraction or 1.0)
            weights = weights if weight is None else np.nan_to_num(numbers(batch.column(weight)))
            columns = [_numeric(batch.column(name), given.recode.get(name), name) for name in names]
            held.append(_grouped(pa.table([*columns, rows, weights], [*names, _ROWS, _WEIGHT]), names))
            if sum(map(len, held)) > _HELD_ROWS:
                held = [_grouped(pa.concat_tables(held), names)]
    totals.check(job.source.last_row)
    table = _grouped(pa.concat_tables(held), names)
    values = {name: pc.unique(table.column(name)).drop_null() for name in names}
    values = {name: each.take(pc.sort_indices(each)) for name, each in values.items()}
    codes = _codes(values, table)
    order = np.lexsort(codes.T[::-1]) if names else np.arange(len(table))
    records, weights = (table.column(name).to_numpy()[order] for name in (_ROWS, _WEIGHT))
    return _Counts(values, codes[order], records, weights), coded, tracer.sketches


def _numeric(array: pa.Array, recoding: Recoding | None, name: str) -> pa.Array:
    """Values in their plain type, coded and rounded where the job says so."""
    array = array.cast(plain_type(array.type))
    if recoding is None or not recoding.numeric:
        return array
    values = recoding.applied(numbers(array))
    try:
        return pa.array(values, mask=np.isnan(values)).cast(array.type)
    except pa.ArrowInvalid:
        raise InputError(f"column {name!r} cannot hold its top, bottom or base; give numbers of its type") from None


def _grouped(table: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """Rows and weights of each combination."""
    sums = table.group_by(list(names), use_threads=False).aggregate([(_ROWS, "sum"), (_WEIGHT, "sum")])
    if len(sums) > MOST_COMBINATIONS:
        raise InputError(
            f"the columns of disclosure ({', '.join(names)}) have more than {MOST_COMBINATIONS:,} combinations; name "
            "fewer, or round and top-code numbers (base, top)"
        )
    return sums.select([*names, f"{_ROWS}_sum", f"{_WEIGHT}_sum"]).rename_columns([*names, _ROWS, _WEIGHT])


def _codes(values: Mapping[str, pa.Array], table: pa.Table | Mapping[str, pa.Array]) -> IntArray:
    """Places of values, -1 for null, shape (n, n_columns)."""
    if not values:
        return np.empty((len(table) if isinstance(table, pa.Table) else 0, 0), dtype=np.int64)
    found = [pc.fill_null(pc.index_in(table[name], value_set=each), NULL) for name, each in values.items()]
    return np.stack([np.asarray(each.to_numpy(), dtype=np.int64) for each in found], axis=1)


@dataclass(frozen=True, eq=False)
class _Changes:
    """What is written in place of the values."""

    texts: dict[str, pa.Array]  # What stands for each value of columns that a hierarchy recodes
    targets: list[IntArray]  # Of each key a code of what stands for each value
    # rare, hidden: numbers of combinations of keys with suppressed ones, ascending, and which keys these are
    rare: IntArray
    hidden: BoolArray
    groups: tuple[IntArray, pa.Array] | None = None  # Numbers of strata and PSUs, ascending, and their random groups


def _standing(name: str, recoding: Recoding | None, values: pa.Array, rows: FloatArray, weights: FloatArray) -> Texts:
    """What may stand for each value: at each level, or at the one that is settled, shape (n_values, n_levels)."""
    if recoding is None or recoding.hierarchy is None:
        return np.array(values.cast(pa.string()).to_pylist(), dtype=object)[:, None]
    known = pa.array([row[0] for row in recoding.hierarchy])
    try:
        known = known.cast(values.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # some are no values of this type
        values = values.cast(pa.string())
    at = pc.fill_null(pc.index_in(values, value_set=known), NULL).to_numpy()
    if missing := int(rows[at == NULL].sum()):
        raise InputError(
            f"column {name!r}: {plural(missing, 'row')} with values that are not in its hierarchy; add them to its "
            "first column"
        )
    texts: Texts = np.array(recoding.hierarchy, dtype=object)[at]
    if recoding.minimum_population is None:
        return texts if recoding.level == "auto" else texts[:, [recoding.level]]
    level = keys.populated_levels(_numbered(texts), weights, recoding.minimum_population)
    return texts[np.arange(len(texts)), level][:, None]


def _numbered(texts: Texts) -> IntArray:
    """The codes of texts at each level."""
    return np.stack([np.unique(level.astype(str), return_inverse=True)[1] for level in texts.T], axis=1)


def _decided(
    job: Job, given: Disclosure, counts: _Counts, coded: Mapping[str, int]
) -> tuple[_Changes, dict[str, Any], dict[str, Any]]:
    """Levels of hierarchies, then suppression; the facts for recipients, and for the steward."""
    standing, width = {}, len(given.key)
    for (name, values), own in zip(counts.values.items(), counts.codes.T, strict=True):
        sums = [_sums(own + 1, each, len(values) + 1)[1:] for each in (counts.records, counts.weights)]
        standing[name] = _standing(name, given.recode.get(name), values, *sums)
    levels, keyed_codes = [_numbered(standing[name]) for name in given.key], counts.codes[:, :width]
    node: tuple[int, ...] = (0,) * width
    if any(each.shape[1] > 1 for each in levels):
        most = given.max_suppressed if given.suppress else 0.0
        node = keys.best_levels(keyed_codes, counts.records, levels, job.k, most, given.wildcard)
    chosen = dict(zip(given.key, node, strict=True))
    recoded = [name for name in job.recategorized if name in given.recode]
    texts = {name: pa.array(standing[name][:, chosen.get(name, 0)], pa.string()) for name in recoded}
    facts, groups = _facts(given, chosen), None
    if job.design is not None:
        groups = _random_groups(job.design, counts)
        of_each = {"random_groups": job.design.random_groups, "in_each": job.design.strata}
        facts["columns"][job.design.cluster] = of_each
    beyond = [f"column {name!r}: coded rows {n}" for name, n in coded.items() if given.recode[name].numeric]
    levels_of = {name: each.get("level") for name, each in facts["columns"].items()}
    in_short = ", ".join(name if at is None else f"{name} (level {at})" for name, at in levels_of.items() if at != 0)
    of_steward = {"figures": (*_lines(facts), *beyond), "warnings": _single(given, counts, texts), "in_short": in_short}
    if not width:
        changes = _Changes(texts, [], np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.bool_), groups)
        return changes, facts, of_steward
    targets = [each[:, at] for each, at in zip(levels, node, strict=True)]
    general, which = np.unique(keys.recoded(keyed_codes, targets), axis=0, return_inverse=True)
    records, weights = (_sums(which.reshape(-1), each) for each in (counts.records, counts.weights))
    hidden = np.zeros(general.shape, dtype=np.bool_)
    if given.suppress:
        cost = [given.cost.get(name, 1.0) for name in given.key]
        hidden = keys.suppress(general, records, job.k, cost, given.wildcard)
    rare = np.flatnonzero(hidden.any(axis=1))
    share, limit = records[rare].sum() / records.sum(), f"{given.max_suppressed:.2%} (disclosure.max_suppressed)"
    if share > given.max_suppressed:
        raise InputError(
            f"local suppression would take keys of {share:.2%} of the rows, more than {limit}; recode keys of many "
            "categories, name fewer, or raise the limit"
        )
    for name, gone in zip(given.key, hidden.T, strict=True):
        facts["columns"].setdefault(name, {})["suppressed"] = int(records[gone].sum())
    before = _risk(keyed_codes, counts.records, counts.weights, job)
    after = _risk(np.where(hidden, NULL, general), records, weights, job)
    named, suppressed = ", ".join(map(repr, given.key)), f"keys of {100 * share:.3g} % of the rows suppressed"
    of_steward["figures"] = (
        *_lines(facts),
        *beyond,
        f"key variables {named}: after coding of numbers {before}; released {after}; {suppressed}, at most {limit}",
    )
    of_steward["in_short"] = "; ".join(filter(None, [in_short, suppressed]))
    for name, own in zip(given.key, general.T, strict=True):  # for recipients no count under k, nor by subtraction
        about, nulls = facts["columns"][name], int(records[own == NULL].sum())
        if 0 < about["suppressed"] < job.k or 0 < nulls < job.k:
            about["suppressed"] = f"fewer than {max(job.k, about['suppressed'] + nulls + 1)}"
    numbered = row_numbers(general[rare].astype(np.float64))
    order = np.argsort(numbered)
    return _Changes(texts, targets, numbered[order], hidden[rare[order]], groups), facts, of_steward


def _single(given: Disclosure, counts: _Counts, texts: Mapping[str, pa.Array]) -> tuple[str, ...]:
    """A warning on columns of which the level that was found leaves one category."""
    found = [name for name, column in texts.items() if len(counts.values[name]) > 1 and len(column.unique()) == 1]
    names = [name for name in found if given.recode[name].level == "auto"]
    text = (
        f"disclosure made one category of all values of {', '.join(map(repr, names))}, which tells recipients nothing: "
        "no lower level keeps to k. Name fewer keys, raise disclosure.max_suppressed, or give a level "
        "(disclosure.recode.NAME.level)"
    )
    return (text,) if names else ()


def _random_groups(design: SurveyDesign, counts: _Counts) -> tuple[IntArray, pa.Array]:
    """Numbers of strata and PSUs, ascending, and the random group of each: as many PSUs in each group, or one more."""
    pairs, which = np.unique(_of_design(design, counts, counts.codes), axis=0, return_inverse=True)
    if missing := int(_sums(which.reshape(-1), counts.records)[(pairs == NULL).any(axis=1)].sum()):
        raise InputError(
            f"columns {design.strata!r} and {design.cluster!r} of the design: {plural(missing, 'row')} with a null; "
            "fill or drop them"
        )
    _, first, sizes = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    if few := int(np.count_nonzero(sizes < 2 * design.random_groups)):
        raise InputError(
            f"column {design.strata!r}: {few} of {len(sizes)} strata have fewer than {2 * design.random_groups} PSUs, "
            f"two for each of {design.random_groups} random groups; join strata in the input, or give fewer "
            "design.random_groups (2 or more)"
        )
    if design.replicates != "none" and len(sizes) * design.random_groups > MOST_REPLICATES:
        raise InputError(
            f"design.replicates: {len(sizes) * design.random_groups:,} random groups, and {MOST_REPLICATES:,} columns "
            "of replicate weights are allowed; join strata in the input, or leave replicates out"
        )
    # The same for every job: several groupings of the same PSUs would together disclose each of them
    own = keyed(steward_secret(), "design", design.strata, design.cluster, str(design.random_groups))
    rng = generator(own, "random groups")
    order = np.lexsort((rng.random(len(pairs)), pairs[:, 0]))
    group, of_group = np.empty(len(pairs), dtype=np.int64), np.arange(len(pairs)) - np.repeat(first, sizes)
    group[order] = np.repeat(np.arange(len(sizes)), sizes) * design.random_groups + of_group % design.random_groups
    numbered = row_numbers(pairs.astype(np.float64))
    ascending = np.argsort(numbered)
    return numbered[ascending], pa.array((group + 1)[ascending]).cast(pa.string())


def _of_design(design: SurveyDesign, counts: _Counts, codes: IntArray) -> IntArray:
    """Codes of strata and PSUs, shape (n, 2)."""
    return codes[:, [list(counts.values).index(name) for name in (design.strata, design.cluster)]]


def _facts(given: Disclosure, chosen: Mapping[str, int]) -> dict[str, Any]:
    """What is done with keys and columns."""
    columns: dict[str, dict[str, Any]] = {}
    for name, each in given.recode.items():
        columns[name] = each.model_dump(exclude={"hierarchy", "level"}, exclude_none=True)
        if each.hierarchy is not None and each.minimum_population is None:
            columns[name]["level"] = chosen[name] if each.level == "auto" else each.level
    return {"key": given.key, "non_key": given.non_key, "nulls": given.nulls, "columns": columns}


def _lines(facts: Mapping[str, Any]) -> list[str]:
    """The facts of columns for the steward."""
    columns: dict[str, dict[str, Any]] = facts["columns"]
    texts = (", ".join(f"{what.replace('_', ' ')} {n}" for what, n in each.items()) for each in columns.values())
    return [f"column {name!r}: {text}" for name, text in zip(columns, texts, strict=True)]


def _sums(places: IntArray, values: FloatArray, size: int = 0) -> FloatArray:
    return np.asarray(np.bincount(places, values, size), dtype=np.float64)


def _risk(codes: IntArray, records: FloatArray, weights: FloatArray, job: Job) -> str:
    """Frequencies of the keys, and the risks that follow."""
    wildcard, rows = bool(job.disclosure and job.disclosure.wildcard), records.sum()
    sizes = keys.key_frequencies(codes, records, wildcard)
    texts = [f"{records[sizes < k].sum() / rows:.2%} of the rows in classes under {k}" for k in sorted({2, 3, job.k})]
    texts.append(f"{records @ (1.0 / sizes):,.1f} rows expected to be found")
    if job.weight_column is not None or job.measure.sampling_fraction is not None:
        risks = individual_risk(sizes, sizes / np.maximum(sizes, keys.key_frequencies(codes, weights, wildcard)))
        texts.append(f"individual risk at most {risks.max():.3g}, mean {records @ risks / rows:.3g}")
    return ", ".join(texts)


def _write(job: Job, source: Source, counts: _Counts, changes: _Changes, path: Path) -> None:
    """Read the input again and write its rows with what stands for their values."""
    given, names = job.disclosure or Disclosure(), [n for n in source.schema.names if n not in job.differences]
    fields = {name: source.schema.field(name) for name in names}
    fields |= {name: pa.field(name, pa.string(), fields[name].nullable) for name in job.recategorized}
    fields |= {name: fields[name].with_nullable(True) for name in given.key}
    schema, width = pa.schema(fields.values()), len(given.key)
    with pq.ParquetWriter(path, schema, compression="lz4", write_page_checksum=True) as writer:
        for unit in source.units:
            for _, batch in read_batches(source, unit, names):
                recoded = {name: _numeric(batch.column(name), given.recode.get(name), name) for name in counts.values}
                codes = _codes(counts.values, recoded)
                columns = {name: batch.column(name) for name in names}
                for name, each in given.recode.items():
                    columns[name] = _numeric(columns[name], each, name)
                for at, name in enumerate(counts.values):
                    if name in changes.texts:
                        columns[name] = changes.texts[name].take(pa.array(codes[:, at], mask=codes[:, at] == NULL))
                if changes.groups is not None and job.design is not None:
                    asked = row_numbers(_of_design(job.design, counts, codes).astype(np.float64))
                    columns[job.design.cluster] = changes.groups[1].take(np.searchsorted(changes.groups[0], asked))
                if len(changes.rare):
                    asked = row_numbers(keys.recoded(codes[:, :width], changes.targets).astype(np.float64))
                    found = np.minimum(np.searchsorted(changes.rare, asked), len(changes.rare) - 1)
                    gone = changes.hidden[found] & (changes.rare[found] == asked)[:, None]
                    for name, mask in zip(given.key, gone.T, strict=True):
                        columns[name] = columns[name].take(pa.array(np.arange(len(mask)), mask=mask))
                made = [columns[name].cast(field.type) for name, field in fields.items()]
                writer.write_batch(pa.RecordBatch.from_arrays(made, schema=schema), row_group_size=_GROUP_ROWS)
