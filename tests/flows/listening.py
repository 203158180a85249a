"""Small servers on this machine, and one that keeps what it is sent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar


@contextlib.contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The URL at which a handler answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


class Told(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    messages: ClassVar[list[str]] = []

    def do_POST(self):
        self.messages.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass
