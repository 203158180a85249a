"""Moments of every group, and an affine map for every group."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.group_moments import group_mean
from anonpipe.kernels.mixture import TILE, add_scatter
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def moments_by_group(features: FloatArray, order: IntArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean, shape (n_groups, width), and scatter about it, (n_groups, width, width), of each group; 0 for no rows."""
    groups, width = starts.shape[0] - 1, features.shape[1]
    means = np.zeros((groups, width))
    scatters = np.zeros((groups, width, width))
    rows, ones, sums = np.empty((width, TILE)), np.ones(TILE), np.zeros(width)
    for g in range(groups):
        if starts[g + 1] == starts[g]:
            continue
        group_mean(features, order[starts[g] : starts[g + 1]], means[g])
        for low in range(starts[g], starts[g + 1], TILE):
            count = min(TILE, starts[g + 1] - low)
            for i in range(count):
                for j in range(width):
                    rows[j, i] = features[order[low + i], j] - means[g, j]
            add_scatter(rows, ones, count, sums, scatters[g])
        for j in range(width):
            for h in range(j):
                scatters[g, h, j] = scatters[g, j, h]
    return means, scatters


@nb.njit(cache=True, nogil=True)
def map_by_group(
    draws: FloatArray, labels: IntArray, origins: FloatArray, matrices: FloatArray, targets: FloatArray, out: FloatArray
) -> None:
    """Write targets[g] + matrices[g] (draw - origins[g]) of every row to `out`, g the row's group."""
    width = draws.shape[1]
    for i in range(draws.shape[0]):
        g = labels[i]
        for j in range(width):
            out[i, j] = targets[g, j]
        for h in range(width):
            step = draws[i, h] - origins[g, h]
            for j in range(width):
                out[i, j] += matrices[g, j, h] * step
