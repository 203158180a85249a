"""Documents: links lead somewhere, the tutorial runs, and the site is built where mkdocs is installed."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").glob("*.md")])
MADE = {"tutorial.md", "deployment.md", "index.md"}
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [target for target in LINK.findall(text) if not re.match(r"[a-z]+:", target)]
    lost = [target for target in targets if not (path.parent / target).exists()]
    assert [target for target in lost if path.parent.name != "docs" or target not in MADE] == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_headings(path):
    lost = []
    for target, anchor in re.findall(r"\]\(([^)#\s:]*\.md)?#([^)\s]+)\)", path.read_text(encoding="utf-8")):
        text = (path.parent / target if target else path).read_text(encoding="utf-8")
        headings = [re.sub(r"[^\w\s-]", "", line.lower()) for line in re.findall(r"^#+ (.*)$", text, re.M)]
        if anchor not in [re.sub(r"\s+", "-", heading.strip()) for heading in headings]:
            lost.append(f"{target}#{anchor}")
    assert lost == []


def count_words(text):
    """Words with a letter or a digit: neither bars of tables nor marks."""
    return sum(bool(re.search(r"[^\W_]", word)) for word in text.split())


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_files_and_scripts_exist(path):
    text = path.read_text(encoding="utf-8")
    files = re.findall(r"`((?:(?:anonpipe|tests|docs|flows|deploy|data)/[\w./-]*|[\w/]*test_)\w+\.\w+)`", text)
    scripts = [name.replace(".", "/") for name in re.findall(r"python -m (tests(?:\.\w+)*)", text)]
    lost = [name for name in files if not any((folder / name).exists() for folder in (ROOT, ROOT / "tests"))]
    lost += [name for name in scripts if not any((ROOT / f"{name}{end}").exists() for end in (".py", "/__main__.py"))]
    lost = [name for name in lost if "NAME" not in name]
    assert lost == []


def test_the_tutorial_runs(capsys):
    known = runpy.run_path(str(ROOT / "docs" / "tutorial.py"))
    assert known["result"].passed and known["strict"].table is None
    assert "re-identification rate: fewer columns" in capsys.readouterr().out


def test_the_site_is_built(tmp_path):
    pytest.importorskip("mkdocs")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    start = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "Install and see it work" in start and (tmp_path / "site" / "data" / "demo-before-after.png").exists()
    assert "assert" in (tmp_path / "site" / "tutorial" / "index.html").read_text(encoding="utf-8")
