"""The command `flambeau`, as a person runs it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import flambeau


def flambeau_command(*args, cwd=None, **env):
    return subprocess.run(
        [sys.executable, "-m", "flambeau", *map(str, args)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def script(tmp_path):
    """Writes a script and returns its path."""

    def write(text, name="script.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


# ---------------------------------------------------------------------------------------------- the alias
def test_torch_and_its_submodules_are_flambeaus_own_modules(script):
    path = script("""
import sys
import torch
import torch.nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader
from torch import nn
import flambeau, flambeau.nn.functional, flambeau.utils.data
assert torch is flambeau
assert torch.nn is nn is sys.modules["torch.nn"] is sys.modules["flambeau.nn"] is flambeau.nn
assert F is flambeau.nn.functional is sys.modules["torch.nn.functional"]
assert DataLoader is flambeau.utils.data.DataLoader
assert torch.nn.__spec__.name == "flambeau.nn"
x = torch.tensor([1.0, -2.0], requires_grad=True)
F.relu(x).sum().backward()
print(x.grad.tolist())
""")
    done = flambeau_command("run", path)
    assert done.stdout == "[1.0, 0.0]\n", done.stderr
    assert done.returncode == 0


def test_missing_submodule_is_named_under_both_names(script):
    path = script("""
import importlib.util
assert importlib.util.find_spec("torch.xyz") is None
try:
    import torch.xyz.deep
except ImportError as error:
    print(type(error).__name__, error.name)
    print(error)
""")
    done = flambeau_command("run", path)
    assert done.stdout.splitlines() == [
        "ModuleNotFoundError torch.xyz",
        "No module named 'torch.xyz': this script runs on flambeau, which has no module 'flambeau.xyz'.",
    ]


def test_libraries_that_look_see_torch_by_name_and_version(script):
    path = script("""
import importlib.metadata as metadata
import torch, flambeau
from flambeau import nn
from torch import nn as same
assert nn is same
print(torch.__name__, flambeau.nn.__name__)
assert metadata.version("torch") == torch.__version__
assert metadata.metadata("torch")["Name"] == "torch"
assert "torch" in metadata.packages_distributions()["torch"]
try:
    from torch import no_such_name
except ImportError as error:
    print(error)
""")
    done = flambeau_command("run", path)
    name, said = done.stdout.splitlines()
    assert name == "torch flambeau.nn"
    assert said.startswith("cannot import name 'no_such_name' from 'flambeau': ")
    done = flambeau_command("run", script("from torch.nn import Linearr"))
    assert "cannot import name 'Linearr' from 'flambeau.nn'" in done.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing_children_keep_the_alias(script, method):
    if method != "spawn" and os.name == "nt":
        pytest.skip("Windows has spawn only")
    path = script("""
import multiprocessing, sys
import torch

def job(x):
    return torch.__name__, sys.modules["torch"] is sys.modules["flambeau"], x + 1

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map(job, [1]))
""")
    done = flambeau_command("run", path, method)
    assert done.stdout == "[('torch', True, 2)]\n", done.stderr


def test_alias_refuses_to_hide_an_imported_pytorch():
    program = """
import sys, types
sys.modules["torch"] = types.ModuleType("torch")
from flambeau.cli import alias
try:
    alias.install()
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "PyTorch is imported already" in done.stdout


# ------------------------------------------------------------------------------ the script's surroundings
def test_script_sees_what_it_would_see_under_python(script, tmp_path):
    text = """
import sys, os, pickle
class Local: pass
assert pickle.loads(pickle.dumps(Local)) is Local
print([sys.argv[1:], __name__, __file__, __spec__, __package__, os.path.realpath(sys.path[0])])
import neighbour
"""
    path = script(text)
    script("print('neighbour')", "neighbour.py")
    args = ["-x", "--help", "--full-traceback"]
    ours = flambeau_command("run", path, *args, cwd="/")
    plain = subprocess.run([sys.executable, path, *args], cwd="/", capture_output=True, text=True, timeout=60)
    assert ours.stdout == plain.stdout
    assert plain.stdout.endswith("neighbour\n")


@pytest.mark.parametrize(
    ("ending", "code"),
    [("sys.exit(7)", 7), ("sys.exit()", 0), ("sys.exit('bye')", 1), ("raise ValueError", 1), ("pass", 0)],
)
def test_exit_code_passes_through(script, ending, code):
    assert flambeau_command("run", script(f"import sys\n{ending}\n")).returncode == code


# ---------------------------------------------------------------------------------------------- tracebacks
FAILING = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        try:
            return x @ torch.ones(5, 5)
        except RuntimeError as error:
            raise ValueError("outer") from error

Net()(torch.ones(2, 3))
"""


def test_traceback_shows_the_users_frames_only(script):
    path = script(FAILING)
    done = flambeau_command("run", path)
    assert done.returncode == 1
    assert done.stderr.count(f'File "{path}"') == 3
    assert done.stderr.count("  File ") == 3
    assert "return x @ torch.ones(5, 5)" in done.stderr
    assert 'raise ValueError("outer") from error' in done.stderr
    assert "ValueError: outer" in done.stderr
    assert "--full-traceback" in done.stderr


def test_full_traceback_shows_the_frameworks_frames_too(script):
    path = script(FAILING)
    done = flambeau_command("run", "--full-traceback", path)
    assert done.returncode == 1
    assert done.stderr.count("  File ") > 3
    assert "inside flambeau not shown" not in done.stderr


def test_anomaly_mode_shows_the_script_and_not_what_runs_it(script):
    path = script("""
import torch
x = torch.zeros(2, requires_grad=True)
with torch.autograd.detect_anomaly():
    (x / x).sum().backward()
""")
    done = flambeau_command("run", path)
    assert "Traceback of forward call:" in done.stderr and "cli" not in done.stderr and "runpy" not in done.stderr


def test_syntax_error_is_shown_as_python_shows_it(script):
    path = script("x = = 1\n")
    ours = flambeau_command("run", path)
    plain = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60)
    assert (ours.returncode, ours.stderr) == (1, plain.stderr)


def test_errors_in_threads_are_shortened_too(script):
    path = script("""
import threading, torch
def work():
    torch.ones(2, 3) @ torch.ones(5, 5)
thread = threading.Thread(target=work, name="worker")
thread.start()
thread.join()
""")
    done = flambeau_command("run", path)
    assert "Exception in thread worker" in done.stderr
    assert "torch.ones(2, 3) @ torch.ones(5, 5)" in done.stderr
    assert os.path.dirname(flambeau.__file__) not in done.stderr


def test_an_excepthook_of_the_script_is_honoured(script):
    path = script("""
import sys
sys.excepthook = lambda kind, error, trace: print("mine", kind.__name__)
raise KeyError(1)
""")
    assert flambeau_command("run", path).stdout == "mine KeyError\n"


# ------------------------------------------------------------------------------------------ wrong commands
def test_missing_script_exits_2_with_its_name(tmp_path):
    done = flambeau_command("run", tmp_path / "absent.py")
    assert done.returncode == 2
    assert "absent.py" in done.stderr and "No such file" in done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "which command?"),
        (["run"], "script"),
        (["rnu"], "invalid choice: 'rnu'"),
        (["train.py"], "To run a script: flambeau run script.py"),
        (["demo", "--epochs", "0"], "--epochs must be at least 1"),
    ],
)
def test_wrong_command_line_exits_2_and_helps(args, words):
    done = flambeau_command(*args)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


# ---------------------------------------------------------------------------------------------------- info
def test_info_names_version_engine_and_dtype():
    done = flambeau_command("info", FLAMBEAU_PURE="1", FLAMBEAU_CACHE_DIR="/somewhere/kept")
    assert done.returncode == 0, done.stderr
    rows = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert flambeau.version.flambeau in rows["flambeau"]
    assert "interpreted (FLAMBEAU_PURE is set)" in rows["engine"]
    assert rows["default dtype"].endswith("torch.float32")
    assert os.path.join(os.sep, "somewhere", "kept") in rows["cache folder"]
