"""Lasko & Vinterbo's figures 2 and 3, and the figures of their section IV.E, on made data of the same shape.

    python -m tests.benchmarks.lasko_curves [--rows 2000] [--folder .]

Two samples that share no record are drawn from the made population of
`masker_table`; one is masked, each way, the other is what the authors hold
releases against. The figures are of other data than theirs (NHANES), so only
their order compares. figure2.png has cumulative shares of the three measures
for each release, beside the other sample and the leave-one-out reference;
figure3.png those of right and wrong matches under additive noise and
Spectral-RHS, and under stronger noise (b = 0.5), since with that of the paper
hardly a match is wrong here. Values of masked binary columns are taken as they are.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anonpipe.evaluate.risk import nearest
from anonpipe.evaluate.risk._lasko import MEASURES, Excess, excesses, predictions, telling
from tests.benchmarks.masker_table import METHODS, coded, population, spectral_rhs
from tests.in_memory import mask

K = 5
MASKED = ("spectral swapping", "data shuffling", "additive noise")
PRINTED = {
    "spectral RHS": "printed: 7.8 %, 0.53, 0.50, 0.50",
    "additive noise": "printed: 99 %, 0.85, 0.98, 0.83",
}
STRONGER = "additive noise, b = 0.5"
MATCHED = ("additive noise", STRONGER, "spectral RHS")
"""Releases with a record for each original one, as in figure 3; in the paper b is 0.1 only."""


def tables(rows: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The original, and what is released in its place."""
    rng = np.random.default_rng(0)
    both = coded(population(max(11_763, 3 * rows), rng))
    both = both[rng.permutation(len(both))[: 2 * rows]]
    original, other = both[:rows], both[rows:]
    # All on the original's standard deviations, binary columns too, as eq. 1 has it.
    mean, spread = original.mean(axis=0), original.std(axis=0)
    released = {"nonoverlapping sample": other, "spectral RHS": spectral_rhs(original, rng)}
    for name in MASKED:
        method, options = METHODS[name]
        released[name] = mask(original, method, rng=rng, partitions=[rows], **options)
    released[STRONGER] = mask(original, "noise", rng=rng, partitions=[rows], amount=0.5, form="centred")
    return (original - mean) / spread, {name: (table - mean) / spread for name, table in released.items()}


@dataclass(frozen=True)
class Measured:
    """Against leaving each record out, and against the other sample; who is matched rightly, where somebody can be."""

    excesses: tuple[tuple[Excess, ...], tuple[Excess, ...]]
    right: np.ndarray | None
    areas: tuple[float, ...]


def measured(original: np.ndarray, released: dict[str, np.ndarray]) -> dict[str, Measured]:
    """Each release against leaving each record out, and against the other sample."""
    rows = np.arange(len(original))
    alone = nearest(original, original, K, without=rows, values=True)
    other = nearest(released["nonoverlapping sample"], original, K, values=True)
    found = {}
    for name, table in released.items():
        near = nearest(table, original, K, values=True)
        right = near.rows[:, 0] == rows if name in MATCHED else None
        areas = () if right is None else tuple(area.value for area in telling(near, right, K))
        found[name] = Measured((excesses(near, alone, K), excesses(near, other, K)), right, areas)
    return found


def print_table(found: dict[str, Measured]) -> None:
    """Excesses, p values, match rates and areas."""
    print("largest excess of the cumulative share over the reference (p at a margin of 0.05)")
    print(f"{'':24}{'':18}" + "".join(f"{name:>18}" for name in MEASURES) + "  sufficient")
    for name, both in found.items():
        for reference, measures in zip(("leave-one-out", "other sample"), both.excesses, strict=True):
            cells = "".join(f"{at.value:9.3f} ({at.p:6.2g})" for at in measures)
            passes = all(each.p >= 0.05 for each in measures)
            print(f"{name:24}{reference:18}{cells}  {'yes' if passes else 'no'}")
            name = ""
    print("\nright matches, and area under the curve of telling them by each measure and by all together")
    for name, each in found.items():
        if each.right is not None:
            areas = "  ".join(f"{area:.2f}" for area in each.areas)
            share = 100 * each.right.mean()
            print(f"{name:24}{share:5.1f} %   {areas}    {PRINTED.get(name, '')}")


def draw_figure_2(found: dict[str, Measured], path: Path) -> None:
    """Cumulative shares of each measure, a line a release."""
    plt = pyplot()
    figure, panels = plt.subplots(1, 3, figsize=(13, 4.2), sharey=True)
    styles = {"nonoverlapping sample": ("black", "--"), "spectral RHS": ("tab:green", "-")}
    styles |= {"spectral swapping": ("tab:blue", "-"), "data shuffling": ("tab:purple", "-")}
    styles |= {"additive noise": ("tab:red", "-")}
    for at, panel in enumerate(panels):
        curves = {name: found[name].excesses[0][at].curve for name in styles}
        for name, curve in curves.items():
            panel.plot(curve.x, curve.y, label=name, color=styles[name][0], linestyle=styles[name][1])
        reference = curves["nonoverlapping sample"]
        panel.plot(reference.x, reference.baseline, label="leave-one-out reference", color="black", linestyle=":")
        panel.set(title=reference.title, xlabel=reference.x_title, xlim=(0, None), ylim=(0, 1.02))
        panel.xaxis.label.set_size(8)
    panels[0].set_ylabel("cumulative share of records")
    lines, names = panels[0].get_legend_handles_labels()
    figure.legend(lines, names, frameon=False, fontsize=9, ncols=len(names), loc="lower center")
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_figure_3(original: np.ndarray, released: dict[str, np.ndarray], path: Path) -> None:
    """Cumulative shares among right and among wrong matches."""
    plt = pyplot()
    figure, panels = plt.subplots(len(MATCHED), 3, figsize=(12, 9), sharey=True)
    for row, name in zip(panels, MATCHED, strict=True):
        near = nearest(released[name], original, K, values=True)
        right = near.rows[:, 0] == np.arange(len(original))
        for panel, measure, values in zip(row, MEASURES, predictions(near, K), strict=True):
            for side, line in ((right, "-"), (~right, "--")):
                part = np.sort(values[side])
                share = np.arange(1, len(part) + 1) / max(1, len(part))
                words = "right" if side is right else "wrong"
                panel.step(
                    np.r_[0, part], np.r_[0, share], line, color="black", where="post", label=f"{words} ({len(part)})"
                )
            panel.set(ylim=(0, 1.02), xlim=(-0.02, {"distance": 1.2, "ambiguity": 1.05}.get(measure, 0.65)))
            panel.set_title(f"{name}: {measure}", fontsize=10)
            panel.legend(frameon=False, fontsize=8, loc="upper left" if measure != "uncertainty" else "lower right")
        row[0].set_ylabel("cumulative share of matches")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def pyplot():
    """matplotlib.pyplot that opens no window."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def main() -> None:
    """Print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--folder", type=Path, default=Path(), help="where the pictures go")
    given = parser.parse_args()
    original, released = tables(given.rows)
    found = measured(original, released)
    print_table(found)
    given.folder.mkdir(parents=True, exist_ok=True)
    draw_figure_2(found, given.folder / "figure2.png")
    draw_figure_3(original, released, given.folder / "figure3.png")


if __name__ == "__main__":
    main()
