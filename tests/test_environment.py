"""Modules that are loaded beside what a run computes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from anonpipe.environment import loaded_beside


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules that can be loaded; they are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_modules_are_loaded_beside_the_block(made):
    loaded = threading.Event()
    (made / "slow_one.py").write_text("import threading\nby = threading.current_thread()\n")
    (made / "slow_two.py").write_text("import sys\nsys.loaded_two.set()\n")
    sys.loaded_two = loaded
    with loaded_beside("slow_one", "missing_module", "slow_two"):  # who needs the missing one says so
        assert loaded.wait(30)
    assert sys.modules["slow_one"].by is not threading.current_thread()
    del sys.loaded_two


def test_none_is_begun_after_the_block(made):
    begun, over = threading.Event(), threading.Event()
    (made / "slow_one.py").write_text("import sys\nsys.events[0].set()\nsys.events[1].wait(30)\n")
    (made / "slow_two.py").write_text("")
    sys.events = begun, over
    with pytest.raises(KeyError), loaded_beside("slow_one", "slow_two"):
        assert begun.wait(30)
        threading.Timer(0.2, over.set).start()
        raise KeyError
    assert "slow_one" in sys.modules and "slow_two" not in sys.modules  # and what was begun is loaded to its end
    del sys.events
