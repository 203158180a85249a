"""Every check that a verdict can hold, and every gate that a job can set: one record each.

A record has all that others ask of a check: its words, its unit, which way the limit is, who may see it, what can be
done where it fails. The job's `gates`, the verdict, the remedies, the reports and `output_control` are made from these
records: a new gate is one of them, and a call that measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from anonpipe.errors import EXPECTED_LINKS, GROUPS_LINK, MASK_LINKS, SMALLER_K, SMALLER_K_OF_MASK
from anonpipe.evaluate.measurement import Audience, Reason
from anonpipe.evaluate.risk import MEASURES
from anonpipe.types import FloatArray

About = Mapping[str, str | int | float | bool]
Words = str | Callable[[About], str]  # A template that is filled with what a check is about, or a function of it


# Advice, or a function of what the job does already, which is not advised again
Advice = str | Callable[[Collection[str]], str]


class Scope(StrEnum):
    """What a figure is the worst of."""

    TABLE = "table"
    STRATUM = "stratum"
    GROUP = "group"


class Counting(StrEnum):
    """What a figure counts: for the steward alone where it is of fewer than k."""

    NOTHING = "nothing"
    ROWS = "rows"
    SHARE = "share of rows"


@dataclass(frozen=True)
class Gate:
    """A limit that a job may set."""

    name: str  # Its key under `gates` of the job
    # The limit where the job says nothing; None for none. Of a measure it is held where there is a figure, and may
    # depend on the job (`Job.limits`).
    default: float | None
    limited: str  # What it limits, in words for a list
    meaning: str  # For the author of a job
    # least, above, most: which limits there are: from `least` on or only `above` it, up to `most`
    least: float | None = None
    above: float | None = None
    most: float | None = None
    # Of a gate on measures the names of these, the first that there is counting; `*` stands for a column's name, and
    # the worst column counts. Patterns of fnmatch: "tails.*" alone would be figures of utility too
    figures: tuple[str, ...] = ()
    other_attackers: tuple[str, ...] = ()  # That of other attackers: the worst of these and `figures` counts
    unmeasured: str = ""  # Of such a gate the key of the check where nothing was measured
    # What else the job must have: of `measure` the part, `risk` or `utility`, that is to be on; `groups`; `hold_out`;
    # `scenarios`; `sensitive`; `strata`; `survival`; `population`; `weights`
    needs: tuple[str, ...] = ()
    example: float = 0.05  # A limit to be named as an example
    always_shown: bool = True  # Whether it is a line of the verdict without a limit; the report has it always
    few_records: bool = False  # Whether its figure often rests on few records, for which its default limit allows


@dataclass(frozen=True)
class CheckKind:
    """What is checked."""

    key: str  # Stable between versions; other programs may rely on it
    title: Words  # The check in words
    on: Words  # The rows or bytes that it was measured on
    audience: Audience  # Who may see the figure; the others see the outcome
    unit: str = ""  # Of measured value and limit, where a check has no other
    scope: Scope = Scope.TABLE  # What the figure is the worst of
    at_least: bool = False  # Whether the limit is the least that passes, not the most
    counts: Counting = Counting.NOTHING  # Whether the figure counts persons
    mandatory: bool = False  # Whether it may never be "not checked"
    gate: Gate | None = None  # The limit that the job sets; None for a limit that nobody can set
    # What the steward can do where it fails; empty for nothing. Given the name of the mask, or `groups`, and
    # `normal_scores` where all that can be masked by them is.
    remedy: Advice = ""

    def within(self, scope: Scope) -> CheckKind:
        """The same check of the worst stratum or group."""
        return replace(self, key=scoped(self.key, scope), scope=scope)


def scoped(key: str, scope: Scope) -> str:
    """The key of a check of the table, or of the worst stratum or group."""
    return key if scope is Scope.TABLE else f"{key}.{scope}"


_FILES = "{files:written file}"
_BEFORE_DECODING = "synthetic records before decoding"
_STAGING = "all rows in the staging, at every reading, against the scan of the input"
_RECORDS = "{records:,} of {of:,} records"


_REPAIRS = "leave out rules (if ... then ...) that need many repairs, as these move shares and covariances; "
_GAPS = (
    "declare bounds of release.order, its first and last possible value: rows may then be masked as shares of the time "
    "between them, and not as gaps; "
)


def _unless(on: Collection[str], **advice: str) -> str:
    """Pieces of advice, each but where its key is on already, as one list."""
    return ", ".join(text for key, text in advice.items() if key not in on)


def _repairs(gate: str) -> Callable[[Collection[str]], str]:
    """What helps where repairs of conditions move shares."""
    return lambda on: f"{_REPAIRS}or raise gates.{gate}" if "rules" in on else f"raise gates.{gate}"


def _decoding(gate: str) -> Callable[[Collection[str]], str]:
    """What helps where decoding moves moments; wider bounds alone would release visits below 0."""

    def advice(on: Collection[str]) -> str:
        zeros = _unless(on, normal_scores="transform: normal_scores (or transform: log)")
        if "groups" in on:
            of_group = "synthesize: {method: pca, moments: expected}, whose noise is that of the group"
            zeros = ", ".join(filter(None, [_MASK, zeros, f"or {of_group} ({EXPECTED_LINKS})"]))
        of_zeros = (
            f"for a column with many values at a bound that it cannot cross (counts and costs with many 0), {zeros}; "
        )
        others = "for others a finer step, or wider bounds if values beyond them make sense; "
        first = (of_zeros + others) if zeros else "declare a finer step; " if "groups" in on else ""
        if gate == "mean":  # masks keep ranks and shares of categories, so that rules alone move a mean
            of_rules = "take a column of which most values are 0 out of rules with other columns, or compute a column "
            first += (of_rules + "that is farther from its bounds; ") * ("rules" in on)
        elif "times" in on:
            first += (
                "the times of a unit are the values of release.order in its rows: name the other column there, if it "
                "is a date or number of each row, leave release.order out, or drop the other column; "
            )
        elif "groups" not in on:
            first += _REPAIRS * ("rules" in on) + (
                "give counts of few values kind: integer (they may be taken for categories), and ordered ones kind: "
                "ordinal; join rare categories, or drop one of the two columns (in measure.scenarios, too); "
            )
        first = _GAPS * ("gaps" in on) + "join small strata, or leave strata.by out; " * ("small strata" in on) + first
        return f"{first}{'or ' if first else ''}raise gates.{gate}"

    return advice


def _or_mask(on: Collection[str], advice: str) -> str:
    """Advice for a disclosure risk: the default mask first, unless the job has it."""
    if "local_synthesis" in on:
        return "fewer columns, joined categories, or fewer and larger strata"
    advice += f" ({GROUPS_LINK})" * ("groups" in on)
    first = "strata.by with all columns that are released unchanged, and " if "unchanged outside strata" in on else ""
    return f"{first}{_MASK}; otherwise {advice}, or more noise"


_MASK = f"mask: {{method: local_synthesis}} ({MASK_LINKS})"


def _keeps_more(on: Collection[str], *, first: str = "", strata: str = "", then: str = "") -> str:
    """Advice for utility: what raises no risk first, then the default mask, then what raises risk."""
    mask = "" if "local_synthesis" in on else _MASK
    of_strata = f"{strata} (a link then discloses the stratum: gates.stratum_inference)" if strata else ""
    advice = [part for part in (first, mask, of_strata, _smaller_k(on)) if part]
    return f"{', '.join(advice[:-1])}, or {advice[-1]}{then}" if len(advice) > 1 else f"{advice[0]}{then}"


def _smaller_k(on: Collection[str]) -> str:
    """A smaller k, and what it does to risk."""
    return SMALLER_K if "groups" in on else SMALLER_K_OF_MASK


_DAMAGED = "input or staging changed, or was damaged, while the run was at work; run again"


def _by_units(text: str, units: str, records: str) -> Callable[[About], str]:
    """A title whose `{}` says what k counts: units or records."""
    return lambda about: text.replace("{}", units if about.get("whom") == "units" else records)


def _covariance(about: About) -> str:
    return "covariance" + (" (all but category probabilities)" if about.get("probabilities") else "")


_ENDS = {
    "upper": ", upper end of the 95 % interval",
    "estimate": ", estimate, as its 95 % interval is wide",
    "lower": ", lower end of the 95 % interval, which is wide",
    "expected": ", expected from means and covariances, not attacked",
}


def _of_measure(
    part: str, gate: Gate, title: str, remedy: Advice, *, audience: Audience = Audience.ENOUGH, unit: str = ""
) -> CheckKind:
    """A gate on a measure of `risk` or `utility`, whose audience and unit it has; without unit a share of records."""
    return CheckKind(
        f"{part}.{gate.name}",
        title,
        lambda about: "{records:,} of {of:,} records" + _ENDS.get(str(about.get("end")), ""),
        audience,
        unit=unit,
        counts=Counting.NOTHING if unit else Counting.SHARE,
        gate=replace(gate, needs=(part, *gate.needs)),
        remedy=remedy,
    )


_CHANCE = "× split-half"

_OVER_CHANCE = (
    "how much further {} may be from the original than that of another sample of the population: 1 is what two random "
    "halves of the original, inflated to the sizes compared, pass about once in a hundred times"
)


def _of_analysis(key: str, title: str, audience: Audience, *, at_least: bool = False) -> CheckKind:
    """What became of the coefficients of a recipient's model."""
    return CheckKind(
        f"analysis.{key}",
        "analysis {analysis!r}: " + title,
        "{coefficients} coefficients, " + _RECORDS,
        audience,
        at_least=at_least,
    )


# Held against a limit of the job, in the order of its `gates`
# These tables have a few lines an entry: key, title, rows measured on, audience, gate, remedy. The formatter would give
# each argument a line of its own.
# fmt: off
_MEAN = CheckKind("mean", "mean{where}", _FILES, Audience.SEVERAL, unit="sd", mandatory=True, remedy=_decoding("mean"),
    gate=Gate("mean", 0.02, "means", "standard deviations that decoding may add to a mean's error", above=0))
_COVARIANCE = CheckKind("covariance", lambda about: f"{_covariance(about)}{{where}}", _FILES, Audience.SEVERAL,
    unit="sd x sd", mandatory=True, remedy=_decoding("covariance"),
    gate=Gate("covariance", 0.05, "covariances",
        "what decoding may add to the error of a covariance, in products of two standard deviations", above=0))
_EXPECTED_MEAN, _EXPECTED_COVARIANCE = (
    CheckKind(f"expectation.{what}", what + "{where}, deviation from its expected value", _BEFORE_DECODING,
        Audience.SEVERAL, unit="sd", mandatory=True) for what in ("mean", "covariance"))

_GATED = (
    _MEAN,
    _MEAN.within(Scope.STRATUM),
    _COVARIANCE,
    _COVARIANCE.within(Scope.STRATUM),
    CheckKind("covariance.keys", lambda about: f"{_covariance(about)} with key variables", _FILES, Audience.SEVERAL,
        unit="sd x sd",
        gate=Gate("covariance_with_keys", 0.1, "covariances with key variables",
            "as covariance, for pairs of a synthetic column and a key variable", above=0),
        remedy="put a key variable of few values into strata.by, so that groups do not cross it, make it "
        "synthetic, or raise gates.covariance_with_keys"),
    CheckKind("category_share", "category shares", _FILES, Audience.SEVERAL,
        gate=Gate("category_share", 0.005, "shares of categories",
            "difference of a category's shares; of categories that are released as probabilities, of the mean "
            "probability from the share", above=0), remedy=_repairs("category_share")),
    CheckKind("null_share", "null shares", _FILES, Audience.SEVERAL,
        gate=Gate("null_share", 0.005, "shares of nulls", "difference of the shares of nulls", above=0),
        remedy=_repairs("null_share")),
    CheckKind("keys.rare",
        _by_units("records below k = {k} on key variables ({names}){}", ", counted by units", ""),
        _FILES, Audience.OPEN, counts=Counting.ROWS, mandatory=True,
        gate=Gate("rows_under_k", 0, "records that key variables single out",
            "records whose combination of key variables (all columns that are released unchanged) may occur fewer "
            "than k times", least=0),
        remedy="make a column of many values synthetic or dropped, or coarsen it in the input"),
    CheckKind("records.unchanged",
        _by_units("replicated records (of the same {inside}, {})", "of fewer than {k} units",
            "shared by fewer than {k}"),
        "all {inside}s, after decoding", Audience.OPEN, counts=Counting.SHARE,
        gate=Gate("unchanged_record_rate", 0.01, "unchanged records",
            "share of records that may equal, in all synthetic columns, an original record of their group that "
            "fewer than k persons share; of synthetic records beyond what another sample would have", least=0),
        remedy=lambda on: ("take coarser steps, at which k persons are alike, drop a column, or raise "
        "gates.unchanged_record_rate, which releases more records that equal a person's" if "local_synthesis" in on
        else f"{_MASK}, a larger k, or coarser steps, where k persons are alike")),
    CheckKind("cells.exact", "small cells of two-way tables exact, or of pairs that occur, beyond chance", _FILES,
        Audience.OPEN, unit="of small cells",
        gate=Gate("exact_small_cells", 0.1, "small cells of two-way tables",
            "share of the cells of 1 to k - 1 records, in tables of two columns of which one is masked, that may be "
            "released with the original's count beyond what another sample of the same margins would have; likewise "
            "of released cells of 1 to k - 1 records, those that the original has records of", least=0, most=1),
        remedy=lambda on: ("" if "local_synthesis" in on else "mask: {method: local_synthesis}, which draws small "
        "cells (31 % stay exact, of groups 50 %, of another sample 22 %); otherwise ") + "join rare categories, drop "
        "a column of many categories, or raise gates.exact_small_cells, which releases more true counts of under k"),
    CheckKind("local_suppression", "local-suppression rate, worst column", "the input", Audience.OPEN,
        counts=Counting.SHARE,
        gate=Gate("local_suppression_rate", 0.05, "local suppression",
            "share of records that suppression of rare categories may change in one column", least=0),
        remedy=lambda on: "join rare categories in the input, take fewer or coarser columns into strata.by, inside "
        f"which categories are counted, drop the column, or take {_smaller_k(on)}"),
    CheckKind("mean.own_unit",
        lambda about: ("mean in original units (transformed columns)" + (f"; {about['lost']}: mean not preserved" if
        about.get("lost") else "")), _FILES, Audience.SEVERAL, unit="sd",
        gate=Gate("mean_in_unit", 0.1, "means of columns that are masked on another scale",
            "for columns whose logarithms or scores the other limits are held against: how far the mean of the "
            "values themselves may be from the original's, or of scores from what the quantile function is known "
            "to release, in standard deviations", above=0),
        remedy="give the column transform: none, or raise gates.mean_in_unit"),
    CheckKind("variance.own_unit", "variance in original units (columns by normal scores)", _FILES, Audience.SEVERAL,
        unit="sd x sd",
        gate=Gate("variance_in_unit", 0.1, "variances of columns that are masked by normal scores",
            "for columns masked by normal scores: how far the variance of the values themselves may be from that "
            "which the quantile function is known to release, in parts of this", above=0),
        remedy="declare a finer step, give the column transform: none, or raise gates.variance_in_unit"),
    _of_measure("risk",
        Gate("reidentification_rate", 0.09, "records linked correctly",
            "records whose closest released record is their own; of a group of n (of the same key variables) that "
            "has no single sources, each counts 1/n. Of several attackers the worst: by distances, by ranks, by "
            "Mahalanobis distances where records are changed one by one, and where all are assigned at once. A "
            "mask after which no record or group stands for one of the original has no such share, and fails the "
            "limit", least=0, most=1, figures=("reidentification_rate",),
            other_attackers=("rank_linkage.first", "mahalanobis_linkage.first", "linkage.assigned"),
            unmeasured="unmeasured.linkage"),
        "re-identification rate", lambda on: _or_mask(on, "a larger k")),
    _of_measure("risk",
        Gate("group_linkage", None, "records led to their own group",
            "records whose closest released record was made from their own group: an intruder who finds it knows "
            "what the group has in common, and not which record is the person's. By distances or by ranks, the worse "
            "of both", least=0, most=1, figures=("linkage.group",), other_attackers=("rank_linkage.group",),
            unmeasured="unmeasured.linkage", needs=("groups",), example=0.5, always_shown=False),
        "group linkage rate",
        f"a larger k leads fewer ({GROUPS_LINK}), as does synthesize.method micro_perturbation in place of gaussian "
        f"or pca ({EXPECTED_LINKS})"),
    _of_measure("risk",
        Gate("tail_linkage", 0.2, "the most extreme records linked correctly",
            "the share of the most extreme records (the largest and smallest 1 and 5 % of a masked number or date, "
            "and the 1 and 5 % furthest out in all of them) whose closest released record is their own; of their "
            "own group of n each counts 1/n. Of these figures the largest, which few records make uncertain", least=0,
            most=1, figures=("tails.[ct]o*",), unmeasured="unmeasured.tails", example=0.2, few_records=True),
        "re-identification rate of extreme records",
        lambda on: ("mask: {method: local_synthesis}, which links none of them (groups of 5: 17 to 19 %); otherwise "
        * ("local_synthesis" not in on) + "a larger k hides extremes among more records")),
    _of_measure("risk",
        Gate("scenario_risk", 0.09, "persons linked by what a scenario knows",
            "the share of persons whom an intruder links correctly who knows the columns of a scenario "
            "(measure.scenarios) and no others; of a group of n each counts 1/n. Of the worst scenario. For what "
            "is published the European Medicines Agency allows 0.09", least=0, most=1, figures=("scenarios.*.linked",),
            unmeasured="unmeasured.scenarios", needs=("scenarios",), example=0.09),
        "re-identification rate, worst scenario",
        "coarsen or mask a column that the scenario knows and that is released unchanged, or take a larger k"),
    _of_measure("risk",
        Gate("prediction_excess", None, "what the release predicts of its records beyond others",
            "the standard of Lasko & Vinterbo (2010): by how much more records are predicted nearer, less "
            "ambiguously or less uncertainly by the release than by the other records of the original, as the "
            "largest difference of two cumulative shares; of the three measures the worst. They name 0.05 as an "
            "example", least=0, most=1, figures=("lasko.distance",), unmeasured="unmeasured.lasko",
            other_attackers=("lasko.ambiguity", "lasko.uncertainty"), always_shown=False),
        "prediction excess (Lasko & Vinterbo)",
        "a larger k, or for a mask more change, predicts less; centroids have no uncertainty by design, and never "
        "meet a limit below 1"),
    _of_measure("risk",
        Gate("known_attribute", None, "values recovered from group and one attribute",
            "values of a person that are recovered, within 0.1 standard deviations, by who knows the person's "
            "group and one attribute, of those that are not recovered without the group: from the closest record, "
            "the moments or the mean of the group, whichever gains most", least=0, most=1,
            figures=("known_attribute.gained",), unmeasured="unmeasured.known_attribute", needs=("groups",),
            example=0.3, always_shown=False),
        "values recovered from group and one attribute", "a larger k discloses fewer"),
    _of_measure("risk",
        Gate("collusion", None, "values recovered by all other members of a group",
            "values of a person that all other members of the group recover together, within 0.1 standard "
            "deviations, from the sum of its released records, of those that the group's released mean does not "
            "tell", least=0, most=1, figures=("collusion.gained",), unmeasured="unmeasured.collusion",
            needs=("groups",), example=0.3, always_shown=False),
        "values recovered by colluding group members",
        "sums that are kept exactly disclose the last member, whatever k is: synthesize.form independent discloses "
        f"fewer, and so does moments: expected ({EXPECTED_LINKS})"),
    _of_measure("risk",
        Gate("homogeneity", None, "records in groups with one sensitive value",
            "records in groups, or sets of equal rows, with one value of a sensitive column; of the column with most",
            least=0, most=1, figures=("sensitive.*.homogeneity",), unmeasured="unmeasured.sensitive",
            needs=("sensitive",)),
        "homogeneity rate, worst sensitive variable",
        "a larger k, or sensitive.l_diversity with a method that heeds it, mixes sensitive values"),
    _of_measure("risk",
        Gate("membership_auc", 0.6, "membership inference, area under the curve",
            "the area under the curve of telling members from others, by distance, by a trained classifier, by means "
            "and covariances against those of others, by counts of values, or as expected by what is kept: the worst",
            least=0.5, most=1,
            figures=("membership_auc", "membership.expected"),
            other_attackers=("membership.trained_auc", "membership.traced_auc", "membership.counted_auc",
                "membership.expected"),
            unmeasured="unmeasured.membership",
            needs=("hold_out",), example=0.6, few_records=True),
        "membership inference (AUC)", lambda on: _or_mask(on, "a larger k")),
    _of_measure("risk",
        Gate("attribute_inference", 0.1, "attribute inference beyond the hold-out",
            "what the release adds to guessing one column from the others, of the column with most; of the surest "
            "1, 5 or 10 % of the guesses where these certainly disclose something, and more", least=0, most=1,
            figures=("attribute_inference",), unmeasured="unmeasured.attribute_inference", needs=("hold_out",),
            few_records=True),
        "attribute inference, worst variable", lambda on: _or_mask(on, "a larger k")),
    _of_measure("risk",
        Gate("singling_out", 0.1, "singling out beyond the hold-out",
            "the first criterion of the European guidance (WP 216): how much more often what singles out one "
            "released record singles out one person of the original than it would one who was held out, by one "
            "column or by several: the worse of both", least=0, most=1, figures=("singling_out.*",),
            unmeasured="unmeasured.singling_out", needs=("hold_out",), example=0.1, few_records=True),
        "singling out, excess over hold-out",
        lambda on: _or_mask(on, "a larger k, or coarser steps (fewer rare values)"), audience=Audience.STEWARD,
        unit="of attacks"),
    _of_measure("risk",
        Gate("linkability", 0.1, "linkability beyond the hold-out",
            "the second criterion of the European guidance: of two tables, each with half of the columns, how many "
            "more records of the original than of the hold-out are joined by way of the release", least=0, most=1,
            figures=("linkability",), unmeasured="unmeasured.linkability", needs=("hold_out",), example=0.1,
            few_records=True),
        "linkability, excess over hold-out", lambda on: _or_mask(on, "a larger k")),
    _of_measure("risk",
        Gate("stratum_inference", 0.85, "inference of the stratum",
            "how far the release discloses the stratum (dead or alive, say) of a person whose other columns an "
            "intruder knows, beyond what other records disclose; of the column of strata.by with most", least=0,
            most=1, figures=("stratum_inference",), unmeasured="unmeasured.strata", needs=("strata",), example=0.3),
        "stratum inference, worst variable",
        lambda on: ("groups lie inside strata, so that a person who is linked is known to be of one stratum: " + (""
        if "local_synthesis" in on else f"where no stratum is small, {_MASK}, otherwise ") + "a larger k links fewer; "
        "a column that is left out of strata.by, with role masked, is synthesised too (a status of few persons, say)")),
    _of_measure("utility",
        Gate("column_shapes", None, "distributions of columns", _OVER_CHANCE.format("the distribution of a column"),
            above=0, figures=("column_shapes",), unmeasured="unmeasured.utility", example=1),
        "column distributions, worst column",
        lambda on: ("transform: normal_scores on a column of numbers keeps its distribution; " * ("normal_scores"
        not in on) + (_GAPS if "gaps" in on else "where values lie outside the bounds of a column, correct these; "
        * ("bounds" in on) + "of a column that a rule computes, remove the rule (it is then masked itself), or write "
        "a share as a condition (if TOTAL >= 0 then PART <= TOTAL); "
        * ("rules" in on)) + f"{_smaller_k(on)}, keeps more of all; or raise gates.column_shapes"),
        audience=Audience.SEVERAL, unit=_CHANCE),
    _of_measure("utility",
        Gate("pair_shapes", None, "how pairs of columns go together",
            _OVER_CHANCE.format("a correlation, or the cross table of two columns (numbers in ten bins),"), above=0,
            figures=("pair_shapes",), unmeasured="unmeasured.utility", example=1),
        "pairwise associations, worst pair",
        lambda on: _keeps_more(on, strata="strata by the categories that matter", then=": these keep more of how "
        "columns go together"), audience=Audience.SEVERAL, unit=_CHANCE),
    _of_measure("utility",
        Gate("survival_curves", None, "survival curves",
            _OVER_CHANCE.format("a Kaplan-Meier curve, of all records or of a group with 10 k records and k "
            "events,"), above=0, figures=("survival_curves",), unmeasured="unmeasured.utility", needs=("survival",),
            example=1),
        "survival curves, worst curve",
        lambda on: _keeps_more(on, first=_unless(on, normal_scores="transform: normal_scores on the survival time") +
        ", a larger weight of the column whose curve is furthest (columns.NAME.weight)" * ("groups" in on),
        strata="strata.by with the status"), audience=Audience.SEVERAL, unit=_CHANCE),
    _of_measure("utility",
        Gate("relative_survival", None, "relative survival",
            "the largest difference of relative survival after 1, 5 or 10 years, of all records or of a group; needs "
            "measure.relative_survival", above=0, most=1, figures=("relative_survival",),
            unmeasured="unmeasured.utility", needs=("population",), example=0.1, always_shown=False),
        "relative survival, largest difference",
        lambda on: _keeps_more(on, strata="strata.by with the status"), audience=Audience.STEWARD, unit="share"),
    _of_measure("utility",
        Gate("weighted_estimates", 1, "weighted means, shares and totals",
            "how far a weighted mean, share or total by category is off, as a multiple of what another sample of the "
            "same design allows; needs a column with role sampling_weight", above=0, figures=("weighted_estimates",),
            unmeasured="unmeasured.utility", needs=("weights",), example=1),
        "weighted estimates, worst one",
        lambda on: _keeps_more(on, first="a rule (if ... then ...) if the worst combination (report, Utility) "
        "cannot occur, otherwise its column in calibrate of the weight, or the columns that decide the weight in by",
        strata="strata by the categories that matter"),
        audience=Audience.SEVERAL, unit="× another sample"),
    _of_measure("utility",
        Gate("distinguishability", None, "released records distinguished from original ones",
            "the area under the curve of telling released records from original ones by boosted trees; 0.5 is chance",
            least=0.5, most=1, figures=("distinguishability",), unmeasured="unmeasured.utility", example=0.6),
        "distinguishability (AUC)",
        lambda on: _keeps_more(on, first=_unless(on, normal_scores="transform: normal_scores"),
        strata="strata by the categories that matter"), audience=Audience.SEVERAL, unit="AUC"),
)
# fmt: on

# Held against a limit that nobody can set, or against none
# fmt: off
_FIXED = (
    CheckKind("rows.lost",
        lambda about: f"rows lost or added (after {'drops and hold-out' if about.get('held_out') else 'drops'})",
        _FILES, Audience.OPEN, counts=Counting.ROWS, mandatory=True),
    CheckKind("group.smallest",
        lambda about: ("smallest group (persons or other units; {rows:row} or more)" if "rows" in about else
        "smallest group"), lambda about: "{groups} groups across partitions" if "groups" in about else "all groups",
        Audience.OPEN, unit="records", scope=Scope.GROUP, at_least=True, mandatory=True),
    CheckKind("units.split", "units (persons, households, enterprises) with rows in more than one group", "all groups",
        Audience.OPEN, unit="units", remedy="the staging is damaged: run again"),
    CheckKind("alike.fewest", "smallest set of rows equal in all synthetic columns", "all rows, after decoding",
        Audience.OPEN, unit="rows", scope=Scope.GROUP, at_least=True, mandatory=True),
    CheckKind("columns.forbidden", "identifiers or dropped columns in the release", _FILES, Audience.OPEN,
        mandatory=True),
    CheckKind("values.beyond", "values outside declared bounds or steps", _FILES, Audience.OPEN, counts=Counting.ROWS),
    CheckKind("rules.broken", "rows that break a rule between columns", _FILES, Audience.OPEN, counts=Counting.ROWS,
        mandatory=True, remedy="few rows can meet a condition: mask the column that it begins with, too, or remove the "
        "rule"),
    CheckKind("units.rows", "rows of a unit, largest difference of shares of units with at most so many", _FILES,
        Audience.SEVERAL, unit="share", mandatory=True, remedy="add units, or release rows without release.unit: "
        "pseudonym"),
    CheckKind("units.order", "order of linked rows, largest difference of shares of rows up to a value", _FILES,
        Audience.SEVERAL, unit="share", mandatory=True, remedy="add units, leave release.order out, or release "
        "rows without release.unit: pseudonym"),
    CheckKind("weights.sums", "sums of survey weights, in all, by stratum and by calibrated column, furthest one",
        _FILES, Audience.SEVERAL, unit="standard errors", mandatory=True, remedy="calibrate by fewer columns, or join "
        "their rare categories"),
    CheckKind("staging.counts", "staged data differ from the input: rows, nulls, categories", _STAGING, Audience.OPEN,
        counts=Counting.ROWS, mandatory=True, remedy=_DAMAGED),
    CheckKind("staging.moments", "staged data differ from the input: means and variances", _STAGING, Audience.SEVERAL,
        unit="sd", mandatory=True, remedy=_DAMAGED),
    CheckKind("sensitive.l_diversity", "{diversity} l-diversity of {column!r}, the least diverse group", "all groups",
        Audience.OPEN, unit="values", scope=Scope.GROUP, at_least=True, mandatory=True),
    CheckKind("sensitive.t_closeness",
        lambda about: f"t-closeness of {{column!r}} ({str(about['closeness']).replace('_', ' ')}), the furthest group",
        "all groups", Audience.OPEN, scope=Scope.GROUP, mandatory=True),
    CheckKind("values.handed_on",
        _by_units("rare original values reproduced above chance ({})", "of fewer than {k} units",
            "in fewer than {k} records"),
        _FILES, Audience.OPEN, counts=Counting.ROWS, mandatory=True,
        remedy="take another method, or a form that does not hand on values of persons: "
        "decode.jitter_restored_times for restored survival times, mask.basis spectral, more noise; where the "
        "values are coarse, declare their step"),
    _EXPECTED_MEAN,
    _EXPECTED_MEAN.within(Scope.STRATUM),
    _EXPECTED_MEAN.within(Scope.GROUP),
    _EXPECTED_COVARIANCE,
    _EXPECTED_COVARIANCE.within(Scope.STRATUM),
    _EXPECTED_COVARIANCE.within(Scope.GROUP),
    CheckKind("records.kept", "records unchanged in all masked columns, beyond chance (Cohen's kappa)",
        lambda about: f"{_RECORDS if about.get('sampled') else 'all records'}, each against its own", Audience.OPEN,
        counts=Counting.SHARE, mandatory=True,
        remedy=lambda on: _unless(on, local_synthesis=f"{_MASK}; otherwise ") + "a lower mask.retain, more noise or "
        "wider swaps; spectral_swap for categories alone; role: key for what may stay as it is, then held to k"),
    CheckKind("expectation.columns", "columns that hold other values than guaranteed", _BEFORE_DECODING, Audience.OPEN,
        mandatory=True),
    CheckKind("covariance.probabilities", "covariance of category probabilities with other columns", _FILES,
        Audience.SEVERAL, unit="sd x sd"),
    _of_analysis("changed_significance", "share with changed significance", Audience.ENOUGH),
    _of_analysis("changed_direction", "share with changed direction", Audience.ENOUGH),
    _of_analysis("outside", "share outside the 95 % interval", Audience.ENOUGH),
    # of few coefficients the overlap leads back to the original's intervals
    _of_analysis("overlap", "mean overlap of the intervals", Audience.STEWARD, at_least=True),
)
# fmt: on


REFUSAL = "said"  # What a measure says that refuses these records

# What may stay unmeasured, and what it is called
UNMEASURED = {
    "unmeasured.utility": "utility",
    "unmeasured.utility_of_columns": "utility of the columns {names}",
    "unmeasured.risk": "disclosure risk (linkage and attribute attacks)",
    "unmeasured.analyses": "analyses of the recipients",
} | {f"unmeasured.{measure.key}": measure.title for measure in MEASURES}

# Every check by its key
KINDS: dict[str, CheckKind] = {kind.key: kind for kind in (*_GATED, *_FIXED)} | {
    key: CheckKind(key, title, "-", Audience.OPEN) for key, title in UNMEASURED.items()
}

# Every limit of a job by its name, in the order of the job's documentation
GATES: dict[str, Gate] = {kind.gate.name: kind.gate for kind in _GATED if kind.gate is not None}

MEASURED = {name: gate for name, gate in GATES.items() if gate.figures}  # The limits that are held against measures


def kind_of(gate: str) -> CheckKind:
    """The check that a gate limits; of the table, where there is one of the strata too."""
    return next(kind for kind in _GATED if kind.gate is not None and kind.gate.name == gate)


# --- A check: what was measured, against which limit, on what, and how it came out ------------------------------------


class Outcome(StrEnum):
    """The outcome of one check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"
    NO_LIMIT = "no limit set"


class Withheld(StrEnum):
    """Why a figure is withheld from recipients; see `anonpipe.verify.output_control`."""

    FEW_ROWS = "fewer than k rows"
    FEW_OF_SHARE = "a share of fewer than k rows"
    FIGURE = "the figure"


# Why a risk that passed is uncertain: the estimate is above the limit, or only the upper end of its interval
ABOVE, WIDE = "estimate above the limit, too few records to tell", "too few records to tell"


@dataclass(frozen=True)
class Check:
    """One check of a verdict."""

    key: str  # Which; its record is in `catalogue.KINDS`
    outcome: Outcome  # Passed, failed, not checked, or measured while the job sets no limit
    measured: float | None = None  # None where it was not measured
    limit: float | None = None  # None for no limit
    unit: str = ""  # Of both
    records: int | None = None  # Records that the figure rests on; None where that is not known
    of: int | None = None  # Records that there are, likewise
    columns: tuple[str, ...] = ()  # What it is the figure of: the column, or pair, nearest to its limit; empty for none
    compared: int | None = None  # Columns among which that is the worst; None where that is not known
    about: About = field(default_factory=dict)  # Named by its words: columns, k, numbers of files. No value of the data
    # What was measured where `measured` is the end of its interval that is held against the limit; None elsewhere
    point: float | None = None
    high: float | None = None  # Upper end of that interval
    reason: Reason | None = None  # Why it was not measured; None where it was, or nobody knows
    withheld: Withheld | None = None  # In place of the figure, for recipients
    doubted: str = ""  # `doubt` where estimate and interval, from which it follows, are withheld

    @property
    def kind(self) -> CheckKind | None:
        """Its record; None for a key that this version does not know."""
        return KINDS.get(self.key)

    @property
    def mandatory(self) -> bool:
        """Whether it may never be "not checked"; so is what nobody knows."""
        return self.kind is None or self.kind.mandatory

    @property
    def uncertain(self) -> bool:
        """Whether it passed though its interval reaches beyond the limit, as that is too wide to tell."""
        if self.doubted or self.high is None or self.limit is None or self.outcome is not Outcome.PASSED:
            return bool(self.doubted)
        return self.high > self.limit and not (self.kind is not None and self.kind.at_least)

    @property
    def doubt(self) -> str:
        """Why it is uncertain, as verdicts say it: its estimate, or only the upper end of its interval; else empty."""
        above = self.point is not None and self.limit is not None and self.point > self.limit
        return self.doubted or ((ABOVE if above else WIDE) if self.uncertain else "")

    @property
    def blocks(self) -> bool:
        """Whether nothing may be released for it."""
        return self.outcome is Outcome.FAILED or (self.mandatory and self.outcome is not Outcome.PASSED)

    @property
    def ratio(self) -> float:
        """Measured over the most that passes; infinite where a number is missing, or may only be 0 and is not."""
        measured, limit = (np.nan if value is None else value for value in (self.measured, self.limit))
        if not measured > 0:
            return 0.0 if measured <= limit else float("inf")
        return measured / limit if limit > 0 else float("inf")


def held(key: str, measured: float | None, limit: float | None, *, unit: str | None = None, **given: Any) -> Check:
    """Hold a number against its limit, the way that the check's record says; a missing number fails."""
    kind = KINDS[key]
    number = np.nan if measured is None else measured
    outcome = Outcome.NOT_CHECKED if np.isnan(number) else Outcome.NO_LIMIT
    if limit is not None:
        outcome = Outcome.PASSED if (number >= limit if kind.at_least else number <= limit) else Outcome.FAILED
    return Check(key, outcome, measured, limit, kind.unit if unit is None else unit, **given)


def worst_of(checks: Sequence[Check]) -> Check:
    """Of the same check of several things the one with the largest ratio; the first of equals."""
    return max(checks, key=lambda each: each.ratio)


def worst_entry(
    key: str, measured: FloatArray, limit: FloatArray | float, names: Sequence[Sequence[str]] = (), **given: Any
) -> Check:
    """Entries held each against its own limit: the one with the largest ratio; 0 of no entries."""
    if names:
        given = {"compared": len(set(names[0]) - {""})} | given
    limits = np.broadcast_to(limit, measured.shape)
    if not measured.size:
        return held(key, 0.0, 0.0, **given)
    ratio = np.full(measured.shape, np.inf)
    np.divide(measured, limits, out=ratio, where=limits > 0)
    ratio[measured <= 0] = 0.0
    ratio[np.isnan(measured) | np.isnan(limits)] = np.inf
    at = tuple(int(place) for place in np.unravel_index(int(ratio.argmax()), measured.shape))
    worst = zip(names, at, strict=bool(names)) if ratio[at] > 0 else ()
    columns = dict.fromkeys(of[place] for of, place in worst)
    return held(key, float(measured[at]), float(limits[at]), columns=tuple(filter(None, columns)), **given)


def unmeasured(key: str, reason: Reason, limit: float | None = None, **given: Any) -> Check:
    """What nobody measured, and why; it fails where there is a limit."""
    return replace(held(key, None, limit, **given), reason=reason)
