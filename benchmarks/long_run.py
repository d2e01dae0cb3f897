"""A long training run in which memory must stay flat: hooks, checkpointing, worker processes, saving and loading.

    python -m benchmarks.long_run [--steps 100000] [--workers 2]

The resident memory of this process is printed as it goes; the run fails (exit status 1) when the last quarter needs over
2% more than the second quarter did. The first quarter may still fill caches.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.utils.checkpoint import checkpoint
from flambeau.utils.data import DataLoader, Dataset

PAGE_MIB = 4096 / 2**20
GROWTH = 1.02


class Points(Dataset):
    """x in [-1, 1]^8 and the square of its length, made when asked."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        x = torch.linspace(-1, 1, 8) * ((i % 97) / 97)
        return x, (x * x).sum(0, keepdim=True)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.block = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 32))
        self.last = nn.Linear(32, 1)

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.first(x))
        return self.last(h + checkpoint(self.block, h, use_reentrant=False))


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_MIB


def train(steps: int, workers: int, folder: Path) -> list[float]:
    """Train for so many steps; resident memory after each hundredth of them, in MiB."""
    torch.manual_seed(0)
    model = Net()
    seen = {"forward": 0, "backward": 0, "gradient": 0}
    model.first.register_forward_hook(lambda *_: seen.__setitem__("forward", seen["forward"] + 1))
    model.block.register_full_backward_hook(lambda *_: seen.__setitem__("backward", seen["backward"] + 1))
    model.last.weight.register_hook(lambda g: seen.__setitem__("gradient", seen["gradient"] + 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    loader = DataLoader(Points(4096), batch_size=16, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    every = max(1, steps // 100)
    memory: list[float] = []
    step, start = 0, time.perf_counter()
    while step < steps:
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % every == 0:
                state = folder / "state.pt"
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, state)
                model.load_state_dict(torch.load(state)["model"])
                memory.append(resident_mib())
            if step % (10 * every) == 0:
                print(f"step {step:7d}  loss {loss.item():.2e}  resident {memory[-1]:7.1f} MiB  "
                      f"{(time.perf_counter() - start) / step * 1e6:6.0f} us a step", flush=True)
            if step == steps:
                break
    print(f"hooks called: {seen}")
    return memory


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_run", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        memory = train(options.steps, options.workers, Path(folder))
    quarter = max(1, len(memory) // 4)
    before, after = statistics.median(memory[quarter : 2 * quarter]), statistics.median(memory[-quarter:])
    print(f"resident memory: second quarter {before:.1f} MiB, last quarter {after:.1f} MiB ({after / before - 1:+.1%})")
    return 0 if after <= GROWTH * before else 1


if __name__ == "__main__":
    sys.exit(main())
