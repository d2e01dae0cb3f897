"""The command `flambeau`: run PyTorch scripts untouched, show the installation, train the demo."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from flambeau._version import __version__

EXAMPLES = """\
examples:
  flambeau run train.py --epochs 3   run a PyTorch script on flambeau, unchanged
  flambeau info                      versions, engine, threads: what to put in a bug report
  flambeau demo                      train a small network on digits, write a page about it
"""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors come with the whole help, not only the usage line."""

    def error(self, message: str) -> NoReturn:
        self.print_help(sys.stderr)
        if "invalid choice" in message and ".py" in message:
            message += "\nTo run a script: flambeau run script.py"
        self.exit(2, f"\n{self.prog}: {message}\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="flambeau",
        description="Deep learning with PyTorch's API, in Python that you can read.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"flambeau {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", title="commands")
    run = commands.add_parser(
        "run",
        help="run a PyTorch script with `torch` meaning flambeau",
        description="Run a PyTorch script untouched: `import torch` and all its submodules give flambeau's.",
    )
    run.add_argument(
        "--full-traceback", action="store_true", help="show flambeau's own frames too when the script fails"
    )
    run.add_argument("script", help="path of the script")
    rest = run.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script, passed on as they are")
    rest.required = False  # there may be none: a missing script must not be reported as two missing things
    commands.add_parser(
        "info",
        help="show versions, engine, threads and folders",
        description="Show what runs here: what to put in a bug report.",
    )
    demo = commands.add_parser(
        "demo",
        help="train a small network on digits and write a page about it",
        description="Train a small convolutional network on 8x8 digits, with a report on its gradients.",
    )
    demo.add_argument("--epochs", type=int, default=8, help="passes over the training set (default 8)")
    demo.add_argument("--seed", type=int, default=0, help="seed of weights and batches (default 0)")
    demo.add_argument("--output", default="flambeau-demo.html", help="page to write (default %(default)s)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: arguments after the program's name; None takes them from `sys.argv`.

    Returns:
        Exit code: 0, or 2 if the command line is wrong. Exceptions of a script that is run pass through, so
        that the interpreter ends as it would have under plain Python.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    if options.command == "run":
        from .run import run_script

        return run_script(options.script, options.args, full_traceback=options.full_traceback)
    if options.command == "info":
        from .info import show

        show()
        return 0
    if options.command == "demo":
        from .demo import main as demo

        return demo(n_epochs=options.epochs, seed=options.seed, output=options.output)
    parser.error("which command?")
