"""Every example runs: `>>>` in the docstrings of the package, and the blocks of code in the documentation."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import io
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import flambeau
from tests.docs.pages import Block, blocks_of, fresh_names, matches, run_block, said_by_comments

ROOT = Path(__file__).resolve().parents[2]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
SKETCHES = {"adding-an-operator.md"}    # fragments of a file under ops/, which cannot run by themselves


def doctests_of(path: Path, name: str) -> list[doctest.DocTest]:
    """The examples of a file, read from its source: what is compiled need not keep its docstrings."""
    source = path.read_text(encoding="utf-8")
    if ">>>" not in source:
        return []
    parser, found = doctest.DocTestParser(), []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node, clean=True)
            if text and ">>>" in text:
                label = f"{name}:{getattr(node, 'name', '')}"
                found.append(parser.get_doctest(text, {}, label, str(path), node.body[0].lineno - 1))
    return found


def all_doctests() -> list[doctest.DocTest]:
    package = Path(next(iter(flambeau.__path__)))
    tests: list[doctest.DocTest] = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        tests += doctests_of(path, ".".join(["flambeau", *(parts[:-1] if parts[-1] == "__init__" else parts)]))
    return tests


@pytest.fixture(autouse=True)
def as_a_fresh_program() -> Iterator[None]:
    """Examples meet the defaults of a new process, and leave none of their settings behind."""
    random_state, options = flambeau.get_rng_state(), np.get_printoptions()
    flambeau.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        yield
    flambeau.set_rng_state(random_state)
    flambeau.set_default_dtype(flambeau.float32)
    flambeau.set_grad_enabled(True)
    flambeau.set_printoptions(profile="default")
    np.set_printoptions(**options)


@pytest.mark.parametrize("example", all_doctests(), ids=lambda d: d.name.removeprefix("flambeau."))
def test_docstring_example(example: doctest.DocTest) -> None:
    module = example.name.partition(":")[0]
    names = dict(vars(importlib.import_module(module)))
    names.update(flambeau=flambeau, torch=flambeau, np=np, __name__="__main__")
    example.globs = names
    out = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(example, out=out.write, clear_globs=False)
    assert runner.failures == 0, out.getvalue()


def with_blocks() -> list[Path]:
    return [p for p in PAGES if p.name not in SKETCHES and blocks_of(p.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", with_blocks(), ids=lambda p: str(p.relative_to(ROOT)))
def test_page(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    names = fresh_names()
    for block in blocks_of(page.read_text(encoding="utf-8")):
        printed = run_block(block, names)
        where = f"{page.name}:{block.line}"
        if block.shown is not None:
            assert matches(block.shown, printed), f"{where} prints\n{printed}\nthe page shows\n{block.shown}"
        else:
            assert "Error: " not in printed and "Warning: " not in printed, f"{where}: {printed}"
        for claim in said_by_comments(block.code):
            assert claim in printed.splitlines(), f"{where}: {claim!r} is not among\n{printed}"


def test_a_wrong_example_is_found() -> None:
    names = fresh_names()
    assert matches("3\n4", run_block(Block(1, "print(3)\nprint(4)"), names))
    assert not matches("3\n5", run_block(Block(1, "print(3)\nprint(4)"), names))
    assert matches("ValueError: no ... today", run_block(Block(1, "raise ValueError('no bread\\ntoday')"), names))
    assert said_by_comments("print(x.grad)  # tensor([1.])\n") == ["tensor([1.])"]


def test_every_module_imports() -> None:
    package = Path(next(iter(flambeau.__path__)))
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if parts[-1] != "__main__":         # which runs the command line
            try:
                importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
            except ModuleNotFoundError as error:
                if "pip install 'flambeau[" not in str(error):        # an extra that is not installed
                    raise
