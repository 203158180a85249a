"""Upper limits on what a reader has to read. A commit that raises a number says why."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.test_docs import count_words

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = sorted((ROOT / "anonpipe").rglob("*.py"))

LINES = 63_414
FILES = 212
LONGEST_FILE = 1_400
PAGES = 15_647  # Words of docs/*.md
TEST_NAME = 60  # Characters


def test_package():
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE}
    assert sum(lines.values()) <= LINES and len(lines) <= FILES
    assert {path.name: number for path, number in lines.items() if number > LONGEST_FILE} == {}


def test_names_of_classes_are_unique():
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE]
    names = Counter(name for text in texts for name in re.findall(r"^\s*class (\w+)", text, re.M))
    assert names and [name for name, number in names.items() if number > 1] == []


def test_names_of_tests():
    texts = (ROOT / "tests").rglob("test_*.py")
    names = [name for path in texts for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))]
    assert names and [name for name in names if len(name) > TEST_NAME] == []


def test_pages():
    assert sum(count_words(path.read_text(encoding="utf-8")) for path in (ROOT / "docs").glob("*.md")) <= PAGES
