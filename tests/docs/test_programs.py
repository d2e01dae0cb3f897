"""The programs in examples/ print the same under flambeau and under PyTorch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
RUNNER = Path(__file__).with_name("run_programs.py")
NUMBER = re.compile(r"-?\d+\.(?P<decimals>\d+)(?P<exponent>e[+-]?\d+)?|-?\binf\b|\bnan\b")

COMMANDS = [p.name + (" --steps 20 --seed 3" if "--steps" in p.read_text("utf-8") else "")
            for p in sorted(FOLDER.glob("*.py"))]
COMMANDS += ["char_lstm.py --steps 20 --cell gru", "siamese.py --steps 20 --loss infonce",
             "maml.py --steps 20 --first-order"]

# Sums of float32 are rounded in another order, and training carries that along: four digits, or the last printed one.
# These part sooner, for the reason given.
TOLERANCE = 1e-4
LOOSER = {
    "digits_mlp.py": (2e-3, "five epochs rather than 20 steps; three digits are printed"),
    "ddpm.py": (5e-4, "forty levels of generation by a network hardly trained: each multiplies the differences"),
    "digits_resnet.py": (5e-4, "a unit at a ReLU's kink: PyTorch prints our numbers if its first weights grow by 3e-7"),
    "reinforce.py": (5e-4, "a run is hundreds of steps of an unstable system, whose path a rounding bends"),
}

Results = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def results() -> tuple[Results, Results]:
    """What each command printed under flambeau, and under PyTorch; the two run side by side."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    processes = [subprocess.Popen([sys.executable, *prefix, str(RUNNER), str(FOLDER), *COMMANDS], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
                 for prefix in (("-m", "flambeau", "run"), ())]
    sides = []
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        sides.append({line["command"]: line for line in map(json.loads, out.splitlines())})
    return sides[0], sides[1]


def last_digit(number: re.Match[str]) -> float:
    """One unit of the last digit printed, and a little; a number that has no normal float32 counts as zero."""
    if number["decimals"] is None:
        return 0.0
    return 1e-30 + 1.01 * float(f"1e-{len(number['decimals'])}") * float("1" + (number["exponent"] or "e0"))


@pytest.mark.parametrize("command", COMMANDS)
def test_program_prints_what_it_prints_under_pytorch(command: str, results: tuple[Results, Results]) -> None:
    ours, theirs = (side[command] for side in results)
    assert not theirs["error"], theirs["error"]
    assert not ours["error"], ours["error"]
    assert NUMBER.sub("#", ours["printed"]) == NUMBER.sub("#", theirs["printed"])
    rel, _ = LOOSER.get(command.split()[0], (TOLERANCE, ""))
    pairs = list(zip(NUMBER.finditer(ours["printed"]), NUMBER.finditer(theirs["printed"]), strict=True))
    assert len(pairs) > 4
    for a, b in pairs:
        assert float(a[0]) == pytest.approx(float(b[0]), rel=rel, abs=last_digit(b), nan_ok=True), theirs["printed"]


def test_a_wrong_number_is_found() -> None:
    number = NUMBER.search("loss 0.12345")
    assert number is not None and last_digit(number) < 1.1e-5
    assert not 0.12348 == pytest.approx(float(number[0]), rel=TOLERANCE, abs=last_digit(number))
