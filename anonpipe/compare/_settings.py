"""The settings that are compared: how methods are written, and the job that each stands for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

import yaml

from anonpipe.columns import Role
from anonpipe.errors import JobError
from anonpipe.job.model import Job, parse_job
from anonpipe.methods.grouping import METHODS as GROUPINGS
from anonpipe.methods.grouping import GroupingOptions
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.record import Method, in_jobs
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS

# One or two of every family: fast enough for large tables, and far apart in what they keep and hide
DEFAULT_METHODS = (
    "mask:local_synthesis",
    "mdav+micro_perturbation",
    "mdav+micro_perturbation:centred",
    "mdav+centroid",
    "mdav+gaussian",
    "kmeans+pca:expected",
    "condensation+pca:expected",
    "kd_tree+gaussian:expected",
    "mask:noise",
    "mask:data_shuffle",
    "mask:spectral_swap",
    "mask:sequential_regression",
    "mask:generalize",
)

DEFAULT_K = (3, 5, 10, 20)

_HOW = (
    "write grouping+synthesizer, such as mdav+centroid or kmeans+pca:expected, or mask:method, such as mask:noise; "
    "anonpipe methods lists them"
)


@dataclass(frozen=True)
class Setting:
    """One way to anonymise that is compared with others."""

    method: str  # As the user wrote it: `kmeans+pca:expected`, `mask:noise`
    k: int  # Smallest group size
    sections: dict[str, Any]  # What it puts in place of the job's sections

    def job(self, base: Job) -> Job:
        """The job with this setting."""
        content = base.model_dump(mode="json")
        for name, masked in base.spikes.items():  # which some methods do not have
            transform = content["columns"].pop(masked)["transform"]
            content["columns"][name] |= {"role": Role.MASKED, "transform": transform}
        for column in content["columns"].values():
            if column["transform"] == "normal_scores":  # what there is unsaid, but for methods that cannot have it
                column["transform"] = None
        return parse_job(content | self.sections | {"k": self.k})

    @property
    def overrides(self) -> tuple[str, ...]:
        """What to give to `--set` for it, each as key=value, the value as YAML on one line."""
        return (f"k={self.k}", *(f"{name}={_flow(value)}" for name, value in self.sections.items()))


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**9, sort_keys=False)
    return text.removesuffix("...\n").strip()


def grid(base: Job, methods: Sequence[str], ks: Sequence[int]) -> tuple[Setting, ...]:
    """Every method with every k, in the order given."""
    for what, given in (("methods", methods), ("k", ks)):
        if not given or len(set(given)) != len(given):
            raise JobError(f"--{what}: give at least one, and none twice")
    if low := [k for k in ks if k < 2]:
        raise JobError(f"--k has {low[0]}; give whole numbers of at least 2, as in --k 3,5,10")
    sections = {text: _sections(base, text) for text in methods}
    return tuple(Setting(text, k, sections[text]) for text, k in product(methods, ks))


def _sections(base: Job, text: str) -> dict[str, Any]:
    """What a method puts in place of the job's sections."""
    if text.startswith("mask:"):
        name, _, form = text.removeprefix("mask:").partition(":")
        _known(text, "mask", name, in_jobs(MASKERS))
        own = base.mask is not None and base.mask.method == name
        mask = _explicit(base.mask) if own else {}
        return {"cluster": None, "sensitive": None, "synthesize": None, "mask": _formed(text, name, form, mask)}
    grouping, plus, rest = text.partition("+")
    if not plus:
        raise JobError(f"--methods has {text!r}; {_HOW}")
    name, _, form = rest.partition(":")
    _known(text, "cluster", grouping, in_jobs(GROUPINGS))
    _known(text, "synthesize", name, in_jobs(SYNTHESIZERS))
    same = base.synthesize is not None and base.synthesize.method == name
    synthesize = _formed(text, name, form, _explicit(base.synthesize) if same else {})
    replaced = {"mask": None} if base.mask is not None else {}
    return {**replaced, "cluster": _grouping(base, grouping), "synthesize": synthesize}


def _known(text: str, section: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise JobError(f"--methods has {text!r}, and {section} has no method {name!r}; known are: {', '.join(known)}")


def _explicit(options: Any) -> dict[str, Any]:
    """What a section of the job says itself, its method first."""
    content: dict[str, Any] = options.model_dump(mode="json", include=options.model_fields_set)
    return {"method": options.method} | content


def _formed(text: str, name: str, form: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a method, with its form where the text gives one."""
    if not form:
        return {"method": name} | options
    option, known = _forms(name)
    if option is None:
        raise JobError(f"--methods has {text!r}, and {name} has no forms; leave out :{form}")
    if form not in known:
        raise JobError(f"--methods has {text!r}, and {name} has no form {form!r}; its forms are: {', '.join(known)}")
    return {"method": name} | options | {option: form}


def _forms(name: str) -> tuple[str | None, tuple[str, ...]]:
    """The option that the form of a method sets, and what it may be."""
    record: Method = SYNTHESIZERS[name] if name in SYNTHESIZERS else MASKERS[name]
    if record.options is None or record.forms is None:
        return None, ()
    return record.forms, get_args(record.options.model_fields[record.forms].annotation)


def _grouping(base: Job, name: str) -> dict[str, Any]:
    """The cluster section: the job's own for its method, and what the job says of every method for another."""
    if base.cluster is None:
        return {"method": name}
    content = _explicit(base.cluster)
    if base.cluster.method == name:
        return content
    general = {key: value for key, value in content.items() if key in GroupingOptions.model_fields}
    if GROUPINGS[name].classes:
        general.pop("refine", None)  # it would undo what such a method does
    return general | {"method": name}


def digest_of(job: Job, draw: int, release: str) -> str:
    """What a measured figure depends on besides the input: the job without its paths and cluster, draw, and version."""
    content = job.model_dump(mode="json", exclude={"input", "output", "run"})
    text = json.dumps([content, draw, release], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
