"""Propensity by regression and tree, and the discriminator, on typed tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.utility._discriminator import LEAST_RECORDS, discriminator
from anonpipe.evaluate.utility._encode import Encoded, encoded
from anonpipe.evaluate.utility._measure import Measure
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._propensity import Propensity, propensity
from anonpipe.evaluate.utility._terms import column_codes, interaction_terms, numbers_of
from anonpipe.evaluate.utility._tree_propensity import tree_propensity
from anonpipe.evaluate.utility._typed import Tables

MOST_RECORDS = 10_000  # Of either table, for the measures that train a classifier

_MOST_TERMS = 200  # Columns of a regression with interactions; with more, it has main effects only

_RECORDS_A_TERM = 10  # Records of both tables that a column of the regression needs

_CODING = (
    "Nulls at the mean, with a column that tells them; all but the ten most frequent categories of a column are one."
)

_SNOKE = "Snoke, Raab, Nowok, Dibben & Slavkovic (2018), doi:10.1111/rssa.12358"


def classifiers(tables: Tables, rng: np.random.Generator) -> list[Measurement]:
    """Five figures of how well records of the two tables are told apart, on at most 10,000 records of either.

    Of one or two columns, such a figure can be solved for a share or a mean of the original.
    """
    part = tables.sample(MOST_RECORDS, rng)
    made = encoded(part)
    return [*_regression(part, made), *_tree(part, made, rng), _boosted(part, made, rng)]


def _regression(part: Tables, made: Encoded) -> list[Measurement]:
    found, note = _fitted(made)
    if found and not np.isfinite(found.ratio):
        note = f"No ratio: no column varies. {note}"
    value, expected, ratio = (found.value, found.expected, found.ratio) if found else (float("nan"),) * 3
    records = min(part.rows, part.released)
    one = Measurement(
        name="propensity.logistic",
        title="How well a logistic regression tells released records from original ones (U_p)",
        value=value,
        unit="",
        better="lower",
        source="Oganian & Domingo-Ferrer (2017), eq. 11; Woo, Reiter, Oganian & Karr (2009)",
        records=records,
        of=records,
        audience=Audience.SEVERAL,
        columns=len(part.columns),
        baseline=expected if found else None,
        baseline_is="expected of records drawn again from the original" if found else "",
        note=f"0 to 0.25 for tables of equal size. {note}",
    )
    two = Measurement(
        name="propensity.logistic_ratio",
        title="How well a logistic regression tells released records from original ones, as a multiple of chance",
        value=ratio,
        unit="",
        better="lower",
        source=_SNOKE,
        records=records,
        of=records,
        audience=Audience.SEVERAL,
        columns=len(part.columns),
        baseline=1.0,
        baseline_is="records drawn again from the original; another sample of the population has 2",
        note=note,
    )
    return [one, two]


def _fitted(made: Encoded) -> tuple[Propensity | None, str]:
    """The regression with the most interactions that the records allow, and what it holds."""
    width = made.old.shape[1]
    numbers = [place for place in range(width) if place not in made.categories]
    both = np.concatenate([made.old, made.new])
    coded = column_codes(both, made.categories)
    mains = interaction_terms(range(width), 1)
    pairs = interaction_terms(numbers, 2, powers=numbers) if numbers else ()
    choices: list[tuple[Sequence[tuple[int, ...]], str]] = [
        (interaction_terms(range(width), 2, powers=numbers), "Main effects, squares and products of two columns."),
        ((*pairs, *((place,) for place in made.categories)), "Main effects, squares and products of two numbers."),
        (mains, "Main effects only."),
    ]
    for terms, what in choices:
        wide = numbers_of(terms, coded)
        if wide * _RECORDS_A_TERM > len(both) or (wide > _MOST_TERMS and terms is not mains):
            continue
        try:
            found = propensity(made.old, made.new, terms=terms, categories=made.categories)
        except InputError:  # it does not settle
            continue
        apart = " Some records are told apart without error." if found.separated else ""
        return found, f"{what}{apart} {_CODING}"
    return None, "Not defined: too few records for the columns, or the regression does not converge."


def _tree(part: Tables, made: Encoded, rng: np.random.Generator) -> list[Measurement]:
    found = tree_propensity(made.old, made.new, rng=rng)
    records = min(part.rows, part.released)
    defined = np.isfinite(found.ratio)
    grown = f"{found.leaves} leaves of 20 records or more; expectation of {found.permutations} permutations."
    if not defined:
        grown = "No ratio: too few records for a leaf of 20, or no column varies. " + grown
    one = Measurement(
        name="propensity.tree",
        title="How well a classification tree tells released records from original ones (pMSE, CART)",
        value=found.value,
        unit="",
        better="lower",
        source=_SNOKE,
        records=records,
        of=records,
        audience=Audience.SEVERAL,
        columns=len(part.columns),
        baseline=found.expected,
        baseline_is="the same tree with labels permuted",
        note=f"0 to 0.25 for tables of equal size. {grown} {_CODING}",
    )
    two = Measurement(
        name="propensity.tree_ratio",
        title="How well a classification tree tells released records from original ones, as a multiple of chance",
        value=found.ratio,
        unit="",
        better="lower",
        source=_SNOKE,
        records=records,
        of=records,
        audience=Audience.SEVERAL,
        columns=len(part.columns),
        low=found.low if defined else None,
        high=found.high if defined else None,
        baseline=1.0,
        baseline_is="the same tree with labels permuted",
        note=f"The interval is that of the permutations. {grown}",
    )
    return [one, two]


def _boosted(part: Tables, made: Encoded, rng: np.random.Generator) -> Measurement:
    records = min(part.rows, part.released)
    found = None
    if records >= LEAST_RECORDS:
        found = discriminator(made.old, made.new, rng=rng, categories=made.categories, paired=part.paired)
    return Measurement(
        name="discriminator.auc",
        title="How well boosted trees tell released records from original ones that they have not seen (AUC)",
        value=found.value if found else float("nan"),
        unit="",
        better="near baseline",
        source="Lopez-Paz & Oquab (2017), ICLR; interval: DeLong et al. (1988), Biometrics 44:837-845",
        records=records,
        of=records,
        audience=Audience.SEVERAL,
        columns=len(part.columns),
        low=found.low if found else None,
        high=found.high if found else None,
        baseline=0.5,
        baseline_is="chance",
        note=(
            f"Trained on half of the records, judged on the other. Finds rounding and repeated records too. {_CODING}"
            if found
            else f"Not defined: it takes {LEAST_RECORDS} records of either table."
        ),
    )


MEASURE = Measure(
    figures=(
        "propensity.logistic",
        "propensity.logistic_ratio",
        "propensity.tree",
        "propensity.tree_ratio",
        "discriminator.auc",
    ),
    function=classifiers,
    draws=True,
)
