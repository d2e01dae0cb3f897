"""Policy gradient: a cart learns to keep a pole upright.

    flambeau run examples/reinforce.py          (or: python examples/reinforce.py, with PyTorch)

REINFORCE (Williams, 1992) with a learned baseline. Many carts run side by side; `--steps` counts batches of runs.
The equations of motion are those of Barto, Sutton and Anderson, 1983, integrated with Euler's method.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

GRAVITY, CART_MASS, POLE_MASS, POLE_HALF_LENGTH, FORCE, TIME_STEP = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02


class Carts:
    """`n` carts at once. State (n, 4): place, speed, angle, angular speed. A run ends at 2.4 m or 12 degrees."""

    def __init__(self, n):
        self.state = torch.rand(n, 4) * 0.1 - 0.05
        self.alive = torch.ones(n, dtype=torch.bool)

    def step(self, action):
        """action (n,) of 0 (left) and 1 (right); returns which carts were still running, (n,)."""
        place, speed, angle, turning = self.state.unbind(dim=1)
        force = FORCE * (2.0 * action - 1.0)
        total = CART_MASS + POLE_MASS
        push = (force + POLE_MASS * POLE_HALF_LENGTH * turning ** 2 * angle.sin()) / total
        turning_rate = (GRAVITY * angle.sin() - angle.cos() * push) / (
            POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * angle.cos() ** 2 / total))
        acceleration = push - POLE_MASS * POLE_HALF_LENGTH * turning_rate * angle.cos() / total
        self.state = torch.stack([place + TIME_STEP * speed, speed + TIME_STEP * acceleration,
                                  angle + TIME_STEP * turning, turning + TIME_STEP * turning_rate], dim=1)
        was_alive = self.alive
        self.alive = was_alive & (self.state[:, 0].abs() < 2.4) & (self.state[:, 2].abs() < 0.209)
        return was_alive


class Policy(nn.Module):
    """Logits (n, 2) of the actions and a guess (n,) of the return."""

    def __init__(self, n_hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, n_hidden), nn.Tanh())
        self.actor = nn.Linear(n_hidden, 2)
        self.baseline = nn.Linear(n_hidden, 1)

    def forward(self, state):
        h = self.body(state)
        return self.actor(h), self.baseline(h).squeeze(1)


def returns(rewards, discount):
    """Discounted sums of later rewards, (T, n)."""
    out, later = [], torch.zeros_like(rewards[0])
    for reward in reversed(rewards):
        later = reward + discount * later
        out.append(later)
    return torch.stack(out[::-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--carts", type=int, default=16)
    parser.add_argument("--longest", type=int, default=100, help="time steps after which a run is stopped")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-2)

    for step in range(1, options.steps + 1):
        carts = Carts(options.carts)
        log_probs, baselines, rewards, entropies = [], [], [], []
        while carts.alive.any() and len(rewards) < options.longest:
            logits, baseline = policy(carts.state)
            log_prob = F.log_softmax(logits, dim=1)
            action = torch.multinomial(log_prob.detach().exp(), 1)
            was_alive = carts.step(action.squeeze(1))
            log_probs.append(log_prob.gather(1, action).squeeze(1))
            entropies.append(-(log_prob.exp() * log_prob).sum(dim=1))
            baselines.append(baseline)
            rewards.append(was_alive.float())

        mask = torch.stack(rewards)                                 # a reward of 1 for each time step survived
        target = returns(rewards, discount=0.98)
        baseline = torch.stack(baselines)
        advantage = (target - baseline).detach()
        policy_loss = -(torch.stack(log_probs) * advantage * mask).sum() / mask.sum()
        baseline_loss = (F.smooth_l1_loss(baseline, target, reduction="none") * mask).sum() / mask.sum()
        entropy = (torch.stack(entropies) * mask).sum() / mask.sum()
        loss = policy_loss + 0.5 * baseline_loss - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 1 or step % max(options.steps // 10, 1) == 0:
            print(f"step {step:3d}  loss {loss.item():.5f}  entropy {entropy.item():.5f}"
                  f"  mean survival {mask.sum(dim=0).mean().item():.2f}")


if __name__ == "__main__":
    main()
