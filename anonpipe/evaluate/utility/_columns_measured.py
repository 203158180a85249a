"""Measures of columns over a whole table: distances, moments, losses, subgroups, tails, nulls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from anonpipe.audience import Audience
from anonpipe.evaluate.utility._basic_statistics import NO_NUMBERS
from anonpipe.evaluate.utility._distances import ks_distance, total_variation, wasserstein_distance
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._moment_changes import moment_changes, too_many_moments
from anonpipe.evaluate.utility._pairs_measured import NO_MIX
from anonpipe.evaluate.utility._record_distance import eigenvalue_change, il1s
from anonpipe.evaluate.utility._subgroups import subgroup_changes, tail_changes
from anonpipe.evaluate.utility._terms_measured import LOST, Term, mean_of_terms
from anonpipe.evaluate.utility._typed import BothColumns, Tables
from anonpipe.types import FloatArray

_NO_CATEGORIES = "there is no categorical column"

_MOST_PRODUCTS = 4_000_000_000
"""Multiplications for fourth moments; more columns are measured on fewer records."""

_MOST_NULLS = 0.5
"""Share of nulls above which a column would take too many records from the moments of the others."""


def distances(tables: Tables) -> list[Measurement]:
    """Kolmogorov-Smirnov, Wasserstein and total variation distance of every column."""

    def made(name: str, title: str, terms: list[Term], unit: str, source: str, why: str) -> Measurement:
        return mean_of_terms(
            name, title, terms, unit=unit, source=source, records=tables.rows, audience=Audience.STEWARD, nothing=why
        )

    sides = [(column.name, *column.known) for column in tables.numbers]
    codes = [(column.name, *column.known) for column in tables.categories]
    return [
        made(
            "distance.ks",
            "Largest difference of the distribution functions (Kolmogorov-Smirnov)",
            [_distance(name, old, new, worst=1.0, by=ks_distance) for name, old, new in sides],
            "share",
            "Smirnov (1948), Ann. Math. Stat. 19:279-281",
            NO_NUMBERS,
        ),
        made(
            "distance.wasserstein",
            "How far values must move to give the same distribution (Wasserstein)",
            [_distance(name, old, new, worst=LOST, by=wasserstein_distance) for name, old, new in sides],
            "sd",
            "Vallender (1974), Theory Probab. Appl. 18:784-786",
            NO_NUMBERS,
        ),
        made(
            "distance.variation",
            "Records in another category (total variation)",
            [_distance(name, old, new, worst=1.0, by=total_variation) for name, old, new in codes],
            "share",
            "half the sum of the differences of the shares",
            _NO_CATEGORIES,
        ),
    ]


def _distance(
    name: str, old: FloatArray, new: FloatArray, *, worst: float, by: Callable[[FloatArray, FloatArray], float]
) -> Term:
    """The distance, or the worst there is for a release without values."""
    if len(old) == 0:
        return name, float("nan")
    return name, by(old, new) if len(new) else worst


def higher_moments(tables: Tables) -> list[Measurement]:
    """Third and fourth central moments over all choices of columns, on records without nulls."""
    before, after = tables.number_arrays()
    kept = np.array([np.isnan(before).mean(axis=0), np.isnan(after).mean(axis=0)]).max(axis=0) <= _MOST_NULLS
    before, after = (table[:, kept] for table in (before, after))
    before, after = (table[~np.isnan(table).any(axis=1)] for table in (before, after))
    width, mostly_null = before.shape[1], int((~kept).sum())
    most = _MOST_PRODUCTS // max(1, (width * (width + 1) // 2) ** 2)
    found = []
    for order, word in ((3, "third"), (4, "fourth")):
        beside = f" Columns left out as mostly null: {mostly_null}." if mostly_null else ""
        note, value = f"Not defined: {'all numbers are mostly null' if mostly_null else NO_NUMBERS}.", float("nan")
        records = min(len(before), most)
        if width and min(len(before), len(after)) < 2:
            note = "Not defined: no two records of a table are without nulls in all numbers."
        elif too_many_moments(width, order):
            note = f"Not measured: {width} columns have too many moments of this order."
        elif width:
            changes = moment_changes(before[:most], after[:most], order, central=True)
            value = changes.median
            note = (
                f"Central moments, products of different columns included, over {changes.terms} of them; "
                f"{changes.left_out} near zero in the original left out. Mean {changes.mean:.4g}. "
                f"Records with a null are left out.{beside}"
            )
        found.append(
            Measurement(
                name=f"moments.{word}",
                title=f"Median relative change of the {word} central moments",
                value=value,
                unit="%",
                better="lower",
                source="Oganian & Domingo-Ferrer (2017), Transactions on Data Privacy 10:61-81, Table 3",
                records=records if width else tables.rows,
                of=tables.rows,
                note=note,
                audience=Audience.STEWARD,
            )
        )
    return found


def losses(tables: Tables) -> list[Measurement]:
    """IL1s of paired tables, and the change of the eigenvalues of the correlation matrix."""
    before, after = tables.number_arrays()
    terms: list[Term] = []
    why = NO_NUMBERS if tables.paired else "the records of the two tables are not paired"
    if tables.paired and tables.numbers:
        terms = [(column.name, float(value)) for column, value in zip(tables.numbers, il1s(before, after), strict=True)]
    change = eigenvalue_change(before, after) if tables.numbers else float("nan")
    return [
        mean_of_terms(
            "loss.il1s",
            "Distance of a released value from the one that it replaces (IL1s)",
            terms,
            unit="√2 sd",
            source="Mateo-Sanz, Sebé & Domingo-Ferrer (2004), doi:10.1007/978-3-540-25955-8_16",
            records=tables.rows,
            audience=Audience.ENOUGH,
            nothing=why,
            note="The normalised form, a mean over cells: sdcMicro's IL1s is the sum." if terms else "",
        ),
        Measurement(
            name="loss.eigenvalues",
            title="Relative change of the eigenvalues of the correlation matrix, summed",
            value=change,
            unit="",
            better="lower",
            source="sdcMicro, dUtility, method eigen; Templ & Meindl (2008), LNCS 5262:113-126",
            records=tables.rows,
            of=tables.rows,
            audience=Audience.SEVERAL,
            columns=len(tables.numbers),  # of two it gives their correlation
            note=""
            if np.isfinite(change)
            else f"Not defined: {'no numbers vary on both sides' if tables.numbers else NO_NUMBERS}.",
        ),
    ]


def subgroups_and_tails(tables: Tables, least: int) -> list[Measurement]:
    """Means of numbers inside categories, and the mass and reach of the tails."""

    def made(name: str, title: str, terms: list[Term], unit: str, source: str, why: str, note: str) -> Measurement:
        return mean_of_terms(
            name,
            title,
            terms,
            unit=unit,
            source=source,
            records=tables.rows,
            audience=Audience.STEWARD,
            nothing=why,
            note=note if terms else "",
        )

    enough = max(least, 2)
    pairs = [(c, n, subgroup_changes((c.old, n.old), (c.new, n.new), least=enough)) for c, n in _mixed(tables)]
    groups = f"Over the categories of {enough} or more records of the original, equally weighted"
    tails = [
        (number.name, tail_changes(*number.known, least=enough) if min(map(len, number.known)) else None)
        for number in tables.numbers
    ]
    ends = [
        (f"{name}, {side}", values[place])
        for name, values in tails
        if values is not None
        for place, side in enumerate(("below", "above"))
    ]
    measured = []
    for at, (name, unit, note) in enumerate(
        (("subgroups.sd", "sd", groups + "."), ("subgroups.standard_errors", "standard errors", groups + "."))
    ):
        long = "standard errors" if at == 1 else "standard deviations"
        terms = [_subgroup_term(f"{n.name} in {c.name}", changes[at]) for c, n, changes in pairs]
        if at == 1:
            note += " Grows with the number of records measured."
        lost = sum(int(np.isinf(changes[at]).sum()) for _, _, changes in pairs)
        if lost:
            note += f" {lost} means of the original have no record in the release, and are not in the figure."
        measured.append(
            made(
                name,
                f"Change of the means inside categories, in {long}",
                terms,
                unit,
                "mean of |difference|",
                NO_MIX,
                note,
            )
        )
    for at, (name, title, unit) in enumerate(
        (
            ("tails.mass", "Change of the share of values in the outer 5 % on each side", "share"),
            ("tails.excess", "Change of how far the outer 5 % on each side reach", "sd"),
        )
    ):
        terms = [(end, float(values[at])) for end, values in ends]
        source = "Davison & Smith (1990), J. R. Stat. Soc. B 52:393-442 (mean excess)"
        note = "Strictly beyond the original's 5 % and 95 % quantiles."
        measured.append(made(name, title, terms, unit, source, NO_NUMBERS, note))
    return measured


def _mixed(tables: Tables) -> Iterator[tuple[BothColumns, BothColumns]]:
    for category in tables.categories:
        for number in tables.numbers:
            yield category, number


def _subgroup_term(name: str, changes: FloatArray) -> Term:
    """Mean over the categories that both sides have; lost if the release has none of those of the original."""
    defined = changes[~np.isnan(changes)]
    if len(defined) == 0:
        return name, float("nan")
    finite = defined[np.isfinite(defined)]
    return name, float(finite.mean()) if len(finite) else LOST


def missingness(tables: Tables) -> list[Measurement]:
    """Changes of the share of nulls by column, and of the patterns of nulls by pair of columns."""
    shares = [
        (column.name, float(abs(np.isnan(column.new).mean() - np.isnan(column.old).mean())))
        for column in tables.columns
    ]
    with_nulls = [column for column in tables.columns if np.isnan(column.old).any() or np.isnan(column.new).any()]
    pairs = [
        (f"{left.name} x {right.name}", _pattern_distance(left, right)) for left, right in combinations(with_nulls, 2)
    ]
    one = mean_of_terms(
        "missing.shares",
        "Change of the share of nulls",
        shares,
        unit="share",
        source="difference of the shares, by column",
        records=tables.rows,
        audience=Audience.STEWARD,
        nothing="there are no columns",
        note="" if with_nulls else "Neither table has nulls.",
    )
    two = mean_of_terms(
        "missing.pairs",
        "Change of which columns are null together (total variation)",
        pairs,
        unit="share",
        source="half the sum of the differences of the shares of null and not null, by pair of columns",
        records=tables.rows,
        audience=Audience.STEWARD,
        nothing="there are not two columns with nulls",
    )
    return [one, two]


def _pattern_distance(left: BothColumns, right: BothColumns) -> float:
    old, new = (
        2 * np.isnan(one).astype(np.int64) + np.isnan(two)
        for one, two in ((left.old, right.old), (left.new, right.new))
    )
    return total_variation(old, new)
