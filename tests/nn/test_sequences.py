"""nn.utils.rnn: padding of sequences."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("options", [{}, dict(batch_first=True), dict(padding_value=-1.5), dict(padding_side="left")])
def test_pad_sequence(both, options):
    def run(lib):
        parts = [lib.randn(n, 2, requires_grad=True) for n in (3, 1, 2)]
        out = lib.nn.utils.rnn.pad_sequence(parts, **options)
        (out**2).sum().backward()
        return [out, *(p.grad for p in parts)]

    both(run)
    both(lambda lib: lib.nn.utils.rnn.pad_sequence([lib.tensor([1, 2]), lib.tensor([3])], **options))


def test_unpad_sequence(both):
    def run(lib):
        rnn = lib.nn.utils.rnn
        padded = rnn.pad_sequence([lib.arange(n) for n in (3, 1, 2)])
        return rnn.unpad_sequence(padded, lib.tensor([3, 1, 2]))

    both(run)


def test_refused(both):
    both(lambda lib: lib.nn.utils.rnn.pad_sequence([]))
    both(lambda lib: lib.nn.utils.rnn.pad_sequence([lib.ones(1)], padding_side="top"))
