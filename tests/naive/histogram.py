"""Slow literal twins: recursive histograms, in all columns at once and along principal axes."""

from __future__ import annotations

import statistics

import numpy as np


def rhs(features, k, rows=None):
    """Lists of rows, however few; the cells of a split in the order of their halves."""
    rows = list(range(len(features))) if rows is None else rows
    if len(rows) <= 2 * k:
        return [rows]
    cells = {}
    borders = []
    for j in range(len(features[0])):
        values = [float(features[i][j]) for i in rows]
        border = statistics.median_low(values)
        if border == max(values) and min(values) < border:
            border = max(v for v in values if v < border)
        borders.append(border)
    for i in rows:
        cells.setdefault(tuple(bool(features[i][j] > b) for j, b in enumerate(borders)), []).append(i)
    if len(cells) == 1:
        return [rows]
    return [group for key in sorted(cells) for group in rhs(features, k, cells[key])]


def spectral_matrix(features):
    """U · D of the centred points, by the decomposition itself; each column's sign settled by its axis."""
    centred = np.asarray(features) - np.asarray(features).mean(axis=0)
    u, d, vt = np.linalg.svd(centred, full_matrices=False)
    matrix = u * d
    for column, axis in enumerate(vt):
        leading = next(v for v in axis if abs(v) > (1 - 1e-6) * max(abs(axis)))
        if leading < 0:
            matrix[:, column] *= -1
    return matrix


def spectral_rhs(matrix, k, rows=None):
    """Lists of rows; `matrix` as `spectral_matrix` gives it."""
    rows = list(range(len(matrix))) if rows is None else rows
    if len(rows) <= 2 * k:
        return [rows]
    ranges = []
    for j in range(len(matrix[0])):
        values = [float(matrix[i][j]) for i in rows]
        ranges.append(max(values) - min(values))
    widest = ranges.index(max(ranges))
    ranked = sorted(rows, key=lambda i: (matrix[i][widest], i))
    half = len(rows) // 2
    return [*spectral_rhs(matrix, k, sorted(ranked[:half])), *spectral_rhs(matrix, k, sorted(ranked[half:]))]
