"""Pages of the site outside of docs/: README, other documents, the tutorial.

Links between files of the checkout become links between pages, or plain names of files that are no pages.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
WHOLE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "deploy/README.md": "deployment.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages, and the pictures that they show."""
    texts = {page: (source, (ROOT / source).read_text(encoding="utf-8")) for source, page in WHOLE.items()}
    texts["tutorial.md"] = (
        "docs/tutorial.py",
        as_markdown((ROOT / "docs" / "tutorial.py").read_text(encoding="utf-8")),
    )
    for page, (source, text) in texts.items():
        files.append(File.generated(config, page, content=_linked(text, source)))
    for picture in sorted((ROOT / "data").glob("*.png")):
        files.append(File.generated(config, f"data/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Resolve links that lead out of docs/."""
    if page.file.generated_by is not None:
        return markdown
    return _linked(markdown, f"docs/{page.file.src_uri}")


def as_markdown(script: str) -> str:
    """Convert a script with cells (`# %%`) to Markdown: Markdown cells as text, others as code."""
    parts = re.split(r"^# %%(.*)\n", script, flags=re.MULTILINE)[1:]
    pages = []
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        if "markdown" in kind:
            pages.append("\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()))
        else:
            pages.append(f"```python\n{body.strip()}\n```")
    return "\n\n".join(pages) + "\n"


def _linked(text: str, source: str) -> str:
    """Rewrite the links of a text for the site."""

    def link(match: re.Match[str]) -> str:
        picture, shown, target, place = match[1], match[2], match[3], match[4] or ""
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in WHOLE:
            return f"[{shown}]({WHOLE[path]}{place})"
        if path.startswith("docs/") and path.endswith(".md"):
            return f"[{shown}]({path.removeprefix('docs/')}{place})"
        if picture and os.path.exists(ROOT / path):
            return f"![{shown}]({path.removeprefix('docs/')})"
        return shown if shown.startswith("`") else f"{shown} (`{path}`)"

    fenced = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in fenced)
