"""Disclosure control of key variables before the methods: recoding, local suppression, areas of a least population."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from anonpipe.columns import Kind
from anonpipe.methods.options import Options
from anonpipe.types import FloatArray

if TYPE_CHECKING:
    from anonpipe.job.model import Job


def _read(given: Any) -> Any:
    """The rows of a file; values of YAML as texts."""
    if isinstance(given, str):
        try:
            with open(given, encoding="utf-8-sig", newline="") as file:
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError):
            raise ValueError(f"{given} cannot be read; give a CSV in UTF-8: value;level 1;level 2") from None
        given = [row for row in csv.reader(lines, delimiter=";" if lines and ";" in lines[0] else ",") if row]
    if isinstance(given, list | tuple) and all(isinstance(row, list | tuple) for row in given):
        return tuple(tuple(map(str, row)) for row in given)
    return given


_PATH_OR_ROWS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "array"}}]}
Rows = Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_read), WithJsonSchema(_PATH_OR_ROWS)]
MOST_KEYS = 12  # All sets of keys are tried for suppression
_NUMBERS = (Kind.CONTINUOUS, Kind.INTEGER)


class Recoding(Options):
    """How a column is recoded before anything else.

    `hierarchy`: for each value its categories, from the finest on; a CSV as ARX writes it (value;level 1;level 2, no
    header), or a list of lists. `level`: the one that is released, 0 for the values; `auto`: with the other columns of
    level `auto` in `key` the least loss of information (Samarati 2001; loss of Iyengar 2002) at which no more than
    `max_suppressed` of the rows are in classes under k. `minimum_population`: areas are released at the lowest level at
    which they and their siblings have so many inhabitants, by survey weights, or rows over `measure.sampling_fraction`.
    `bottom` and `top`: numbers beyond are released as these. `base`: they are rounded to its multiples, as both are.
    """

    hierarchy: Rows | None = None
    level: Annotated[int, Field(ge=0)] | Literal["auto"] = "auto"
    minimum_population: float | None = Field(default=None, gt=0)
    bottom: float | None = Field(default=None, allow_inf_nan=False)
    top: float | None = Field(default=None, allow_inf_nan=False)
    base: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _fits(self) -> Recoding:
        if self.hierarchy is not None:
            self._check_levels(self.hierarchy)
        elif self.level != "auto" or self.minimum_population is not None:
            raise ValueError("level and minimum_population need a hierarchy; give both")
        if self.bottom is not None and self.top is not None and self.bottom >= self.top:
            raise ValueError("bottom must be below top")
        ends = [each / (self.base or 1.0) for each in (self.bottom, self.top) if each is not None]
        if self.base is not None and not np.allclose(ends, np.round(ends), rtol=1e-9, atol=1e-9):
            raise ValueError("bottom and top must be multiples of base, or rounding goes beyond them")
        if not self.numeric and self.hierarchy is None:
            raise ValueError("nothing is recoded; give hierarchy, top, bottom or base")
        return self

    def _check_levels(self, rows: Rows) -> None:
        if not rows or {len(row) for row in rows} != {len(rows[0])} or len({row[0] for row in rows}) < len(rows):
            raise ValueError("hierarchy needs rows of equal length, each value in one of them")
        if self.level != "auto" and self.level >= len(rows[0]):
            raise ValueError(f"level is {self.level}, and the hierarchy has {len(rows[0]) - 1}")
        if self.level != "auto" and self.minimum_population is not None:
            raise ValueError("minimum_population finds the level of each area; leave out level")
        for at in range(1, len(rows[0]) - 1):
            if len({row[at : at + 2] for row in rows}) > len({row[at] for row in rows}):
                raise ValueError(f"a category of level {at} lies in several of level {at + 1}; give each one parent")
        texts = [set(level) for level in zip(*rows, strict=True)]
        for at in range(len(texts)) if self.minimum_population is not None else ():
            if any(text != row[at] and text in texts[at] for row in rows for text in row):
                raise ValueError(f"a text of level {at} stands at another level for other values; give areas own names")

    @property
    def numeric(self) -> bool:
        """Whether numbers are coded or rounded."""
        return not self.bottom == self.top == self.base is None

    def beyond(self, values: FloatArray) -> int:
        """How many values are top- or bottom-coded."""
        low, high = (-np.inf if self.bottom is None else self.bottom), (np.inf if self.top is None else self.top)
        return int(np.count_nonzero((values < low) | (values > high)))

    def applied(self, values: FloatArray) -> FloatArray:
        """Numbers rounded, and top- and bottom-coded."""
        rounded = values if self.base is None else np.floor(values / self.base + 0.5) * self.base
        return np.clip(rounded, self.bottom, self.top) if self.bottom != self.top else rounded


class Disclosure(Options):
    """Disclosure control of key variables, as in sdcMicro: it comes before strata and methods.

    `key`: columns released unchanged of which every combination has k rows or more. `non_key`: all others released
    unchanged. These are persons' true values, which nothing holds against k: only what nobody knows of a person belongs
    here. `recode`: see `Recoding`, by column. With `suppress`, what still is in a class under k is locally suppressed
    (released as null), the fewest values by `cost` (1 for a column unless given), in no more than `max_suppressed` of
    the rows; without, the run is refused.
    `nulls`: `category` counts a null as a value of its own, so that those who know the keys of a person find k rows;
    `any` counts it as any value, as sdcMicro does, and suppresses less.
    """

    key: tuple[str, ...] = Field(default=(), max_length=MOST_KEYS)
    non_key: tuple[str, ...] = ()
    recode: dict[str, Recoding] = Field(default_factory=dict)
    suppress: bool = True
    cost: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    nulls: Literal["category", "any"] = "category"
    max_suppressed: float = Field(default=0.05, ge=0, le=1)

    @property
    def wildcard(self) -> bool:
        """Whether a null stands for any value."""
        return self.nulls == "any"


def _check_names(given: Disclosure, job: Job) -> None:
    """All that is released unchanged is a key, or said to be none."""
    for where in ("key", "non_key", "recode", "cost"):
        names = getattr(given, where)
        if unknown := [name for name in names if name not in job.released]:
            raise ValueError(f"disclosure.{where} names {unknown[0]!r}, which is no released column of the job")
    if idle := [name for name in given.cost if name not in given.key]:
        raise ValueError(f"disclosure.cost names {idle[0]!r}, which is not in disclosure.key")
    both, unchanged = (*given.key, *given.non_key), [n for n, each in job.columns.items() if each.role.unchanged]
    if same := [name for name in both if name not in unchanged or both.count(name) > 1]:
        raise ValueError(
            f"disclosure names {same[0]!r} as a key or non-key; name each column once, and give it role key"
        )
    if given.non_key and not given.key:
        raise ValueError("disclosure.non_key is for the columns that are not in disclosure.key; give key, too")
    if given.key and (left := [name for name in unchanged if name not in both]):
        raise ValueError(
            f"{left[0]!r} is released unchanged and not in disclosure.key, so that nothing holds it against k; name it "
            "there, mask or drop it, or name it in disclosure.non_key if nobody knows it of a person"
        )


def check_disclosure(job: Job) -> None:
    """Refuse a section that does not fit the columns, or what recounts them."""
    given = job.disclosure
    if given is None:
        return
    _check_names(given, job)
    if not job.replaces and (job.mask is None or job.mask.method != "pram"):
        raise ValueError(
            "no column is masked, which mask, cluster, synthesize and anonpipe compare need; leave them out"
        )
    for name, recoding in given.recode.items():
        if recoding.numeric and job.columns[name].kind not in _NUMBERS:
            raise ValueError(f"disclosure.recode.{name}: top, bottom and base are for numbers; give a hierarchy")
        settled = recoding.hierarchy is None or recoding.level != "auto" or recoding.minimum_population is not None
        if not settled and name not in given.key:
            raise ValueError(f"disclosure.recode.{name}: level auto is for columns in disclosure.key; give a level")
    problems = {
        "release.unit: pseudonym": job.whole_release,
        "repeat.growing": job.repeat.growing,
        "a column with role unit (k counts rows here)": bool(given.key) and job.unit_declared,
        "measure.hold_out, which takes rows out of classes of k": bool(given.key) and job.measure.held_out > 0,
        "missing: error of a key, which may become null": any(job.columns[n].missing == "error" for n in given.key),
        "strata.small other than error, which recodes again": bool(given.key) and job.strata.small != "error",
    }
    if clash := [text for text, there in problems.items() if there]:
        raise ValueError(f"disclosure does not go with {'; nor with '.join(clash)}; leave these out, or disclosure")
