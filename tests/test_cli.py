"""The command line as a new user meets it."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import shlex
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
import yaml
from rich.console import Console

from anonpipe import cli, display
from anonpipe.display import SCREEN
from anonpipe.job.model import load_job
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.preview import preview
from anonpipe.propose.demo import write_registry
from anonpipe.storage import staging as store
from anonpipe.storage.release import public_pem, signing_key
from tests import runs, small
from tests.small import CANARY

pytestmark = pytest.mark.secret(runs.SECRET)

HEAVY = ("sklearn", "prefect", "distributed", "dask", "pyarrow", "pandas", "numba", "scipy", "zarr", "matplotlib")


@pytest.fixture
def job_file(tmp_path):
    """A job on a plain table."""
    path = tmp_path / "job.yaml"
    data = small.write_table(tmp_path, small.plain_table(400))
    path.write_text(yaml.safe_dump(small.content(tmp_path, data)))
    return path


@pytest.mark.parametrize(("words", "offered"), [("anonpipe eval", "evaluate"), ("anonpipe run --res", "--resume")])
def test_a_shell_completes_commands_and_options(words, offered):
    script = "import sys; sys.argv = ['anonpipe']; from anonpipe.cli import main; main()"
    asked = {"_ANONPIPE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [offered], done.stderr


def test_help_is_light():
    """Its own imports take less than half a second of processor time, and nothing heavy is among them."""
    script = f"""
import sys, typer.testing
from anonpipe.cli import app
result = typer.testing.CliRunner().invoke(app, ["--help"])
assert result.exit_code == 0 and "verify" in result.output, result.output
heavy = [name for name in {HEAVY!r} if name in sys.modules]
assert not heavy, heavy
"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", script], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    bare = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    bare_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) - (
        bare_after.ru_utime + bare_after.ru_stime - bare.ru_utime - bare.ru_stime
    )
    assert own < 0.5


def test_every_command_explains_itself_by_an_example(call):
    listed, commands = call("--help").out, typer.main.get_command(cli.app).commands
    assert len(commands) > 15
    for name in commands:
        answer = call(name, "--help")
        assert answer.code == 0 and f"anonpipe {name} [OPTIONS]" in answer.out and name in listed
        example = " ".join(answer.out.partition("Example: ")[2].split())
        taken = shlex.split(example.partition(" > ")[0])[2:]
        assert example.startswith(f"anonpipe {name}")
        commands[name].make_context(name, taken)  # options and arguments are those of the command


def test_usage_errors(call):
    for arguments in (["nothing"], ["run"], ["run", "a", "--workers", "0"], ["run", "a", "--worker", "2"]):
        answer = call(*arguments)
        assert answer.code == 2 and answer.err


def test_from_init_to_verify(call, tmp_path):
    """The whole way of a new user, on a table of survival times."""
    write_registry(tmp_path / "registry.parquet", 700)
    answer = call("init", tmp_path / "registry.parquet", "--output", tmp_path / "out", "--k", "4")
    assert answer.code == 0 and answer.err == ""
    job = tmp_path / "job.yaml"
    job.write_text(answer.out)

    answer = call("run", job)  # as init left it
    assert answer.code == 2 and "columns.vital_status: event is empty" in answer.err and answer.out == ""
    job.write_text(job.read_text().replace("event: []", "event: [Dead]"))

    short = [text for text in call("plan", job).out.splitlines() if not text.startswith("warning: ")]
    assert len(short) <= SCREEN and any("default limits (--details)" in text for text in short)
    quick = [f"--set=mask.{name}={count}" for name, count in (("components", 3), ("classes", 2), ("iterations", 3))]
    answer = call("plan", job, "--workers", "3", "--details", *quick)  # without the search that was just made
    assert answer.code == 0 and answer.err == ""
    assert "Nothing that is known now refuses the run. Only the run measures" in answer.out
    for words in (
        "700 rows",
        str(tmp_path / "out"),
        "patient_id: integer, identifier",
        "vital_status: ",
        "survival_status",
        "strata     2",
        "groups of at least 4",
        "local_synthesis",
        "2 partitions",
        "on disk",
        "3 workers",
        "memory     about ",
        "  mean                    0.02",
        "step 1, by normal scores",
    ):
        assert words in answer.out, words
    assert re.search(r"vital_status = (Alive|Dead): \d+ rows", answer.out)
    assert not (tmp_path / "out").exists() and small.stagings() == []

    answer = call("run", job)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("RELEASED ") and f"{tmp_path}/out/versions/" in answer.out
    assert "\x1b" not in answer.out + answer.err and "scan" not in answer.err
    assert answer.err == "" and re.search(
        r"^details  (\d+ (more )?warnings?, )?\d+ notes, all checks: ", answer.out, re.M
    )
    assert "groups (smallest " in answer.out and "not evaluated" in answer.out

    answer = call("verify", tmp_path / "out")
    assert answer.code == 0 and "1 file, 700 rows" in answer.out
    first = os.readlink(tmp_path / "out" / "release")

    changed = ["--set=k=6", "--set=mask.tails=t", *quick]
    for form in ("--workers=1", "--quiet", "--json"):
        answer = call("plan", job, *changed, form)
        assert "the run will be refused: the same records were released at" in answer.out and answer.code == 2
    answer = call("run", job, *changed)
    assert answer.code == 2 and "under another job" in answer.err and "repeat: {allow:" in answer.err
    assert os.readlink(tmp_path / "out" / "release") == first and small.stagings() == []
    answer = call("run", job, *changed, "--details", "--set", "repeat.allow=the first was given to nobody")
    assert answer.code == 0 and "under another job" in answer.err
    assert "were allowed by the job: the first was" in " ".join(answer.out.split())
    assert os.readlink(tmp_path / "out" / "release") != first
    assert len(list((tmp_path / "out" / "versions").iterdir())) == 1
    manifest = json.loads((tmp_path / "out" / "release" / "_manifest.json").read_text())
    assert manifest["k"] == 6 and manifest["methods"]["mask"]["tails"] == "t"


def test_summary_is_readable_at_80_columns(call, tmp_path):
    write_registry(tmp_path / "registry.parquet", 500)
    from anonpipe.propose.demo import demo_job

    job = tmp_path / "job.yaml"
    job.write_text(demo_job(str(tmp_path / "registry.parquet"), str(tmp_path / "out"), 5))
    assert call("run", job, "--set", "measure.utility=false", "--set", "measure.risk=false").code == 0
    picture = tmp_path / "before [after].png"
    answer = call("summary", job, "--picture", picture)
    assert answer.code == 0 and f"picture: {picture}" in answer.out
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_mode & 0o777 == 0o600
    tables = answer.out.split("picture:")[0]
    assert max(map(len, tables.splitlines())) <= 80
    for word in (
        "tumour_size_mm",
        "diagnosis_date",
        "follow_up_months",
        "Skin melanoma",
        "Radiotherapy",
        "correlations",
    ):
        assert word in tables  # whole, not folded letter by letter
    line = next(line for line in tables.splitlines() if "diagnosis_date " in line and "~" not in line)
    assert len(re.findall(r"\b20\d\d-\d\d-\d\d\b", line)) == 2
    line = next(line for line in tables.splitlines() if "tumour_size_mm" in line and "~" not in line)
    assert len(line.split()) == 7  # mean, sd and nulls of both


def test_summary_hides_categories_under_k(call, tmp_path):
    table = small.plain_table(400)
    place = [CANARY] * 4 + ["north", "south"] * 198
    table = table.set_column(2, "place", pq.read_table(small.write_table(tmp_path, table)).column(2))
    import pyarrow as pa

    table = table.set_column(2, "place", pa.array(place))
    job = tmp_path / "job.yaml"
    content = small.content(tmp_path, small.write_table(tmp_path, table), gates={"category_share": 0.1})
    content["measure"] = {"risk": False}
    job.write_text(yaml.safe_dump(content))
    assert call("run", job).code == 0
    answer = call("summary", job, "--picture", tmp_path / "a.png")
    assert answer.code == 0 and CANARY not in answer.out and "north" in answer.out
    assert "pairs of columns" in answer.out and "survival" not in answer.out
    told = json.loads(call("summary", job, "--json").out)["split_half_ratio"]
    assert told.keys() == {"columns", "pairs of columns"} and all(value > 0 for value in told.values())
    output = content["output"]
    assert call("summary", output, "--json").out == call("summary", job, "--json").out
    assert "give the job file" in call("summary", output, "--set", "k=4").err
    assert "is a folder" in call("plan", output).err
    quiet = call("summary", job, "--quiet").out
    assert f"what chance allows: columns {told['columns']:.4g}, pairs of columns" in quiet


def test_summary_without_a_release(call, job_file):
    answer = call("summary", job_file)
    assert answer.code == 2 and "there is no release" in answer.err


def test_a_summary_of_a_table_names_what_to_give(call, tmp_path):
    (tmp_path / "survey.csv").write_text("age,name\n1,a\n")
    answer = call("summary", tmp_path / "survey.csv")
    assert answer.code == 2 and "is no release" in answer.err and "anonpipe evaluate" in answer.err


def test_methods_are_listed_and_told_apart(call):
    from anonpipe.methods.grouping import METHODS as clusterers
    from anonpipe.methods.masking import MASKERS
    from anonpipe.methods.synthesis import METHODS as synthesizers

    answer = call("methods")
    assert answer.code == 0 and max(map(len, answer.out.splitlines())) <= 80
    listed = [line.split()[0] for line in answer.out.splitlines() if line.startswith(" ") and len(line.split()) > 1]
    assert set(listed) >= {*clusterers, *synthesizers, *MASKERS}
    for name, record in {**clusterers, **synthesizers, **MASKERS}.items():
        answer = call("methods", name)
        words = " ".join(answer.out.split())
        assert answer.code == 0 and (f"method: {name}" in words or f"decode.categories: {name}" in words)
        doi = record.reference.split("doi:")[1].split(",")[0] if "doi:" in record.reference else ""
        assert doi.replace(" ", "") in words.replace(" ", "") and "cost" in words
    assert "amount: variance of the noise" in call("methods", "noise").out
    answer = call("methods", "nonesuch")
    assert answer.code == 2 and "mdav" in answer.err


# --- failures -------------------------------------------------------------------------------------------------------


def test_a_failed_gate(call, job_file, tmp_path):
    answer = call("run", job_file, "--set", "gates.covariance=1e-9", "--set", "synthesize.method=gaussian")
    assert answer.code == 3
    assert answer.out.startswith("NOT RELEASED") and "/versions/" not in answer.out
    assert "nothing was released" in answer.err and "failed-verdict.json" in answer.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["failed-verdict.json", "steward"]
    assert small.stagings() == []
    assert call("verify", tmp_path / "out").code == 2


def test_verify_lists_all_damage(call, job_file, tmp_path):
    assert call("run", job_file, "--set", "release.file_rows=1000").code == 0
    folder = (tmp_path / "out" / "release").resolve()
    content = bytearray((folder / "part-00000.parquet").read_bytes())
    content[50] ^= 1
    (folder / "part-00000.parquet").write_bytes(content)
    (folder / "stray [bold].txt").write_text("")
    answer = call("verify", tmp_path / "out")
    assert answer.code == 2 and answer.out == ""
    assert "damaged" in answer.err and "part-00000.parquet: SHA-256 differs" in answer.err
    assert "stray [bold].txt: not in the manifest" in answer.err
    (folder / "part-00000.parquet").unlink()
    assert "part-00000.parquet: missing" in call("verify", tmp_path / "out").err


def test_verify_does_not_call_a_whole_release_damaged(call, job_file, tmp_path):
    assert call("run", job_file).code == 0
    (tmp_path / "other.pub").write_bytes(public_pem(signing_key(b"o" * 16).public_key()))
    foreign = call("verify", tmp_path / "out", "--key", tmp_path / "other.pub")
    older = call("verify", tmp_path / "out", "--seen", "v000099-5d1c09aa")
    for answer, said, files in (
        (foreign, "is not shown to be signed by the owner of the key", "nothing else of it was read"),
        (older, "is not the version", "its files are those of its manifest"),
    ):
        text = " ".join(answer.err.split())
        assert answer.code == 2 and said in text and files in text
        assert "damaged" not in text and "fetch it again" not in text
    assert "is older than v000099-5d1c09aa" in " ".join(older.err.split())
    (tmp_path / "out" / "release" / "stray.txt").write_text("")
    both = " ".join(call("verify", tmp_path / "out", "--seen", "v000099-5d1c09aa").err.split())
    assert "is damaged, it does not match its manifest, and is not the version that it should be" in both
    assert "fetch it again" in both


@pytest.mark.parametrize(
    ("error", "code"),
    [("JobError", 2), ("InputError", 2), ("OutputError", 4), ("EngineError", 5), ("BusyError", 6), ("GateError", 3)],
)
def test_exit_codes(call, job_file, monkeypatch, error, code):
    import anonpipe.errors

    def fail(*_, **__):
        raise getattr(anonpipe.errors, error)("what [bold]happened[/]")

    monkeypatch.setattr(pipeline, "execute", fail)
    answer = call("run", job_file)
    assert answer.code == code and answer.err == "error: what [bold]happened[/]\n"


def test_interrupt(call, job_file, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("anonpipe.pipeline.run.MAPPED_STAGES", (pipeline.scan, interrupt))
    answer = call("run", job_file)
    assert answer.code == 130 and "--resume" in answer.err and "purge" in answer.err


def test_resume_and_purge(call, job_file, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "MAPPED_STAGES", (pipeline.scan, pipeline.route, interrupt))
        assert call("run", job_file).code == 130
    shown = call("purge", "--dry-run")
    assert "would delete" in shown.out and "1 crashed run found" in shown.out and len(small.stagings()) == 2
    resumed = call("run", job_file, "--resume")
    assert resumed.code == 0 and "begins from the start" not in resumed.err
    assert small.stagings() == [] and "the run begins from the start" in call("run", job_file, "--resume").err
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "MAPPED_STAGES", (pipeline.scan, interrupt))
        assert call("run", job_file).code == 130
    running = store.Staging(small.stagings()[0])
    with store.lock(running):
        assert "0 crashed runs" in call("purge").out and running.root.exists()
    answer = call("purge")
    assert answer.code == 0 and "1 crashed run deleted" in answer.out and small.stagings() == []
    assert "0 crashed runs" in call("purge").out


def test_names_that_look_like_markup_are_shown_as_they_are(call, tmp_path):
    table = small.plain_table(400).rename_columns(["[red]age[/red]", "income [EUR]", "place"])
    data = small.write_table(tmp_path, table)
    columns = dict(zip(table.column_names, small.COLUMNS.values(), strict=True))
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(small.content(tmp_path, data, columns)))
    assert "[red]age[/red]: integer" in call("plan", job, "--details").out
    answer = call("run", job, "--details")
    assert answer.code == 0 and "'income [EUR]'" in answer.err
    answer = call("summary", job)
    assert "[red]age[/red]" in answer.out and "income [EUR]" in answer.out


# --- in processes of their own --------------------------------------------------------------------------------------


def _command(*arguments):
    return [sys.executable, "-m", "anonpipe", *map(str, arguments)]


def test_a_first_run_says_that_it_compiles(monkeypatch, capsys, job_file):
    kept, lasting = [False], [True]
    monkeypatch.setattr("anonpipe.kernels.compiled.any_kept", lambda: kept[0])
    monkeypatch.setattr("anonpipe.kernels.compiled.lasting", lambda: "there" if lasting[0] else None)
    monkeypatch.setattr(display, "err", Console(stderr=True, highlight=False, width=80))
    job = load_job(job_file)
    remote = job.model_copy(update={"run": job.run.model_copy(update={"scheduler": "tls://there:8786"})})
    cli._tell_if_cold(remote)
    assert capsys.readouterr().err == ""
    cli._tell_if_cold(job)
    assert capsys.readouterr().err == f"{cli.COLD}\n"
    lasting[0] = False
    cli._tell_if_cold(job)
    assert capsys.readouterr().err == f"{cli.COLD_AGAIN}\n"
    kept[0] = True
    cli._tell_if_cold(job)
    assert capsys.readouterr().err == ""


MISSPELT = {"name": "far", "model": "linear", "formula": "income ~ age"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"subset": "place == 'North'"}, "no record meets the subset \"place == 'North'\""),
        ({"subset": "place == 'north'"}, None),
        ({"subset": "age > 60 and place in ['south']"}, None),
        ({"subset": "age > 60 and age < 50"}, "no record meets the subset"),
        ({"model": "cox", "formula": "income ~ age", "event": "place == 'North'"}, "no record meets the event"),
        (
            {"model": "cox", "event": "place == 'north'", "subset": "place == 'south'"},
            "no record of its subset has the event",
        ),
        ({"model": "cox", "event": "place == 'north'", "subset": "place == 'South'"}, "no record meets the subset"),
        ({"subset": "size >= 'big'"}, None),  # in alphabetical order there is none
        ({"subset": "size > 'big'"}, "no record meets the subset"),
        ({"subset": "age > 'north'"}, None),  # no condition: not for the plan to say
    ],
)
def test_the_plan_warns_of_conditions_that_no_row_meets(tmp_path, changes, told):
    table = small.plain_table(60)
    sizes = pa.array(["tiny", "small", "big"] * 20).dictionary_encode()
    columns = {**small.COLUMNS, "size": {"kind": "ordinal", "levels": ["tiny", "small", "big"]}}
    analyses = [MISSPELT | changes]
    warnings = preview(small.job(tmp_path, table.append_column("size", sizes), columns, analyses=analyses)).warnings
    found = [warning for warning in warnings if "analysis 'far'" in warning]
    assert len(found) == (told is not None)
    assert told is None or told in found[0]


@pytest.mark.parametrize("command", ["--version", "schema"])  # little, and much
def test_full_standard_output(command):
    with open("/dev/full", "w") as full:
        done = subprocess.run(_command(command), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4 and done.stderr.startswith("error: the disk is full") and "Trace" not in done.stderr


def test_a_reader_who_has_seen_enough_is_no_error():
    with subprocess.Popen(_command("schema"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as done:
        done.stdout.close()
        told = done.stderr.read()
    assert "Error" not in told and "error" not in told


def test_demo_through_a_cluster(tmp_path):
    done = subprocess.run(
        _command("demo", tmp_path / "demo", "--rows", "2000", "--workers", "1"),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr in ("", f"{cli.COLD}\n") and "rows (10 % held out)" in done.stdout and "\x1b" not in done.stdout
    assert (tmp_path / "demo" / "before-after.png").exists()
    assert small.stagings() == []


def test_progress_on_a_terminal(job_file):
    """On a pseudo-terminal the stages are shown with their pieces; they end at full."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        _command("run", job_file),
        stdout=slave,
        stderr=slave,
        stdin=slave,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "110"},
    )
    os.close(slave)
    shown = _read_all(master, process)
    os.close(master)
    assert process.returncode == 0, shown
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    for stage in ("scan", "route", "encode", "group", "count groups", "decode", "write", "verify", "publish"):
        assert re.search(rf"{stage} .*1/1", text), stage
    assert "rows/s" in text and "RELEASED" in text


def _read_all(master, process, seconds=120):
    """What a process writes to its terminal until it ends."""
    end, parts = time.monotonic() + seconds, []
    while time.monotonic() < end:
        ready, _, _ = select.select([master], [], [], 0.2)
        if ready:
            try:
                parts.append(os.read(master, 65_536))
            except OSError:
                break
        elif process.poll() is not None:
            break
    process.wait(60)
    return b"".join(parts).decode(errors="replace")


def test_a_picture_that_cannot_be_drawn_is_refused_before_work(call, tmp_path):
    for name in ("compared.txt", "nowhere/compared.png"):
        result = call("summary", "missing.yaml", "--picture", str(tmp_path / name))
        assert result.code == 2 and "ends in .png" in result.err
