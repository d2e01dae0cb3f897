"""Contrastive learning: an embedding of digits in which the same digits lie close together.

    flambeau run examples/siamese.py          (or: python examples/siamese.py, with PyTorch)

Two losses: on pairs (Hadsell, Chopra and LeCun, 2006), and on a whole batch of matching pairs against each other
(InfoNCE; van den Oord et al., 2018, arXiv:1807.03748), with `--loss infonce`. Digits 6 to 9 are kept from training:
whether neighbours agree there tells if the embedding means anything.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DIGITS = Path(__file__).resolve().parent.parent / "src" / "flambeau" / "cli" / "digits.npz"


class Encoder(nn.Module):
    """Images (N, 1, 8, 8) to embeddings (N, n_embedding) of length 1."""

    def __init__(self, n_embedding=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, kernel_size=3, padding=1), nn.GroupNorm(2, 8), nn.PReLU(),
            nn.Conv2d(8, 16, kernel_size=3, stride=2, padding=1), nn.GroupNorm(2, 16), nn.PReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(16 * 4 * 4, n_embedding)

    def forward(self, x):
        return F.normalize(self.head(self.features(x)), dim=1)


class ContrastiveLoss(nn.Module):
    """Pulls pairs with `same` 1 together, pushes others apart up to a margin."""

    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, same):
        distance = F.pairwise_distance(a, b)
        return (same * distance ** 2 + (1 - same) * F.relu(self.margin - distance) ** 2).mean()


def info_nce(a, b, temperature=0.2):
    """Row i of a belongs to row i of b, and to no other."""
    logits = a @ b.T / temperature
    target = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))


def pairs(by_digit, n):
    """n images, n others, and whether they show the same digit: about every second pair does."""
    first = torch.randint(len(by_digit), (n,))
    second = torch.where(torch.rand(n) < 0.5, first, torch.randint(len(by_digit), (n,)))
    return draw(by_digit, first), draw(by_digit, second), (first == second).float()


def draw(by_digit, digits):
    """One random image of each of the digits given."""
    return torch.stack([by_digit[d][torch.randint(len(by_digit[d]), ()).item()] for d in digits.tolist()])


@torch.no_grad()
def neighbours_agree(encoder, images, labels):
    """Share of images whose nearest other image shows the same digit."""
    embedding = encoder(images)
    similarity = (embedding @ embedding.T).fill_diagonal_(-2)
    return (labels[similarity.argmax(dim=1)] == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loss", choices=["pairs", "infonce"], default="pairs")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    with np.load(DIGITS) as data:
        images = torch.from_numpy(data["images"].astype(np.float32)).unsqueeze(1) / 16
        labels = torch.from_numpy(data["labels"].astype(np.int64))
    by_digit = [images[labels == digit] for digit in range(6)]
    unseen = labels >= 6
    encoder, criterion = Encoder(), ContrastiveLoss()
    optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)
    print(f"before: neighbours agree {neighbours_agree(encoder, images[unseen], labels[unseen]):.3f}")

    for step in range(1, options.steps + 1):
        if options.loss == "pairs":
            a, b, same = pairs(by_digit, 32)
            loss = criterion(encoder(a), encoder(b), same)          # one encoder, twice: its gradients add up
        else:
            digits = torch.randperm(len(by_digit))
            loss = info_nce(encoder(draw(by_digit, digits)), encoder(draw(by_digit, digits)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  loss {loss.item():.6f}")
    print(f"after: neighbours agree {neighbours_agree(encoder, images[unseen], labels[unseen]):.3f}")


if __name__ == "__main__":
    main()
