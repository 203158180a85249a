"""Looking for sampled records in every partition: of the release, and of the original itself as the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.encoding.row_hash import counted, looked_up
from anonpipe.environment import one_thread
from anonpipe.evaluate import risk
from anonpipe.evaluate.risk import Nearest, Predicates, RankLinkage, Whitened, near_order, nearest
from anonpipe.pipeline.arrays import partition_rows, released_labels, released_rows
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.evaluation import known, samples
from anonpipe.pipeline.evaluation.known import key_columns, known_features, links_own, stratum_numbers
from anonpipe.pipeline.evaluation.samples import Queries
from anonpipe.pipeline.tasks.scan import FEWEST_HELD, held_cells
from anonpipe.types import BoolArray, FloatArray, IntArray

NEIGHBOURS = 5  # Records that are found for each query: what Lasko & Vinterbo's ambiguity and uncertainty look at


@dataclass(frozen=True, eq=False)
class SearchTargets:
    """Records that are searched for in a release, and by what."""

    features: FloatArray  # Of those looked for, shape (n_queries, width)
    control: FloatArray | None  # Of held-out ones, likewise; None where there are too few
    first_half: BoolArray | None  # Which features are of one half of the columns, shape (width,); None for one column
    ranks: tuple[RankLinkage, RankLinkage]  # Of original and release: where a method shifts or stretches columns
    axes: Whitened | None  # Of both tables' pooled covariance; None where records are released in groups
    unstratified: BoolArray | None = None  # Which features do not tell the stratum; None for none


def search_release(
    released: FloatArray, targets: SearchTargets, offset: int, within: Mapping[str, FloatArray] = MappingProxyType({})
) -> dict[str, Nearest]:
    """The nearest released records, of some that begin with row `offset`: of held-out records as `held_` and the name.

    Nothing is found beyond the squared distances `within`, by the same names, those of held-out records last.
    """
    features, control, (before, after) = targets.features, targets.control, targets.ranks
    order, every = near_order(released), features if control is None else np.concatenate([features, control])
    searches: dict[str, tuple[FloatArray, FloatArray, int, IntArray | None]] = {
        "release": (released, every, NEIGHBOURS, order),
        "ranks": (after.apply(released), before.apply(features), 2, order),
    }
    if targets.axes is not None:
        searches["whitened"] = targets.axes.apply(released), targets.axes.apply(features), 2, order
    if (some := targets.unstratified) is not None:
        searches["strata_release"] = np.compress(some, released, 1), np.compress(some, every, 1), 1, order
    if control is not None and targets.first_half is not None:
        for at, half in enumerate((targets.first_half, ~targets.first_half)):
            searches[f"half_{at}"] = np.compress(half, released, 1), np.compress(half, every, 1), NEIGHBOURS, None
    found = {}
    for name, (rows, asked, count, in_order) in searches.items():
        options: dict[str, Any] = {"offset": offset, "order": in_order, "within": within.get(name)}
        near = nearest(rows, asked, count, values=name == "release", **options)
        found[name] = near.part(slice(len(features)), count, values=True)
        if len(asked) > len(features):
            found[f"held_{name}"] = near.part(slice(len(features), None), count)
    return found


def search_partition(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Keep, for all that is looked for, the nearest records of one partition."""
    begin, queries, within = cut.rows_before(index), samples.read_queries(work), work.staging.read_record(_BORDERS)
    targets = _targets(work, fitted, queries)
    offset = work.place * cut.rows + begin  # rows of copies are numbered through
    cells, labels = released_rows(work, fitted, cut, index), released_labels(work, fitted, cut, index)
    groups = np.full(len(cells), -1) if labels is None else labels
    alike = groups if labels is None else samples.alike_numbers(fitted, cells, groups)
    released, of_groups = known_features(fitted, cells), {"groups": groups, "alike": alike}
    found = search_release(released, targets, offset, within)
    row_labels: RowLabels = {"release": of_groups, "ranks": of_groups}
    if targets.unstratified is not None:
        of_strata = {"groups": groups, **stratum_numbers(fitted, cells)}
        row_labels |= {name: of_strata for name in ("strata_release", "held_strata_release")}
    arrays = {
        "own_alike": looked_up(*counted(alike), queries.own_alike),  # sharing a query's group and unchanged columns
        **_guesses(work, fitted, cells, within.get("guesses")),
    }
    arrays |= _by_keys(work, fitted, queries, cells, released, alike, offset)
    predicates = samples.read_predicates(work)
    arrays |= _met_by_released(predicates, cells[:, : len(fitted.cells.names)], offset)
    del cells, released
    if work.place:  # the original has been searched with the first copy
        _save(work, index, found, row_labels, offset, arrays)
        return {"rows": len(groups)}
    cells, units = partition_rows(work, fitted, cut, index)
    # Of several copies the mean tells whether there is an attack, and one copy does not
    met = arrays if fitted.job.release.copies == 1 else None
    arrays |= _met_by_originals(predicates, met, cells, begin, units) | _within(fitted, queries, cells)
    unstratified = targets.unstratified if targets.control is None else None
    found |= _in_original(known_features(fitted, cells), queries, unstratified, begin, within.get("original"))
    if "strata_original" in found:
        row_labels["strata_original"] = stratum_numbers(fitted, cells)
    _save(work, index, found, row_labels, begin, arrays)
    return {"rows": len(cells)}


def _targets(work: Work, fitted: Fitted, queries: Queries) -> SearchTargets:
    """What is searched for in every partition."""
    before, after = queries.ranked_original, queries.ranked_released
    axes = Whitened.of(before, after) if links_own(fitted) else None
    ranks = RankLinkage.of(before), RankLinkage.of(after)
    unstratified, held = known.without_strata(fitted) if fitted.job.strata.by else None, held_cells(work, fitted)
    control = known_features(fitted, held) if len(held) >= FEWEST_HELD else None
    return SearchTargets(queries.features, control, known.first_half(fitted), ranks, axes, unstratified)


_BORDERS = f"{samples.FOLDER}/borders.record"

_ROWS = 50  # Rows of the release for each one of the sample that tells where to look no further

_SLACK = 1 + 1e-9  # Rounding may differ with the number of rows that are whitened together


def borders(found: Mapping[str, Nearest]) -> dict[str, FloatArray]:
    """How far the last of what was found is, by the names of searches: further away others need not look."""
    within: dict[str, FloatArray] = {}
    for name, one in found.items():
        search = name.removeprefix("held_")
        within[search] = np.append(within.get(search, []), one.squared[:, -1] * _SLACK)
    return within


def gather_borders(work: Work, fitted: Fitted, cut: Cut) -> None:
    """Keep how far some sampled records are from all that is looked for: further away no partition need look."""
    # A partition of another stratum has nothing near, and would look through all of its rows.
    within: dict[str, FloatArray] = {}
    if len(cut.partitions) > 1 and fitted.job.release.copies == 1:  # measures look at copies one by one, too
        queries, given = samples.read_queries(work), samples.read_guessed(work)
        some = slice(None, None, -(-len(queries.ranked_released) * _ROWS // cut.rows))
        with one_thread(), ThreadPoolExecutor(1) as thread:  # two cores, as workers wait; those of BLAS would, too
            guesses = None if given is None else thread.submit(_guesses, work, fitted, given.released[some], None)
            found = search_release(queries.ranked_released[some], _targets(work, fitted, queries), 0)
            # A query itself may be among them
            found["original"] = nearest(queries.ranked_original[some], queries.features, NEIGHBOURS + 1)
        within = borders(found)
        if guesses is not None:
            within["guesses"] = guesses.result()["guesses.squared"][..., -1] * _SLACK
    work.staging.write_record(_BORDERS, within)


RowLabels = dict[str, Mapping[str, IntArray]]  # Of what was found under a name, labels of each of the partition's rows


def _in_original(
    original: FloatArray, queries: Queries, unstratified: BoolArray | None, begin: int, within: FloatArray | None
) -> dict[str, Nearest]:
    """The nearest other originals of what is looked for; where they stand in for a control, also by some columns."""
    features, own = queries.features, queries.own_original
    order = near_order(original)
    others: dict[str, Any] = {"offset": begin, "without": own, "order": order}
    found = {"original": nearest(original, features, NEIGHBOURS, values=True, within=within, **others)}
    if unstratified is not None:
        some = original[:, unstratified], features[:, unstratified]
        found["strata_original"] = nearest(*some, 1, **others)
    return found


def _met_by_released(predicates: Mapping[str, Predicates], cells: FloatArray, begin: int) -> dict[str, IntArray]:
    """Whether none of a partition's released records meets each predicate that may single out, one, or more."""
    if not predicates:
        return {}
    records = risk.Ordered.of(cells)
    found = {name: each.matches(records, 1, begin) for name, each in predicates.items()}
    return {f"release.{name}.{what}": array for name, one in found.items() for what, array in vars(one).items()}


def _met_by_originals(
    predicates: Mapping[str, Predicates],
    released: Mapping[str, npt.NDArray[Any]] | None,
    cells: FloatArray,
    begin: int,
    units: IntArray | None,
) -> dict[str, IntArray]:
    """Which originals, or units, meet predicates; none is looked for where two released records do, as no attack is."""
    arrays: dict[str, IntArray] = {}
    if not predicates:
        return arrays
    records = risk.Ordered.of(cells)
    for name, each in predicates.items():
        may = np.arange(len(each)) if released is None else np.flatnonzero(released[f"release.{name}.counts"] < 2)
        if units is None:
            found = vars(each[may].matches(records, offset=begin))
        else:
            found = {"units": each[may].units(records, units)}
        for what, array in found.items():
            arrays[f"original.{name}.{what}"] = np.full((len(each), *array.shape[1:]), 0 if units is None else -1)
            arrays[f"original.{name}.{what}"][may] = array
    return arrays


def matches_in(work: Work, cut: Cut, where: str, name: str) -> risk.Matches:
    """Which records of the `release`, or of the `original`, meet the predicates on `one` column or on `several`."""
    # Of the original the units, where these have several rows. Of several copies of the release the mean number,
    # rounded: it tells more of how many there are than each.
    name_of_units, first = f"{where}.{name}.units", work.copies[0]
    if name_of_units in next(_files(first, cut)):
        return risk.joined_units(file[name_of_units] for file in _files(first, cut))

    def found(one: Work) -> risk.Matches:
        counts, rows = f"{where}.{name}.counts", f"{where}.{name}.rows"
        return reduce(risk.Matches.__add__, (risk.Matches(file[counts], file[rows]) for file in _files(one, cut)))

    if where == "original" or len(work.copies) == 1:
        return found(first)
    counts = np.mean([found(one).counts for one in work.copies], axis=0)
    return risk.Matches(np.rint(counts).astype(np.int64), found(first).rows)


def _guesses(work: Work, fitted: Fitted, released: FloatArray, within: FloatArray | None) -> dict[str, FloatArray]:
    """What the closest released records of a partition say of each column of those that are guessed."""
    if (given := samples.read_guessed(work)) is None:
        return {}
    table = released[:, : len(fitted.cells.names)]  # with the most probable category where probabilities are released
    coding = risk.Coding.of(given.released, given.asked, known.coded_positions(fitted))  # the scale of closeness
    found = risk.guess_nearest(table, given.asked, coding, within)
    return {"guesses.values": found.values, "guesses.squared": found.squared}


def _by_keys(
    work: Work, fitted: Fitted, queries: Queries, cells: FloatArray, released: FloatArray, alike: IntArray, begin: int
) -> dict[str, npt.NDArray[Any]]:
    """What a partition has for those who are looked for by the columns of each scenario."""
    scenarios = key_columns(fitted)
    if not scenarios or not known.links_persons(fitted):
        return {}
    owners = begin + np.arange(len(cells)) if links_own(fitted) else alike
    own = _own_of(work, fitted, queries)
    arrays: dict[str, npt.NDArray[Any]] = {}
    begins = np.cumsum([columns.masked.sum() for columns in scenarios])[:-1]
    asked = np.split(queries.own_known, begins, axis=1)
    for at, columns in enumerate(scenarios):
        of_release = released[:, columns.masked], columns.blocks(cells), owners
        found = risk.key_matches(*of_release, asked[at], queries.own_blocks[:, at], own)
        arrays |= {f"scenario_{at}.{name}": array for name, array in vars(found).items()}
    return arrays


def _within(fitted: Fitted, queries: Queries, cells: FloatArray) -> dict[str, IntArray]:
    """How many of a partition's originals could be meant by what a scenario knows within limits of each query."""
    arrays = {}
    for at, columns in enumerate(key_columns(fitted)):
        if columns.tolerant:
            records = risk.Ordered.of(columns.valued(cells))
            arrays[f"scenario_{at}.within"] = columns.around(queries.own_cells).matches(records, len(cells)).counts
    return arrays


def _own_of(work: Work, fitted: Fitted, queries: Queries) -> tuple[IntArray, IntArray, FloatArray]:
    """Starts, places and weights of what counts as the own record of each query."""
    # Its own released record where there is one; else those alike in its group, and of a unit with several rows r/n for
    # each group, which has n alike of which r are the unit's. (Otherwise 1/n is not known before all partitions are
    # searched.)
    count = len(queries.own_row)
    if links_own(fitted):
        return np.arange(count + 1), queries.own_row, np.ones(count)
    if fitted.unit is None:
        return np.arange(count + 1), queries.own_alike, np.ones(count)
    units = samples.read_units(work)
    order = np.argsort(units.alike.units, kind="stable")
    ordered = units.alike.units[order]
    begins, ends = (np.searchsorted(ordered, units.own, side=side) for side in ("left", "right"))
    starts = np.concatenate([[0], np.cumsum(ends - begins)])
    rows = order[np.arange(starts[-1]) + np.repeat(begins - starts[:-1], ends - begins)]
    return starts, units.alike.places[rows], units.alike.rows[rows] / units.alike.sizes[rows]


def found_by_keys(work: Work, fitted: Fitted, cut: Cut, at: int) -> FloatArray:
    """With what chance the link of each query by the columns of a scenario is right."""
    names = [f"scenario_{at}.{name}" for name in ("squared", "ties", "own")]
    # one after the other: arrays are views of their whole files, which a list would hold at once
    parts = (risk.KeyMatches(*(file[name] for name in names)) for file in _files(work, cut))
    chances = reduce(risk.KeyMatches.merge, parts).chances
    if fitted.unit is not None or links_own(fitted):
        return chances
    return np.asarray(chances / np.maximum(summed_in(work, cut, "own_alike"), 1))


def _save(
    work: Work,
    index: int,
    found: dict[str, Nearest],
    row_labels: RowLabels,
    begin: int,
    arrays: dict[str, npt.NDArray[Any]],
) -> None:
    """Keep what was found, with labels of each of the partition's rows, and other arrays."""
    for name, one in found.items():
        arrays |= {f"{name}.squared": one.squared, f"{name}.rows": one.rows}
        if one.values is not None:
            arrays[f"{name}.values"] = one.values
        for what, values in row_labels.get(name, {}).items():
            of_rows = values[np.maximum(one.rows - begin, 0)]
            arrays[f"{name}.{what}"] = np.where(one.rows >= 0, of_rows, -1)
    work.staging.write_record(_file(index), arrays)


def _file(index: int) -> str:
    return f"{samples.FOLDER}/found-{index}.record"


def _files(work: Work, cut: Cut) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """What was found in each partition, of all copies of the release."""
    return (samples.read_arrays(one, _file(index)) for one in work.copies for index in range(len(cut.partitions)))


def found_in(work: Work, cut: Cut, name: str, label: str | None = None) -> risk.NearestMatches:
    """Merge what a search found in the partitions, one after the other."""
    parts = (
        Nearest(file[f"{name}.squared"], file[f"{name}.rows"], file.get(f"{name}.values"), file.get(f"{name}.{label}"))
        for file in _files(work, cut)
        if f"{name}.rows" in file
    )
    whole = reduce(lambda merged, part: risk.merge_nearest([merged, part]), parts)
    return risk.NearestMatches(whole, whole.labels)


def mean_distances(work: Work, cut: Cut) -> tuple[FloatArray, FloatArray] | None:
    """Mean distance to the closest record of each copy, of those looked for and of held-out ones; None of one copy."""
    if len(work.copies) == 1:
        return None
    names = ("release", "held_release")
    members, held = (
        np.mean([found_in(one, cut, name).nearest.distances[:, 0] for one in work.copies], axis=0) for name in names
    )
    return members, held


def summed_in(work: Work, cut: Cut, name: str) -> IntArray:
    """Counts of all partitions, in one copy, shape (n_queries,): `own_alike`, or a scenario's `within`."""
    return np.asarray(sum(file[name] for file in _files(work.copies[0], cut)))


def found_guesses(work: Work, cut: Cut) -> risk.Guesses:
    """What the closest of all released records say of each column of those that are guessed."""
    parts = (risk.Guesses(file["guesses.values"], file["guesses.squared"]) for file in _files(work, cut))
    return reduce(risk.Guesses.merge, parts)
