"""Two networks against each other: a generator learns points on a ring of five blobs.

    flambeau run examples/gan.py          (or: python examples/gan.py, with PyTorch)

Goodfellow et al., 2014, arXiv:1406.2661, with the non-saturating loss of the generator. `detach()` keeps the
discriminator's step out of the generator; in the generator's own step the gradient passes through the discriminator,
whose parameters collect it too and forget it at their next `zero_grad()`.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

N_BLOBS = 5
N_NOISE = 8


def real_points(n):
    """Points (n, 2) of five narrow blobs on a circle of radius 2."""
    angle = torch.randint(N_BLOBS, (n,)) * (2 * math.pi / N_BLOBS)
    centre = 2 * torch.stack([angle.cos(), angle.sin()], dim=1)
    return centre + 0.1 * torch.randn(n, 2)


def network(n_in, n_out, n_hidden=64):
    return nn.Sequential(
        nn.Linear(n_in, n_hidden), nn.LeakyReLU(0.2),
        nn.Linear(n_hidden, n_hidden), nn.LeakyReLU(0.2),
        nn.Linear(n_hidden, n_out),
    )


def init_weights(module):
    if isinstance(module, nn.Linear):
        nn.init.kaiming_normal_(module.weight, a=0.2)
        nn.init.zeros_(module.bias)


@torch.no_grad()
def quality(generator, n=1000):
    """Share of points near a blob, and how many blobs have some."""
    angle = torch.arange(N_BLOBS) * (2 * math.pi / N_BLOBS)
    centres = 2 * torch.stack([angle.cos(), angle.sin()], dim=1)
    distance, blob = torch.cdist(generator(torch.randn(n, N_NOISE)), centres).min(dim=1)
    near = distance < 0.3
    return near.float().mean().item(), blob[near].unique().numel()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=128)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    generator = network(N_NOISE, 2).apply(init_weights)
    discriminator = network(2, 1).apply(init_weights)
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    ones, zeros = torch.ones(options.batch_size, 1), torch.zeros(options.batch_size, 1)

    for step in range(1, options.steps + 1):
        fake = generator(torch.randn(options.batch_size, N_NOISE))

        real_logits = discriminator(real_points(options.batch_size))
        fake_logits = discriminator(fake.detach())
        discriminator_loss = (F.binary_cross_entropy_with_logits(real_logits, ones)
                              + F.binary_cross_entropy_with_logits(fake_logits, zeros))
        discriminator_optimizer.zero_grad()
        discriminator_loss.backward()
        discriminator_optimizer.step()

        generator_loss = F.binary_cross_entropy_with_logits(discriminator(fake), ones)
        generator_optimizer.zero_grad()
        generator_loss.backward()
        generator_optimizer.step()

        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  discriminator {discriminator_loss.item():.5f}"
                  f"  generator {generator_loss.item():.5f}")

    near, n_blobs = quality(generator)
    print(f"{near:.3f} of the points lie near a blob, {n_blobs} of {N_BLOBS} blobs are found")


if __name__ == "__main__":
    main()
