"""A differential equation solved by a network: u'' + u = 0 in time, and Burgers' equation in space and time.

    flambeau run examples/pinn.py          (or: python examples/pinn.py, with PyTorch)

Raissi et al., 2017, arXiv:1711.10561. The loss is how far the network is from satisfying the equation at random
points, so it contains derivatives of the network with respect to its inputs; training differentiates them once more.
"""

import argparse
import math

import torch
from torch import nn


def derivative(u, x):
    """du/dx for u (N, 1) that depends on row i of x only in row i; differentiable again."""
    return torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]


def network(n_in, n_hidden=24):
    """In double precision, like the points: second derivatives lose digits."""
    return nn.Sequential(nn.Linear(n_in, n_hidden), nn.Tanh(), nn.Linear(n_hidden, n_hidden), nn.Tanh(),
                         nn.Linear(n_hidden, 1)).double()


def random_points(n, low, high):
    return (low + (high - low) * torch.rand(n, 1, dtype=torch.float64)).requires_grad_()


def even_points(n, low, high):
    return torch.linspace(low, high, n, dtype=torch.float64).unsqueeze(1)


def oscillator(n_steps):
    """u'' + u = 0 with u(0) = 1, u'(0) = 0: the cosine."""
    model = network(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    zero = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    for step in range(1, n_steps + 1):
        t = random_points(64, 0, math.pi)
        u = model(t)
        residual = derivative(derivative(u, t), t) + u
        start = model(zero)
        loss = (residual ** 2).mean() + (start - 1).square().sum() + derivative(start, zero).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(n_steps // 5, 1) == 0:
            print(f"oscillator, step {step:4d}  loss {loss.item():.8f}")
    with torch.no_grad():
        t = even_points(50, 0, math.pi)
        print(f"largest error {(model(t) - t.cos()).abs().max().item():.6f}")


def burgers(n_steps, viscosity=0.1):
    """u_t + u u_x = viscosity u_xx for x from -1 to 1, with u(0, x) = -sin(pi x) and u = 0 at the ends."""
    model = network(2)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=5, history_size=20, line_search_fn="strong_wolfe")
    t, x = random_points(128, 0, 1), random_points(128, -1, 1)
    place, time = even_points(32, -1, 1), even_points(16, 0, 1)
    edge = torch.ones_like(time)

    def loss_of():
        u = model(torch.cat([t, x], dim=1))
        u_x = derivative(u, x)
        residual = derivative(u, t) + u * u_x - viscosity * derivative(u_x, x)
        start = model(torch.cat([torch.zeros_like(place), place], dim=1)) + torch.sin(math.pi * place)
        ends = torch.cat([model(torch.cat([time, -edge], dim=1)), model(torch.cat([time, edge], dim=1))])
        return (residual ** 2).mean() + (start ** 2).mean() + (ends ** 2).mean()

    def closure():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    for step in range(1, n_steps + 1):
        loss = optimizer.step(closure)
        if step % max(n_steps // 5, 1) == 0:
            print(f"Burgers, step {step:4d}  loss {loss.item():.8f}")
    with torch.no_grad():
        middle = model(torch.tensor([[1, -0.5], [1, 0], [1, 0.5]], dtype=torch.float64)).squeeze(1)
    print("u(1, x) at -0.5, 0, 0.5:", " ".join(f"{v:.4f}" for v in middle.tolist()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    oscillator(options.steps)
    burgers(max(options.steps // 10, 1))


if __name__ == "__main__":
    main()
