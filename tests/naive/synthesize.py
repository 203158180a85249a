"""Slow literal twins: moments, synthesizers and the kernels under them."""

from __future__ import annotations

from itertools import pairwise as neighbours

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Groups = list[npt.NDArray[np.int64]]


def groups_of(order, starts) -> Groups:
    return [order[a:b] for a, b in neighbours(starts)]


def scatter(features: Array) -> Array:
    total, mean = np.zeros((features.shape[1], features.shape[1])), features.mean(axis=0)
    for row in features:
        total += np.outer(row - mean, row - mean)
    return total


def within(features: Array, order, starts) -> Array:
    return sum(scatter(features[members]) for members in groups_of(order, starts))


def pairwise(values: Array) -> tuple[Array, Array, Array]:
    """Counts, means and pairwise complete covariances, one pair at a time."""
    p = values.shape[1]
    n, covariance = np.zeros((p, p), dtype=int), np.full((p, p), np.nan)
    mean = np.array([np.mean(v[~np.isnan(v)]) if (~np.isnan(v)).any() else np.nan for v in values.T])
    for j in range(p):
        for h in range(p):
            both = ~np.isnan(values[:, j]) & ~np.isnan(values[:, h])
            n[j, h] = both.sum()
            if both.sum() > 1:
                x, y = values[both, j], values[both, h]
                covariance[j, h] = np.sum((x - x.mean()) * (y - y.mean())) / (both.sum() - 1)
    return n, mean, covariance


def spread(features: Array, order, starts) -> dict[str, Array]:
    p, centre = features.shape[1], features.mean(axis=0)
    sums = {name: np.zeros((p, p)) for name in ("noise", "square", "product", "linear", "mixed", "largest")}
    for members in groups_of(order, starts):
        w, u = scatter(features[members]), features[members].mean(axis=0) - centre
        for j in range(p):
            for h in range(p):
                sums["noise"][j, h] += (w[j, j] * w[h, h] + w[j, h] ** 2) / len(members)
                sums["square"][j, h] += u[j] ** 2 * w[h, h]
                sums["product"][j, h] += u[j] * u[h] * w[j, h]
                sums["linear"][j, h] += u[j] * w[h, h]
                sums["mixed"][j, h] += u[j] * w[j, h]
                own = (np.sqrt(w[j, j] * w[h, h]) + abs(w[j, h])) / 2 / len(members)
                sums["largest"][j, h] = max(sums["largest"][j, h], own)
    return sums


def centroid(features: Array, order, starts) -> Array:
    out = np.empty_like(features)
    for members in groups_of(order, starts):
        out[members] = features[members].mean(axis=0)
    return out


def medians(features: Array, order, starts, columns) -> Array:
    """Centroids with the median of each group in some columns."""
    out = centroid(features, order, starts)
    for members in groups_of(order, starts):
        for j in columns:
            ranked = sorted(float(features[i, j]) for i in members)
            middle = len(ranked) // 2
            value = ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2
            for i in members:
                out[i, j] = value
    return out


def histogram(codes, order, starts, *, rng, counts: str):
    """Column by column, group by group: shuffle the codes from the last place on, or draw a member for each place."""
    out = codes.copy()
    for j in range(codes.shape[1]):
        uniform = rng.random(len(codes))
        for begin, end in neighbours(starts):
            members = [int(i) for i in order[begin:end]]
            urn = [int(codes[i, j]) for i in members]
            draws = [float(u) for u in uniform[begin:end]]
            if counts == "exact":
                for place in reversed(range(1, len(urn))):
                    other = int(draws[place] * (place + 1))
                    urn[place], urn[other] = urn[other], urn[place]
                new = urn
            else:
                new = [urn[int(u * len(urn))] for u in draws]
            for i, code in zip(members, new, strict=True):
                out[i, j] = code
    return out


def exact_noise(pieces, seeds) -> list[Array]:
    """Micro-perturbation with exact moments, all pieces of the table at once.

    E = Z S^(-1/2) L', L the eigenvectors of the correlation within groups times the roots of their eigenvalues.
    """
    noise, centres, lost = [], [], 0.0
    for (features, order, starts), seed in zip(pieces, seeds, strict=True):
        rng, z = np.random.default_rng(seed), np.empty_like(features)
        for i in order:
            z[i] = rng.standard_normal(features.shape[1])
        for members in groups_of(order, starts):
            z[members] -= z[members].mean(axis=0)
        noise.append(z)
        centres.append(centroid(features, order, starts))
        lost = lost + within(features, order, starts)
    scale = np.sqrt(np.diag(lost))
    values, vectors = np.linalg.eigh(lost / np.outer(scale, scale))
    falling = np.argsort(-values)
    vectors = vectors[:, falling] * np.sign(np.array([max(v, key=abs) for v in vectors.T])[falling])
    root = scale[:, None] * vectors * np.sqrt(values[falling])
    z = np.vstack(noise)
    spread, axes = np.linalg.eigh(z.T @ z)
    colour = axes / np.sqrt(spread) @ axes.T @ root.T
    return [centre + part @ colour for centre, part in zip(centres, noise, strict=True)]


def micro_perturbation(features: Array, order, starts, *, rng, factor, form) -> Array:
    out = np.empty_like(features)
    for members in groups_of(order, starts):
        noise = np.array([rng.standard_normal(len(factor)) for _ in members]) @ factor.T
        if form == "centred":
            noise -= noise.mean(axis=0)
        out[members] = features[members].mean(axis=0) + noise
    return out


def zero_sum_basis(n: int) -> Array:
    """The last n - 1 columns of the reflector that maps the vector of ones to the first axis."""
    w = np.full(n, 1 / np.sqrt(n))
    w[0] += 1
    return (np.eye(n) - 2 * np.outer(w, w) / (w @ w))[:, 1:]


def uniform_orthogonal(rows: int, rank: int, rng) -> Array:
    """Stewart's product of reflectors, multiplied out; columns after `rank` complete the basis."""
    draws = [rng.standard_normal(rows - j) for j in range(rank)]
    product = np.eye(rows)
    for j, v in enumerate(draws):
        sign = -1.0 if v[0] > 0 else 1.0
        normal = v - sign * np.linalg.norm(v) * np.eye(rows - j)[0]
        step = np.eye(rows)
        step[j:, j:] -= 2 * np.outer(normal, normal) / (normal @ normal)
        step[:, j] *= sign
        product = product @ step
    return product


def rotated(features: Array, order, starts, *, rng) -> Array:
    """`gaussian` with all matrices written out, from the same draws."""
    out = np.empty_like(features)
    for members in groups_of(order, starts):
        n, mean = len(members), features[members].mean(axis=0)
        basis = zero_sum_basis(n)
        a = basis.T @ (features[members] - mean)
        rank = min(a.shape)
        if a.shape[0] > a.shape[1]:
            a = np.vstack([np.linalg.qr(a, mode="r"), np.zeros((a.shape[0] - a.shape[1], a.shape[1]))])
        out[members] = mean + basis @ uniform_orthogonal(n - 1, rank, rng) @ a
    return out


def ipso(features: Array, kept: Array, order, starts, *, rng) -> Array:
    """R-microhybrid as IPSO writes it: regress, draw residuals, make them orthogonal, give them the scatter."""
    out = np.empty_like(features)
    for members in groups_of(order, starts):
        x, n = features[members], len(members)
        design = np.column_stack([np.ones(n), kept[members]])
        fitted = design @ np.linalg.lstsq(design, x, rcond=None)[0]
        z = rng.standard_normal(x.shape)
        z = z - design @ np.linalg.lstsq(design, z, rcond=None)[0]
        have, axes = np.linalg.eigh(z.T @ z)
        want, turned = np.linalg.eigh((x - fitted).T @ (x - fitted))
        white = z @ axes / np.sqrt(have) @ axes.T
        out[members] = fitted + white @ turned * np.sqrt(np.clip(want, 0, None)) @ turned.T
    return out


def hybrid(features: Array, kept: Array, order, starts, *, rng) -> Array:
    """`r_microhybrid` with all matrices written out, from the same draws; for kept columns of full rank."""
    out = np.empty_like(features)
    for members in groups_of(order, starts):
        n, width, mean = len(members), features.shape[1], features[members].mean(axis=0)
        basis = zero_sum_basis(n)
        a, k = basis.T @ (features[members] - mean), basis.T @ kept[members]
        turn = np.eye(n - 1)
        for j in range(k.shape[1]):
            v = (turn @ k)[j:, j]
            normal = v + (1 if v[0] > 0 else -1) * np.linalg.norm(v) * np.eye(len(v))[0]
            step = np.eye(n - 1)
            step[j:, j:] -= 2 * np.outer(normal, normal) / (normal @ normal)
            turn = step @ turn
        a, fixed = turn @ a, k.shape[1]
        free, rest = n - 1 - fixed, a[fixed:]
        if free > width:
            rest = np.vstack([np.linalg.qr(rest, mode="r"), np.zeros((free - width, width))])
        most = min(n - 1, width)
        draws = rng.standard_normal(most * (n - 1) - most * (most - 1) // 2)
        a[fixed:] = uniform_orthogonal(free, min(free, width), Drawn(draws)) @ rest
        out[members] = mean + basis @ turn.T @ a
    return out


class Drawn:
    """Numbers drawn beforehand, given out one after the other like a generator's."""

    def __init__(self, draws: Array) -> None:
        self.left = draws

    def standard_normal(self, count: int) -> Array:
        taken, self.left = self.left[:count], self.left[count:]
        return taken


def gaussian(features: Array, order, starts, *, rng, n_table: int, free: int = 0) -> Array:
    """Each record by itself from a normal with the group's mean and scatter W/(n - free), times N/(N-1)."""
    out = np.empty_like(features)
    for members in groups_of(order, starts):
        covariance = scatter(features[members]) / (len(members) - free) * n_table / (n_table - 1)
        for i in members:
            out[i] = rng.multivariate_normal(features[members].mean(axis=0), covariance, method="eigh")
    return out


def pca(features: Array, order, starts, *, rng, moments: str, n_table: int | None = None) -> Array:
    """Gal's Algorithm 3 with the eigenvectors of each group's scatter."""
    out = np.empty_like(features)
    for members in groups_of(order, starts):
        n, mean = len(members), features[members].mean(axis=0)
        values, vectors = np.linalg.eigh(scatter(features[members]))
        real = values > 1e-10 * max(values.max(), 1e-300)
        values, vectors = values[real], vectors[:, real]
        z = rng.standard_normal((n, len(values)))
        if moments == "exact":
            z -= z.mean(axis=0)
            spreads, axes = np.linalg.eigh(z.T @ z)
            z = z @ axes / np.sqrt(spreads) @ axes.T * np.sqrt(values)
        else:
            z = z * np.sqrt(values / n * n_table / (n_table - 1))
        out[members] = mean + z @ vectors.T
    return out


def restore_by_rank(synthetic: Array, original: Array, order, starts) -> Array:
    out = np.empty_like(original)
    for members in groups_of(order, starts):
        falling = sorted(range(len(members)), key=lambda i: (np.isnan(synthetic[members[i]]), synthetic[members[i]], i))
        present = sorted(v for v in original[members] if not np.isnan(v))
        present += [np.nan] * (len(members) - len(present))
        for place, value in zip(falling, present, strict=True):
            out[members[place]] = value
    return out


def keep_group_sums(values: Array, order, starts, low: float, high: float) -> Array:
    """The shift of each group by bisection."""
    out = values.copy()
    for members in groups_of(order, starts):
        rows = members[~np.isnan(values[members])]
        x = values[rows]
        if not len(x) or (x.min() >= low and x.max() <= high):
            continue
        if x.sum() < len(x) * low or x.sum() > len(x) * high:
            out[rows] = np.clip(x, low, high)
            continue
        reach = 2 * np.abs(x).max() + sum(abs(b) for b in (low, high) if np.isfinite(b)) + 1
        below, above = -reach, reach
        for _ in range(200):
            middle = (below + above) / 2
            if np.clip(x + middle, low, high).sum() < x.sum():
                below = middle
            else:
                above = middle
        out[rows] = np.clip(x + above, low, high)
    return out


def standard_errors(means: Array, covariances: Array, averaging: Array) -> tuple[Array, Array]:
    """Of mean and covariance of `means + (I - averaging) Z`, row i of Z normal with covariances[i].

    The scatter is a quadratic form in Z with the matrix C of centring; all
    its N x N terms are summed.
    """
    n, p = means.shape
    centring, kept = np.eye(n) - 1 / n, np.eye(n) - averaging
    form, linear = kept @ centring @ kept, kept @ centring @ means
    share = kept.sum(axis=0) / n
    mean = np.sqrt(np.einsum("i,ijj->j", share**2, covariances))
    variance = np.zeros((p, p))
    for j in range(p):
        for h in range(p):
            jj, hh, jh = covariances[:, j, j], covariances[:, h, h], covariances[:, j, h]
            noise = form**2 * (np.outer(jj, hh) + np.outer(jh, jh))
            product = linear[:, h] ** 2 * jj + linear[:, j] ** 2 * hh + 2 * linear[:, j] * linear[:, h] * jh
            variance[j, h] = noise.sum() + product.sum()
    return mean, np.sqrt(variance) / (n - 1)
