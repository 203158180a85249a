"""The Prefect flow of `anonpipe compare`: settings tried side by side, nothing released.

No `from __future__ import annotations` here: with it, `flow.serve()` cannot
resolve the job model.

Table and map become artifacts, which Prefect stores for ever: they show the
two measures of the map and the reasons of settings that fail, and none of
either where a measure tells of the original what only the steward may know.

    python -m anonpipe_flows.compare job.yaml
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

from .anonymize import (
    _ONCE,
    _RETRIED,
    _usual_umask,
    _without_data,
    create_picture,
)  # it sets Prefect's environment first

# isort: split
from prefect import flow, task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from anonpipe.compare import DEFAULT_K, DEFAULT_METHODS, Study, cells, compare, why, write_study
from anonpipe.compare import draw_map as draw
from anonpipe.errors import AnonpipeError
from anonpipe.job.model import Job, load_job
from anonpipe.progress import Progress
from anonpipe.rng import secret_withheld

from .access import refuse_open_api, refuse_open_server
from .parameters import JobParameter

_METHODS, _K = list(DEFAULT_METHODS), list(DEFAULT_K)


@task(name="measure", task_run_name="measure", description="Try every setting that was not tried before.", **_RETRIED)
def measure(job: Job, methods: list[str], k: list[int], draws: int, utility: str | None, risk: str | None) -> Study:
    """Try every setting; a retry goes on from the settings that are finished."""
    bar: Any = create_progress_artifact(0.0, key="anonpipe-progress", description="settings")

    def show(news: Progress) -> None:
        with contextlib.suppress(Exception):  # a display that fails
            update_progress_artifact(bar, 100.0 * news.done / max(1, news.total))

    with _without_data("measure"):
        return compare(job, methods, k, draws=draws, utility=utility, risk=risk, on_progress=show)


@task(name="show", task_run_name="show", description="Table and map as files and artifacts.", **_ONCE)
def show(study: Study, folder: str) -> None:
    """Write table and map for the steward, and show them."""
    with _without_data("show"), _usual_umask():
        write_study(study, Path(folder))
    if any(axis.disclosive for axis in study.axes):
        create_markdown_artifact(_PRIVATE.format(folder=folder), key="anonpipe-comparison", description="settings")
        return
    create_table_artifact(
        [_line(study, row) for row in study.rows], key="anonpipe-comparison", description=choice_text(study)
    )
    create_picture(draw(study), "anonpipe-comparison-map", "risk against utility loss")


_PRIVATE = (
    "A measure of the map discloses more of the original than recipients may know: see the files in `{folder}`.\n"
)


def _line(study: Study, row: Any) -> dict[str, str]:
    method, k, gates, utility, risk = cells(study, row)
    place = "choice" if row is study.choice else "Pareto front" if any(row is one for one in study.front) else ""
    figures = {study.utility.name: utility, study.risk.name: risk}
    return {"method": method, "k": k, "gates": gates, **figures, "": place, "why": why(row)}


def choice_text(study: Study) -> str:
    """The setting to take, the options for it, and what to know, as Markdown."""
    choice = study.choice
    if choice is None:
        lines = ["No setting passes all gates."]
    else:
        given = " ".join(f"--set '{text}'" for text in choice.setting.overrides)
        lines = [f"{study.why.capitalize()}: {choice.setting.method}, k={choice.setting.k}: `{given}`"]
    return "\n\n".join([*lines, *study.notes])


@flow(name="compare", persist_result=False, log_prints=False, validate_parameters=True)
def compare_settings(
    job: JobParameter,
    folder: str,
    methods: list[str] = _METHODS,
    k: list[int] = _K,
    draws: int = 1,
    utility: str | None = None,
    risk: str | None = None,
) -> None:
    """Try methods and group sizes as `anonpipe compare` does; nothing is released.

    Args:
        job: The job, with the keys of a job file.
        folder: Where table and map are written, for the steward.
        methods: As grouping+synthesizer, grouping+synthesizer:form or mask:method.
        k: Group sizes to try.
        draws: Trials of each setting, with other random numbers.
        utility: Measure of the map by its name; the default one unless given.
        risk: Measure of the map by its name; the default one unless given.
    """
    with _without_data("compare"):
        refuse_open_api()
    show(measure(job, methods, k, draws, utility, risk), folder)


def main(arguments: list[str]) -> int:
    """Run the flow on a job file; table and map go into the folder `comparison` unless another is given."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m anonpipe_flows.compare job.yaml [folder]\n")
        return 2
    try:
        job = load_job(arguments[0])
        refuse_open_server()
        with secret_withheld():
            compare_settings(job, arguments[1] if len(arguments) == 2 else "comparison")
    except AnonpipeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
