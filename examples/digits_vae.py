"""A variational autoencoder of 8x8 digits: two latent numbers an image.

    flambeau run examples/digits_vae.py          (or: python examples/digits_vae.py, with PyTorch)

Kingma and Welling, 2013, arXiv:1312.6114. The encoder gives mean and log variance of a normal distribution over the
latent code; a code is drawn as mean + deviation * noise, so that the gradient reaches both; the loss is the negative
of the evidence lower bound. The last lines draw digits decoded from a grid of codes.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DIGITS = Path(__file__).resolve().parent.parent / "src" / "flambeau" / "cli" / "digits.npz"
SHADES = " .:-=+*#%@"


class VAE(nn.Module):
    """Images (N, 64) from 0 to 1; codes (N, n_latent)."""

    def __init__(self, n_hidden=64, n_latent=2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, n_hidden), nn.Tanh())
        self.mean = nn.Linear(n_hidden, n_latent)
        self.log_variance = nn.Linear(n_hidden, n_latent)
        self.decoder = nn.Sequential(nn.Linear(n_latent, n_hidden), nn.Tanh(), nn.Linear(n_hidden, 64))

    def encode(self, x):
        h = self.encoder(x)
        return self.mean(h), self.log_variance(h)

    def decode(self, code):
        return self.decoder(code)

    def forward(self, x):
        mean, log_variance = self.encode(x)
        code = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decode(code), mean, log_variance


def negative_elbo(logits, x, mean, log_variance):
    """Reconstruction and Kullback-Leibler terms, each a mean over the batch, in nats."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    divergence = -0.5 * (1 + log_variance - mean ** 2 - log_variance.exp()).sum(dim=1).mean()
    return reconstruction, divergence


def show(images):
    """Images (rows, columns, 64) from 0 to 1 as text."""
    for row in images:
        for y in range(8):
            line = ["".join(SHADES[min(int(v * len(SHADES)), 9)] for v in image[8 * y:8 * y + 8]) for image in row]
            print("  ".join(line).rstrip())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", action="store_true", help="show digits decoded from a grid of codes")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    with np.load(DIGITS) as data:
        images = torch.from_numpy(data["images"].astype(np.float32)).flatten(1) / 16
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    for step in range(1, options.steps + 1):
        x = images[torch.randint(len(images), (64,))]
        logits, mean, log_variance = model(x)
        reconstruction, divergence = negative_elbo(logits, x, mean, log_variance)
        loss = reconstruction + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}"
                  f"  reconstruction {reconstruction.item():.4f}  divergence {divergence.item():.5f}")

    with torch.no_grad():
        mean, _ = model.encode(images)
        print("spread of the codes", " ".join(f"{v:.4f}" for v in mean.std(dim=0)))
        if options.draw:
            edge = torch.linspace(-1.5, 1.5, 6)
            grid = torch.stack(torch.meshgrid(edge, edge, indexing="ij"), dim=-1)
            show(torch.sigmoid(model.decode(grid)).tolist())


if __name__ == "__main__":
    main()
