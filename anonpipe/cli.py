"""The command line: init, plan, run, compare, report, verify, methods, demo, purge.

Heavy libraries are imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from anonpipe import errors, interrupts
from anonpipe.errors import AnonpipeError, InputError, printable

if TYPE_CHECKING:
    from anonpipe.job import Job
    from anonpipe.pipeline import Outcome
    from anonpipe.verify.verdict import Check, Verdict

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Anonymise large microdata: group, synthesise, verify, publish - or publish nothing.",
    epilog="Exit codes: 0 released or all well; 1 unforeseen error; 2 bad job or input; 3 a gate failed, nothing "
    "released; 4 output or staging cannot be written; 5 a stage failed on the workers (go on with --resume); "
    "6 the job is already running; 130 stopped by Ctrl-C.",
)


class _Shown(Console):
    """A console on which names of columns, paths and texts of jobs cannot steer the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


out = _Shown(highlight=False)
err = _Shown(stderr=True, highlight=False)

JobFile = Annotated[Path, typer.Argument(help="The job file (YAML); make one with: anonpipe init")]
Setting = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key of the job: --set cluster.method=kmeans --set k=20")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes of the own local cluster (default: one a core)")]


def main() -> None:
    """Run the command line; errors become one clear message and an exit code."""
    try:
        app()
    except AnonpipeError as error:
        _say("[bold red]error:[/]", str(error))
        sys.exit(error.exit_code)
    except Exception as error:
        from anonpipe.engine import account

        failure = account(error, "this command")
    if failure.kind != "EngineError":  # the file system's: a full disk, no permission
        _say("[bold red]error:[/]", failure.message)
        sys.exit(getattr(errors, failure.kind).exit_code)
    _say("[bold red]error:[/]", f"{failure.message}; please report this line: it holds no value of the data")
    sys.exit(AnonpipeError.exit_code)


def _say(label: str, text: str) -> None:
    """A labelled line on standard error, its text as it is."""
    err.print(f"{label} ", end="")
    err.print(text, markup=False, soft_wrap=True)


def _print(text: str) -> None:
    """A line on standard output as it is: neither wrapped nor read as markup."""
    out.print(text, markup=False, soft_wrap=True)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"anonpipe {version('anonpipe')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version and end")
    ] = False,
) -> None:
    """Options of the command line itself; its help is the application's."""


@app.command()
def init(
    source: Annotated[str, typer.Argument(help="The data: Parquet or CSV, a file, folder, glob or URL")],
    output: Annotated[str, typer.Option(help="Where releases will be published")] = "release-folder",
    k: Annotated[int, typer.Option(min=2, help="Smallest group size")] = 5,
    analyses: Annotated[
        Path | None,
        typer.Option(help="The recipients' analyses (YAML, or a job that lists them): the job is made to fit"),
    ] = None,
) -> None:
    """Propose a commented job for a table, on standard output; it holds column names but no value of the data."""
    from anonpipe.propose import propose_job

    wanted: tuple[Any, ...] = ()
    if analyses is not None:
        from anonpipe.recipient import read_analyses

        wanted = read_analyses(analyses)
    sys.stdout.write(propose_job(source, output, k, wanted))
    sys.stdout.flush()


@app.command()
def plan(job: JobFile, settings: Setting = None, workers: Workers = None) -> None:
    """Show what a run would do, without running it: columns, strata, methods, partitions, memory, gates."""
    from anonpipe.preview import preview

    show_plan(preview(_load(job, settings, {"run.workers": workers})))


@app.command()
def run(
    job: JobFile,
    settings: Setting = None,
    workers: Workers = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to use instead")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a crashed run of this job stopped")] = False,
    prune: Annotated[int, typer.Option(min=0, help="Afterwards keep only so many versions; 0 keeps all")] = 1,
) -> None:
    """Anonymise: publish a verified release, or nothing."""
    loaded = _load(job, settings, {"run.workers": workers, "run.scheduler": scheduler})
    with interrupts.stoppable():
        _finish(loaded, _execute(loaded, resume), prune)


@app.command()
def compare(
    job: JobFile,
    methods: Annotated[
        str | None,
        typer.Option(help="grouping+synthesizer[:form] or mask:method, by commas: mdav+centroid,mask:noise"),
    ] = None,
    k: Annotated[str, typer.Option(help="Group sizes to try, by commas")] = "3,5,10,20",
    draws: Annotated[int, typer.Option(min=1, help="Trials of each setting, with other random numbers")] = 1,
    utility: Annotated[str | None, typer.Option(help="Measure on the map's utility axis, by its name")] = None,
    risk: Annotated[str | None, typer.Option(help="Measure on the map's risk axis, by its name")] = None,
    folder: Annotated[Path, typer.Option("--out", help="Where to put table and map")] = Path("comparison"),
    settings: Setting = None,
    workers: Workers = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to use instead")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Measure again what was measured before")] = False,
) -> None:
    """Try methods and group sizes on the job's input: a table and a risk-utility map; nothing is released."""
    from anonpipe import compare as comparing

    loaded = _load(job, settings, {"run.workers": workers, "run.scheduler": scheduler})
    ks = [int(part) if part.strip().isdecimal() else 0 for part in k.split(",")]
    _tell_if_cold(loaded)
    asked = comparing.DEFAULT_METHODS if methods is None else [part.strip() for part in methods.split(",")]
    try:
        with interrupts.stoppable(), progress_display() as on_progress:
            study = comparing.compare(
                loaded, asked, ks, draws=draws, utility=utility, risk=risk, anew=anew, on_progress=on_progress
            )
    except KeyboardInterrupt:
        study = None
    if study is None:
        err.print("stopped; what was measured is kept: give the same command to go on", soft_wrap=True)
        raise typer.Exit(130)
    paths = comparing.write_study(study, folder)
    _show_study(study)
    _print("for the steward, not for recipients: " + ", ".join(map(str, paths)))


def _show_study(study: Any) -> None:
    """The table of a comparison, why settings failed, and the setting to take."""
    from anonpipe.compare import cells, legend, reasons

    table = Table(title="settings", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", overflow="fold")
    table.add_column("k", justify="right")
    table.add_column("gates", no_wrap=True)
    for axis in study.axes:
        table.add_column(escape(axis.name), overflow="fold")
    front = study.front
    for row in study.rows:
        style = "bold green" if row is study.choice else "bold" if any(row is one for one in front) else None
        table.add_row(*map(escape, cells(study, row)), style=style)
    out.print(table)
    for line in legend(study):
        _print(line)
    for axis in study.axes:
        _print(f"{axis.name}: {axis.label}")
    for reason in reasons(study):
        _print(reason)
    for note in study.notes:
        _print(f"note: {note}")
    if study.choice is None:
        _print("no setting passes all gates")
        return
    given = " ".join(f"--set {shlex.quote(text)}" for text in study.choice.setting.overrides)
    _print(f"least utility lost with all gates passed: {study.choice.setting.method}, k={study.choice.setting.k}")
    _print(f"to release it: anonpipe run JOB {given}")


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put data, job and release")] = Path("anonpipe-demo"),
    rows: Annotated[int, typer.Option(min=1_000, help="Rows of the made-up registry")] = 50_000,
    k: Annotated[int, typer.Option(min=2, help="Smallest group size")] = 5,
    workers: Workers = None,
) -> None:
    """Make a cancer-registry-like table and anonymise it: the whole main job on made-up data."""
    from anonpipe.demo import demo_job, write_registry

    folder.mkdir(parents=True, exist_ok=True)
    data, job_file = folder / "registry.parquet", folder / "job.yaml"
    write_registry(data, rows)
    job_file.write_text(demo_job(str(data), str(folder / "release-folder"), k))
    _print(f"made {data} ({rows:,} invented persons) and {job_file}")
    loaded = _load(job_file, None, {"run.workers": workers})
    with interrupts.stoppable():
        _finish(loaded, _execute(loaded, resume=False), None)
    from anonpipe.before_after import compare_tables, draw_comparison, show_comparison

    compared = compare_tables(loaded, str(data), loaded.output)
    out.print(show_comparison(compared))
    picture = folder / "before-after.png"
    draw_comparison(loaded, str(data), loaded.output, picture)
    _print(f"picture: {picture}")


@app.command()
def summary(
    job: JobFile,
    settings: Setting = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw the columns before and after, as PNG")] = None,
) -> None:
    """Show means, deviations and correlations of the input beside its release: for the steward, not for recipients."""
    from anonpipe.before_after import compare_tables, draw_comparison, show_comparison

    if picture is not None and (picture.suffix != ".png" or not picture.parent.is_dir()):
        raise InputError(
            f"--picture {picture} cannot be drawn; give a file name that ends in .png, in a folder that exists"
        )
    loaded = _load(job, settings, {})
    out.print(show_comparison(compare_tables(loaded, loaded.input, loaded.output)))
    if picture is not None:
        draw_comparison(loaded, loaded.input, loaded.output, picture)
        _print(f"picture: {picture}")


@app.command()
def report(
    source: Annotated[Path, typer.Argument(help="The report.json of a run: the steward's, or a release's")],
    page: Annotated[Path, typer.Option("--out", help="Where to put the page")] = Path("report.html"),
) -> None:
    """Draw the page of a report again from its JSON."""
    from anonpipe.files import write_atomic
    from anonpipe.report import read_report, render

    made = read_report(source)
    private = made.audience == "internal"
    write_atomic(page, render(made).encode(), private)
    _print(f"{page}: for {'the steward, not for recipients' if private else 'recipients'}")


@app.command()
def verify(release: Annotated[str, typer.Argument(help="Output folder of a run, or a version folder")]) -> None:
    """Check a published release against its manifest: checksums, rows and schema."""
    from anonpipe.release import check, read_manifest, resolve

    problems = check(release)
    manifest = read_manifest(resolve(release))
    if problems:
        found = "".join(f"\n  {problem}" for problem in problems)
        raise InputError(f"the release at {release} is damaged, it does not match its manifest:{found}")
    files = _counted(len(manifest["files"]), "file")
    _print(f"{files}, {_counted(manifest['rows'], 'row')}: checksums and schema are as published")


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="Tell all about this method: source, cost, options, sizes")] = None,
) -> None:
    """List the methods of grouping, synthesis and masking; with a name, all that is known of that method."""
    from anonpipe.cluster import METHODS as CLUSTERERS
    from anonpipe.codec.probabilities import PROBABILITIES
    from anonpipe.mask import MASKERS
    from anonpipe.options import Synthesize, names_of
    from anonpipe.synthesize import METHODS as SYNTHESIZERS

    chosen = names_of(Synthesize)
    registries: dict[str, Any] = {
        "cluster.method": CLUSTERERS,
        "synthesize.method": {name: SYNTHESIZERS[name] for name in SYNTHESIZERS if name in chosen},
        "decode.categories": {name: SYNTHESIZERS[name] for name in SYNTHESIZERS if name not in chosen}
        | {PROBABILITIES.name: PROBABILITIES},
        "mask.method": MASKERS,
    }
    if name is None:
        for title, registry in registries.items():
            out.print(_methods_table(title, registry))
        _print("all about one of them: anonpipe methods NAME")
        return
    found = [(title, registry[name]) for title, registry in registries.items() if name in registry]
    if not found:
        known = ", ".join(dict.fromkeys(name for registry in registries.values() for name in registry))
        raise InputError(f"there is no method {name!r}; known are: {known}")
    for title, record in found:
        out.print(_method_table(title, record))


def _methods_table(title: str, registry: Any) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", no_wrap=True)
    table.add_column("published as", overflow="fold")
    table.add_column("source", overflow="fold")
    for name, record in registry.items():
        table.add_row(name, escape(record.published), escape(record.reference.split(",")[0]))
    return table


def _method_table(title: str, record: Any) -> Table:
    table = Table(title=f"{title}: {record.name}", title_justify="left", box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    rows = [("published as", record.published), ("source", record.reference), ("cost", record.cost)]
    if title == "cluster.method":
        rows += [("sizes", record.sizes), ("needs", ", ".join(record.needs) or "nothing but the points")]
        parameters = inspect.signature(record.function).parameters
        rows += [
            ("option", f"{name}: {parameters[name].annotation}, default {parameters[name].default!r}")
            for name in record.options
        ] or [("options", "none of its own")]
    else:
        rows += [("promise", record.promise)]
        told = {} if record.name == "histogram" else record.options  # a job has this rule in one form
        rows += [("option", f"{name}: {text}") for name, text in told.items()] or [("options", "none")]
    for heading, text in rows:
        table.add_row(heading, escape(text))
    return table


@app.command()
def purge(
    staging: Annotated[str | None, typer.Option(help="The staging folder (default: as runs use it)")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted")] = False,
) -> None:
    """Delete what crashed runs left in staging (raw data) and outputs; live runs are not touched."""
    from anonpipe.release import clean_up
    from anonpipe.store import purge as purge_staging
    from anonpipe.store import staging_root

    outputs = [] if dry_run else _outputs(purge_staging(staging_root(staging), dry_run=True))
    gone = purge_staging(staging_root(staging), dry_run)
    for output in outputs:
        clean_up(output)
    for folder in gone:
        _print(f"{'would delete' if dry_run else 'deleted'} {folder}")
    _print(f"{_counted(len(gone), 'crashed run')} {'found' if dry_run else 'deleted'}")


def _outputs(stagings: list[Path]) -> list[str]:
    """Where crashed runs would have published, as far as their stagings still tell."""
    found = []
    for folder in stagings:
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            found.append(str(json.loads((folder / "job.json").read_bytes())["output"]))
    return found


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _load(path: Path, settings: list[str] | None, options: dict[str, Any]) -> Job:
    from anonpipe.job import load_job, parse_setting

    overrides = {key: value for key, value in options.items() if value is not None}
    return load_job(path, overrides | dict(parse_setting(setting) for setting in settings or []))


def _execute(job: Job, resume: bool) -> Outcome:
    _tell_if_cold(job)
    from anonpipe.pipeline import execute

    try:
        with progress_display() as on_progress:
            return execute(job, resume, on_progress=on_progress)
    except KeyboardInterrupt:
        pass
    err.print(
        "stopped; finished partitions are kept: go on with --resume, or delete them with anonpipe purge", soft_wrap=True
    )
    raise typer.Exit(130)


def _tell_if_cold(job: Job) -> None:
    """One line where a run is going to be silent for long; a given scheduler's workers compile elsewhere."""
    if job.run.scheduler is None and not _compiled():
        err.print(COLD if _lasting() else COLD_AGAIN, soft_wrap=True)


COLD = "compiling for this machine, one or two minutes; later runs start at once"
COLD_AGAIN = (
    "compiling for this machine, one or two minutes, in every run: no private folder for compiled code can be written; "
    "set NUMBA_CACHE_DIR to one"
)


def _compiled() -> bool:
    from anonpipe.kernels.compiled import any_kept

    return any_kept()


def _lasting() -> bool:
    from anonpipe.kernels.compiled import lasting

    return lasting() is not None


class progress_display:
    """A live display of stages, pieces, rows/s and time left; silent when not on a terminal."""

    def __enter__(self) -> Callable[[Any], None]:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bars = Progress(
            TextColumn("{task.description:<11}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]:>16}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=err,
            disable=not err.is_terminal,
        )
        self._known: dict[str, Any] = {}
        self._bars.start()
        return self._update

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def _update(self, news: Any) -> None:
        if news.stage not in self._known:
            self._known[news.stage] = self._bars.add_task(news.stage, total=news.total, speed="")
        task = self._known[news.stage]
        elapsed = next(t.elapsed for t in self._bars.tasks if t.id == task) or 0.0
        speed = f"{news.rows / elapsed:,.0f} rows/s" if elapsed > 0.05 and news.rows else ""
        self._bars.update(task, completed=news.done, speed=speed)


def _finish(job: Job, outcome: Outcome, prune: int | None) -> None:
    from anonpipe.errors import GateError
    from anonpipe.verify.remedies import remedies

    for warning in outcome.warnings:
        _say("[yellow]warning:[/]", warning)
    out.print(verdict_table(outcome.verdict))
    for reason, names in unchecked(outcome.verdict).items():
        out.print(f"[yellow]not checked:[/] {escape(f'{names}: {reason}')}")
    for note in outcome.verdict.notes:
        out.print(f"[dim]note:[/] {escape(note)}")
    if outcome.report is not None:
        _print(f"report for the steward, not for recipients: {outcome.report}")
    if outcome.version is None:
        for remedy in remedies(outcome.verdict):
            out.print("[cyan]remedy:[/] ", end="")
            _print(remedy)
        kept = job.report.internal or job.output
        raise GateError(f"a gate failed: nothing was released; the verdict is kept in {kept}/failed-verdict.json")
    out.print(f"[bold green]released[/] {outcome.rows:,} rows: ", end="")
    _print(outcome.version)
    if prune:
        _prune(job, prune)


def _prune(job: Job, keep: int) -> None:
    """Delete old versions; the release is out, so that what fails is a warning."""
    from anonpipe.release import prune

    problem = "Ctrl-C came" if interrupts.asked_to_stop() else None
    try:
        for gone in [] if problem else prune(job.output, keep, job.report.internal):
            _print(f"pruned version {gone}")
    except AnonpipeError as error:
        problem = str(error)
    if problem is not None:
        _say("[yellow]warning:[/]", f"old versions were not pruned: {problem}; the next run with --prune deletes them")


def verdict_table(verdict: Verdict) -> Table:
    """The checks of a verdict as a table."""
    colours = {"passed": "green", "failed": "bold red", "not checked": "yellow"}
    title = f"verdict: {'passed' if verdict.passed else 'failed'}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("check", overflow="fold")
    for heading in ("outcome", "measured", "limit"):
        table.add_column(heading, no_wrap=True)
    for check in verdict.checks:
        if _reason_only(check):
            continue
        outcome = f"[{colours[check.outcome]}]{check.outcome.value}[/]"
        number, _, unit = check.measured.partition(" ")
        limit = check.limit.removesuffix(f" {unit}") if unit else check.limit  # the unit is told once
        table.add_row(escape(check.name), outcome, f"{number} {_SHORT.get(unit, unit)}".strip(), limit)
    return table


_SHORT = {"standard errors": "s.e."}
"""Units as the verdict's table has them, which is to fit in 80 columns."""


def unchecked(verdict: Verdict) -> dict[str, str]:
    """Of each reason why something was not measured, what was not."""
    found: dict[str, str] = {}
    for check in verdict.checks:
        if _reason_only(check):
            found[check.limit] = ", ".join(filter(None, [found.get(check.limit), check.name]))
    return found


def _reason_only(check: Check) -> bool:
    """Whether a line holds no figure, but the reason why there is none."""
    return check.outcome.value == "not checked" and check.measured == "not measured" and not check.mandatory


def show_plan(content: Any) -> None:
    """Print a preview."""
    for line in content.lines():
        _print(line)
