"""`flambeau demo`: a small convolutional network learns 8x8 digits, and shows how its gradients behaved.

The digits lie beside this file, in digits.npz: 1797 grey images, values 0 to 16, drawn from strokes with
random shifts, slant and noise by tools/make_digits.py. They are of our own making: nothing is downloaded.

Apart from the first import this is an ordinary PyTorch program.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader, TensorDataset

N_CLASSES = 10
N_TEST = 360
BATCH_SIZE = 32


class DigitNet(nn.Module):
    """Two convolutions with pooling, then one linear layer: (N, 1, 8, 8) to logits (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(32 * 2 * 2, N_CLASSES)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        return self.head(x.flatten(1))


@dataclass
class GradientRow:
    """How one parameter fared during the last epoch, means over its steps."""

    name: str
    shape: tuple[int, ...]
    grad_norm: float = 0.0
    weight_norm: float = 0.0
    update_ratio: float = 0.0  # norm of one step's change over norm of the parameter


@dataclass
class Result:
    """What a run leaves behind: the terminal and the page show nothing else."""

    n_parameters: int
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)  # of each training batch
    test_losses: list[float] = field(default_factory=list)  # after each epoch
    accuracies: list[float] = field(default_factory=list)  # on the test set after each epoch, 0 to 1
    gradients: list[GradientRow] = field(default_factory=list)
    images: np.ndarray = field(default_factory=lambda: np.zeros((0, 8, 8)))  # the test set, values 0 to 1
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    predictions: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def confusion(self) -> np.ndarray:
        """Counts (10, 10): row the true digit, column the prediction."""
        pairs = np.bincount(self.labels * N_CLASSES + self.predictions, minlength=N_CLASSES**2)
        return pairs.reshape(N_CLASSES, N_CLASSES)


def load_digits():
    """Training and test sets as tensors: images float32 (N, 1, 8, 8) from 0 to 1, labels int64 (N,)."""
    with files("flambeau.cli").joinpath("digits.npz").open("rb") as file, np.load(file) as data:
        images = torch.from_numpy(data["images"].astype(np.float32)[:, None] / 16)
        labels = torch.from_numpy(data["labels"].astype(np.int64))
    return (images[:-N_TEST], labels[:-N_TEST]), (images[-N_TEST:], labels[-N_TEST:])


class GradientReport:
    """Measures gradients and updates around optimizer steps."""

    def __init__(self, model) -> None:
        self._model = model
        self._sums = {name: np.zeros(3) for name, _ in model.named_parameters()}
        self._n_steps = 0

    def step(self, optimizer) -> None:
        """Do `optimizer.step()`, measuring every parameter before and after."""
        before = {name: p.detach().clone() for name, p in self._model.named_parameters()}
        optimizer.step()
        for name, p in self._model.named_parameters():
            weight = before[name].norm().item()
            change = (p.detach() - before[name]).norm().item()
            gradient = p.grad.norm().item() if p.grad is not None else 0.0
            self._sums[name] += (gradient, weight, change / max(weight, 1e-12))
        self._n_steps += 1

    def rows(self) -> list[GradientRow]:
        """One row per parameter, in the model's order."""
        n = max(self._n_steps, 1)
        return [
            GradientRow(name, tuple(p.shape), *(float(value) for value in self._sums[name] / n))
            for name, p in self._model.named_parameters()
        ]


def train(n_epochs: int, seed: int, progress: Callable[[int, float, float], None] | None = None) -> Result:
    """Train a DigitNet and evaluate it.

    Args:
        n_epochs: passes over the training set, at least 1.
        seed: seed of the weights and of the order of the batches.
        progress: called after each batch with the epoch (from 0), the batch's loss, the last test accuracy.

    Returns:
        The record of the run; equal seeds give equal losses.
    """
    torch.manual_seed(seed)
    train_set, (test_images, test_labels) = load_digits()
    loader = DataLoader(TensorDataset(*train_set), batch_size=BATCH_SIZE, shuffle=True)
    model = DigitNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    report = GradientReport(model)
    result = Result(n_parameters=sum(p.numel() for p in model.parameters()))
    accuracy = 0.0
    started = time.perf_counter()
    for epoch in range(n_epochs):
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            if epoch == n_epochs - 1:
                report.step(optimizer)
            else:
                optimizer.step()
            result.losses.append(loss.item())
            if progress is not None:
                progress(epoch, result.losses[-1], accuracy)
        model.eval()
        with torch.no_grad():
            logits = model(test_images)
            result.test_losses.append(criterion(logits, test_labels).item())
            predictions = logits.argmax(dim=1)
            accuracy = (predictions == test_labels).float().mean().item()
        result.accuracies.append(accuracy)
    result.seconds = time.perf_counter() - started
    result.gradients = report.rows()
    result.images = test_images.numpy()[:, 0]
    result.labels, result.predictions = test_labels.numpy(), predictions.numpy()
    return result


def train_with_progress(n_epochs: int, seed: int, console: Console) -> Result:
    """`train`, with a progress bar on the console."""
    n_batches = n_epochs * -(-(len(load_digits()[0][1])) // BATCH_SIZE)
    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.3f}  test accuracy {task.fields[accuracy]:.1%}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=n_batches, epoch=f"1/{n_epochs}", loss=float("nan"), accuracy=0.0)

        def advance(epoch: int, loss: float, accuracy: float) -> None:
            bar.update(task, advance=1, epoch=f"{epoch + 1}/{n_epochs}", loss=loss, accuracy=accuracy)

        result = train(n_epochs, seed, advance)
        bar.update(task, accuracy=result.accuracies[-1])
    return result


def gradient_table(rows: list[GradientRow]) -> Table:
    """The gradient report for the terminal."""
    table = Table(title="Gradients, means over the last epoch")
    table.add_column("parameter")
    for title in ("shape", "weight norm", "gradient norm", "update / weight"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        numbers = (f"{row.weight_norm:.3f}", f"{row.grad_norm:.2e}", f"{row.update_ratio:.1e}")
        table.add_row(row.name, "x".join(map(str, row.shape)), *numbers)
    return table


def main(n_epochs: int, seed: int, output: str, console: Console | None = None) -> int:
    """Train, print the result, write the page.

    Args:
        n_epochs: passes over the training set.
        seed: seed of the run.
        output: path of the HTML page.
        console: where to print; None for standard output.

    Returns:
        Exit code: 0, 2 if an argument is wrong, 1 if the page cannot be written.
    """
    from .page import render

    if n_epochs < 1:
        print(f"flambeau demo: --epochs must be at least 1, got {n_epochs}", file=sys.stderr)
        return 2
    path = Path(output).absolute()
    if not path.parent.is_dir() or path.is_dir():      # said before the training, not after it
        reason = "it is a folder" if path.is_dir() else f"there is no folder {str(path.parent)!r}"
        print(f"flambeau demo: cannot write {output!r}: {reason}", file=sys.stderr)
        return 1
    console = console or Console()
    console.print("A small convolutional network learns 8x8 digits (1437 to train on, 360 to test).")
    result = train_with_progress(n_epochs, seed, console)
    n_wrong = int((result.labels != result.predictions).sum())
    console.print(
        f"Accuracy on the test digits: [bold]{result.accuracies[-1]:.1%}[/] "
        f"({n_wrong} of {len(result.labels)} wrong).\n"
        f"{n_epochs} epoch{'s' if n_epochs > 1 else ''} in {result.seconds:.1f} s, {result.n_parameters} parameters."
    )
    console.print(gradient_table(result.gradients))
    try:
        path.write_text(render(result), encoding="utf-8")
    except OSError as error:
        print(f"flambeau demo: cannot write {output!r}: {error.strerror}", file=sys.stderr)
        return 1
    console.print(f"Open the page: {path}", soft_wrap=True)
    return 0
