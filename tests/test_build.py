"""The build: compiled where it can be, interpreted where it cannot, and a choice between the two at run time.

These tests build a small stand-in engine in a temporary copy of the project, so that they are fast and leave
the real one alone.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau

ROOT = Path(__file__).resolve().parent.parent
CALLER = """
def thrice(x: int) -> int:
    return 3 * x
"""
CALLEE = """
from flambeau.core.caller import thrice

class Engine:
    def run(self, x: int) -> int:
        return thrice(x) + 1
"""
METHODS = """
from flambeau.core.callee import Engine

class Methods(Engine):
    def again(self, x: int) -> int:
        return self.run(self.run(x))
"""
PROBE = """
import sys
from flambeau.tensor._methods import Methods
from flambeau import _pure
print(Methods().again(1), "compiled" if _pure.is_compiled() else "interpreted")
print(" ".join(_pure.stale_modules()))
import os
assert os.path.exists(sys.modules["flambeau.core.caller"].__file__)
"""


def load_setup():
    """setup.py as a module."""
    spec = importlib.util.spec_from_file_location("flambeau_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


missing = load_setup().missing_tool()
needs_compiler = pytest.mark.skipif(missing is not None, reason=f"this machine cannot compile: {missing}")


@pytest.fixture
def project(tmp_path):
    """A copy of the project with a small engine of two modules and one with methods."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    package = tmp_path / "src" / "flambeau"
    (package / "core").mkdir(parents=True)
    (package / "tensor").mkdir()
    for name in ("_pure.py", "_version.py"):
        shutil.copy(ROOT / "src" / "flambeau" / name, package)
    (package / "__init__.py").write_text("from . import _pure\n_pure.install()\n")
    (package / "core" / "__init__.py").write_text("")
    (package / "tensor" / "__init__.py").write_text("")
    (package / "core" / "caller.py").write_text(CALLER)
    (package / "core" / "callee.py").write_text(CALLEE)
    (package / "tensor" / "_methods.py").write_text(METHODS)
    return tmp_path


def run(project, *args, **env):
    """Run Python in the project, whose flambeau comes first; flags of the outer run do not count."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("FLAMBEAU_")}
    environment = {**outer, "PYTHONPATH": str(project / "src"), "FLAMBEAU_OPT_LEVEL": "0", **env}
    return subprocess.run(
        [sys.executable, *args], cwd=project, env=environment, capture_output=True, text=True, timeout=120
    )


def build(project, **env):
    return run(project, "setup.py", "-q", "build_ext", "--inplace", **env)


def extension_modules(project):
    files = [path for path in (project / "src").rglob("*") if path.suffix in (".so", ".pyd")]
    return sorted(path.name.split(".")[0] for path in files)


@needs_compiler
def test_engine_compiles_as_one_group_and_pure_mode_reads_its_source(project):
    built = build(project, FLAMBEAU_REQUIRE_COMPILE="1")
    assert built.returncode == 0, built.stderr
    assert extension_modules(project) == ["_methods", "callee", "caller", "flambeau__mypyc"]
    assert run(project, "-c", PROBE).stdout.split() == ["13", "compiled"]
    assert run(project, "-c", PROBE, FLAMBEAU_PURE="0").stdout.split() == ["13", "compiled"]
    assert run(project, "-c", PROBE, FLAMBEAU_PURE="1").stdout.split() == ["13", "interpreted"]
    where = "from flambeau.core import caller; print(caller.thrice.__code__.co_filename)"
    pure = run(project, "-c", where, FLAMBEAU_PURE="1")
    assert Path(pure.stdout.strip()) == project / "src" / "flambeau" / "core" / "caller.py"


@needs_compiler
def test_changed_source_is_reported_as_stale_and_no_compile_removes_the_build(project):
    assert build(project).returncode == 0
    source = project / "src" / "flambeau" / "core" / "caller.py"
    later = source.stat().st_mtime + 1000
    os.utime(source, (later, later))
    assert run(project, "-c", PROBE).stdout.split() == ["13", "compiled", "flambeau.core.caller"]
    (project / "src" / "flambeau-0.1.0.dist-info").mkdir()
    assert run(project, "-c", PROBE).stdout.split() == ["13", "compiled", "flambeau.core.caller"]
    soon = later - 995                 # an installer writes the source a little after the library
    os.utime(source, (soon, soon))
    for path in (project / "src").rglob("*"):
        if path.suffix in (".so", ".pyd"):
            os.utime(path, (soon - 5, soon - 5))
    assert run(project, "-c", PROBE).stdout.split() == ["13", "compiled"]
    assert build(project, FLAMBEAU_NO_COMPILE="1").returncode == 0
    assert extension_modules(project) == []
    assert run(project, "-c", PROBE).stdout.split() == ["13", "interpreted"]


@needs_compiler
def test_failing_c_compiler_leaves_a_working_interpreted_engine(project):
    if os.name == "nt":
        pytest.skip("the compiler is not chosen by CC on Windows")
    built = build(project, CC="false")
    assert built.returncode == 0
    assert "the engine is not compiled: the C compiler failed" in built.stderr
    assert extension_modules(project) == []
    assert run(project, "-c", PROBE).stdout.split() == ["13", "interpreted"]
    required = build(project, CC="false", FLAMBEAU_REQUIRE_COMPILE="1")
    assert required.returncode != 0
    assert "FLAMBEAU_REQUIRE_COMPILE" in required.stderr


@needs_compiler
def test_source_that_mypyc_refuses_leaves_a_working_interpreted_engine(project):
    source = project / "src" / "flambeau" / "core" / "caller.py"
    source.write_text(CALLER + "\nwrong: int = 'text'\n")
    built = build(project)
    assert built.returncode == 0
    assert "Incompatible types in assignment" in built.stdout + built.stderr
    assert "mypyc refused the sources" in built.stderr
    assert run(project, "-c", PROBE).stdout.split() == ["13", "interpreted"]
    assert build(project, FLAMBEAU_REQUIRE_COMPILE="1").returncode != 0


def test_missing_c_compiler_is_named(project):
    if os.name == "nt":
        pytest.skip("the compiler is not chosen by CC on Windows")
    built = build(project, CC="no-such-compiler")
    assert built.returncode == 0
    assert "'no-such-compiler' is not on the path" in built.stderr or "Python.h" in built.stderr
    assert run(project, "-c", PROBE).stdout.split() == ["13", "interpreted"]


def test_group_holds_every_core_module_and_the_generated_methods():
    sources = load_setup().engine_sources()
    core = {f"src/flambeau/core/{path.name}" for path in (ROOT / "src" / "flambeau" / "core").glob("*.py")}
    assert core - {"src/flambeau/core/__init__.py"} <= set(sources)
    assert "src/flambeau/core/__init__.py" not in sources
    assert "src/flambeau/tensor/_methods.py" in sources
    from flambeau import _pure

    fronts = {path.removeprefix("src/").removesuffix(".py").replace("/", ".") for path in set(sources) - core}
    assert fronts == set(_pure._FRONTS), "FLAMBEAU_PURE must reach all that is compiled"


def test_installed_version_is_the_package_version():
    assert importlib.metadata.version("flambeau") == flambeau.version.flambeau


def test_engine_under_test_is_the_one_asked_for():
    """Guards the suite itself: with FLAMBEAU_PURE=1 it must not run the compiled engine."""
    from flambeau import _pure

    assert not (_pure.pure_requested() and _pure.is_compiled())
    assert _pure.stale_modules() == []


def test_dev_names_an_unknown_command():
    done = subprocess.run([sys.executable, ROOT / "dev", "tset"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "unknown command 'tset'" in done.stderr
    assert "./dev test" in done.stderr


def test_dev_nightly_runs_the_programs_that_are_there(monkeypatch):
    loader = importlib.machinery.SourceFileLoader("flambeau_dev", str(ROOT / "dev"))
    dev = importlib.util.module_from_spec(importlib.util.spec_from_loader("flambeau_dev", loader))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(dev)
    commands = []
    monkeypatch.setattr(dev, "run", lambda command, **env: commands.append(command[1:]) or len(commands) % 2)
    assert dev.nightly([]) == 1
    assert [c[:1] for c in commands] == [["-m"]] * len(commands) and len(commands) > 1
    for command in commands:
        assert "main(sys.argv[1:])" in (ROOT / (command[1].replace(".", "/") + ".py")).read_text()
    commands[:] = [None]
    assert dev.nightly(["meta", "exp", "float32"]) == 0
    assert commands[1:] == [["-m", "tests.nightly.meta", "exp", "float32"]]
    with pytest.raises(SystemExit):
        dev.nightly(["mete"])


def test_py_typed_marks_the_package_as_typed():
    spec = importlib.util.find_spec("flambeau")
    assert (Path(spec.origin).parent / "py.typed").exists()
