"""Any two tables compared: utility, risk, the recipients' analyses and what else they tell, by the limits of a job."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anonpipe import engine
from anonpipe.columns import Column, Kind, Role
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.disclosure import counted_rows, key_frequencies, with_nulls
from anonpipe.encoding.row_hash import added, counted, looked_up, row_numbers
from anonpipe.encoding.scan import merge_scans, scan_batch
from anonpipe.encoding.values import is_date, is_number, is_supported, plain, plain_type
from anonpipe.environment import package_versions
from anonpipe.errors import InputError, JobError
from anonpipe.evaluate import risk, utility
from anonpipe.evaluate.measurement import Reason
from anonpipe.job.analyses import endpoints_of, population_of
from anonpipe.job.csv_format import CsvFormat
from anonpipe.job.measure import Measure
from anonpipe.job.model import Job
from anonpipe.pipeline.evaluation import measures as evaluation
from anonpipe.pipeline.evaluation.known import coded_numbers, typed, with_numbers
from anonpipe.pipeline.evaluation.measures import UNORDERED, measure_risk
from anonpipe.pipeline.evaluation.samples import MODEL_ROWS
from anonpipe.pipeline.evaluation.search import NEIGHBOURS, SearchTargets, borders, search_release
from anonpipe.pipeline.tasks.scan import FEWEST_HELD
from anonpipe.propose.propose import guess_columns
from anonpipe.report import Report
from anonpipe.report.build import of_two_tables
from anonpipe.rng import generator
from anonpipe.source import NO_CSV, Source, found_format, opened, read_batches
from anonpipe.storage.release import place, resolve
from anonpipe.storage.versions import POINTER, VERSIONS, exists
from anonpipe.types import BoolArray, FloatArray, IntArray
from anonpipe.verify.catalogue import GATES, MEASURED, Check, held
from anonpipe.verify.gates import hold_kept
from anonpipe.verify.original_values import kept_records
from anonpipe.verify.output_control import bins_for_steward
from anonpipe.verify.verdict import AnalysisOutcome, Assessment, NotChecked, Verdict

if TYPE_CHECKING:
    import pandas as pd

USUAL_K = 5


@dataclass(frozen=True)
class Evaluated:
    """What was found; all of it tells of the original, and is for the steward."""

    rows: tuple[int, int]  # Of the original and of the release
    columns: tuple[str, ...]  # Those that were compared
    left_out: dict[str, str]  # Others of either table, and why
    verdict: Verdict  # The limits of the job that two tables can be held against, and in its notes what they cannot
    assessment: Assessment  # All measures, and what was not measured and why
    report: Report  # All of it with pictures; `anonpipe.report.render` makes a page of it
    warnings: tuple[str, ...]  # What should be looked at first


def evaluate_release(
    original: str,
    release: str,
    job: Job | None = None,
    *,
    hold_out: str | None = None,
    paired: bool = False,
    k: int | None = None,
) -> Evaluated:
    """Measure a release of any origin by what a run measures of its own."""
    if job is not None and job.design is not None:
        raise JobError(
            f"a release has random groups in place of column {job.design.cluster!r} of the design, which the original "
            "has not; leave out the design, take the column out of the release, and set "
            f"columns.{job.design.cluster}.role: dropped"
        )
    try:
        with _open_tables(original, release, hold_out, job) as tables:
            return _evaluated(tables, job, paired, k)
    except Exception as error:
        failure = engine.account(error, "the evaluation")
    failure.raise_it()


def _evaluated(tables: Tables, job: Job | None, paired: bool, k: int | None) -> Evaluated:
    measure = Measure() if job is None else job.measure
    rows, least = (tables.original.rows, tables.release.rows), k or (USUAL_K if job is None else job.k)
    if least < 2:
        raise JobError(f"k is {least}; give at least 2")
    if paired and rows[0] != rows[1]:
        raise InputError(
            f"the original has {rows[0]:,} rows and the release {rows[1]:,}: row by row they are not of the same "
            "persons; leave out --paired"
        )
    both = tuple(_sampled(tables, table, measure.rows) for table in (tables.original, tables.release))
    before, after = (typed(tables.encoder, cells, tables.encoder.names) for cells in both)
    frames = (before, after, {name: column.kind for name, column in tables.columns.items()})
    ends = () if job is None else endpoints_of(job)
    endpoints = [end for end in ends if {end.time, end.status} <= set(tables.columns)]
    assessment = (
        _utility(tables, job, frames, endpoints, paired, least)
        + _risk(tables, job, both, paired, least)
        + _analyses(tables, job)
    )
    given = dict.fromkeys(MEASURED) if job is None else evaluation.limits_of(job, assessment)
    known = [name for name in given if evaluation.gated(name, assessment.measured) is not None]
    limits = {name: limit if name in known else None for name, limit in given.items()}
    left = [f"gates.{name}" for name, limit in given.items() if limit is not None and name not in known]
    at_default = () if job is None else job.gates.at_default
    kept = () if job is None or not paired else _kept(tables, job, both)
    checks = (*_of_columns(tables, job, least), *kept, *evaluation.checks(assessment, limits, at_default))
    notes = (*evaluation.notes(assessment, limits), *([_NO_KEPT] if job is None or not paired else []), _NOT_MEASURED)
    verdict = Verdict(checks, notes)
    warnings = (*_warnings(tables, job), *evaluation.warnings(assessment, limits))
    warnings += (f"not evaluated: {', '.join(left)}; {_TO_EVALUATE}",) if left else ()
    pictured = utility.typed_tables(*frames)
    bins = bins_for_steward(least)
    report = of_two_tables(
        verdict,
        assessment,
        utility.distributions(pictured, bins),
        utility.survival_pictures(pictured, endpoints, bins),
        utility.correlation_changes(pictured),
        source=tables.original.url,
        output=tables.release.url,
        rows=rows[1],
        k=least,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        anonpipe=package_versions()["anonpipe"],
        warnings=warnings,
        pictured=len(before),
    )
    return Evaluated(rows, tuple(tables.columns), tables.left_out, verdict, assessment, report, warnings)


_TO_EVALUATE = (
    "--hold-out shows what distinguishes members from others, --paired what links rows, the rest only a run of anonpipe"
)
_NOT_MEASURED = (
    "two tables do not tell, and so not checked: sizes of groups, suppression, moments before decoding, and the limits "
    "gates." + ", gates.".join(name for name in GATES if name not in MEASURED and name != "rows_under_k")
)
_NO_KEPT = (
    "records unchanged in all masked columns are counted only with --paired and --job, as each is compared with its own"
)


def _kept(tables: Tables, job: Job, both: Sequence[FloatArray]) -> tuple[Check, ...]:
    """The check on sampled records that equal their own in the columns that a run compares; none without such."""
    masked = [at for at, name in enumerate(tables.encoder.names) if job.columns[name].encoded]
    if not masked:
        return ()
    before, after = (cells[:, masked] for cells in both)
    given = {"records": len(before), "of": tables.original.rows, "about": {"sampled": True}}
    return (hold_kept(kept_records(before, after), len(before), **given),)


def _utility(
    tables: Tables,
    job: Job | None,
    frames: tuple[pd.DataFrame, pd.DataFrame, dict[str, Kind]],
    endpoints: Sequence[utility.Endpoint],
    paired: bool,
    least: int,
) -> Assessment:
    if job is not None and not job.measure.utility:
        return Assessment(not_checked=(NotChecked("unmeasured.utility", Reason.UTILITY_OFF),))
    found = utility.utility(
        *frames,
        rng=generator(KEY, "utility"),
        least=least,
        of=tables.original.rows,
        paired=paired,
        endpoints=endpoints,
        weight=None if job is None else job.weight_column,
        population=None if job is None else population_of(job),
        design=("", "") if job is None else job.design_columns,
    )
    return Assessment(utility=found)


def _risk(tables: Tables, job: Job | None, both: tuple[FloatArray, ...], paired: bool, least: int) -> Assessment:
    if job is not None and not job.measure.risk:
        return Assessment(not_checked=(NotChecked("unmeasured.risk", Reason.RISK_OFF),))
    if job is not None and job.unit_declared:
        return Assessment(not_checked=(NotChecked("unmeasured.risk", Reason.UNITS),))
    before, after = both
    measure = Measure() if job is None else job.measure
    for scenario in measure.scenarios:
        _check_compared(tables, f"scenario {scenario.name!r}", scenario.knows)
    results = search(tables, measure.queries, before, after)
    data = attack_data(tables, results, least, (before, after) if paired else None, measure)
    found, not_checked = measure_risk(data, units=False)
    return Assessment(risk=found, not_checked=not_checked)


def _analyses(tables: Tables, job: Job | None) -> Assessment:
    """The recipients' models, fitted to both tables."""
    if job is None or not job.analyses:
        return Assessment(not_checked=(NotChecked("unmeasured.analyses", Reason.NO_ANALYSES),))
    for each in job.analyses:
        _check_compared(tables, f"analysis {each.name!r}", job.columns_of(each))
    names, encoder = tables.encoder.names, tables.encoder
    before, after = (
        typed(encoder, _sampled(tables, table, MODEL_ROWS), names) for table in (tables.original, tables.release)
    )
    found = []
    models = utility.fit_models(before, [job.analysis_of(each) for each in job.analyses])
    for wanted, model in zip(job.analyses, models, strict=True):
        if model.fit.problem is not None:
            raise JobError(f"analysis {wanted.name!r} cannot be fitted to the original ({model.fit.problem})")
        found.append(AnalysisOutcome(model.compare(after), wanted.declared, len(before), tables.original.rows))
    return Assessment(analyses=tuple(found))


def _check_compared(tables: Tables, what: str, names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in tables.columns]:
        raise InputError(
            f"{what} needs column {missing[0]!r}, which is not compared: "
            f"{tables.left_out.get(missing[0], 'it is in neither table')}"
        )


def _of_columns(tables: Tables, job: Job | None, least: int) -> tuple[Check, ...]:
    """Columns that should not be in a release, and combinations of its key variables that few records have."""
    if job is None:
        return ()
    own, files = tables.release.source.schema.names, {"files": len(tables.release.source.paths)}
    forbidden = [name for name in own if name in job.columns and not job.columns[name].role.released]
    if job.whole_release:
        forbidden = [name for name in forbidden if name != job.unit_column]  # holds new numbers
    checks = [held("columns.forbidden", len(forbidden), 0, about=files)]
    keys = [at for at, name in enumerate(tables.encoder.names) if name in job.key_variables]
    if keys:
        names = [tables.encoder.names[at] for at in keys]
        parts = (counted_rows(cells[:, keys]) for _, cells in tables.cells(tables.release))
        combinations, counts = map(np.concatenate, zip(*parts, strict=True))
        nulls = [len(tables.encoder.categories.get(name, ())) or np.nan for name in names]  # numbers have NaN
        wildcard = job.disclosure is not None and job.disclosure.wildcard
        rare = int(counts[key_frequencies(with_nulls(combinations, nulls), counts, wildcard) < least].sum())
        about = files | {"names": ", ".join(names), "k": least, "whom": "records"}
        checks.append(held("keys.rare", rare, job.gates.of_every_run["rows_under_k"], about=about))
    return tuple(checks)


def _warnings(tables: Tables, job: Job | None) -> tuple[str, ...]:
    found = [f"column {name!r} is not compared: {why}" for name, why in tables.left_out.items()]
    if job is not None:
        return tuple(found)
    named = [name for name, why in tables.left_out.items() if why == f"its role is {Role.IDENTIFIER.value}"]
    there = [name for name in named if name in tables.release.source.schema.names]
    return (*(f"column {name!r} is in the release and looks like an identifier of persons" for name in there), *found)


# --- What attacks are given of two tables: no group, no stratum, no method --------------------------------------------

KEY = b"which records of two tables"  # Which records are looked at is no secret: the caller has both tables


def _drawn(what: str, rows: int, count: int) -> IntArray:
    """Positions of some rows, ascending; the same for the same numbers."""
    if count >= rows:
        return np.arange(rows)
    return np.sort(generator(KEY, what).choice(rows, count, replace=False))


def _sampled(tables: Tables, table: Named, count: int) -> FloatArray:
    """Cells of a sample; of two tables of equal length the same rows."""
    return tables.rows(table, _drawn("sample", table.rows, count))[0]


@dataclass(frozen=True, eq=False)
class SearchResults:
    """Records that were looked for in the whole release, and in the whole original as the reference."""

    rows: IntArray  # Where they stand in the original
    cells: FloatArray  # Of them; shape (n_queries, n_columns)
    held: FloatArray  # Of records that the release was not made from
    released: FloatArray  # Of some released records
    nearest: dict[str, risk.Nearest]  # As of `search_release`, and the nearest other originals as `original`
    guesses: risk.Guesses  # What the closest released record says of each column of all of them


def search(tables: Tables, queries: int, original: FloatArray, release: FloatArray) -> SearchResults:
    """Look for some records; `original` and `release` are samples that scales, ranks and axes are taken from."""
    rows = _drawn("queries", tables.original.rows, queries)
    (cells,) = tables.rows(tables.original, rows)
    held = np.empty((0, cells.shape[1]))
    if tables.held is not None:
        (held,) = tables.rows(tables.held, _drawn("held", tables.held.rows, queries))
    nulls = np.where(tables.encoder.has_nulls, np.nan, 0.0)[None]
    places = [at for at, name in enumerate(tables.encoder.names) if name not in tables.sensitive]
    codes = [place for place, at in enumerate(places) if at in tables.coded]
    elsewhere = np.concatenate([release, cells, held, nulls])
    coding = risk.Coding.of(original[:, places], elsewhere[:, places], codes)

    def encode(table: FloatArray) -> FloatArray:
        return np.concatenate(coding.each(table[:, places]), axis=1)

    owners = np.repeat(np.arange(len(places)), [part.shape[1] for part in coding.each(cells[:1, places])])
    targets = SearchTargets(
        features=encode(cells),
        control=encode(held) if len(held) >= FEWEST_HELD else None,
        first_half=owners % 2 == 0 if len(places) > 1 else None,
        ranks=(risk.RankLinkage.of(encode(original)), risk.RankLinkage.of(encode(release))),
        axes=risk.Whitened.of(encode(original), encode(release)),
    )
    everyone = np.concatenate([cells, held])
    to_guess = risk.Coding.of(release, everyone, tables.coded)
    nearest: dict[str, risk.Nearest] = {}
    guesses: list[risk.Guesses] = []
    for first, batch in tables.cells(tables.release):
        for name, part in search_release(encode(batch), targets, first, borders(nearest)).items():
            nearest[name] = risk.merge_nearest([nearest[name], part]) if name in nearest else part
        within = guesses[0].squared[..., -1] if guesses else None
        guesses = [reduce(risk.Guesses.merge, [*guesses, risk.guess_nearest(batch, everyone, to_guess, within)])]
    originals = (
        risk.nearest(encode(batch), targets.features, NEIGHBOURS, offset=first, without=rows, values=True)
        for first, batch in tables.cells(tables.original)
    )
    nearest["original"] = reduce(lambda merged, part: risk.merge_nearest([merged, part]), originals)
    return SearchResults(rows, cells, held, release, nearest, *guesses)


def attack_data(
    tables: Tables, found: SearchResults, k: int, paired: tuple[FloatArray, FloatArray] | None, measure: Measure
) -> risk.AttackData:
    """What attacks are given; `paired`: samples of both tables whose rows are of the same persons."""
    encoder = tables.encoder
    masked = [at for at, name in enumerate(encoder.names) if name in tables.masked]
    numbers = [at for at in masked if not encoder.columns[at].kind.coded]
    controlled = "held_release" in found.nearest
    no_control = None if controlled else Reason.NO_CONTROL if tables.held is None else Reason.FEW_HELD
    task = found.released, found.cells, found.held, found.guesses, encoder.names, masked, tables.coded
    matches = {name: risk.NearestMatches(nearest) for name, nearest in found.nearest.items()}
    pairs: risk.Pairs | Reason = Reason.NO_PAIRING
    if paired is not None:
        unordered = [at for at, place in enumerate(masked) if encoder.columns[place].kind in UNORDERED]
        before, after = (table[:, masked] for table in paired)
        pairs = risk.Pairs(before, after, [encoder.names[at] for at in masked], unordered)
    return risk.AttackData(
        k=k,
        rows=tables.release.rows,
        features=encoder.names,
        rng=lambda what: generator(KEY, what),
        own_row=None if paired is None else found.rows,
        own_size=np.zeros(len(found.rows), dtype=np.int64),
        unlinked=Reason.NO_PAIRING,
        released=matches["release"],
        original=matches["original"],
        by_rank=matches["ranks"],
        whitened=matches["whitened"],
        numbers=([encoder.names[at] for at in numbers], found.cells[:, numbers]),
        held=no_control or matches["held_release"],
        guessed=no_control or risk.InferenceTask(*task),
        singled=no_control or _singled(tables, found, measure.queries),
        halves=no_control or _halves(found.nearest),
        pairs=pairs,
        scenarios=_scenarios(tables, found, measure),
        link="unknown" if paired is None else "own",
    )


def _halves(nearest: Mapping[str, risk.Nearest]) -> tuple[BoolArray, BoolArray] | Reason:
    if "half_0" not in nearest:
        return Reason.ONE_COLUMN
    members, controls = (
        risk.joined(nearest[f"{whose}half_0"].rows, nearest[f"{whose}half_1"].rows) for whose in ("", "held_")
    )
    return members, controls


def _singled(tables: Tables, found: SearchResults, queries: int) -> dict[str, risk.PredicateMatches]:
    assert tables.held is not None  # as there are controls
    most = min(tables.original.rows, risk.CONTROLS)
    (held,) = tables.rows(tables.held, _drawn("singled out", tables.held.rows, most))
    ends = risk.outermost(np.concatenate([risk.outermost(cells) for _, cells in tables.cells(tables.release)]))
    how = tables.coded, queries, generator(KEY, "singling out")
    predicates = risk.candidates(found.released, ends, tables.release.rows, *how)
    in_release, original = (_matches(tables.cells(table), predicates) for table in (tables.release, tables.original))
    controls = _matches([(0, held)], predicates)
    sizes = tables.original.rows, len(held), queries
    return {
        name: risk.PredicateMatches(in_release[name], original[name], controls[name], *sizes) for name in predicates
    }


def _matches(
    batches: Iterable[tuple[int, FloatArray]], predicates: Mapping[str, risk.Predicates]
) -> dict[str, risk.Matches]:
    """Which records of a table meet predicates."""
    matches: dict[str, risk.Matches] = {}
    for first, cells in batches:
        records = risk.Ordered.of(cells)
        new = {name: each.matches(records, offset=first) for name, each in predicates.items()}
        matches = {name: matches[name] + new[name] for name in new} if matches else new
    return matches


def _scenarios(tables: Tables, found: SearchResults, measure: Measure) -> dict[str, risk.AttackScenario] | Reason:
    """What the original would give away to an intruder who knows some columns; a run alone tries the links."""
    names, scenarios = list(tables.encoder.names), {}
    for scenario in measure.scenarios:
        places = [names.index(name) for name in scenario.knows]
        batches, known, persons = tables.cells(tables.original), found.cells[:, places], None
        weights: FloatArray | None = None
        at = names.index(tables.weight) if tables.weight in names else 0
        if scenario.tolerance:
            values = coded_numbers(tables.encoder, scenario.tolerance)
            known = with_numbers(found.cells, values)[:, places]
            predicates = risk.around(known, places, scenario.tolerances)
            cells_of = (risk.Ordered.of(with_numbers(cells, values)) for _, cells in batches)
            near = (predicates.matches(cells, tables.original.rows).counts for cells in cells_of)
            sizes = own = np.asarray(sum(near))
            persons = np.ones_like(sizes)
        else:
            parts = [(row_numbers(cells[:, places]), cells[:, at]) for _, cells in batches]
            classes, sizes = added([counted(numbers) for numbers, _ in parts])
            own = looked_up(classes, sizes, row_numbers(known))
            if tables.weight in names:
                sums = (
                    np.bincount(np.searchsorted(classes, row), np.nan_to_num(each), len(classes)) for row, each in parts
                )
                weights = np.asarray(sum(sums))
        rest = Reason.ONLY_A_RUN, measure.sampling_fraction, tables.original.rows, weights
        scenarios[scenario.name] = risk.AttackScenario(scenario.described, sizes, persons, own, *rest)
    return scenarios or Reason.NO_SCENARIO


# --- Reading two or three tables as cells of the same columns ---------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """An opened table and what it is called in messages: its path."""

    url: str
    source: Source

    @property
    def rows(self) -> int:
        """All of its rows."""
        return self.source.rows

    def type(self, name: str) -> pa.DataType:
        """Of a column, whatever its encoding."""
        return plain_type(self.source.schema.field(name).type)


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of the same columns."""

    original: Named
    release: Named
    held: Named | None  # Records that the release was not made from; None for none
    columns: dict[str, Column]  # What is compared: kind, and levels where they are declared. All count as masked.
    masked: tuple[str, ...]  # Those of them whose values the release replaces, as far as that is known; else all
    sensitive: tuple[str, ...]  # Those that an intruder wants to learn, and does not know
    left_out: dict[str, str]  # Other columns of either table, and why they are not compared
    encoder: ColumnEncoder  # From columns to cells, of the categories of all tables
    weight: str = ""  # The column of survey weights; empty for none

    @property
    def coded(self) -> list[int]:
        """Places of the columns whose cells are codes."""
        return [at for at, name in enumerate(self.encoder.names) if name in self.encoder.categories]

    def cells(self, table: Named) -> Iterator[tuple[int, FloatArray]]:
        """Position of the first row, and cells of the columns, batch by batch."""
        for first, batch in _batches(table, self.original, list(self.columns), self.columns):
            yield first, self.encoder.to_cells(batch)

    def rows(self, table: Named, *positions: IntArray) -> list[FloatArray]:
        """Cells of some rows, in the order of the table, for each of some ascending positions."""
        width = len(self.encoder.names)
        found: list[list[FloatArray]] = [[np.empty((0, width))] for _ in positions]
        for first, cells in self.cells(table):
            for each, wanted in zip(found, positions, strict=True):
                low, high = np.searchsorted(wanted, [first, first + len(cells)])
                each.append(cells[wanted[low:high] - first])
        return [np.concatenate(each) for each in found]


@contextlib.contextmanager
def _open_tables(original: str, release: str, held: str | None, job: Job | None) -> Iterator[Tables]:
    """Open the tables, settle which columns are compared and as what, and see all their categories."""
    declared = None if job is None else job.columns
    urls = (original, _of_run(release), *([held] if held else []))
    with contextlib.ExitStack() as stack:
        forms = [_form(url, job, at == 1) for at, url in enumerate(urls)]
        sources = [stack.enter_context(opened(url, declared, form=form)) for url, form in zip(urls, forms, strict=True)]
        yield _tables([Named(url, source) for url, source in zip(urls, sources, strict=True)], job)


def _form(url: str, job: Job | None, released: bool) -> CsvFormat:
    """How a CSV is written: as the job says, or as the file tells, which of a release comes first."""
    found, given = found_format(url), {} if job is None else job.source.given()
    if found is NO_CSV or (released and not found.questions):
        return found.form
    if found.questions and not given:
        raise InputError(
            f"{url} does not tell {', '.join(f'input.{key}' for key in found.questions)}; give --job, whose input does"
        )
    return CsvFormat(**given) if given else found.form


def _tables(given: Sequence[Named], job: Job | None) -> Tables:
    first, second, control = given[0], given[1], given[2] if len(given) > 2 else None
    known = guess_columns(first.source) if job is None else dict(job.columns)
    left_out = _left_out(first, second, known)
    names = sorted(name for name in known if name in first.source.schema.names and name not in left_out)
    if not names:
        raise InputError(f"{first.url} and {second.url} have no column in common that can be compared")
    # Categories are those that the tables hold, declared or not; an ordinal's levels give their order
    ordinal = {name: known[name].levels for name in names if known[name].kind is Kind.ORDINAL}
    columns = {name: Column(kind=known[name].kind, levels=ordinal.get(name)) for name in names}
    for other in given[1:]:
        _check_types(first, other, columns)
    scan = merge_scans(
        scan_batch(batch, columns, at, []) for each in given for at, batch in _batches(each, first, names, columns)
    )
    for name, found in scan.columns.items():
        if found.infinite:
            raise InputError(f"column {name!r} holds {found.infinite:,} infinite values; replace them")
        if found.outside and columns[name].kind is Kind.ORDINAL:
            raise InputError(
                f"column {name!r} holds {found.outside:,} values that are not among its levels; correct them in the job"
            )
    masked = tuple(name for name in names if job is not None and known[name].role.synthesized)
    schema = pa.schema([(name, first.type(name)) for name in names])
    encoder = ColumnEncoder.fit(schema, columns, scan)
    sensitive = tuple(name for name in names if known[name].role is Role.SENSITIVE)
    weight = next((name for name in names if known[name].role is Role.SAMPLING_WEIGHT), "")
    return Tables(first, second, control, columns, masked or tuple(names), sensitive, left_out, encoder, weight)


def _of_run(url: str) -> str:
    """The current version, where the output folder of a run is given; anything else as it is."""
    where = place(url)
    if not where.filesystem.isdir(where.root) or not exists(where, POINTER):
        return url
    return f"{url.rstrip('/')}/{VERSIONS}/{os.path.basename(resolve(url).root)}"


def _left_out(original: Named, release: Named, known: Mapping[str, Column]) -> dict[str, str]:
    """Columns that are not compared, and why."""
    before, after = original.source.schema.names, release.source.schema.names
    found = {name: "not in the original" for name in after if name not in before}
    for name in before:
        if name not in after:
            found[name] = "not in the release"
        elif name not in known:
            found[name] = "not in the job, or of too many different texts"
        elif not known[name].role.released:
            found[name] = f"its role is {known[name].role.value}"
        elif not is_supported(original.source.schema.field(name).type):
            found[name] = "of a type that has no measures"
    return found


_CODED, _DAYS = ("texts", "truth values"), ("texts", Kind.DATE)


def _what(kind: pa.DataType) -> str:
    if is_date(kind):
        return "dates"
    return "numbers" if is_number(kind) else "truth values" if pa.types.is_boolean(kind) else "texts"


def _check_types(first: Named, other: Named, columns: Mapping[str, Column]) -> None:
    for name, column in columns.items():
        if name not in other.source.schema.names:
            raise InputError(f"{other.url} does not have column {name!r}; give a table of the same columns")
        expected, actual = (_what(table.type(name)) for table in (first, other))
        if expected != actual or (expected in _CODED and not column.kind.coded and (expected, column.kind) != _DAYS):
            raise InputError(
                f"column {name!r} holds {expected} in {first.url} and {actual} in {other.url}, as kind "
                f"{column.kind.value}; write both tables with one type, or correct the job"
            )


def _batches(
    table: Named, like: Named, names: Sequence[str], columns: Mapping[str, Column]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The columns in one order, codes in the type that the first table has."""
    for unit in table.source.units:
        for first, batch in read_batches(table.source, unit, names):
            arrays = {name: plain(batch.column(name)) for name in names}
            for name in (name for name in names if columns[name].kind.coded):
                try:
                    arrays[name] = arrays[name].cast(like.type(name))
                except pa.ArrowException:  # whose text quotes a value
                    raise InputError(
                        f"column {name!r} of {table.url} holds codes that are no {like.type(name)}, as they are in the "
                        "original"
                    ) from None
            yield first, pa.record_batch(arrays)
