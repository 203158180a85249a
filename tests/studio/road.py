"""A studio over a small made table, and a browser for it without a browser."""

from __future__ import annotations

import html
import re
import time
import warnings
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from anonpipe_studio.pages import Studio, create_app

from tests import small

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

TAG = "<script>alert(1)</script>"
HOST = "http://127.0.0.1:8123"
CANARY_PLACE = "canaryplace55190"


def table(rows: int = 400) -> pa.Table:
    """Persons with an income and a place that no page may show, both of the first row, and a column named as a tag."""
    rng = np.random.default_rng(3)
    income = np.round(rng.lognormal(10.0, 0.5, rows), 2)
    income[0] = small.CANARY_NUMBER
    place = rng.choice(["north", "south", small.CANARY], rows).astype(object)
    place[0] = CANARY_PLACE
    return pa.table(
        {
            "person_id": pa.array(np.arange(rows) + 700_000),
            "age": pa.array(rng.integers(18, 90, rows)),
            "income": pa.array(income),
            "place": pa.array(place),
            TAG: pa.array(rng.integers(0, 3, rows)),
        }
    )


class Browser:
    """Requests of one tab; what pages showed is kept."""

    def __init__(self, root: Path, enter: bool = True) -> None:
        self.studio = Studio(root.resolve())
        self.client = TestClient(create_app(self.studio), base_url=HOST, raise_server_exceptions=True)
        self.shown: list[str] = []
        if enter:
            self.client.get(self.studio.guard.entry)

    def get(self, page: str = "", **query: str):
        """A page by its name."""
        parts = "&".join(f"{key}={quote(value)}" for key, value in query.items())
        return self._seen(self.client.get(f"{self.studio.guard.base}/{page}?{parts}"))

    def post(self, page: str, before: str, **fields: str):
        """A form of the page `before`, with the hidden fields that it has there."""
        hidden = re.findall(r'<input type="hidden" name="(csrf|file|digest)" value="([^"]*)"', before)
        given = {name: html.unescape(value) for name, value in hidden} | fields
        return self._seen(self.client.post(f"{self.studio.guard.base}/{page}", data=given))

    def _seen(self, answer):
        if not answer.url.path.endswith(("/rows", "/report")):
            self.shown.append(answer.text)
        return answer

    def propose(self, data: str = "people.parquet", **fields: str):
        """The page of a new job."""
        new = self.get("new", data=data)
        given = {"data": data, "k": "5", "output": "out", "file": "job.yaml", "analyses": ""} | fields
        return self.post("propose", new.text, **given)

    def wait(self, file: str = "job.yaml", seconds: float = 120.0) -> str:
        """The page once nothing runs."""
        until = time.monotonic() + seconds
        while "data-running" in (page := self.get("work", file=file).text):
            assert time.monotonic() < until, "it does not end"
            time.sleep(0.2)
        return page
