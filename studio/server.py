"""Start the studio on loopback, and open the browser."""

from __future__ import annotations

import os
import socket
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import uvicorn

from anonpipe import display
from anonpipe.engine import no_core_dumps
from anonpipe.errors import InputError, JobError

from .pages import Studio, create_app


def serve(folder: Path, port: int = 0, browser: bool = True) -> None:
    """Answer to this machine alone until Ctrl-C; relative paths in jobs are those of the folder."""
    try:
        os.chdir(folder)
    except OSError:
        raise InputError(f"{folder} is no folder that can be entered; give the one that holds the data") from None
    no_core_dumps()  # memory holds rows
    studio = Studio(Path.cwd().resolve())
    try:
        with _listening(port) as listener:
            address = f"http://127.0.0.1:{listener.getsockname()[1]}{studio.guard.entry}"
            display.line(f"studio   {studio.root}: for this user of this machine alone; Ctrl-C ends it")
            display.line(f"address  {address}")
            # No log of requests: their addresses hold the token
            config = uvicorn.Config(
                create_app(studio), log_level="critical", access_log=False, server_header=False, proxy_headers=False,
                lifespan="off", timeout_graceful_shutdown=2,
            )  # fmt: skip
            with opened_by_file(address, browser):
                uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        studio.works.stop()


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except OSError:
            raise JobError(f"port {port} is taken or needs rights; give another --port, or none") from None
        yield listener


@contextmanager
def opened_by_file(address: str, browser: bool) -> Iterator[None]:
    """Open the browser by a file of nobody else: the arguments of programs, the address in them, are seen by all."""
    if not browser:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="anonpipe-studio-") as private:  # 0700
        page = Path(private) / "open.html"
        page.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={address}">')
        timer = Timer(0.5, webbrowser.open, [page.as_uri()])
        timer.daemon = True
        timer.start()
        yield
        timer.cancel()
