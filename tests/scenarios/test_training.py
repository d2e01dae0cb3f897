"""Scenarios 21 to 25: small trainings, whose losses are PyTorch's at every step."""

from __future__ import annotations

import pytest


def test_linear_regression_by_hand(both):
    def program(torch):
        x = torch.randn(20, 3)
        y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3 + 0.01 * torch.randn(20)
        w, b = torch.zeros(3, requires_grad=True), torch.zeros(1, requires_grad=True)
        losses = []
        for _ in range(10):
            loss = ((x @ w + b - y) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                for p in (w, b):
                    p -= 0.1 * p.grad
                    p.grad = None
            losses.append(f"{loss.item():.4f}")
        return losses

    both(program)


def steps(torch, model, x, y, loss_fn, optimizer, n=4):
    losses = []
    for _ in range(n):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def small_cnn(torch):
    nn = torch.nn
    # No bias before the normalisation: its gradient is rounding noise, of which Adam makes whole steps
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(4, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(6, 3))


def test_a_convolutional_network(both):
    def program(torch):
        model = small_cnn(torch)
        x, y = torch.randn(8, 1, 10, 10), torch.randint(0, 3, (8,))
        losses = steps(torch, model, x, y, torch.nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=0.01))
        model.eval()
        with torch.no_grad():
            return losses, model(x), model[1].running_mean, model[1].num_batches_tracked

    both(program, rel=1e-4)


def test_a_residual_network(both):
    def program(torch):
        nn = torch.nn

        class Block(nn.Module):
            def __init__(self, channels, out, stride):
                super().__init__()
                self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
                self.bn1 = nn.BatchNorm2d(out)
                self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
                self.bn2 = nn.BatchNorm2d(out)
                self.down = nn.Conv2d(channels, out, 1, stride, bias=False) if stride > 1 else nn.Identity()
                self.relu = nn.ReLU(inplace=True)

            def forward(self, x):
                out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
                out += self.down(x)
                return self.relu(out)

        model = nn.Sequential(Block(3, 3, 1), Block(3, 6, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)
        return steps(torch, model, torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 1, 0]), nn.CrossEntropyLoss(), optimizer)

    both(program, rel=1e-4)


def test_a_transformer_block_written_out(both):
    def program(torch):
        nn, F = torch.nn, torch.nn.functional

        class Block(nn.Module):
            def __init__(self, width, heads):
                super().__init__()
                self.heads = heads
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

            def forward(self, x):
                n, length, width = x.shape
                q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
                scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
                mask = torch.ones(length, length, dtype=torch.bool).tril()
                weights = F.softmax(scores.masked_fill(~mask, float("-inf")), -1)
                x = x + self.out((weights @ v).transpose(1, 2).reshape(n, length, width))
                return x + self.mlp(self.norm2(x))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
                self.blocks = nn.ModuleList([Block(8, 2) for _ in range(2)])
                self.head = nn.Linear(8, 11, bias=False)
                self.head.weight = self.tokens.weight

            def forward(self, t):
                x = self.tokens(t) + self.places(torch.arange(t.shape[1]))
                for block in self.blocks:
                    x = block(x)
                return self.head(x)

        model = Model()
        t = torch.randint(0, 11, (3, 6))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        return steps(torch, model, t[:, :-1], t[:, 1:].reshape(-1), lambda out, y: F.cross_entropy(out.reshape(-1, 11), y),
                     optimizer)

    both(program, rel=1e-4)


def test_a_recurrent_language_model_with_cells(both):
    def program(torch):
        nn = torch.nn
        embed, cell, head = nn.Embedding(7, 5), nn.LSTMCell(5, 6), nn.Linear(6, 7)
        parameters = [p for m in (embed, cell, head) for p in m.parameters()]
        optimizer = torch.optim.RMSprop(parameters, lr=0.01)
        text = torch.randint(0, 7, (2, 8))
        losses = []
        for _ in range(3):
            h = c = torch.zeros(2, 6)
            loss = 0.0
            for t in range(7):
                h, c = cell(embed(text[:, t]), (h, c))
                loss = loss + nn.functional.cross_entropy(head(h), text[:, t + 1])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
            losses.append(loss.item())
        return losses

    both(program, rel=1e-4)


def test_groups_without_decay_and_a_warm_up(both):
    def program(torch):
        model = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
        decay = [p for n, p in model.named_parameters() if p.dim() > 1 and not n.startswith("0")]
        plain = [p for n, p in model.named_parameters() if p.dim() <= 1]
        optimizer = torch.optim.AdamW([
            {"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0},
            {"params": model[0].parameters(), "weight_decay": 0.01, "lr": 0.002}], lr=0.01)
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
        rest = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
        scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, rest], [3])
        rates = []
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.tensor([0, 1, 3])).pow(2).sum().backward()
            optimizer.step()
            rates.append([g["lr"] for g in optimizer.param_groups])
            scheduler.step()
        return rates, model.state_dict()

    both(program, rel=1e-4)


def test_an_l2_penalty_by_hand_equals_weight_decay_for_sgd(both):
    def program(torch):
        results = []
        for by_hand in (True, False):
            torch.manual_seed(1)
            model = torch.nn.Linear(3, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.0 if by_hand else 0.05)
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(torch.ones(4, 3)).pow(2).mean()
                if by_hand:
                    loss = loss + 0.05 / 2 * sum(p.pow(2).sum() for p in model.parameters())
                loss.backward()
                optimizer.step()
            results.append(model.weight.detach().clone())
        return results, torch.allclose(*results, atol=1e-6)

    assert both(program)[1] is True


@pytest.mark.parametrize("balance", ["sum", "norms"])
def test_several_tasks_on_one_trunk(both, balance):
    def program(torch):
        trunk, heads = torch.nn.Linear(4, 6), [torch.nn.Linear(6, 1), torch.nn.Linear(6, 1)]
        x = torch.randn(8, 4)
        features = trunk(x).tanh()
        losses = [(head(features) - 1 - i).pow(2).mean() for i, head in enumerate(heads)]
        if balance == "sum":
            sum(losses).backward()
            return trunk.weight.grad
        grads = [torch.autograd.grad(loss, trunk.weight, retain_graph=True)[0] for loss in losses]
        norms = [g.norm() for g in grads]
        weights = [sum(norms) / (2 * n) for n in norms]
        sum(w.detach() * loss for w, loss in zip(weights, losses, strict=True)).backward()
        return norms, trunk.weight.grad

    both(program)


def test_a_gan_alternates_with_detach(both):
    def program(torch):
        nn, F = torch.nn, torch.nn.functional
        gen = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        dis = nn.Sequential(nn.Linear(1, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
        opt_g = torch.optim.Adam(gen.parameters(), lr=0.01, betas=(0.5, 0.999))
        opt_d = torch.optim.Adam(dis.parameters(), lr=0.01, betas=(0.5, 0.999))
        log = []
        for _ in range(3):
            real, fake = torch.randn(6, 1) + 3, gen(torch.randn(6, 2))
            opt_d.zero_grad()
            loss_d = (F.binary_cross_entropy_with_logits(dis(real), torch.ones(6, 1))
                      + F.binary_cross_entropy_with_logits(dis(fake.detach()), torch.zeros(6, 1)))
            loss_d.backward()
            untouched = all(p.grad is None for p in gen.parameters()) if not log else None
            opt_d.step()
            opt_g.zero_grad()
            loss_g = F.binary_cross_entropy_with_logits(dis(fake), torch.ones(6, 1))
            loss_g.backward()
            opt_g.step()
            log.append((loss_d.item(), loss_g.item(), untouched))
        return log

    both(program, rel=1e-4)


def test_a_variational_autoencoder(both):
    def program(torch):
        nn, F = torch.nn, torch.nn.functional
        encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
        parameters = [*encoder.parameters(), *decoder.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=0.01)
        x = torch.rand(5, 6)
        losses = []
        for _ in range(3):
            mean, log_var = encoder(x).chunk(2, dim=1)
            z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
            kl = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).sum()
            loss = F.binary_cross_entropy(decoder(z).sigmoid(), x, reduction="sum") + kl
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    both(program, rel=1e-4)


def test_policy_gradient_and_q_learning(both):
    def program(torch):
        F = torch.nn.functional
        policy, value = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        target = torch.nn.Linear(3, 2)
        target.load_state_dict(value.state_dict())
        states = torch.randn(6, 3)
        probabilities = F.softmax(policy(states), -1)
        actions = torch.multinomial(probabilities, 1).squeeze(1)
        rewards = torch.arange(6.0)
        picked = probabilities.gather(1, actions.unsqueeze(1)).squeeze(1)
        (-(picked.log() * (rewards - rewards.mean()))).mean().backward()
        q = value(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            goal = rewards + 0.9 * target(states.roll(-1, 0)).max(1).values
        F.smooth_l1_loss(q, goal).backward()
        return actions, policy.weight.grad, value.weight.grad, target.weight.grad

    both(program)


def test_contrastive_learning(both):
    def program(torch):
        F = torch.nn.functional
        net = torch.nn.Linear(5, 3)
        a, b = F.normalize(net(torch.randn(6, 5)), dim=1), F.normalize(net(torch.randn(6, 5)), dim=1)
        logits = a @ b.t() / 0.1
        labels = torch.arange(6)
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        loss.backward()
        return loss, net.weight.grad

    both(program)


def test_a_diffusion_step(both):
    def program(torch):
        betas = torch.linspace(1e-4, 0.02, 10)
        kept = torch.cumprod(1 - betas, 0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.SiLU(), torch.nn.Linear(16, 2))
        x, t = torch.randn(7, 2), torch.randint(0, 10, (7,))
        noise = torch.randn_like(x)
        noisy = kept[t].sqrt()[:, None] * x + (1 - kept[t]).sqrt()[:, None] * noise
        loss = torch.nn.functional.mse_loss(net(torch.cat([noisy, t[:, None] / 10], 1)), noise)
        loss.backward()
        return loss, [p.grad for p in net.parameters()]

    both(program)


def test_batches_of_a_data_loader(both):
    def program(torch):
        data = torch.utils.data.TensorDataset(torch.arange(10.0).unsqueeze(1), torch.arange(10))
        generator = torch.Generator().manual_seed(3)
        loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, drop_last=True, generator=generator)
        return [[(x, y) for x, y in loader] for _ in range(2)], len(loader)

    both(program)
