"""How long a program waits before it can compute: in fresh processes, alternating, medians.

    python -m benchmarks.startup
"""

from __future__ import annotations

import statistics
import subprocess
import sys

PROGRAMS = {
    "import numpy": "import numpy",
    "import flambeau": "import flambeau",
    "import flambeau, first tensor": "import flambeau; flambeau.tensor([1.0])",
    "import flambeau, nn and optim": "import flambeau; flambeau.nn.Linear; flambeau.optim.Adam",
    "import torch": "import torch",
}
TIMER = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"


def seconds(program: str) -> float:
    done = subprocess.run([sys.executable, "-c", TIMER.format(program)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main(argv: list[str]) -> int:
    repeats = 11
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(repeats + 1):
        for name, program in PROGRAMS.items():
            times[name].append(seconds(program))
    numpy = statistics.median(times["import numpy"][1:])
    print(f"milliseconds, median of {repeats} processes each")
    for name, values in times.items():
        median = statistics.median(values[1:])
        print(f"  {name:32s} {median * 1e3:7.1f}   {median / numpy:5.2f} times `import numpy`")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
