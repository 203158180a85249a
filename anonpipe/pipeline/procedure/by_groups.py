"""The procedure of a job that replaces records group by group, with its checks before any work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from anonpipe.encoding.features import ClassColumn, Compound, class_columns, compound_of
from anonpipe.encoding.identifiers import UnitColumn, unit_line
from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.measurement import Reason
from anonpipe.job.model import Job
from anonpipe.methods.grouping import METHODS as GROUPINGS
from anonpipe.methods.grouping import unreachable
from anonpipe.methods.record import Features, Synthesizer
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.moments import least_free, scopes_of
from anonpipe.partition.strata import Strata
from anonpipe.pipeline.procedure.group_steps import GroupingChoice, GroupLayout, Synthesis, group_steps, synthesis_steps
from anonpipe.pipeline.procedure.record import (
    Decoder,
    Encoders,
    Procedure,
    RestoredTimes,
    options_text,
    refuse,
    small_groups,
)


def procedure(job: Job, encoders: Encoders, strata: Strata) -> Procedure:
    """The steps, the decoder and the guarantee of the job's grouping and synthesis."""
    features = encoders.describe_features(job.k, sum(strata.rows))
    warnings, classes = _checked(job, encoders, strata, features), _classes(job, encoders)
    layout, chosen, weights = _layout(job, encoders, classes), _synthesis(job, features), _weights(job, encoders)
    options, several = job.by_groups.cluster, layout.groupings > 1
    rows = options.block_rows
    method_options = {"block_rows": None if rows is None else max(rows, 3 * job.k), **options.own}
    before = group_steps(
        layout,
        GroupingChoice(options.method, method_options, options.effort, job.by_groups.sensitive.conditions),
        weights,
    )
    return Procedure(
        name=chosen.record.name,
        steps=(*before, *synthesis_steps(layout, chosen)),
        decoder=_decoder(job, encoders, layout, chosen.record),
        weights=weights,
        codes=classes,
        members=None if several else "part",
        identical_within_groups=chosen.record.identical_rows and job.decode.categories != "histogram",
        guarantee=chosen.guarantee,
        no_link=Reason.AVERAGED,
        no_groups=Reason.AVERAGED,
        no_bound=Reason.AVERAGED_UNDEFINED if several else None,
        lines=_lines(job, encoders),
        warnings=tuple(warnings),
    )


def _classes(job: Job, encoders: Encoders) -> tuple[ClassColumn | Compound, ...]:
    """The sensitive columns whose classes can mix in a group, and their combination if the grouping needs it."""
    columns = class_columns(encoders.cells, encoders.scan, job.sensitive_columns)
    methods = job.by_groups
    if not GROUPINGS[methods.cluster.method].classes or methods.sensitive.combine == "average":
        return columns
    return (*columns, compound_of(encoders.cells, encoders.scan, columns))


def _layout(job: Job, encoders: Encoders, classes: tuple[ClassColumn | Compound, ...]) -> GroupLayout:
    n_sensitive = len(job.sensitive_columns)
    grouped_by: tuple[int, ...] = ()
    if GROUPINGS[job.by_groups.cluster.method].classes:
        average = job.by_groups.sensitive.combine == "average"
        grouped_by = tuple(range(n_sensitive)) if average else (n_sensitive,)
    return GroupLayout(
        k=job.k,
        width=encoders.features.width,
        conditioning=encoders.conditioning.width,
        shares=tuple(column.shares for column in classes),
        n_sensitive=n_sensitive,
        grouped_by=grouped_by,
        numbers=encoders.features.number_columns,
        min_rows=None if encoders.unit is None else encoders.unit.sure,
        whole=encoders.unit is not None and job.whole_units,
    )


def _weights(job: Job, encoders: Encoders) -> Any:
    options = job.by_groups.cluster
    response = None
    if job.time_column is not None and options.response_weight is not None:
        response = job.time_column, options.response_weight
    return encoders.features.distance_weights(response, options.distance)


def _synthesis(job: Job, features: Features) -> Synthesis:
    chosen = job.by_groups.synthesize
    record = SYNTHESIZERS[chosen.method]
    if record.guarantee is None:
        raise TypeError(f"{record.name} guarantees nothing and is not for jobs")
    arguments = record.own(chosen) | record.follows(chosen, features)
    return Synthesis(record, chosen, arguments, record.guarantee(chosen), features.rows)


def _decoder(job: Job, encoders: Encoders, layout: GroupLayout, synthesizer: Synthesizer) -> Decoder:
    times = None
    if job.decode.restore_survival_times:
        position = encoders.cells.names.index(str(job.time_column))
        grid = encoders.cells.grid(position)
        times = RestoredTimes(position, (grid.low, grid.high), job.decode.jitter_restored_times)
    return Decoder(
        features=encoders.features.on_scores,
        conditioning=layout.conditioning,
        how=job.decode.of_cells,
        groups="labels",
        labels_at=layout.labels_at,
        identical=synthesizer.identical_rows,
        rounded=encoders.rounded,
        probabilities=encoders.probabilities,
        times=times,
    )


def _checked(job: Job, encoders: Encoders, strata: Strata, features: Features) -> list[str]:
    """Refuse options that the columns or the strata do not allow; returns warnings."""
    methods = job.by_groups
    if encoders.unit is not None:
        _check_units(job, encoders.unit)
    refuse(SYNTHESIZERS[methods.synthesize.method], methods.synthesize, features)
    refuse(GROUPINGS[methods.cluster.method], methods.cluster, features)
    if encoders.unit is not None and job.whole_units:
        wider = replace(features, width=features.width + 1)
        if problem := GROUPINGS[methods.cluster.method].refuses(methods.cluster, wider):
            raise JobError(f"cluster.units: whole adds the rows of a unit as a column: {problem}")
    _check_classes(job, encoders, strata)
    chosen = _synthesis(job, features)
    exact = chosen.guarantee.scope == "group"
    warnings = small_groups(job.k, features.width, chosen.record.name) if exact else []
    return warnings + _shared_noise(job, chosen, strata, features.width)


def _check_units(job: Job, unit: UnitColumn) -> None:
    """Refuse options that count rows inside groups where k counts units."""
    counts_rows = []
    if GROUPINGS[job.by_groups.cluster.method].classes:
        counts_rows.append(f"cluster.method {job.by_groups.cluster.method}")
    counts_rows += [f"sensitive.{name}" for name in ("l_diversity", "t_closeness") if getattr(job.sensitive, name)]
    if job.decode.restore_survival_times:
        counts_rows.append("decode.restore_survival_times")
    if any(scenario.tolerance for scenario in job.measure.scenarios):
        counts_rows.append("measure.scenarios with a tolerance")
    if counts_rows:
        raise JobError(
            f"{' and '.join(counts_rows)} would count rows, but column {unit.name!r} has units of up to "
            f"{unit.most:,} rows. Make one row of each unit, or leave the option out (methods without classes, such as "
            "mdav, form groups of k units)"
        )


def _shared_noise(job: Job, chosen: Synthesis, strata: Strata, width: int) -> list[str]:
    """Warn of strata too small for noise with their own covariance: numbers, no value."""
    if chosen.record.noise is None or chosen.guarantee.scope == "table" or len(strata.rows) < 2:
        return []
    scopes = scopes_of([rows - rows // job.k for rows in strata.rows], width)
    shared = sum(scopes.count(scope) > 1 for scope in scopes)
    if not shared:
        return []
    return [
        f"{shared:,} of {len(strata.rows):,} strata may share the covariance of their noise, as its estimate "
        f"needs {least_free(width)} records beyond the groups of a stratum. Small strata join the next larger ones; "
        "means and covariances are then preserved for these strata together"
    ]


def _check_classes(job: Job, encoders: Encoders, strata: Strata) -> None:
    """Refuse conditions on classes that a stratum breaks even as one group."""
    classes = job.by_groups.sensitive
    for column in class_columns(encoders.cells, encoders.scan, job.sensitive_columns) if classes.conditions else ():
        counted = encoders.scan.combination_counts(encoders.cells, (*job.strata.by, column.name))
        table = counted.reshape(-1, len(column.shares))
        for stratum, rows in enumerate(strata.rows):
            counts = table[np.asarray(strata.stratum) == stratum].sum(axis=0)
            problem = unreachable(counts, column.shares, **classes.conditions)
            if problem:
                where = f"stratum {stratum + 1} ({rows:,} records)" if len(strata.rows) > 1 else "the whole table"
                raise InputError(
                    f"column {column.name!r}: {where} breaks the condition on classes even as one group: {problem}; "
                    "loosen the condition, or stratify without this column"
                )


def _lines(job: Job, encoders: Encoders) -> tuple[tuple[str, str], ...]:
    """The method as `anonpipe plan` shows it."""
    cluster, synthesize = job.by_groups.cluster, job.by_groups.synthesize
    sensitive, unit = ", ".join(job.sensitive_columns), encoders.unit
    return (
        *([] if unit is None else [("unit", unit_line(unit, job.k))]),
        ("group", f"{cluster.method}, k = {job.k}{options_text(cluster)}"),
        *([("sensitive", f"{sensitive}{options_text(job.by_groups.sensitive)}")] if sensitive else []),
        ("synthesize", synthesize.method + options_text(synthesize)),
    )
