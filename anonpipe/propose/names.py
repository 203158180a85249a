"""What names of columns say: words of identifiers, times, statuses, births, and of what neighbours see."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import date
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from anonpipe.types import FloatArray, IntArray

_WORDS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
_IDENTIFYING, _NO_SURVIVAL = frozenset(_WORDS["identifying"]), frozenset(_WORDS["no_survival"])
_UNIT_NUMBERS = frozenset(f"{unit}{number}" for unit in _WORDS["units"] for number in _WORDS["numbers"])
_PERSON_NAMES, _NAMES_ALONE = frozenset(_WORDS["person_names"]), frozenset(_WORDS["names_alone"])
_ONE_PERSON, _OF_A_NUMBER = frozenset(_WORDS["persons"]), frozenset(_WORDS["of_a_number"])
_PLACES, _WHICH = frozenset(_WORDS["codes"]), frozenset(_WORDS["which"])
_ONE_UNIT = _ONE_PERSON.union(_WORDS["groups"])
_DEAD, _ALIVE, _OTHER_STATES = (frozenset(_WORDS["status"][state]) for state in ("dead", "alive", "other"))

# For `has_word`, and in ranks for `rank_of`
TIME_NAMES, STATUS_NAMES = (tuple(map(tuple, _WORDS[what])) for what in ("times", "statuses"))
BIRTH_NAMES, POSTAL_NAMES, PUBLIC_DATES = (tuple(_WORDS[what]) for what in ("births", "postal", "public_dates"))
_WEIGHTS = {key: tuple(words) for key, words in _WORDS["weights"].items()}
_DESIGN = {key: tuple(words) for key, words in _WORDS["design"].items()}
_COUNTED = tuple(_WORDS["counts"]["counted"])
REASONS: Mapping[str, str] = _WORDS["reasons"]
SEEN_NAMES = (*_WORDS["seen"], *BIRTH_NAMES)


def names_unit(name: str) -> bool:
    """Whether a name says that the column names persons, in a word of its own or at the end of one (UTILITYID)."""
    words = words_of(name)
    together = (*words, *map("".join, pairwise(words)))  # patientno, and patient_no
    return bool(_IDENTIFYING & set(words)) or any(word in _UNIT_NUMBERS for word in together)


def holds_person_names(name: str) -> bool:
    """Whether a name says that the values are first names or surnames, which several persons share."""
    words = [word for word in words_of(name) if word not in ("de", "du", "of")]
    together = {*words, *map("".join, pairwise(words))}  # firstname, and first_name
    return bool(_PERSON_NAMES & together) or (len(words) == 1 and words[0] in _NAMES_ALONE)


def names_one_unit(name: str) -> bool:
    """Whether a name is a word for a person or a group of persons, and says of nothing else about them."""
    left = set(words_of(name)) - _OF_A_NUMBER
    return bool(left) and left <= _ONE_UNIT


def names_code(name: str) -> bool:
    """Whether a name is a word for places or things that are numbered, and says of nothing else about them."""
    left = set(words_of(name)) - _OF_A_NUMBER - _WHICH
    return bool(left) and left <= _PLACES


def names_one_person(name: str) -> bool:
    """Whether a name is a word for a person, and says of nothing else about him."""
    return names_one_unit(name) and bool(set(words_of(name)) & _ONE_PERSON)


def words_of(name: str) -> list[str]:
    """The words of a column name, without accents and in lower case."""
    apart = unicodedata.normalize("NFKD", name.translate(_LETTERS))
    plain = "".join(letter for letter in apart if not unicodedata.combining(letter))
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", plain)]


_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "ł": "l", "Ł": "L", "đ": "d"})


def has_word(name: str, entries: tuple[str, ...]) -> bool:
    """Whether a word of the name begins with an entry, or is one that ends in $."""
    return any(word.startswith(entry) or f"{word}$" == entry for word in words_of(name) for entry in entries)


_ENDS_IN_WEIGHT = re.compile(r"(?<=[a-z]{2})(weights?|wts?|gewicht)\b")  # hhweight


def names_weight(name: str) -> bool | None:
    """Whether a name says that a column is a survey weight; None where it may be that of a body."""
    if names_replicate(name):
        return False
    if has_word(name, _WEIGHTS["sure"]):
        return True
    name = _ENDS_IN_WEIGHT.sub(r" \1", " ".join(words_of(name)))
    if not has_word(name, _WEIGHTS["either"]) or has_word(name, _WEIGHTS["body"]):
        return False
    return True if has_word(name, _WEIGHTS["with"]) else None


def names_count(name: str) -> bool:
    """Whether a name says that the values count something."""
    return words_of(name)[:1] in ([word] for word in _WORDS["counts"]["first"]) or has_word(name, _COUNTED)


def names_replicate(name: str) -> bool:
    """Whether a name says that a column is one of several replicate weights."""
    return has_word(name, _WEIGHTS["replicates"])


def names_design(name: str, what: str) -> bool:
    """Whether a name says that a column is the strata, or the primary sampling units ("psu"), of a survey."""
    return has_word(name, _DESIGN[what]) and names_weight(name) is False


def tell_life(texts: Iterable[str]) -> bool | None:
    """Whether some texts say life or censoring, others death or an event; None for states of work or marriage."""
    said = [set(words_of(text)) for text in texts]
    dead, alive, other = (any(words & of for words in said) for of in (_DEAD, _ALIVE, _OTHER_STATES))
    return None if other and not dead else dead and alive


def rank_of(name: str, ranks: tuple[tuple[str, ...], ...]) -> int | None:
    """The first rank of which a word of the name has an entry; None without any."""
    if _NO_SURVIVAL & set(words_of(name)):
        return None
    return next((rank for rank, entries in enumerate(ranks) if has_word(name, entries)), None)


def best_of(names: list[str], ranks: tuple[tuple[str, ...], ...]) -> list[str]:
    """Those of the names whose words rank highest; none where no word is among them."""
    ranked = {name: rank for name in names if (rank := rank_of(name, ranks)) is not None}
    return [name for name, rank in ranked.items() if rank == min(ranked.values())]


def quoted(text: str) -> str:
    """A text as a quoted YAML scalar on one line."""
    return yaml.safe_dump(text, default_style='"', width=10**9, allow_unicode=True).rstrip("\n")


# --- A value that may stand for "unknown": one and the same, again and again, far away from all others ----------------

FEWEST_OTHERS = 10  # Distinct values that are no such codes, below which all may be codes
MOST_CODES = 3  # Codes at either end: not known, refused, does not apply
_SEVERAL = 0.1  # Share of ratios of neighbours, from which on as large ones belong to doses or dilutions
_NEIGHBOURS = 5  # Distinct values next to a well-known code, which has five times as many records as their mean

# Well-known codes: nines and the two numbers before, and days on which calendars and systems begin or end
_NINES = [10**digits - below for digits in range(1, 10) for below in (1, 2, 3)]
_CODES = [*_NINES, *(-code for code in _NINES), -1, 88, 888]
_DAYS = [(day - date(1970, 1, 1)).days for day in _WORDS["days"]]


def _as_within(ratios: FloatArray, below: int, above: int) -> bool:
    """Whether ends are as many times the next value as several of the others are of theirs."""
    within, ends = ratios[below + 1 : len(ratios) - 1 - above], ratios[[below, len(ratios) - 1 - above]]
    as_large = (1.01 * within >= np.nanmax(ends, initial=1.0)).sum()
    return bool((ends > 0).any() and as_large >= max(2, _SEVERAL * len(within)))


def codes_for_unknown(values: FloatArray, counts: IntArray, *, days: bool = False) -> dict[float, int]:
    """Numbers at the ends that may be codes for "unknown", and the records of each.

    Each of them occurs twice or more. Either the nearest other value is further away than all others are wide, or it
    is a well-known code with many more records than its neighbours.

    Shapes: values, counts (n_values,), values ascending.
    """
    known = np.isin(values, _DAYS if days else _CODES)
    ratios = np.full(len(values) + 1, np.nan)  # of each value to the one before: of doses and dilutions all are alike
    np.divide(values[1:], values[:-1], out=ratios[1:-1], where=(values[:-1] > 0) & (not days))
    for below, above in sorted(product(range(MOST_CODES + 1), repeat=2), key=sum)[:0:-1]:
        middle = slice(below, len(values) - above)
        outer = np.append(np.arange(below), np.arange(len(values) - above, len(values)))
        if len(values[middle]) < FEWEST_OTHERS or (counts[outer] < 2).any():
            continue
        ends = [(below - 1, slice(below, below + _NEIGHBOURS))] * (below > 0)
        ends += [(len(values) - above, slice(len(values) - above - _NEIGHBOURS, len(values) - above))] * (above > 0)
        width = values[middle][-1] - values[middle][0]
        far = all(min(abs(values[at] - values[next_])) > width for at, next_ in ends)
        far = far and (bool(known[outer].all()) or not _as_within(ratios, below, above))
        if far or (known[outer].all() and all(counts[at] >= 5 * counts[next_].mean() for at, next_ in ends)):
            return dict(zip(values[outer].tolist(), counts[outer].tolist(), strict=True))
    return {}
