"""What a method's text means, and that --set gives the very job that was compared."""

from __future__ import annotations

import fnmatch

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.compare import DEFAULT_METHODS, grid
from anonpipe.compare._settings import _forms, digest_of
from anonpipe.compare._study import check_names, known_names
from anonpipe.errors import JobError
from anonpipe.job.model import load_job, parse_job
from anonpipe.job.plain_yaml import parse_setting
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.verify.catalogue import MEASURED, UNMEASURED
from tests import small

BASES = {
    "plain": {},
    "own": {"cluster": {"method": "v_mdav", "gamma": 0.5, "block_rows": 300}, "synthesize": {"method": "pca"}},
    "mask": {"mask": {"method": "noise", "amount": 0.4}},
}
SURVIVAL = {
    **small.COLUMNS,
    "months": {"kind": "continuous", "role": "survival_time", "bounds": [0, 600]},
    "vital": {"kind": "binary", "role": "survival_status", "event": ["dead"]},
}


def base(name="plain", **changes):
    return parse_job({"input": "a", "output": "b", "k": 7, "columns": SURVIVAL, **BASES[name], **changes})


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(list(BASES)), st.sampled_from([*DEFAULT_METHODS, "v_mdav+pca", "mask:noise:exact"]), st.data())
def test_set_gives_the_job_that_was_compared(tmp_path_factory, name, method, data):
    k = data.draw(st.integers(2, 40))
    (setting,) = grid(base(name), [method], [k])
    path = tmp_path_factory.getbasetemp() / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"input": "a", "output": "b", "k": 7, "columns": SURVIVAL, **BASES[name]}))
    asked = load_job(path, dict(parse_setting(text) for text in setting.overrides))
    assert asked == setting.job(base(name)) and asked.k == k
    assert (asked.mask is None) == ("+" in method)


def test_every_default_fits_a_plain_job():
    settings_ = grid(base(), DEFAULT_METHODS, [3, 5])
    assert len(settings_) == 2 * len(DEFAULT_METHODS) and len(DEFAULT_METHODS) >= 8
    assert len({setting.job(base()).digest() for setting in settings_}) == len(settings_)
    assert [setting.k for setting in settings_[:2]] == [3, 5]


def test_a_method_keeps_what_the_job_says_of_it():
    own = base("own", cluster={"method": "v_mdav", "gamma": 0.5, "block_rows": 300, "response_weight": 0.3})
    same, other, classes = grid(own, ["v_mdav+centroid", "kmeans+pca", "crest+pca"], [5])
    assert same.sections["cluster"] == {"method": "v_mdav", "gamma": 0.5, "block_rows": 300, "response_weight": 0.3}
    assert other.sections["cluster"] == {"method": "kmeans", "block_rows": 300, "response_weight": 0.3}
    assert "refine" not in classes.sections["cluster"]
    (noise,) = grid(base("mask"), ["mask:noise:exact"], [5])
    assert noise.sections["mask"] == {"method": "noise", "amount": 0.4, "form": "exact"}
    (back,) = grid(base("mask"), ["mdav+centroid"], [5])
    assert back.job(base("mask")).cluster.method == "mdav" and back.sections["mask"] is None


@pytest.mark.parametrize(
    ("methods", "ks", "words"),
    [
        (["mdav"], [5], "write grouping\\+synthesizer"),
        (["nothing+centroid"], [5], "cluster has no method 'nothing'; known are: mdav"),
        (["mdav+nothing"], [5], "synthesize has no method"),
        (["mask:nothing"], [5], "mask has no method"),
        (["mdav+centroid:exact"], [5], "has no forms"),
        (["mdav+gaussian:wrong"], [5], "gaussian has no form 'wrong'; its forms are: exact, expected"),
        (["mask:noise:nonsense"], [5], "its forms are: expected, centred, exact"),
        ([], [5], "at least one"),
        (["mdav+pca", "mdav+pca"], [5], "none twice"),
        (["mdav+pca"], [5, 1], "at least 2"),
    ],
)
def test_what_cannot_be_read_is_told(methods, ks, words):
    with pytest.raises(JobError, match=words):
        grid(base(), methods, ks)


@pytest.mark.parametrize("name", sorted(name for name in (*SYNTHESIZERS, *MASKERS) if _forms(name)[0]))
def test_every_form_is_read(name):
    start = f"mask:{name}" if name in MASKERS else f"mdav+{name}"
    option, forms = _forms(name)
    assert len(forms) > 1
    for form in forms:
        (setting,) = grid(base(), [f"{start}:{form}"], [5])
        asked = setting.job(base())
        assert getattr(asked.mask or asked.synthesize, option) == form


def test_measures_are_named_once_and_gates_name_measures():
    names = known_names(base(measure={"scenarios": [{"name": "neighbour", "knows": ["months"]}]}))
    assert len(names) == len(set(names)) > 60 and "scenarios.neighbour.linked" in names
    for gate in MEASURED.values():
        assert all(fnmatch.filter(names, figure) for figure in gate.figures), gate.name
        assert gate.unmeasured in UNMEASURED, gate.name


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ((None, "reidentifcation_rate"), "--risk is 'reidentifcation_rate'.*near to it are: reidentification_rate"),
        (("propensity.tree_ration", None), "--utility .*near to it are: propensity.tree_ratio"),
        (("zzz", None), "known are: reidentification_rate, .*closest_record.p5"),
        (("analyses.overlap", None), "no measure is called so"),  # without analyses
        (("sensitive.months.t", "sensitive.months.u"), "--risk is 'sensitive.months.u'"),
    ],
)
def test_misspelt_measures_are_refused(axes, words):
    with pytest.raises(JobError, match=words):
        check_names(base(), axes)


def test_the_digest_follows_job_draw_and_version_alone():
    (setting,) = grid(base(), ["mdav+pca"], [5])
    job = setting.job(base())
    elsewhere = job.model_copy(update={"input": "c", "output": "d"})
    assert digest_of(job, 0, "1") == digest_of(elsewhere, 0, "1")
    others = [digest_of(job, 1, "1"), digest_of(job, 0, "2"), digest_of(job.model_copy(update={"k": 6}), 0, "1")]
    others.append(digest_of(job.model_copy(update={"gates": job.gates.model_copy(update={"mean": 0.3})}), 0, "1"))
    assert len({digest_of(job, 0, "1"), *others}) == 5
