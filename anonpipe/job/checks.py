"""What must fit together in a job beyond each of its sections."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from anonpipe.columns import MOST_COUNTED, Kind, Role
from anonpipe.errors import JobError
from anonpipe.files import absolute
from anonpipe.job.disclosure import check_disclosure
from anonpipe.job.sections import COPY
from anonpipe.methods.grouping import METHODS as GROUPINGS
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.verify.catalogue import MEASURED

if TYPE_CHECKING:
    from anonpipe.job.model import Job

_LOCAL = ("file://", "local://")


def check_sections(job: Job) -> None:
    """Check the sections of a job against each other: of several problems the first in this order is reported."""
    for check in (
        _strata, _design, _units, _pseudonyms, _growth, _reports, _cluster, _mask, _weights, _sampling_weight,
        _sensitive, _analyses, _scenarios, _relative_survival, _gates, _copies, check_disclosure,
    ):  # fmt: skip
        check(job)


def _strata(job: Job) -> None:
    """Strata are of columns that are released unchanged, and times are restored where there are some."""
    for name in job.strata.by:
        if name not in job.columns:
            raise ValueError(f"strata.by names {name!r}, which is not among the columns: {', '.join(job.columns)}")
        if not job.columns[name].role.unchanged:
            raise ValueError(
                f"strata.by names {name!r}, whose role is {job.columns[name].role.value}; "
                "strata need a column that is released unchanged (survival_status, key or sensitive)"
            )
    if job.strata.use_event and job.event_column not in job.strata.by:
        raise ValueError("strata.use_event needs the survival_status column in strata.by")
    if job.decode.restore_survival_times and job.time_column is None:
        raise ValueError("decode.restore_survival_times needs a column with role survival_time")
    if job.decode.jitter_restored_times and not job.decode.restore_survival_times:
        raise ValueError("decode.jitter_restored_times needs decode.restore_survival_times: true")


def _copies(job: Job) -> None:
    """Copies have draws of their own, and nothing that is a person's stands in several of them."""
    if job.release.copies == 1:
        return
    if not job.replacing.redraws:
        able = [name for name, method in (MASKERS | SYNTHESIZERS).items() if method.redraws]
        raise ValueError(
            f"release.copies is {job.release.copies}, and {job.replacing.name} makes no independent draws: rows of "
            f"several copies would be averaged to those of the original, or all be equal; take {', '.join(able)}"
        )
    for given, what in (
        (job.decode.restore_survival_times, "decode.restore_survival_times"),
        (job.repeat.growing, "repeat.growing"),
        (job.whole_release, "release.unit: pseudonym"),
    ):
        if given:
            raise ValueError(f"release.copies above 1 does not go with {what}; leave out either")
    if COPY in job.columns:
        raise ValueError(
            f"release.copies adds a column {COPY!r}, which the table has; rename that, or leave copies out"
        )


def _units(job: Job) -> None:
    """Units are named where k counts them."""
    if job.rows_per_unit == "many" and job.unit_declared:
        raise ValueError(
            "rows_per_unit many says that k counts rows, and role unit that it counts units; leave out either"
        )
    if job.whole_units and job.unit_column is None:
        raise ValueError(
            "cluster.units: whole keeps all rows of a unit in one group: give the column that names the unit role "
            "unit, and leave out rows_per_unit: many"
        )


def _pseudonyms(job: Job) -> None:
    """Units that are released whole are records, which the methods mask one by one."""
    if not job.whole_release:
        if job.release.order is not None:
            raise ValueError("release.order orders the rows of units that are released whole: give unit: pseudonym too")
        return
    masker = None if job.mask is None else MASKERS[job.mask.method]
    problems = {
        "needs the column that names the unit: give it role unit": not job.unit_declared,
        "does not go with repeat.growing, whose units have one row each": job.repeat.growing,
        "makes every unit one record; leave out cluster.units: whole": job.whole_units,
        "needs rows of single units, and the methods of this job release rows of groups, intervals or probabilities; "
        "take mask local_synthesis": job.replacing.identical_rows
        or (masker is not None and masker.own_scale)
        or job.decode.categories == "probabilities",
    }
    for problem in (text for text, there in problems.items() if there):
        raise ValueError(f"release.unit: pseudonym {problem}")
    _order(job)
    _levels(job)


def _levels(job: Job) -> None:
    """What a unit has several of can only be masked."""
    one = [name for name, column in job.columns.items() if column.level == "unit"]
    named: dict[str, list[str]] = {"strata.by": list(job.strata.by)}
    for name, column in job.released.items():
        named |= {f"columns.{name}.{key}": list(getattr(column, key)) for key in ("by", "calibrate")}
        if column.role not in (Role.MASKED, Role.DERIVED):
            named.setdefault(f"role {column.role.value}", []).append(name)
    named |= {f"analysis {each.name!r}": list(job.columns_of(each)) for each in job.analyses}
    for where, names in named.items():
        if several := [name for name in names if name not in one]:
            raise ValueError(
                f"{where} takes {several[0]!r}, which may differ within a unit. With release.unit: pseudonym a record "
                "is a unit: give the column level: unit if a unit has one value of it; else role masked, or leave it "
                "out here (anonpipe evaluate fits models of rows to both tables)"
            )
    for rule in job.parsed_rules:
        if rule.derives and rule.target in one and any(name not in one for name in rule.names):
            raise ValueError(
                f"rule {rule.text!r} derives {rule.target!r}, which has level: unit, from columns that differ within "
                "a unit; remove the rule, or compute the column in the input"
            )


def _order(job: Job) -> None:
    """The column that orders the rows of a unit differs within it, and is masked as its first value and gaps."""
    order = job.release.order
    if order is None:
        return
    column = job.columns.get(order)
    if column is None or column.role.names_persons or column.level == "unit":
        what = "is no column of the job" if column is None else "has one value in a unit, or names it"
        raise ValueError(f"release.order names {order!r}, which {what}; give a number or a date")
    if column.role.released and column.kind.coded:
        raise ValueError(
            f"release.order names {order!r}, which is {column.kind.value}: its order is not kept; give a number or a "
            "date. Of texts such as 2020Q1 add their first days to the input as a date, and drop the texts"
        )
    if column.role is Role.DERIVED:
        rule = next(rule for rule in job.parsed_rules if rule.derives and rule.target == order)
        other = rule.terms[0][0]
        turned = {
            "order": f"write {order} {'>=' if rule.sign > 0 else '<='} {other}",
            "limit": f"name another column first ({other} + {order} <= …)",
        }.get(rule.kind, "write it so that it derives another column")
        raise ValueError(
            f"rule {rule.text!r} derives {order!r}, which release.order names, and its order is not kept; remove the "
            f"rule, or {turned}"
        )


def _growth(job: Job) -> None:
    """A growing table has units, and nothing exact is counted of it."""
    if not job.repeat.growing:
        return
    if job.unit_column is None:
        raise ValueError(
            "repeat.growing counts the persons who joined, left or changed: give the column that names them role "
            "unit, or role identifier to no other column, and leave out rows_per_unit: many"
        )
    if job.mask is not None and job.mask.method == "pram":
        raise ValueError("repeat.growing does not go with mask pram, whose matrices give exact counts; take another")
    if job.decode.restore_survival_times:
        raise ValueError(
            "repeat.growing does not go with decode.restore_survival_times, which releases true times: the "
            "difference of two releases would have those of single persons"
        )
    if exact := job.unchanged_outside_strata:
        raise ValueError(
            "repeat.growing rounds what is counted in each stratum, and of columns that are released unchanged and "
            f"are in no strata.by the counts would be exact: {', '.join(exact)}; mask or drop them, or put them "
            "into strata.by"
        )
    if job.repeat.min_changed is not None and job.repeat.min_changed < job.k:
        raise ValueError(f"repeat.min_changed is {job.repeat.min_changed}, and k={job.k}; give k or more")


def _reports(job: Job) -> None:
    """Internal reports lie where recipients do not come; probabilities are of some column."""
    place = job.report.internal
    if place is None and "://" in job.output and not job.output.startswith(_LOCAL):
        raise ValueError(
            f"output {job.output!r} is an object store, where recipients would find the internal reports too: "
            "give report.internal, a folder or URL that only stewards can read"
        )
    if place is not None and (_inside(place, job.output) or _inside(job.output, place)):
        raise ValueError(
            f"report.internal {place!r} and output {job.output!r} lie inside each other; give a place that "
            "recipients of the releases cannot read"
        )
    if job.decode.categories == "probabilities" and not job.as_probabilities:
        raise ValueError("decode.categories probabilities needs a masked column of kind categorical or binary")


def _cluster(job: Job) -> None:
    """Distances find what they need of the columns."""
    if job.cluster is None:
        return
    weight = job.cluster.response_weight
    explicit = weight is not None and weight != type(job.cluster).model_fields["response_weight"].default
    if explicit and job.time_column is None:
        raise ValueError("cluster.response_weight needs a column with role survival_time: the response")
    for name, column in job.columns.items() if job.cluster.distance == "range" else ():
        if column.scored:
            raise ValueError(
                f"cluster.distance is range, and column {name!r} is masked by normal scores, which have no range; take "
                "distance z_score, or transform: none"
            )
        if column.can_be_scored and None in column.numeric_bounds:
            raise ValueError(
                f"cluster.distance is range, and column {name!r} has no bounds; declare bounds: [low, high] from the "
                "code book, or take distance z_score"
            )


def _mask(job: Job) -> None:
    """Nothing is asked of a mask that only groups have."""
    if job.mask is None:
        return
    if job.decode.restore_survival_times:
        raise ValueError(
            "decode.restore_survival_times restores times inside groups, and a mask has none; set it to false"
        )
    if job.decode.categories == "histogram":
        raise ValueError("decode.categories histogram permutes inside groups, and a mask has none; take another")
    masker = MASKERS[job.mask.method]
    if problem := masker.decodings.get(job.decode.categories) or masker.check_columns(job.mask, job.columns):
        raise ValueError(problem)


def _weights(job: Job) -> None:
    """Weights are of masked columns."""
    for name, column in job.columns.items():
        if column.weight != 1.0 and not column.role.synthesized:
            raise ValueError(
                f"column {name!r} has a weight and role {column.role.value}: weights are for distances between "
                "the columns that are masked; remove it"
            )


def _sampling_weight(job: Job) -> None:
    """A survey weight follows from categories that are released, and its sums may be released."""
    name = job.weight_column
    if name is None:
        return
    column = job.columns[name]
    for key in ("by", "calibrate"):
        for other in getattr(column, key):
            known = job.columns.get(other)
            if known is None or not known.role.released or not known.countable or other in job.as_probabilities:
                raise ValueError(
                    f"columns.{name}.{key} names {other!r}, which is no column of categories that is released; give "
                    "columns of kind categorical, binary or ordinal, or released unchanged, or of kind integer with "
                    f"bounds at most {MOST_COUNTED} apart"
                )
    if job.mask is not None and MASKERS[job.mask.method].own_scale:
        raise ValueError(
            f"column {name!r} has role sampling_weight, and mask {job.mask.method} releases intervals, which are no "
            "weights; take mask local_synthesis"
        )
    if job.repeat.growing:
        raise ValueError(
            f"repeat.growing does not go with role sampling_weight, which has exact sums ({name!r}): the difference of "
            "two releases would disclose the weights of those that joined; drop the weight"
        )
    if any(rule.derives and rule.target == name for rule in job.parsed_rules):
        raise ValueError(f"a rule derives {name!r}, whose role is sampling_weight; give by, or no rule")


def _sensitive(job: Job) -> None:
    """What is asked of sensitive columns can be held by the methods."""
    if job.mask is not None:
        return
    options, asked, synthesize = job.by_groups.cluster, job.by_groups.sensitive, job.by_groups.synthesize
    by_classes = GROUPINGS[options.method].classes
    if (by_classes or asked.conditions) and not job.sensitive_columns:
        whose = f"cluster.method {options.method}" if by_classes else "sensitive.l_diversity or t_closeness"
        raise ValueError(f"{whose} needs a column with role sensitive that is not in strata.by")
    if by_classes and options.effort is not None:
        raise ValueError(
            f"cluster.refine does not look at sensitive values and would undo what {options.method} does; "
            "set it to false"
        )
    if asked.combine == "average":
        if not by_classes or len(job.sensitive_columns) < 2:
            raise ValueError(
                "sensitive.combine: average needs a method that mixes sensitive values, and two columns to mix"
            )
        if not SYNTHESIZERS[synthesize.method].averages(synthesize):
            raise ValueError(
                "sensitive.combine: average needs synthesize.method centroid, or micro_perturbation with form "
                "independent: the moments of one group mean nothing where a record is in several"
            )
        if asked.conditions:
            raise ValueError("sensitive.combine: average has no single grouping to hold l_diversity or t_closeness")
    for name in job.sensitive_columns if asked.closeness == "ordered" else ():
        if job.columns[name].kind is Kind.CATEGORICAL:
            raise ValueError(f"sensitive.closeness is ordered, and column {name!r} is categorical: no order")


def _design(job: Job) -> None:
    """A design has columns of its own that make strata, and nothing else counts or recodes them."""
    if (given := job.design) is None:
        return
    for what in ("strata", "cluster"):
        name = getattr(given, what)
        if name not in job.strata.by or job.columns[name].role is not Role.KEY:
            raise ValueError(
                f"design.{what} names {name!r}: records are masked inside strata and groups of PSUs of the design; "
                "give the column role key, and name it in strata.by"
            )
    controlled = () if job.disclosure is None else (*job.disclosure.key, *job.disclosure.recode)
    problems = {
        "strata and cluster of one name": given.strata == given.cluster,
        "disclosure.key or recode of its columns": not {given.strata, given.cluster}.isdisjoint(controlled),
        "release.unit: pseudonym": job.whole_release,
        "repeat.growing, as groups are drawn again": job.repeat.growing,
        "strata.small: merge, which moves records to other strata": job.strata.small == "merge",
        "mask.scope: table, which lets groups differ less": job.mask is not None and not job.masks_strata,
    }
    if given.replicates != "none":
        problems["replicates without a column of role sampling_weight"] = job.weight_column is None
        problems["replicates and strata.small: drop, which leaves out groups"] = job.strata.small == "drop"
        added = re.compile(rf"{re.escape(job.weight_column or '')}_jk[0-9]+")
        taken = [repr(name) for name in job.released if added.fullmatch(name)]
        problems[f"replicates and column {', '.join(taken)}, as they are named"] = bool(taken)
    if clash := [text for text, there in problems.items() if there]:
        raise ValueError(f"design does not go with {clash[0]}; leave out either")


def _analyses(job: Job) -> None:
    """Analyses have names of their own, and columns that are released."""
    _check_names("analyses", [each.name for each in job.analyses])
    for each in job.analyses:
        if each.weights and job.weight_column is None:
            raise ValueError(
                f"analysis {each.name!r} asks for weights, and no column has role sampling_weight; give it to the "
                "weight, or leave weights out"
            )
        try:
            job.columns_of(each)
        except JobError as error:
            raise ValueError(str(error)) from None


def _relative_survival(job: Job) -> None:
    """It has its columns, and they are what it needs."""
    given = job.measure.relative_survival
    if given is None:
        return
    if job.time_column is None or job.event_column is None or not job.measure.utility:
        raise ValueError(
            "measure.relative_survival needs columns with roles survival_time and survival_status, and measure.utility"
        )
    for what, name in given.columns.items():
        if name not in job.released:
            raise ValueError(f"measure.relative_survival.{what} names {name!r}, which is no released column of the job")
        kind = job.columns[name].kind
        if kind.coded != (what == "sex") or (kind is Kind.DATE and what != "year"):
            needed = {"age": "a number", "year": "a number or a date", "sex": "categorical or binary"}[what]
            raise ValueError(f"measure.relative_survival.{what} names {name!r} of kind {kind.value}; it is {needed}")


def _scenarios(job: Job) -> None:
    """Scenarios have names of their own, and columns that are released."""
    recoding = () if job.disclosure is None else job.disclosure.recode.values()
    populated = any(each.minimum_population is not None for each in recoding)
    if job.measure.sampling_fraction is not None and not job.measure.scenarios and not populated:
        raise ValueError(
            "measure.sampling_fraction is for measure.scenarios and minimum_population; there are none: leave it out"
        )
    _check_names("scenarios", [each.name for each in job.measure.scenarios])
    for each in job.measure.scenarios:
        where = f"measure.scenarios, {each.name!r}"
        if unknown := [name for name in each.knows if name not in job.columns]:
            raise ValueError(f"{where}: the job has no column {unknown[0]!r}; it has {', '.join(job.columns)}")
        if gone := [name for name in each.knows if name not in job.released]:
            raise ValueError(
                f"{where}: {gone[0]!r} is not released (role {job.columns[gone[0]].role}), so that "
                "an intruder cannot link by it; leave it out"
            )
        if len(set(each.knows)) < len(each.knows):
            raise ValueError(f"{where}: a column is named twice in knows; name each once")
        if unknown := [name for name in each.tolerance if name not in each.knows]:
            what = "is not in its knows" if unknown[0] in job.columns else "is no column of the job"
            raise ValueError(
                f"{where}: tolerance names {unknown[0]!r}, which {what}; it is for numbers and dates among "
                f"{', '.join(each.knows)}"
            )
        if odd := [name for name in each.tolerance if job.columns[name].kind.coded]:
            raise ValueError(
                f"{where}: tolerance is for numbers and dates, and {odd[0]!r} is "
                f"{job.columns[odd[0]].kind.value}; leave it out"
            )
        for name, (far, part) in zip(each.knows, each.tolerances, strict=True):
            if name in each.tolerance and not far + part > 0:
                raise ValueError(f"{where}: {name!r} has tolerance 0; give more than 0, or leave it out")


def _check_names(what: str, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"several {what} are called {', '.join(twice)}; give each a name of its own")


def _gates(job: Job) -> None:
    """What has a limit is measured."""
    masker = None if job.mask is None else MASKERS[job.mask.method]
    grouped = masker is None or masker.grouped or masker.identical_rows
    declared = job.time_column is not None and job.event_column is not None
    # A Cox model may turn out to have no survival curves
    followed = job.measure.utility and (declared or any(each.model == "cox" for each in job.analyses))
    for name in job.gates.given:
        needs = MEASURED[name].needs
        for part in ("risk", "utility"):
            if part in needs and not getattr(job.measure, part):
                raise ValueError(f"gates.{name} limits a measure of {part}, and measure.{part} is off; switch it on")
        if "hold_out" in needs and (job.keys_recoded or not job.measure.hold_out):
            what = "with disclosure.key none are; remove it" if job.keys_recoded else "give measure.hold_out: 0.05"
            raise ValueError(f"gates.{name} needs held-out records; {what}")
        if "scenarios" in needs and not job.measure.scenarios:
            raise ValueError(
                f"gates.{name} limits what a scenario finds, and the job names none; give measure.scenarios, "
                "such as [{name: neighbour, knows: [age, sex]}]"
            )
        if "strata" in needs and not job.strata.by:
            raise ValueError(f"gates.{name} limits what is disclosed of strata: remove it, too, or name strata.by")
        if "survival" in needs and not followed:
            raise ValueError(
                f"gates.{name} limits differences of survival curves, and the job declares none; give columns the "
                "roles survival_time and survival_status, or list a Cox model under analyses"
            )
        if "population" in needs and job.measure.relative_survival is None:
            raise ValueError(f"gates.{name} needs a life table; give measure.relative_survival")
        if "weights" in needs and job.weight_column is None:
            raise ValueError(
                f"gates.{name} limits weighted estimates, and no column has role sampling_weight; give it to the weight"
            )
        if "groups" in needs and masker is not None and not masker.identical_rows:
            raise ValueError(
                f"gates.{name} limits what is disclosed of groups, and mask {job.replacing.name} forms none; limit "
                "membership_auc or attribute_inference instead, with measure.hold_out"
            )
        if "sensitive" in needs and not (grouped and job.sensitive_columns):
            raise ValueError(f"gates.{name} needs groups, and a column with role sensitive that is not in strata.by")


def check_growth(job: Job) -> None:
    """Means of a group do not tell who joined it."""
    method = job.replacing
    plain = [name for name, column in job.columns.items() if column.can_be_scored and not column.scored]
    if job.repeat.growing and method.identical_rows and plain:
        raise ValueError(
            f"repeat.growing does not go with {method.name} for numbers and dates on a scale of their own: the "
            "records of a group come out alike, and where one joins, two nights' means of the group give his "
            f"values: {', '.join(plain)}; give them transform: normal_scores, or take another method"
        )


def _inside(inner: str, outer: str) -> bool:
    """Whether a path or URL is another, or below it."""
    parts = [PurePosixPath(absolute(url)) for url in (inner, outer)]
    return parts[0].is_relative_to(parts[1])
