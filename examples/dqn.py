"""Q-learning with a network: an agent learns the way through a small maze.

    flambeau run examples/dqn.py          (or: python examples/dqn.py, with PyTorch)

Mnih et al., 2015 (Nature 518), with the double estimate of van Hasselt et al., arXiv:1509.06461: a ring buffer of
past moves, a slowly following target network, exploration that fades. `--steps` counts updates.
"""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn

MAZE = ["S..#G",
        ".#.#.",
        ".#...",
        ".###.",
        "....."]
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]
N_CELLS = len(MAZE) * len(MAZE[0])


class Maze:
    """A walk from S to G. A move costs 0.02, one against a wall 0.1; the goal gives 1."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.row, self.column, self.n_moves = 0, 0, 0
        return self.observe()

    def observe(self):
        return self.row * len(MAZE[0]) + self.column

    def step(self, action):
        """Cell, reward, and whether the goal is reached; after 60 moves the caller lets the walk start again."""
        row, column = self.row + MOVES[action][0], self.column + MOVES[action][1]
        self.n_moves += 1
        if not (0 <= row < len(MAZE) and 0 <= column < len(MAZE[0])) or MAZE[row][column] == "#":
            return self.observe(), -0.1, False
        self.row, self.column = row, column
        at_goal = MAZE[row][column] == "G"
        return self.observe(), 1.0 if at_goal else -0.02, at_goal


class Replay:
    """The last `size` moves, in tensors."""

    def __init__(self, size):
        self.cell, self.action, self.next_cell = (torch.zeros(size, dtype=torch.long) for _ in range(3))
        self.reward, self.done = torch.zeros(size), torch.zeros(size)
        self.n = 0

    def add(self, *move):
        at = self.n % len(self.reward)
        columns = (self.cell, self.action, self.reward, self.next_cell, self.done)
        for column, value in zip(columns, move, strict=True):
            column[at] = value
        self.n += 1

    def sample(self, n):
        at = torch.randint(min(self.n, len(self.reward)), (n,))
        return self.cell[at], self.action[at], self.reward[at], self.next_cell[at], self.done[at]


class QNet(nn.Module):
    """Cells (N,) to values (N, 4) of the moves: one value of the cell plus one advantage a move."""

    def __init__(self, n_hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Embedding(N_CELLS, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_hidden), nn.ReLU())
        self.value = nn.Linear(n_hidden, 1)
        self.advantage = nn.Linear(n_hidden, len(MOVES))

    def forward(self, cell):
        h = self.body(cell)
        advantage = self.advantage(h)
        return self.value(h) + advantage - advantage.mean(dim=1, keepdim=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--moves", type=int, default=4, help="moves for one update")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    q = QNet()
    target_q = copy.deepcopy(q).requires_grad_(False)
    optimizer = torch.optim.RMSprop(q.parameters(), lr=1e-3, alpha=0.95, eps=1e-2, centered=True)
    maze, replay = Maze(), Replay(2000)
    cell, n_goals = maze.reset(), 0

    for step in range(1, options.steps + 1):
        exploration = max(0.1, 1 - 1.5 * step / options.steps)
        for _ in range(options.moves):
            if torch.rand(()).item() < exploration:
                action = torch.randint(len(MOVES), ()).item()
            else:
                with torch.no_grad():
                    action = q(torch.tensor([cell])).argmax().item()
            next_cell, reward, done = maze.step(action)
            replay.add(cell, action, reward, next_cell, float(done))
            n_goals += done
            cell = maze.reset() if done or maze.n_moves >= 60 else next_cell

        cells, actions, rewards, next_cells, dones = replay.sample(32)
        values = q(cells).gather(1, actions.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = q(next_cells).argmax(dim=1, keepdim=True)
            target = rewards + 0.95 * (1 - dones) * target_q(next_cells).gather(1, best).squeeze(1)
        loss = F.smooth_l1_loss(values, target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(q.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for p, target_p in zip(q.parameters(), target_q.parameters(), strict=True):
                target_p.lerp_(p, 0.05)
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  loss {loss.item():.6f}  mean value {values.mean().item():.5f}  goals {n_goals}")


if __name__ == "__main__":
    main()
