"""Who may see and do what: the steward's own browser alone, and only from pages of this program.

Every program of the machine can reach a port of loopback, and every page that is open in the browser can send requests
to it. So each request must name this machine (`Host`: a foreign name could be made to point here), come from this
origin, and hold a cookie. Cookies are not kept apart by port: a server of another user would be sent them, but for
their path, which is random and part of the address. A form must hold a second token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from anonpipe.errors import AnonpipeError

NAMES = ("127.0.0.1", "localhost", "[::1]")
COOKIE = "anonpipe_studio"
LARGEST_FORM = 10_000_000  # Bytes
MOST_FIELDS = 50_000

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'self'; object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
}


_DOOR = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>anonpipe studio</title>'
    '<link rel="icon" href="data:,">'
    '<meta http-equiv="refresh" content="0;url={base}/"><p><a href="{base}/">Open the studio</a></p>'
)


class Refused(Exception):
    """A request that is not answered: its status, and what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


Form = dict[str, str]
View = Callable[[Request, Form], Response]


@dataclass(frozen=True)
class Guard:
    """The secrets of one start of the program."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    base: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}")

    @property
    def entry(self) -> str:
        """The address that lets a browser in, without the machine."""
        return f"{self.base}/enter?token={self.token}"

    def derived(self, purpose: str) -> str:
        """A token for a purpose, from which the others do not follow."""
        return hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).hexdigest()

    def enter(self, request: Request) -> Response:
        """Set the cookie, and go on from a page of this origin, as a strict cookie is not sent after a redirection."""
        if not _same(request.query_params.get("token"), self.token):
            raise Refused(403, "the address is not complete; open the one that anonpipe studio printed")
        answer = HTMLResponse(_DOOR.format(base=self.base))
        answer.set_cookie(COOKIE, self.derived("cookie"), path=self.base, httponly=True, samesite="strict")
        return answer

    def page(self, view: View, explain: Callable[[int, str], Response], form: bool = False) -> Any:
        """An endpoint of starlette that answers by `view` where a request may be answered."""

        async def endpoint(request: Request) -> Response:
            try:
                _check_origin(request)
                if not _same(request.cookies.get(COOKIE), self.derived("cookie")):
                    raise Refused(403, "this browser was not let in; open the address that anonpipe studio printed")
            except Refused as refusal:
                return _closed(_bare(refusal))
            try:
                fields = await _form(request) if form else {}
                if form and not _same(fields.pop("csrf", None), self.derived("form")):
                    raise Refused(403, "the form is of an earlier start of the studio; open the page again")
                answer = await run_in_threadpool(view, request, fields)
            except Refused as refusal:
                answer = explain(refusal.status, str(refusal))
            except AnonpipeError as error:
                answer = explain(422, str(error))
            except Exception as error:
                from anonpipe.engine import account

                answer = explain(500, account(error, "this page").message)
            return _closed(answer)

        return endpoint

    async def door(self, request: Request) -> Response:
        """The endpoint of the address that lets a browser in."""
        try:
            _check_host(request)
            return _closed(self.enter(request))
        except Refused as refusal:
            return _closed(_bare(refusal))


def _bare(refusal: Refused) -> Response:
    """For a browser that was not let in: nothing of the addresses of pages."""
    return PlainTextResponse(f"{refusal}\n", refusal.status)


def _same(given: str | None, expected: str) -> bool:
    """In constant time."""
    return hmac.compare_digest((given or "").encode(), expected.encode())


def _closed(answer: Response) -> Response:
    for name, value in _HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer


def _check_host(request: Request) -> None:
    host = request.headers.get("host", "")
    name, colon, port = host.rpartition(":")
    if (name if colon and port.isdecimal() else host) not in NAMES:
        raise Refused(421, "the studio answers to 127.0.0.1 and localhost alone")


def _check_origin(request: Request) -> None:
    """A browser says where a request comes from; a page of another origin, another port among them, is refused."""
    _check_host(request)
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
    if (origin is not None and origin != f"http://{request.headers['host']}") or site not in ("same-origin", "none"):
        raise Refused(403, "the request comes from another page; open the address that anonpipe studio printed")


async def _form(request: Request) -> Form:
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise Refused(415, "a form is expected")
    body = b""
    async with asyncio.timeout(60):
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_FORM:
                raise Refused(413, f"the form holds more than {LARGEST_FORM:,} bytes; change the file itself")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "the form cannot be read") from None
    return {name: value.replace("\r\n", "\n") for name, value in fields}
