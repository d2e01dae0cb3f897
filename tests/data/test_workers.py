"""Worker processes of the loader: PyTorch's order and random numbers, errors told, nothing left behind."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import flambeau
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

LIMIT_S = 60


@pytest.fixture(autouse=True)
def _limited():
    """No test of processes may hang, or leave one."""

    def late(*_):
        raise TimeoutError(f"the test took more than {LIMIT_S} s")

    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    try:
        yield
        gc.collect()
        assert multiprocessing.active_children() == []
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def drawing(lib):
    class Drawing(lib.utils.data.Dataset):
        def __len__(self):
            return 11

        def __getitem__(self, i):
            info = lib.utils.data.get_worker_info()
            return [i, np.random.randint(10**6), random.randint(0, 10**6), int(lib.randint(10**6, ())), info.id,
                    info.num_workers, info.seed % 1000]

    return Drawing()


def sharded(lib, lengths=None):
    class Sharded(lib.utils.data.IterableDataset):
        def __iter__(self):
            info = lib.utils.data.get_worker_info()
            return iter(range(info.id, 23, info.num_workers) if lengths is None else range(lengths[info.id]))

    return Sharded()


def rows(batch):
    return [list(sample) for sample in batch]


LOADERS = {
    "one by one": lambda lib, D: D.DataLoader(drawing(lib), num_workers=2, collate_fn=rows),
    "shuffled": lambda lib, D: D.DataLoader(drawing(lib), 2, True, num_workers=3, collate_fn=rows),
    "persistent": lambda lib, D: D.DataLoader(drawing(lib), 2, True, num_workers=2, persistent_workers=True,
                                              collate_fn=rows),
    "prefetch": lambda lib, D: D.DataLoader(drawing(lib), 3, num_workers=2, prefetch_factor=1, drop_last=True),
    "no batches": lambda lib, D: D.DataLoader(drawing(lib), None, num_workers=2, collate_fn=list),
    "worker_init_fn": lambda lib, D: D.DataLoader(drawing(lib), num_workers=2, collate_fn=rows,
                                                  worker_init_fn=lambda i: random.seed(i)),
    "generator": lambda lib, D: D.DataLoader(drawing(lib), 2, True, num_workers=2, collate_fn=rows,
                                             generator=lib.Generator().manual_seed(7)),
    "stream": lambda lib, D: D.DataLoader(sharded(lib), 4, num_workers=3),
    "stream, drop last": lambda lib, D: D.DataLoader(sharded(lib), 4, num_workers=3, drop_last=True),
    "uneven streams": lambda lib, D: D.DataLoader(sharded(lib, [14, 2, 5]), 3, num_workers=3),
    "uneven streams, persistent": lambda lib, D: D.DataLoader(sharded(lib, [3, 9]), None, num_workers=2,
                                                              persistent_workers=True),
    "more workers than batches": lambda lib, D: D.DataLoader(drawing(lib), 8, num_workers=2, collate_fn=rows),
}


@pytest.mark.parametrize("name", LOADERS)
def test_order_and_random_numbers_are_those_of_pytorch(both, name):
    def run(lib):
        loader = LOADERS[name](lib, lib.utils.data)
        return [list(loader), list(loader), lib.rand(2)]

    both(run)


def test_batches_asked_for_before_a_break_are_still_made(both):
    def run(lib):
        loader = lib.utils.data.DataLoader(drawing(lib), num_workers=2, persistent_workers=True, collate_fn=rows)
        first = next(iter(loader))
        return [first, list(loader)]

    both(run)


def test_shards_of_distinct_loaders_run_side_by_side(both):
    def run(lib):
        loader = lib.utils.data.DataLoader(sharded(lib), 4, num_workers=2)
        return [[a, b] for a, b in zip(loader, loader, strict=True)]

    both(run)


class Spawned(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return flambeau.full((64, 64), float(i)), np.random.randint(10**6)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods_give_the_same(method):
    def run(context):
        flambeau.manual_seed(0)
        loader = DataLoader(Spawned(), num_workers=1, multiprocessing_context=context)
        return [(x.sum().item(), n.item()) for x, n in loader]

    assert run(method) == run("fork")


# ------------------------------------------------------------------------------------- failures


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


def failing(action):
    class Failing(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return action() if i == 2 else i

    return Failing()


def boom():
    raise KeyError("boom")


def odd():
    raise Odd(1, 2)


@pytest.mark.parametrize(("action", "kind"), [(boom, KeyError), (odd, RuntimeError), (lambda: 1 / 0, ZeroDivisionError)])
def test_an_exception_is_raised_again_with_its_traceback(action, kind):
    batches = iter(DataLoader(failing(action), num_workers=2))
    assert [next(batches).item(), next(batches).item()] == [0, 1]
    with pytest.raises(kind, match="(?s)Caught .* in DataLoader worker process 0.*Traceback.*test_workers.py"):
        next(batches)
    assert next(batches).item() == 3         # the pass goes on, as in PyTorch


def test_what_cannot_be_pickled_is_told():
    with pytest.raises(Exception, match="(?s)worker process 0, sending a batch.*pickle"):
        list(DataLoader([lambda: 3], batch_size=None, num_workers=1))
    weight = flambeau.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="(?s)non-leaf tensor which requires_grad.*detach"):
        list(DataLoader([weight * 2], batch_size=None, num_workers=1))
    (sent,) = DataLoader([weight], batch_size=None, num_workers=1)
    assert sent.requires_grad and sent.tolist() == [1, 1]


def test_worker_init_fn_and_iter_may_raise():
    def bad(i):
        raise ValueError("at the start")

    with pytest.raises(ValueError, match="(?s)worker process 0.*at the start"):
        list(DataLoader([1, 2], num_workers=1, worker_init_fn=bad))

    class Stream(IterableDataset):
        def __iter__(self):
            raise OSError("no file")

    with pytest.raises(OSError, match="no file"):
        list(DataLoader(Stream(), num_workers=1))


@pytest.mark.parametrize(("action", "words"), [
    (lambda: os.kill(os.getpid(), signal.SIGKILL), "is killed by signal: Killed.*memory"),
    (lambda: (faulthandler.disable(), os.kill(os.getpid(), signal.SIGSEGV)),
     "is killed by signal: Segmentation fault.*faulthandler"),
    (lambda: os._exit(3), "exited unexpectedly with exit code 3.*num_workers=0")])
def test_a_dead_worker_is_reported(action, words):
    batches = iter(DataLoader(failing(action), num_workers=2))
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid \d+\) {words}"):
        list(batches)
    with pytest.raises(RuntimeError, match="unexpectedly"):
        next(batches)


def test_timeout():
    batches = iter(DataLoader(failing(lambda: time.sleep(0.8) or 2), num_workers=1, timeout=0.3))
    assert [next(batches).item() for _ in range(2)] == [0, 1]
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.3 seconds"):
        next(batches)


def test_a_persistent_loader_recovers_from_a_dead_worker():
    loader = DataLoader(Spawned(), num_workers=1, persistent_workers=True)
    assert len(list(loader)) == 3
    loader._iterator._pool.workers[0].process.kill()
    time.sleep(0.2)
    assert len(list(loader)) == 3


def test_arguments(both):
    for options in ({"multiprocessing_context": "zz", "num_workers": 1}, {"multiprocessing_context": 3, "num_workers": 1},
                    {"multiprocessing_context": "fork"}, {"prefetch_factor": -1, "num_workers": 1}, {"prefetch_factor": 2},
                    {"persistent_workers": True}, {"timeout": -1}, {"num_workers": -1}):
        both(lambda lib, options=options: lib.utils.data.DataLoader([1], **options) is None)
    assert DataLoader([1], num_workers=1).prefetch_factor == 2
    with pytest.warns(UserWarning, match="64 worker processes in total"):
        DataLoader([1], num_workers=64)


def test_a_stream_that_every_worker_repeats_is_warned_of():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(2))

        def __len__(self):
            return 2

    loader = DataLoader(Stream(), num_workers=2)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="(?s)reported to be 2.*get_worker_info"):
        assert len(list(loader)) == 4


# ------------------------------------------------------------------------------------- memory and processes


def images(n=3, **options):
    data = [(flambeau.full((3, 64, 64), float(i)), np.full((20000,), i), i) for i in range(n)]
    return DataLoader(data, batch_size=2, num_workers=1, **options)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memory without a name: batches are pickled")
def test_large_arrays_are_mapped_and_writable():
    before = len(os.listdir("/proc/self/fd"))
    batches = list(images())
    (x, y, i), (last, _, _) = batches
    assert x.is_shared() and y.is_shared() and not i.is_shared()
    assert x[:, 0, 0, 0].tolist() == [0, 1] and y[:, -1].tolist() == [0, 1] and last.shape == (1, 3, 64, 64)
    x += 1
    assert x[:, 2, 63, 63].tolist() == [1, 2]
    del x, y, i, last, batches
    assert len(os.listdir("/proc/self/fd")) == before


def test_layout_dtype_and_subclasses_survive():
    x = flambeau.arange(2 * 3 * 80 * 80.0).reshape(2, 3, 80, 80)
    data = [{"last": x.to(memory_format=flambeau.channels_last), "half": x.to(flambeau.bfloat16),
             "turned": x.transpose(0, 3), "expanded": x[:1].expand(4, 3, 80, 80), "array": x.numpy()[:, ::2],
             "parameter": flambeau.nn.Parameter(x)}]
    (got,) = DataLoader(data, batch_size=None, num_workers=1, collate_fn=lambda sample: sample)
    for name, value in data[0].items():
        same = np.array_equal(value, got[name]) if name == "array" else flambeau.equal(value, got[name])
        assert same and value.dtype == got[name].dtype and type(value) is type(got[name]), name
    assert got["last"].is_contiguous(memory_format=flambeau.channels_last)
    assert got["turned"].stride() == data[0]["turned"].stride()


def test_more_batches_than_files_may_be_open():
    data = [flambeau.zeros(8192)] * 700
    kept = list(DataLoader(data, batch_size=None, num_workers=2, collate_fn=lambda x: x + 1))
    assert len(kept) == 700 and all(x[0] == 1 for x in kept)


def test_a_pass_left_early_ends_its_workers():
    batches = iter(images(50))
    next(batches)
    processes = [w.process for w in batches._pool.workers]
    assert all(p.is_alive() for p in processes)
    pids = [p.pid for p in processes]
    del batches
    gc.collect()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)                # neither running nor a zombie


def test_large_indices_and_batches_do_not_block_each_other():
    class Texts(Dataset):
        def __len__(self):
            return 60000

        def __getitems__(self, indices):
            return ["x" * 20] * len(indices)

    sizes = [len(batch) for batch in DataLoader(Texts(), batch_size=20000, num_workers=1, shuffle=True, prefetch_factor=3)]
    assert sizes == [20000] * 3


def test_no_worker_info_in_the_main_process():
    assert get_worker_info() is None


PROGRAM = """
import sys, time, signal, os
from flambeau.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        time.sleep(0.05)
        return i
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)      # ignored, where the tests run in the background
    batches = iter(DataLoader(Slow(), num_workers=2))
    next(batches)
    print(*(w.process.pid for w in batches._pool.workers), flush=True)
    {then}
"""


@pytest.mark.parametrize(("then", "code"), [("for b in batches: pass", -signal.SIGINT), ("sys.exit(0)", 0),
                                            ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)],
                         ids=["interrupted", "ended", "killed"])
def test_workers_end_with_the_program(tmp_path, then, code):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM).format(then=then))
    program = subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    pids = [int(pid) for pid in program.stdout.readline().split()]
    assert len(pids) == 2
    if code == -signal.SIGINT:
        time.sleep(0.2)
        os.killpg(program.pid, signal.SIGINT)        # as Ctrl-C does
    _, told = program.communicate(timeout=30)
    assert program.returncode == code
    assert "resource_tracker" not in told and told.count("Traceback") == (code == -signal.SIGINT)
    end = time.monotonic() + 12
    while time.monotonic() < end and any(_runs(pid) for pid in pids):
        time.sleep(0.1)
    assert not any(_runs(pid) for pid in pids)


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Floats(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return flambeau.full((3, self.size), float(i)), np.float32(i)


@pytest.mark.parametrize("size", [2, 40000], ids=["in the message", "in shared memory"])
def test_batch_from_a_worker_meets_other_tensors(size):
    norm, conv = flambeau.nn.BatchNorm1d(3), flambeau.nn.Conv1d(3, 1, 1)
    for x, y in DataLoader(Floats(size), 2, num_workers=1):
        assert norm(x).shape == (2, 3, size) and conv(x).shape == (2, 1, size)
        assert flambeau.nn.functional.binary_cross_entropy(flambeau.full((2,), 0.5), y * 0).dtype is flambeau.float32


def test_passes_are_told_from_other_iterators_and_end_their_workers_when_asked():
    from flambeau.utils.data import dataloader as module

    data = list(range(8))
    alone, pool = iter(DataLoader(data)), iter(DataLoader(data, num_workers=1))
    assert isinstance(alone, module._BaseDataLoaderIter) and isinstance(pool, module._BaseDataLoaderIter)
    assert [isinstance(p, module._MultiProcessingDataLoaderIter) for p in (alone, pool)] == [False, True]
    assert iter(alone) is alone and len(alone) == len(pool) == 8
    next(pool)
    pool._shutdown_workers()
    assert multiprocessing.active_children() == []
    pool._shutdown_workers()
