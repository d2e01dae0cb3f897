"""The reference of operators, written from their records while the documentation is built.

As a hook of mkdocs (see mkdocs.yml) it adds reference/operators.md and one page for each family (file under ops/). They
are not committed: a record is the only place where an operator is written, so a page cannot be out of date, and adding
an operator changes no other file. To read them without mkdocs:

    python tools/operator_pages.py FOLDER
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

FOLDER = "reference/operators"
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128")
GROUPS = {      # what the dtypes are called where a whole group is accepted
    "bool": DTYPES[:1], "integers": DTYPES[1:6], "float16, bfloat16": DTYPES[6:8], "float32, float64": DTYPES[8:10],
    "complex": DTYPES[10:],
}
ARGUMENT = re.compile(r" {4}([\w, ]+): (.*)")       # one line of a docstring's list of arguments
MAX_LINES = 30      # of a formula that is shown


# --------------------------------------------------------------------------------------------------- formulas
@functools.cache
def _tree(file: str) -> tuple[str, list[ast.AST]]:
    if not Path(file).exists():      # a function made from text
        return "", []
    source = Path(file).read_text(encoding="utf-8")
    kinds = (ast.Lambda, ast.FunctionDef)
    return source, [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]


def source_of(fn: FunctionType) -> str:
    """The text of a lambda or function, without the call that it is an argument of."""
    code = fn.__code__
    source, nodes = _tree(code.co_filename)
    names = code.co_varnames[: code.co_argcount]
    positions = [p for p in code.co_positions() if p[0] is not None and p[2] is not None and p[3] != 0]
    for node in nodes:
        arguments = tuple(a.arg for a in node.args.args)
        if arguments != names:
            continue
        if isinstance(node, ast.Lambda):
            found = any((node.body.lineno, node.body.col_offset) == (p[0], p[2]) for p in positions)
            if fn.__name__ == "<lambda>" and node.lineno == code.co_firstlineno and found:
                return _dedented(ast.get_source_segment(source, node) or "")
        elif node.name == fn.__name__ and node.lineno >= code.co_firstlineno >= node.lineno - len(node.decorator_list):
            return _dedented(ast.get_source_segment(source, node) or "")
    return ""


def _dedented(text: str) -> str:
    first, *rest = text.splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    indent = 0 if first.startswith("def ") else max(0, indent - 4)
    lines = [first, *(line[indent:] for line in rest)]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], "    ..."]
    return "\n".join(lines)


def formulas_of(op: Any) -> str:
    """The derivative of an operator as Python, one formula for each input; empty if it has none."""
    parts = []
    if op.joint is not None and isinstance(op.joint.fn, FunctionType):
        parts.append(f"# all inputs: {', '.join(op.input_names)}\n{source_of(op.joint.fn)}")
    for name, formula in zip(op.input_names, op.formulas, strict=False):
        if formula is not None and isinstance(formula.fn, FunctionType):
            text = source_of(formula.fn)
            parts.append(f"# {name}\n{text}" if text else f"# {name}: made by {formula.fn.__qualname__.split('.')[0]}()")
    return "\n\n".join(parts)


def saved_by(op: Any) -> str:
    """What the formulas keep until backward, in words."""
    mask = op.joint.mask if op.joint is not None else 0
    for formula in op.formulas:
        mask |= formula.mask if formula is not None else 0
    names = [name for i, name in enumerate(op.input_names) if mask >> i & 1]
    names += ["its result"] if mask >> 16 & 0xFFFF else []
    names += ["all its inputs"] if mask >> 32 & 1 else []
    return ", ".join(names) or "no tensor"


# ----------------------------------------------------------------------------------------------------- dtypes
def dtypes_of(key: str, record: Any) -> list[str]:
    """The dtypes with which the operator's first sample runs."""
    import flambeau
    from flambeau.testing.samples import calls, public_callable

    accepted = []
    for dtype in DTYPES:
        try:
            _, sample, _ = next(calls(flambeau, key, record, dtype, False))
            public_callable(flambeau, key, record)(*sample.args, **sample.kwargs)
        except StopIteration:
            return []
        except Exception:       # any refusal: this is a question, not a check
            continue
        accepted.append(dtype)
    return accepted


def in_words(dtypes: list[str]) -> str:
    """The list of accepted dtypes, groups first."""
    if len(dtypes) == len(DTYPES):
        return "all"
    words: list[str] = []
    for group, members in GROUPS.items():
        here = [d for d in members if d in dtypes]
        if here:
            words.append(group if len(here) == len(members) else ", ".join(here))
    return ", ".join(words)


# ------------------------------------------------------------------------------------------------------ pages
def entry(key: str, record: Any) -> str:
    """The description of one operator, in Markdown."""
    try:
        signature = str(inspect.signature(record.fn))
    except ValueError:
        signature = "(...)"
    lines = [f"## `{key}` {{: #{anchor(key)} }}", "", "```text", f"{key}{plain(signature)}", "```", ""]
    text, examples = split_examples(record.doc)
    lines += [text, ""]
    if examples:
        lines += ["```pycon", examples, "```", ""]
    facts = []
    if record.namespaces:
        facts.append("in " + " and ".join("`torch`" if n == "torch" else f"`torch.{n}`" for n in record.namespaces))
    facts += ["Tensor method"] if record.method else []
    facts += ["in-place form"] if record.inplace else []
    facts += [f"also called {', '.join(f'`{a}`' for a in record.aliases)}"] if record.aliases else []
    found = in_words(dtypes_of(key, record))
    facts += [f"dtypes: {found}"] if found else []
    op = primitive_of(record)
    if op is not None and op.differentiable:
        facts += [f"graph node `{op.node_name}`, which keeps {saved_by(op)}"]
    elif not record.differentiable:
        facts += ["no derivative"]
    lines += [f"*{'; '.join(facts)}*" if facts else "", ""]
    lines += differs(key)
    return "\n".join(lines + (derivative(op) if op is not None else []))


@functools.cache
def differences() -> dict[str, list[str]]:
    """For the last part of an operator's name: the paragraphs of docs/differences.md whose bold beginning names it."""
    found: dict[str, list[str]] = defaultdict(list)
    text = (ROOT / "docs/differences.md").read_text(encoding="utf-8")
    for paragraph in re.split(r"\n\n|\n(?=- )", text):
        lead = re.match(r"(?:- )?\*\*(.+?)\*\*", paragraph, re.S)
        if lead is None:
            continue
        for name in set(re.findall(r"`(?:\w+\.)*(\w+)(?:\(\))?`", lead[1])):
            found[name].append(" ".join(paragraph.removeprefix("- ").split()))
    return found


def differs(key: str) -> list[str]:
    """What the page of an operator says of PyTorch's being otherwise."""
    lines = []
    for text in differences().get(key.rsplit(".", 1)[-1], []):
        text = re.sub(r"\]\((\w+\.md)", r"](../../\1", text)        # links are relative to docs/
        lines += ['!!! note "Differs from PyTorch"', "", f"    {text}", ""]
    return lines


def primitive_of(record: Any) -> Any:
    """The primitive behind a public function, if one has been named or has its name."""
    from flambeau.ops._record import PRIMITIVES

    return record.op or PRIMITIVES.get(record.name)


def derivative(op: Any, title: str = "Derivative") -> list[str]:
    """A folded box with the formulas of an operator; nothing when it has none."""
    text = formulas_of(op)
    if not text:
        return []
    return [f'??? note "{title}"', "", *("    " + line for line in ["```python", *text.split("\n"), "```"]), ""]


def other_primitives(file_name: str, members: list[tuple[str, Any]]) -> str:
    """The primitives of a file that no public function shows: several stand behind functions that choose among them."""
    from flambeau.ops._record import PRIMITIVES

    shown = {id(primitive_of(record)) for _, record in members}
    lines: list[str] = []
    for name, op in sorted(PRIMITIVES.items()):
        written = [f.fn for f in (op.joint, *op.formulas) if f is not None and isinstance(f.fn, FunctionType)]
        if id(op) not in shown and any(Path(fn.__code__.co_filename).name == file_name for fn in written):
            lines += derivative(op, f"{name}: node {op.node_name}, which keeps {saved_by(op)}")
    return "\n## Primitives behind these functions\n\n" + "\n".join(lines) if lines else ""


def plain(signature: str) -> str:
    """A signature without the quotes and module names of annotations."""
    return signature.replace("'", "").replace("flambeau.core.objects.", "").replace("typing.", "")


def split_examples(doc: str) -> tuple[str, str]:
    """The docstring's text as Markdown, and its examples."""
    text, mark, examples = doc.partition(">>>")
    lines = []
    for line in text.rstrip().splitlines():
        argument = ARGUMENT.fullmatch(line)
        if argument:
            lines.append(f"- `{argument[1]}`: {argument[2]}")
        elif line.startswith("    "):
            lines.append(("  " if line.startswith("     ") else "") + line.strip())
        elif line.rstrip() in ("Args:", "Returns:", "Raises:"):
            lines += ["", f"**{line.strip().rstrip(':')}**", ""]
        else:
            lines.append(line)
    return "\n".join(lines), (mark + examples).strip()


def anchor(key: str) -> str:
    return key.replace(".", "-").replace("_", "-")


def families() -> dict[str, list[tuple[str, Any]]]:
    """The public operators by the file that holds their record."""
    from flambeau.ops import REGISTRY

    found: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for key, record in sorted(REGISTRY.items()):
        found[Path(inspect.unwrap(record.fn).__code__.co_filename).stem].append((key, record))
    return dict(sorted(found.items()))


def pages() -> Iterator[tuple[str, str]]:
    """(path under docs/, Markdown text) of each page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = families()
        rows = []
        for family, members in found.items():
            body = "\n".join(entry(key, record) for key, record in members)
            title = family.replace("_", " ").strip().capitalize()
            body += other_primitives(f"{family}.py", members)
            yield f"{FOLDER}/{family}.md", f"# {title}\n\nRecords in `src/flambeau/ops/{family}.py`.\n\n{body}"
            names = ", ".join(f"[`{key}`](operators/{family}.md#{anchor(key)})" for key, _ in members)
            rows.append(f"## {title}\n\n{names}\n")
    head = (f"# Operators\n\nAll {sum(map(len, found.values()))} of them, by family. Each entry is made from the operator's "
            "record: signature, documentation, the dtypes it accepts (found by running its sample), what the graph "
            "keeps, and the formula of its derivative as the engine runs it: `g` is the gradient of the result, `xp` "
            "the namespace of kernels (or of operators, when the backward is itself recorded).\n\n")
    yield f"{FOLDER}.md", head + "\n".join(rows)


def on_files(files: Any, config: Any) -> Any:
    """mkdocs' hook: add the pages to the site."""
    from mkdocs.structure.files import File, InclusionLevel

    for path, text in pages():
        file = File.generated(config, path, content=text)
        if path != f"{FOLDER}.md":
            file.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(file)
    return files


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for path, text in pages():
        file = Path(sys.argv[1]) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
