"""What became of a run: its checks, and whether it may be released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from anonpipe.verify.check import Check, Outcome
from anonpipe.verify.words import Line, content, line


@dataclass(frozen=True)
class Verdict:
    """All checks of one run, and notes that are no checks; the notes are for the steward."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing failed and no mandatory check is missing."""
        return not self.failed

    @property
    def word(self) -> str:
        """`passed`, `failed`, or `not checked` where nothing was held against a limit."""
        if not self.passed:
            return Outcome.FAILED.value
        held = any(check.outcome is Outcome.PASSED for check in self.checks)
        return Outcome.PASSED.value if held else Outcome.NOT_CHECKED.value

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks for which nothing may be released."""
        return tuple(check for check in self.checks if check.blocks)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The checks in words."""
        return tuple(map(line, self.checks))

    def in_words(self) -> dict[str, Any]:
        """The verdict as JSON-able content for people."""
        return {
            "verdict": self.word,
            "checks": [content(check) for check in self.checks],
            "notes": list(self.notes),
        }

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON-able content for programs."""
        plain: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Verdict:
        """Read what `to_dict` gave."""
        return _adapter().validate_python(plain)


@cache
def _adapter() -> TypeAdapter[Verdict]:
    return TypeAdapter(Verdict)
