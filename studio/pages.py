"""The pages: they read and write the job file, which is all that is kept, and call what the commands call."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

import anonpipe
from anonpipe import report
from anonpipe.columns import Column, Kind, Role
from anonpipe.compare import DEFAULT_K
from anonpipe.engine import account
from anonpipe.errors import AnonpipeError, InputError, JobError, printable
from anonpipe.files import disk_errors, write_atomic
from anonpipe.job.analyses import read_analyses
from anonpipe.job.csv_format import QUESTION, CsvFormat
from anonpipe.job.model import Job, parse_job
from anonpipe.job.plain_yaml import LARGEST
from anonpipe.pipeline.start import is_resumable
from anonpipe.propose.propose import default_output, open_questions, propose_job
from anonpipe.storage import release, release_log, versions

from . import text as texts
from .guard import Form, Guard, Refused
from .pictures import Pictures, first_rows, pictures
from .work import TITLES, Works

HERE = Path(__file__).parent
PREVIEW_ROWS = 5
JOBS = (".yaml", ".yml")


@dataclass(frozen=True)
class Studio:
    """One start of the program: its folder, and what runs."""

    root: Path
    guard: Guard = field(default_factory=Guard)
    works: Works = field(default_factory=Works)
    trusted: set[tuple[Path, tuple[str, ...]]] = field(default_factory=set)

    def inside(self, given: str) -> Path:
        """A path below the folder, links followed."""
        path = Path(os.path.realpath(self.root / given.replace("\0", "")))
        if "://" in given or "\0" in given or not path.is_relative_to(self.root):
            raise InputError(
                f"{given} does not lie in {self.root}, the folder that the studio was opened for; open it for another "
                "one: anonpipe studio FOLDER"
            )
        return path

    def name(self, path: Path) -> str:
        """A path as pages show it."""
        return str(path.relative_to(self.root))

    def elsewhere(self, content: Mapping[str, Any]) -> tuple[str, ...]:
        """The places outside of the folder that a job reads, writes or sends rows to."""
        given = content.get("input")
        sections = {key: content.get(key) for key in ("report", "run")}
        inner = {key: section if isinstance(section, dict) else {} for key, section in sections.items()}
        places = {
            "input": given.get("path") if isinstance(given, dict) else given,
            "output": content.get("output"),
            "report.internal": inner["report"].get("internal"),
            "run.staging": inner["run"].get("staging"),
        }
        found = [f"{key}: {place}" for key, place in places.items() if place is not None and self._outside(str(place))]
        scheduler = inner["run"].get("scheduler")
        return (*found, *([f"run.scheduler: {scheduler}"] if scheduler is not None else []))

    def _outside(self, place: str) -> bool:
        try:
            self.inside(place)
        except InputError:
            return True
        return False


@dataclass(frozen=True)
class Opened:
    """A job file as it is on the disk."""

    path: Path
    name: str
    text: str
    content: dict[str, Any]  # Empty where the text is none of a job
    job: Job | None
    errors: tuple[tuple[str, str], ...]  # Where, and the words of the command line
    elsewhere: tuple[str, ...]
    trusted: bool

    @property
    def digest(self) -> str:
        """Of the text, by which a form knows that it has changed since."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def columns(self) -> dict[str, dict[str, Any]]:
        """The columns, where they can be shown as a table."""
        found = self.content.get("columns")
        if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
            return {}
        return found if all(isinstance(each, dict) and each for each in found.values()) else {}

    def of(self, where: str) -> list[str]:
        """The errors of a section or column."""
        return [message for place, message in self.errors if place == where]


def create_app(studio: Studio) -> Starlette:
    """The program for a server."""
    pages = _Pages(studio)
    guard, base = studio.guard, studio.guard.base
    routes = [Route(f"{base}/enter", guard.door)]
    for name in ("folder", "new", "job", "text", "work", "progress", "report", "style", "script"):
        place = "" if name == "folder" else name
        routes.append(Route(f"{base}/{place}", guard.page(getattr(pages, name), pages.explain)))
    for name in ("propose", "save", "save_text", "trust", "rows", "start", "cancel", "withdraw"):
        routes.append(Route(f"{base}/{name}", guard.page(getattr(pages, name), pages.explain, True), methods=["POST"]))
    routes.append(Route("/{rest:path}", guard.page(pages.nothing, pages.explain), methods=["GET", "POST"]))
    return Starlette(routes=routes)


class _Pages:
    """Views: a method each, of a request and the fields of its form."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio

    # --- Files

    def folder(self, request: Request, _: Form) -> Response:
        """The files of a folder: tables, jobs and folders."""
        folder = self.studio.inside(request.query_params.get("in", "."))
        with disk_errors(f"listing {self.studio.name(folder)}"):
            found = sorted((each for each in folder.iterdir() if not each.name.startswith(".")), key=lambda e: e.name)
        shown = [each for each in found if self._is_inside(each)]
        jobs = [each for each in shown if each.suffix in JOBS and each.is_file()]
        tables = [each for each in shown if each.is_file() and each not in jobs]
        above = None if folder == self.studio.root else self.studio.name(folder.parent)
        lists = {"jobs": jobs, "tables": tables, "folders": [each for each in shown if each.is_dir()]}
        links = {key: [(each.name, self.studio.name(folder / each.name)) for each in lists[key]] for key in lists}
        return self._page("folder.html", here=self.studio.name(folder), above=above, links=links)

    def _is_inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.studio.root)

    def new(self, request: Request, _: Form) -> Response:
        """The questions before a proposal; a job file that was chosen is opened."""
        data = request.query_params.get("data", "")
        if Path(data).suffix in JOBS:
            return self._to("job", file=self.studio.name(self.studio.inside(data)))
        return self._new({"data": data})

    def _new(self, given: Form, error: str = "") -> Response:
        stem = default_output(given["data"]).removesuffix("-release")
        usual = {"k": "5", "file": str(Path(given["data"]).parent / f"{stem}-job.yaml"), "analyses": ""}
        usual["output"] = default_output(given["data"])
        return self._page("new.html", 422 if error else 200, given=usual | given, error=error)

    def propose(self, _: Request, form: Form) -> Response:
        """Write what `init` proposes next to the data."""
        try:
            data = self.studio.name(self.studio.inside(form["data"]))
            path = self.studio.inside(form["file"])
            if path.suffix not in JOBS:
                raise InputError(f"{form['file']} is no name of a job file; give one that ends in .yaml")
            if path.exists():
                raise InputError(f"{form['file']} exists already; open it, or give another name")
            if not form["k"].strip().isdecimal():
                raise JobError("k is no whole number; give at least 2")
            wanted = read_analyses(self.studio.inside(form["analyses"])) if form["analyses"].strip() else ()
            proposed = propose_job(data, form["output"].strip() or default_output(data), int(form["k"]), wanted)
            with disk_errors("writing the job"):
                write_atomic(path, proposed.encode())
        except AnonpipeError as error:
            return self._new(form, str(error))
        return self._to("job", file=self.studio.name(path))

    # --- A job

    def _opened(self, given: str) -> Opened:
        path = self.studio.inside(given)
        name, content, job, problem = self.studio.name(path), {}, None, ""
        try:  # a table is no text for a page, whatever its name
            fits = path.suffix in JOBS and path.is_file() and path.stat().st_size <= LARGEST
            text = path.read_text(encoding="utf-8") if fits else None
        except (OSError, UnicodeDecodeError):
            text = None
        if text is None:
            raise Refused(404, f"{given} cannot be read as a job; choose a .yaml file in UTF-8 that is there")
        try:
            content = texts.content_of(text, name)
            job = parse_job(content)
        except AnonpipeError as error:
            problem = str(error)
        places = self.studio.elsewhere(content)
        trusted = not places or (path, places) in self.studio.trusted
        return Opened(path, name, text, content, job, _by_place(problem, content), places, trusted)

    def _current(self, form: Form) -> Opened:
        opened = self._opened(form.get("file", ""))
        if opened.digest != form.get("digest"):
            raise Refused(
                409, "the job file has changed since the page was made, in another tab or by hand: nothing was done"
            )
        return opened

    def _known_places(self, opened: Opened) -> None:
        if not opened.trusted:
            raise Refused(403, "the job has places outside of the folder of the studio; confirm them first")

    def job(self, request: Request, _: Form) -> Response:
        """The job as tables and texts."""
        return self._job(self._opened(request.query_params.get("file", "")))

    def _job(self, opened: Opened, problem: str = "", given: Form | None = None) -> Response:
        if not opened.columns:
            return self._text(opened, error=problem)
        drawn, unread = None, ""
        if opened.trusted:
            try:
                drawn = pictures(opened.content)
            except Exception as error:  # the job can be mended all the same
                unread = account(error, "this page").message
        content = opened.content
        asked = open_questions(content) if isinstance(content.get("input"), dict) else []
        parts = texts.sections(opened.text)
        parts = {key: part for key, part in parts.items() if key not in ("columns", "k", "output")}
        parts |= {key: texts.Section(key, 0, 0, "") for key in ("rules", "measure") if key not in parts}
        if "input" in parts and not isinstance(content.get("input"), dict):
            del parts["input"]
        return self._page(
            "job.html", 422 if problem else 200, opened=opened, problem=problem, given=given or {},
            rows=list(_rows(opened, drawn)), drawn=drawn, unread=unread, asked=_answers(asked), parts=parts,
            question=texts.question, anchors=_anchors(opened, parts),
            work=self.studio.works.of(opened.path), fields=_fields(Column), flow=texts.flow,
        )  # fmt: skip

    def save(self, _: Request, form: Form) -> Response:
        """Write what was changed in the fields into the job's text."""
        opened = self._current(form)
        text = opened.text
        for key in texts.sections(text) | dict.fromkeys(("rules", "measure")):
            new, part = form.get(f"section.{key}"), texts.sections(text).get(key)
            if new is not None and new.strip("\n") != ("" if part is None else part.text.strip("\n")):
                text = texts.with_section(text, key, new)
        changes: dict[tuple[str, ...], dict[str, Any]] = {
            (): _read(form, "", _fields(Job, ("k", "output")), opened.content)
        }
        for at, (name, column) in enumerate(opened.columns.items()):
            changes["columns", name] = _read(form, f"c{at}.", _fields(Column), column)
        csv = {key: each for key, each in _fields(CsvFormat).items() if f"input.{key}" in form}
        if csv:
            changes["input",] = _read(form, "input.", csv, opened.content["input"])
        try:
            texts.content_of(text, opened.name)
            text = texts.changed(text, {path: new for path, new in changes.items() if new})
        except AnonpipeError as error:
            return self._job(opened, str(error), form)
        return self._write(opened, text)

    def _write(self, opened: Opened, text: str) -> Response:
        if text != opened.text:
            with disk_errors("writing the job"):
                mode = opened.path.stat().st_mode & 0o777
                write_atomic(opened.path, text.encode())
                opened.path.chmod(mode)
        return self._to("job", file=opened.name)

    def text(self, request: Request, _: Form) -> Response:
        """The whole job as text."""
        return self._text(self._opened(request.query_params.get("file", "")))

    def _text(self, opened: Opened, given: str | None = None, error: str = "") -> Response:
        shown = opened.text if given is None else given
        return self._page("text.html", 422 if error else 200, opened=opened, shown=shown, error=error)

    def save_text(self, _: Request, form: Form) -> Response:
        """Write the whole text, where it is one of a job; what its values are is looked at afterwards."""
        opened, text = self._current(form), form.get("text", "")
        try:
            texts.content_of(text, opened.name)
        except AnonpipeError as error:
            return self._text(opened, text, str(error))
        return self._write(opened, text.rstrip("\n") + "\n")

    def trust(self, _: Request, form: Form) -> Response:
        """Confirm the job's places outside of the folder, as long as they are these and the studio runs."""
        opened = self._current(form)
        self.studio.trusted.add((opened.path, opened.elsewhere))
        return self._to("job", file=opened.name)

    def rows(self, _: Request, form: Form) -> Response:
        """The first rows: original values, for a steward who asks."""
        opened = self._current(form)
        self._known_places(opened)
        names, values = first_rows(opened.content, PREVIEW_ROWS)
        return self._page("rows.html", opened=opened, names=names, values=values)

    # --- Plan, trial, run

    def work(self, request: Request, _: Form) -> Response:
        """What runs or ran for a job, and its releases."""
        return self._work("work.html", request)

    def progress(self, request: Request, _: Form) -> Response:
        """The same without the page around it."""
        return self._work("progress.html", request)

    def _work(self, page: str, request: Request) -> Response:
        opened = self._opened(request.query_params.get("file", ""))
        place = self._place(opened) if opened.trusted else None
        found: dict[str, Any] = {"reports": [], "versions": [], "withdrawn": [], "current": None, "unfinished": []}
        if place is not None:
            reports = (name for name in versions.list_names(place.steward) if name.endswith("-report.html"))
            found = {"reports": sorted(reports, reverse=True), "versions": versions.list_versions(place)}
            found |= {"current": versions.current_version(place), "withdrawn": versions.withdrawals(place)}
            found |= {"unfinished": release_log.unfinished(place)}
        job = opened.job
        resumable = job is not None and opened.trusted and is_resumable(job)
        work = self.studio.works.of(opened.path)
        last = "" if work is None else str(work.result.get("outcome", {}).get("report") or "").rpartition("/")[2]
        found["reports"].sort(key=lambda name: name != last)
        return self._page(page, opened=opened, work=work, resumable=resumable, usual=DEFAULT_K, **found)

    def _place(self, opened: Opened) -> versions.OutputPlace | None:
        return None if opened.job is None else release.place(opened.job.output, opened.job.report.internal)

    def start(self, _: Request, form: Form) -> Response:
        """Begin a plan, a trial, a run or a comparison."""
        opened = self._current(form)
        self._known_places(opened)
        if opened.job is None:
            raise Refused(422, "the job is not valid; answer what is open in it first")
        kind, options = form.get("kind", ""), list[str]()
        if kind not in TITLES:
            raise Refused(400, "there is no such work")
        if kind == "compare":
            options = [form.get("ks", ""), form.get("methods", ""), str(self._comparison(opened))]
        self.studio.works.start(kind, opened.path, self.studio.root, *options)
        return self._to("work", file=opened.name)

    def _comparison(self, opened: Opened) -> Path:
        """Where table and map of a comparison are put."""
        return opened.path.with_name(f"{opened.path.stem}-comparison")

    def cancel(self, _: Request, form: Form) -> Response:
        """Stop what runs."""
        opened = self._opened(form.get("file", ""))
        work = self.studio.works.of(opened.path)
        if work is not None and work.running:
            work.cancel()
        return self._to("work", file=opened.name)

    def report(self, request: Request, _: Form) -> Response:
        """An internal report as it was written, in a page that can run nothing."""
        opened = self._opened(request.query_params.get("file", ""))
        self._known_places(opened)
        place, name = self._place(opened), request.query_params.get("name", "")
        known = [] if place is None else versions.list_names(place.steward)
        if place is None or name not in known or not name.endswith("-report.html"):
            raise Refused(404, "there is no such report")
        with disk_errors("reading the report"):
            answer = HTMLResponse(place.steward.filesystem.cat_file(place.steward.path(name)))
        answer.headers["Content-Security-Policy"] = (
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox"
        )
        return answer

    def withdraw(self, _: Request, form: Form) -> Response:
        """Withdraw a version."""
        opened = self._opened(form.get("file", ""))
        self._known_places(opened)
        place, version = self._place(opened), form.get("version", "")
        if place is None or version not in versions.list_versions(place) or opened.job is None:
            raise Refused(404, "there is no such version")
        url = place.url(versions.VERSIONS, version)
        release_log.withdraw(url, form.get("because", ""), opened.job.report.internal)
        return self._to("work", file=opened.name)

    # --- Others

    def style(self, _request: Request, _: Form) -> Response:
        """The style of reports, and what pages have besides."""
        own, reports = HERE / "style.css", Path(report.__file__).with_name("style.css")
        return Response(reports.read_text() + own.read_text(), media_type="text/css")

    def script(self, _request: Request, _: Form) -> Response:
        """What renews the progress."""
        return Response((HERE / "studio.js").read_text(), media_type="text/javascript")

    def nothing(self, _request: Request, _: Form) -> Response:
        """An address that is none."""
        raise Refused(404, "there is no such page")

    def explain(self, status: int, text: str) -> Response:
        """An error as a page."""
        return self._page("error.html", status, text=text)

    def _page(self, template: str, status: int = 200, **content: Any) -> Response:
        guard = self.studio.guard
        content |= {"base": guard.base, "csrf": guard.derived("form"), "root": self.studio.root, "link": self._link}
        return HTMLResponse(_templates().get_template(template).render(content), status)

    def _link(self, page: str, **query: str) -> str:
        return f"{self.studio.guard.base}/{page}" + (f"?{urlencode(query)}" if query else "")

    def _to(self, page: str, **query: str) -> Response:
        return RedirectResponse(self._link(page, **query), 303)


def _by_place(problem: str, content: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The lines of an error by what they are of: a section, or a column."""
    first, *lines = problem.split("\n") if problem else [""]
    if first != "the job is not valid:":
        return (("job", problem),) if problem else ()
    columns = content.get("columns")
    names = sorted(columns if isinstance(columns, dict) else (), key=lambda name: -len(str(name)))
    found = []
    for line in map(str.strip, lines):
        mine = (f"columns.{printable(str(name))}" for name in names)
        column = next((each for each in mine if line.startswith((f"{each}.", f"{each}: "))), None)
        words = re.findall(r"\w+", line)[:2]  # of the whole job: what it begins with, as in "job: rule 'a = b': …"
        section = next((key for word in words for key in (word, f"{word}s") if key in Job.model_fields), "job")
        place = column or section
        found.append((place, line))
    return tuple(found)


@dataclass(frozen=True)
class Field:
    """An option as a field of a form."""

    key: str
    choices: tuple[str, ...]  # Of a menu; empty for a text
    a_list: bool
    help: str


@cache
def _fields(model: type[Any], keys: tuple[str, ...] = ()) -> dict[str, Field]:
    """The fields of a model by its JSON Schema, so that no list of kinds or roles is kept here."""
    schema = model.model_json_schema()
    found = {}
    for key, one in schema["properties"].items():
        if keys and key not in keys:
            continue
        options = [one, *one.get("anyOf", ())]
        options += [schema["$defs"][each["$ref"].rpartition("/")[2]] for each in options if "$ref" in each]
        choices = next((tuple(each["enum"]) for each in options if "enum" in each), ())
        a_list = any(each.get("type") == "array" for each in options)
        found[key] = Field(key, choices, a_list, one.get("description", ""))
    return found


def _read(form: Form, prefix: str, fields: Mapping[str, Field], old: Mapping[str, Any]) -> dict[str, Any]:
    """The values that differ from the old ones; None for what is no longer given."""
    found: dict[str, Any] = {}
    for key, one in fields.items():
        given = form.get(f"{prefix}{key}")
        if given is not None and given != _shown(old.get(key)):
            found[key] = (given or None) if one.choices or key == "output" else texts.read_value(given, one.a_list)
    return found


def _shown(value: Any) -> str:
    """A value as its field shows it: a list without brackets."""
    if value is None or isinstance(value, str):
        return value or ""
    shown = texts.flow(value)
    return shown[1:-1] if isinstance(value, list) else shown


def _rows(opened: Opened, drawn: Pictures | None) -> Iterator[Row]:
    """The columns with notes, pictures and errors."""
    fields = _fields(Column)
    try:
        notes = texts.notes(opened.text, ("columns",))
    except AnonpipeError:
        notes = [""] * len(opened.columns)
    for at, ((name, column), note) in enumerate(zip(opened.columns.items(), notes, strict=True)):
        picture, words = (
            (Markup(""), "") if drawn is None else drawn.by_column.get(name, (Markup(""), "not in the input"))
        )
        shown = [key for key in fields if key in ("kind", "role", *_usual(column)) or key in column]
        place = f"columns.{printable(name)}"
        wrong = {
            key: [each for each in opened.of(place) if each.startswith((f"{place}.{key}", f"{place}: {key} "))]
            for key in fields
        }
        wrong[""] = [each for each in opened.of(place) if not any(each in found for found in wrong.values())]
        yield Row(at, name, column, note, picture, words, wrong, shown)


def _anchors(opened: Opened, parts: Mapping[str, texts.Section]) -> dict[str, str]:
    """Where on the page of a job each error is shown again."""
    columns = {f"columns.{printable(name)}": f"row{at}" for at, name in enumerate(opened.columns)}
    return columns | {key: f"section.{key}" for key in parts} | {"k": "k", "output": "output", "input": "questions"}


@dataclass(frozen=True)
class Row:
    """A column as the table of a page has it."""

    at: int
    name: str
    column: Mapping[str, Any]
    note: str
    picture: Markup
    words: str
    wrong: dict[str, list[str]]  # By option; under an empty key those of the whole column
    shown: list[str]  # Options that are not folded away


def _usual(column: Mapping[str, Any]) -> tuple[str, ...]:
    """The options that a code book has of a column, by its kind."""
    kind, role = column.get("kind"), column.get("role", Role.MASKED)
    if kind not in list(Kind) or role not in list(Role) or not Role(role).synthesized:
        return ()
    return ("levels",) if Kind(kind).coded else ("bounds", "step")


def _answers(asked: list[str]) -> dict[str, Field]:
    """The fields of the input that are questions; the mark between thousands goes with the decimal mark."""
    keys = [key.removeprefix("input.") for key in asked]
    keys += ["thousands"] * ("decimal" in keys and "thousands" not in keys)
    return {key: each for key, each in _fields(CsvFormat).items() if key in keys}


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    # What a form sends back must be as it was, marks that nobody sees among them
    environment.filters |= {"raw": lambda text: Markup(escape(text)), "shown": _shown}
    environment.globals |= {"QUESTION": QUESTION, "version": anonpipe.__version__}
    return environment
