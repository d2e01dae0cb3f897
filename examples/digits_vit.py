"""A vision Transformer on 8x8 digits: sixteen patches of 2x2 pixels and a class token.

    flambeau run examples/digits_vit.py          (or: python examples/digits_vit.py, with PyTorch)

Dosovitskiy et al., 2020, arXiv:2010.11929, with `nn.TransformerEncoder` for the blocks.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DIGITS = Path(__file__).resolve().parent.parent / "src" / "flambeau" / "cli" / "digits.npz"
N_TEST = 360


class ViT(nn.Module):
    """Images (N, 1, 8, 8) to logits (N, 10)."""

    def __init__(self, n_features=32, n_heads=4, n_blocks=2, patch=2):
        super().__init__()
        n_patches = (8 // patch) ** 2
        self.patches = nn.Conv2d(1, n_features, kernel_size=patch, stride=patch)    # a linear map of each patch
        self.class_token = nn.Parameter(torch.zeros(1, 1, n_features))
        self.position = nn.Parameter(0.02 * torch.randn(1, n_patches + 1, n_features))
        block = nn.TransformerEncoderLayer(n_features, n_heads, dim_feedforward=2 * n_features, dropout=0.1,
                                           activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(block, n_blocks, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(n_features), nn.Linear(n_features, 10))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)                              # (N, patches, D)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1) + self.position
        return self.head(self.encoder(x)[:, 0])


def load_digits():
    """Training and test sets: images (N, 1, 8, 8) from 0 to 1, labels (N,)."""
    with np.load(DIGITS) as data:
        images = torch.from_numpy(data["images"].astype(np.float32)).unsqueeze(1) / 16
        labels = torch.from_numpy(data["labels"].astype(np.int64))
    return (images[:-N_TEST], labels[:-N_TEST]), (images[-N_TEST:], labels[-N_TEST:])


def parameter_groups(model, weight_decay):
    """Weight decay for matrices only: not for biases, norms, tokens."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    (images, labels), (test_images, test_labels) = load_digits()
    model = ViT()
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.05), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.steps)
    print(f"{sum(p.numel() for p in model.parameters())} parameters")

    for step in range(1, options.steps + 1):
        chosen = torch.randperm(len(images))[:options.batch_size]
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  loss {loss.item():.5f}  rate {schedule.get_last_lr()[0]:.6f}")

    model.eval()
    with torch.no_grad():
        logits = model(test_images)
    accuracy = (logits.argmax(dim=1) == test_labels).float().mean().item()
    print(f"test loss {F.cross_entropy(logits, test_labels).item():.5f}  accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
