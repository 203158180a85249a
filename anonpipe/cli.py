"""The command line: from a first job (`init`) over `run` to what is done with a release.

Heavy libraries are imported inside the commands, so that `--help` answers at
once. What is printed, and how, is in `display`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anonpipe import display, errors, interrupts
from anonpipe.display import Form
from anonpipe.errors import AnonpipeError, GateError, InputError, JobError, plural

if TYPE_CHECKING:
    from anonpipe.job.csv_format import CsvFormat
    from anonpipe.job.model import Job
    from anonpipe.pipeline.outcome.publish import RunOutcome
    from anonpipe.report import Report
    from anonpipe.storage.release import Checked
    from anonpipe.storage.versions import OutputPlace
    from anonpipe.verify.verdict import Verdict

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Anonymise large microdata: group, synthesise, verify, publish - or publish nothing.",
    epilog="Exit codes: 0 released or all well; 1 unforeseen error; 2 bad job or input; 3 a gate failed, nothing "
    "released; 4 output or staging cannot be written; 5 a stage failed on the workers (go on with --resume); "
    "6 the job is already running; 130 stopped by Ctrl-C.",
)

# New objects, at least, before garbage is looked for: of those that libraries make when they load none goes again,
# and to look through them all time and again took a sixth of `anonpipe plan`
FEW_COLLECTIONS = 50_000

JobFile = Annotated[Path, typer.Argument(help="The job file (YAML); make one with: anonpipe init")]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a key of the job: --set cluster.method=kmeans --set 'columns.\"a.b\".step=5'"),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes of the own local cluster (default: one per core)")]
ReleaseFolder = Annotated[str, typer.Argument(help="Output folder of a run, or a version folder")]
StewardKey = Annotated[Path | None, typer.Option("--key", help="The steward's public key, which must have signed")]
Internal = Annotated[str | None, typer.Option(help="Where internal reports lie, if the job says so (report.internal)")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs")]
Details = Annotated[bool, typer.Option("--details", help="Print all columns, checks, reasons and notes")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Log stages, rows and seconds on standard error")]
_UNCHECKED = "signature not checked; give the steward's public key: --key steward.pub"
_MEND = "fetch it again from where it was published; its steward runs the same job again and has the same release"
COLD = "compiling for this machine, up to a minute; later runs start at once"
COLD_AGAIN = (
    "compiling for this machine, up to a minute, in every run: no private folder for compiled code can be "
    "written; set NUMBA_CACHE_DIR to one"
)


def main() -> None:
    """Run the command line; errors become one clear message and an exit code."""
    gc.set_threshold(FEW_COLLECTIONS)
    atexit.register(gc.freeze)  # at its end Python would look through all objects again and again, for most of a second
    try:
        try:
            app()
        finally:
            _written()
    except AnonpipeError as error:
        display.say("[bold red]error:[/]", str(error))
        sys.exit(error.exit_code)
    except Exception as error:
        from anonpipe.engine import account

        failure = account(error, "this command")
    if failure.kind != "EngineError":  # the file system's: a full disk, no permission
        display.say("[bold red]error:[/]", failure.message)
        sys.exit(getattr(errors, failure.kind).exit_code)
    display.say("[bold red]error:[/]", f"{failure.message}; please report this line: it holds no value of the data")
    sys.exit(AnonpipeError.exit_code)


def _written() -> None:
    """Write what is still kept back, so that a full disk is reported as such, however little was to be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python tries again at its end
        if not isinstance(error, BrokenPipeError):  # who reads has seen enough
            raise


def _form(as_json: bool, quiet: bool) -> Form:
    if as_json and quiet:
        raise JobError("--json and --quiet were both given; give one of them")
    return Form.JSON if as_json else Form.QUIET if quiet else Form.TABLES


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"anonpipe {version('anonpipe')}")
        raise typer.Exit


# Commands that load compiled code; the others read, print and delete
_COMPUTING = ("init", "plan", "compare", "run", "evaluate", "demo", "studio", "warm")


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version and end")
    ] = False,
) -> None:
    """Options of the command line itself; its help is the application's."""
    if context.invoked_subcommand in _COMPUTING:
        from anonpipe.environment import check_address_space

        check_address_space()


@app.command(epilog="Example: anonpipe init registry.parquet --k 5 > job.yaml")
def init(
    source: Annotated[str, typer.Argument(help="The data: a file, folder, glob or URL, or an SQL file")],
    output: Annotated[str | None, typer.Option(help="Where releases go (default: NAME-release, as the data)")] = None,
    k: Annotated[int, typer.Option(min=2, help="Smallest group size")] = 5,
    analyses: Annotated[Path | None, typer.Option(help="The recipients' analyses, to fit the job to")] = None,
    codebook: Annotated[Path | None, typer.Option(help="A datapackage.json, Table Schema or DDI-Codebook")] = None,
) -> None:
    """Propose a commented job for a table, on standard output.

    It holds column names and no value of the data, but the levels that a file declares of an ordered column, and what
    a code book says.
    """
    from anonpipe.job.analyses import read_analyses
    from anonpipe.job.plain_yaml import load_yaml
    from anonpipe.propose.propose import default_output, not_found, open_questions, propose_job

    wanted = () if analyses is None else read_analyses(analyses)
    text = propose_job(source, output or default_output(source), k, wanted, codebook)
    sys.stdout.write(text)
    sys.stdout.flush()
    for taken in [] if codebook is None else [line for line in text.splitlines() if line.startswith("# From the code")]:
        display.err.print(taken.removeprefix("# "), soft_wrap=True)
    job = load_yaml(text)
    columns, asked = job["columns"], open_questions(job)
    if asked:
        display.warn(f"the file does not tell {' and '.join(asked)}: answer the QUESTION there before plan or run")
    if dropped := [name for name, column in columns.items() if column["role"] == "dropped"]:
        display.warn(f"columns left out by role: dropped, for the reasons given there: {', '.join(dropped)}")
    if lacking := not_found(text, job):
        *others, last = lacking
        display.err.print(f"No {', '.join(others)}{' or ' if others else ''}{last} found. Is that so?", soft_wrap=True)


@app.command(epilog="Example: anonpipe plan job.yaml")
def plan(
    job: JobFile,
    settings: Setting = None,
    workers: Workers = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the warnings alone")] = False,
    details: Details = False,
) -> None:
    """Show what a run would do, without running it: columns, strata, methods, partitions, memory, gates.

    It ends with the run's exit code, as far as the input tells; tables of up to 20,000 rows are masked once for it.
    """
    from anonpipe.pipeline.preview import preview

    form, loaded = _form(as_json, quiet), _load(job, settings, workers)
    if form is Form.TABLES:
        _tell_if_cold(loaded)
    with display.progress_display(silent=form is not Form.TABLES) as on_progress:
        content = preview(loaded, on_progress)
    if form is Form.JSON:
        display.as_json(content.to_dict())
    else:
        for text in content.lines(details) if form is Form.TABLES else content.warning_lines():
            display.line(text)
    if content.exit_code:
        raise typer.Exit(content.exit_code)


@app.command(epilog="Example: anonpipe run job.yaml --trial")
def run(
    job: JobFile,
    settings: Setting = None,
    workers: Workers = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to use instead")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a crashed run of this job stopped")] = False,
    trial: Annotated[bool, typer.Option("--trial", help="Measure and report all, but publish and log nothing")] = False,
    prune: Annotated[int, typer.Option(min=0, help="Afterwards keep only so many versions; 0 keeps all")] = 1,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the path of the release alone, and warnings")] = False,
    details: Details = False,
    verbose: Verbose = False,
) -> None:
    """Anonymise: publish a verified release, or nothing."""
    form = _form(as_json, quiet)
    loaded = _load(job, settings, workers, scheduler)
    display.show_log(verbose)
    if trial and resume:
        raise JobError("--trial keeps nothing that --resume could go on with; leave one of them out")
    with interrupts.stoppable():
        _finish(loaded, _execute(loaded, resume, form, trial=trial), prune, form, details)


@app.command(epilog="Example: anonpipe compare job.yaml --k 5,10,20")
def compare(
    job: JobFile,
    methods: Annotated[str | None, typer.Option(help="By commas: mdav+centroid,mdav+pca:exact,mask:noise")] = None,
    k: Annotated[str, typer.Option(help="Group sizes to try, by commas")] = "3,5,10,20",
    draws: Annotated[int, typer.Option(min=1, help="Trials of each setting, with other random numbers")] = 1,
    utility: Annotated[str | None, typer.Option(help="Measure on the map's utility axis, by its name")] = None,
    risk: Annotated[str | None, typer.Option(help="Measure on the map's risk axis, by its name")] = None,
    folder: Annotated[Path, typer.Option("--out", help="Where to put table and map")] = Path("comparison"),
    settings: Setting = None,
    workers: Workers = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to use instead")] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Measure again what was measured before")] = False,
    verbose: Verbose = False,
) -> None:
    """Try methods and group sizes on the job's input: a table and a risk-utility map; nothing is released."""
    from anonpipe import compare as comparing

    loaded = _load(job, settings, workers, scheduler)
    ks = [int(part) if part.strip().isdecimal() else 0 for part in k.split(",")]
    _tell_if_cold(loaded)
    display.show_log(verbose)
    asked = comparing.DEFAULT_METHODS if methods is None else [part.strip() for part in methods.split(",")]
    try:
        pieces = "settings" if draws == 1 else "trials"
        with interrupts.stoppable(), display.progress_display(pieces=pieces) as on_progress:
            study = comparing.compare(
                loaded, asked, ks, draws=draws, utility=utility, risk=risk, refresh=refresh, on_progress=on_progress
            )
    except KeyboardInterrupt:
        display.err.print("stopped; what was measured is kept: give the same command to go on", soft_wrap=True)
        raise typer.Exit(130) from None
    paths = comparing.write_study(study, folder)
    display.show_study(study, str(job), settings or [])
    display.line("internal, for the data steward only: " + ", ".join(map(str, paths)))


@app.command(epilog="Example: anonpipe demo trial-folder --rows 5000")
def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put data, job and release")] = Path("anonpipe-demo"),
    rows: Annotated[int, typer.Option(min=1_000, help="Rows of the simulated registry")] = 50_000,
    k: Annotated[int, typer.Option(min=2, help="Smallest group size")] = 5,
    workers: Workers = None,
    details: Details = False,
    verbose: Verbose = False,
) -> None:
    """Anonymise a simulated cancer registry: the main job, from data to report."""
    from anonpipe.propose.demo import demo_job, write_registry

    folder.mkdir(parents=True, exist_ok=True)
    data, job_file = folder / "registry.parquet", folder / "job.yaml"
    write_registry(data, rows)
    job_file.write_text(demo_job(str(data), str(folder / "release-folder"), k, drawn=True))
    display.line(f"{data}: {rows:,} simulated cancer patients, 12 columns")
    loaded = _load(job_file, None, workers)
    display.show_log(verbose)
    with interrupts.stoppable():
        # The persons are simulated: a second demonstration is no second release of a register
        _finish(loaded, _execute(loaded, resume=False, repeats="ignore"), None, details=details)
    both = _compared(loaded.output, loaded.report.internal)
    if details:
        display.show_compared(both)
    _draw_picture(both, picture := folder / "before-after.png")
    display.line(f"picture  {picture}")
    display.line(f"next     anonpipe init YOUR.parquet --k {k} > job.yaml")


@app.command(epilog="Example: anonpipe summary job.yaml --picture compared.png")
def summary(
    source: Annotated[Path, typer.Argument(help="The job file of a release, its output folder, or a report.json")],
    settings: Setting = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw the columns before and after, as PNG")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the largest changes alone")] = False,
) -> None:
    """Show means, deviations and correlations of the input and its release: for the data steward only."""
    from anonpipe.source import table_kind

    form = _form(as_json, quiet)
    if picture is not None and (picture.suffix != ".png" or not picture.parent.is_dir()):
        raise InputError(
            f"--picture {picture} cannot be drawn; give a file name that ends in .png, in a folder that exists"
        )
    is_job = source.suffix != ".json" and not source.is_dir()
    if is_job and table_kind(source.name):
        raise InputError(
            f"{source} is no release: summary compares a release with its original. Give the job file, the output "
            f"folder, or report.json; or compare two tables: anonpipe evaluate {source} RELEASE"
        )
    if settings and not is_job:
        raise JobError(f"--set changes keys of a job, and {source} is none; give the job file, or leave --set out")
    job = _load(source, settings) if is_job else None
    output, internal = (str(source), None) if job is None else (job.output, job.report.internal)
    _tell_withdrawn(output, internal, form)
    made = _compared(source if source.suffix == ".json" else output, internal)
    if job is not None and (other := _of_other_job(made, job)):
        display.warn(f"the release at {output} was not made by this job as it stands: {other}")
    display.show_compared(made, form)
    if picture is not None:
        _draw_picture(made, picture)
        if form is Form.TABLES:
            display.line(f"picture: {picture}")


def _tell_withdrawn(output: str, internal: str | None, form: Form) -> None:
    """A line for each version of an output that was withdrawn."""
    from anonpipe.storage import release, release_log, versions

    where = release.place(output, internal)
    for line in release_log.unfinished(where):
        display.warn(line)
    for each in versions.withdrawals(where):
        text = f"withdrawn  {each['version']}, {each['time'][:10]}: {each['because']}"
        display.line(text) if form is Form.TABLES else display.warn(text)


def _of_other_job(made: Report, job: Job) -> str:
    """What is another in the job that made a release, as far as its report tells; empty where nothing is."""
    from anonpipe.files import absolute
    from anonpipe.job.measure import HELD_OUT

    if made.source is not None and absolute(made.source) != absolute(job.source.path):
        return f"it was made from {made.source}"
    if made.k != job.k:
        return f"its k is {made.k}"
    of_any_size = {job.digest(), *(job.of_rows(rows).digest() for rows in HELD_OUT)}  # its number of rows is not known
    if made.job is not None and made.job not in of_any_size:
        return "its columns, strata, methods or hold-out are others"
    return ""


def _compared(source: str | Path, internal: str | None = None) -> Report:
    """The report in a file, or of the release in an output folder, which must hold figures of both tables."""
    from anonpipe.report import read_report, report_of_release
    from anonpipe.storage.release import checked

    if isinstance(source, str):  # figures of files that are no longer those
        _refuse(source, checked(source))
    made = read_report(source) if isinstance(source, Path) else report_of_release(source, internal)
    if made.audience != "internal":
        raise InputError(f"{source} is the external report, which tells nothing of the original; give the internal one")
    if made.compared is None:
        raise InputError(
            f"the report of {source} is of an earlier version of anonpipe ({made.anonpipe}) and holds no figures of "
            "both tables; run the job again: the same records give the same release"
        )
    return made


@app.command(epilog="Example: anonpipe report registry-release/steward/failed-report.json --out failed.html")
def report(
    source: Annotated[Path, typer.Argument(help="The report.json of a run, internal or external")],
    page: Annotated[Path, typer.Option("--out", help="Where to put the page")] = Path("report.html"),
) -> None:
    """Draw the page of a report again from its JSON."""
    from anonpipe.report import read_report

    _draw(read_report(source), page)


@app.command(epilog="Example: anonpipe board registry-release --out board")
def board(
    release: ReleaseFolder,
    internal: Internal = None,
    key: Annotated[Path | None, typer.Option("--key", help="The public key of its signature (default: yours)")] = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder for board.md and board.html")] = Path("."),
) -> None:
    """Write the file for a release board, with lines to fill in and sign: for steward and board only."""
    from anonpipe.files import write_atomic
    from anonpipe.report.board import board_file
    from anonpipe.storage.release import read_public_key

    files = board_file(release, internal, None if key is None else read_public_key(key))
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content, private=True)
        display.line(f"{folder / name}: internal, for the data steward and the board only")


def _draw_picture(made: Report, picture: Path) -> None:
    """Write the picture of both tables."""
    from anonpipe.files import write_atomic
    from anonpipe.report.before_after import draw

    write_atomic(picture, draw(made))


def _draw(made: Report, page: Path, silent: bool = False) -> None:
    """Write the page of a report, for nobody else's eyes where it is internal."""
    from anonpipe.files import write_atomic
    from anonpipe.report import render

    private = made.audience == "internal"
    write_atomic(page, render(made).encode(), private)
    whose = "internal report, for the data steward only" if private else "external report, for recipients"
    if not silent:
        display.line(f"{page}: {whose}")


def _refuse(release: str, found: Checked) -> dict[str, Any]:
    """The manifest; an error for a release that is not what was published, or not the one that was asked for."""
    problems_by_text = {
        "is damaged, it does not match its manifest": found.damage,
        "is not shown to be signed by the owner of the key": found.origin,
        "is not the version that it should be": found.order,
    }
    if found.problems:
        what = ", and ".join(text for text, problems in problems_by_text.items() if problems)
        condition = "" if found.damage else "; its files are those of its manifest"
        if found.manifest is None:
            condition = "; nothing else of it was read"
        lines = "".join(f"\n  {problem}" for problem in found.problems)
        mend = f"\n{_MEND}" if found.damage else ""
        raise InputError(f"the release at {release} {what}{condition}:{lines}{mend}")
    return found.manifest or {}


def _intact(release: str, key: Path | None) -> tuple[OutputPlace, dict[str, Any]]:
    """Place and manifest of a release that is what was published, and signed by the key if one is given."""
    found = _checked(release, key)
    return found.where, _refuse(release, found)


def _checked(url: str, key: Path | None, seen: str | None = None) -> Checked:
    """A release held against its manifest; of one that is not there any more when it was withdrawn."""
    from anonpipe.storage import release, release_log

    try:
        return release.checked(url, None if key is None else release.read_public_key(key), seen)
    except InputError:
        release_log.refuse_withdrawn(url)
        raise


@app.command(epilog="Example: anonpipe verify registry-release --key steward.pub")
def verify(
    release: ReleaseFolder,
    key: StewardKey = None,
    seen: Annotated[str | None, typer.Option("--seen", help="A version seen before: older ones are refused")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing where all is well")] = False,
) -> None:
    """Check a published release against its manifest: checksums, rows and schema; with a key, whose it is, too."""
    from anonpipe.storage.release_log import known_as_withdrawn
    from anonpipe.verify.words import rows_in_copies

    form = _form(as_json, quiet)
    found = _checked(release, key, seen)
    withdrawn = found.manifest is not None and known_as_withdrawn(found.manifest["version"])
    if withdrawn:
        display.warn(f"{release} is a copy of a version that was withdrawn; delete it, and tell who has others")
    if form is Form.JSON:
        read = found.manifest or {"files": None}
        number = None if read["files"] is None else len(read["files"])
        facts: dict[str, Any] = {"rows": read.get("rows"), "files": number, "created": read.get("created")}
        facts["signature"] = "not checked" if key is None else "refused" if found.origin else "of this key"
        intact = {"intact": not found.problems, "version": found.where.url(), "withdrawn": withdrawn}
        display.as_json(intact | facts | {"problems": found.problems})
    manifest = _refuse(release, found)
    if form is Form.TABLES:
        files = plural(len(manifest["files"]), "file")
        rows = rows_in_copies(manifest["rows"], manifest.get("copies", 1))
        display.line(f"{files}, {rows}: checksums and schema are those of the manifest")
        display.line(_UNCHECKED if key is None else f"signed by the owner of {key}")


@app.command(epilog="Example: anonpipe evaluate registry.parquet elsewhere.csv --job job.yaml --html both.html")
def evaluate(
    original: Annotated[str, typer.Argument(help="The original: a file, folder, glob or URL, or an SQL file")],
    release: Annotated[str, typer.Argument(help="A release of it, made by any tool, in the same forms")],
    job: Annotated[Path | None, typer.Option("--job", help="Describes the columns; gives limits and analyses")] = None,
    hold_out: Annotated[str | None, typer.Option(help="Records of the population outside of the release")] = None,
    paired: Annotated[bool, typer.Option("--paired", help="Row i of the release replaces original row i")] = False,
    k: Annotated[int | None, typer.Option(min=2, help="Smallest group that is looked at (default: the job's)")] = None,
    page: Annotated[Path | None, typer.Option("--html", help="Also draw all of it as a page, with pictures")] = None,
    settings: Setting = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the checks that failed alone")] = False,
) -> None:
    """Measure what any release keeps of its original and tells of it: for the data steward only."""
    from anonpipe.two_tables import evaluate_release

    form = _form(as_json, quiet)
    if settings and job is None:
        raise JobError("--set overrides keys of a job, and none is given; give --job")
    loaded = None if job is None else _load(job, settings)
    with display.err.status("measuring"):
        found = evaluate_release(original, release, loaded, hold_out=hold_out, paired=paired, k=k)
    display.show_evaluated(found, form)
    if page is not None:
        _draw(found.report, page, quiet or as_json)
    if not found.verdict.passed:
        raise GateError("the release does not keep a limit" + _failed(found.verdict))


@app.command(epilog="Example: anonpipe export registry-release people.xlsx")
def export(
    release: ReleaseFolder,
    target: Annotated[
        str,
        typer.Argument(
            help="The new file (.csv, .csv.gz, .xlsx, .dta, .sav), with --by the new folder, or a new table: "
            "postgresql://…#table, duckdb:///FILE#table, sqlite:///FILE#table, delta:///FOLDER, iceberg://…"
        ),
    ],
    by: Annotated[str | None, typer.Option(help="Unchanged columns, by commas: a folder for each value")] = None,
    key: StewardKey = None,
    quote_formulas: Annotated[bool, typer.Option("--quote-formulas", help="CSV: formulas after an apostrophe")] = False,
    job: Annotated[Path | None, typer.Option("--job", help="CSV: written as the input of this job is")] = None,
    delimiter: Annotated[str | None, typer.Option(help="CSV: the mark between fields, such as ; or tab")] = None,
    decimal: Annotated[str | None, typer.Option(help="CSV: the decimal mark")] = None,
    thousands: Annotated[str | None, typer.Option(help="CSV: the mark between thousands")] = None,
    encoding: Annotated[str | None, typer.Option(help="CSV: such as windows-1252")] = None,
    missing: Annotated[str | None, typer.Option(help="CSV: the text of missing values")] = None,
    dates: Annotated[str | None, typer.Option(help='CSV: how days are written, such as "%d.%m.%Y"')] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the path of what was written alone")] = False,
) -> None:
    """Write a release that matches its manifest as CSV, Excel, Stata, SPSS, folders of key=value, or a table."""
    from anonpipe import export as files
    from anonpipe.export_tables import export_table, is_table

    form = _form(as_json, quiet)
    written = {"delimiter": delimiter, "decimal": decimal, "thousands": thousands, "encoding": encoding, "dates": dates}
    options: dict[str, Any] = {name: value for name, value in written.items() if value is not None}
    options |= {} if missing is None else {"missing": [missing]}
    source = None if job is None else _load(job, None).source
    likeness = _csv_format(({} if source is None else source.given()) | options)
    suffix = Path(target).suffix.lower()
    if likeness.given() and (by is not None or is_table(target) or suffix in (*files.LABELLED, files.WORKBOOK)):
        raise JobError(
            f"--{next(iter(likeness.given()))} says how a CSV is written, and {target} is none; leave it out"
        )
    if by is not None and is_table(target):
        raise JobError(f"--by makes a folder, and {target} is a table; leave it out")
    given = _intact(release, key)
    if is_table(target):
        made = export_table(*given, target)
    elif by is not None:
        made = files.export_folders(*given, Path(target), [name.strip() for name in by.split(",") if name.strip()])
    elif suffix in files.LABELLED:
        made = files.export_labelled(*given, Path(target))
    elif suffix == files.WORKBOOK:
        made = files.export_workbook(*given, Path(target))
    else:
        made = files.export_csv(*given, Path(target), quote_formulas, likeness, source.path if source else None)
    for warning in made.warnings:
        display.warn(warning)
    if form is Form.JSON:
        display.as_json(vars(made))
    else:
        parts = plural(made.files, "table" if is_table(target) else "file")
        summary_text = f"{plural(made.rows, 'row')} in {parts}: {made.path}"
        display.line(made.path if form is Form.QUIET else summary_text)
    if form is Form.TABLES and key is None:
        display.line(_UNCHECKED)


@app.command("codebook", epilog="Example: anonpipe codebook registry-release --format ddi > release.xml")
def code_book(
    release: ReleaseFolder,
    form: Annotated[
        Literal["datapackage", "ddi", "dcat", "csv"], typer.Option("--format", help="JSON, XML, JSON-LD, or a table")
    ] = "datapackage",
    target: Annotated[Path | None, typer.Option("--out", help="Where to put it (default: standard output)")] = None,
    key: StewardKey = None,
) -> None:
    """Write the code book of a release that matches its manifest: columns, labels, units, limits, categories."""
    from anonpipe.export import check_target, export_codebook
    from anonpipe.files import write_atomic

    content = export_codebook(*_intact(release, key), form)
    if target is None:
        sys.stdout.buffer.write(content)
        return
    check_target(target)
    write_atomic(target, content, private=False)
    display.line(str(target))


def _csv_format(content: dict[str, Any]) -> CsvFormat:
    """How a CSV is to be written."""
    from pydantic import ValidationError

    from anonpipe.job.csv_format import CsvFormat

    try:
        return CsvFormat.model_validate(content)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        where = "".join(f"--{part}: " for part in problem["loc"][:1])
        raise JobError(where + problem["msg"].removeprefix("Value error, ")) from None


@app.command("key", epilog="Example: anonpipe key > steward.pub")
def public_key() -> None:
    """Print the public key by which recipients know this steward's releases."""
    from anonpipe.rng import steward_secret
    from anonpipe.storage.release import public_pem, signing_key

    sys.stdout.write(public_pem(signing_key(steward_secret()).public_key()).decode())


@app.command(epilog="Example: anonpipe methods mdav")
def methods(
    name: Annotated[str | None, typer.Argument(help="Tell all about this method: source, cost, options, sizes")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print names alone, each on a line")] = False,
) -> None:
    """List the methods of grouping, synthesis and masking; with a name, all that is known of that method."""
    form = _form(as_json, quiet)
    registries = _registries()
    every = [(key, known, record) for key, records in registries.items() for known, record in records.items()]
    found = [(key, record) for key, known, record in every if name in (None, known)]
    if not found:
        names = ", ".join(dict.fromkeys(known for _, known, _ in every))
        raise InputError(f"there is no method {name!r}; known are: {names}")
    if form is Form.JSON:
        display.as_json([display.method_content(key, record) for key, record in found])
    elif form is Form.QUIET:
        for each in dict.fromkeys(record.name for _, record in found):
            display.line(each)
    elif name is not None:
        for key, record in found:
            display.out.print(display.method_table(key, record))
    else:
        for key, records in registries.items():
            display.out.print(display.methods_table(key, records))
        display.line("all about one of them: anonpipe methods NAME")


def _registries() -> dict[str, dict[str, Any]]:
    """The methods by the key of the job that names them."""
    from anonpipe.encoding.probabilities import PROBABILITIES
    from anonpipe.methods.grouping import METHODS as CLUSTERERS
    from anonpipe.methods.masking import MASKERS
    from anonpipe.methods.record import in_jobs
    from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS

    chosen = in_jobs(SYNTHESIZERS)
    decoders = {name: record for name, record in SYNTHESIZERS.items() if name not in chosen}
    return {
        "cluster.method": dict(CLUSTERERS),
        "synthesize.method": {name: record for name, record in SYNTHESIZERS.items() if name in chosen},
        "decode.categories": {**decoders, PROBABILITIES.name: PROBABILITIES},
        "mask.method": dict(MASKERS),
    }


@app.command(epilog="Example: anonpipe schema > job.schema.json")
def schema() -> None:
    """Print the JSON Schema of a job, by which editors complete and check job files."""
    from anonpipe.job.model import Job

    display.as_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **Job.model_json_schema()})


@app.command(epilog="Example: anonpipe withdraw registry-release --because 'a name was left in'")
def withdraw(
    version: Annotated[str, typer.Argument(help="The folder of a version, or an output folder for its current one")],
    because: Annotated[str, typer.Option(help="Why; the release log keeps it")],
    internal: Internal = None,
) -> None:
    """Withdraw a release: delete its files, and let the release logs say so."""
    from anonpipe.storage.release_log import withdraw as take_back

    name, current, remaining = take_back(version, because, internal)
    found = f"{current} is current" if current else "readers find no release until the next run"
    display.line(f"withdrawn  {name}: its files are deleted; {found}")
    note = "Later releases are no longer compared with it: they can share its records, and who has both learns more"
    if remaining:
        note = f"Later releases are compared with it until its equals are withdrawn, too: {', '.join(remaining)}"
    display.line(f"Recipients who have the files still have them. {note}.")


@app.command(epilog="Example: anonpipe studio FOLDER --no-browser")
def studio(
    folder: Annotated[Path, typer.Argument(help="The folder of the data; nothing outside is opened")] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: a free one")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the browser, too")] = True,
) -> None:
    """Open a web page for stewards, on this machine alone: from a file over its job to a release."""
    try:
        from anonpipe_studio.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("anonpipe_studio", "starlette", "uvicorn"):
            raise
        raise JobError(f"the studio needs {error.name}; install it: pip install 'anonpipe[studio]'") from None
    serve(folder, port, browser)


@app.command(epilog="Example: anonpipe warm --quiet")
def warm(
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the folder of the compiled code alone")] = False,
) -> None:
    """Compile all methods ahead, as for the image of a container; some minutes, and nothing that is done already."""
    from anonpipe.warm import warm as compile_all

    with display.err.status("compiling") as status, interrupts.stoppable():
        place = compile_all(lambda name: status.update(f"compiling: {name}"))
    display.line(str(place) if quiet else f"all methods are compiled for this machine; kept in {place}")


@app.command(epilog="Example: anonpipe purge --dry-run")
def purge(
    staging: Annotated[str | None, typer.Option(help="The staging folder (default: as runs use it)")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted")] = False,
) -> None:
    """Delete what crashed runs left in staging (raw data) and outputs; live runs are not touched."""
    from anonpipe.storage.release import clean_up
    from anonpipe.storage.staging import Staging, staging_root
    from anonpipe.storage.staging import purge as purge_staging

    root, outputs = staging_root(staging), []
    for folder in [] if dry_run else purge_staging(root, dry_run=True):
        with contextlib.suppress(AnonpipeError, OSError, ValueError, LookupError, TypeError):  # where releases would be
            job = Staging(folder).read_json("job.json")
            outputs.append((job["output"], job["report"]["internal"]))
    gone = purge_staging(root, dry_run)
    for output, internal in outputs:
        clean_up(output, internal)
    for folder in gone:
        display.line(f"{'would delete' if dry_run else 'deleted'} {folder}")
    display.line(f"{plural(len(gone), 'crashed run')} {'found' if dry_run else 'deleted'}")


def _load(path: Path, settings: list[str] | None, workers: int | None = None, scheduler: str | None = None) -> Job:
    from anonpipe.job.model import load_job
    from anonpipe.job.plain_yaml import parse_setting

    options = {"run.workers": workers, "run.scheduler": scheduler}
    overrides = {key: value for key, value in options.items() if value is not None}
    return load_job(path, overrides | dict(parse_setting(setting) for setting in settings or []))


def _execute(
    job: Job,
    resume: bool,
    form: Form = Form.TABLES,
    repeats: Literal["refuse", "ignore"] = "refuse",
    trial: bool = False,
) -> RunOutcome:
    if form is Form.TABLES:
        _tell_if_cold(job)
    from anonpipe.pipeline.run import execute, try_out
    from anonpipe.pipeline.start import is_resumable

    if resume and not is_resumable(job):
        display.warn("--resume: no crashed run of this job was found; the run begins from the start")
    try:
        with display.progress_display(silent=form is Form.QUIET) as on_progress:
            if trial:
                return try_out(job, on_progress=on_progress)
            return execute(job, resume, on_progress=on_progress, repeats=repeats)
    except KeyboardInterrupt:
        kept = "finished partitions are kept: go on with --resume, or delete them with anonpipe purge"
        display.err.print(f"stopped; {'a trial leaves nothing' if trial else kept}", soft_wrap=True)
        raise typer.Exit(130) from None


def _tell_if_cold(job: Job) -> None:
    """One line where a run is going to be silent for long; a given scheduler's workers compile elsewhere."""
    if job.run.scheduler is not None:
        return
    from anonpipe.kernels.compiled import any_kept, lasting

    if not any_kept():
        display.err.print(COLD if lasting() is not None else COLD_AGAIN, soft_wrap=True)


def _finish(job: Job, outcome: RunOutcome, prune: int | None, form: Form = Form.TABLES, details: bool = False) -> None:
    pruned = _prune(job, prune) if outcome.version is not None and prune else []  # before who reads may close the pipe
    if form is Form.JSON:
        display.as_json(display.outcome_content(outcome, pruned))
    else:
        display.show_outcome(outcome, form, details)
    for gone in pruned if form is Form.TABLES else ():
        display.line(f"pruned version {gone}")
    if outcome.trial and not outcome.verdict.passed:
        shown = "" if form is Form.TABLES else _failed(outcome.verdict)
        raise GateError(f"trial: a gate failed; a run would release nothing{shown}")
    if outcome.version is None and not outcome.trial:
        from anonpipe.pipeline.outcome.publish import where_kept

        failed = "" if form is Form.TABLES else _failed(outcome.verdict)
        raise GateError(f"a gate failed: nothing was released; {where_kept(job)}{failed}")


def _failed(verdict: Verdict) -> str:
    """The gates that failed, a line each, where no table has shown them."""
    lines = (each for each in verdict.lines if each.outcome == "failed")
    return "".join(f"\n  {each.name}: {each.measured}, {each.limit}" for each in lines)


def _prune(job: Job, keep: int) -> list[str]:
    """Delete old versions; the release is out, so that what fails is a warning."""
    from anonpipe.storage.release import prune

    problem = "Ctrl-C came"
    if not interrupts.asked_to_stop():
        try:
            return prune(job.output, keep, job.report.internal)
        except AnonpipeError as error:
            problem = str(error)
    display.warn(f"old versions were not pruned: {problem}; the next run with --prune deletes them")
    return []
