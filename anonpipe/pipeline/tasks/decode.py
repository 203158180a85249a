"""Decode a partition to released rows, count and sample pairs of rows, and send the rows to output files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from anonpipe.encoding.cells import Tally
from anonpipe.encoding.features import Groups
from anonpipe.encoding.quantiles import Radix
from anonpipe.encoding.row_hash import exact_sums, row_numbers
from anonpipe.encoding.scores import Counted
from anonpipe.encoding.weights import Factors, Pieces, WeightCounts
from anonpipe.errors import DamagedError
from anonpipe.methods.grouping import largest_share, units_in_groups
from anonpipe.methods.masking import RecordsAndDraws
from anonpipe.moments import Moments
from anonpipe.partition.strata import UnitSets
from anonpipe.pipeline.arrays import (
    ADDED,
    FEATURES,
    FOLDER,
    LABELS,
    SYNTHETIC,
    assign_to_files,
    load_record,
    partition_cells,
    partition_units,
    read_channels,
    scope_of,
    shuffled,
)
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.evaluation.samples import SampleRows, keep_samples
from anonpipe.pipeline.procedure.record import Decoded, ScoredRows
from anonpipe.pipeline.tasks.passes import last_channels
from anonpipe.pipeline.tasks.route import ROUTED_WEIGHTS
from anonpipe.types import FloatArray, IntArray
from anonpipe.verify import original_values
from anonpipe.verify.original_values import ByChance, equal_by_chance, rows_without_spread, unchanged_records

_Fitted = TypeVar("_Fitted")

# Files in the staging, by partition or input split
_SCORED = FOLDER + "/scored-{}.record"
_SCORES = FOLDER + "/scores-{}.record"
_UNITS = "units/whole-{}.npy"
_KEY_UNITS = "units/keys-{}.record"
_GROUPS = FOLDER + "/groups-{}.record"


def score_partition(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Replace the records of a partition, and count their scores."""
    (scored, cells), scores = _made(work, fitted, cut, index), _needed(fitted.scores)
    work.staging.write_record(_SCORED.format(index), scored)
    counted = scores.count(scored.decoded.cells, fitted.procedure.decoder.restored)
    work.staging.write_record(_SCORES.format(index), counted)
    return {"rows": len(cells)}


def merge_scores(work: Work, cut: Cut) -> None:
    """Merge the counts of scores of all partitions; the driver does it once."""
    if not work.staging.has(_COUNTED):
        parts = (load_record(work, _SCORES.format(index), _KINDS) for index in range(len(cut.partitions)))
        work.staging.write_record(_COUNTED, reduce(lambda merged, part: merged.merge(part), parts))


_COUNTED = f"{FOLDER}/scores.record"
_KINDS = (ScoredRows, Decoded, Groups, Counted, Radix)


def _needed(fitted: _Fitted | None) -> _Fitted:
    """Normal scores or the survey weight, in stages that only such a run has."""
    if fitted is None:
        raise DamagedError("no column has normal scores, or the role sampling_weight; run again without --resume")
    return fitted


def _made(work: Work, fitted: Fitted, cut: Cut, index: int) -> tuple[ScoredRows, FloatArray]:
    """The rows of a partition as the method leaves them, and its cells."""
    channels, params = last_channels(work, fitted, cut, index)
    cells, part = partition_cells(work, fitted, cut, index), index - scope_of(fitted, cut, index).first
    decoded = fitted.procedure.decoder.decode(channels, cells, params, part, work.draws(index))
    return ScoredRows(decoded, channels[:, -1:]), cells


def _with_values(
    work: Work, fitted: Fitted, cut: Cut, index: int
) -> tuple[ScoredRows, FloatArray, tuple[FloatArray, FloatArray]]:
    """The scored rows with values by rank in the whole table, the cells, and `Scores.ties`."""
    scored: ScoredRows = load_record(work, _SCORED.format(index), _KINDS)
    decoder = fitted.procedure.decoder
    rng, scores = None if decoder.identical else work.rng("ranks", index), _needed(fitted.scores)
    cells = partition_cells(work, fitted, cut, index)
    as_ties = scores.ties(cells, scored.decoded.cells, decoder.restored)
    scores.put_values(scored.decoded.cells, load_record(work, _COUNTED, _KINDS), rng, decoder.restored)
    return scored, cells, as_ties


@dataclass(frozen=True, eq=False)
class _Unweighted:
    """The rows of a partition with all values but the survey weight's."""

    scored: ScoredRows
    as_ties: tuple[FloatArray, ...]  # `Scores.ties`; empty without normal scores
    repaired: tuple[int, ...]  # Rows that each rule was kept in; empty without rules
    moved: tuple[tuple[int, ...], ...] = ()  # `Kept.moved`; empty without rules


def _unweighted(work: Work, fitted: Fitted, cut: Cut, index: int) -> tuple[_Unweighted, FloatArray]:
    """The rows of a partition with values that keep the rules, and its cells."""
    as_ties: tuple[FloatArray, ...] = ()
    if fitted.scores is None:
        scored, cells = _made(work, fitted, cut, index)
    else:
        scored, cells, as_ties = _with_values(work, fitted, cut, index)
    if fitted.rules is None:
        return _Unweighted(scored, as_ties, ()), cells
    decoded = scored.decoded
    kept = fitted.rules.keep(decoded.cells, decoded.features, work.rng("rules", index))
    scored = replace(scored, decoded=replace(decoded, cells=fitted.rules.with_differences(kept.cells)))
    return _Unweighted(scored, as_ties, tuple(kept.repaired.tolist()), tuple(map(tuple, kept.moved.tolist()))), cells


def count_weights(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Replace the records of a partition but for the survey weight, and count weights of both tables."""
    made, cells = _unweighted(work, fitted, cut, index)
    work.staging.write_record(_MADE.format(index), made)
    work.staging.write_record(_WEIGHTS.format(index), _needed(fitted.weight).count(cells, made.scored.decoded.cells))
    return {"rows": len(cells)}


def calibrate(work: Work, fitted: Fitted, cut: Cut) -> None:
    """Find the factors of the survey weight from the counts of all partitions; the driver does it once."""
    if not work.staging.has(FACTORS):
        files = [_WEIGHTS.format(index) for index in range(len(cut.partitions))]
        routed = (ROUTED_WEIGHTS.format(unit) for unit in range(len(work.source.units)))
        files += [file for file in routed if work.staging.has(file)]
        parts = (load_record(work, file, (WeightCounts,)) for file in files)
        work.staging.write_record(FACTORS, _needed(fitted.weight).solve(reduce(WeightCounts.merge, parts)))


def drop_waiting(work: Work, cut: Cut) -> None:
    """Delete rows that waited for the counts of all partitions, scores or weights, and these counts."""
    for index in range(len(cut.partitions)):
        for file in (_SCORED, _SCORES, _MADE, _WEIGHTS):
            work.staging.file(file.format(index)).unlink(missing_ok=True)


_MADE = FOLDER + "/made-{}.record"
_WEIGHTS = FOLDER + "/weights-{}.record"
FACTORS = f"{FOLDER}/factors.record"


def _weighted(work: Work, fitted: Fitted, cut: Cut, index: int) -> tuple[_Unweighted, FloatArray]:
    """The rows of a partition with all values, and its cells."""
    if fitted.weight is None:
        return _unweighted(work, fitted, cut, index)
    made: _Unweighted = load_record(work, _MADE.format(index), (_Unweighted, *_KINDS))
    rng = None if fitted.procedure.decoder.identical else work.rng("weights", index)
    fitted.weight.put(made.scored.decoded.cells, load_record(work, FACTORS, (Factors, Pieces)), rng)
    return made, partition_cells(work, fitted, cut, index)


def decode_partition(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Replace the records of a partition, measure them, and send each to a random output file."""
    made, cells = _weighted(work, fitted, cut, index)
    decoded, channels, scope = made.scored.decoded, made.scored.channels, scope_of(fitted, cut, index)
    units = partition_units(work, fitted, cut, index)
    _count_units(work, fitted, index, decoded.cells, units)
    if fitted.procedure.recounts_group_moments:
        _count_groups(work, fitted, cut, index, decoded.features, channels[:, -1].astype(np.int64))
    members = _members_of(fitted, decoded, channels, cut.rows_before(index), cut.rows_before(scope.first))
    order, file_rows = shuffled(work, cut, index)
    sample_counts = keep_samples(
        work, fitted, cut, index, SampleRows(cells, _read(fitted, decoded), members, order, units)
    )
    arrays = {SYNTHETIC: decoded.cells, ADDED: decoded.added, LABELS: None if members is None else members[:, None]}
    assign_to_files(work, cut, index, order, {name: array for name, array in arrays.items() if array is not None})
    return {
        "rows": len(cells),
        "stratum": cut.partitions[index].stratum,
        "file_rows": file_rows.tolist(),
        "repaired": list(made.repaired),
        "moved": list(map(list, made.moved)),
        **sample_counts,
        **counted_rows(fitted, cells, decoded, made.as_ties, units),
        **(_in_groups(work, index, decoded.groupings, units) if units is not None and fitted.stages_units else {}),
    }


def _in_groups(work: Work, index: int, groupings: Sequence[Groups], units: IntArray) -> dict[str, Any]:
    """The fewest units of a group, and a unit's largest share of a group's rows, recounted from the staging."""
    distinct, codes = np.unique(units, return_inverse=True)
    codes = codes.reshape(-1)
    labels = [groups.spread(np.arange(len(groups.sizes))) for groups in groupings]
    if work.job.whole_units:
        work.staging.write_array(_UNITS.format(index), distinct)
    return {
        "units_by_group": max(int(units_in_groups(column, codes).sum()) for column in labels),
        "smallest_units": min(int(units_in_groups(column, codes).min()) for column in labels),
        "largest_share": max(largest_share(column, codes) for column in labels),
    }


def split_units(work: Work, cut: Cut, by_group: int) -> int:
    """The number of (unit, group) pairs beyond one for each unit, counted in ranges of bounded size."""
    units_of_partitions = [work.staging.read_array(_UNITS.format(index)) for index in range(len(cut.partitions))]
    ranges = max(1, sum(map(len, units_of_partitions)) // _MOST_UNITS)
    parts = ([units[units % ranges == at] for units in units_of_partitions] for at in range(ranges))
    return by_group - sum(len(np.unique(np.concatenate(part))) for part in parts)


_MOST_UNITS = 2**22  # Units of one range, about


def _count_units(work: Work, fitted: Fitted, index: int, cells: FloatArray, units: IntArray | None) -> None:
    """Write the units of each combination of unchanged columns, up to k."""
    if units is None or not fitted.unchanged_names:
        return
    combinations = cells[:, [fitted.cells.names.index(name) for name in fitted.unchanged_names]]
    distinct, which = np.unique(combinations, axis=0, return_inverse=True)
    sets = UnitSets.of(which.reshape(-1), units.astype(np.uint64), fitted.job.k)
    work.staging.write_record(_KEY_UNITS.format(index), (distinct, sets))


def key_units(work: Work, fitted: Fitted, cut: Cut) -> tuple[FloatArray, IntArray]:
    """Sorted combinations of the unchanged columns, and the units of each, at most k."""
    parts = [work.staging.read_record(_KEY_UNITS.format(at), UnitSets) for at in range(len(cut.partitions))]
    distinct, which = np.unique(
        np.concatenate([combinations for combinations, _ in parts]), axis=0, return_inverse=True
    )
    ends, sets = np.cumsum([len(combinations) for combinations, _ in parts]), UnitSets.none(fitted.job.k)
    for places, (_, unit_sets) in zip(np.split(which.reshape(-1), ends[:-1]), parts, strict=True):
        sets = sets.merge(unit_sets.moved(places))
    return distinct, sets.counts(len(distinct))


def _read(fitted: Fitted, decoded: Decoded) -> FloatArray:
    """Released rows as recipients measure them: cells, then probabilities."""
    if fitted.probabilities is None or decoded.added is None:
        return decoded.cells
    return np.concatenate([decoded.cells, decoded.added], axis=1)


def _members_of(
    fitted: Fitted, decoded: Decoded, channels: FloatArray, before: int, before_scope: int
) -> IntArray | None:
    """The group of each record, numbered uniquely in the table; None without groups."""
    members = fitted.procedure.members
    if members is None:
        return None
    if members == "alike":
        return row_numbers(_masked(fitted, decoded))
    labels = channels[:, -1].astype(np.int64)
    return np.asarray(labels + (before if members == "part" else before_scope))


def _masked(fitted: Fitted, decoded: Decoded) -> FloatArray:
    """The masked columns of released rows, with ends of intervals."""
    masked = decoded.cells[:, fitted.synthesized]
    return masked if fitted.procedure.decoder.intervals is None else np.concatenate([masked, decoded.added], axis=1)


def counted_rows(
    fitted: Fitted, cells: FloatArray, decoded: Decoded, as_ties: tuple[FloatArray, ...], units: IntArray | None
) -> dict[str, Any]:
    """Counts of a partition for the gates."""
    method, columns = fitted.procedure, fitted.synthesized
    before, k = cells[:, columns], fitted.min_rows
    both = [(cells, decoded.cells)] + ([as_ties] if as_ties else [])
    unchanged = (
        unchanged_records(original[:, columns], released[:, columns], g.order, g.starts, k)
        for original, released in both
        for g in decoded.groupings
    )
    smallest, without_spread = None, None
    if method.forms_groups:
        smallest = min(int(groups.sizes.min()) for groups in decoded.groupings)
        without_spread = min(rows_without_spread(before, g.order, g.starts) for g in decoded.groupings)
    of_persons = method.row_for_row and method.members is None
    kept = original_values.kept_records(before, decoded.cells[:, columns]) if of_persons and columns else ()
    # Without row-wise links, records equal original ones as another sample would, unless persons repeat.
    sampled = not method.row_for_row and fitted.job.rows_per_unit != "many"
    if sampled and units is not None:  # rows that equal another one of their unit count once
        before = before[np.unique(row_numbers(before, units), return_index=True)[1]]
    chance = equal_by_chance(before, k) if sampled else ByChance(0, 0)
    return {
        "synthesized": Moments.of(decoded.features),
        "tally": Tally.of(cells, fitted.cells),
        "as_they_were": max(unchanged),
        "by_chance": chance.rows,
        "chance_variance": chance.variance,
        "kept": list(kept),
        "without_spread": without_spread,
        "smallest_group": smallest,
        "fewest_alike": _fewest_alike(_masked(fitted, decoded)) if method.members == "alike" else None,
        "column_sums": exact_sums(decoded.features) if method.exact_columns else [],
    }


def _fewest_alike(cells: FloatArray) -> int:
    """The frequency of the rarest row; nulls are equal to each other."""
    marked = np.concatenate([np.nan_to_num(cells, nan=0.0), np.isnan(cells)], axis=1)
    return int(np.unique(marked, axis=0, return_counts=True)[1].min())


def _count_groups(work: Work, fitted: Fitted, cut: Cut, index: int, synthetic: FloatArray, labels: IntArray) -> None:
    """Recount original and synthetic features of each group, for the gate on group moments."""
    features = read_channels(work, fitted, cut, FEATURES, fitted.width, index)[:, : synthetic.shape[1]]
    work.staging.write_record(
        _GROUPS.format(index), RecordsAndDraws.of(features, np.ascontiguousarray(synthetic), labels)
    )


def counted_groups(work: Work, index: int) -> RecordsAndDraws:
    """Counts of original and synthetic features by group in a partition."""
    record: RecordsAndDraws = load_record(work, _GROUPS.format(index))
    return record
