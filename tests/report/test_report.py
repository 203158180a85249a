"""Both versions of a report: what is in them, what is not, and the page that is drawn from them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from anonpipe.columns import Kind
from anonpipe.errors import InputError, printable
from anonpipe.evaluate.measurement import Audience, Curve
from anonpipe.evaluate.utility import Analysis, Distribution
from anonpipe.report import Report, documents, external, internal, read_report, render, words
from anonpipe.report.content import SizeLine
from anonpipe.verify.catalogue import held
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import line
from tests.analyses import compare_models
from tests.report import made

VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """A page that is read strictly: every element that opens closes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.captions = 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(scope="module")
def reports():
    facts = made.facts()
    failed = internal(made.facts(failed=True), None)
    return {"internal": internal(facts, "/releases/v1"), "external": external(facts), "failed": failed}


def everything(report: Report) -> str:
    """All bytes that leave with a report, hostile characters as they were."""
    files = documents(report)
    content = json.loads(files["report.json"])
    return json.dumps(content, ensure_ascii=False) + files["report.html"].decode()


# --- what recipients may not see ------------------------------------------------------------------------------------


def test_the_steward_sees_all_and_recipients_see_no_canary(reports):
    inside, outside = everything(reports["internal"]), everything(reports["external"])
    for needle in (made.CANARY, "0.8174", "81736.45", "19,990", "19990"):
        assert needle in inside, needle
        assert needle not in outside, needle
    assert "0.031" in outside and "stage[T.Distant]" in outside  # the release's own coefficients
    assert reports["internal"].notes and not reports["external"].notes


SECRETS = st.fixed_dictionaries(
    {
        "unit": st.sampled_from(["share", "sd", "", "bits"]),
        "records": st.integers(5, 50_000),
        "where": st.sampled_from(["value", "parts", "curves", "note", "baseline"]),
        "better": st.sampled_from(["lower", "higher", "near baseline"]),
    }
)


def secret(unit, records, where, better, at):
    """A disclosive measure with the canary in one of its places."""
    number, text = made.CANARY_NUMBER, made.CANARY
    line = Curve(text, "x", "y", (0.0, 1.0), (number, 1.0), (0.0, 1.0))
    places = {
        "value": {"value": number},
        "parts": {"parts": ((text, number),)},
        "curves": {"curves": (line,)},
        "note": {"note": text},
        "baseline": {"baseline": number, "baseline_is": text},
    }
    plain = {"low": None, "high": None, "parts": (), "curves": (), "title": f"secret {at}", "of": 50_000}
    return made.measurement(
        f"secret.{at}",
        unit=unit,
        records=records,
        better=better,
        audience=Audience.STEWARD,
        **{**plain, **places[where]},
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(SECRETS, min_size=1, max_size=4))
def test_a_disclosive_measure_is_never_released(drawn):
    hidden = tuple(secret(**each, at=at) for at, each in enumerate(drawn))
    facts = made.facts(assessment=made.assessment(secret=hidden))
    outside, inside = everything(external(facts)), everything(internal(facts, "/releases/v1"))
    for needle in (made.CANARY, "secret", "0.8174", "81.7 %", str(made.CANARY_NUMBER)):
        assert needle not in outside
    assert all(f"secret {at}" in inside for at in range(len(hidden)))


def test_counts_of_few_persons_and_small_samples_are_not_told():
    few = made.measurement(
        "few", value=3 / 20_000, records=20_000, of=20_000, low=None, high=None, title="three persons"
    )
    enough = made.measurement("enough", value=5 / 20_000, records=20_000, of=20_000, low=None, high=None)
    small = made.measurement("small", records=4, title="four records")
    facts = made.facts(assessment=made.assessment(open_=(few, enough, small)))
    told = {figure.name: figure for figure in external(facts).risk}
    assert told["few"].value is None and "fewer than 5" in told["few"].note and not told["few"].curves
    assert told["enough"].value == 5 / 20_000
    assert "small" not in told
    assert {figure.name for figure in internal(facts, "v").risk} >= {"few", "enough", "small"}


@pytest.mark.parametrize("records", [4, 5, 99, 100])
def test_figures_on_fewer_than_20_k_records_named_and_not_told(records):
    """Of 20 records 95 % are all but one, and the 5th percentile of a distance is that of one person."""
    canary = made.CANARY_NUMBER
    tiny = made.measurement("tiny", value=canary, records=records, of=records, title="of few", curves=(), parts=())
    secret = made.measurement("secret", records=records, title="for the steward", audience=None)
    given = made.assessment(open_=(tiny, secret))
    given = replace(given, analyses=(replace(given.analyses[0], records=records),))
    facts = made.facts(assessment=given)
    told, names = external(facts), {"of few", "analysis 'survival'"}
    few = {each.what for each in told.not_checked if each.why == "measured on too few records, fewer than 100"}
    assert few == (names if records < 100 else set())
    assert ("tiny" in {figure.name for figure in told.risk}) == (records >= 100)
    assert bool(told.analyses[0].shares) == (records >= 100) and told.analyses[0].coefficients
    assert ("0.817" in everything(told)) == (records >= 100) and "for the steward" not in everything(told)
    inside = internal(facts, "v")
    assert {"tiny", "secret"} <= {figure.name for figure in inside.risk} and len(inside.not_checked) == 1


def test_columns_are_those_of_the_files():
    job = made.job()
    written = {
        "income": {"kind": "continuous", "treatment": "synthetic"},
        "income_from": {"treatment": "end of an interval"},
        "site = lung": {"treatment": "probability of a category", "column": "site", "category": "lung"},
    }
    outside, inside = (words.columns(job, written, external=told) for told in (True, False))
    assert [line.name for line in outside] == list(written) and not any(line.limits for line in outside)
    treated = {line.name: line.treatment for line in inside}
    assert treated["site"] == "as probabilities" and treated[f"name {made.CANARY}"] == "not released"
    assert set(treated) == {*written, *job.columns} and inside[0].limits == "0 to 81736.45"


def test_equal_rows_are_no_groups_and_steward_limits_are_told():
    alike = held("alike.fewest", 6, 5)
    checks = Verdict((*made.checks()[1:], alike))
    given = {"group_sizes": None, "verdict": checks, "identical": True}
    wide = made.job(gates={"mean": 5, "covariance": 0.05, "rows_under_k": 3, "reidentification_rate": 0.2})
    told = external(made.facts(**given, job=wide))
    page = render(told)
    assert "sets of equal rows in place of groups" in page and "no groups" not in page
    (said,) = [line for line in told.guarantees if "set by the steward" in line]
    assert "means 5 (default 0.02), records that key variables single out 3 (default 0)" in said
    assert "covariances" not in said and "set by the steward" not in render(external(made.facts(**given)))


@pytest.mark.parametrize(
    "field", ["source", "output", "version", "job", "warnings", "notes", "correlations", "analyses", "risk"]
)
def test_a_releasable_report_refuses_what_is_the_stewards(reports, field):
    inside = reports["internal"]
    if field == "risk":
        inside = internal(
            made.facts(assessment=made.assessment(secret=(made.measurement(audience=Audience.STEWARD),))), "v"
        )
    content = {**reports["external"].model_dump(), field: inside.model_dump()[field]}
    with pytest.raises(ValidationError, match="may not hold"):
        Report.model_validate(content)


def test_closed_ends_of_bins_are_refused(reports):
    content = reports["external"].model_dump()
    edges = content["pictures"][0]["edges"]
    content["pictures"][0]["edges"] = (12.0, *edges[1:])
    with pytest.raises(ValidationError, match="closed end"):
        Report.model_validate(content)


def test_counts_before_suppression_are_refused(reports):
    content = reports["external"].model_dump()
    content["pictures"][0]["of_all_rows"] = True
    with pytest.raises(ValidationError, match="counts before suppression"):
        Report.model_validate(content)


# --- what is in them ------------------------------------------------------------------------------------------------


def test_the_verdict_comes_first_and_in_words(reports):
    assert reports["failed"].headline == "Nothing was released: 1 of 4 checks failed."
    assert reports["failed"].summary[0] == ("Failed: smallest group. Measured: 3 records; allowed: at least 5 records.")
    assert not reports["failed"].files
    assert reports["external"].headline.startswith("Released: 20,000 rows.")
    page = Page(render(reports["failed"]))
    (place,) = [at for at, (tag, _) in enumerate(page.elements) if tag == "h1"]
    assert not [tag for tag, _ in page.elements[:place] if tag in ("h2", "table", "svg")]


def test_what_is_promised_fits_the_method():
    grouped = internal(made.facts(), "v")
    assert "groups of at least 5" in grouped.guarantees[0] and "not k-anonymity" in grouped.not_guaranteed[0]
    alike = internal(made.facts(identical=True), "v")
    assert not any("k-anonymity" in sentence for sentence in alike.not_guaranteed)
    assert "Key variables tell apart" in alike.not_guaranteed[0]
    masked = {"mask": {"method": "noise"}, "cluster": None, "synthesize": None, "sensitive": None}
    verdict = made.Verdict(made.checks()[1:])
    free = made.facts(job=made.job(**masked), verdict=verdict)
    told = internal(free, "v")
    assert "no groups" in told.guarantees[0] and "k=5 says nothing" in told.not_guaranteed[0]
    assert [method.name for method in told.methods] == ["noise", ""]
    no_sizes = told.model_copy(update={"group_sizes": ()})
    assert "There are no groups." in render(no_sizes) and "There are no groups." not in render(grouped)
    few = told.model_copy(update={"group_sizes": (SizeLine(smallest=762, largest=2289, groups="fewer than 5"),)})
    page = render(few)
    assert "762 to 2,289</th><td>fewer than 5<" in page and "ranges hold at least" not in page


def test_gates_carry_measured_value_limit_and_bytes(reports):
    text = " ".join(Page(render(reports["internal"])).texts)
    for check in map(line, made.checks()):
        assert all(part in text for part in (check.name, check.measured, check.limit, check.on, check.outcome.value))
    assert "no hold-out (measure.hold_out" in text
    assert "not k-anonymity" in text and "not differential privacy" in text


def test_json_is_the_whole_truth(reports, tmp_path):
    for report in reports.values():
        path = tmp_path / "report.json"
        path.write_bytes(documents(report)["report.json"])
        assert read_report(path) == report
        assert render(read_report(path)) == documents(report)["report.html"].decode()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "anonpipe-report-0"}'])
def test_what_is_no_report_is_refused(tmp_path, content):
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(InputError, match="no report of the form"):
        read_report(tmp_path / "report.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_report(tmp_path / "none.json")


def test_shares_of_bins_and_of_nulls(reports):
    picture = {p.name: p for p in reports["internal"].pictures}
    assert picture["site"].original == pytest.approx([400 / 1620, 900 / 1620, 300 / 1620, 20 / 1620], abs=1e-6)
    assert picture["diagnosed"].nulls_original is None  # under k
    assert picture["diagnosed"].nulls_released == pytest.approx(3 / 1710, abs=1e-6)
    assert all(p.treatment == "synthetic" for p in picture.values())


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["internal", "external", "failed"])
def test_the_page_is_one_whole_file(reports, name):
    text = render(reports[name])
    page = Page(text)
    assert "http" not in re.sub(r'http-equiv="', "", text)
    assert not page.all("script", "iframe", "img", "object", "embed")
    for attributes in page.all("a", "link"):
        assert attributes["href"].startswith("#") or attributes["href"] == "data:,"
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on") or a == "src"]
    assert "url(" not in text and "@import" not in text
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(identifiers)) == len(identifiers)
    linked = {attributes["href"][1:] for attributes in page.all("a")}
    assert linked <= set(identifiers)


@pytest.mark.parametrize("name", ["internal", "external", "failed"])
def test_figures_are_named_and_tables_have_captions_and_scopes(reports, name):
    page = Page(render(reports[name]))
    figures = page.all("svg")
    assert len(figures) >= 8
    assert all(figure["role"] == "img" and figure["aria-label"] and figure["viewbox"] for figure in figures)
    assert len(page.all("caption")) == len(page.all("table")) > 3
    assert all(cell.get("scope") in ("col", "row") for cell in page.all("th"))
    assert page.all("html")[0]["lang"] == "en"


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colours_have_contrast_in_light_and_dark(reports):
    """The limits of WCAG 2.2: 4.5 to 1 for text (1.4.3), 3 to 1 for what pictures are made of (1.4.11)."""
    schemes = re.findall(r":root \{(.*?)\}", render(reports["internal"]), flags=re.DOTALL)[:2]
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", scheme))
        for name in ("text", "soft", "passed", "failed", "open", "release", "baseline", "original"):
            for ground in ("page", "panel") if name not in ("release", "baseline", "original") else ("page",):
                light, dark = sorted((luminance(colours[name]), luminance(colours[ground])), reverse=True)
                least = 3.0 if name in ("baseline", "original") else 4.5
                assert (light + 0.05) / (dark + 0.05) >= least, (name, ground)


def test_hostile_names_stay_text(reports):
    for report in (reports["internal"], reports["external"]):
        page = Page(render(report))
        assert made.HOSTILE in page.texts  # as a heading of its own
        assert any(made.HOSTILE in str(figure["aria-label"]) for figure in page.all("svg"))


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)


@settings(max_examples=15, deadline=None)
@given(name=TEXT, labels=st.lists(TEXT, min_size=1, max_size=4, unique=True), note=TEXT)
def test_any_text_is_shown_as_it_is(name, labels, note):
    counts = (7,) * len(labels)
    column = Distribution(name, Kind.CATEGORICAL, (), tuple(labels), counts, counts, 30, 30, 0, 0, note)
    measured = made.measurement(title=name, note=note, parts=((name, 0.5),))
    facts = made.facts(
        distributions={"internal": (column,)},
        assessment=made.assessment(open_=(measured,)),
        correlations=made.matrices((name, f"{name} 2")),
    )
    page = Page(render(internal(facts, "/v")))
    assert not page.all("script", "img")
    shown = printable(name)
    assert any(f"{shown}: original and release" == figure["aria-label"] for figure in page.all("svg"))
    assert sum(text.strip() == shown.strip() for text in page.texts) >= 2


def test_empty_and_odd_content_is_drawn():
    nothing = Distribution("empty", Kind.CONTINUOUS, (), (), (), (), 3, 3, None, 0, "fewer than 5 values")
    one = Distribution("one bin", Kind.CONTINUOUS, (None, None), (), (9,), (9,), 9, 9, 0, 0, "")
    two = Distribution("two bins", Kind.DATE, (None, 1e12, None), (), (9, 5), (8, 6), 14, 14, 0, 0, "")
    names = ("a", "b")
    missing = made.CorrelationMatrices(names, np.full((2, 2), np.nan), np.full((2, 2), np.nan))
    odd = made.measurement("odd", value=float("nan"), low=None, high=None, baseline=None, baseline_is="")
    flat = made.measurement("flat", value=0.0, low=0.0, high=0.0, baseline=0.0, curves=(Curve("t", "x", "y", (), ()),))
    facts = made.facts(
        distributions={"internal": (nothing, one, two)},
        correlations=missing,
        assessment=made.assessment(open_=(odd, flat)),
        group_sizes=None,
    )
    text = " ".join(Page(render(internal(facts, None))).texts)
    assert "fewer than 5 values" in text and "smallest group is stands under" in text and "all values" in text


# --- what with the release would give the original ------------------------------------------------------------------


def analysed(formula, learnt=...):
    """Facts of a run with this analysis of two tables of 400 records."""
    rng = np.random.default_rng(4)
    old, new = (
        pd.DataFrame(
            {
                "age": rng.normal(60, 9, 400),
                "scale": rng.gamma(5, 2, 400),
                "stage": rng.choice(["I", "II"], 400),
                "rare": np.arange(400) < 4,
            }
        )
        for _ in range(2)
    )
    old, new = (table.assign(months=90 - table["age"] + rng.normal(size=400)) for table in (old, new))
    (comparison,) = compare_models(old, new, [Analysis("survival", "linear", f"months ~ {formula}")])
    if learnt is not ...:
        comparison = replace(comparison, released=replace(comparison.released, learnt=learnt))
    outcome = replace(made.facts().assessment.analyses[0], comparison=comparison)
    return made.facts(assessment=replace(made.assessment(), analyses=(outcome,)))


@pytest.mark.parametrize("term", ["standardize(age)", "center (age)", "bs(age, df=4)", "np.exp(te(cr(age, df=3)))"])
def test_coefficients_that_the_original_has_shaped_are_not_told(term):
    """Of `standardize` a recipient's own slope over the told one is the original's standard deviation."""
    facts = analysed(f"{term} + stage")
    outside, inside = external(facts).analyses[0], internal(facts, "v").analyses[0]
    assert not outside.coefficients and len(inside.coefficients) >= 3 and dict(outside.shares)
    assert "Coefficients are not reported" in render(external(facts))
    assert "Coefficients are not reported" not in render(internal(facts, "v"))


def test_coefficients_that_recipients_can_compute_are_told():
    outside = external(analysed("age + np.log(scale) + stage")).analyses[0]
    assert [one.name for one in outside.coefficients] == ["Intercept", "stage[T.II]", "age", "np.log(scale)"]
    assert external(analysed("age + stage", learnt=None)).analyses[0].coefficients == ()  # nobody knows
    assert external(analysed("age + stage", learnt=True)).analyses[0].coefficients == ()


def test_coefficients_of_fewer_than_k_records_are_not_told():
    facts = analysed("age + rare")
    outside, inside = external(facts).analyses[0], internal(facts, "v").analyses[0]
    assert {one.name for one in inside.coefficients} - {one.name for one in outside.coefficients} == {"rare[T.True]"}


def test_figures_of_recipients_have_few_digits():
    """In full precision one of the figures is how far a person's true value is from a released one."""
    fine = made.measurement(value=0.10153286219517507, low=0.0915328, high=0.1115328, parts=(("age", 0.123456),))
    told = {figure.name: figure for figure in external(made.facts(assessment=made.assessment(open_=(fine,)))).risk}
    figure = told["reidentification_rate"]
    assert (figure.value, figure.low, figure.high, figure.parts) == (0.102, 0.0915, 0.112, (("age", 0.123),))
    numbers = [v for line in figure.curves for v in (*line.x, *line.y, *line.baseline) if v is not None]
    assert all(v == float(f"{v:.3g}") for v in numbers) and len(numbers) > 100
    assert {f.name: f for f in internal(made.facts(), "v").risk}["reidentification_rate"].curves[0].y[7] == (
        7 / 39
    ) ** 0.5


def test_counts_of_few_not_told_in_curves_parts_or_rest():
    exact = {"records": 1000, "of": 1000, "low": None, "high": None, "parts": (), "curves": ()}
    steps = Curve(
        "t", "distance", "share", (0.0, 1.0, 2.0, 3.0, 4.0), (0.0, 0.004, 0.5, 0.996, 1.0), (0.0, 0.001, 1, 1, 1)
    )
    lines = made.measurement(
        "lines", **{**exact, "value": 0.2, "curves": (steps,), "parts": (("a", 0.001), ("b", 0.01))}
    )
    rest = made.measurement("rest", **{**exact, "value": 0.998})
    facts = made.facts(assessment=made.assessment(open_=(lines, rest)))
    told = {figure.name: figure for figure in external(facts).risk}
    assert told["lines"].curves[0].y == (0.0, None, 0.5, None, 1.0)
    assert told["lines"].curves[0].baseline == (0.0, None, 1.0, 1.0, 1.0)
    assert told["lines"].parts == (("a", None), ("b", 0.01)) and told["lines"].value == 0.2
    assert told["rest"].value is None and "all but fewer" in told["rest"].note
    assert "<path" in render(external(facts))
    assert {figure.name: figure for figure in internal(facts, "v").risk}["rest"].value == 0.998


@pytest.mark.parametrize("field", ["columns", "analyses"])
def test_a_releasable_report_refuses_other_columns_and_overlaps(reports, field):
    content = reports["external"].model_dump()
    if field == "columns":
        content["columns"] = reports["internal"].model_dump()["columns"]
    else:
        content["analyses"][0]["shares"] = (("overlap", 0.6),)
    with pytest.raises(ValidationError, match=r"overlap of intervals|not released"):
        Report.model_validate(content)


@pytest.mark.parametrize("name, said", [("internal", "INTERNAL: do not pass on"), ("external", "For recipients")])
def test_every_printed_page_names_its_audience(reports, name, said):
    (margin,) = re.findall(r'@page \{ @top-left \{ content: "([^"]*)"', render(reports[name]))
    assert margin.startswith(said)


def test_group_sizes_are_whole_and_small_numbers_text(reports):
    sizes = (
        SizeLine(smallest=7, largest=7, groups=1),
        SizeLine(smallest=1_000_000, largest=22_890_000, groups=1_200),
        SizeLine(smallest=5, largest=9, groups="fewer than 5"),
    )
    page = render(reports["internal"].model_copy(update={"group_sizes": sizes}))
    rows = re.findall(r'<th scope="row">([0-9,to ]+)</th><td>([^<]*)</td></tr>', page.partition('id="groups"')[2])
    assert rows[:3] == [("7", "1"), ("1,000,000 to 22,890,000", "1,200"), ("5 to 9", "fewer than 5")]
