"""Runs programs one after the other in one process, for test_programs.py: importing PyTorch takes longer than most.

    python -m flambeau run run_programs.py folder "a.py --steps 20" "b.py" ...

Prints one JSON object a line: the command, what it printed, and the traceback if it failed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
import traceback

folder, *commands = sys.argv[1:]
for command in commands:
    name, *arguments = command.split()
    program = os.path.join(folder, name)
    sys.argv = [program, *arguments]
    printed, error = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            runpy.run_path(program, run_name="__main__")
        except Exception:
            error = traceback.format_exc()
    print(json.dumps({"command": command, "printed": printed.getvalue(), "error": error}), flush=True)
