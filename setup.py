"""Compiles the engine with mypyc where that is possible; everything else is declared in pyproject.toml.

`flambeau.core` and the generated methods under `flambeau.tensor` are ordinary Python. With a C compiler they
become extension modules (one group, so that calls between them are C calls); without one the same files are
interpreted.

Environment variables:
    FLAMBEAU_NO_COMPILE=1       install the interpreted engine, do not look for a compiler
    FLAMBEAU_REQUIRE_COMPILE=1  fail instead of falling back to the interpreted engine
    FLAMBEAU_OPT_LEVEL=0        C optimisation level, default 3 (0 builds faster, for work on the engine)

In a checkout, `python setup.py build_ext --inplace` puts the extension modules beside their sources.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PACKAGE = Path("src") / "flambeau"
# The shared library is flambeau__mypyc, beside the package: from its place mypyc derives each __file__.
GROUP = "flambeau"
BUILDING = {"build", "build_ext", "bdist_wheel", "editable_wheel", "develop", "install"}
IN_PLACE = {"build_ext", "editable_wheel", "develop"}


def is_set(name: str) -> bool:
    """Whether the environment variable `name` is set to something other than 0 or nothing."""
    return os.environ.get(name, "0") not in ("", "0")


def engine_sources() -> list[str]:
    """Paths, relative to this file, of the modules compiled as one group."""
    core = sorted((ROOT / PACKAGE / "core").glob("*.py"))
    methods = [ROOT / PACKAGE / "tensor" / name for name in ("_functional.py", "_functions.py", "_hot.py", "_methods.py")]
    files = [path for path in core if path.name != "__init__.py"] + [path for path in methods if path.exists()]
    return [path.relative_to(ROOT).as_posix() for path in files]


def missing_tool() -> str | None:
    """What keeps this machine from compiling, in words, or None."""
    try:
        import mypyc.build  # noqa: F401
    except ImportError as error:
        return f"mypyc cannot be imported ({error})"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's C headers (Python.h) are not installed"
    from setuptools._distutils import ccompiler
    from setuptools._distutils import sysconfig as compiler_config

    compiler = ccompiler.new_compiler()
    compiler_config.customize_compiler(compiler)
    command = getattr(compiler, "compiler_so", None)  # MSVC has none: it is looked for when first used
    if command and shutil.which(command[0]) is None:
        return f"no C compiler ({command[0]!r} is not on the path)"
    return None


def remove_compiled() -> None:
    """Remove extension modules that an earlier build left beside the sources: they hide the .py files."""
    folders = [(ROOT / PACKAGE).parent, ROOT / PACKAGE / "core", ROOT / PACKAGE / "tensor"]
    for folder in folders:
        for path in [*folder.glob("*.so"), *folder.glob("*.pyd")]:
            path.unlink()


def fall_back(reason: str) -> list[Extension]:
    """Say why the engine stays interpreted; with FLAMBEAU_REQUIRE_COMPILE=1 that is an error."""
    if is_set("FLAMBEAU_REQUIRE_COMPILE"):
        raise SystemExit(f"flambeau: FLAMBEAU_REQUIRE_COMPILE is set; the engine is not compiled: {reason}.")
    print(
        f"flambeau: the engine is not compiled: {reason}.\n"
        "flambeau: The interpreted engine is installed instead. It computes the same results; each operator\n"
        "flambeau: call costs about four times as much. With a C compiler, install again to compile it.",
        file=sys.stderr,
        flush=True,
    )
    if IN_PLACE & set(sys.argv):
        remove_compiled()
    return []


def engine_extensions() -> list[Extension]:
    """The extension modules to build, none where the engine stays interpreted."""
    sources = engine_sources()
    if not sources or not BUILDING & set(sys.argv):
        return []
    if is_set("FLAMBEAU_NO_COMPILE"):
        return fall_back("FLAMBEAU_NO_COMPILE is set")
    reason = missing_tool()
    if reason is not None:
        return fall_back(reason)
    from mypyc.build import mypycify

    try:
        extensions = mypycify(
            ["--config-file=pyproject.toml", *sources],
            opt_level=os.environ.get("FLAMBEAU_OPT_LEVEL", "3"),
            debug_level="0",
            group_name=GROUP,
        )
    except SystemExit:  # mypyc has printed the type errors
        return fall_back("mypyc refused the sources, see its messages above")
    except Exception as error:  # a crash inside the compiler
        return fall_back(f"mypyc stopped with {type(error).__name__}: {error}")
    for extension in extensions:  # a warning of some other compiler is no reason to lose the compiled engine
        extension.extra_compile_args = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
    return list(extensions)


class BuildEngine(build_ext):
    """build_ext, except that a failure of the C compiler leaves the engine interpreted."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            fall_back(f"the C compiler failed ({type(error).__name__}: {error})")
            self.inplace = False
            for extension in self.extensions:  # a part of the group is useless and would hide the .py files
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []


if __name__ == "__main__":
    setup(ext_modules=engine_extensions(), cmdclass={"build_ext": BuildEngine})
