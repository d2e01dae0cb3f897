"""A two-layer network learns 8x8 digits.

    flambeau run examples/digits_mlp.py          (or: python examples/digits_mlp.py, with PyTorch)

The digits are those of `flambeau demo`: 1797 images, values 0 to 16. The last 360 are kept for testing.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DIGITS = Path(__file__).resolve().parent.parent / "src" / "flambeau" / "cli" / "digits.npz"

torch.manual_seed(0)
with np.load(DIGITS) as data:
    images = torch.from_numpy(data["images"].astype(np.float32)).flatten(1) / 16
    labels = torch.from_numpy(data["labels"].astype(np.int64))
train = TensorDataset(images[:-360], labels[:-360])
test_images, test_labels = images[-360:], labels[-360:]

model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
print(f"{sum(p.numel() for p in model.parameters())} parameters")

for epoch in range(5):
    model.train()
    total = 0.0
    for batch, targets in DataLoader(train, batch_size=64, shuffle=True):
        loss = criterion(model(batch), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)       # item(): a running total of tensors would keep every graph alive
    model.eval()                                # no dropout
    with torch.no_grad():                       # no graph
        n_right = (model(test_images).argmax(dim=1) == test_labels).sum().item()
    print(f"epoch {epoch + 1}  training loss {total / len(train):.3f}  test accuracy {n_right / len(test_labels):.3f}")
