"""The settings that are tried: a line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Setting:
    """A method, a k, and what they change in the job that `anonpipe init` proposes.

    Attributes
    ----------
    changes
        What goes to `--set`. In `columns.*.NAME` the star stands for each
        column that is masked and no category.
    """

    method: str
    k: int
    changes: tuple[str, ...]

    def changes_of(self, numbers: Sequence[str]) -> list[str]:
        """What goes to `--set` of `anonpipe run`, for a table with these columns that are masked and no category.

        Examples
        --------
        >>> Setting("own", 5, ("columns.*.transform=log", "cluster.method=kd_tree")).changes_of(["a", "b.c"])
        ['k=5', 'columns."a".transform=log', 'columns."b.c".transform=log', 'cluster.method=kd_tree']
        """
        changes = [f"k={self.k}"]
        for change in self.changes:
            several = change.startswith("columns.*.")
            changes += [change.replace("*", f'"{name}"', 1) for name in numbers] if several else [change]
        return changes


UNLINKED = "gates.reidentification_rate=null"
"""`anonpipe init` proposes this limit with `local_synthesis` alone; of groups it tells that they need a larger k."""


def _groups(synthesize: str, cluster: str = "{method: mdav}") -> tuple[str, ...]:
    return "mask=null", f"cluster={cluster}", f"synthesize={{{synthesize}}}", UNLINKED


def _mask(method: str) -> tuple[str, ...]:
    linked = () if method == "local_synthesis" else (UNLINKED,)
    return "cluster=null", "synthesize=null", f"mask={{method: {method}}}", *linked


BOTH, FIVE = (5, 20), (5,)
"""k of methods that form groups, and of those where it only governs rare categories."""

METHODS: tuple[tuple[str, tuple[int, ...], tuple[str, ...]], ...] = (
    ("default of init", BOTH, ()),
    ("mdav + micro_perturbation", BOTH, _groups("method: micro_perturbation")),
    ("mdav + micro_perturbation, centred", BOTH, _groups("method: micro_perturbation, form: centred")),
    ("mdav + gaussian, expected", BOTH, _groups("method: gaussian, moments: expected")),
    ("mdav + gaussian, exact", BOTH, _groups("method: gaussian")),
    ("mdav + centroid", BOTH, _groups("method: centroid")),
    ("kmeans + pca, expected", BOTH, _groups("method: pca, moments: expected", "{method: kmeans}")),
    ("kd_tree + gaussian, expected", BOTH, _groups("method: gaussian, moments: expected", "{method: kd_tree}")),
    ("local_synthesis", BOTH, _mask("local_synthesis")),
    ("data_shuffle", BOTH, _mask("data_shuffle")),
    ("generalize", BOTH, _mask("generalize")),
    ("rank_swap", FIVE, _mask("rank_swap")),
    ("noise", FIVE, _mask("noise")),
    ("spectral_swap", FIVE, _mask("spectral_swap")),
    ("synthesis", FIVE, _mask("synthesis")),
    ("sequential_regression", FIVE, _mask("sequential_regression")),
)
"""Name, values of k, changes of the job; the first is the one that the criteria are told of."""

TRANSFORMS: dict[str, tuple[str, ...]] = {
    "": ("columns.*.transform=none",),
    ", normal scores": ("columns.*.transform=normal_scores",),
}
"""What every method but the default is tried with, by what that adds to its name."""

UNSCORED = ("generalize",)
"""Methods whose rows are to be alike across strata, where scores would part them again."""


def _transforms(method: str, changes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    if not changes:
        return {"": ()}
    return {"": TRANSFORMS[""]} if method in UNSCORED else TRANSFORMS


def grid(wanted: Sequence[str] = (), ks: Sequence[int] = ()) -> Iterator[Setting]:
    """The settings whose names fit one of the patterns, all where there is none.

    Examples
    --------
    >>> [(one.method, one.k) for one in grid(["default*", "noise*", "mdav + centroid"], [5])]
    [('default of init', 5), ('mdav + centroid', 5), ('noise', 5), ('noise, normal scores', 5)]
    """
    for method, values, changes in METHODS:
        for added, also in _transforms(method, changes).items():
            if not wanted or any(fnmatchcase(method + added, pattern) for pattern in wanted):
                yield from (Setting(method + added, k, (*changes, *also)) for k in values if not ks or k in ks)
