"""For mkdocstrings: the `>>>` examples that end our docstrings become a section, shown as code."""

from __future__ import annotations

import textwrap
from typing import Any

import griffe


def with_section(text: str) -> str:
    """The docstring with `Examples:` before its first example."""
    start = 0 if text.startswith(">>>") else text.find("\n>>>") + 1
    if not text.startswith(">>>") and start == 0:
        return text
    return f"{text[:start].rstrip()}\n\nExamples:\n{textwrap.indent(text[start:].rstrip(), '    ')}\n"


class ExamplesSection(griffe.Extension):
    """Rewrites docstrings as they are loaded."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_section(obj.docstring.value)
