"""Learning to learn: weights from which a few gradient steps fit a new sine wave.

    flambeau run examples/maml.py          (or: python examples/maml.py, with PyTorch)

Finn et al., 2017, arXiv:1703.03400. The inner steps make new weights from the gradient of the task's loss; the outer
gradient passes through them, and so through that gradient: `create_graph=True`. `--first-order` leaves that part out.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

N_POINTS = 10


class Net(nn.Module):
    def __init__(self, n_hidden=40):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(1, n_hidden), nn.Tanh(), nn.Linear(n_hidden, n_hidden), nn.Tanh(), nn.Linear(n_hidden, 1))

    def forward(self, x):
        return self.layers(x)


class Task:
    """One sine wave: amplitude 0.5 to 2.5, any phase."""

    def __init__(self):
        self.amplitude = 0.5 + 2 * torch.rand(()).item()
        self.phase = math.pi * torch.rand(()).item()

    def sample(self, n=N_POINTS):
        x = 6 * torch.rand(n, 1) - 3
        return x, self.amplitude * torch.sin(x + self.phase)


def adapt(model, weights, x, y, rate, n_steps=1, create_graph=True):
    """Weights after `n_steps` gradient steps on the points; the model itself stays as it is."""
    for _ in range(n_steps):
        loss = F.mse_loss(functional_call(model, weights, (x,)), y)
        grads = torch.autograd.grad(loss, tuple(weights.values()), create_graph=create_graph)
        weights = {name: w - rate * g for (name, w), g in zip(weights.items(), grads, strict=True)}
    return weights


def loss_after(model, rate, n_steps, n_tasks=20):
    """Mean loss on new points of new tasks after adapting to ten points."""
    total = 0.0
    for _ in range(n_tasks):
        task = Task()
        weights = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
        weights = adapt(model, weights, *task.sample(), rate, n_steps, create_graph=False)
        x, y = task.sample(50)
        with torch.no_grad():
            total += F.mse_loss(functional_call(model, weights, (x,)), y).item()
    return total / n_tasks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=4, help="tasks in one update")
    parser.add_argument("--rate", type=float, default=0.05, help="rate of the inner steps")
    parser.add_argument("--first-order", action="store_true")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    for step in range(1, options.steps + 1):
        losses = []
        for _ in range(options.tasks):
            task = Task()
            weights = dict(model.named_parameters())
            weights = adapt(model, weights, *task.sample(), options.rate, create_graph=not options.first_order)
            x, y = task.sample()
            losses.append(F.mse_loss(functional_call(model, weights, (x,)), y))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  loss after one inner step {loss.item():.5f}")

    for n_steps in (0, 1, 3):
        print(f"new tasks, {n_steps} inner steps: loss {loss_after(model, options.rate, n_steps):.5f}")


if __name__ == "__main__":
    main()
