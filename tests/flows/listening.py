"""A server that keeps what it is sent."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import ClassVar


class Told(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    messages: ClassVar[list[str]] = []

    def do_POST(self):
        self.messages.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass
