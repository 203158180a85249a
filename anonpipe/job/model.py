"""The job: one model that reads YAML, CLI overrides and Prefect parameters alike.

Unknown keys are errors everywhere. What decides the released values (columns,
k, methods) is in the job's digest; paths, gates and `run` are not.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, field_validator, model_validator

from anonpipe.columns import Column, Kind, Role, Rule
from anonpipe.errors import LARGER_STRATA, JobError
from anonpipe.job import sections
from anonpipe.job.checks import check_growth, check_sections
from anonpipe.job.disclosure import Disclosure
from anonpipe.job.measure import DEFAULT, HELD_OUT, Gates, Measure, RecipientAnalysis, usual_hold_out
from anonpipe.job.plain_yaml import load_yaml, overridden
from anonpipe.job.rules import check_rules, parse_rules, with_rules
from anonpipe.job.sections import Input, Sensitive, checked_path, with_methods
from anonpipe.methods.grouping import METHODS as GROUPINGS
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.options import MethodOptions, Options
from anonpipe.methods.record import Masker, Method, Synthesizer, in_jobs, union_of
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.verify.catalogue import MEASURED

if TYPE_CHECKING:
    from anonpipe.evaluate.utility import Analysis
    from anonpipe.methods.grouping import GroupingOptions as Cluster
    from anonpipe.methods.masking import MaskOptions as Mask

    Synthesize = MethodOptions
else:
    Cluster, Synthesize, Mask = (union_of(known) for known in (GROUPINGS, SYNTHESIZERS, MASKERS))

# Sections that decide no released value: where files lie, and what is asked of the release
_PLACES = {"input", "output", "run", "release", "report"}
_OF_NO_VALUE = _PLACES | {"gates", "measure", "analyses", "rows_per_unit", "repeat"}
_DIGEST_ROLES = {"sensitive": "class", "key": "kept"}

# Shares of records that are linked, of which groups of k stand for 1 / k
_OF_GROUPS = ("reidentification_rate", "scenario_risk")
_SCALARS = ("bool", "int", "float", "str")  # of these a message for each would come
_NO_MAPPING = ("dict_type", "model_type", "model_attributes_type", "union_tag_not_found")
_PLAIN_WORDS = {
    "missing": "is missing; add it",
    "tuple_type": "takes a list, as in [one, two]",
    "too_long": "the list is too long",
    **dict.fromkeys(("float_parsing", "float_type"), "takes a number"),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "takes a whole number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "takes true or false"),
    **dict.fromkeys(_NO_MAPPING, "takes a mapping of keys to values"),
}
RULES = (
    "Rules between columns that hold in every row of the input, and then in every released one: total = a + b; "
    "county -> region; begin <= end; if visits == 0 then cost == 0; pairs(diagnosis, sex)"
)
_NO_JOB = "Give the job file, not the data; make one with: anonpipe init data.parquet > job.yaml"


@dataclass(frozen=True)
class ByGroups:
    """The methods of a job that replaces records group by group; see `Job`."""

    cluster: Cluster
    sensitive: Sensitive
    synthesize: Synthesize


class Job(Options):
    """Everything a run needs to know, as the steward writes it.

    Records are replaced in one of two ways: group by group (`cluster`, `sensitive`, `synthesize`; MDAV and
    micro-perturbation where one of them is given without the other), or by a `mask`, which works on the whole table (or
    each stratum) at once, and forms no groups. With a `mask` the other three are null. A job that gives none of the
    four is masked by local synthesis (by `spectral_swap` where no masked column is a number or a date), or replaced in
    groups where it asks for what only these have: a column that is released unchanged and is not in strata.by (the
    records that a mask draws would not go with it), units of several rows without a masked number or date, times that
    are restored, `histogram`. `plan` and `run` say so.

    k counts units. The column of role `unit` names them (persons, households, enterprises), and a unit may have several
    rows: no group then holds fewer than k of them. A single column of role `identifier` that repeats counts as one,
    too; where several have this role, none may. `rows_per_unit: many` asks for none of this: k then counts rows, and
    the verdict and the reports say that it protects no persons.
    """

    input: str | Input
    output: str = Field(description="Folder or URL where releases are published.")
    k: int = Field(ge=2, description="Smallest size of a group, in units.")
    rows_per_unit: Literal["one", "many"] = Field(default="one", description="`many`: k counts rows, not units.")
    disclosure: Disclosure | None = None
    columns: dict[str, Column] = Field(description="What each column is, by its name; every column must be declared.")
    rules: tuple[str, ...] = Field(default=(), description=RULES)
    strata: sections.StrataSettings = sections.StrataSettings()
    design: sections.SurveyDesign | None = None
    partition: sections.Partition = sections.Partition()
    cluster: Cluster | None = None
    sensitive: Sensitive | None = None
    synthesize: Synthesize | None = None
    mask: Mask | None = None
    decode: sections.Decode = sections.Decode()
    gates: Gates = Gates()
    measure: Measure = Measure()
    analyses: tuple[RecipientAnalysis, ...] = ()
    release: sections.Release = sections.Release()
    report: sections.ReportSettings = sections.ReportSettings()
    repeat: sections.Repeat = sections.Repeat()
    run: sections.RunSettings = sections.RunSettings()
    _left_out: list[str] = PrivateAttr(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _one_way(cls, content: Any) -> Any:
        return with_methods(content) if isinstance(content, dict) else content

    @field_validator("input", "output")
    @classmethod
    def _paths(cls, given: str | Input) -> str | Input:
        return checked_path(given) if isinstance(given, str) else given

    @field_validator("columns")
    @classmethod
    def _some_columns(cls, columns: dict[str, Column], info: ValidationInfo) -> dict[str, Column]:
        if not info.data.get("disclosure", True) and not any(column.encoded for column in columns.values()):
            raise ValueError("no column has role masked or survival_time: there is nothing to anonymise")
        for role in (Role.SURVIVAL_TIME, Role.SURVIVAL_STATUS, Role.UNIT, Role.SAMPLING_WEIGHT):
            names = [name for name, column in columns.items() if column.role is role]
            if len(names) > 1:
                raise ValueError(f"{len(names)} columns have role {role.value} ({', '.join(names)}); one is allowed")
        return columns

    @model_validator(mode="after")
    def _fits_together(self) -> Job:
        """Check the sections against each other, and say of each column by what it is masked where the job does not."""
        own_scale = self.mask is not None and MASKERS[self.mask.method].own_scale
        if own_scale or self.mask is None or self.whole_release:
            for name, column in self.columns.items():
                self.columns[name] = column.model_copy(update={"spike": None})
        self.columns.update(with_rules(self.rules, self.columns))
        self._leave_out_analyses()
        check_rules(self)
        check_sections(self)
        by_range = self.cluster is not None and self.cluster.distance == "range"
        for name, column in self.columns.items():
            if column.can_be_scored and not column.transform and not (own_scale or by_range):
                self.columns[name] = column.model_copy(update={"transform": "normal_scores"})
        check_growth(self)
        return self

    def _leave_out_analyses(self) -> None:
        """Leave out models without limits that name a column which is not released, as a proposed one may."""
        from anonpipe.evaluate.utility import columns_used

        released, kept = {*self.released, *((self.unit_column,) if self.whole_release else ())}, []
        gone = {name: each.role for name, each in self.columns.items() if name not in released}
        for each in self.analyses:
            lost: list[str] = []
            if gone and not each.declared:
                with contextlib.suppress(JobError):  # which the checks report
                    lost = [name for name in columns_used(each.analysis, list(self.columns)) if name in gone]
            if lost:
                why = f"names {lost[0]}, which is not released (role {gone[lost[0]]}), and has no limits"
                self._left_out.append(f"analysis {each.name!r} {why}: it is left out")
            else:
                kept.append(each)
        self.__dict__["analyses"] = tuple(kept)

    @property
    def source(self) -> Input:
        """Where the input lies, and how it is written."""
        return Input(path=self.input) if isinstance(self.input, str) else self.input

    def of_rows(self, rows: int) -> Job:
        """The same for a table of so many rows, on which the default hold-out depends."""
        if self.measure.hold_out != DEFAULT:
            return self
        whole = self.repeat.growing or self.keys_recoded
        share = usual_hold_out(rows) if self.measure.risk and not whole else 0.0
        limited = [name for name in self.gates.given if "hold_out" in MEASURED[name].needs]
        if limited and not share:
            fewer = f"of {rows:,} rows, fewer than {min(HELD_OUT):,},"
            raise JobError(
                f"gates.{limited[0]} needs held-out records, and {'with repeat.growing' if whole else fewer} none are "
                "unless the job says so; give measure.hold_out, such as 0.05"
            )
        return self.model_copy(update={"measure": self.measure.model_copy(update={"hold_out": share})})

    @property
    def default_limits(self) -> dict[str, float]:
        """Of each measure that has one the limit where a job says nothing and has what the measure needs."""
        # No more than 0.09 linked is the European Medicines Agency's threshold for published records (Policy 0070);
        # where records are replaced in groups of k, which stand for 1 / k and whose k has been chosen, it is that if it
        # is more, and of extreme records none. What means and covariances tell of membership is expected of any table,
        # without a hold-out.
        measure = self.measure
        there = {"risk": measure.risk, "scenarios": bool(measure.scenarios), "strata": bool(self.strata.by)}
        there |= {"utility": measure.utility, "weights": self.weight_column is not None}
        there["population"] = measure.relative_survival is not None
        there["hold_out"] = measure.hold_out != 0
        expected = there | {"hold_out": True}
        found = {
            name: each.default
            for name, each in MEASURED.items()
            if each.default is not None
            and all((expected if name == "membership_auc" else there).get(need) for need in each.needs)
        }
        if self.mask is None or MASKERS[self.mask.method].identical_rows:
            found |= {name: max(found[name], 1.0 / self.k) for name in _OF_GROUPS if name in found}
            found.pop("tail_linkage", None)
        return found

    @property
    def limits(self) -> dict[str, float | None]:
        """The limit of each measure: the job's own or the default; None for no limit."""
        default = {name: limit for name, limit in self.default_limits.items() if name in self.gates.at_default}
        return dict.fromkeys(MEASURED, None) | self.gates.given | default

    @property
    def fewest_changed(self) -> int | None:
        """Units that must differ from an earlier release, to multiples of which counts are rounded; None for any."""
        return (self.repeat.min_changed or self.k) if self.repeat.growing else None

    @property
    def design_columns(self) -> tuple[str, str]:
        """The strata and PSUs of the survey's design; empty without."""
        return ("", "") if self.design is None else (self.design.strata, self.design.cluster)

    def analysis_of(self, wanted: RecipientAnalysis) -> Analysis:
        """An analysis as measures take it: with the survey weight, if it takes one and there is one."""
        weighted = wanted.weights or (wanted.weights is None and wanted.model != "mixed")
        if not weighted or self.weight_column is None:
            return wanted.analysis
        strata, cluster = (name or None for name in self.design_columns)
        return replace(wanted.analysis, weights=self.weight_column, design_strata=strata, cluster=cluster)

    def columns_of(self, wanted: RecipientAnalysis) -> tuple[str, ...]:
        """The released columns that an analysis names."""
        from anonpipe.encoding.probabilities import column_name
        from anonpipe.evaluate.utility import columns_used, refuse_dates

        known = list(self.released)
        if self.whole_release and self.unit_column in columns_used(wanted.analysis, list(self.columns)):
            raise JobError(
                f"analysis {wanted.name!r} names {self.unit_column!r}, and units released whole are measured as "
                "records, not as rows of a unit; leave it out"
            )
        refuse_dates(wanted.analysis, known, {name for name in known if self.columns[name].kind is Kind.DATE})
        used = columns_used(self.analysis_of(wanted), known)
        for name in used:
            if name in self.as_probabilities:
                levels = self.columns[name].levels or ("CATEGORY",)
                made = ", ".join(column_name(name, str(level)) for level in levels)
                raise JobError(
                    f"analysis {wanted.name!r}: {name} is not released as such, but as probabilities in columns "
                    f"{made}, which the input does not have, so that the model cannot be fitted to both; leave it out "
                    "of the model, or set decode.categories to calibrated"
                )
        return used

    @property
    def by_groups(self) -> ByGroups:
        """The methods of grouping."""
        if self.cluster is None or self.sensitive is None or self.synthesize is None:
            raise JobError("the job masks the whole table (mask) and forms no groups; ask for one or the other")
        return ByGroups(self.cluster, self.sensitive, self.synthesize)

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The columns whose combinations k rows or more have: those of `disclosure`, else all released unchanged."""
        if self.disclosure is not None and self.keys_recoded:
            return self.disclosure.key
        return tuple(name for name, column in self.released.items() if column.role.unchanged)

    @property
    def keys_recoded(self) -> bool:
        """Whether disclosure control holds the classes of keys to k rows."""
        return self.disclosure is not None and bool(self.disclosure.key)

    @property
    def recategorized(self) -> tuple[str, ...]:
        """Columns that a hierarchy or a design recodes."""
        recode = {} if self.disclosure is None else self.disclosure.recode
        names = tuple(name for name, each in recode.items() if each.hierarchy is not None)
        return names if self.design is None else (*names, self.design.cluster)

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """Columns with role sensitive whose values can mix in a group: not those that make the strata."""
        named = (name for name, column in self.columns.items() if column.role is Role.SENSITIVE)
        return tuple(name for name in named if name not in self.strata.by)

    @property
    def counted(self) -> tuple[str, ...]:
        """Columns whose combinations the scan counts: the strata, and sensitive ones where groups heed them."""
        held = self.cluster is not None and GROUPINGS[self.cluster.method].classes
        held = held or (self.sensitive is not None and bool(self.sensitive.conditions))
        return (*self.strata.by, *(self.sensitive_columns if held else ()))

    @property
    def scored_by(self) -> tuple[str, ...]:
        """Columns inside whose combinations values are ranked: the strata, and the survival status for the times."""
        scored = [column for column in self.columns.values() if column.scored]
        timed = any(column.role is Role.SURVIVAL_TIME for column in scored)
        method, event = self.replacing, self.event_column
        # A group of identical records has those with the event and those without it at one value
        identical = isinstance(method, Synthesizer) and method.identical_rows
        if timed and not identical and event is not None and event not in self.strata.by:
            return (*self.strata.by, event)
        return self.strata.by if scored else ()

    @property
    def conditioning_columns(self) -> tuple[str, ...]:
        """Columns that are released unchanged and that the masked ones are drawn given."""
        unchanged = [name for name, column in self.columns.items() if column.role.unchanged]
        return self.replacing.conditions_on(self.replacing_options, unchanged)

    @property
    def in_force(self) -> frozenset[str]:
        """For remedies: mask or `groups`, `normal_scores`, `rules`, `bounds`, `strata`, keys `recoded`, `gaps of …`."""
        from anonpipe.job.linked import PART  # which reads jobs

        scored = all(column.scored for column in self.columns.values() if column.can_be_scored)
        how = {self.mask.method if self.mask is not None else "groups"} if self.replaces else set()
        how |= {"recoded"} if self.keys_recoded and (self.mask is None or self.mask.method == "pram") else set()
        bounded = any(column.bounds is not None for column in self.columns.values())
        how |= {name for name, on in (("normal_scores", scored), ("rules", self.rules), ("bounds", bounded)) if on}
        how |= {"strata"} if set(self.strata.by) - {PART} else set()  # others than those of linked rows
        for rule in self.parsed_rules:  # the order of rows side by side
            order = rule.target.removesuffix(" (row 2)")
            rows = rule.kind == "order" and rule.terms == ((f"{order} (row 1)", 1.0),)
            how |= {f"gaps of {order}"} if rows and None in self.columns[rule.target].numeric_bounds else set()
        return frozenset(how | ({"unchanged outside strata"} if self.unchanged_outside_strata else set()))

    @property
    def unchanged_outside_strata(self) -> list[str]:
        """Columns that are released unchanged and do not make the strata."""
        return [name for name, column in self.released.items() if column.role.unchanged and name not in self.strata.by]

    @property
    def replaces(self) -> bool:
        """Whether synthetic values are made for some column."""
        return any(column.encoded for column in self.columns.values())

    @property
    def replacing(self) -> Synthesizer | Masker:
        """The record of the method that replaces records."""
        if self.mask is not None:
            return MASKERS[self.mask.method]
        return SYNTHESIZERS[self.by_groups.synthesize.method]

    @property
    def replacing_options(self) -> MethodOptions:
        """What the job tells this method."""
        return self.by_groups.synthesize if self.mask is None else self.mask

    @property
    def masks_strata(self) -> bool:
        """Whether each stratum is masked as a table of its own."""
        return self.mask is not None and self.mask.by_stratum

    @property
    def larger_strata(self) -> str:
        """How small strata get larger; those of a design are not merged."""
        if self.design is None:
            return LARGER_STRATA
        return "join strata of the design in the input, or give fewer design.random_groups (2 or more)"

    @property
    def identifiers(self) -> tuple[str, ...]:
        """The columns that name persons."""
        return tuple(name for name, column in self.columns.items() if column.role.names_persons)

    @property
    def unit_column(self) -> str | None:
        """The column whose values are what k counts, should they repeat: that of role unit, or the only identifier."""
        if self.rows_per_unit == "many":
            return None
        declared, named = self._named(Role.UNIT), self.identifiers
        return declared if declared is not None or len(named) != 1 else named[0]

    @property
    def whole_units(self) -> bool:
        """Whether all rows of a unit stay in one group."""
        return self.cluster is not None and self.cluster.units == "whole"

    @property
    def unit_declared(self) -> bool:
        """Whether the job names the unit, so that it is known before the table is read."""
        return self._named(Role.UNIT) is not None

    @property
    def whole_release(self) -> bool:
        """Whether units are released whole, under new numbers."""
        return self.release.unit == "pseudonym"

    @property
    def released(self) -> dict[str, Column]:
        """The columns of the release, in the job's order."""
        return {name: column for name, column in self.columns.items() if column.role.released}

    @property
    def parsed_rules(self) -> tuple[Rule, ...]:
        """The rules between columns."""
        return parse_rules(self.rules, self.columns)

    @property
    def differences(self) -> tuple[str, ...]:
        """Columns of differences that an order between columns adds; they are masked, and not written."""
        return tuple(rule.gap for rule in self.parsed_rules if rule.gap)

    @property
    def shares(self) -> frozenset[str]:
        """Those of `differences` that say the same as others: shares, ratios, and values other than a spike."""
        return frozenset(rule.gap for rule in self.parsed_rules if rule.gap and rule.kind != "order")

    @property
    def limited(self) -> dict[str, str]:
        """Columns with a limit, and the share that is masked in place of each, which says nothing to a reader."""
        return {rule.target: rule.gap for rule in self.parsed_rules if rule.kind == "limit"}

    @property
    def spikes(self) -> dict[str, str]:
        """Columns with a spike, and the column of their other values, which is masked in place of each."""
        return {rule.target: rule.gap for rule in self.parsed_rules if rule.kind == "spike"}

    @property
    def as_given(self) -> dict[str, Column]:
        """The columns without those that spikes add; in place of one with a spike what is masked for it."""
        spikes = self.spikes
        names = [name for name in self.columns if name not in spikes.values()]
        return {name: self.columns[spikes.get(name, name)] for name in names}

    @property
    def repeated(self) -> frozenset[str]:
        """Those of `differences` that a written column repeats: shares and ratios, rounded, and other than a spike."""
        ratios = {" / ".join(rule.quotient) for rule in self.parsed_rules if rule.quotient}
        return frozenset(ratios.intersection(self.differences)).union(self.spikes.values())

    @property
    def as_probabilities(self) -> tuple[str, ...]:
        """Columns in whose place there are columns of probabilities."""
        if self.decode.categories != "probabilities":
            return ()
        kinds = (Kind.CATEGORICAL, Kind.BINARY)
        return tuple(name for name, column in self.columns.items() if column.encoded and column.kind in kinds)

    @property
    def time_column(self) -> str | None:
        """The column with role survival_time."""
        return self._named(Role.SURVIVAL_TIME)

    @property
    def event_column(self) -> str | None:
        """The column with role survival_status."""
        return self._named(Role.SURVIVAL_STATUS)

    @property
    def weight_column(self) -> str | None:
        """The column with role sampling_weight."""
        return self._named(Role.SAMPLING_WEIGHT)

    def _named(self, role: Role) -> str | None:
        return next((name for name, column in self.columns.items() if column.role is role), None)

    def warnings(self) -> list[str]:
        """What the steward should know before running; empty where all is declared."""
        sides = {(True, True): "", (True, False): " (below)", (False, True): " (above)"}
        unbounded = [
            repr(name) + sides[low is None, high is None]
            for name, column in self.released.items()
            for low, high in [column.numeric_bounds]
            if column.can_be_scored and not column.scored and None in (low, high)
        ]
        found = [*self.urgent_warnings(), *self._left_out]
        if not unbounded:
            return found
        whose = f"column {unbounded[0]} has" if len(unbounded) == 1 else f"columns {', '.join(unbounded)} have"
        no_bounds = (
            f"{whose} no bounds: synthetic values may lie outside what is possible; "
            "declare bounds: [low, high] from the code book, not from the data"
        )
        return [*found, no_bounds]

    @property
    def unmeasured(self) -> str | None:
        """Why nothing is released while risk is not measured; None where nothing is in the way."""
        masker = self.replacing
        if self.measure.risk or self.measure.allow is not None or not isinstance(masker, Masker):
            return None
        if masker.identical_rows or not (masker.link == "person" or masker.exact_columns):
            return None
        what = (
            f"mask {masker.name} keeps much of each person's values" if self.replaces else "rows are those of persons"
        )
        return (
            f"runs are refused: measure.risk is off, and {what}. "
            "Only measuring tells how many are found again: remove measure.risk, or say in measure.allow why none is "
            "needed"
        )

    def urgent_warnings(self) -> list[str]:
        """Those that concern disclosure, or what recipients may conclude."""
        found = [] if self.unmeasured is None else [self.unmeasured]
        if self.decode.restore_survival_times:
            found.append("decode.restore_survival_times releases true survival times, the extremes included")
        if self.disclosure is not None and self.disclosure.non_key:
            found.append(
                f"{', '.join(map(repr, self.disclosure.non_key))} in disclosure.non_key: persons' true values, which "
                f"nothing holds against k={self.k}. Who knows one of a person may find that person's row"
            )
        masked = [column for column in self.columns.values() if column.role.synthesized]
        named = [None if each is None else each.method for each in (self.mask, self.cluster, self.synthesize)]
        groups_by_default = named == [None, "mdav", "micro_perturbation"]
        if groups_by_default and self.unit_declared and all(column.kind.coded for column in masked):
            found.append(
                "units have several rows, and no masked column is a number or a date: so records are replaced in "
                "groups, whose records are linked more often than those of a mask"
            )
        if groups_by_default and (outside := self.unchanged_outside_strata):
            found.append(
                f"{', '.join(map(repr, outside))} released unchanged, and not in strata.by: so records are replaced in "
                "groups, whose records are linked more often than those of a mask. With strata.by naming all such "
                "columns (or role masked) and no method, local synthesis masks the table"
            )
        apart = [name for name in self.unchanged_outside_strata if name not in self.conditioning_columns]
        if self.mask is not None and apart and not self.replacing.row_for_row:
            found.append(
                f"{', '.join(map(repr, apart))} released unchanged and not in strata.by: mask {self.mask.method} "
                "draws the other columns without regard to them. Their covariances with these are lost, and "
                "gates.covariance_with_keys refuses the release if they are large. Name them in strata.by, or give "
                "them role masked"
            )
        if warning := self.replacing.warns(self.replacing_options):
            found.append(warning)
        if "reidentification_rate" in self.gates.given and self.replacing.link == "none":
            found.append(
                "gates.reidentification_rate cannot be held, and nothing will be released: after mask "
                f"{self.replacing.name} no record stands for one person or group; limit membership_auc or "
                "attribute_inference instead, with measure.hold_out"
            )
        return found

    def digest(self) -> str:
        """SHA-256 of all that decides the released values: columns, k and methods."""
        # Not of paths, gates, measures and file sizes: a looser gate must not draw new noise for the same data; nor of
        # what k is said to count. The share that is held out does decide.
        held = (f"hold_out {self.measure.hold_out!r}",) if self.measure.held_out else ()
        rounded = () if self.fewest_changed is None else (f"counts rounded to {self.fewest_changed}",)
        whole = (f"whole units by {self.release.order!r}",) if self.whole_release else ()
        return self._digest_without(*_OF_NO_VALUE, also=(*held, *rounded, *whole))

    def run_digest(self) -> str:
        """SHA-256 of everything but where it runs; two runs with the same one share their staging."""
        described = [(each.label, each.unit_of_measure) for each in self.columns.values()]
        also = (repr(described),) if any(map(any, described)) else ()
        weights = "none" if self.design is None else self.design.replicates
        return self._digest_without("run", also=also if weights == "none" else (*also, weights))

    def _digest_without(self, *left_out: str, also: tuple[str, ...] = ()) -> str:
        content = self.model_dump(mode="json", exclude=set(left_out))
        _drop_absent(content)
        if self.decode.probability_step is None:
            del content["decode"]["probability_step"]
        for name in ("rules", "disclosure", "design"):  # the digest of a job without any stays
            if not getattr(self, name):
                content.pop(name, None)
        if self.design is not None:
            del content["design"]["replicates"]  # computed of what is released
        if content["cluster"] is not None and not self.whole_units:
            del content["cluster"]["units"]
        for column in content["columns"].values():
            # Where no default applies, an explicit `none` masks as an absent key does: the same noise
            if column["transform"] == "none":
                column["transform"] = None
            if column["extremes"] == "top_bottom_code":
                del column["extremes"]
            del column["label"], column["unit_of_measure"]  # words, which decide no value
            column["role"] = _DIGEST_ROLES.get(column["role"], column["role"])
        # The digest keys the noise, so its spelling stays when keys of the job are renamed
        content["classes"] = content.pop("sensitive", None)
        former_keys: list[tuple[dict[str, Any] | None, dict[str, str]]] = [
            (content["classes"], {"combine": "several"}),
            (content.get("repeat"), {"min_changed": "at_least", "max_overlapping": "at_most"}),
            (content.get("mask"), {"conditioning": "kept"}),
            *((scenario, {"tolerance": "within"}) for scenario in content.get("measure", {}).get("scenarios", ())),
        ]
        for section, spelling in former_keys:
            for key, former in spelling.items():
                if section is not None and key in section:
                    section[former] = section.pop(key)
        text = "".join((json.dumps(content, sort_keys=True), *also))
        return hashlib.sha256(text.encode()).hexdigest()


def _drop_absent(content: dict[str, Any]) -> None:
    """Leave out what a job does not say of weights, units, copies and analyses: digests of jobs without any stay."""
    sections = [*content["columns"].values(), *content.get("analyses", ())]
    named = ("gates", "release", "input", "measure", "disclosure")
    sections += [each for name in named if isinstance(each := content.get(name), dict)]
    for section in sections:
        for key, absent in _ABSENT:
            if key in section and section[key] == absent:
                del section[key]


_ABSENT: tuple[tuple[str, Any], ...] = (
    ("by", []), ("calibrate", []), ("competing", []), ("weighted_estimates", "default"), ("unit", "none"),
    ("copies", 1), ("relative_survival", None), ("allow", None), ("non_key", []), ("spike", None),
    *((name, None) for name in ("weights", "level", "order", "last_row", "exposure", "groups", "strata", "entry")),
)  # fmt: skip


def parse_job(content: Any) -> Job:
    """Check a mapping (from YAML, JSON or Prefect) and return the job.

    Parameters
    ----------
    content
        Keys and values.

    Raises
    ------
    JobError
        With one line a problem: where, what is allowed, what to do.
    """
    if not isinstance(content, dict):
        raise JobError(f"the job is not a mapping of keys to values. {_NO_JOB}")
    try:
        return Job.model_validate(content)
    except ValidationError as error:
        items = _of_one_form(error.errors(include_url=False, include_context=False))
        problems = "\n".join(dict.fromkeys(f"  {text}" for text in _with_words(items)))
        raise JobError(f"the job is not valid:\n{problems}") from None


def _of_one_form(items: list[Any]) -> list[Any]:
    """The problems without those of the form of `input` that was not given: a path alone, or a mapping."""
    own = [item for item in items if item["loc"][:1] == ("input",) and len(item["loc"]) > 1]
    as_text = [item for item in own if item["loc"][1] == "str"]
    mapped = [item | {"loc": ("input", *item["loc"][2:])} for item in own if item not in as_text]
    kept = as_text if any(item["type"] == "model_type" for item in mapped) else mapped
    return [item for item in items if item not in own] + kept


def _with_words(items: list[Any]) -> list[str]:
    """The problems; where a number or one of some words can be written, as one."""
    forms = {item["loc"][:-1]: str(item["loc"][-1]) for item in items if item["loc"]}
    words = {place: form for place, form in forms.items() if form.startswith("literal[")}
    found = []
    for item in items:
        place = item["loc"][:-1]
        if place not in words:
            found.append(_explain(item))
        elif item["loc"][-1] != words[place]:
            found.append(f"{_explain(item | {'loc': place})}, or {' or '.join(re.findall(_QUOTED, words[place]))}")
    return found


def _explain(item: Any) -> str:
    path = [str(part) for part in item["loc"]]
    if path and path[-1] in _SCALARS:
        return f"{'.'.join(path[:-1])}: takes one value: a number, a text, a date or true/false"
    where = ".".join(path) or "job"
    if item["type"] == "extra_forbidden":
        keys = _keys_at(item["loc"][:-1])
        near = get_close_matches(path[-1].lower(), keys, 1, 0.6)
        listed = f": {', '.join(keys)}" if keys else ""
        return f"{where}: unknown key; {f'did you mean {near[0]}?' if near else _UNKNOWN + listed}"
    if item["type"] in _PLAIN_WORDS:
        return f"{where}: {_PLAIN_WORDS[item['type']]}"
    if item["type"] == "union_tag_invalid":
        methods: dict[str, Mapping[str, Method]] = {"cluster": GROUPINGS, "synthesize": SYNTHESIZERS, "mask": MASKERS}
        given = item["input"].get("method") if isinstance(item["input"], dict) else None
        return f"{where}: unknown method; {_known(in_jobs(methods[where]), given)}"
    if item["type"] in ("enum", "literal_error"):
        return f"{where}: unknown value; {_known(re.findall(_QUOTED, item['msg']), item['input'])}"
    if item["type"].startswith(("greater_than", "less_than")):
        given = str(item["input"])
        return f"{where}: {item['msg'].replace('Input should', given + ' must')}"
    return f"{where}: {item['msg'].removeprefix('Value error, ')}"


_UNKNOWN = "remove it or correct its spelling"


def _keys_at(place: Sequence[str | int]) -> list[str]:
    """The keys that a job takes at a place, by its schema."""
    schema = Job.model_json_schema()
    found = [schema]
    for step in place:
        found = [form for each in found for form in _forms(_below(each, step), schema["$defs"])]
    return list(dict.fromkeys(name for each in found for name in each.get("properties", ())))


def _below(schema: dict[str, Any], step: str | int) -> Any:
    """What a schema has at a key or a place of a list; for the name of its method the schema itself."""
    fields = schema.get("properties", {})
    if step == fields.get("method", {}).get("const"):
        return schema
    return schema.get("items") if isinstance(step, int) else fields.get(step) or schema.get("additionalProperties")


def _forms(schema: Any, known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A schema without references, or each of those that it is one of; nothing for what is none."""
    if not isinstance(schema, dict):
        return []
    if "$ref" in schema:
        return _forms(known[schema["$ref"].rpartition("/")[2]], known)
    several = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return [form for each in several for form in _forms(each, known)] or [schema]


_QUOTED = r"'([^']+)'"

# Words of other programs for kinds of columns
_OTHER_WORDS = {
    Kind.CONTINUOUS: ("numeric", "number", "float", "double", "real", "decimal"),
    Kind.INTEGER: ("int", "int64", "count", "whole", "discrete"),
    Kind.CATEGORICAL: ("category", "categoric", "string", "text", "str", "factor", "nominal", "object", "enum"),
    Kind.BINARY: ("bool", "boolean", "flag", "logical", "dichotomous"),
    Kind.DATE: ("datetime", "timestamp", "time", "day"),
    Kind.ORDINAL: ("ordered", "rank", "likert"),
}


def _known(known: Sequence[str], given: Any) -> str:
    """The known values, the likeliest first as a question; what was given is not quoted."""
    word = given.strip().lower() if isinstance(given, str) else ""
    near = [kind.value for kind, words in _OTHER_WORDS.items() if kind in known and word in words]
    near = near or get_close_matches(word, known, 1, 0.6)
    return (f"did you mean {near[0]}? Known are: " if near else "known are: ") + ", ".join(known)


def load_job(path: str | Path, overrides: dict[str, Any] | None = None) -> Job:
    r"""Read a YAML job file; `overrides` maps dotted keys (`cluster.method`) to values.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "job.yaml"
    >>> _ = path.write_text("input: a.parquet\noutput: out\nk: 5\ncolumns: {age: {kind: integer}}")
    >>> load_job(path, {"k": 10}).k
    10
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except IsADirectoryError:
        raise JobError(f"{path} is a folder, and not a job file; give the file, such as job.yaml") from None
    except OSError as error:
        what = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise JobError(f"the job file {path} {what}; make one with: anonpipe init data.parquet > {path}") from None
    except UnicodeDecodeError:
        raise JobError(f"the job file {path} is no text in UTF-8; save it as UTF-8") from None
    return parse_job(overridden(read_content(text, path), overrides or {}))


def read_content(text: str, path: str | Path) -> Any:
    """The keys and values in the text of a job file, not yet checked."""
    try:
        content = load_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        if "'" in problem and not _JOB_KEY.search(text):  # a table, it may be, and no message quotes its values
            problem = f"it has no key of a job either. {_NO_JOB}"
        raise JobError(f"the job file {path} is not valid YAML{line}: {problem}") from None
    if isinstance(content, dict) and content and not _KEYS & set(content):
        raise JobError(f"{path} has no key of a job. {_NO_JOB}")
    return content


_KEYS = frozenset(Job.model_fields)
_JOB_KEY = re.compile(rf"^({'|'.join(sorted(_KEYS))})\s*:", re.MULTILINE)
