"""A small network for the tests of this folder."""

from __future__ import annotations


def make_net(lib):
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = lib.nn.Linear(2, 3)
            self.rest = lib.nn.Sequential(lib.nn.Linear(3, 3), lib.nn.Tanh())

        def forward(self, x, times=1):
            return self.rest(self.first(x)) * times

    return Net()
