"""What the site has besides the pages of this folder: the README and its like, files they link to, API, all models."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from types import ModuleType
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "reproduction/README.md": "results.md",
}
"""Pages that lie above this folder, and their names in the site."""

PACKAGES = {
    "Audit": "sfra",
    "Unlearning": "sfra.unlearn",
    "Benchmarks": "sfra.bench",
    "Backbones": "sfra.models.backbones",
    "Pages and figures": "sfra.report",
}
ALL_MODELS = "all-models.html"
"""The page of every audited model, which leaderboard.md names by where it is built."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
EXAMPLE = re.compile(r"^(>>>.*(?:\n.+)*)", re.MULTILINE)
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):(?=<code)")


class Examples(griffe.Extension):
    """Shows the examples of docstrings as code: their marks would be quotations in Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put a fence around each example."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\1\n```", obj.docstring.value)


def on_config(config: Any) -> Any:
    """Put pages that the navigation does not name at its end."""
    named = re.findall(r"[\w-]+\.md", str(config.nav))
    more = sorted(path.name for path in ROOT.glob("docs/*.md") if path.name not in named)
    config.nav += [{"More": more}] if more else []
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add pages and files from above this folder."""
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "api.md", content=api()))
    sys.path.insert(0, str(ROOT / "benchmarks"))
    files.append(File.generated(config, ALL_MODELS, content=import_module("reproduction.leaderboard").leaderboard()))
    for page in [*PAGES, *(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))]:
        for target in linked(page):
            if not target.startswith("docs/") and target not in PAGES and files.get_file_from_path(target) is None:
                files.append(File.generated(config, target, content=(ROOT / target).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links out of this folder to where the files are in the site; a link to a folder becomes its text."""
    source = next((above for above, name in PAGES.items() if name == page.file.src_uri), f"docs/{page.file.src_uri}")

    def led(link: re.Match[str]) -> str:
        mark, text, path, anchor = link.groups()
        if ":" in path:
            return link[0]
        target = normpath(join(dirname(source), path))
        if (ROOT / target).is_dir():
            return text
        there = PAGES.get(target, target.removeprefix("docs/"))
        return f"{mark}[{text}]({relpath(there, dirname(page.file.src_uri) or '.')}{anchor or ''})"

    return LINK.sub(led, markdown).replace(f"`build/site/{ALL_MODELS}`", f"[{ALL_MODELS}]({ALL_MODELS})")


def on_page_content(html: str, **_: Any) -> str:
    """Leave out the roles of docstrings, which are not Markdown."""
    return ROLE.sub("", html)


def linked(page: str) -> set[str]:
    """Return the files that a page links to, by their path from the top."""
    paths = (link[3] for link in LINK.finditer((ROOT / page).read_text(encoding="utf-8")) if ":" not in link[3])
    found = (normpath(join(dirname(page), path)) for path in paths)
    return {path for path in found if (ROOT / path).is_file()}


def api() -> str:
    """Write the page of the public names; mkdocstrings fills it in from the docstrings."""
    parts = ["# Python", "Names are imported from the package that stands in the heading above them."]
    for title, package in PACKAGES.items():
        module = import_module(package)
        names = sorted((name for name in module.__all__ if not name.startswith("__")), key=str.lower)
        parts += [f"## {title}: `{package}`", *(f"::: {home_of(module, name)}" for name in names)]
    return "\n\n".join(parts) + "\n"


def home_of(module: Any, name: str) -> str:
    """Return where a name is defined."""
    found = getattr(module, name)
    if isinstance(found, ModuleType):
        return found.__name__
    return f"{getattr(found, '__module__', module.__name__)}.{name}"
