"""Write docs/unsupported.md from what `flambeau._unavailable` registers: `python tools/unsupported_page.py [--check]`.

With --check nothing is written; the exit code is 1 when the page is stale.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "unsupported.md"
HEAD = """# What raises

<!-- Written by tools/unsupported_page.py: do not edit. -->

These names of PyTorch exist, so that a program may import and mention them. Calling one raises `NotImplementedError`
with the words of the right column; so does making a tensor of one of the dtypes. A class among them can be named in
annotations, `isinstance` (which answers `False`) and lists of bases.

What differs in other ways is in [What differs from PyTorch](differences.md).
"""


def modules() -> None:
    """Import every module of the package, so that each registers its names."""
    sys.path.insert(0, str(ROOT / "src"))
    import flambeau

    flambeau.float32    # noqa: B018  the base loads at the first use
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for found in pkgutil.walk_packages(flambeau.__path__, "flambeau."):
            if found.name.rpartition(".")[2] == "__main__":
                continue
            try:
                importlib.import_module(found.name)
            except ImportError as error:
                if (error.name or "").partition(".")[0] == "flambeau":      # else an extra that is not installed
                    raise
    importlib.import_module("flambeau._unsupported").everything()


def registered() -> dict[str, dict[str, set[str]]]:
    """What is registered: module -> what to do instead -> names."""
    from flambeau._unavailable import REGISTRY, written

    found: dict[str, dict[str, set[str]]] = {}
    for module, names, instead in REGISTRY:
        found.setdefault(written(module), {}).setdefault(instead, set()).update(names.split() or [""])
    return found


def _row(module: str, names: set[str], instead: str) -> str:
    shown = ", ".join(f"`{n}`" for n in sorted(names - {""}, key=str.lower))
    if "" in names:
        others = "every other name" if shown else "every name that PyTorch has and this module has not"
        shown += (", " if shown else "") + others
    text = instead if instead.startswith("flambeau") else instead[:1].upper() + instead[1:]
    text = text.rstrip(".") + "."
    return f"| {shown} | {text.replace('|', chr(92) + '|')} |"


def page() -> str:
    """The page's text."""
    modules()
    text = [HEAD]
    for module, groups in sorted(registered().items(), key=lambda item: (item[0].count("."), item[0].lower())):
        text.append(f"## {module}\n\n| names | instead |\n|---|---|")
        rows = [_row(module, names, instead) for instead, names in groups.items()]
        text.append("\n".join(sorted(rows, key=str.lower)) + "\n")
    return "\n".join(text)


def main(arguments: list[str]) -> int:
    new = page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == new:
        return 0
    if "--check" in arguments:
        print(f"{PAGE.relative_to(ROOT)} is stale: run python tools/unsupported_page.py")
        return 1
    PAGE.write_text(new, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
