"""Li and Sarkar's Table 1, section 7 and figure 5 for the Diabetes data, computed again beside their figures.

    python -m tests.benchmarks.linkage_table [--most-k 250] [--folder .]

A released record is linked if its own original is the nearest of all originals
or the second nearest, by distance between columns scaled to [0, 1]. As in the
paper the group size is raised until no more records are linked than the table
says; groups and release are compared there. Benchmarks release group means,
the authors' methods micro-perturbed records as published, five draws each.
Their benchmark is MST with t-closeness, t and k both tried out.
X2 is their chi-square of sensitive values in groups; ABIM, ABISD and ABICO are biases
of means, standard deviations and correlations in per cent.

figure5.png, written to the folder, has ABICO as linkage falls from 10 to 1 %.
The data are pima.csv and reference/li_sarkar_table1.csv in the folder that
ANONPIPE_BENCH_DATA names, else in ../shared. Takes about half a minute.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anonpipe.evaluate.risk import nearest
from anonpipe.evaluate.risk._linkage import score_linkage
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import class_disclosure, cluster
from anonpipe.methods.synthesis import synthesize
from anonpipe.moments import GroupedMoments, noise_factor, s_delta
from tests.benchmarks._correlations import abico, abim, abisd
from tests.methods.grouping.data import reference_folder

DRAWS = 5
METHODS = {
    "Benchmark": ("mst_t_close 0.25", "mst_t_close 0.15", "mst_t_close 0.1", "mst", "mdav"),
    "Partial CAMP-CREST": ("crest_partial",),
    "CAMP-CREST": ("crest",),
}
"""By their name for it; the number is t."""

LEVELS = {"5%": 5.0, "1%": 1.0}


@dataclass(frozen=True)
class Outcome:
    """Figures of one method at one k, means over the draws; shares in per cent."""

    k: int
    groups: int
    first: float
    either: float
    chi_square: float
    homogeneous: float
    abim: float
    abisd: float
    abico: float
    abico_median: float


class Table:
    """The original, its classes and its columns on a common scale."""

    def __init__(self, table: np.ndarray, classes: np.ndarray, *, scores: bool) -> None:
        self.table, self.classes = table, classes
        self.zero, self.unit = table.min(axis=0), np.ptp(table, axis=0)
        if scores:
            self.zero, self.unit = table.mean(axis=0), table.std(axis=0)
        self.features = np.ascontiguousarray((table - self.zero) / self.unit)
        self.known: dict[tuple[str, int], Outcome] = {}

    def outcome(self, method: str, k: int) -> Outcome:
        """Grouped by the method, released and measured; kept for the next time."""
        if (method, k) not in self.known:
            self.known[method, k] = self._measured(method, k)
        return self.known[method, k]

    def _measured(self, method: str, k: int) -> Outcome:
        name, _, t = method.partition(" ")
        options = {} if name in ("mst", "mdav") else {"classes": self.classes}
        options |= {"t": float(t)} if t else {}
        labels = cluster(self.features, k, name, rng=np.random.default_rng(0), **options)
        disclosed = class_disclosure(labels, self.classes)
        found = []
        for seed in range(DRAWS if "crest" in method else 1):
            released = self._released(labels, perturbed="crest" in method, seed=seed)
            first, either = score_linkage(
                nearest(self.features, released, 2), np.arange(len(released)), rows=len(released)
            )
            units = released * self.unit + self.zero
            correlation = abico(self.table, units, least=0)
            found.append(
                (
                    100 * first.value,
                    100 * either.value,
                    abim(self.table, units, least=0).mean,
                    abisd(self.table, units).mean,
                    correlation.mean,
                    correlation.median,
                )
            )
        first, either, *biases = np.mean(found, axis=0).tolist()
        return Outcome(
            k, disclosed.n_groups, first, either, disclosed.chi_square, 100 * disclosed.homogeneous_share, *biases
        )

    def _released(self, labels: np.ndarray, *, perturbed: bool, seed: int) -> np.ndarray:
        groups, rng = sort_groups(labels), np.random.default_rng(seed)
        if not perturbed:
            return synthesize(self.features, *groups, "centroid", rng=rng)
        factor = noise_factor(s_delta(GroupedMoments.of(self.features, *groups), "published"))
        return synthesize(self.features, *groups, "micro_perturbation", rng=rng, form="published", factor=factor)

    def first_below(self, method: str, percent: float, most_k: int) -> Outcome | None:
        """At the smallest k from which no more than so many are linked."""
        for k in range(2, most_k + 1):
            outcome = self.outcome(method, k)
            if outcome.either <= percent:
                return outcome
        return None


def print_table(data: Table, rows: list[dict[str, str]], most_k: int) -> None:
    """Published and measured lines, one below the other."""
    heads = f"{'k':>5}{'groups':>8}{'linked %':>10}{'X2':>7}{'ABIM':>8}{'ABISD':>8}{'ABICO':>9}{'(median)':>10}"
    print(f"{'linkage of':12}{'method':28}{heads}")
    for level, percent in LEVELS.items():
        for name, methods in METHODS.items():
            for row in rows:
                if (row["method"], row["linkage_target"]) == (name, level):
                    keys = ("linkage_percent", "chi_square", "abim_percent", "abisd_percent", "abico_percent")
                    linked, chi, mean, deviation, correlation = (float(row[key]) for key in keys)
                    print(
                        f"{level:12}{name + ', printed':28}{'':>13}{linked:10.2f}{chi:7.2f}{mean:8.2f}{deviation:8.2f}"
                        f"{correlation:9.2f}"
                    )
            for method in methods:
                at = data.first_below(method, percent, most_k)
                if at is None:
                    print(f"{'':12}  {method:26} over {percent} % up to k = {most_k}")
                    continue
                biases = f"{at.abim:8.2f}{at.abisd:8.2f}{at.abico:9.2f}{at.abico_median:10.2f}"
                print(f"{'':12}  {method:26}{at.k:5}{at.groups:8}{at.either:10.2f}{at.chi_square:7.2f}{biases}")


def print_section_7(data: Table) -> None:
    """Traditional microaggregation at k = 5."""
    print("section 7, k = 5: printed 10.8 % linked, 21.2 % in groups of one class")
    for method in ("mst", "mdav"):
        at = data.outcome(method, 5)
        print(
            f"  {method:6}{at.first:6.1f} % linked to the nearest, {at.either:.1f} % to one of the two nearest, "
            f"{at.homogeneous:.1f} % in groups of one class"
        )


def draw(data: Table, most_k: int, path: Path) -> None:
    """Figure 5: ABICO at the smallest k with no more than 10, 9, ... 1 % linked."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    lines = {"mst": "group means (MST)", "mst_t_close 0.1": "group means (MST, t = 0.1)"}
    lines |= {"crest_partial": "micro-perturbation (partial CREST)", "crest": "micro-perturbation (CREST)"}
    for (method, name), mark in zip(lines.items(), "os^D", strict=True):
        reached = [(level, data.first_below(method, level, most_k)) for level in range(10, 0, -1)]
        features = [(level, at.abico) for level, at in reached if at is not None]
        if not features:
            print(f"  {name:36}over 10 % up to k = {most_k}")
            continue
        x, y = zip(*features, strict=True)
        axes.plot(x, y, marker=mark, label=name)
        print(f"  {name:36}" + " ".join(f"{value:7.1f}" for value in y))
    axes.set(xlabel="records linked, at most (%)", ylabel="ABICO (%)", ylim=(0, None))
    axes.set_title("What less linkage costs: bias of correlations, Diabetes data", fontsize=11)
    axes.invert_xaxis()
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Print all, for both scales; draw for the paper's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most-k", type=int, default=250, help="largest k that is tried")
    parser.add_argument("--folder", type=Path, default=Path(), help="where figure5.png goes")
    given = parser.parse_args()
    path = reference_folder() / "data" / "pima.csv"
    if not path.exists():
        print(f"pima.csv is not in {path.parent}; set ANONPIPE_BENCH_DATA")
        return
    table = np.genfromtxt(path, delimiter=",", skip_header=1)
    numbers, classes = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    rows = []
    published = reference_folder() / "reference" / "li_sarkar_table1.csv"
    if published.exists():
        with published.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["dataset"] == "Diabetes"]
    for name, scores in (("columns on [0, 1]", False), ("z-scores", True)):
        data = Table(numbers, classes, scores=scores)
        print(f"\ndistances between {name}")
        print_table(data, rows, given.most_k)
        print_section_7(data)
        if not scores:
            given.folder.mkdir(parents=True, exist_ok=True)
            print("figure 5, ABICO at 10, 9, ... 1 % linked")
            draw(data, given.most_k, given.folder / "figure5.png")


if __name__ == "__main__":
    main()
