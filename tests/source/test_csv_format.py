"""CSVs as spreadsheets write them in Europe: found by `init`, read with their types, asked about, and written again."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from anonpipe.errors import AnonpipeError, InputError, JobError
from anonpipe.job.csv_format import CsvFormat
from anonpipe.job.model import load_job, parse_job
from anonpipe.pipeline.preview import preview
from anonpipe.propose.propose import propose_job
from anonpipe.source import _csv, csv_fields, csv_spellings, found_format, open_source, read_batches
from tests import small

GERMAN = {
    "delimiter": ";",
    "decimal": ",",
    "thousands": ".",
    "encoding": "windows-1252",
    "dates": ("%d.%m.%Y",),
}


def _number(value, decimal, thousands):
    text = f"{value:,.2f}" if thousands else f"{value:.2f}"
    return text.replace(",", "\0").replace(".", decimal).replace("\0", thousands or "")


def values(rows=300, last_day=28, seed=1):
    draw = random.Random(seed)
    return [
        (
            draw.choice(["Müller", "Groß", "Jäger"]),
            round(draw.uniform(20.0, 90_000.0), 2),
            datetime.date(draw.randrange(1930, 2000), draw.randrange(1, 13), draw.randrange(1, last_day + 1)),
            draw.randrange(100),
        )
        for _ in range(rows)
    ]


def write(path, form, rows, encoding=None, prefix=b"", decimals=None):
    mark = form.get("delimiter", ",")
    decimal = form.get("decimal", ".")
    pattern = (form.get("dates") or ("%Y-%m-%d",))[0]
    lines = [mark.join(["name", "amount", "day", "count"])]
    for name, amount, day, count in rows:
        number = _number(amount, decimal, form.get("thousands")) if decimals is None else decimals(amount)
        fields = [name, number, day.strftime(pattern), str(count)]
        lines.append(mark.join(f'"{each}"' if mark in each else each for each in fields))
    path.write_bytes(prefix + "\r\n".join([*lines, ""]).encode(encoding or form.get("encoding") or "utf-8"))
    return str(path)


def read(path, form):
    source = open_source(path, form=CsvFormat(**form))
    return pa.Table.from_batches([batch for unit in source.units for _, batch in read_batches(source, unit)])


@pytest.fixture
def call(capsys, monkeypatch):
    """Run a command in this process."""
    return small.commands(capsys, monkeypatch)


FORMS = [
    ({"delimiter": ";", "decimal": ",", "encoding": "windows-1252", "dates": ("%d.%m.%Y",)}, "", b""),
    (GERMAN, "", b""),
    ({"delimiter": "\t", "decimal": ",", "dates": ("%d.%m.%Y",)}, "utf-16", b""),  # Excel's "Unicode text"
    ({"delimiter": ";", "decimal": ",", "dates": ("%d/%m/%Y",)}, "", b"\xef\xbb\xbf"),
    ({"delimiter": ",", "thousands": ",", "dates": ("%m/%d/%Y",)}, "", b""),
    ({"delimiter": ";", "decimal": ",", "thousands": "\u202f", "dates": ("%d/%m/%Y",)}, "", b""),
    ({"delimiter": ";", "thousands": "'", "dates": ("%d.%m.%Y",)}, "", b""),
    ({"delimiter": ";", "encoding": "utf-16-le", "dates": ("%Y/%m/%d",)}, "", b""),
    ({}, "", b""),
    ({"delimiter": ";"}, "", b""),
]


@pytest.mark.parametrize(("form", "encoding", "prefix"), FORMS)
def test_format_is_found_and_values_are_those_written(tmp_path, form, encoding, prefix, monkeypatch):
    monkeypatch.setattr(_csv, "_BLOCK_BYTES", 2_000)  # several blocks, whose borders fall anywhere
    rows = values()
    path = write(tmp_path / "t.csv", form, rows, encoding, prefix)
    found = found_format(path)
    known = form if form != {"delimiter": ","} else {}
    assert found.form == CsvFormat(**known) and found.questions == {}
    table = read(path, form)
    assert table.schema.types == [pa.string(), pa.float64(), pa.date32(), pa.int64()]
    assert [tuple(row.values()) for row in table.to_pylist()] == rows


@pytest.mark.parametrize(("texts", "asked"), [("DE NA FR", True), ("DE  FR", False), ("yes NA no", False)])
def test_na_among_codes_of_countries_is_asked_about(tmp_path, texts, asked):
    path = tmp_path / "t.csv"
    path.write_text("country,n\n" + "".join(f"{text},1\n" for text in texts.split(" ")))
    questions = found_format(str(path)).questions
    assert ("'country'" in questions.get("missing", "")) == asked and questions.keys() <= {"missing"}
    with pytest.raises(ValueError, match=r'"\?" is a question .* missing: the texts that mean a missing value'):
        CsvFormat(missing="?")
    assert CsvFormat(missing=["?"]).nulls == ["?"]


def test_a_question_is_asked_where_the_file_does_not_tell(tmp_path):
    days = [(*row[:2], row[2].replace(day=row[2].day % 12 + 1), row[3]) for row in values()]
    form = {"delimiter": ";", "dates": ("%d.%m.%Y",)}
    path = write(
        tmp_path / "t.csv", form, days, decimals=lambda amount: f"{int(amount) % 900 + 1},{int(amount) % 1000:03d}"
    )
    assert set(found_format(path).questions) == {"decimal", "dates"}
    text = propose_job(path, str(tmp_path / "out"), 5)
    job = tmp_path / "job.yaml"
    job.write_text(text)
    assert text.count("# QUESTION: ") == 2
    with pytest.raises(JobError) as refused:
        load_job(job)
    assert "input: " in str(refused.value) and "decimal: " in str(refused.value) and "dates: " in str(refused.value)
    assert "input.str" not in str(refused.value) and "function" not in str(refused.value)
    told = {}
    for decimal, thousands in ((",", None), (".", ",")):
        answers = {"input.decimal": decimal, "input.dates": "%d.%m.%Y"}
        loaded = load_job(job, answers | ({"input.thousands": thousands} if thousands else {}))
        source = open_source(loaded.source.path, loaded.columns, loaded.source)
        assert source.schema.field("day").type == pa.date32()
        told[decimal] = next(read_batches(source, source.units[0]))[1].column("amount").to_pylist()
    assert told["."] == pytest.approx([value * 1_000 for value in told[","]])


@pytest.mark.parametrize(
    ("lines", "held", "first", "second", "fractions"),
    [
        ("{};{},{:03d};1", "comma", {"decimal": ","}, {"decimal": ".", "thousands": ","}, (["x"], [])),
        ("{};{}.{:03d};1", "point", {"decimal": "."}, {"decimal": ",", "thousands": "."}, (["x"], [])),
        (
            "{0};{1},{2:03d};{3}.{2:03d}",
            "point and every comma",
            {"decimal": ".", "thousands": ","},
            {"decimal": ",", "thousands": "."},
            (["y"], ["x"]),
        ),
    ],
)
def test_question_on_marks_names_those_in_file_and_fit_answers(tmp_path, lines, held, first, second, fractions):
    path, job = tmp_path / "t.csv", tmp_path / "job.yaml"
    rows = (lines.format(at % 50, at % 100 + 1, at % 100 * 379 % 1_000, at * 71 % 97 + 1) for at in range(300))
    path.write_text("\n".join(["age;x;y", *rows]))
    text = propose_job(str(path), str(tmp_path / "out"), 5)
    job.write_text(text)
    comment = " ".join(text.replace("\n  # ", " ").split())
    shown = [" and ".join(f'{key}: "{mark}"' for key, mark in each.items()) for each in (first, second)]
    assert f"Every {held} in a number stands before three digits" in comment
    assert f"For the first write {shown[0]}, for the second {shown[1]}." in comment
    assert not any(line.strip().startswith(("step:", "thousands:")) for line in text.splitlines())
    for answer, parts in zip((first, second), fractions, strict=True):
        loaded = load_job(job, {f"input.{key}": mark for key, mark in answer.items()})
        warned = " ".join(each for each in preview(loaded).warnings if "declared integer" in each)
        assert [name for name in ("age", "x", "y") if f"'{name}' (" in warned] == parts


def test_a_job_says_the_delimiter_that_an_export_takes_from_it(tmp_path):
    for name, mark, said in (("a.csv", ";", ";"), ("b.csv", "\t", "\t"), ("c.csv", ",", None), ("d.tsv", "\t", None)):
        path = tmp_path / name
        path.write_text("\n".join(f"{each}{mark}x" for each in ["n", *range(50)]))
        proposed = yaml.safe_load(propose_job(str(path), "out", 5))["input"]
        assert (proposed["delimiter"] if isinstance(proposed, dict) else None) == said


@pytest.mark.parametrize(
    ("words", "encoding", "found", "asked"),
    [
        (["Müller", "Größe"], "windows-1252", "windows-1252", False),  # alike in all that may be meant
        (["“Größe”", "25 €"], "windows-1252", "windows-1252", False),
        (["Łódź", "żółty"], "windows-1250", "windows-1250", False),
        (["Москва", "Киев"], "windows-1251", "windows-1251", True),  # letters of Western alphabets, too
        (["Lefèvre", "Côté"], "windows-1252", "windows-1252", True),
        (["Müller", "Größe"], "cp850", "cp850", False),
        (["Müller"], "utf-8", None, False),
        (["plain"], "ascii", None, False),
    ],
)
def test_encodings(tmp_path, words, encoding, found, asked):
    path = tmp_path / "t.csv"
    path.write_bytes(
        "\n".join(["name,n", *(f"{words[at % 2 % len(words)]},{at}" for at in range(40))]).encode(encoding)
    )
    seen = found_format(str(path))
    assert ("encoding" in seen.questions) == asked and (asked or seen.form.encoding == found)


def test_bytes_that_are_no_text_are_told_by_their_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"name;n\n" + "Größe;1\n".encode() * 50 + "Größe;2\n".encode("cp1252"))
    with pytest.raises(InputError, match=r"line 52 .*not UTF-8.*input\.encoding"):
        propose_job(str(path), "out", 5)
    path.write_bytes(b"name;n\n" + b"a;1\n" * 50 + b"a\0;1\n" * 2)
    with pytest.raises(InputError, match="line 52 holds NUL bytes"):
        propose_job(str(path), "out", 5)
    path.write_bytes("name;n\nGröße;1\n".encode("cp1252") * 9)
    with pytest.raises(InputError, match="line 2 holds bytes that are not ASCII"):
        read(str(path), {"encoding": "ascii"})


def test_value_of_another_form_is_counted_in_any_block(tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "_BLOCK_BYTES", 2_000)
    rows = values()
    columns = {"name": {"kind": "categorical"}, "amount": {"kind": "continuous"}, "day": {"kind": "date"}}
    job = parse_job({"input": "a", "output": "b", "k": 5, "columns": columns | {"count": {"kind": "integer"}}})
    path = write(tmp_path / "t.csv", GERMAN, rows)
    for column, bad in (("amount", "12.34"), ("day", "02.31.1950")):
        lines = (tmp_path / "t.csv").read_bytes().decode("cp1252").splitlines()
        fields = [line.split(";") for line in lines]
        place = fields[0].index(column)
        for at in (200, 250):
            fields[at][place] = bad
        (tmp_path / "bad.csv").write_bytes("\n".join(map(";".join, fields)).encode("cp1252"))
        with pytest.raises(InputError) as told:
            open_source(str(tmp_path / "bad.csv"), job.columns, CsvFormat(**GERMAN))
        assert f"column '{column}' is declared" in str(told.value) and "holds 2 rows" in str(told.value)
        assert bad not in str(told.value) and "input." in str(told.value)
    assert open_source(path, job.columns, CsvFormat(**GERMAN)).rows == len(rows)


def test_days_that_no_calendar_has_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("day;n\n30.02.2020;1\n" + "01.02.2020;1\n" * 9)
    columns = parse_job(
        {"input": "a", "output": "b", "k": 5, "columns": {"day": {"kind": "date"}, "n": {"kind": "integer"}}}
    )
    with pytest.raises(InputError, match="'day' is declared dates"):
        open_source(str(path), columns.columns, CsvFormat(dates=("%d.%m.%Y",)))


def test_texts_for_missing_values(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1;x\n-9;k.A.\n3;NA\n")
    table = read(str(path), {"delimiter": ";", "missing": ("-9", "k.A.")})
    assert table.to_pydict() == {"a": [1, None, 3], "b": ["x", None, "NA"]}
    path.write_text("a;b\n1,50;x\n-9,00;y\n")
    for text, second in (("-9", -9.0), ("-9,00", None)):  # the texts of fields, and not their values
        assert read(str(path), {"decimal": ",", "missing": (text,)}).to_pydict()["a"] == [1.5, second]
    assert 'as the file writes them: "-9,00" is not "-9"' in propose_job(str(path), "out", 5)


def test_times_after_dates_are_kept(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "at;n\n" + "".join(f"{day}.01.2020 {hour}:30;{day}\n" for day in range(1, 29) for hour in (0, 9, 23))
    )
    found = found_format(str(path))
    assert found.form.dates == ("%d.%m.%Y %H:%M",) and found.questions == {}
    at = read(str(path), found.form.given()).column("at")
    assert at.type == pa.timestamp("ms") and at[1].as_py() == datetime.datetime(2020, 1, 1, 9, 30)


def test_delimiters_are_told_by_whole_lines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('id;"a, b"\n' + "".join(f"{at};{at},5\n" for at in range(50)))
    assert found_format(str(path)).form == CsvFormat(delimiter=";", decimal=",")
    path.write_text("a,x;b\n" + "".join(f"{at},5;{at}\n" for at in range(50)))
    assert "delimiter" in found_format(str(path)).questions


def test_numbers_of_both_kinds_in_one_column_are_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id;w\n" + "".join(f"{at};{at}{'.,'[at % 2]}{at % 7}\n" for at in range(90)))
    assert "some of its numbers have decimal commas and others points" in propose_job(str(path), "out", 5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"decimal": "x"}, "input.decimal: "),
        ({"thousands": ".", "decimal": "."}, "same mark"),
        ({"encoding": "utf-99"}, "no encoding that Python knows"),
        ({"encoding": "base64"}, "no encoding that Python knows"),
        ({"delimiter": "ab"}, "one character"),
        ({"dates": "dd.mm.yyyy"}, "%d.%m.%Y"),
        ({"dates": ["%d.%m.%y"]}, "four digits"),
        ({"dates": ["%d.%m.%Y", "%m.%d.%Y"]}, "two orders"),
        ({"missing": [None]}, "in quotes"),
        ({"decimals": ","}, "unknown key"),
        ({"path": ""}, "not empty"),
    ],
)
def test_what_a_job_cannot_say(given, words):
    content = {"input": {"path": "a.csv"} | given, "output": "b", "k": 5, "columns": {"x": {"kind": "continuous"}}}
    with pytest.raises(JobError) as refused:
        parse_job(content)
    assert words in str(refused.value) and len(str(refused.value).splitlines()) == 2


def test_a_path_alone_is_a_plain_text(tmp_path):
    content = {"output": "b", "k": 5, "columns": {"x": {"kind": "continuous"}}}
    plain = parse_job(content | {"input": "a.csv"})
    assert plain.model_dump()["input"] == plain.source.path == "a.csv" and plain.source.given() == {}
    mapped = parse_job(content | {"input": {"path": "a.csv", "missing": ["NA", -9], "dates": "%d.%m.%Y"}})
    assert mapped.source.given() == {"missing": ("NA", "-9"), "dates": ("%d.%m.%Y",)}
    assert parse_job(mapped.model_dump(mode="json")) == mapped and mapped.digest() == plain.digest()
    with pytest.raises(JobError) as refused:
        parse_job(content | {"input": 5})
    assert "Input" not in str(refused.value)


def test_a_format_is_that_of_all_files_of_a_folder(tmp_path):
    rows = values()
    early = [(name, amount, day.replace(day=1), count) for name, amount, day, count in rows]
    plain = [("Meier", *row[1:]) for row in early]
    write(tmp_path / "a.csv", GERMAN, plain)
    write(tmp_path / "b.csv", GERMAN, rows)
    found = found_format(str(tmp_path))
    assert found.form == CsvFormat(**GERMAN) and found.questions == {}
    assert open_source(str(tmp_path), form=found.form).rows == 2 * len(rows)


def test_a_setting_makes_a_mapping_of_a_path(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("input: a.csv\noutput: b\nk: 5\ncolumns: {x: {kind: continuous}}\n")
    assert load_job(path, {"input.decimal": ","}).source.given() == {"decimal": ","}


def test_what_is_said_of_csvs_is_refused_for_others(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"no CSV, and input\.decimal"):
        open_source(str(tmp_path / "t.parquet"), form=CsvFormat(decimal=","))


def test_a_release_has_types_and_goes_back_to_the_format(tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = values(400)
    write(tmp_path / "in.csv", GERMAN, rows)
    proposed = propose_job("in.csv", "out", 5)
    job = yaml.safe_load(proposed)
    job["measure"] = {"risk": False, "utility": False}
    job["gates"] = {}
    job["columns"]["name"]["role"] = "masked"  # proposed as dropped: they may be names of persons
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    code, _, err = call("run", "job.yaml")
    assert code == 0, err
    code, _, err = call("export", "out", "out.csv", "--job", "job.yaml")
    assert code == 0, err
    assert found_format("out.csv").form == CsvFormat(**GERMAN)
    assert '"' not in Path("out.csv").read_text(encoding="windows-1252")
    again = read("out.csv", GERMAN)
    code, *_ = call("export", "out", "plain.csv")
    plain = read("plain.csv", {})
    assert code == 0 and again.equals(plain)
    assert plain.schema.types == [pa.string(), pa.float64(), pa.date32(), pa.int64()]
    code, _, err = call("export", "out", "other.csv", "--encoding", "ascii")
    assert code == 2 and "no letters for some texts" in err and not (tmp_path / "other.csv").exists()
    code, _, err = call("evaluate", "in.csv", "out.csv", "--quiet")
    assert "column in common" not in err and code in (0, 3), err


def test_values_are_spelled_as_in_the_input(tmp_path):
    lines = ["ill;weight;dose;n", "TRUE;1,25;1e-3;7", "FALSE;;0,5;", "TRUE;3;2;8"]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    form = CsvFormat(delimiter=";", decimal=",")
    spelled = csv_spellings(str(tmp_path / "in.csv"), form, ["ill", "weight", "dose", "n", "gone"])
    assert spelled["n"].decimals == 0 and csv_spellings("gone.csv", form, ["ill"]) == {}
    written = {
        "ill": ([True, None, False], ["TRUE", "", "FALSE"]),
        "weight": ([2.345678901234, 7.0, -0.5], ["2,35", "7", "-0,5"]),
        "dose": ([0.123456789012], ["0,123456789012"]),
    }
    for name, (values, texts) in written.items():
        assert csv_fields(form, pa.array(values), spelled[name]).to_pylist() == texts
    texts = pa.array(["a b", "c;d", 'e"f', "", "NA", " g", "h\ni", "001", None])
    assert csv_fields(form, texts).to_pylist() == [
        *("a b", '"c;d"', '"e""f"', '""', '"NA"', '" g"', '"h\ni"', "001", "")
    ]


def test_formats_of_which_nothing_is_known_raise_no_other_errors(tmp_path):
    draw = random.Random(5)
    for at in range(60):
        content = bytes(draw.choice(b'a1,;.\t\n\n"\xe4\xc3\xa4\0 -/') for _ in range(draw.randrange(1, 400)))
        path = tmp_path / f"{at}.csv"
        path.write_bytes(content)
        try:
            propose_job(str(path), "out", 5)
        except AnonpipeError:
            pass


def test_missing_value_texts_are_found_unless_categories(tmp_path):
    path = tmp_path / "t.csv"
    lines = [f"{at},5;{'k.A.' if at % 9 == 0 else f'{at % 28 + 1}.01.2020'};{'+-'[at % 2]}" for at in range(60)]
    lines[7], lines[8] = "k.A.;02.01.2020;+", "-;02.01.2020;+"
    path.write_text("n;day;rhesus\n" + "\n".join(lines) + "\n")
    found = found_format(str(path))
    assert found.form.missing is not None and "k.A." in found.form.missing and "-" not in found.form.missing
    path.write_text("n;day;rhesus\n" + "\n".join(lines[:8]) + "\n")
    form = found_format(str(path)).form
    table = read(str(path), form.given())
    assert table.schema.types[:2] == [pa.float64(), pa.date32()] and table.column("n").null_count == 1
    assert table.column("rhesus").null_count == 0


def test_a_question_of_dates_names_all_that_is_to_be_written(tmp_path):
    path = tmp_path / "t.csv"
    lines = [f"{at % 12 + 1:02}.01.2020;{at % 28 + 1}/02/2020;{at % 12 + 1}.03.2020 10:30" for at in range(90)]
    path.write_text("a;b;c\n" + "\n".join(lines) + "\n")
    found = found_format(str(path))
    assert found.form.dates == ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d/%m/%Y")
    assert 'dates: ["%d.%m.%Y", "%d.%m.%Y %H:%M", "%d/%m/%Y"] if the day' in found.questions["dates"]
    assert 'dates: ["%m.%d.%Y", "%m.%d.%Y %H:%M", "%d/%m/%Y"] if the month' in found.questions["dates"]
