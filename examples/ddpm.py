"""A diffusion model of a spiral: noise is taken away step by step.

    flambeau run examples/ddpm.py          (or: python examples/ddpm.py, with PyTorch)

Ho et al., 2020, arXiv:2006.11239. The network sees a point with noise added and the noise level, and predicts the
noise; generation starts from pure noise and removes the predicted noise, level by level. The weights used for it are
a running mean of the trained ones.
"""

import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

N_LEVELS = 40


def spiral(n):
    """Points (n, 2) along a spiral, spread about 1."""
    angle = 3 * math.pi * torch.rand(n).sqrt() + 0.5
    return torch.stack([angle * angle.cos(), angle * angle.sin()], dim=1) / 5 + 0.03 * torch.randn(n, 2)


class Schedule:
    """How much noise each level adds (beta), and what is left of the data after all levels to it (alpha_bar)."""

    def __init__(self):
        self.beta = torch.linspace(1e-3, 0.2, N_LEVELS)
        self.alpha = 1 - self.beta
        self.alpha_bar = torch.cumprod(self.alpha, dim=0)

    def add_noise(self, x, level, noise):
        kept = self.alpha_bar[level].unsqueeze(1)
        return kept.sqrt() * x + (1 - kept).sqrt() * noise


class Denoiser(nn.Module):
    """Points (N, 2) and levels (N,) to the noise in them (N, 2). The level scales and shifts each layer's features."""

    def __init__(self, n_hidden=64, n_waves=8):
        super().__init__()
        self.register_buffer("waves", torch.exp(torch.linspace(0, math.log(50.0), n_waves)))
        self.first = nn.Linear(2, n_hidden)
        self.layers = nn.ModuleList(nn.Linear(n_hidden, n_hidden) for _ in range(2))
        self.modulation = nn.ModuleList(nn.Linear(2 * n_waves, 2 * n_hidden) for _ in range(2))
        self.last = nn.Linear(n_hidden, 2)

    def forward(self, x, level):
        phase = level.unsqueeze(1) / N_LEVELS * self.waves
        level_features = torch.cat([phase.sin(), phase.cos()], dim=1)
        h = self.first(x)
        for layer, modulation in zip(self.layers, self.modulation, strict=True):
            scale, shift = modulation(level_features).chunk(2, dim=1)
            h = h + layer(F.silu(F.layer_norm(h, h.shape[1:]) * (1 + scale) + shift))
        return self.last(F.silu(h))


@torch.no_grad()
def generate(model, schedule, n):
    x = torch.randn(n, 2)
    for level in reversed(range(N_LEVELS)):
        noise = model(x, torch.full((n,), level))
        x = (x - schedule.beta[level] / (1 - schedule.alpha_bar[level]).sqrt() * noise) / schedule.alpha[level].sqrt()
        if level > 0:
            x = x + schedule.beta[level].sqrt() * torch.randn(n, 2)
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=256)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    model, schedule = Denoiser(), Schedule()
    mean_model = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    for step in range(1, options.steps + 1):
        x = spiral(options.batch_size)
        level = torch.randint(N_LEVELS, (options.batch_size,))
        noise = torch.randn_like(x)
        loss = F.mse_loss(model(schedule.add_noise(x, level, noise), level), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean_p, p in zip(mean_model.parameters(), model.parameters(), strict=True):
                mean_p.mul_(0.99).add_(p, alpha=0.01)
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  loss {loss.item():.5f}")

    points = generate(mean_model, schedule, 300)
    nearest = torch.cdist(points, spiral(2000)).min(dim=1).values
    print(f"mean distance from the spiral {nearest.mean().item():.4f}; of noise"
          f" {torch.cdist(torch.randn(300, 2), spiral(2000)).min(dim=1).values.mean().item():.4f}")


if __name__ == "__main__":
    main()
