"""What a method's text means, and that --set gives the very job that was compared."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.compare import DEFAULT_METHODS, grid
from anonpipe.compare._settings import digest_of
from anonpipe.errors import JobError
from anonpipe.job import load_job, parse_job, parse_setting
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
        ([], [5], "at least one"),
        (["mdav+pca", "mdav+pca"], [5], "none twice"),
        (["mdav+pca"], [5, 1], "at least 2"),
    ],
)
def test_what_cannot_be_read_is_told(methods, ks, words):
    with pytest.raises(JobError, match=words):
        grid(base(), methods, ks)


def test_a_form_that_does_not_exist_is_the_jobs_error():
    (setting,) = grid(base(), ["mdav+pca:nonsense"], [5])
    with pytest.raises(JobError, match="moments"):
        setting.job(base())


def test_the_digest_follows_job_draw_and_version_alone():
    (setting,) = grid(base(), ["mdav+pca"], [5])
    job = setting.job(base())
    elsewhere = job.model_copy(update={"input": "c", "output": "d"})
    assert digest_of(job, 0, "1") == digest_of(elsewhere, 0, "1")
    others = [digest_of(job, 1, "1"), digest_of(job, 0, "2"), digest_of(job.model_copy(update={"k": 6}), 0, "1")]
    others.append(digest_of(job.model_copy(update={"gates": job.gates.model_copy(update={"mean": 0.3})}), 0, "1"))
    assert len({digest_of(job, 0, "1"), *others}) == 5
