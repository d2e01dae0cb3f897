"""A convolutional network learns 8x8 digits, with augmentation, weight decay and a one-cycle learning rate.

    flambeau run examples/digits_cnn.py          (or: python examples/digits_cnn.py, with PyTorch)

Counts optimizer steps rather than epochs, so that `--steps 20` is a quick look and `--steps 600` a whole training.
"""

import argparse
import itertools
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DIGITS = Path(__file__).resolve().parent.parent / "src" / "flambeau" / "cli" / "digits.npz"
N_TEST = 360


class Net(nn.Module):
    """Two convolutions with pooling, then two linear layers: (N, 1, 8, 8) to logits (N, 10)."""

    def __init__(self, n_channels=16, n_hidden=64):
        super().__init__()
        self.conv1 = nn.Conv2d(1, n_channels, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(n_channels, 2 * n_channels, kernel_size=3, padding=1)
        self.dropout = nn.Dropout(0.2)
        self.hidden = nn.Linear(2 * n_channels * 4, n_hidden)
        self.head = nn.Linear(n_hidden, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.hidden(self.dropout(x.flatten(1))))
        return self.head(x)


def load_digits():
    """Training and test sets: images (N, 1, 8, 8) from 0 to 1, labels (N,)."""
    with np.load(DIGITS) as data:
        images = torch.from_numpy(data["images"].astype(np.float32)).unsqueeze(1) / 16
        labels = torch.from_numpy(data["labels"].astype(np.int64))
    return (images[:-N_TEST], labels[:-N_TEST]), (images[-N_TEST:], labels[-N_TEST:])


def shift(images):
    """Each batch moved by up to one pixel in both directions, zeros moving in."""
    down, right = torch.randint(0, 3, (2,)).tolist()
    return F.pad(images, (1, 1, 1, 1))[:, :, down:down + 8, right:right + 8]


@torch.no_grad()
def evaluate(model, images, labels):
    """Mean loss and accuracy, with dropout off."""
    model.eval()
    logits = model(images)
    model.train()
    return F.cross_entropy(logits, labels).item(), (logits.argmax(dim=1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    train, test = load_digits()
    loader = DataLoader(TensorDataset(*train), batch_size=options.batch_size, shuffle=True, drop_last=True)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=options.steps + 1)
    print(f"{sum(p.numel() for p in model.parameters())} parameters")

    batches = itertools.chain.from_iterable(itertools.repeat(loader))       # epoch after epoch
    for step, (images, labels) in enumerate(itertools.islice(batches, options.steps), start=1):
        loss = F.cross_entropy(model(shift(images)), labels, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if step % max(options.steps // 10, 1) == 0:
            rate = schedule.get_last_lr()[0]
            print(f"step {step:4d}  loss {loss.item():.5f}  gradient norm {norm.item():.4f}  rate {rate:.6f}")

    loss, accuracy = evaluate(model, *test)
    print(f"test loss {loss:.5f}  accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
