"""What names of columns say: words of identifiers, times, statuses, births, and of what neighbours see."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import date
from itertools import pairwise, product

import numpy as np
import yaml

from anonpipe.types import FloatArray, IntArray

_IDENTIFYING = frozenset(
    (
        "id", "ids", "uid", "uuid", "guid", "pid", "ssn", "mrn", "nhs", "nino", "passport", "iban",
        "email", "mail", "phone", "telephone", "mobile", "fax", "address", "street",
        "name", "surname", "forename", "firstname", "lastname", "fullname",
        "pseudonym", "pseudonyme", "pseudo", "psn", "seudonimo", "pseudonimo",
    )
)  # fmt: skip

# Written without a mark between the two words
_UNIT_NUMBERS = frozenset(
    f"{unit}{number}"
    for unit in ("patient", "pat", "person", "subject", "participant", "member", "client", "customer", "employee",
                 "student", "pupil", "user", "household", "utility", "firm", "company", "plant", "case", "record",
                 "patienten", "personen", "versicherten", "haushalts", "fall")
    for number in ("id", "no", "nr", "num", "number", "key", "nummer")
)  # fmt: skip

# Numbers under one of these names, and no other word, number units; plurals count them
_ONE_UNIT = frozenset(
    ("household", "hh", "haushalt", "family", "familie", "couple", "paar", "dyad", "sibship", "pedigree",
     "patient", "person", "subject", "participant", "pupil", "student", "employee", "case", "firm", "company",
     "enterprise", "member", "enrollee", "beneficiary", "insured", "client", "customer", "proband",
     "patientin", "versicherter", "versicherte", "mitglied", "kunde", "fall", "personne", "paziente", "persona",
     "paciente")
)  # fmt: skip

# Of these, those that name persons
_ONE_PERSON = _ONE_UNIT - frozenset(
    ("household", "hh", "haushalt", "family", "familie", "couple", "paar", "dyad", "sibship", "pedigree", "case",
     "firm", "company", "enterprise", "fall")
)  # fmt: skip

_OF_A_NUMBER = frozenset(("id", "no", "nr", "num", "number", "nummer", "key", "code", "ref", "index"))

# Words of several languages below have no accents and no capitals, as `words_of` gives them. A word of a name begins
# with an entry, or is it where this ends in $

_NO_SURVIVAL = frozenset(
    (
        "marital", "employment", "smoking", "smoker", "insurance", "housing", "civil", "civile", "zivil", "migration",
        "education", "menopausal", "menopause", "hormone", "receptor", "er", "pr", "her", "ecog", "performance",
        "vaccination", "familienstand", "raucherstatus", "loan", "payment", "order",
    )
)  # fmt: skip

TIME_NAMES = (
    ("surv", "follow", "futime", "uberleb", "ueberleb", "nachbeob", "survie", "suivi$", "sopravviv", "supervivencia",
     "sobrevida", "sobrevivencia", "overlev", "seguim"),
    ("time", "months", "duration", "tte", "os$", "pfs$", "dfs$", "efs$", "rfs$", "dss$", "ttp$", "monate$", "zeit$",
     "dauer$", "tage$", "tempo$", "durata$", "mesi$", "giorni$", "duree$", "temps$", "mois$", "jours$", "tiempo$",
     "duracion$", "duracao$", "meses$", "dias$", "tijd$", "maanden$", "dagen$", "tid$", "manader$", "czas$"),
)  # fmt: skip

STATUS_NAMES = (
    ("vital", "dead", "death", "died", "deceas", "event", "censor", "fustat", "verstorben", "gestorben", "todes",
     "tod$", "ereignis", "zensi", "zensur", "deces", "decede", "evenement", "censur", "decess", "decedut", "morte$",
     "morto$", "mort$", "muert", "fallec", "falec", "obito$", "overleden", "dood$", "avdod", "dod$", "zgon",
     "relapse", "rezidiv", "recidiv"),
    ("status", "stat$", "stato$", "statut", "estado$", "etat$", "os$", "pfs$", "dfs$", "efs$", "rfs$", "dss$"),
)  # fmt: skip

_DEAD = frozenset(
    ("dead", "died", "deceased", "death", "verstorben", "gestorben", "tot", "tod", "decede", "decedee", "mort", "morte",
     "morto", "morta", "deceduto", "deceduta", "muerto", "muerta", "fallecido", "fallecida", "falecido", "falecida",
     "obito", "overleden", "dood", "dod", "zgon", "event", "ereignis", "evenement", "evento", "relapse", "rezidiv",
     "recidive", "recidiva", "progression")
)  # fmt: skip
_ALIVE = frozenset(
    ("alive", "living", "lebt", "lebend", "lebendig", "vivant", "vivante", "vivo", "viva", "vivos", "levend", "lever",
     "zyje", "censored", "censor", "zensiert", "censure", "censuree", "censurato", "censurado")
)  # fmt: skip

BIRTH_NAMES = ("birth", "born", "dob", "bdate", "geburt", "geb$", "naissance", "nascita", "nacim", "nascim")

# What words begin with that name what neighbours, colleagues or a newspaper know of a person
SEEN_NAMES = (
    "sex", "gender", "race", "ethnic", "national", "marital", "married", "civil",
    "region", "county", "district", "province", "municip", "canton", "city", "town", "village", "zip", "postal",
    "postcode", "residence", "country", "occupation", "profession", "household", "children", "geschlecht", "sesso$",
    "genero$", "geslacht", "alter$", "eta$", "edad$", "idade$", "leeftijd$", "familienstand", "wohnort", "plz", "beruf",
    *BIRTH_NAMES,
)  # fmt: skip

POSTAL_NAMES = ("zip", "postal", "postcode", "postleit", "plz")

# The same of dates: of events that others hear of
PUBLIC_DATES = ("death", "died", "deceas", "admission", "admit", "discharge", "accident", "wedding")


def names_unit(name: str) -> bool:
    """Whether a name says that the column names persons, in a word of its own or at the end of one (UTILITYID)."""
    words = words_of(name)
    together = (*words, *map("".join, pairwise(words)))  # patientno, and patient_no
    return bool(_IDENTIFYING & set(words)) or any(word in _UNIT_NUMBERS for word in together)


def names_one_unit(name: str) -> bool:
    """Whether a name is a word for a person or a group of persons, and says of nothing else about them."""
    left = set(words_of(name)) - _OF_A_NUMBER
    return bool(left) and left <= _ONE_UNIT


def names_one_person(name: str) -> bool:
    """Whether a name is a word for a person, and says of nothing else about him."""
    return names_one_unit(name) and bool(set(words_of(name)) & _ONE_PERSON)


def words_of(name: str) -> list[str]:
    """The words of a column name, without accents and in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", _plain(name))]


def _plain(text: str) -> str:
    """A text without accents."""
    apart = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "ł": "l", "Ł": "L", "đ": "d"})


def has_word(name: str, entries: tuple[str, ...]) -> bool:
    """Whether a word of the name begins with an entry, or is one that ends in $."""
    return any(word.startswith(entry) or f"{word}$" == entry for word in words_of(name) for entry in entries)


def tell_life(texts: Iterable[str]) -> bool:
    """Whether some of the texts say that a person lives or was censored, and others death or another event."""
    said = [set(words_of(text)) for text in texts]
    return any(words & _DEAD for words in said) and any(words & _ALIVE for words in said)


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


_NEIGHBOURS = 5  # Distinct values next to a well-known code, which has five times as many records as their mean

# Well-known codes: nines and the two numbers before, and days on which calendars and systems begin or end
_NINES = [10**digits - below for digits in range(1, 10) for below in (1, 2, 3)]
_CODES = [*_NINES, *(-code for code in _NINES), -1, 88, 888]
_DAYS = [
    (date.fromisoformat(f"{year:04}-{day}") - date(1970, 1, 1)).days
    for day, years in (
        ("01-01", (1, 1753, 1800, 1900, 1901, 1904, 1970)),
        ("12-31", (1899, 2099, 2199, 2999, 9999)),
        ("12-30", (1899,)),
        ("11-11", (1111,)),
    )
    for year in years
]


def codes_for_unknown(values: FloatArray, counts: IntArray, *, days: bool = False) -> dict[float, int]:
    """Numbers at the ends that may be codes for "unknown", and the records of each.

    Each of them occurs twice or more. Either the nearest other value is further away than all others are wide, or it
    is a well-known code with many more records than its neighbours.

    Shapes: values, counts (n_values,), values ascending.
    """
    known = np.isin(values, _DAYS if days else _CODES)
    for below, above in sorted(product(range(MOST_CODES + 1), repeat=2), key=sum)[:0:-1]:
        middle = slice(below, len(values) - above)
        outer = np.append(np.arange(below), np.arange(len(values) - above, len(values)))
        if len(values[middle]) < FEWEST_OTHERS or (counts[outer] < 2).any():
            continue
        ends = [(below - 1, slice(below, below + _NEIGHBOURS))] * (below > 0)
        ends += [(len(values) - above, slice(len(values) - above - _NEIGHBOURS, len(values) - above))] * (above > 0)
        width = values[middle][-1] - values[middle][0]
        far = all(min(abs(values[at] - values[next_])) > width for at, next_ in ends)
        if far or (known[outer].all() and all(counts[at] >= 5 * counts[next_].mean() for at, next_ in ends)):
            return dict(zip(values[outer].tolist(), counts[outer].tolist(), strict=True))
    return {}
