"""Events of a run while it works, for displays of progress and for the library's log.

    logging.getLogger("anonpipe").setLevel(logging.INFO)

The log tells stages, pieces, rows and seconds: never a value, a name or a path of the data. Each line has its figures
as attributes of the record, too: `stage`, `pieces`, `rows`, `seconds`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from anonpipe.errors import plural
from anonpipe.verify.verdict import Verdict

LOG = logging.getLogger("anonpipe")


@dataclass(frozen=True)
class Progress:
    """Progress of a run: a stage, its finished and all pieces, and their rows."""

    stage: str
    done: int
    total: int
    rows: int


OnProgress = Callable[[Progress], None]

LOG.addHandler(logging.NullHandler())


def logged(on_progress: OnProgress, times: dict[str, float] | None = None) -> OnProgress:
    """A listener that also logs: when a stage begins (DEBUG), and when it is done (INFO); its seconds go to `times`."""
    begun: dict[str, float] = {}

    def listen(news: Progress) -> None:
        if news.stage not in begun:
            begun[news.stage] = time.perf_counter()
            LOG.debug("%s begins: %d of %d tasks are done", news.stage, news.done, news.total)
        if news.done == news.total:
            seconds = time.perf_counter() - begun.pop(news.stage)
            extra = {"stage": news.stage, "pieces": news.total, "rows": news.rows, "seconds": seconds}
            values = news.stage, plural(news.rows, "row"), plural(news.total, "task"), seconds
            LOG.info("%s: %s, %s, %.2f s", *values, extra=extra)
            if times is not None:
                step = news.stage.partition(":")[0]
                times[step] = times.get(step, 0.0) + seconds
        on_progress(news)

    return listen


def log_verdict(verdict: Verdict, rows: int) -> None:
    """Log how a run was judged."""
    failed = len(verdict.failed)
    LOG.info("verdict: %s, %d of %d checks failed, %s", verdict.word, failed, len(verdict.checks), plural(rows, "row"))
