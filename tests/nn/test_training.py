"""A whole training loop: the same losses as PyTorch's for the same seed."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_training_loop(both, name):
    def run(lib):
        nn, data = lib.nn, lib.utils.data
        x = lib.randn(96, 8)
        y = (x[:, :3].sum(1) > 0).long()
        train, held = data.random_split(data.TensorDataset(x, y), [72, 24])
        net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
        loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
        options = {"momentum": 0.9} if name == "SGD" else {}
        opt = getattr(lib.optim, name)(net.parameters(), lr=0.02, **options)
        schedule = lib.optim.lr_scheduler.OneCycleLR(opt, 0.02, total_steps=9)
        seen = []
        for _ in range(3):
            net.train()
            for inputs, targets in data.DataLoader(train, 24, shuffle=True):
                opt.zero_grad()
                loss = loss_of(net(inputs), targets)
                loss.backward()
                seen.append([loss.item(), nn.utils.clip_grad_norm_(net.parameters(), 1.0), schedule.get_last_lr()])
                opt.step()
                schedule.step()
            net.eval()
            with lib.no_grad():
                seen.append(sum((net(a).argmax(1) == b).sum().item() for a, b in data.DataLoader(held, 10)))
        return seen

    both(run, 1e-4)
