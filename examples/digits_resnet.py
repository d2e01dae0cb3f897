"""A residual network with batch normalisation on 8x8 digits; saved, loaded and evaluated.

    flambeau run examples/digits_resnet.py          (or: python examples/digits_resnet.py, with PyTorch)

He et al., 2015, arXiv:1512.03385. In training a batch is normalised by its own mean and variance, and their running
means are kept as buffers; in evaluation those are used. They travel in the state dict with the weights.
"""

import argparse
import io
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DIGITS = Path(__file__).resolve().parent.parent / "src" / "flambeau" / "cli" / "digits.npz"
N_TEST = 360


class Residual(nn.Module):
    """x + f(x); where the shape changes, x goes through a 1x1 convolution."""

    def __init__(self, n_in, n_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, kernel_size=3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, kernel_size=3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(n_out)
        self.shortcut = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(nn.Conv2d(n_in, n_out, kernel_size=1, stride=stride, bias=False),
                                          nn.BatchNorm2d(n_out))

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)), inplace=True)
        h = self.norm2(self.conv2(h))
        h += self.shortcut(x)
        return F.relu(h, inplace=True)


def resnet(width=8):
    """Images (N, 1, 8, 8) to logits (N, 10)."""
    model = nn.Sequential(
        nn.Conv2d(1, width, kernel_size=3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
        Residual(width, width),
        Residual(width, 2 * width, stride=2),
        Residual(2 * width, 4 * width, stride=2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10),
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, Residual):
            nn.init.zeros_(module.norm2.weight)         # every block starts as the identity
    return model


@torch.no_grad()
def evaluate(model, images, labels):
    model.eval()
    logits = model(images)
    return F.cross_entropy(logits, labels).item(), (logits.argmax(dim=1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    with np.load(DIGITS) as data:
        images = torch.from_numpy(data["images"].astype(np.float32)).unsqueeze(1) / 16
        labels = torch.from_numpy(data["labels"].astype(np.int64))
    model = resnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [options.steps // 2, options.steps * 3 // 4], gamma=0.2)
    print(f"{sum(p.numel() for p in model.parameters())} parameters")

    for step in range(1, options.steps + 1):
        chosen = torch.randint(len(images) - N_TEST, (options.batch_size,))
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  loss {loss.item():.5f}  rate {optimizer.param_groups[0]['lr']:.5f}")

    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = resnet()
    again.load_state_dict(torch.load(file))
    for name, copy in (("trained", model), ("loaded", again)):
        loss, accuracy = evaluate(copy, images[-N_TEST:], labels[-N_TEST:])
        print(f"{name}: test loss {loss:.5f}  accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
