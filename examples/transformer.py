"""A small decoder-only Transformer learns to sort digits.

    flambeau run examples/transformer.py          (or: python examples/transformer.py, with PyTorch)

Vaswani et al., 2017, arXiv:1706.03762, with the norms before the blocks. A sequence is eight random digits followed
by the same digits in order; the model reads it from the left and predicts each next digit. Only the second half can
be known, so only that is in the loss.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

N_DIGITS = 10
LENGTH = 8


class SelfAttention(nn.Module):
    """Causal attention over (N, L, D), with several heads."""

    def __init__(self, n_features, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(n_features, 3 * n_features)
        self.out = nn.Linear(n_features, n_features)

    def forward(self, x):
        n, length, n_features = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)   # each (N, heads, L, D)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        later = torch.ones(length, length, dtype=torch.bool).triu(diagonal=1)
        weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, length, n_features))


class Block(nn.Module):
    def __init__(self, n_features, n_heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(n_features)
        self.attention = SelfAttention(n_features, n_heads)
        self.norm2 = nn.LayerNorm(n_features)
        self.mlp = nn.Sequential(nn.Linear(n_features, 4 * n_features), nn.GELU(), nn.Linear(4 * n_features, n_features))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """Digits (N, L) to logits (N, L, 10) of the digits that follow."""

    def __init__(self, n_features=48, n_heads=4, n_blocks=2):
        super().__init__()
        self.token = nn.Embedding(N_DIGITS, n_features)
        self.position = nn.Embedding(2 * LENGTH, n_features)
        self.blocks = nn.ModuleList(Block(n_features, n_heads) for _ in range(n_blocks))
        self.norm = nn.LayerNorm(n_features)
        self.head = nn.Linear(n_features, N_DIGITS, bias=False)
        self.head.weight = self.token.weight                    # one matrix for both ends
        nn.init.normal_(self.token.weight, std=0.05)

    def forward(self, x):
        h = self.token(x) + self.position(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def sequences(n):
    digits = torch.randint(N_DIGITS, (n, LENGTH))
    return torch.cat([digits, digits.sort(dim=1).values], dim=1)


@torch.no_grad()
def sort_with(model, digits):
    """The model's own continuation of digits (N, 8), most likely digit after most likely digit."""
    for _ in range(LENGTH):
        digits = torch.cat([digits, model(digits)[:, -1:].argmax(dim=-1)], dim=1)
    return digits[:, LENGTH:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    print(f"{sum(p.numel() for p in model.parameters())} parameters")

    for step in range(1, options.steps + 1):
        x = sequences(options.batch_size)
        logits = model(x[:, :-1])
        loss = F.cross_entropy(logits[:, LENGTH - 1:].flatten(0, 1), x[:, LENGTH:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warm_up.step()
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  loss {loss.item():.5f}")

    x = sequences(100)
    right = sort_with(model, x[:, :LENGTH]) == x[:, LENGTH:]
    print(f"digits at the right place {right.float().mean().item():.3f}, whole sequences {right.all(dim=1).sum()} of 100")


if __name__ == "__main__":
    main()
