"""The facts of a finished run: for its reports and for its manifest."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from anonpipe.columns import TRANSFORMS, Role
from anonpipe.encoding.identifiers import Repeats
from anonpipe.encoding.values import numbers
from anonpipe.environment import package_versions
from anonpipe.evaluate.utility import correlation_changes, distributions, survival_pictures, typed_tables
from anonpipe.job.analyses import endpoints_of
from anonpipe.job.sections import COPY
from anonpipe.methods.masking import Transitions
from anonpipe.moments import merge_all
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.evaluation.known import typed
from anonpipe.pipeline.evaluation.measures import Tables, for_recipients, load_assessment, sampled_tables
from anonpipe.pipeline.evaluation.samples import read_samples, wanted_rows
from anonpipe.pipeline.outcome.evidence import COUNTED, group_sizes, original_moments, released_moments
from anonpipe.pipeline.resolve import columns_without_sums, small_strata, unpreserved_for_recipients
from anonpipe.pipeline.tasks.passes import last_learnt
from anonpipe.pipeline.tasks.unfold import manifest_of_rows, published_moments, published_sample, units_part
from anonpipe.pipeline.tasks.write import written_results
from anonpipe.pipeline.units import Folded
from anonpipe.report.build import Facts
from anonpipe.report.compared import Measured, category_pictures, compared
from anonpipe.rng import steward_secret
from anonpipe.source import Labels
from anonpipe.storage import release
from anonpipe.storage.release_log import secret_mark
from anonpipe.verify.output_control import bins_for_recipients, bins_for_steward, group_size_histogram, released_checks
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import line


def gather(
    work: Work, fitted: Fitted, cut: Cut, verdict: Verdict, warnings: tuple[str, ...], overlaps: bool
) -> tuple[Facts, dict[str, Any]]:
    """The facts of a run that its reports show, and the manifest of the published rows."""
    job, tables = fitted.job, _pictured(work, fitted, cut)
    listed = manifest(work, fitted, cut, verdict)
    of_rows = manifest_of_rows(work, fitted, cut, listed)
    pictures: dict[str, Any] = {"distributions": {}, "survival": {}, "correlations": None, "pictured": 0}
    if tables is not None and len(tables[0]):
        (before, after, every), left_out = tables, job.limited.values()
        kinds = {name: every[name] for name in fitted.input.names if name in every and name not in left_out}
        samples = typed_tables(before, after, kinds)
        recipients, endpoints = bins_for_recipients(job.k, fitted.coarse_min_rows), endpoints_of(job)
        bins = {"internal": bins_for_steward(fitted.min_rows), "external": recipients}
        pictures = {
            "distributions": {audience: distributions(samples, limits) for audience, limits in bins.items()},
            "survival": {audience: survival_pictures(samples, endpoints, limits) for audience, limits in bins.items()},
            "correlations": correlation_changes(samples),
            "pictured": len(before),
        }
    facts = Facts(
        job=job,
        digest=next((each.digest for each in (work.folded, work.controlled) if each is not None), ""),
        least=fitted.coarse_min_rows,
        verdict=verdict,
        assessment=load_assessment(work),
        warnings=warnings,
        overlaps=overlaps,
        partitions=len(cut.partitions),
        constant=() if fitted.unit is None else fitted.unit.constant,
        identical=fitted.procedure.identical_within_groups,
        rules=of_rows.get("rules", ()),
        units=units_part(work, cut),
        columns=of_rows["columns"],
        files=of_rows["files"],
        not_kept=listed.get("not_kept", ()),
        **{name: listed[name] for name in ("created", "anonpipe", "rows", "group_sizes")},
        **_of_all_records(work, fitted, cut),
        **pictures,
    )
    return facts, of_rows


def _pictured(work: Work, fitted: Fitted, cut: Cut) -> Tables | None:
    """The sampled tables; of linked units with their rows as they are published, which are of other records."""
    folded = _linked(work)
    if folded is None or not wanted_rows(fitted.job, cut.rows):
        return sampled_tables(work, fitted, cut)
    columns = zip(fitted.cells.names, fitted.cells.columns, strict=True)
    kinds = {name: column.kind for name, column in columns if name in folded.names}
    (original,) = read_samples(work, cut, "original")
    sample = original, published_sample(work, fitted, cut, len(original))
    places = [fitted.cells.names.index(name) for name in kinds]
    before, after = (typed(fitted.cells, cells[:, places], tuple(kinds)) for cells in sample)
    return before, after, kinds


def _linked(work: Work) -> Folded | None:
    """The units of the run, if they are linked."""
    return work.folded if work.folded is not None and work.folded.layout.linked else None


def _of_all_records(work: Work, fitted: Fitted, cut: Cut) -> dict[str, Any]:
    """Figures of all records of both tables; without columns released as probabilities."""
    released, left_out = fitted.job.released, {*fitted.job.as_probabilities, *fitted.job.differences}
    folded, names = _linked(work), [name for name in fitted.input.names if name in released and name not in left_out]
    columns = {name: released[name] for name in names if folded is None or name in folded.names}
    levels = {
        name: categories.to_pylist() if columns[name].kind.coded else numbers(categories)
        for name, categories in fitted.cells.categories.items()
        if name in columns
    }
    made = published_moments(work, cut) if folded else merge_all(released_moments(work, fitted, cut))
    measured = Measured(fitted.view, merge_all(original_moments(work, fitted, cut)), made)
    shared = measured, columns, levels, _before(fitted)
    scanned = work.staging.results("scan").read_all(len(work.source.units), Repeats)
    held_out = sum(result["held_out"] for result in scanned)
    return {
        "compared": compared(*shared, fitted.min_rows).model_copy(update={"held_out": held_out}),
        "categories": category_pictures(*shared, bins_for_steward(fitted.min_rows)),
    }


def _before(fitted: Fitted) -> dict[str, list[int]]:
    """Records of each code before suppression and merging of strata, by column."""
    strata, names, scan = fitted.strata, fitted.job.strata.by, fitted.scan
    if not names or strata.recoded == tuple(range(len(strata.recoded))):
        return fitted.suppression.before
    kept_counts = np.where(np.asarray(strata.stratum) >= 0, scan.combination_counts(fitted.cells, names), 0)
    counts = kept_counts.reshape([len(scan.code_counts(name)) for name in names])
    counts_before = dict(fitted.suppression.before)
    for at, name in enumerate(names):
        counts_of_column = counts.sum(axis=tuple({*range(len(names))} - {at}))
        codes = len(fitted.cells.categories[name])
        counts_before[name] = [*counts_of_column[:codes].tolist(), int(counts_of_column[codes:].sum())]
    return counts_before


# --- Manifest


def manifest(work: Work, fitted: Fitted, cut: Cut, verdict: Verdict) -> dict[str, Any]:
    """The manifest for recipients: nothing secret, no count under k, no path of the input."""
    job = fitted.job
    written = written_results(work, cut)
    columns, sizes = _columns(fitted), group_sizes(work, fitted, cut)
    for name, of_strata in _transitions(work, fitted, cut).items():
        columns[name] |= of_strata
    for name, done in () if work.controlled is None else work.controlled.facts["columns"].items():
        columns[name]["recoding"] = ", ".join(f"{what.replace('_', ' ')} {value}" for what, value in done.items())
        if columns[name]["treatment"] == "unchanged":
            columns[name]["treatment"] = "recoded"
    checks = released_checks(verdict, job.k, cut.released, job.repeat.growing, fitted.coarse_min_rows)
    transforms = {entry["transform"] for entry in columns.values() if "transform" in entry}
    coarse = fitted.unit is not None or job.repeat.growing
    sections = {"cluster", "sensitive", "synthesize", "mask", "decode"} if job.replaces else set()
    lost = for_recipients(job, load_assessment(work), fitted.coarse_min_rows) + unpreserved_for_recipients(fitted)
    lost += small_strata(fitted) + (() if work.folded is None else (work.folded.left_out_for_recipients(job.k),))
    return {
        "anonpipe": package_versions()["anonpipe"],
        "secret_mark": secret_mark(steward_secret()),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": cut.released * job.release.copies,
        **({"copies": job.release.copies} if job.release.copies > 1 else {}),
        "k": job.k,
        "rows_per_unit": job.rows_per_unit if fitted.unit is None else "several",
        "k_counts": "rows" if fitted.unit is None else "units of several rows",
        "methods": {
            name: options for name, options in job.model_dump(mode="json", include=sections).items() if options
        },
        **({"held_out": job.measure.held_out} if job.measure.held_out else {}),
        **({"counts_rounded_to": job.fewest_changed} if job.repeat.growing else {}),
        **({} if work.controlled is None else {"disclosure": work.controlled.facts}),
        **({"rules": _rules(work, fitted, cut)} if job.rules else {}),
        "schema": release.describe_schema(fitted.schema),
        "columns": columns,
        **({"not_kept": lost} if lost else {}),
        "transforms": {name: text for name, text in TRANSFORMS.items() if name in transforms},
        "group_sizes": None if sizes is None else group_size_histogram(sizes, job.k, coarse),
        "verdict": {
            "verdict": replace(verdict, checks=checks).word,
            "checks": [line(entry).to_dict() for entry in checks],
        },
        "versions": {name: text for name, text in package_versions().items() if name != "anonpipe"},
        "files": [{key: result[key] for key in ("name", "rows", "bytes", "sha256")} for result in written],
    }


def _rules(work: Work, fitted: Fitted, cut: Cut) -> list[dict[str, Any]]:
    """Each rule between columns, with the synthetic rows that were repaired, and the written ones that break it."""
    results = (one.staging.results("decode").read_all(len(cut.partitions), *COUNTED) for one in work.copies)
    repaired = np.sum([result["repaired"] for decoded in results for result in decoded], axis=0).tolist()
    broken = np.sum([result["rules_broken"] for result in written_results(work, cut, *COUNTED)], axis=0).tolist()
    return [
        {"rule": rule.text, "repaired": before, "broken": after}
        for rule, before, after in zip(fitted.job.parsed_rules, repaired, broken, strict=True)
        if rule.text  # that of a spike has none
    ]


def _transitions(work: Work, fitted: Fitted, cut: Cut) -> dict[str, dict[str, Any]]:
    """By column drawn by `pram`: its categories, and of each stratum the matrix from original to released ones."""
    if fitted.job.mask is None or fitted.job.mask.method != "pram":
        return {}
    by, plain = fitted.job.strata.by, (bool, int, float, str)  # others, such as dates, as texts
    known = {
        name: [*(each if isinstance(each, plain) else str(each) for each in categories.to_pylist()), None]
        for name, categories in fitted.cells.categories.items()
    }
    of_strata = fitted.strata.codes() if fitted.procedure.by_stratum and by else [None]
    where = [{name: known[name][code] for name, code in zip(by, codes or (), strict=False)} for codes in of_strata]
    learnt: list[Transitions] = last_learnt(work, fitted, cut)
    blocks = [block for block in fitted.features.categories if block.width]
    found, nulls = {}, len(fitted.features.category_columns) - len(blocks)  # of numbers, which come first
    for at, block in enumerate(blocks, nulls):
        matrices = [
            {"stratum": stratum, "matrix": each.matrices[at].round(6).tolist()}
            for stratum, each in zip(where, learnt, strict=True)
        ]
        categories = [known[block.name][code] for code in block.codes]
        found[block.name] = {"transition": {"categories": categories, "strata": matrices}}
    return found


def _columns(fitted: Fitted) -> dict[str, dict[str, Any]]:
    """Kind and treatment of each released column, in its order."""
    info: dict[str, dict[str, Any]] = {}
    restored, lost, spikes = fitted.procedure.decoder.restored, columns_without_sums(fitted), fitted.job.spikes
    for at, (name, column) in enumerate(zip(fitted.cells.names, fitted.cells.columns, strict=True)):
        info[name] = {"kind": column.kind.value, "treatment": "unchanged" if column.role.unchanged else "synthetic"}
        if column.role is Role.SAMPLING_WEIGHT:
            info[name]["survey_weight"] = {"by": list(column.by), "calibrated": list(column.calibrate)}
        elif column.can_be_scored and at not in restored:
            info[name]["transform"] = column.transform or "none"
        elif name in spikes:
            info[name]["transform"] = fitted.job.columns[spikes[name]].transform or "none"
        if name in lost or spikes.get(name) in lost:
            info[name]["sum"] = "not kept"
        info[name] |= _labels(fitted, name)
    info |= {field.name: {"treatment": "end of an interval"} for field in fitted.added}
    if fitted.probabilities is not None:
        info |= fitted.probabilities.described()
    info |= {} if fitted.replicates is None else fitted.replicates.described
    info.setdefault(COPY, _NUMBER_OF_COPY)
    return {name: info[name] for name in fitted.schema.names}


_NUMBER_OF_COPY = {
    "kind": "integer", "treatment": "number of the copy", "label": "Synthetic copy that the row is of"
}  # fmt: skip


def _labels(fitted: Fitted, name: str) -> dict[str, Any]:
    """Label and unit of a column, as the job or the input has them, and codes of its released categories."""
    column, labels = fitted.job.columns.get(name), fitted.labels.get(name, Labels())
    label, unit = (None, None) if column is None else (column.label, column.unit_of_measure)
    released: list[Any] = []
    if (categories := fitted.cells.categories.get(name)) is not None:
        released = categories.filter(fitted.scan.code_counts(name)[: len(categories)] > 0).to_pylist()
    codes = {text: labels.codes[text] for text in released if text in labels.codes}
    found = {"label": label or labels.text, "unit_of_measure": unit, "codes": codes}
    return {key: value for key, value in found.items() if value}
