"""A Wasserstein GAN with gradient penalty: a derivative inside the loss.

    flambeau run examples/wgan_gp.py          (or: python examples/wgan_gp.py, with PyTorch)

Gulrajani et al., 2017, arXiv:1704.00028. The critic should have slope 1 between real and generated points. Its slope
is itself a gradient, so the penalty on it needs the derivative of a derivative: `create_graph=True`.
"""

import argparse

import torch
from torch import autograd, nn

N_NOISE = 4


def real_points(n):
    """Points (n, 2) of two interleaved half circles."""
    angle = torch.rand(n) * torch.pi
    side = torch.randint(0, 2, (n,)).float()
    x = torch.cos(angle) * (1 - 2 * side) + side
    y = torch.sin(angle) * (1 - 2 * side) + 0.5 * side
    return torch.stack([x, y], dim=1) + 0.05 * torch.randn(n, 2)


class Generator(nn.Module):
    def __init__(self, n_hidden=64):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(N_NOISE, n_hidden), nn.ReLU(inplace=True),
            nn.Linear(n_hidden, n_hidden), nn.ReLU(inplace=True),
            nn.Linear(n_hidden, 2),
        )

    def forward(self, noise):
        return self.layers(noise)


class Critic(nn.Module):
    """A score (N,) of points (N, 2): no sigmoid, any real number."""

    def __init__(self, n_hidden=64):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, n_hidden), nn.SiLU(),
            nn.Linear(n_hidden, n_hidden), nn.SiLU(),
            nn.Linear(n_hidden, 1),
        )

    def forward(self, x):
        return self.layers(x).squeeze(1)


def gradient_penalty(critic, real, fake):
    """Mean of (slope - 1)^2 at random points on the lines from real to fake."""
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * fake).requires_grad_()
    scores = critic(between)
    (slope,) = autograd.grad(scores, between, grad_outputs=torch.ones_like(scores), create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--critic-steps", type=int, default=5, help="steps of the critic for one of the generator")
    parser.add_argument("--penalty", type=float, default=1.0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    generator, critic = Generator(), Critic()
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))

    for step in range(1, options.steps + 1):
        for _ in range(options.critic_steps):
            real = real_points(options.batch_size)
            with torch.no_grad():
                fake = generator(torch.randn(options.batch_size, N_NOISE))
            distance = critic(real).mean() - critic(fake).mean()
            penalty = gradient_penalty(critic, real, fake)
            critic_optimizer.zero_grad(set_to_none=True)
            (options.penalty * penalty - distance).backward()
            critic_optimizer.step()

        critic.requires_grad_(False)        # the generator's step: no gradients for the critic
        generator_loss = -critic(generator(torch.randn(options.batch_size, N_NOISE))).mean()
        generator_optimizer.zero_grad(set_to_none=True)
        generator_loss.backward()
        generator_optimizer.step()
        critic.requires_grad_(True)

        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  distance {distance.item():.5f}  penalty {penalty.item():.6f}"
                  f"  generator {generator_loss.item():.5f}")

    with torch.no_grad():
        fake = generator(torch.randn(2000, N_NOISE))
        real = real_points(2000)
    means = zip(fake.mean(dim=0), real.mean(dim=0), strict=True)
    print("mean of the points", "  ".join(f"{ours:.3f} (should be {true:.3f})" for ours, true in means))


if __name__ == "__main__":
    main()
