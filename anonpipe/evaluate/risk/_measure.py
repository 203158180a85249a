"""What a measure of risk tells of itself, in one record at the end of its file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from anonpipe.errors import AnonpipeError
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._known import Known
from anonpipe.evaluate.utility import Measurement

Measured = Sequence[Measurement]


@dataclass(frozen=True)
class Measure:
    """An attack, or a measure of disclosure.

    Direction, unit, source and audience stand in each `Measurement`.
    """

    key: str  # Its own name; `unmeasured.KEY` is the check where it was not measured
    title: str  # What it is, in words for that check
    # Names of its figures; `*` stands for the name of a class column. Not every release has all of them.
    figures: tuple[str, ...]
    function: Callable[[Known], Measured | Reason]  # `function(known)`: its figures of a release, or why there are none
    # Whether it still says what it means where persons have several rows, of which it is given one; others are then not
    # measured
    counts_units: bool = False

    def of(self, known: Known) -> Measured | Reason:
        """The figures of a release, or why there are none."""
        found = self.function(known)
        if not isinstance(found, Reason) and any(not self._names(one.name) for one in found):
            raise AnonpipeError(f"{self.key} gave other figures than {', '.join(self.figures)}; please report this")
        return found

    def _names(self, figure: str) -> bool:
        return any(fnmatchcase(figure, known) for known in self.figures)
