"""For mkdocstrings: the `>>>` examples that end our docstrings become a section, shown as code.

It also keeps griffe, which reads the sources, to the .py files: merged with our stubs, a package is replaced by the name
that the stub imports (`flambeau.autograd` becomes empty); and compiled modules hold no docstrings to read.
"""

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


def only_sources(found: Any) -> Any:
    """griffe's search for a package, without stubs."""

    def find_package(self: Any, module_name: str) -> Any:
        package = found(self, module_name)
        if module_name == "flambeau":
            package.stubs = None
        return package

    return find_package


# griffe offers no option for this
griffe.ModuleFinder.accepted_py_module_extensions = [".py"]
griffe.ModuleFinder.extensions_set = {".py"}
griffe.ModuleFinder.find_package = only_sources(griffe.ModuleFinder.find_package)  # type: ignore[method-assign]


class ExamplesSection(griffe.Extension):
    """Rewrites docstrings as they are loaded."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_section(obj.docstring.value)
