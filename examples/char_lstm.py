"""A character language model: an LSTM learns a rhyme by heart, and recites it.

    flambeau run examples/char_lstm.py          (or: python examples/char_lstm.py, with PyTorch)

The text is cut into parallel streams; the state is carried from piece to piece but detached, so that backward stops
at the piece's start (truncated backpropagation through time). `--cell gru` takes a GRU instead.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

TEXT = """\
one lamp lit the hall, two lamps lit the stair,
three lamps lit the garden and the cold night air,
four lamps down the river where the slow boats go,
five lamps on the mountain in the wind and snow.
who will carry oil to them, who will trim the flame?
the child who knows the number and the keeper's name.
"""


class CharModel(nn.Module):
    """Characters (N, L) to logits (N, L, n_characters), and the state to go on from."""

    def __init__(self, n_characters, cell="lstm", n_embedding=16, n_hidden=64, n_layers=2):
        super().__init__()
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
        self.embedding = nn.Embedding(n_characters, n_embedding)
        self.rnn = kind(n_embedding, n_hidden, n_layers, batch_first=True)
        self.head = nn.Linear(n_hidden, n_characters)

    def forward(self, x, state=None):
        h, state = self.rnn(self.embedding(x), state)
        return self.head(h), state


def detach(state):
    """The state's values without their history; an LSTM's state is a pair."""
    return tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()


@torch.no_grad()
def recite(model, characters, start, n, temperature=0.5):
    """`n` characters drawn one after the other."""
    index = {c: i for i, c in enumerate(characters)}
    x, state, out = torch.tensor([[index[c] for c in start]]), None, start
    for _ in range(n):
        logits, state = model(x, state)
        x = torch.multinomial(F.softmax(logits[:, -1] / temperature, dim=-1), 1)
        out += characters[x.item()]
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cell", choices=["lstm", "gru"], default="lstm")
    parser.add_argument("--length", type=int, default=24, help="characters between two updates")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    characters = sorted(set(TEXT))
    codes = torch.tensor([characters.index(c) for c in TEXT * 2])
    n_streams = 4
    streams = codes[:len(codes) // n_streams * n_streams].view(n_streams, -1)
    model = CharModel(len(characters), options.cell)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    print(f"{len(TEXT)} characters, {len(characters)} different;"
          f" {sum(p.numel() for p in model.parameters())} parameters")

    position, state = 0, None
    for step in range(1, options.steps + 1):
        if position + options.length >= streams.shape[1]:
            position, state = 0, None
        x = streams[:, position:position + options.length]
        target = streams[:, position + 1:position + 1 + options.length]
        logits, state = model(x, state)
        state = detach(state)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        position += options.length
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4d}  loss {loss.item():.5f}  perplexity {loss.exp().item():.4f}")

    model.eval()
    print(recite(model, characters, "one ", 50 if options.steps > 100 else 0))


if __name__ == "__main__":
    main()
