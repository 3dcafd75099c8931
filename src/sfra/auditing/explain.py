"""What each finding means, in words; apart from the findings, so that nothing else need be imported to read it."""

from __future__ import annotations

from importlib.resources import files


def explanations() -> dict[str, list[str]]:
    """Return the paragraphs that explain each finding, by code, as Markdown: raised when, what it means, what to do."""
    text = (files("sfra.auditing") / "flags.md").read_text(encoding="utf-8")
    parts = [section.strip().split("\n\n") for section in text.split("\n## ")[1:]]
    return {heading.strip("`"): [" ".join(text.split()) for text in texts] for heading, *texts in parts}
