"""The clustering methods by name, and the one way to run them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from anonpipe.kernels.blocks import block_order
from anonpipe.kernels.points import checked_points
from anonpipe.methods.grouping._cbfs import cbfs
from anonpipe.methods.grouping._class_kd_tree import class_kd_tree
from anonpipe.methods.grouping._class_mdav import class_mdav
from anonpipe.methods.grouping._classes import checked_classes
from anonpipe.methods.grouping._condensation import condensation
from anonpipe.methods.grouping._crest import crest
from anonpipe.methods.grouping._crest_partial import crest_partial
from anonpipe.methods.grouping._dba_1 import dba_1
from anonpipe.methods.grouping._dba_2 import dba_2
from anonpipe.methods.grouping._diameter_fixed import diameter_fixed
from anonpipe.methods.grouping._fuzzy_c_means import fuzzy_c_means
from anonpipe.methods.grouping._k_ward import k_ward
from anonpipe.methods.grouping._kd_tree import kd_tree
from anonpipe.methods.grouping._kmeans import kmeans
from anonpipe.methods.grouping._md import md
from anonpipe.methods.grouping._mdav import mdav
from anonpipe.methods.grouping._mdav_1 import mdav_1
from anonpipe.methods.grouping._mdav_2 import mdav_2
from anonpipe.methods.grouping._mdav_generic import mdav_generic
from anonpipe.methods.grouping._method import Method, under_2k
from anonpipe.methods.grouping._mhm import mhm
from anonpipe.methods.grouping._mst import mst
from anonpipe.methods.grouping._mst_d import mst_d
from anonpipe.methods.grouping._mst_t_close import mst_t_close
from anonpipe.methods.grouping._mu_approx import mu_approx
from anonpipe.methods.grouping._optimal_univariate import optimal_univariate
from anonpipe.methods.grouping._pairwise_systematic import pairwise_systematic
from anonpipe.methods.grouping._rhs import rhs
from anonpipe.methods.grouping._sizes import count_groups
from anonpipe.methods.grouping._spectral_rhs import spectral_rhs
from anonpipe.methods.grouping._tfrp_1 import tfrp_1
from anonpipe.methods.grouping._tfrp_2 import tfrp_2
from anonpipe.methods.grouping._v_mdav import v_mdav
from anonpipe.types import FloatArray, IntArray

METHODS: dict[str, Method] = {
    "mdav": Method(
        function=mdav,
        name="mdav",
        published="Maximum distance to average vector (MDAV)",
        reference="Domingo-Ferrer and Mateo-Sanz 2002, doi:10.1109/69.979982, as Kabir and Wang 2010, section IV",
        cost="time O(n²·w/k) at worst, memory O(n·w)",
        needs=(),
        sizes="k; up to 2k-1 for the last group, or where the last fewer than k records join",
        largest=under_2k,
        draws=False,
    ),
    "mdav_generic": Method(
        function=mdav_generic,
        name="mdav_generic",
        published="MDAV-generic",
        reference="Domingo-Ferrer and Torra 2005, doi:10.1007/s10618-005-0007-5, algorithm MDAV-generic",
        cost="time O(n²·w/k) at worst, memory O(n·w)",
        needs=(),
        sizes="k, and k to 2k-1 for the last group",
        largest=under_2k,
        draws=False,
    ),
    "mdav_1": Method(
        function=mdav_1,
        name="mdav_1",
        published="MDAV-1",
        reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, MDAV-1",
        cost="time O(n²·w/k) at worst, memory O(n·w)",
        needs=(),
        sizes="k; up to 2k-1 where the last fewer than k records join",
        largest=under_2k,
        draws=False,
    ),
    "md": Method(
        function=md,
        name="md",
        published="Maximum distance (MD)",
        reference="Domingo-Ferrer and Mateo-Sanz 2002, doi:10.1109/69.979982, as Kabir and Wang 2010, section IV",
        cost="time O(n²·w) usually, memory O(n·w)",
        needs=(),
        sizes="k; up to 2k-1 for the last group, or for one that the last records join",
        largest=under_2k,
        draws=False,
    ),
    "diameter_fixed": Method(
        function=diameter_fixed,
        name="diameter_fixed",
        published="Diameter-based fixed-size microaggregation (D)",
        reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
        cost="time O(n²·w) usually, memory O(n·w)",
        needs=(),
        sizes="k; up to 2k-1 for the last group, or where the last fewer than k records join",
        largest=under_2k,
        draws=False,
    ),
    "cbfs": Method(
        function=cbfs,
        name="cbfs",
        published="Centroid-based fixed-size microaggregation (CBFS)",
        reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
        cost="time O(n²·w/k) at worst, memory O(n·w)",
        needs=(),
        sizes="k; up to 2k-1 where the last fewer than k records join",
        largest=under_2k,
        draws=False,
    ),
    "v_mdav": Method(
        function=v_mdav,
        name="v_mdav",
        published="MDAV with variable group size (V-MDAV)",
        reference="Solanas and Martínez-Ballesté 2006; Kabir and Wang 2010, doi:10.1109/ICDM.2010.111, section IV",
        cost="time O(n²·w) at worst, memory O(n·w)",
        needs=(),
        sizes="k to 2k-1; up to 3k-2 where the last fewer than k records join",
        largest=lambda k: max(k, 3 * k - 2),
        draws=False,
    ),
    "pairwise_systematic": Method(
        function=pairwise_systematic,
        name="pairwise_systematic",
        published="Pairwise systematic microaggregation (P-S)",
        reference="Kabir, Wang and Zhang 2010, doi:10.1109/ICDM.2010.111, section V",
        cost="time O(n²·w) at worst, memory O(n·w)",
        needs=(),
        sizes="k, and k to 2k-1 for the last group",
        largest=under_2k,
        draws=False,
    ),
    "kmeans": Method(
        function=kmeans,
        name="kmeans",
        published="Improved condensation: k-means with small clusters filled up",
        reference="Gal et al. 2014, doi:10.1016/j.jbi.2014.01.001, Algorithm 2, steps 2a to 2c",
        cost="time O(iterations·n²·w/k), memory O(n·w)",
        needs=(),
        sizes="k or more, without an upper limit",
        largest=None,
        draws=True,
    ),
    "mst": Method(
        function=mst,
        name="mst",
        published="Minimum spanning tree partitioning",
        reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
        cost="time O(n²·w), memory O(n·w)",
        needs=(),
        sizes="k or more, without an upper limit",
        largest=None,
        draws=False,
    ),
    "mst_d": Method(
        function=mst_d,
        name="mst_d",
        published="M-d: minimum spanning tree, large parts split by maximum distance",
        reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
        cost="time O(n²·w), memory O(n·w)",
        needs=(),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=False,
    ),
    "mst_t_close": Method(
        function=mst_t_close,
        name="mst_t_close",
        published="Minimum spanning tree partitioning with t-closeness (benchmark of CREST)",
        reference="Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 6",
        cost="time O(n²·w), memory O(n·(w + classes))",
        needs=("classes",),
        sizes="k or more, without an upper limit",
        largest=None,
        draws=False,
    ),
    "crest": Method(
        function=crest,
        name="crest",
        published="Class restricted spanning tree (CREST)",
        reference="Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 4",
        cost="time O(b·n²·w), memory O(n·(w + b + classes)), b neighbours",
        needs=("classes",),
        sizes="k or more, without an upper limit",
        largest=None,
        draws=False,
    ),
    "crest_partial": Method(
        function=crest_partial,
        name="crest_partial",
        published="Partial CREST: minimum spanning tree cut by divergence and length",
        reference="Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, sections 4 and 6",
        cost="time O(n²·w), memory O(n·(w + classes))",
        needs=("classes",),
        sizes="k or more, without an upper limit",
        largest=None,
        draws=False,
    ),
    "class_mdav": Method(
        function=class_mdav,
        name="class_mdav",
        published="MDAV with the composite distance of CREST",
        reference="after Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 8",
        cost="time O(n²·w/k + n²), memory O(n·w)",
        needs=("classes",),
        sizes="k, and k to 2k-1 for the last group",
        largest=under_2k,
        draws=False,
    ),
    "kd_tree": Method(
        function=kd_tree,
        name="kd_tree",
        published="kd-tree partitioning",
        reference="Li and Sarkar 2006, doi:10.1109/TKDE.2006.136",
        cost="time O(n·w·log n), memory O(n·w)",
        needs=(),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=False,
    ),
    "class_kd_tree": Method(
        function=class_kd_tree,
        name="class_kd_tree",
        published="kd-tree partitioning with regard to classes",
        reference="after Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 8",
        cost="time O(n·w·log n), memory O(n·w)",
        needs=("classes",),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=False,
    ),
    "k_ward": Method(
        function=k_ward,
        name="k_ward",
        published="k-Ward, multivariate",
        reference="Domingo-Ferrer and Mateo-Sanz 2002, doi:10.1109/69.979982, the multivariate k-Ward algorithm",
        cost="time O(n²·w), memory O(n·w)",
        needs=(),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=False,
    ),
    "mu_approx": Method(
        function=mu_approx,
        name="mu_approx",
        published="Approximation by forests (µ-Approx)",
        reference="Domingo-Ferrer, Sebé and Solanas 2008, doi:10.1016/j.camwa.2007.04.034",
        cost="time O(n²·w), memory O(n·w)",
        needs=(),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=False,
    ),
    "fuzzy_c_means": Method(
        function=fuzzy_c_means,
        name="fuzzy_c_means",
        published="Microaggregation by fuzzy c-means",
        reference="Domingo-Ferrer and Torra 2003, doi:10.20965/jaciii.2003.p0153",
        cost="time O(iterations·n²·w/k), more with many far records; memory O(n·w)",
        needs=(),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=True,
    ),
    "condensation": Method(
        function=condensation,
        name="condensation",
        published="Condensation, static",
        reference="Aggarwal and Yu 2004, doi:10.1007/978-3-540-24741-8_12; Gal et al. 2014, Algorithm 1, steps 1 to 4",
        cost="time O(n²·w/k), memory O(n·w)",
        needs=(),
        sizes="k, and up to 2k-1 for groups that leftovers join",
        largest=under_2k,
        draws=True,
    ),
    "rhs": Method(
        function=rhs,
        name="rhs",
        published="Recursive histogram sanitization (RHS)",
        reference="Chawla et al. 2005, doi:10.1007/978-3-540-30576-7_20, as Lasko and Vinterbo 2010, section III-B2",
        cost="time O(n·w·log(n/k)), memory O(n·w)",
        needs=(),
        sizes="k to 2k, more only of equal records; refuses where a cell is under k, as with many columns",
        largest=None,
        draws=False,
    ),
    "spectral_rhs": Method(
        function=spectral_rhs,
        name="spectral_rhs",
        published="Spectral recursive histogram sanitization (Spectral-RHS)",
        reference="Lasko and Vinterbo 2010, doi:10.1109/TKDE.2009.88, section III-B2 and figure 1",
        cost="time O(n·w² + n·w·log(n/k)), memory O(n·w)",
        needs=(),
        sizes="k to 2k",
        largest=lambda k: 2 * k,
        draws=False,
    ),
    "tfrp_1": Method(
        function=tfrp_1,
        name="tfrp_1",
        published="Two fixed reference points, first phase (TFRP-1)",
        reference="Chang et al. 2007, doi:10.1016/j.jss.2007.02.014, first phase",
        cost="time O(n²·w/k) at worst, memory O(n·w)",
        needs=(),
        sizes="k; up to 2k-1 where the last fewer than k records join",
        largest=under_2k,
        draws=False,
    ),
    "tfrp_2": Method(
        function=tfrp_2,
        name="tfrp_2",
        published="Two fixed reference points, both phases (TFRP-2)",
        reference="Chang et al. 2007, doi:10.1016/j.jss.2007.02.014",
        cost="time O(n²·w/k), memory O(n·w)",
        needs=(),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=False,
    ),
    "dba_1": Method(
        function=dba_1,
        name="dba_1",
        published="Density-based algorithm, first phase (DBA-1)",
        reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, DBA-1",
        cost="time O(n²·w) usually, memory O(n·(w + k))",
        needs=(),
        sizes="k; up to 2k-1 where the last fewer than k records join",
        largest=under_2k,
        draws=False,
    ),
    "dba_2": Method(
        function=dba_2,
        name="dba_2",
        published="Density-based algorithm, both phases (DBA-2)",
        reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, DBA-2",
        cost="time O(n²·w) usually, memory O(n·(w + k))",
        needs=(),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=False,
    ),
    "mdav_2": Method(
        function=mdav_2,
        name="mdav_2",
        published="MDAV-1 with the second phase of DBA (MDAV-2)",
        reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, MDAV-2",
        cost="time O(n²·w/k), memory O(n·w)",
        needs=(),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=False,
    ),
    "mhm": Method(
        function=mhm,
        name="mhm",
        published="Multivariate Hansen-Mukherjee (MDAV-MHM, MD-MHM, CBFS-MHM, NPN-MHM)",
        reference="Domingo-Ferrer et al. 2006, doi:10.1007/s00778-006-0007-0",
        cost="time O(n²·w/k), O(n²·w) for order npn, memory O(n·w)",
        needs=(),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=False,
    ),
    "optimal_univariate": Method(
        function=optimal_univariate,
        name="optimal_univariate",
        published="Optimal univariate microaggregation, one column only",
        reference="Hansen and Mukherjee 2003, doi:10.1109/TKDE.2003.1209020",
        cost="time O(n·(k + log n)), memory O(n)",
        needs=(),
        sizes="k to 2k-1",
        largest=under_2k,
        draws=False,
    ),
}


def cluster(
    points: FloatArray,
    k: int,
    method: str = "mdav",
    *,
    rng: np.random.Generator,
    block_rows: int | None = None,
    classes: IntArray | None = None,
    class_shares: FloatArray | None = None,
    **options: int | float | str | None,
) -> IntArray:
    """Group records by a method of `METHODS`, and count the groups whatever the method promises.

    Parameters
    ----------
    points
        Finite numbers up to 1e100 in size, shape (n_rows, width), n_rows >= k.
        Not changed.
    k
        Smallest size of a group, 1 or more.
    method
        A key of `METHODS`.
    rng
        For methods that draw.
    block_rows
        Run the method inside blocks of near records of at most this size (see
        `anonpipe.kernels.blocks.block_order`), at least 2k where it
        splits anything: time is then linear in the rows. None treats the table
        as one block.
    classes
        For methods that need them: the class of each record, codes from 0,
        shape (n_rows,). `compound_classes` makes one of several.
    class_shares
        Share of each class in the whole table, where `points` are a part of
        one; None takes the shares in `classes`.
    options
        The method's own, see `METHODS[method].options`.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1, every one in use.

    Raises
    ------
    ValueError
        Unknown method or option, points that are not a finite matrix, k below
        1 or above n_rows, an option out of its range, or classes that are
        missing, not needed or do not fit.
    AnonpipeError
        The method broke its promise: a group under k, a record without group.

    Examples
    --------
    >>> points = np.array([[0.0], [9.0], [1.0], [10.0]])
    >>> cluster(points, 2, "mdav", rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; allowed are {', '.join(METHODS)}")
    entry = METHODS[method]
    for name in options:
        if name not in entry.options:
            allowed = ", ".join((*entry.options, "block_rows"))
            raise ValueError(f"{method} has no option {name!r}; allowed are {allowed}")
    points = checked_points(points)
    if points.shape[1] == 0:
        raise ValueError("points has no columns; give one or more")
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise ValueError(f"k has type {type(k).__name__}; give a whole number")
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng has type {type(rng).__name__}; give a numpy.random.Generator, as from default_rng()")
    if not 1 <= k <= len(points):
        raise ValueError(f"k is {k} for {len(points)} records; give 1 to as many as there are records")
    given: dict[str, Any] = dict(options)
    if "classes" in entry.needs:
        classes, shares = checked_classes(classes, class_shares, len(points), method)
        given["class_shares"] = shares
    elif classes is not None or class_shares is not None:
        raise ValueError(f"{method} does not use classes; leave them out")
    labels = np.empty(len(points), dtype=np.int64)
    label = 0
    for rows in blocks_of_at_least(points, k, block_rows):
        if classes is not None:
            given["classes"] = classes[rows]
        found = entry.function(points[rows], k, rng=rng, **given)
        sizes = count_groups(found, len(rows), k, method)
        labels[rows] = label + found
        label += len(sizes)
    return labels


def blocks_of_at_least(points: FloatArray, k: int, block_rows: int | None) -> list[IntArray]:
    """Row numbers of each block; an error where a block is under k."""
    if block_rows is None or block_rows >= len(points):
        return [np.arange(len(points))]
    order, starts = block_order(points, block_rows)
    if np.diff(starts).min() < k:
        raise ValueError(f"block_rows is {block_rows}, which leaves blocks under k={k} records; give at least {2 * k}")
    return [order[low:high] for low, high in pairwise(starts)]
