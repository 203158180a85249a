"""Notes and refuses what a Python process sends beyond this machine; imported at its start where PYTHONPATH has it."""

import os
import socket
import sys

_HERE = ("", "localhost", "::1", "0.0.0.0", socket.gethostname())


def _note(event, given):
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = given[0]
    elif event in ("socket.connect", "socket.sendto"):
        host = given[1][0] if isinstance(given[1], tuple) else ""
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host or ""
    if host not in _HERE and not host.startswith("127."):
        with open(os.environ["OUTGOING"], "a", encoding="utf-8") as notes:
            notes.write(f"{os.path.basename(sys.argv[0])} {event} {host}\n")
        raise OSError("not to be reached from tests")


if "OUTGOING" in os.environ:
    sys.addaudithook(_note)
