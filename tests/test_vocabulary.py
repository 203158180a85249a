"""Words that do not come back, in code, comments, messages and pages: docs/glossary.md has the words to use.

`ALLOWED` counts what is left. It only ever shrinks: lower a number when you remove a word, never raise one.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from string import ascii_letters, ascii_lowercase

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
PAGES += [*(ROOT / "docs").glob("*.py"), ROOT / "deploy" / "README.md"]
CODE = [path for folder in ("anonpipe", "flows", "studio") for path in (ROOT / folder).rglob("*") if path.is_file()]
CODE = [path for path in CODE if path.suffix in {".py", ".html", ".css", ".jinja"}]
AVOIDED = "## Words that we avoid"  # This part of the glossary names them

WORDS = (
    "told", "told apart", "foretold", "giants?", "of no person", "anew", "whoever", "drawn? in", "x chance",
    "beside", "handed on", "given away", "set aside", "slab", "shelf", "receipt", "ledger",
    "linked_share", "suppressed_share", "the usual", "invented", "by who", "to who", "of who", "for who",
)  # fmt: skip
ALLOWED = {
    "pages": {
        "told": 1,
        "told apart": 1,
        "drawn? in": 1,
        "beside": 1,
        "handed on": 2,
    },
    "code": {
        "told": 1,
        "whoever": 1,
        "drawn? in": 12,
        "beside": 1,
        "handed on": 10,
        "ledger": 2,
        "the usual": 2,
        "invented": 1,
        "by who": 1,
        "for who": 1,
    },
}


@cache
def normalized(path):
    """The text of a file, words apart by one space each."""
    return re.sub(r"[\s\"]+", " ", path.read_text(encoding="utf-8").split(AVOIDED)[0])


def count(word, paths):
    """Whole words, also inside identifiers: `told_rows` and `rowsTold` count, `toldest` does not."""
    first, rest = word[0], word[1:].replace(" ", "[ _-]")
    form = re.compile(f"[{first}{first.upper()}]{rest}(?![a-z])")
    texts = [normalized(path) for path in paths]
    return sum(begins(text, found.start()) for text in texts for found in form.finditer(text))


def begins(text, at):
    """Whether a word begins here: after no letter, or as a capital after a small one."""
    before = text[at - 1 : at]
    return not before or before not in ascii_letters or (before in ascii_lowercase and text[at].isupper())


@pytest.mark.parametrize(("where", "paths"), [("pages", PAGES), ("code", CODE)])
def test_words_do_not_come_back(where, paths):
    counts = {word: count(word, paths) for word in WORDS}
    assert {word: number for word, number in counts.items() if number > ALLOWED[where].get(word, 0)} == {}
