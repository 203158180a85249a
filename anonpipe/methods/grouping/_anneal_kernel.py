"""Annealing of a grouping: steps that raise the scatter, allowed ever more rarely.

What is tried, and how much it may add, follows from a number alone, the key.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.methods.grouping._reform_kernel import create, dissolve, free_groups
from anonpipe.methods.grouping._regroup_kernel import Groups, scatter, scatter_of
from anonpipe.methods.grouping._steps_kernel import NONE, best_step, take
from anonpipe.types import FloatArray, IntArray

ListArray = npt.NDArray[np.int32]

COLDEST = 1e-3  # Least temperature of a group, in units of that of all groups


@nb.njit(cache=True, nogil=True)
def temperatures(groups: Groups) -> FloatArray:
    """Mean squared distance to the centroid in each group, or a thousandth of that over all if larger.

    The unit of heat. It is each group's own, because groups in thin regions
    can have a thousand times the scatter of those in dense ones.
    """
    mean = scatter(groups) / groups.home.shape[0]
    heat = np.full(groups.sizes.shape[0], mean)
    for g in range(groups.sizes.shape[0]):
        if groups.sizes[g] > 0:
            heat[g] = max(COLDEST * mean, scatter_of(groups, g) / groups.sizes[g])
    return heat


@nb.njit(cache=True, nogil=True)
def mixed(number: np.uint64) -> np.uint64:
    """64 bits that look random, another set for each number.

    The step and the finalizer of splitmix64: Steele, Lea and Flood 2014,
    doi:10.1145/2660193.2660195, figure 13.
    """
    number = number + np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@nb.njit(cache=True, nogil=True)
def below(bits: np.uint64, limit: int) -> int:
    """One of 0 to limit - 1, from the lower half of the bits."""
    return int(((bits & np.uint64(0xFFFFFFFF)) * np.uint64(limit)) >> np.uint64(32))


@nb.njit(cache=True, nogil=True)
def allowance(bits: np.uint64) -> float:
    """-log of a number in (0, 1], from the upper half of the bits: exponential of mean 1."""
    return -math.log((float(bits >> np.uint64(32)) + 1.0) / 4294967296.0)


@nb.njit(cache=True, nogil=True)
def anneal_steps(
    groups: Groups, starts: IntArray, others: ListArray, heat: FloatArray, factor: float, key: np.uint64
) -> int:
    """One sweep: every group takes its best step with one near group, if that adds less than allowed.

    The allowance is exponential with mean `factor` times the group's `heat`,
    so that a step that adds x is taken with the probability exp(-x/mean) of
    Metropolis. How many steps were taken.
    """
    taken = 0
    for a in range(groups.sizes.shape[0]):
        if groups.sizes[a] == 0 or starts[a] == starts[a + 1]:
            continue
        bits = mixed(key + np.uint64(a))
        b = others[starts[a] + below(bits, starts[a + 1] - starts[a])]
        if groups.sizes[b] == 0:
            continue
        _, i, partner = best_step(groups, a, b, factor * heat[a] * allowance(bits))
        if partner != NONE:
            take(groups, a, b, i, partner)
            taken += 1
    return taken


@nb.njit(cache=True, nogil=True)
def anneal_groups(
    groups: Groups, starts: IntArray, others: ListArray, heat: FloatArray, factor: float, key: np.uint64
) -> int:
    """One sweep: every other group is dissolved, the rest begin one beside them, where allowed as in `anneal_steps`."""
    moved = np.empty(2 * groups.k, dtype=np.int64)
    partners = np.empty(2 * groups.k, dtype=np.int64)
    free = free_groups(groups)
    taken = 0
    for a in range(groups.sizes.shape[0]):
        size = groups.sizes[a]
        if size == 0:
            continue
        bits = mixed(key + np.uint64(a))
        limit = factor * heat[a] * allowance(bits)
        near = others[starts[a] : starts[a + 1]]
        choice = below(bits, 2 * size)
        if choice >= size:
            if dissolve(groups, a, near, limit, moved, partners) > 0:
                free.append(a)
                taken += 1
        elif size > groups.k and len(free) > 0:
            seed = groups.members[a, choice]
            if create(groups, seed, free[-1], near, limit, moved, partners) > 0:
                heat[free.pop()] = heat[a]
                taken += 1
    return taken


@nb.njit(cache=True, nogil=True)
def anneal(
    groups: Groups,
    starts: IntArray,
    others: ListArray,
    heat: FloatArray,
    schedule: FloatArray,
    first: int,
    every: int,
    key: np.uint64,
) -> int:
    """One sweep of steps for each factor of `schedule`, the first of them sweep number `first`.

    After every `every`-th sweep follows one of whole groups. The same key
    gives the same groups, into however many calls the sweeps are cut. How
    many steps were taken.
    """
    taken = 0
    for at in range(schedule.shape[0]):
        number = np.uint64(first + at)
        taken += anneal_steps(groups, starts, others, heat, schedule[at], mixed(key ^ mixed(number)))
        if (first + at) % every == every - 1:
            taken += anneal_groups(groups, starts, others, heat, schedule[at], mixed(~key ^ mixed(number)))
    return taken
