"""Categories released as probabilities: in place of a column, one column of numbers for each of its categories.

Lasko & Vinterbo 2010, section III: the distribution over the categories that the masked dummies stand for may itself be
released. As they describe it, it is too even: unmasked dummies of -1 and +1 make a category of 5 % one of 29 %. Here it
is calibrated, so that its mean is the share of the category, and rounded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anonpipe.encoding.categories import calibrated_probabilities, probabilities, rounded
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import CategoryBlock, FeatureEncoder, Groups, NumberBlock
from anonpipe.encoding.values import from_numbers, is_date, numbers, plain_type
from anonpipe.errors import JobError
from anonpipe.types import FloatArray

NULL = "null"  # Stands for a category in the name of the column of nulls


@dataclass(frozen=True)
class OutputForm:
    """What is known of a way of decoding, as lists of methods show it."""

    # name, published, reference, cost: as in `anonpipe.methods.synthesis.Synthesizer`
    name: str
    published: str
    reference: str
    cost: str
    about: Mapping[str, str]
    keeps: str


PROBABILITIES = OutputForm(
    name="probabilities",
    published="categories in probabilistic form, by inverse logit and normalisation",
    reference="Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section III",
    cost="time n · q for each of 10 to 100 rounds, q categories of a column; memory: n · q numbers",
    about={"probability_step": "what probabilities are multiples of, 0.001 by default"},
    keeps=(
        "in place of a column one of probabilities for each category, which add up to 1 in every record and whose "
        "means are the shares of the categories; covariances with other columns are smaller than those of the "
        "categories, and so are variances"
    ),
)


@dataclass(frozen=True, eq=False)
class ProbabilityDecoder:
    """The columns of probabilities of each masked category or binary column."""

    blocks: tuple[CategoryBlock, ...]  # The columns, each with its place among cells and features
    fields: tuple[pa.Field, ...]  # Of the columns of the release, block by block, in the order of `CategoryBlock.codes`
    texts: tuple[str | None, ...]  # Of each of them the category, None for nulls
    units: int  # One over the step
    # Of each of them the mean probability in records of other categories and in records of the category, were nothing
    # masked; shape (number of fields, 2)
    unmasked: FloatArray

    @classmethod
    def fit(
        cls, cells: ColumnEncoder, features: FeatureEncoder, step: float, taken: Collection[str]
    ) -> ProbabilityDecoder:
        """The decoder for the columns of a table."""
        texts, owners = [], []
        for block in features.categories:
            known = cells.categories[block.name]
            texts += [str(known[code].as_py()) if code < len(known) else None for code in block.codes.tolist()]
            owners += [block.name] * len(block.codes)
        names = [column_name(owner, text) for owner, text in zip(owners, texts, strict=True)]
        others = (set(taken) | set(cells.names)) - set(owners)
        for at, name in enumerate(names):
            if name in others or name in names[:at]:
                raise JobError(
                    "decode.categories probabilities makes a column for each category, and two columns would be "
                    f"called alike: one of the categories of {owners[at]!r}, and a column of the table, a category "
                    f"called {NULL!r} as well as nulls, or a category of another column; rename column or category"
                )
        fields = tuple(pa.field(name, pa.float64(), nullable=False) for name in names)
        marks = [_unmasked(block) for block in features.categories]
        return cls(features.categories, fields, tuple(texts), round(1.0 / step), np.concatenate(marks))

    def slices(self) -> list[tuple[CategoryBlock, slice]]:
        """Each column, and where its probabilities stand."""
        stops = np.cumsum([len(block.codes) for block in self.blocks]).tolist()
        return [(block, slice(stop - len(block.codes), stop)) for block, stop in zip(self.blocks, stops, strict=True)]

    def decode(
        self, features: FloatArray, cells: FloatArray, groups: Groups, *, rng: np.random.Generator
    ) -> FloatArray:
        """Probabilities of synthetic features; cells (n_rows, n_cells)."""
        out = np.empty((len(features), len(self.fields)))
        rows, sizes = (groups.first, groups.sizes) if groups.identical else (np.arange(len(features)), None)
        for block, place in self.slices():
            counts = block.count(cells)
            chances = np.ones((len(rows), 1))
            if len(counts) > 1:
                chances = probabilities(features[rows, block.start : block.stop])
                chances = calibrated_probabilities(chances, counts / counts.sum(), sizes)
            steps = rounded(chances, self.units, rng) / self.units
            if sizes is None:
                out[:, place] = steps
            else:
                out[groups.order, place] = np.repeat(steps, sizes, axis=0)
        return out

    def put_most_probable(self, cells: FloatArray, shares: FloatArray) -> FloatArray:
        """A copy of the cells with the most probable category of each record, the first of equals."""
        out = cells.copy()
        for block, place in self.slices():
            out[:, block.position] = block.codes[shares[:, place].argmax(axis=1)]
        return out

    def put_dummies(self, features: FloatArray, shares: FloatArray) -> None:
        """Write into features the dummies that a reader makes of probabilities who knows how these are made."""
        # On a straight line through the two means of an unmasked category, which become -1 and +1: both follow from the
        # shares, and these from the release.
        for block, place in self.slices():
            if not block.width:
                continue
            without, with_it = self.unmasked[place].T
            apart = np.maximum(with_it - without, 0.5 / self.units)
            dummies = -1.0 + 2.0 * (shares[:, place] - without) / apart
            features[:, block.start : block.stop] = dummies[:, len(block.codes) - block.width :]

    def by_code(self, shares: FloatArray) -> dict[int, FloatArray]:
        """Of each column, by position among the cells, the probabilities by code, shape (n_rows, largest code + 1)."""
        found = {}
        for block, place in self.slices():
            dense = np.zeros((len(shares), int(block.codes.max()) + 1))
            dense[:, block.codes] = shares[:, place]
            found[block.position] = dense
        return found

    def in_place(self, columns: Sequence[pa.Array], shares: FloatArray) -> list[pa.Array]:
        """The columns of the release: those of the table, but probabilities where categories were."""
        new = {block.position: [pa.array(column) for column in shares[:, place].T] for block, place in self.slices()}
        return [each for at, column in enumerate(columns) for each in new.get(at, [column])]

    def described(self) -> dict[str, dict[str, str | None]]:
        """Of each column of probabilities the column and the category that it tells of (none for nulls)."""
        owners = [block.name for block in self.blocks for _ in block.codes]
        columns = zip(self.fields, owners, self.texts, strict=True)
        return {
            field.name: {"treatment": "probability of a category", "column": owner, "category": text}
            for field, owner, text in columns
        }

    def schema(self, whole: pa.Schema) -> pa.Schema:
        """The schema of the release, from that of the table."""
        new = {block.position: list(self.fields[place]) for block, place in self.slices()}
        return pa.schema([each for at, field in enumerate(whole) for each in new.get(at, [field])])

    def read(self, cells: ColumnEncoder, batch: pa.RecordBatch) -> tuple[FloatArray, FloatArray]:
        """Cells, the most probable category in each, and probabilities of rows of the release."""
        shares = np.stack([numbers(batch.column(field.name)) for field in self.fields], axis=1)
        blank = np.zeros((batch.num_rows, len(cells.names)))
        best = self.put_most_probable(blank, shares)
        return cells.to_cells(batch, {block.name: best[:, block.position] for block in self.blocks}), shares

    def beyond_limits(self, shares: FloatArray) -> int:
        """Probabilities outside 0 to 1 or off the step, and records whose probabilities do not add up to 1."""
        steps = shares * self.units
        bad = np.count_nonzero(~((shares >= 0.0) & (shares <= 1.0) & (np.abs(steps - np.rint(steps)) < 1e-6)))
        sums = (shares[:, place].sum(axis=1) for _, place in self.slices())
        return int(bad + sum(np.count_nonzero(~(np.abs(each - 1.0) < 1e-9)) for each in sums))


def _unmasked(block: CategoryBlock) -> FloatArray:
    """Mean probability of each category in records of others and in its own, nothing being masked; shape (q, 2)."""
    size = len(block.codes)
    if size == 1:
        return np.array([[0.0, 1.0]])
    dummies = 2.0 * np.eye(size) - 1.0
    chances = probabilities(dummies[:, 1:] if size == 2 else dummies)
    made = calibrated_probabilities(chances, block.shares, block.shares)
    own = np.diag(made)
    return np.stack([(block.shares - block.shares * own) / (1.0 - block.shares), own], axis=1)


def column_name(column: str, category: str | None) -> str:
    r"""The name of the column of a category: both names and an underscore between, as indicators are mostly called."""
    # In the category all but letters, digits, `_` and `-` is escaped as in addresses of the web (%20 for a blank), as
    # programs that read Parquet refuse dots, commas or brackets. Different categories so have different names.
    if category is None:
        return f"{column}_{NULL}"
    escaped = re.sub(r"[^\w-]", lambda odd: "".join(f"%{byte:02X}" for byte in odd.group().encode()), category)
    return f"{column}_{escaped}"


# --- The ends of intervals, as columns next to the middle that a generalised column holds -----------------------------


SUFFIXES = "_from", "_to"  # Of the names of the columns that hold the lower and the upper ends


@dataclass(frozen=True, eq=False)
class IntervalDecoder:
    """Two columns for each masked number and date: where its interval begins and ends, both ends included."""

    blocks: tuple[NumberBlock, ...]  # The numbers and dates, each with its place among the features
    # Of the columns of the release, lower and upper end of each in turn: of the type of the column for dates, else
    # 64-bit integers where all ends are whole, or floating-point numbers
    fields: tuple[pa.Field, ...]
    # steps, origins: of each, what ends are multiples of, counted from where; 0 where ends are values of the column
    steps: tuple[float, ...]
    origins: tuple[float, ...]

    @classmethod
    def fit(
        cls, cells: ColumnEncoder, features: FeatureEncoder, steps: Mapping[str, float], origins: Mapping[str, float]
    ) -> IntervalDecoder:
        """The decoder for the columns of a table."""
        blocks = tuple(block for block in features.numbers if not block.ordinal)
        step = tuple(float(steps.get(block.name, 0.0)) for block in blocks)
        origin = tuple(float(origins.get(block.name, 0.0)) for block in blocks)
        fields = []
        for block, *widened in zip(blocks, step, origin, strict=True):
            kind = plain_type(cells.schema.field(block.position).type)
            if not is_date(kind) and not pa.types.is_string(kind):
                whole = pa.types.is_integer(kind) and all(float(number).is_integer() for number in widened)
                kind = pa.int64() if whole else pa.float64()
            fields += [pa.field(block.name + suffix, kind) for suffix in SUFFIXES]
        if taken := [field.name for field in fields if field.name in cells.names]:
            raise JobError(
                f"mask.release interval adds columns {', '.join(map(repr, taken))}, and the input has such columns; "
                "rename these"
            )
        return cls(blocks, tuple(fields), step, origin)

    @property
    def owners(self) -> dict[str, str]:
        """The column that each added column belongs to."""
        names = [block.name for block in self.blocks for _ in SUFFIXES]
        return {field.name: name for field, name in zip(self.fields, names, strict=True)}

    def ends(self, low: FloatArray, high: FloatArray, released: FloatArray) -> FloatArray:
        """The ends in units, NaN where the middle is missing; low, high (n_rows, width), released (n_rows, n_cells)."""
        columns = []
        for block, step, origin in zip(self.blocks, self.steps, self.origins, strict=True):
            missing = np.isnan(released[:, block.position])
            for features in (low, high):
                values = block.in_unit(block.mean + block.sd * features[:, block.start])
                values = origin + np.rint((values - origin) / step) * step if step else block.grid.round(values)
                columns.append(np.where(missing, np.nan, values))
        return np.stack(columns, axis=1) if columns else np.empty((len(low), 0))

    def arrays(self, ends: FloatArray) -> list[pa.Array]:
        """The columns of the release."""
        step = [width or block.grid.step for block, width in zip(self.blocks, self.steps, strict=True)]
        return [from_numbers(ends[:, at], field, step[at // 2]) for at, field in enumerate(self.fields)]
