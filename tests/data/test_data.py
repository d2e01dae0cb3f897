"""Data sets, samplers and the loader: the same batches for the same seed."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

Point = namedtuple("Point", ["x", "y"])


def data(lib):
    return lib.utils.data.TensorDataset(lib.arange(10), lib.arange(10.0))


def stream(lib, n=7):
    class Stream(lib.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(n))

    return Stream()


LOADERS = {
    "shuffled": lambda lib, D: D.DataLoader(data(lib), batch_size=4, shuffle=True),
    "in order": lambda lib, D: D.DataLoader(data(lib), batch_size=4),
    "drop last": lambda lib, D: D.DataLoader(data(lib), batch_size=4, drop_last=True),
    "one by one": lambda lib, D: D.DataLoader(data(lib), batch_size=None, shuffle=True),
    "own generator": lambda lib, D: D.DataLoader(data(lib), batch_size=4, shuffle=True,
                                                 generator=lib.Generator().manual_seed(5)),
    "weighted": lambda lib, D: D.DataLoader(data(lib), batch_size=4,
                                            sampler=D.WeightedRandomSampler([0.1] * 5 + [0.9] * 5, 8)),
    "subset sampler": lambda lib, D: D.DataLoader(data(lib), batch_size=2,
                                                  sampler=D.SubsetRandomSampler([3, 4, 5])),
    "batch sampler": lambda lib, D: D.DataLoader(data(lib), batch_sampler=[[1, 2], [5], [7, 8, 9]]),
    "subset": lambda lib, D: D.DataLoader(D.Subset(data(lib), [5, 3, 1]), batch_size=2),
    "concatenated": lambda lib, D: D.DataLoader(data(lib) + data(lib), batch_size=15),
    "stacked": lambda lib, D: D.DataLoader(D.StackDataset(a=data(lib), b=list(range(10))), batch_size=5),
    "stacked tuple": lambda lib, D: D.DataLoader(D.StackDataset(data(lib), list(range(10))), batch_size=5),
    "collate_fn": lambda lib, D: D.DataLoader(data(lib), batch_size=4, collate_fn=len),
    "stream": lambda lib, D: D.DataLoader(stream(lib), batch_size=3),
    "stream, drop last": lambda lib, D: D.DataLoader(stream(lib), batch_size=3, drop_last=True),
    "stream one by one": lambda lib, D: D.DataLoader(stream(lib), batch_size=None),
    "chained": lambda lib, D: D.DataLoader(stream(lib) + stream(lib), batch_size=4),
    "list": lambda lib, D: D.DataLoader([1.0, 2.0, 3.0], batch_size=2),
    "arrays": lambda lib, D: D.DataLoader([np.ones(2), np.zeros(2)], batch_size=2),
    "array numbers": lambda lib, D: D.DataLoader(np.arange(3), batch_size=2),
    "array alone": lambda lib, D: D.DataLoader(np.arange(3), batch_size=None),
    "bools": lambda lib, D: D.DataLoader([True, False], batch_size=2),
    "pin_memory": lambda lib, D: D.DataLoader(data(lib), batch_size=10, pin_memory=True),
}


@pytest.mark.parametrize("name", LOADERS)
def test_batches_and_random_stream(both, name):
    def run(lib):
        loader = LOADERS[name](lib, lib.utils.data)
        return [list(loader), list(loader), lib.rand(1)]

    both(run)


@pytest.mark.parametrize("name", [n for n in LOADERS if "stream" not in n and "chained" not in n])
def test_length(both, name):
    both(lambda lib: len(LOADERS[name](lib, lib.utils.data)))


SAMPLERS = {
    "random": lambda lib, D, g: D.RandomSampler(data(lib), generator=g),
    "replacement": lambda lib, D, g: D.RandomSampler(data(lib), replacement=True, num_samples=70,
                                                     generator=g),
    "replacement, whole": lambda lib, D, g: D.RandomSampler(data(lib), replacement=True, num_samples=64,
                                                            generator=g),
    "more samples": lambda lib, D, g: D.RandomSampler(data(lib), num_samples=23, generator=g),
    "twice": lambda lib, D, g: D.RandomSampler(data(lib), num_samples=20, generator=g),
    "weighted": lambda lib, D, g: D.WeightedRandomSampler([0.1, 0.2, 0.7], 10, generator=g),
    "weighted without replacement": lambda lib, D, g: D.WeightedRandomSampler(
        [0.1, 0.2, 0.7], 3, False, generator=g),
    "subset": lambda lib, D, g: D.SubsetRandomSampler([3, 4, 5], generator=g),
    "sequential": lambda lib, D, g: D.SequentialSampler(data(lib)),
    "batches": lambda lib, D, g: D.BatchSampler(D.SequentialSampler(data(lib)), 3, False),
    "batches, drop last": lambda lib, D, g: D.BatchSampler(range(10), 3, True),
    "distributed": lambda lib, D, g: D.DistributedSampler(data(lib), num_replicas=3, rank=1, seed=2),
    "distributed, drop last": lambda lib, D, g: D.DistributedSampler(data(lib), 3, 2, shuffle=False,
                                                                     drop_last=True),
}


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers(both, name, own):
    def run(lib):
        g = lib.Generator().manual_seed(5) if own else None
        sampler = SAMPLERS[name](lib, lib.utils.data, g)
        return [list(sampler), list(sampler), len(sampler), lib.rand(1),
                lib.rand(1, generator=g) if own else 0]

    both(run)


@pytest.mark.parametrize("lengths", [[3, 7], [0.33, 0.33, 0.34], [0.5, 0.5], [10], [3, 3], [0.5, 0.6],
                                     [0.01, 0.99]])
def test_random_split(both, lengths):
    both(lambda lib: [s.indices for s in lib.utils.data.random_split(data(lib), lengths)])
    both(lambda lib: [s.indices for s in lib.utils.data.random_split(data(lib), lengths,
                                                                     lib.Generator().manual_seed(3))])


BATCHES = {
    "dicts": lambda lib: [{"a": 1, "b": [1.0, lib.ones(2)]}, {"a": 2, "b": [2.0, lib.zeros(2)]}],
    "words": lambda lib: ["a", "b"], "pairs": lambda lib: [(1, 2.0), (3, 4.0)],
    "named": lambda lib: [Point(1, 2.0), Point(3, 4.0)],
    "scalars": lambda lib: [np.float32(1), np.float32(2)],
    "objects": lambda lib: [object()], "None": lambda lib: [None], "ragged": lambda lib: [[1], [1, 2]],
    "words in arrays": lambda lib: [np.array(["a"])], "shapes": lambda lib: [lib.ones(2), lib.ones(3)],
    "nothing": lambda lib: [], "bytes": lambda lib: [b"a", b"b"],
}


@pytest.mark.parametrize("name", BATCHES)
def test_default_collate(both, name):
    both(lambda lib: lib.utils.data.default_collate(BATCHES[name](lib)))


def test_default_convert(both):
    both(lambda lib: lib.utils.data.default_convert({"a": np.ones(2), "b": (np.zeros(1), "w"),
                                                     "c": [np.int64(3)], "d": 5}))


REFUSED = {
    "workers": lambda lib, D: D.DataLoader(data(lib), num_workers=-1), "timeout": lambda lib,
    D: D.DataLoader(data(lib), timeout=-1), "prefetch": lambda lib,
    D: D.DataLoader(data(lib), prefetch_factor=2), "persistent": lambda lib,
    D: D.DataLoader(data(lib), persistent_workers=True), "context": lambda lib,
    D: D.DataLoader(data(lib), multiprocessing_context="fork"), "shuffled stream": lambda lib,
    D: D.DataLoader(stream(lib), shuffle=True), "sampled stream": lambda lib,
    D: D.DataLoader(stream(lib), sampler=[1]), "batch sampled stream": lambda lib,
    D: D.DataLoader(stream(lib), batch_sampler=[1]), "sampler and shuffle": lambda lib,
    D: D.DataLoader(data(lib), sampler=[1], shuffle=True), "batch sampler and size": lambda lib,
    D: D.DataLoader(data(lib), batch_sampler=[[1]], batch_size=3), "drop last without size": lambda lib,
    D: D.DataLoader(data(lib), batch_size=None, drop_last=True), "no size": lambda lib,
    D: D.DataLoader(data(lib), batch_size=0), "empty": lambda lib, D: D.DataLoader([], shuffle=True),
    "set later": lambda lib, D: setattr(D.DataLoader(data(lib)), "batch_size", 3),
    "length of stream": lambda lib, D: len(D.DataLoader(stream(lib))), "drop_last": lambda lib,
    D: D.BatchSampler([1], 2, 3), "replacement": lambda lib, D: D.RandomSampler(data(lib), replacement=1),
    "num_samples": lambda lib, D: D.RandomSampler(data(lib), num_samples=-1), "weights": lambda lib,
    D: D.WeightedRandomSampler([[1.0]], 1), "no weights": lambda lib, D: D.WeightedRandomSampler([1.0], 0),
    "row counts": lambda lib, D: D.TensorDataset(lib.ones(2), lib.ones(3)), "no parts": lambda lib,
    D: D.ConcatDataset([]), "concatenated stream": lambda lib, D: D.ConcatDataset([stream(lib)]),
    "beyond the end": lambda lib, D: D.ConcatDataset([data(lib)])[11], "stack of none": lambda lib,
    D: D.StackDataset(), "stack of unequal": lambda lib, D: D.StackDataset(data(lib), [1]),
    "no getitem": lambda lib, D: D.Dataset()[0], "rank": lambda lib, D: D.DistributedSampler(data(lib), 3, 3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(both, name):
    assert both(lambda lib: REFUSED[name](lib, lib.utils.data) and None) is not None


def test_own_getitem_and_getitems_are_used(both):
    def run(lib):
        class Doubled(lib.utils.data.TensorDataset):
            def __getitem__(self, index):
                return super().__getitem__(index)[0] * 2

        class AtOnce(lib.utils.data.Dataset):
            def __getitems__(self, indices):
                return [10 * i for i in indices]

            def __len__(self):
                return 4

        D = lib.utils.data
        return [list(D.DataLoader(Doubled(lib.arange(4)), batch_size=2)),
                list(D.DataLoader(AtOnce(), batch_size=3))]

    both(run)


def test_differentiated_rows(both):
    def run(lib):
        x = lib.ones(4, requires_grad=True)
        (batch,) = next(iter(lib.utils.data.DataLoader(lib.utils.data.TensorDataset(x), batch_size=2)))
        batch.sum().backward()
        return [type(batch.grad_fn).__name__, x.grad]

    both(run)


@pytest.mark.parametrize("replacement", [True, False])
def test_a_sampler_of_endless_length_starts_at_once(both, replacement):
    """Programs ask for 1e10 samples and stop when they like: nothing of that size is made."""
    def run(lib):
        lib.manual_seed(2)
        draws = iter(lib.utils.data.RandomSampler(range(3), replacement=replacement, num_samples=10 ** 13))
        return [next(draws) for _ in range(70)]

    both(run)
