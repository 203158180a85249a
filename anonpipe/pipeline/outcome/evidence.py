"""Task results to the evidence of the gates, and to warnings for the steward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from anonpipe.columns import Role
from anonpipe.encoding.cells import Tally, expected_tallies
from anonpipe.encoding.disclosure import key_frequencies, with_nulls
from anonpipe.encoding.identifiers import UnitColumn
from anonpipe.encoding.weights import Factors, Pieces, WeightCounts
from anonpipe.errors import by_column, record_noun
from anonpipe.job.linked import unpublished
from anonpipe.methods.executor import Columns
from anonpipe.methods.masking import RecordsAndDraws
from anonpipe.moments import Moments, PairwiseMoments, merge_all
from anonpipe.pipeline.arrays import load_record, scopes_of
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.procedure.group_steps import TableGroups
from anonpipe.pipeline.resolve import Warnings, columns_without_sums
from anonpipe.pipeline.tasks.decode import FACTORS, counted_groups, key_units, split_units
from anonpipe.pipeline.tasks.passes import PassTask, last_learnt, learnt_groups, stage_name
from anonpipe.pipeline.tasks.unfold import disordered_rows, lengths_off, order_off
from anonpipe.pipeline.tasks.write import combinations, compared_names, handed_on
from anonpipe.types import FloatArray, IntArray
from anonpipe.verify.expectations import KeptGroups, StagingCheck, Target
from anonpipe.verify.gates import ClassConditions, Evidence, GroupEvidence, MaskEvidence, Rounded

TaskResults = list[dict[str, Any]]

COUNTED = (Moments, PairwiseMoments, Tally, WeightCounts)  # The records that task results hold

# Share of rows in groups of repeated rows, and of one unit in a group, from which on the steward is warned
REPEATED = 0.5


def by_stratum(fitted: Fitted, results: TaskResults, read: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """Merge a result of the partitions of each stratum, in their order."""
    strata = range(len(fitted.strata.rows))
    return [merge_all([read(result) for result in results if result["stratum"] == at]) for at in strata]


def evidence(work: Work, fitted: Fitted, cut: Cut) -> Evidence:
    """The evidence of all gates."""
    staging, job, partitions = work.staging, fitted.job, len(cut.partitions)
    scanned = staging.results("scan").read_all(len(work.source.units))
    encoded = staging.results("encode").read_all(partitions, *COUNTED)
    decoded = staging.results("decode").read_all(partitions, *COUNTED)
    written = staging.results("write").read_all(cut.files, *COUNTED)
    handed = staging.results("values").read_all(len(compared_names(work)))
    shares = fitted.procedure.decoder.shares
    values = None if shares is None else shares.values
    broken = sum(sum(result["rules_broken"]) for result in written) + disordered_rows(work, cut) if job.rules else None
    return Evidence(
        record=record_noun(work.folded is not None and not work.folded.layout.linked),
        rows_in=sum(result["rows"] for result in scanned),
        rows_held_out=sum(result["held_out"] for result in scanned),
        rows_dropped=fitted.strata.dropped,
        rounded=_rounded(fitted, cut),
        rows_out=sum(result["rows"] for result in written),
        rows_under_k=_rows_under_k(work, fitted, cut),
        unchanged_records=sum(result["as_they_were"] for result in decoded),
        equal_by_chance=sum(result["by_chance"] for result in decoded),
        chance_variance=sum(result["chance_variance"] for result in decoded),
        kept=[sum(each) for each in zip(*(result["kept"] for result in decoded if result["kept"]), strict=True)],
        suppressed=(fitted.suppression.largest_share, fitted.suppression.largest_in),
        handed_on=handed_on(work, handed),
        unchanged=tuple(fitted.unchanged_names),
        released_names=tuple(fitted.schema.names),
        forbidden_names=tuple(name for name, column in job.columns.items() if not column.role.released),
        beyond_limits=sum(result["beyond_limits"] for result in written),
        files=len(written),
        rules_broken=broken,
        moved=_moved(fitted, decoded) if job.rules else {},
        lengths_off=lengths_off(work, cut),
        order_off=order_off(work, cut),
        weights_off=_weights_off(work, fitted, written),
        view=fitted.view,
        feature_columns=_feature_columns(fitted),
        splits_ties=fitted.procedure.row_for_row,
        original=original_moments(work, fitted, cut),
        released=released_moments(work, fitted, cut),
        synthesized=by_stratum(fitted, decoded, lambda r: r["synthesized"]),
        by=_of_method(work, fitted, cut, encoded, decoded),
        staging_check=_staging_check(fitted, encoded, decoded),
        unpreserved_moments=columns_without_sums(fitted),
        unpublished=frozenset() if work.folded is None else unpublished(work.folded.layout, gaps=True),
        unit_rows=None if fitted.unit is None else fitted.min_rows,
        rounded_below=0 if shares is None or shares.rounded is not None else shares.k,
        values_matched=values is not None and values.keeps_covariances,
    )


def _moved(fitted: Fitted, decoded: TaskResults) -> dict[str, tuple[int, int]]:
    """Of each column that repairs changed the records with another value, and the values that were replaced."""
    counts = np.sum([result["moved"] for result in decoded], axis=0).T.tolist()
    return {name: tuple(each) for name, each in zip(fitted.cells.names, counts, strict=True) if each[0]}


def _weights_off(work: Work, fitted: Fitted, written: TaskResults) -> float | None:
    """How far sums of survey weights are off, in standard errors; None without weights."""
    if fitted.weight is None:
        return None
    counted = reduce(WeightCounts.merge, (result["weights"] for result in written))
    return fitted.weight.off(counted, load_record(work, FACTORS, (Factors, Pieces)))


def _rounded(fitted: Fitted, cut: Cut) -> Rounded | None:
    """The rounding of counts; None without it."""
    if fitted.rounding is None:
        return None
    strata = [partition.stratum for partition in cut.partitions]
    most = max(strata.count(stratum) for stratum in set(strata))
    return Rounded(fitted.rounding.base, cut.rows - cut.released, most)


def original_moments(work: Work, fitted: Fitted, cut: Cut) -> list[PairwiseMoments]:
    """Moments of the verified variables in the original records, one entry a stratum."""
    encoded = work.staging.results("encode").read_all(len(cut.partitions), *COUNTED)
    return by_stratum(fitted, encoded, lambda result: result["original"])


def released_moments(work: Work, fitted: Fitted, cut: Cut) -> list[PairwiseMoments]:
    """Moments of the verified variables in the written rows, one entry a stratum."""
    moments = [result["released"] for result in work.staging.results("write").read_all(cut.files, *COUNTED)]
    return [merge_all([each[at] for each in moments if at in each]) for at in range(len(fitted.strata.rows))]


def _staging_check(fitted: Fitted, *stages: TaskResults) -> StagingCheck:
    """Expected tallies of the staged rows, from the scan, and the tallies of the stages that read them."""
    table, strata, before_drop = expected_tallies(fitted.scan, fitted.cells, fitted.strata, fitted.job.strata.by)
    read = tuple(tuple(by_stratum(fitted, results, lambda r: r["tally"])) for results in stages)
    filled = tuple(at for at, name in enumerate(fitted.cells.names) if fitted.scan.columns[name].nulls == 0)
    reach = np.array([fitted.extremes.reach.get(name, 0.0) for name in fitted.cells.names])
    return StagingCheck(table, tuple(strata), read, before_drop, filled, reach)


def _of_method(
    work: Work, fitted: Fitted, cut: Cut, encoded: TaskResults, decoded: TaskResults
) -> GroupEvidence | MaskEvidence:
    """The evidence of the method: promises and counts."""
    groups, guarantee = learnt_groups(work, fitted, cut), fitted.procedure.guarantee
    if groups is None or guarantee is None:
        return _of_mask(work, fitted, cut, encoded, decoded)
    job, table, split = fitted.job, groups.whole, None
    if fitted.whole_units:
        split = split_units(work, cut, sum(result["units_by_group"] for result in decoded))
    return GroupEvidence(
        guarantee=guarantee,
        identical=fitted.procedure.identical_within_groups,
        asked=ClassConditions(**job.by_groups.sensitive.model_dump(exclude={"combine"})),
        smallest_group=min(result["smallest_group"] for result in decoded),
        smallest_units=None if fitted.unit is None else min(result["smallest_units"] for result in decoded),
        largest_share=None if fitted.unit is None else max(result["largest_share"] for result in decoded),
        split_units=split,
        grouped=groups.grouped,
        spread=groups.spread,
        bound=groups.loss_bound(job.k),
        classes=dict(zip((column.name for column in fitted.classes), table.classes, strict=True)),
        scopes=groups.scopes.tolist(),
    )


def _feature_columns(fitted: Fitted) -> tuple[int | None, ...]:
    """The column of features behind each variable of the view; None for none."""
    # Categories of an ordinal column are cut from its number.
    numbers = {block.position: block.start for block in fitted.features.numbers}
    columns: dict[tuple[int, int | None], int] = {
        (block.position, int(code)): block.start + at % block.width  # one may stand for two categories
        for block in fitted.features.categories
        for at, code in enumerate(block.codes)
        if block.width
    }
    places = ((variable.position, variable.category) for variable in fitted.view.variables)
    return tuple(columns.get(place, numbers.get(place[0])) for place in places)


def _of_mask(work: Work, fitted: Fitted, cut: Cut, encoded: TaskResults, decoded: TaskResults) -> MaskEvidence:
    method, scopes = fitted.procedure, scopes_of(fitted, cut)
    moments = [result["features"] for result in encoded]
    scoped = [merge_all(moments[scope.inside]) for scope in scopes]
    largest: list[FloatArray | None] = [None] * len(scopes)  # absolute values of the permuted axes
    if method.permutes:
        largest = [np.array([each["largest"] for each in axes]) for axes in _of_columns(work, fitted, cut)[0]]
    parts = zip(scoped, largest, _drawn_cells(work, fitted, cut), strict=True)
    targets = [_target(fitted, moments, most, len(scoped), changes) for moments, most, changes in parts]
    alike = [result["fewest_alike"] for result in decoded if result["fewest_alike"] is not None]
    return MaskEvidence(
        method=method.name,
        masked=targets,
        columns_changed=_columns_changed(work, fitted, cut, decoded) if method.exact_columns else None,
        fewest_alike=min(alike) if alike else None,
        groups=_kept_groups(work, cut) if method.recounts_group_moments else None,
    )


def _drawn_cells(work: Work, fitted: Fitted, cut: Cut) -> list[FloatArray | None]:
    """Of each scope how its small cells of two-way tables were drawn; None where they were not."""
    if fitted.procedure.decoder.shares is None:
        return [None] * len(scopes_of(fitted, cut))
    return [each.drawn for each in last_learnt(work, fitted, cut)]


def _target(
    fitted: Fitted, features: Moments, largest: FloatArray | None, tables: int, drawn: FloatArray | None
) -> Target:
    """The promised moments of the features of one scope."""
    width, expected = fitted.features.width, fitted.procedure.expected
    masked = Moments(features.n, features.mean[:width], features.scatter[:width, :width])
    promised = None if expected is None else expected(features, largest)
    return Target(masked, promised, tables, None if drawn is None else drawn[:width])


def _of_columns(work: Work, fitted: Fitted, cut: Cut) -> list[list[TaskResults]]:
    """Task results of channels, by pass over columns and scope."""
    scopes, results_of_passes = len(scopes_of(fitted, cut)), []
    for pass_ in fitted.procedure.head:
        if isinstance(pass_.step, Columns):
            stage = stage_name(pass_.number)
            channels = PassTask.read(work, stage).channels
            results = work.staging.results(stage).read_all(channels * scopes)
            results_of_passes.append([results[at * channels : (at + 1) * channels] for at in range(scopes)])
    return results_of_passes


def _columns_changed(work: Work, fitted: Fitted, cut: Cut, decoded: TaskResults) -> int:
    """The number of columns of features with other values than promised, without category scores."""
    width = fitted.features.width
    blocks = fitted.features.category_columns if fitted.procedure.returns_category_scores else ()
    scored = {column for block in blocks for column in block}
    guaranteed: dict[int, int] = {}
    for scopes in _of_columns(work, fitted, cut):
        for result in (channel for scope in scopes for channel in scope if channel.get("place", width) < width):
            [column_sum] = result["column_sums"]
            guaranteed[result["place"]] = (guaranteed.get(result["place"], 0) + column_sum) % 2**64
    released = [sum(sums) % 2**64 for sums in zip(*(result["column_sums"] for result in decoded), strict=True)]
    return sum(guaranteed[column] != released[column] for column in guaranteed if column not in scored)


def _kept_groups(work: Work, cut: Cut) -> KeptGroups:
    """Recounted moments of groups that span partitions."""
    strata: dict[int, list[RecordsAndDraws]] = {}
    for index, partition in enumerate(cut.partitions):
        strata.setdefault(partition.stratum, []).append(counted_groups(work, index))
    return KeptGroups.of(list(strata.values()))


def group_sizes(work: Work, fitted: Fitted, cut: Cut) -> Counter[int] | None:
    """Frequencies of group sizes; None without groups."""
    if (groups := learnt_groups(work, fitted, cut)) is not None:
        table = groups.whole
        return Counter(dict(zip(table.sizes.tolist(), table.groups.tolist(), strict=True)))
    return Counter(_kept_groups(work, cut).sizes) if fitted.procedure.recounts_group_moments else None


def release_warnings(work: Work, fitted: Fitted, cut: Cut) -> Warnings:
    """Warnings on released values for the steward; the shares disclose extremes and are not released."""
    warnings = Warnings(others=_beyond_original(work, fitted, cut))
    if (groups := learnt_groups(work, fitted, cut)) is not None:
        decoded = work.staging.results("decode").read_all(len(cut.partitions), *COUNTED)
        repeated = _repeated_rows(groups, sum(result["without_spread"] for result in decoded))
        warnings += Warnings(repeated + ([] if fitted.unit is None else _of_one_unit(fitted.unit, decoded)))
    return warnings


def _of_one_unit(unit: UnitColumn, decoded: TaskResults) -> list[str]:
    """Warn where one unit has most of the rows of a group, as the group's mean is then nearly its own."""
    if (share := max(result["largest_share"] for result in decoded)) <= REPEATED:
        return []
    return [
        f"one unit has {100 * share:.0f} % of the rows of a group, whose means are nearly its own. Column "
        f"{unit.name!r} has units of up to {unit.most:,} rows: aggregate or sample the rows of the largest units"
    ]


def _beyond_original(work: Work, fitted: Fitted, cut: Cut) -> list[str]:
    """Warn of the share of released values outside the original range, by column without bounds."""
    results = [result["beyond_original"] for result in work.staging.results("write").read_all(cut.files)]
    shares: dict[str, float] = {}
    for name in results[0] if results else ():
        beyond, values = (sum(result[name][at] for result in results) for at in (0, 1))
        if beyond:
            shares[name] = beyond / values
    columns = fitted.job.columns
    scored = {name: columns[name].scored or columns[name].role is Role.DERIVED for name in shares}
    return by_column(
        (
            name,
            f"{100 * shares[name]:.1f} %" if shares[name] >= 0.001 else "fewer than 0.1 %",
            _BEYOND + ("" if scored[name] else ", or leave out transform: normal scores keep the distribution"),
        )
        for name in sorted(shares, key=lambda name: -shares[name])
    )


_BEYOND = "released values lie below or above all original ones; declare bounds from the code book"


def _repeated_rows(groups: TableGroups, repeated: int) -> list[str]:
    """Warn where most rows lie in groups without spread, which are not masked."""
    rows = groups.whole.grouped.total.n
    if (share := repeated / max(1, rows)) <= REPEATED:
        return []
    noise = len(groups.factors) > 0 and repeated < rows
    how = "with no more than the noise that the other groups ask for" if noise else "nearly as they are"
    return [
        f"{100 * share:.0f} % of the rows lie in groups without any spread, as rows repeat, and are released {how}. "
        "Where one person has several rows, make one row per person first"
    ]


def _rows_under_k(work: Work, fitted: Fitted, cut: Cut) -> int:
    if not (names := fitted.unchanged_names):
        return 0
    cells, rows = combinations(work, cut)
    held: FloatArray | IntArray = rows if fitted.unit is None else _units_of(work, fitted, cut, cells)
    if fitted.job.disclosure is not None and fitted.job.disclosure.wildcard:
        nulls = [len(fitted.cells.categories[name]) for name in names]
        held = key_frequencies(with_nulls(cells, nulls), rows)
    return int(rows[held < fitted.job.k].sum())


def _units_of(work: Work, fitted: Fitted, cut: Cut, cells: FloatArray) -> IntArray:
    """The units of written combinations of unchanged columns, at most k; 0 for a new combination."""
    keys, units = key_units(work, fitted, cut)
    both = np.unique(np.concatenate([keys, cells]), axis=0, return_inverse=True)[1].reshape(-1)
    held = np.zeros(int(both.max()) + 1, dtype=np.int64)
    held[both[: len(keys)]] = units
    return np.asarray(held[both[len(keys) :]])
