"""What a recipient's formula and conditions may hold; everything else is refused before it is evaluated."""

from __future__ import annotations

import ast
import sys
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import JobError
from anonpipe.evaluate.utility import Analysis, check_analysis, fit_models
from anonpipe.evaluate.utility._formula import (
    RefusedError,
    environment,
    evaluate,
    factors_of,
    read_condition,
    read_factor,
)
from anonpipe.job.analyses import read_analyses
from anonpipe.job.model import parse_job
from tests.analyses import compare_models

HOSTILE = [
    ("formula", "y ~ np.__builtins__['exec']('1') + x", "np.__builtins__"),
    ("formula", "y ~ np.fromfile('/etc/passwd') + x", "np.fromfile"),
    ("formula", "y ~ x.to_csv('copy')", "x.to_csv"),
    ("formula", "y ~ ().__class__.__mro__[1].__subclasses__()", "__subclasses__"),
    ("formula", "y ~ __import__('os').system('id')", "__import__"),
    ("formula", "y ~ open('copy', 'w')", "open"),
    ("formula", "y ~ eval('1')", "eval"),
    ("formula", "y ~ I(getattr(x, 'to_csv'))", "getattr"),
    ("formula", "y ~ (lambda: 1)()", "lambda"),
    ("formula", "y ~ I([i for i in x])", "for i in x"),
    ("formula", "y ~ I(x if x else x)", "if"),
    ("formula", "y ~ I(f'{x.to_csv()}')", "to_csv"),
    ("formula", "y ~ I(x := 3)", ":="),
    ("formula", "y ~ x[0]", "x[0]"),
    ("formula", "y ~ I('a' * 10**9)", "'a'"),
    ("formula", "y ~ I(x ** 10 ** 10 ** 10)", "exponent"),
    ("formula", "y ~ I(10 ** 10)", "without a column"),
    ("formula", "y ~ I(I(10) ** 10)", "without a column"),
    ("formula", "y ~ I(x << 1000000000)", "<<"),
    ("formula", "y ~ I(9999999999999999999999 + x)", "too large"),
    ("formula", "y ~ bs(x, df=1000000000)", "degrees of freedom"),
    ("formula", "y ~ te(cr(x, df=40), cr(x, df=40), cr(x, df=40))", "degrees of freedom"),
    ("formula", "y ~ bs(x, knots=np.linspace(0, 1, 10**9))", "no plain value"),
    ("formula", "y ~ np.log(*x)", "'*x'"),
    ("formula", "y ~ log(x, **x)", "allowed"),
    ("formula", "y ~ C(x, Treatment(open('copy')))", "open"),
    ("formula", "y ~ Q('__builtins__')", "Q("),
    ("formula", "y ~ Q(x)", "Q("),
    ("formula", "y ~ __builtins__", "__builtins__"),
    ("formula", "y ~ " + " * ".join(f"a{i}" for i in range(30)), "multiplies out"),
    ("formula", "y ~ (" + " + ".join(f"a{i}" for i in range(30)) + ") ** 9", "multiplies out"),
    ("formula", "y ~ (x + z) ** 1000000000", "exponent"),
    ("formula", "y ~ " + "x + " * 2_000 + "x", "characters"),
    ("formula", "y ~ I(" + "-" * 300 + "x)", "inside each other"),
    ("formula", "y ~ " + "x + " * 900 + "x", "multiplies out"),
    ("formula", "y ~ I(" + "(" * 300 + "x" + ")" * 300 + ")", "cannot be read"),
    ("subset", "x.to_csv('copy')", "x.to_csv"),
    ("subset", "@pd.io.common.os.system('id') == 0", "cannot be read"),
    ("subset", "x == '`' or x.to_csv('copy') == '`'", "x.to_csv"),
    ("subset", 'x == "`" or x.to_csv(\'copy\') == "`"', "x.to_csv"),
    ("subset", "`x`.to_csv('copy') > 1", "to_csv"),
    ("subset", "x.__class__ == 1", "x.__class__"),
    ("subset", "x['a'] > 1", "x['a']"),
    ("subset", "index.values > 1", "index.values"),
    ("subset", "x > 9 ** 9 ** 9", "exponent"),
    ("subset", "x > 'a' * 1000000000", "'a'"),
    ("subset", "x in y", "membership"),
    ("subset", "sin(x) > 0", "sin"),
    ("subset", "x > (lambda: 1)()", "lambda"),
    ("subset", "[x, y] == 3 and x", "no plain value"),
    ("event", "x.map(print)", "x.map"),
]


def analysis_of(part, text):
    given = {"formula": "y ~ x", "model": "cox" if part == "event" else "linear"} | {part: text}
    return Analysis("the study", **given)


def table(rows=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "y": rng.normal(size=rows),
            "x": rng.uniform(1, 9, rows),
            "z": rng.integers(0, 2, rows),
            "stage": rng.choice(["I", "II", "III"], rows),
            "net pay": rng.uniform(1, 5, rows),
        }
    )


@pytest.mark.parametrize(("part", "text", "words"), HOSTILE, ids=[f"{p}-{n}" for n, (p, _, _) in enumerate(HOSTILE)])
def test_what_is_not_listed_is_refused(part, text, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun = time.perf_counter()
    with pytest.raises(JobError) as caught:
        fit_models(table(), [analysis_of(part, text)])
    assert words in str(caught.value) and "the study" in str(caught.value)
    assert len(str(caught.value)) < 5_000 and caught.value.__context__ is None
    assert not list(tmp_path.iterdir()) and time.perf_counter() - begun < 5


@pytest.mark.parametrize("part", ["formula", "subset", "event"])
def test_a_job_is_refused_before_its_input_is_opened(part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = {"formula": "y ~ x + np.__builtins__['open']('copy', 'w')"}.get(part, "x.to_csv('copy')")
    analysis = {"name": "a", "formula": "y ~ x", "model": "cox" if part == "event" else "linear"} | {part: text}
    columns = {"x": {"kind": "continuous"}, "y": {"kind": "continuous"}}
    with pytest.raises(JobError, match=rf"in its {part}, .*not allowed; allowed are") as caught:
        parse_job({"input": "none.parquet", "output": "out", "k": 3, "columns": columns, "analyses": [analysis]})
    assert caught.value.exit_code == 2
    (tmp_path / "analyses.yaml").write_text(f"- {analysis!r}")
    with pytest.raises(JobError, match=f"in its {part}, .*compute anything else as a column"):
        read_analyses(tmp_path / "analyses.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["analyses.yaml"]


def test_a_formula_is_evaluated_without_built_in_functions():
    """Were a piece to pass the list, it would still find neither built-ins nor numpy."""
    sealed = environment()
    for code in ("open", "__import__('os')", "np.load", "np.fromfile"):
        for each in (sealed, sealed.subset(["np", "log"]), sealed.with_outer_namespace({})):
            with pytest.raises((NameError, AttributeError)):
                each.eval(code)
    assert sealed.eval("np.log(1)") == 0.0


def test_text_is_not_repeated():
    """A text column times a billion would be a terabyte."""
    for text in ("stage * 1000000000 == 'I'", "log(stage) > 0"):
        with pytest.raises(JobError, match="no condition"):
            fit_models(table(), [Analysis("a", "linear", "y ~ x", subset=text)])
    with pytest.raises(JobError, match="cannot be evaluated"):
        fit_models(table(), [Analysis("a", "linear", "y ~ I(stage * 1000000000)")])


def test_interactions_of_many_categories_refused_before_made():
    wide = pd.DataFrame({name: [f"v{at % 90}" for at in range(900)] for name in "abc"}).assign(y=range(900))
    begun = time.perf_counter()
    with pytest.raises(JobError, match="729,000 coefficients, most of them for a:b:c"):
        fit_models(wide, [Analysis("a", "linear", "y ~ a:b:c")])
    assert time.perf_counter() - begun < 2


FITTED = [
    "y ~ x + stage + x:stage + I(x ** 2) + I(x > 3)",
    "y ~ (x + z + stage) ** 2 - x:z",
    "y ~ np.log(x) + log1p(z) + sqrt(Q('net pay')) + C(z) + C(stage, Treatment('II'))",
    "y ~ C(stage, Sum) + C(z, levels=[0, 1]) + center(x) + standardize(Q('net pay'))",
    "y ~ bs(x, df=4) + stage / z",
    "y ~ 0 + te(cr(x, df=3), cr(Q('net pay'), df=3))",
    "I(x + y) ~ I((x > 3) & ~(z == 1)) + x * z",
]


@pytest.mark.parametrize("formula", FITTED)
def test_what_is_listed_is_fitted(formula):
    (found,) = compare_models(table(300), table(300), [Analysis("a", "linear", formula)])
    assert found.released.problem is None and found.shares.overlap == 1.0


CONDITIONS = [
    ("x > 3", lambda t: t["x"] > 3),
    ("2 < x <= 5 and stage in ['I', 'II']", lambda t: (t["x"] > 2) & (t["x"] <= 5) & t["stage"].isin(["I", "II"])),
    ("stage not in ('I',) or not z", lambda t: (t["stage"] != "I") | (t["z"] == 0)),
    ("(x > 3) & (z == 1) | (stage == 'III')", lambda t: ((t["x"] > 3) & (t["z"] == 1)) | (t["stage"] == "III")),
    ("`net pay` * 2 - x ** 2 / 3 > -1.5", lambda t: t["net pay"] * 2 - t["x"] ** 2 / 3 > -1.5),
    ("stage == ['I', 'III'] and 'I' != stage", lambda t: t["stage"] == "III"),
    ("z", lambda t: t["z"] == 1),
    ("log(x) > 1 and abs(-x) % 2 < 1 and x // 2 != 1", lambda t: (np.log(t.x) > 1) & (t.x % 2 < 1) & (t.x // 2 != 1)),
    ("~(stage >= 'II')", lambda t: ~(t["stage"] >= "II")),
]


@pytest.mark.parametrize(("text", "wanted"), CONDITIONS, ids=[text for text, _ in CONDITIONS])
def test_conditions_are_met_as_written(text, wanted):
    frame = table(200)
    assert evaluate(read_condition(text), frame).tolist() == wanted(frame).tolist()


# --- whatever is accepted touches columns only ---------------------------------------------------------------------

NUMBERS = st.sampled_from(["x", "z", "Q('net pay')", "2", "0.5", "-3"])
NUMERIC = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner),
        st.builds("{}({})".format, st.sampled_from(["log", "np.sqrt", "exp", "np.abs", "center"]), inner),
        st.builds("(x ** {})".format, st.integers(-3, 4)),
    ),
    max_leaves=6,
)
TRUE = st.one_of(
    st.builds("({} {} {})".format, NUMERIC, st.sampled_from(["<", ">=", "==", "!="]), NUMERIC),
    st.builds("(stage {} '{}')".format, st.sampled_from(["==", "!=", "<"]), st.sampled_from(["I", "II", "`", "'"])),
    st.builds("(stage in {})".format, st.lists(st.sampled_from(["I", "II", "`"]), max_size=3)),
)
TERMS = st.one_of(
    st.just("stage"),
    st.builds("I({})".format, NUMERIC),
    st.builds("I{}".format, TRUE),
    st.builds("C({})".format, NUMBERS),
)
FORMULAS = st.builds(
    "y ~ {}".format,
    st.recursive(
        TERMS,
        lambda i: st.builds("({}{}{})".format, i, st.sampled_from([" + ", ":", "*", " - ", "/"]), i),
        max_leaves=4,
    ),
)
CONDITION_TEXTS = st.recursive(
    TRUE, lambda i: st.builds("({} {} {})".format, i, st.sampled_from(["and", "or", "&", "|"]), i), max_leaves=4
)
SCRAPS = st.sampled_from(
    [".", "__class__", "open('copy', 'w')", "[0]", "lambda: 0", "`", "'", '"', "x.to_csv('copy')", "@", "**", "10**10",
     "(", ")", "f'{x}'", ":=", "import os", "np", "np.", "I", "eval", "\\", "\n", "#", ";", ",", "*x", "\x00", "~", "{"]
)  # fmt: skip


@st.composite
def mutated(draw, texts):
    text = draw(texts)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(SCRAPS) + text[at + draw(st.integers(0, 3)) :]
    return text


FORBIDDEN = ("open", "os.", "subprocess", "socket", "ctypes", "shutil", "tempfile", "pty")


class Watch:
    """Files that are opened and programs that are started while a formula is evaluated."""

    def __init__(self):
        self.on, self.seen = False, []

    def __call__(self, event, arguments):
        if self.on and event.startswith(FORBIDDEN):
            self.seen.append((event, arguments))


SMALL = table(40)
ALLOWED_NODES = (
    ast.Name, ast.Constant, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.Call, ast.List, ast.Tuple, ast.Set,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.keyword,
)  # fmt: skip


def only_listed(tree):
    """No attribute but np.FUNCTION, nothing of Python that is not listed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            assert ast.unparse(node) in {"np.log", "np.sqrt", "np.abs"}
        else:
            assert isinstance(node, ALLOWED_NODES), ast.dump(node)


@pytest.fixture(scope="module")
def watch():
    """Begun by the tests that need it: nothing ends what Python asks at each of its steps from then on."""
    found = Watch()
    sys.addaudithook(found)
    return found


def touched_by(analysis, watch):
    """What is opened or started while it is fitted, but for sources of modules."""
    watch.on, watch.seen = True, []
    try:
        fit_models(SMALL, [analysis])
    except JobError:
        pass
    finally:
        watch.on = False
    return [event for event in watch.seen if not str(event[1][0]).endswith((".py", ".pyc"))]


@settings(max_examples=60, deadline=None)
@given(text=mutated(FORMULAS))
def test_an_accepted_formula_touches_columns_only(watch, text):
    analysis = Analysis("a", "linear", text)
    try:
        codes = factors_of(analysis)
    except JobError:
        return
    for code in codes:
        only_listed(read_factor(code))
    fit_models(SMALL, [Analysis("warm", "linear", "y ~ center(x)")])  # what is imported once is no doing of a formula
    assert touched_by(analysis, watch) == []


@settings(max_examples=80, deadline=None)
@given(text=mutated(CONDITION_TEXTS))
def test_an_accepted_condition_touches_columns_only(watch, text):
    try:
        tree = read_condition(text)
    except RefusedError:
        return
    only_listed(tree)
    assert touched_by(Analysis("a", "linear", "y ~ x", subset=text), watch) == []


@settings(max_examples=60, deadline=None)
@given(FORMULAS)
def test_formulas_of_listed_pieces_are_accepted(text):
    try:
        check_analysis(Analysis("a", "linear", text))
    except JobError as error:  # "- z" takes a predictor out, "in" is for conditions
        assert any(words in str(error) for words in ("has no predictor", "is no formula", " in ["))


@settings(max_examples=60, deadline=None)
@given(CONDITION_TEXTS)
def test_conditions_of_listed_pieces_are_accepted(text):
    if "center" not in text and "'''" not in text:
        check_analysis(Analysis("a", "linear", "y ~ x", subset=text))
