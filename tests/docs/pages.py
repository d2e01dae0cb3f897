"""The examples in the pages of the documentation: how they are found, run and compared.

In a page, the ```python blocks run from top to bottom in one namespace, so that a later block may use what an earlier
one made; each counts as a file example.py. A ```text block right after one is what it prints, compared word for word
(lines may be wrapped); where the block ends in an exception, the last lines are its type and message, as a traceback
shows them. `...` stands for any text. A comment after a `print` that is a line of its own is compared too.

    python tests/docs/pages.py docs/errors.md     writes what the blocks print now into their ```text blocks
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import sys
import textwrap
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = "example.py"
WIDTH = 110


@dataclass
class Block:
    line: int                          # of the code's first line in the page
    code: str
    shown: str | None = None           # the text block that follows, and where it lies in the page
    place: tuple[int, int] = (0, 0)


def blocks_of(text: str) -> list[Block]:
    """The runnable blocks of a page."""
    found: list[Block] = []
    end = -1
    for match in BLOCK.finditer(text):
        if match[1] == "python":
            found.append(Block(text.count("\n", 0, match.start(2)) + 1, match[2]))
            end = match.end()
        elif match[1] == "text" and end >= 0 and not text[end:match.start()].strip():
            found[-1].shown, found[-1].place = match[2], match.span(2)
    return found


def run_block(block: Block, names: dict[str, object]) -> str:
    """What a block writes: its output, its warnings, and the exception that ends it."""
    linecache.cache[FILE] = (len(block.code), None, block.code.splitlines(True), FILE)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(block.code, FILE, "exec"), names)
        except Exception as error:
            out.write("".join(traceback.format_exception_only(error)))
    return out.getvalue() + "".join(f"{w.category.__name__}: {w.message}\n" for w in caught)


def matches(shown: str, printed: str) -> bool:
    """Whether the words shown are those printed."""
    parts = [r"\s+".join(re.escape(word) for word in part.split()) for part in shown.split("...")]
    return re.fullmatch(r"\s*" + r".*?".join(rf"\s*{p}\s*" for p in parts) + r"\s*", printed, re.DOTALL) is not None


def said_by_comments(code: str) -> list[str]:
    """What the comments after `print(...)` say it prints."""
    return [m[1] for m in re.finditer(r"^ *print\(.*\)  # (.+)$", code, re.MULTILINE)]


def fresh_names() -> dict[str, object]:
    return {"__name__": "__main__", "__file__": FILE}


def update(page: Path) -> None:
    """Write what the blocks print into the text blocks that follow them."""
    text = page.read_text(encoding="utf-8")
    names, pieces, end = fresh_names(), [], 0
    for block in blocks_of(text):
        printed = run_block(block, names)
        if block.shown is None or ("..." in block.shown and matches(block.shown, printed)):
            continue
        pieces += [text[end:block.place[0]], "".join(_wrapped(line) + "\n" for line in printed.strip().splitlines())]
        end = block.place[1]
    page.write_text("".join(pieces) + text[end:], encoding="utf-8")


def _wrapped(line: str) -> str:
    indent = re.match(r" *(\w+: +)?", line)
    hang = " " * len(indent[0]) if indent and line.startswith(" ") else "  "
    return textwrap.fill(line, WIDTH, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        update(Path(name))
