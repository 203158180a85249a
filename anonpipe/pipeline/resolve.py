"""What follows from the scan: encoders, strata, suppression, method, trees of pre-clusters, key and warnings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anonpipe.columns import Kind, Role
from anonpipe.encoding.cells import ColumnEncoder, placed
from anonpipe.encoding.identifiers import (
    Repeats,
    UnitColumn,
    check_repeats,
    count_repeats,
    is_run,
    repeats_in,
    warn_of_repeats,
)
from anonpipe.encoding.quantiles import Radix
from anonpipe.encoding.rare import Suppression, code_extremes, extremes_kept, suppress_rare
from anonpipe.encoding.rules import PairCounts, RuleCounts
from anonpipe.encoding.scan import SCAN_RECORDS, Scan, TotalLine, check_scan, merge_scans, off_steps
from anonpipe.encoding.scores import ScoredColumn
from anonpipe.encoding.tracers import comparable_sketches
from anonpipe.errors import KEEP_EXTREMES, InputError, JobError, advice_on_k, plural
from anonpipe.job.analyses import population_of
from anonpipe.job.model import Job
from anonpipe.job.rules import check_counts
from anonpipe.job.wide import name_of_rows
from anonpipe.partition.strata import MOST_COMBINATIONS, Strata, UnitSets, build_strata
from anonpipe.partition.tree import Tree, fit_tree
from anonpipe.pipeline.context import Fitted, Work, keep_fitted
from anonpipe.pipeline.cut import leaf_counts, partition_rows
from anonpipe.pipeline.procedure import by_mask
from anonpipe.pipeline.tasks.scan import OF_UNITS, RULES, SCANS, SKETCHES, TOTALS, UNIT_SUMS, sampled_rows
from anonpipe.propose.names import codes_for_unknown
from anonpipe.rng import keyed, steward_secret
from anonpipe.storage.release_log import CountedUnits, Trace
from anonpipe.storage.sketch import Sketch, UnitSums, merge_sketches, merge_sums
from anonpipe.types import FloatArray
from anonpipe.verify.output_control import about


@dataclass(frozen=True)
class Warnings:
    """Warnings for the steward."""

    urgent: list[str] = field(default_factory=list)  # Concerns disclosure, or what recipients may conclude
    others: list[str] = field(default_factory=list)

    def __add__(self, more: Warnings) -> Warnings:
        """Both together."""
        return Warnings([*self.urgent, *more.urgent], [*self.others, *more.others])

    def all(self) -> tuple[str, ...]:
        """The urgent ones, then the others; each once."""
        return tuple(dict.fromkeys((*self.urgent, *self.others)))


@dataclass(frozen=True, eq=False)
class Resolved:
    """What follows from job and scan alone."""

    fitted: Fitted
    digest: str  # Of the scan before suppression of rare categories
    warnings: Warnings


def resolve(job: Job, schema: pa.Schema, scan: Scan, unit: UnitColumn | None = None, form: str = "") -> Resolved:
    """Check the scanned input against the job and derive what a run needs; `form`: of the records of whole units."""
    if unit is None:
        scan = scan.without_units()
    remedied = () if job.strata.small == "error" else job.strata.by
    settled = job.disclosure is not None and job.disclosure.suppress and job.disclosure.key  # k rows or more, or no key
    remedied = (*remedied, *(name for name in job.unchanged_outside_strata if settled or name not in job.key_variables))
    advice, held_out = advice_on_k(job.mask is not None), job.measure.held_out > 0
    warnings = check_scan(rows_together(scan), job.columns, job.k, remedied, advice, held_out)
    _check_non_keys(job, scan)
    digest = scan.digest
    nullable = {field.name: field.nullable for field in schema}
    encoder = ColumnEncoder.fit(by_name(schema), job.columns, scan)
    if (population := population_of(job)) is not None and population.sex is not None:
        population.check_sexes(population.sex, encoder.categories[population.sex].to_pylist())
    strata = _strata_of(job, encoder, scan, _needed(job, schema, scan, encoder, unit))
    _check_growing(job, strata, unit)
    scan, suppression, suppressed = suppress_rare(scan, job.columns, nullable, job.k, strata)
    least, stratum = job.k if unit is None else unit.sure, placed(scan, encoder, strata, job.strata.by)[0]
    scan, extremes = code_extremes(scan, job.columns, stratum, len(strata.rows), least)
    encoder = ColumnEncoder.fit(by_name(schema), job.columns, scan)
    fitted = Fitted(job, schema, scan, encoder, suppression, strata, unit=unit, extremes=extremes)
    if fitted.features.width == 0 and job.replaces:
        raise JobError(_nothing_to_mask(job, suppression, "records" if unit is None else "units"))
    if replicates := [name for name, column in job.columns.items() if column.role is Role.REPLICATE_WEIGHT]:
        many = plural(len(replicates), "replicate weight")
        warnings.append(_REPLICATES.format(first=replicates[0], last=replicates[-1], many=many))
    try:
        procedure = fitted.procedure
    except JobError as error:
        raise (JobError(f"{error}\n{form}") if form else error) from None
    warnings += off_steps(scan, job.columns, encoder.origins) + suppressed + list(procedure.warnings)
    warnings += _stratum_warnings(job, encoder, scan, strata)
    urgent = (
        unpreserved_moments(fitted) + _degree_warnings(job, encoder) + ([] if unit is None or form else [unit.apart])
    )
    return Resolved(fitted, digest, Warnings(urgent, warnings))


def rows_together(scan: Scan) -> Scan:
    """The same; of rows side by side, whose dictionary is one, the first has the entries that none of them uses."""
    columns, unused = dict(scan.columns), dict[str, set[Any]]()
    several = [(name, name_of_rows(name)) for name in columns if name_of_rows(name) != name]
    for name, one in several:
        entries = set(() if (found := columns[name].unused) is None else found.to_pylist())
        unused[one] = unused.get(one, entries) & entries
    for name, one in several:
        columns[name] = replace(columns[name], unused=pa.array(kept) if (kept := unused.pop(one, None)) else None)
    return replace(scan, columns=columns)


_REPLICATES = (
    "{many} ({first!r} to {last!r}), not released: they describe the sampling units of the original records, and fit "
    "no others; design.replicates makes new ones of what is released"
)


def _check_non_keys(job: Job, scan: Scan) -> None:
    """Refuse categories that are released as they are, and held against nothing, if they name most persons."""
    for name in () if job.disclosure is None else job.disclosure.non_key:
        counts = scan.columns[name].counts
        if counts is None or not job.columns[name].kind.coded:
            continue
        rare = int(counts[counts < job.k].sum())
        if 2 * rare > counts.sum():
            raise InputError(
                f"column {name!r} of disclosure.non_key: {rare:,} of {counts.sum():,} rows have a value that fewer "
                f"than k={job.k} rows share, so that it names persons. Drop it, or recode it as one of disclosure.key"
            )


# Records of a stratum, in multiples of what its size is rounded to, from which on some are withheld: three at most
_SMALLEST_ROUNDED = 10


def _check_growing(job: Job, strata: Strata, unit: UnitColumn | None) -> None:
    """Refuse a register that grows where counts cannot be rounded."""
    if job.fewest_changed is None:
        return
    if unit is not None:
        raise InputError(
            f"repeat.growing rounds counts of rows, but column {unit.name!r} has units of up to {unit.most:,} rows. "
            "Rounding does not hide these: make one row of each unit"
        )
    strata_in_use = [stratum for stratum in strata.stratum if stratum >= 0]
    if strata.dropped or len(set(strata_in_use)) < len(strata_in_use):
        raise InputError(
            "repeat.growing counts changed persons in each combination of the strata columns, but some combinations "
            "share a stratum or are dropped (strata.small, strata.use_event). Coarsen the columns in the input until "
            "each combination is a stratum of its own"
        )
    least = _SMALLEST_ROUNDED * job.fewest_changed
    if min(strata.rows) < least:
        raise InputError(
            f"a stratum has fewer than {least} records, {_SMALLEST_ROUNDED} times the rounding base of repeat.growing; "
            "take fewer or coarser strata columns"
        )


def _nothing_to_mask(job: Job, suppression: Suppression, what: str) -> str:
    """Why no masked column varies: in the input already, or after suppression of rare categories."""
    if not suppression.targets:
        return "every masked column is constant, so there is nothing to mask; mask other columns"
    return (
        f"no masked column has two values that k={job.k} {what} share. Rarer ones are suppressed, so there is nothing "
        f"to mask: coarsen the columns, mask other ones, or {advice_on_k(job.mask is not None)}"
    )


WARNINGS = "warnings.json"  # What `fit` warns of, in the staging


def by_name(schema: pa.Schema) -> pa.Schema:
    """The schema with its columns in the order of their names."""
    # So the noise of a column does not depend on its place in the input.
    return pa.schema(sorted(schema, key=lambda field: field.name))


def fit(work: Work) -> None:
    """Fit everything that follows from the scans, and write it into the staging."""
    job, staging = work.job, work.staging
    unit, repeats = _units(work)
    if unit is not None:
        rows = [batch for batches in work.of_splits(OF_UNITS) for batch in batches]
        unit = unit.with_constant(rows, job.columns)
        if work.folded is not None:
            unit = work.folded.with_strata(unit, job)
    rules = None
    if job.parsed_rules:
        rules = reduce(RuleCounts.merge, work.of_splits(RULES, RuleCounts, Radix, PairCounts, UnitSets))
        rules = rules if unit is not None else rules.without_units()
        check_counts(job.parsed_rules, rules, job.k)
    scan = merge_scans(work.of_splits(SCANS, *SCAN_RECORDS))
    resolved = resolve(job, work.source.schema, scan, unit, "" if work.folded is None else work.folded.form)
    fitted = resolved.fitted
    staging.write_json("digest.json", resolved.digest)
    staging.write("run.key", keyed(steward_secret(), "run", job_digest(job, unit), resolved.digest))
    batches, drawn = sampled_rows(work)
    repeats += [] if job.identifiers else warn_of_repeats(batches, work.source.rows, work.start_key)
    TotalLine.joined(work.of_splits(TOTALS, TotalLine)).check(job.source.last_row)
    warnings = Warnings(repeats) + resolved.warnings
    if work.folded is not None:
        warnings += Warnings(work.folded.warnings)
    if work.controlled is not None:
        warnings += Warnings(list(work.controlled.warnings))
    staging.write_json(WARNINGS, asdict(warnings))
    keep_fitted(staging, replace(fitted, trees=_fit_trees(fitted, batches, drawn), rule_counts=rules))


def job_digest(job: Job, unit: UnitColumn | None) -> str:
    """The job's digest; a different one where an identifier repeats, so that k counts units."""
    if unit is None or job.unit_declared:
        return job.digest()
    return hashlib.sha256(f"{job.digest()}, units of {unit.name}".encode()).hexdigest()


def _units(work: Work) -> tuple[UnitColumn | None, list[str]]:
    """The unit that k counts, if one has several rows, and warnings about identifiers that repeat."""
    job, scanned = work.job, work.staging.results("scan").read_all(len(work.source.units), Repeats)
    *runs, pairs = (
        [work.staging.checked(file) for result in scanned for file in result["files"] if is_run(file, place)]
        for place in range(len(job.identifiers) + 1)
    )
    counted = [result["identifiers"] for result in scanned]
    unit = unit_of(job, repeats_in(runs, counted, job.k - 1))
    check_whole(job, unit[0], [result["in_strata"] for result in scanned], pairs)
    return unit


def check_whole(job: Job, unit: UnitColumn | None, counted: Sequence[Repeats | None], runs: Sequence[Path]) -> None:
    """Refuse units that lie in several strata but must stay whole."""
    results = [result for result in counted if result is not None]
    if unit is None or not results:
        return
    several = count_repeats(results, runs).distinct - unit.distinct
    if several:
        raise InputError(
            f"cluster.units: whole needs all rows of a unit in one stratum, but up to {several:,} units of column "
            f"{unit.name!r} have rows in several. Stratify by columns that are constant within units, or leave "
            "cluster.units: split"
        )


def unit_of(job: Job, identifiers: list[Repeats]) -> tuple[UnitColumn | None, list[str]]:
    """The unit that k counts, from the repeats of each identifier, and warnings."""
    warnings = check_repeats(identifiers, job.k, job.rows_per_unit, job.unit_column)
    name = job.unit_column
    unit = next((UnitColumn.of(column) for column in identifiers if column.name == name and column.repeated), None)
    if unit is None and job.unit_declared:
        warnings.append(
            f"column {name!r} has role unit, and no value of it repeats, so that k={job.k} counts rows; where persons "
            "have several rows, another column names them: give that one role unit"
        )
    return unit, warnings


def trace_of(work: Work, fitted: Fitted) -> Trace:
    """The scanned input as the release logs compare it."""
    given = work.controlled
    sketches = merge_sketches(work.of_splits(SKETCHES, Sketch)) if given is None else given.sketches
    digest = work.staging.read_json("digest.json")
    digest_of_job = job_digest(work.job, fitted.unit)
    if (folded := work.folded) is not None:  # of the rows, as any other release of them is compared
        folded_table = folded.rows, folded.released, comparable_sketches(folded.sketches)
        return Trace(digest, digest_of_job, *folded_table, k=work.job.k)
    sums = [] if work.job.fewest_changed is None else list(work.of_splits(UNIT_SUMS, UnitSums))
    table = work.source.rows, tuple(work.job.released), comparable_sketches(sketches)
    return Trace(digest, digest_of_job, *table, counted_units(work.job, sums), work.job.k)


def counted_units(job: Job, sums: list[UnitSums]) -> CountedUnits | None:
    """The units of an input as the logs compare them; None unless `repeat.growing` is set."""
    if job.fewest_changed is None or job.unit_column is None:
        return None
    names = sorted(job.released)
    unchanged = [name for name in names if job.columns[name].role.unchanged]
    return CountedUnits(
        (job.unit_column, *unchanged, "", *names),
        tuple(names),
        merge_sums(sums),
        job.fewest_changed,
        job.repeat.max_overlapping,
    )


def _needed(
    job: Job, schema: pa.Schema, scanned: Scan, encoder: ColumnEncoder, unit: UnitColumn | None
) -> tuple[int, str] | None:
    """Records that the mask needs in a stratum, and why, if smaller strata are merged or dropped; None for k."""
    # With all categories: without the rare ones, which differ by stratum, it can only need fewer.
    if job.mask is None or not job.masks_strata or not job.strata.by or job.strata.small == "error":
        return None
    strata = _strata_of(job, encoder, scanned, None)
    unsuppressed = Fitted(job, schema, scanned, encoder, Suppression({}, {}), strata, unit=unit)
    return by_mask.needed(job, unsuppressed.encoders, scanned.rows)


def _strata_of(job: Job, encoder: ColumnEncoder, scanned: Scan, needed: tuple[int, str] | None) -> Strata:
    """The strata of the job, from the counts of the scan."""
    names = job.strata.by
    positions = [encoder.names.index(name) for name in names]
    sizes = [len(scanned.code_counts(name)) for name in names]
    if int(np.prod(sizes)) > MOST_COMBINATIONS:
        raise InputError(f"strata.by makes more than {MOST_COMBINATIONS:,} combinations; take fewer or coarser columns")
    counts = scanned.combination_counts(encoder, names) if names else np.array([scanned.rows])
    event = None
    if job.event_column in names:
        position = encoder.names.index(str(job.event_column))
        event = (names.index(str(job.event_column)), encoder.event_codes(position))
    units = scanned.combination_units(encoder, names) if names else None
    small, split, lower_k = job.strata.small, job.strata.use_event, advice_on_k(job.mask is not None)
    return build_strata(
        counts, positions, sizes, job.k, small, event, split, names, needed, units, lower_k, job.larger_strata
    )


def _stratum_warnings(job: Job, encoder: ColumnEncoder, scanned: Scan, strata: Strata) -> list[str]:
    """Warnings on records of small strata: columns and counts, no value."""
    if not job.strata.by:
        return []
    merged = _merged(job, encoder, scanned, strata)
    columns, warnings = ", ".join(map(repr, job.strata.by)), []
    if merged:
        warnings.append(
            f"strata.small is merge: {merged:,} records move to larger strata in {columns}, as their own are under "
            f"{strata.least}"
        )
    if strata.dropped:
        warnings.append(
            f"strata.small is drop: {strata.dropped:,} records are left out, as their strata are under {strata.least}"
        )
    return warnings


def _merged(job: Job, encoder: ColumnEncoder, scanned: Scan, strata: Strata) -> int:
    """Records that take the values of a larger stratum."""
    counts = scanned.combination_counts(encoder, job.strata.by)
    return int(counts[np.asarray(strata.recoded) != np.arange(len(counts))].sum())


def small_strata(fitted: Fitted) -> tuple[str, ...]:
    """What recipients read of small strata that are merged or dropped; the same where there are none."""
    job, strata = fitted.job, fitted.strata
    if job.strata.small == "error" or not job.strata.by or job.repeat.growing:
        return ()
    done = {"merge": "take commoner ones", "drop": "are left out"}[job.strata.small]
    number = _merged(job, fitted.cells, fitted.scan, strata) + strata.dropped
    many = about(number, "records", fitted.coarse_min_rows or job.k)
    columns = ", ".join(job.strata.by)
    return (f"Records with rare values of {columns} {done} ({many}). Counts of {columns} are those after this.",)


def _degree_warnings(job: Job, encoder: ColumnEncoder) -> list[str]:
    """A warning on what a design leaves too few degrees of freedom for, as far as a formula tells."""
    if job.design is None:
        return []
    from anonpipe.evaluate.utility import FEWEST_DEGREES, count_coefficients

    left = len(encoder.categories[job.design.cluster]) - len(encoder.categories[job.design.strata])
    texts = (name for name, values in encoder.categories.items() if not pa.types.is_primitive(values.type))
    categories = {name: len(encoder.categories[name]) for name in texts}
    found = []
    if job.weight_column is not None and left < FEWEST_DEGREES:
        found.append("weighted estimates")
    for each in map(job.analysis_of, job.analyses):
        if each.cluster is not None and left + 1 - count_coefficients(each, categories) < FEWEST_DEGREES:
            found.append(f"analysis {each.name!r}")
    few = f"design: random groups less strata are {left}, fewer than {FEWEST_DEGREES} degrees of freedom remain for"
    text = f"{few} {', '.join(found)}: not judged, and limits on them fail; give more design.random_groups"
    return [text] if found else []


def _fit_trees(fitted: Fitted, batches: list[pa.RecordBatch], drawn: npt.NDArray[np.uint64]) -> tuple[Tree, ...]:
    """One tree for each stratum, fitted to its sampled rows in an order that follows from their content."""
    names, encoder = list(fitted.cells.names), fitted.cells
    sampled = [encoder.to_cells(batch.select(names)) for batch in batches]
    cells = np.concatenate([np.empty((0, len(names))), *sampled])
    order = np.lexsort((*cells.T, drawn))
    cells, keys = cells[order], drawn[order]
    stratum = fitted.strata.assign(cells)
    fitted.suppression.apply(cells, encoder.names, stratum)
    fitted.extremes.apply(cells, encoder.names, stratum)
    scaled: FloatArray = fitted.features.encode(cells) * np.sqrt(fitted.procedure.weights)
    rows = partition_rows(fitted.job, max(fitted.features.width, len(names)))
    leaves = enumerate(leaf_counts(fitted.strata.rows, rows))
    return tuple(fit_tree(scaled[stratum == at], keys[stratum == at], count) for at, count in leaves)


# --- Columns whose moments are not preserved


# Warn where a mean moves by more standard deviations of the release, or a standard deviation by a larger share
_MOST_MOVED = 0.1
_MOST_SHARE = 0.01  # Of a mean, likewise, where that is more than its standard error


def unpreserved_moments(fitted: Fitted) -> list[str]:
    """Warnings on columns whose mean, standard deviation or extremes are not preserved: names, no value."""
    lost, warnings = _losses(fitted), [*_extremes(fitted)]
    for what, (text, most) in _LOST.items():
        if names := [name for name, column in lost.items() if what in column]:
            warnings.append(f"{_named(names, most)}: {text}")
    if moved := [f"{name!r} {share:+.1%} ({cause})" for name, (share, cause) in _shifts(fitted).items()]:
        warnings.append(f"released means against the original's: {', '.join(moved)}; tell the recipients")
    warnings += _codes(fitted)
    return [
        *warnings,
        *_coded_extremes([each for each in _scored(fitted) if each.outliers and "coded" not in lost[each.name]]),
    ]


def unpreserved_for_recipients(fitted: Fitted) -> tuple[str, ...]:
    """What recipients read of moments that are not preserved: names alone; none of a growing register."""
    if fitted.job.repeat.growing:
        return ()
    of_spread = [name for name, lost in _losses(fitted).items() if "spread" in lost]
    of_mean = [name for name in _shifts(fitted) if name not in columns_without_sums(fitted)]
    found = {"Mean and sum": of_mean, "Standard deviation, variance and correlations": of_spread}
    far = "are not preserved: values far out are means of k or more records, top- or bottom-coded, or put at bounds."
    return tuple(f"{what} of {', '.join(names)} {far}" for what, names in found.items() if names)


def _shifts(fitted: Fitted) -> dict[str, tuple[float, str]]:
    """Means that move by more than 1 %, and by more than their standard error: the share, and the cause."""
    found, extremes = {}, fitted.extremes.moved
    moved = {each.name: (*each.moved, each.released_moments[1]) for each in _scored(fitted)}
    for name, (coded, clipped, sd) in (moved | {name: (by, 0.0, 0.0) for name, by in extremes.items()}).items():
        scan, by = fitted.scan.columns[name], coded + clipped
        mean = abs(scan.mean - extremes.get(name, 0.0))  # the scan is that after coding
        chance = (sd or scan.sd) / np.sqrt(max(1, scan.values))
        if mean and fitted.job.columns[name].kind is not Kind.DATE and abs(by) > max(_MOST_SHARE * mean, chance):
            found[name] = by / mean, "top or bottom coding" if abs(coded) > abs(clipped) else "bounds"
    return found


def _scored(fitted: Fitted) -> list[ScoredColumn]:
    """Columns by normal scores, without the survey weight, whose sums are restored."""
    every = () if fitted.scores is None else fitted.scores.columns
    return [column for column in every if column.name != fitted.job.weight_column]


# Columns that one line names: wide tables with long tails have dozens
_MOST_NAMED = 5

# What a column lost and how many columns one line names; None for all, as nobody may add them up
_LOST = {
    "coded": (
        "few records make up much of its mean. Normal scores top-code them: mean, sum and variance are not preserved. "
        "Tell the recipients not to add it up",
        None,
    ),
    "clipped": (
        "values outside its bounds make up much of its mean and are released inside. Mean, sum and variance are not "
        "preserved: declare other bounds, or tell the recipients",
        None,
    ),
    "spread": (
        "few records make up much of its standard deviation. Normal scores release means of k or more in their place: "
        "standard deviation, variance and correlations are not preserved. Tell the recipients",
        _MOST_NAMED,
    ),
}


def _named(names: Sequence[str], most: int | None = _MOST_NAMED) -> str:
    """The columns of a line."""
    if len(names) == 1:
        return f"column {names[0]!r}"
    more = "" if most is None or len(names) <= most else f" and {len(names) - most:,} more"
    return f"each of the columns {', '.join(map(repr, names[:most]))}{more}"


def _coded_extremes(columns: Sequence[ScoredColumn]) -> Iterator[str]:
    """Warning on records far from all others whose share of the mean is small."""
    if not columns:
        return
    most = max(column.outliers for column in columns)
    records = "1 record lies" if most == 1 else f"{most:,} records lie"
    up_to = "up to " if len({column.outliers for column in columns}) > 1 else ""
    yield (
        f"{_named([column.name for column in columns])}: {up_to}{records} far from all others, released "
        'top-coded or in a mean of k, as so few could be recognised. If that is a code for "unknown", make it a null'
    )


def _codes(fitted: Fitted) -> Iterator[str]:
    """Warning on values at the ends of columns that may be codes for "unknown", and that k or more records have."""
    names = []
    for name, counted in fitted.scan.scored.items():
        # No exact number of records of a value in a bin of several, but of its smallest
        whole = counted.moved(np.zeros(int(counted.places.max(initial=0)) + 1, dtype=np.int64))
        values, counts = whole.smallest, np.where(whole.exact, whole.counts, whole.at_low)
        found = codes_for_unknown(values, counts, days=fitted.job.columns[name].kind is Kind.DATE)
        if any(rows >= fitted.min_rows for rows in found.values()):
            names.append(name)
    if names:
        yield (
            f"{_named(names, None)}: many records have one value at an end, which looks like a code for "
            '"unknown" and is released as a number. If it is one, make it a null in the input'
        )


def _extremes(fitted: Fitted) -> Iterator[str]:
    """Warnings on extremes of columns without normal scores."""
    few = f"of fewer than {fitted.min_rows} records" + (" of a stratum" if fitted.job.strata.by else "")
    moved = fitted.extremes.moved
    for much, most in ((True, None), (False, _MOST_NAMED)):
        if names := [name for name in moved if _much(fitted, name, moved[name]) == much]:
            share = "They made up much of its mean. " if much else ""
            yield (
                f"{_named(names, most)}: values {few} that stand apart are top-coded to the next ones, as a mean of k "
                f"would disclose them. {share}Mean, sum and variance are those without them: tell the recipients, or "
                f"preserve them by {KEEP_EXTREMES}"
            )
    if unbounded := extremes_kept(fitted.job.columns):
        yield (
            f"{_named(unbounded)}: extremes: keep is set. Values {few} that stand apart, and their sums, may be "
            "disclosed by group means"
        )


def _much(fitted: Fitted, name: str, moved: float) -> bool:
    """Whether the mean of a column without normal scores is moved by much."""
    return bool(abs(moved) > _MOST_MOVED * fitted.scan.columns[name].sd)


def _losses(fitted: Fitted) -> dict[str, set[str]]:
    """What each column by normal scores loses."""
    return {column.name: _lost(fitted, column) for column in _scored(fitted)}


def _lost(fitted: Fitted, column: ScoredColumn) -> set[str]:
    """Why a scored column loses its mean (top-coding, bounds) or, else, its standard deviation."""
    spread, original = column.released_moments[1], fitted.scan.columns[column.name].sd
    moved = zip(("coded", "clipped"), column.moved, strict=True)
    reasons = {what for what, by in moved if abs(by) > _MOST_MOVED * spread}
    return reasons or ({"spread"} if abs(spread - original) > _MOST_MOVED * original else set())


def columns_without_sums(fitted: Fitted) -> tuple[str, ...]:
    """Names of the columns whose mean and sum are not preserved, for recipients."""
    # Not of a register that grows: one name more than in the last release would disclose that one person came.
    if fitted.job.repeat.growing:
        return ()
    lost = {name for name, what in _losses(fitted).items() if what & {"coded", "clipped"}}
    lost |= {name for name, moved in fitted.extremes.moved.items() if _much(fitted, name, moved)}
    return tuple(name for name in fitted.cells.names if name in lost and name != fitted.job.weight_column)
