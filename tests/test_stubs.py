"""The generated stubs: a type checker knows functions, methods and what they return."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import flambeau as torch
import flambeau.nn.functional as F

x = torch.tensor([1.0, 2.0], requires_grad=True)
y = (x * 2).sum()
y.backward()
z: torch.Tensor = F.relu(x)
reveal_type(torch.exp(x))
reveal_type(x.sum(0, keepdim=True).cos_())
reveal_type(x.requires_grad)
torch.exp()
"""


def test_type_checker_reads_the_stubs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    source = Path(__file__).resolve().parent.parent / "src"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", str(tmp_path / "cache"), "program.py"],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(source)}, timeout=240)
    lines = [line for line in done.stdout.splitlines() if line.startswith("program.py")]
    assert [line.split(": ", 2)[2] for line in lines] == [
        'Revealed type is "flambeau.tensor.Tensor"', 'Revealed type is "flambeau.tensor.Tensor"',
        'Revealed type is "bool"', 'Missing positional argument "input" in call to "exp"  [call-arg]'], done.stdout
