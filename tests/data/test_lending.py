"""Shared memory of batches is used again only when nobody can see it any more."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

import flambeau
from flambeau.utils.data import DataLoader, Dataset
from flambeau.utils.data._lending import MOST_LENT, Borrower, Lender
from flambeau.utils.data._segment import AVAILABLE, Segment

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this system has no memory without a name: arrays are pickled")


class Images(Dataset):
    def __init__(self, n, sizes=(64,)):
        self.n, self.sizes = n, sizes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return flambeau.full((3, self.sizes[i % len(self.sizes)], 64), float(i))


def wholes(batch):
    return sorted({int(v) for v in batch.flatten().tolist()})


def test_batches_in_use_are_never_overwritten():
    kept, views = [], []
    for k, batch in enumerate(DataLoader(Images(60), 2, num_workers=2, persistent_workers=True)):
        assert wholes(batch) == [2 * k, 2 * k + 1]
        if k % 3 == 0:
            kept.append((k, batch))
        if k % 3 == 1:
            views.append((k, batch.numpy()[1:, :, ::2]))        # a view by NumPy keeps the memory too
        del batch
    for k, batch in kept:
        assert wholes(batch) == [2 * k, 2 * k + 1]
    for k, view in views:
        assert np.unique(view).tolist() == [2 * k + 1]


def test_batches_of_changing_sizes():
    loader = DataLoader(Images(40, (64, 20, 128, 32)), batch_size=None, num_workers=1)
    for i, image in enumerate(loader):
        assert wholes(image) == [i]
        assert image.shape == (3, (64, 20, 128, 32)[i % 4], 64)


def test_more_batches_are_kept_than_are_lent():
    batches = list(DataLoader(Images(3 * MOST_LENT), batch_size=None, num_workers=1))
    assert [wholes(b) for b in batches] == [[i] for i in range(3 * MOST_LENT)]


class Repeated(Dataset):
    """Sends the same memory again and again."""

    def __init__(self):
        self.sent = None

    def __len__(self):
        return 12

    def __getitem__(self, i):
        from flambeau.utils.data import _shared

        if self.sent is None:
            self.sent = flambeau.from_numpy(_shared.empty((100, 100), np.float32))
            self.sent.fill_(7.0)
        return self.sent


def test_memory_that_the_worker_keeps_is_not_lent_again():
    for batch in DataLoader(Repeated(), batch_size=None, num_workers=1):
        assert wholes(batch) == [7]


def test_dropped_memory_comes_back():
    lender, borrower = Lender(), Borrower()
    first = lender.allocate(10000)
    token, new = lender.lend(first)
    assert new
    a = np.ndarray((10,), np.float32, borrower.hold(token, first))
    view = a[2:].reshape(2, 4)
    del a
    assert borrower.take_finished() == []
    del view
    gc.collect()
    finished = borrower.take_finished()
    assert finished == [(token, True)]
    lender.give_back(finished)
    assert lender.free == [first]
    assert lender.allocate(9000) is first
    assert lender.lend(first) == (token, False)                # the main process has its mapping still
    assert lender.lend(first) == (None, True)                  # sent a second time: given away, and never used again
    lender.give_back([(token, True)])
    assert lender.free == []
    assert lender.take_forgotten() == [token]
    borrower.forget([token])
    assert borrower.maps == {}


def test_memory_that_a_forked_process_may_read_is_not_written():
    lender, borrower = Lender(), Borrower()
    segment = Segment.allocate(5000)
    token, _ = lender.lend(segment)
    buffer = borrower.hold(token, segment)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    del buffer
    finished = borrower.take_finished()
    assert finished == [(token, False)]
    lender.give_back(finished)
    assert lender.free == []


def test_memory_whose_arrays_the_worker_has_is_not_written():
    lender = Lender()
    segment = lender.allocate(5000)
    array = np.ndarray((4,), np.float32, segment.buffer())
    token, _ = lender.lend(segment)
    lender.give_back([(token, True)])
    assert lender.free == []
    del array


def test_sizes_that_fit_are_used_and_others_dropped():
    lender = Lender()
    lender.free = [Segment.allocate(100_000), Segment.allocate(1_000_000)]
    assert len(lender.allocate(600_000)) == 1_000_000
    assert len(lender.allocate(90_000)) == 100_000
    lender.free = [Segment.allocate(1_000_000)]
    assert len(lender.allocate(10_000)) == 10_000               # not a hundred times too large
    assert lender.free == []
