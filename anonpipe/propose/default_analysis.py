"""One regression that is proposed where the recipients' own models are not known: the best connected number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from keyword import iskeyword

import numpy as np

from anonpipe.columns import Kind, Role
from anonpipe.job.measure import RecipientAnalysis
from anonpipe.propose.guesses import Guess
from anonpipe.propose.profile import Look
from anonpipe.types import FloatArray

_PREDICTORS = 8
_ROWS = 5_000  # Sampled rows that are looked at, and the fewest that have all columns
_FEWEST = 200
_LEVELS = 6  # Most categories of a predictor
_FILLED = 0.95  # Least share of a column's rows that are not null
_FOLLOWS = 0.98  # A correlation from which on one column follows from the other
_WORD = re.compile(r"[^\W\d]\w*")


def default_regression(looks: Sequence[Look], guesses: Mapping[str, Guess]) -> RecipientAnalysis | None:
    """A linear model of the masked number that the other columns explain best; None where there is none."""
    usable = [look for look in looks if _usable(look, guesses[look.name])]
    if len(usable) < 3 or all(guesses[look.name].kind.coded for look in usable):
        return None
    step = -(-len(usable[0].codes) // _ROWS)
    parts = [_columns(look, guesses[look.name])[::step] for look in usable]
    table = np.concatenate(parts, axis=1)
    table = table[np.isfinite(table).all(axis=1)]
    owner = np.repeat(np.arange(len(usable)), [part.shape[1] for part in parts])
    varies = table.std(axis=0) > 0 if len(table) else np.zeros(len(owner), dtype=bool)
    table, owner = table[:, varies], owner[varies]
    numbers = [at for at, place in enumerate(owner) if not guesses[usable[place].name].kind.coded]
    if len(table) < max(_FEWEST, 2 * len(owner)) or len(set(owner)) < 3 or not numbers:
        return None
    correlation = np.corrcoef(table.T)
    explained = 1.0 - 1.0 / np.diag(np.linalg.inv(correlation + 1e-6 * np.eye(len(owner))))
    near = np.abs(correlation - np.eye(len(owner)))
    follows = [near[at].max() > _FOLLOWS or explained[at] > _FOLLOWS for at in numbers]
    response = max(zip(numbers, follows, strict=True), key=lambda each: (not each[1], explained[each[0]]))[0]
    strength = np.zeros(len(usable))
    np.maximum.at(strength, owner, np.where(near[response] > _FOLLOWS, 0.0, near[response]))
    strength[owner[response]] = 0.0
    best = [at for at in np.argsort(-strength, kind="stable")[:_PREDICTORS] if strength[at] > 0]
    terms = [_term(usable[at], guesses[usable[at].name]) for at in sorted(best)]
    name = usable[owner[response]].name
    if not terms:
        return None
    formula = f"{_quoted(name)} ~ {' + '.join(terms)}"
    with suppress(ValueError):  # a name that no formula takes
        return RecipientAnalysis(name=f"{name} by other columns", model="linear", formula=formula)
    return None


def _usable(look: Look, guessed: Guess) -> bool:
    """Whether a column is masked, known of nearly all rows, and can stand in a formula."""
    known = guessed.role is Role.MASKED and guessed.kind is not Kind.DATE and look.filled >= _FILLED * len(look.codes)
    few = look.distinct <= _LEVELS if guessed.kind.coded else look.numbers is not None
    is_function = look.name in ("C", "Q")  # of formulas
    writable = look.name.isprintable() and not is_function and not re.search(r"[\"'\\`{}\n\r]", look.name)
    return known and few and look.distinct > 1 and writable


def _columns(look: Look, guessed: Guess) -> FloatArray:
    """A number as it is, categories as 0/1 columns against the first; NaN for null."""
    if not guessed.kind.coded:
        return look.values[:, None]
    dummies = (look.codes[:, None] == np.arange(1, look.distinct)).astype(np.float64)
    return np.asarray(np.where(look.codes[:, None] < 0, np.nan, dummies))


def _term(look: Look, guessed: Guess) -> str:
    """The column in the formula; numbers that stand for categories as such."""
    name = _quoted(look.name)
    return f"C({name})" if guessed.kind.coded and look.numbers is not None else name


def _quoted(name: str) -> str:
    plain = _WORD.fullmatch(name) and name.isascii() and not iskeyword(name)
    return name if plain else f'Q("{name}")'
