"""What an intruder finds in a release of which nothing is known but its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from anonpipe.columns import Kind
from anonpipe.encoding.row_hash import added, counted, looked_up, row_numbers
from anonpipe.evaluate import risk
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.utility import Measurement
from anonpipe.job.model import Measure
from anonpipe.pipeline.evaluation.attacks import measured_of
from anonpipe.pipeline.evaluation.known import coded_numbers, with_numbers
from anonpipe.pipeline.evaluation.search import NEIGHBOURS
from anonpipe.pipeline.tasks.scan import FEWEST_HELD
from anonpipe.rng import generator
from anonpipe.two_tables._tables import Named, Tables
from anonpipe.types import BoolArray, FloatArray, IntArray
from anonpipe.verify.assessment import NotChecked

KEY = b"which records of two tables"  # Which records are looked at is no secret: whoever asks has both tables


def drawn(what: str, rows: int, count: int) -> IntArray:
    """Positions of some rows, ascending; the same for the same numbers."""
    if count >= rows:
        return np.arange(rows)
    return np.sort(generator(KEY, what).choice(rows, count, replace=False))


@dataclass(frozen=True, eq=False)
class Looked:
    """Records that were looked for, and what was found."""

    rows: IntArray  # Where they stand in the original
    cells: FloatArray  # Of them; shape (n_queries, n_columns)
    held: FloatArray  # Of records that the release was not made from
    told: FloatArray  # Of some released records
    # release, original, ranks, control: the nearest released records, the nearest other originals, the nearest released
    # ones by ranks, and the nearest released ones of those held
    release: risk.Nearest
    original: risk.Nearest
    ranks: risk.Nearest
    control: risk.Nearest | None
    # The nearest released ones of all of them by either half of the columns; empty without control, or of one column
    halves: Sequence[risk.Nearest]
    guesses: risk.Guesses  # What the closest released record says of each column of all of them
    whitened: risk.Nearest  # The nearest released records by Mahalanobis distance


def look(tables: Tables, queries: int, original: FloatArray, release: FloatArray) -> Looked:
    """Look for some records in the whole release, and in the whole original as the reference."""
    rows = drawn("queries", tables.original.rows, queries)
    (cells,) = tables.rows(tables.original, rows)
    held = np.empty((0, cells.shape[1]))
    if tables.held is not None:
        (held,) = tables.rows(tables.held, drawn("held", tables.held.rows, queries))
    nulls = np.where(tables.encoder.has_nulls, np.nan, 0.0)[None]
    known = [at for at, name in enumerate(tables.encoder.names) if name not in tables.sensitive]
    codes = [place for place, at in enumerate(known) if at in tables.coded]
    elsewhere = np.concatenate([release, cells, held, nulls])
    coding = risk.Coding.of(original[:, known], elsewhere[:, known], codes)

    def encode(each: FloatArray) -> FloatArray:
        return np.concatenate(coding.each(each[:, known]), axis=1)

    asked, control = encode(cells), encode(held) if len(held) >= FEWEST_HELD else None
    before, after = risk.Ranks.of(encode(original)), risk.Ranks.of(encode(release))
    axes = risk.Whitened.of(encode(original), encode(release))
    by_rank, everyone = before.apply(asked), np.concatenate([cells, held])
    to_guess = risk.Coding.of(release, everyone, tables.coded)
    owners = np.repeat(np.arange(len(known)), [part.shape[1] for part in coding.each(cells[:1, known])])
    halves = [owners % 2 == at for at in (0, 1)] if control is not None and len(known) > 1 else []

    def searched(features: FloatArray, first: int) -> dict[str, risk.Nearest]:
        found = {"release": risk.nearest(features, asked, NEIGHBOURS, offset=first, values=True)}
        found["ranks"] = risk.nearest(after.apply(features), by_rank, 2, offset=first)
        found["whitened"] = risk.nearest(axes.apply(features), axes.apply(asked), 2, offset=first)
        if control is not None:
            found["control"] = risk.nearest(features, control, 2, offset=first)
        for at, half in enumerate(halves):
            whole = np.concatenate([asked, encode(held)])[:, half]
            found[f"half_{at}"] = risk.nearest(features[:, half], whole, NEIGHBOURS, offset=first)
        return found

    found: dict[str, risk.Nearest] = {}
    guesses: list[risk.Guesses] = []
    for first, batch in tables.cells(tables.release):
        new = searched(encode(batch), first)
        found = {name: _merged(found[name], one) for name, one in new.items()} if found else new
        guessed = risk.guess_nearest(batch, everyone, to_guess)
        guesses = [guesses[0].merge(guessed) if guesses else guessed]
    others = (
        risk.nearest(encode(batch), asked, NEIGHBOURS, offset=first, without=rows, values=True)
        for first, batch in tables.cells(tables.original)
    )
    return Looked(
        rows,
        cells,
        held,
        release,
        found["release"],
        reduce(_merged, others),
        found["ranks"],
        found.get("control"),
        [found[f"half_{at}"] for at in range(len(halves))],
        guesses[0],
        found["whitened"],
    )


def _merged(one: risk.Nearest, other: risk.Nearest) -> risk.Nearest:
    """What was found in two parts of a table."""
    return risk.merge_nearest([one, other], one.rows.shape[1])


@dataclass(frozen=True, eq=False)
class KnownOfTables:
    """What attacks are given (`anonpipe.evaluate.risk.Known`) of two tables: no group, no stratum, no method."""

    tables: Tables
    looked: Looked
    k: int
    paired: tuple[FloatArray, FloatArray] | None
    asked: Measure

    grouped = False
    own_group = None
    alike = None
    groups = Reason.ONLY_A_RUN
    moments = Reason.ONLY_A_RUN
    classes = Reason.ONLY_A_RUN
    strata = Reason.ONLY_A_RUN
    assigned = Reason.ONLY_A_RUN
    smallest_group = Reason.ONLY_A_RUN
    unlinked = Reason.NO_ROW_TOLD
    exact_moments = False
    own_columns = 0
    fewest_alike = None

    @property
    def rows(self) -> int:
        """Records of the release."""
        return self.tables.release.rows

    @property
    def features(self) -> Sequence[str]:
        """Names of the columns."""
        return self.tables.encoder.names

    @property
    def link(self) -> risk.Link:
        """What ties a released record to one person."""
        return "unknown" if self.paired is None else "own"

    @property
    def own_row(self) -> IntArray | None:
        """The released row made from each record looked for, where rows stand for rows."""
        return None if self.paired is None else self.looked.rows

    @property
    def own_size(self) -> IntArray:
        """Records of no group."""
        return np.zeros(len(self.looked.rows), dtype=np.int64)

    @property
    def released(self) -> risk.Found:
        """The nearest released records of the records looked for."""
        return risk.Found(self.looked.release, None)

    @property
    def original(self) -> risk.Found:
        """The nearest other originals of them."""
        return risk.Found(self.looked.original, None)

    @property
    def by_rank(self) -> risk.Found:
        """The nearest released records by ranks."""
        return risk.Found(self.looked.ranks, None)

    @property
    def whitened(self) -> risk.Found:
        """The nearest released records by Mahalanobis distance."""
        return risk.Found(self.looked.whitened, None)

    @property
    def numbers(self) -> tuple[Sequence[str], FloatArray]:
        """Masked numbers and dates of the records looked for."""
        places = [at for at in self._masked if not self.tables.encoder.columns[at].kind.coded]
        return [self.features[at] for at in places], self.looked.cells[:, places]

    @property
    def held(self) -> risk.Found | Reason:
        """The nearest released records of records that the release was not made from."""
        return self._no_control or risk.Found(self._control, None)

    @property
    def guessed(self) -> risk.Guessed | Reason:
        """Records whose columns are guessed."""
        if problem := self._no_control:
            return problem
        looked = self.looked
        given = looked.told, looked.cells, looked.held, looked.guesses
        return risk.Guessed(*given, self.features, self._masked, self.tables.coded)

    @property
    def singled(self) -> dict[str, risk.Met] | Reason:
        """What meets predicates that may single out."""
        if problem := self._no_control:
            return problem
        tables, wanted, held = self.tables, self.asked.queries, self.looked.held[: self.tables.original.rows]
        ends = np.concatenate([risk.outermost(cells) for _, cells in tables.cells(tables.release)])
        known = np.concatenate([self.looked.told, risk.outermost(ends)])
        found = risk.candidates(known, tables.coded, wanted, self.rng("singling out"))
        released, original = (_matches(tables.cells(table), found) for table in (tables.release, tables.original))
        controls = _matches([(0, held)], found)
        rows = self.tables.original.rows, len(held), wanted
        return {name: risk.Met(released[name], original[name], controls[name], *rows) for name in found}

    @property
    def halves(self) -> tuple[BoolArray, BoolArray] | Reason:
        """Whether both halves of a record lead to the same released one."""
        if problem := self._no_control:
            return problem
        if not self.looked.halves:
            return Reason.ONE_COLUMN
        one, other = (each.rows for each in self.looked.halves)
        joined, members = risk.joined(one, other), len(self.looked.cells)
        return joined[:members], joined[members:]

    @property
    def pairs(self) -> risk.Pairs | Reason:
        """A paired sample of the masked columns."""
        if self.paired is None:
            return Reason.NO_ROW_TOLD
        places, columns = self._masked, self.tables.encoder.columns
        unordered = [at for at, place in enumerate(places) if columns[place].kind in (Kind.CATEGORICAL, Kind.BINARY)]
        before, after = (table[:, places] for table in self.paired)
        return risk.Pairs(before, after, [self.features[at] for at in places], unordered)

    @property
    def scenarios(self) -> dict[str, risk.Scenario] | Reason:
        """What the original would give away to who knows some columns; the links are tried by a run alone."""
        names, found = list(self.features), {}
        for scenario in self.asked.scenarios:
            places = [names.index(name) for name in scenario.knows]
            batches, known, persons = self.tables.cells(self.tables.original), self.looked.cells[:, places], None
            if scenario.within:
                values = coded_numbers(self.tables.encoder, scenario.within)
                known = with_numbers(self.looked.cells, values)[:, places]
                asked = risk.around(known, places, scenario.tolerances)
                tables = (risk.Ordered.of(with_numbers(cells, values)) for _, cells in batches)
                near = (asked.matches(each, self.tables.original.rows).counts for each in tables)
                sizes = own = np.asarray(sum(near))
                persons = np.ones_like(sizes)
            else:
                classes, sizes = added([counted(row_numbers(cells[:, places])) for _, cells in batches])
                own = looked_up(classes, sizes, row_numbers(known))
            told = scenario.described, sizes, persons, own, Reason.ONLY_A_RUN
            found[scenario.name] = risk.Scenario(*told, self.asked.sampling_fraction, self.tables.original.rows)
        return found or Reason.NO_SCENARIO

    def rng(self, what: str) -> np.random.Generator:
        """The generator of one use."""
        return generator(KEY, what)

    @property
    def _masked(self) -> list[int]:
        return [at for at, name in enumerate(self.features) if name in self.tables.masked]

    @property
    def _no_control(self) -> Reason | None:
        if self.tables.held is None:
            return Reason.NO_CONTROL
        return Reason.FEW_HELD if self.looked.control is None else None

    @property
    def _control(self) -> risk.Nearest:
        assert self.looked.control is not None  # as _no_control has seen
        return self.looked.control


def _matches(
    batches: Iterable[tuple[int, FloatArray]], predicates: Mapping[str, risk.Predicates]
) -> dict[str, risk.Matches]:
    """Which records of a table meet predicates."""
    found: dict[str, risk.Matches] = {}
    for first, cells in batches:
        records = risk.Ordered.of(cells)
        new = {name: each.matches(records, offset=first) for name, each in predicates.items()}
        found = {name: found[name] + new[name] for name in new} if found else new
    return found


def measured_risk(known: KnownOfTables) -> tuple[tuple[Measurement, ...], tuple[NotChecked, ...]]:
    """Every attack that two tables allow, and what they do not allow."""
    return measured_of(known, False)


def sampled(tables: Tables, table: Named, count: int) -> FloatArray:
    """Cells of a sample; of two tables of equal length the same rows."""
    return tables.rows(table, drawn("sample", table.rows, count))[0]
