"""Names of others cannot steer a terminal, a log or a page."""

from __future__ import annotations

import io

import pytest

from anonpipe import display
from anonpipe.errors import InputError, JobError, printable
from anonpipe.job.model import parse_job
from anonpipe.report.page import template

EVIL = "ag\x1b]0;owned\x07\x1b[2Je\u202e\x9b31m\r"
SHOWN = r"ag\x1b]0;owned\x07\x1b[2Je\u202e\x9b31m\r"


def test_plain_text_of_any_language_stays_as_it_is():
    for text in ("Größe (mm)\n→ 年齢, возраст", "", "a\nb"):
        assert printable(text) == text
    assert printable(EVIL) == SHOWN and printable("a\tb\ud800") == r"a\tb\ud800"


def test_errors_show_names_escaped():
    with pytest.raises(JobError) as caught:
        parse_job({"input": "a", "output": "b", "k": 3, "columns": {"a": {"kind": "integer"}}, EVIL: 3})
    assert "\x1b" not in str(caught.value) and SHOWN in str(caught.value)
    assert SHOWN in str(InputError(f"column {EVIL} is odd"))


@pytest.mark.parametrize("markup", [True, False])
def test_the_console_shows_names_escaped(monkeypatch, markup):
    seen = io.StringIO()
    monkeypatch.setattr(display.out, "file", seen)
    display.out.print(EVIL, markup=markup, soft_wrap=True)
    display.line(EVIL)
    table = display.Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    display.out.print(table, width=200)
    assert not {"\x1b", "\x07", "\u202e", "\x9b", "\r"} & set(seen.getvalue())
    assert seen.getvalue().count(SHOWN) >= 4


def test_the_page_shows_names_escaped():
    shown = template("page.html").environment.from_string("<td>{{ name }}</td>").render(name=EVIL + "<b>")
    assert shown == f"<td>{SHOWN}&lt;b&gt;</td>"
