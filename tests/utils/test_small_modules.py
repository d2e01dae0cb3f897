"""Modules of torch.utils: trees of containers, module tracker, benchmark, facts of the system, and what is refused."""

from __future__ import annotations

import importlib
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest
import torch
import torch.utils._pytree as theirs
import torch.utils.benchmark
import torch.utils.module_tracker

import flambeau
import flambeau.nn
import flambeau.utils._pytree as ours
import flambeau.utils.benchmark as benchmark
import flambeau.utils.module_tracker

Point = namedtuple("Point", "x y")
TREES = {
    "leaf": 3, "none": None, "list": [1, [2, 3], []], "tuple": (1, (2,), ()), "dict": {"b": 1, "a": {"c": 2}},
    "named": Point(1, Point([2], 3)), "ordered": OrderedDict(b=1, a=[2]), "default": defaultdict(list, a=[1, 2]),
    "deque": deque([1, [2]], maxlen=5), "mixed": [{"a": (1, None, "x")}, Point({1, 2}, (4,))],
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_trees_are_taken_apart_as_by_pytorch(tree):
    leaves, spec = ours.tree_flatten(tree)
    expected, other = theirs.tree_flatten(tree)
    assert leaves == expected == ours.tree_leaves(tree) == list(ours.tree_iter(tree))
    assert (spec.num_leaves, spec.num_nodes, spec.num_children, spec.is_leaf()) == (
        other.num_leaves, other.num_nodes, other.num_children, other.is_leaf())
    again = ours.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree)
    if isinstance(tree, deque):
        assert again.maxlen == 5
    paths = [(ours.keystr(path), leaf) for path, leaf in ours.tree_flatten_with_path(tree)[0]]
    assert paths == [(theirs.keystr(path), leaf) for path, leaf in theirs.tree_flatten_with_path(tree)[0]]
    for path, leaf in ours.tree_leaves_with_path(tree):
        assert ours.key_get(tree, path) == leaf
    assert ours.tree_map(str, tree) == theirs.tree_map(str, tree)
    assert ours.tree_map_only(int, lambda x: x + 1, tree) == theirs.tree_map_only(int, lambda x: x + 1, tree)
    assert spec == ours.tree_structure(tree)


def test_maps_of_several_trees_and_predicates():
    assert ours.tree_map(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]}) == {"x": [11, 22]}
    assert ours.tree_map(lambda a, b: (a, b), [1, 2], [(3, 4), 5]) == [(1, (3, 4)), (2, 5)]
    with pytest.raises(ValueError, match="mismatch"):
        ours.tree_map(lambda a, b: a, {"x": 1}, {"y": 1})
    with pytest.raises(ValueError, match="holds 2 items"):
        ours.tree_unflatten([1], ours.tree_structure([0, 0]))
    with pytest.raises(TypeError, match="TreeSpec"):
        ours.tree_unflatten([1], [0])
    assert ours.tree_map(len, [(1, 2), (3,)], is_leaf=lambda x: isinstance(x, tuple)) == [2, 1]
    assert ours.tree_all(lambda x: x > 0, [1, (2,)]) and not ours.tree_any(lambda x: x > 2, [1, (2,)])
    assert ours.tree_all_only(int, lambda x: x > 0, [1, "a"]) and ours.tree_any_only(str, str.isalpha, [1, "a"])
    assert ours.tree_map_with_path(lambda path, x: ours.keystr(path), {"a": [1]}) == {"a": ["['a'][0]"]}
    spec = ours.tree_structure([0, [0, 0]])
    for tree in (1, [1, 2], [1, [2, 3]], [1, 2, 3], (1, 2)):
        expected = theirs._broadcast_to_and_flatten(tree, theirs.tree_structure([0, [0, 0]]))
        assert ours._broadcast_to_and_flatten(tree, spec) == expected


def test_classes_can_be_made_containers():
    class Box:
        def __init__(self, *items):
            self.items = items

    ours.register_pytree_node(Box, lambda b: (list(b.items), len(b.items)), lambda items, n: Box(*items))
    try:
        assert ours.tree_map(lambda x: -x, [Box(1, 2)])[0].items == (-1, -2)
        with pytest.raises(ValueError, match="already registered"):
            ours.register_pytree_node(Box, None, None)
    finally:
        del ours.SUPPORTED_NODES[Box]


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_structures_made_by_hand_put_the_containers_together(tree):
    """As Lightning does, which stops at containers of its own choice."""

    def flatten(lib, tree):
        kind = lib._get_node_type(tree)
        if kind not in lib.SUPPORTED_NODES:
            return [tree], lib.LeafSpec()
        parts, context = lib.SUPPORTED_NODES[kind].flatten_fn(tree)
        found = [flatten(lib, p) for p in parts]
        return [x for leaves, _ in found for x in leaves], lib.TreeSpec(kind, context, [spec for _, spec in found])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")         # PyTorch deprecates this use
        assert ours._get_node_type(tree) is theirs._get_node_type(tree)
        leaves, spec = flatten(ours, tree)
        assert leaves == flatten(theirs, tree)[0]
    again = ours.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree)
    assert spec == ours.tree_structure(tree)


def test_module_tracker_names_what_runs():
    def seen(lib):
        net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Sequential(lib.nn.Tanh()))
        log = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with lib.utils.module_tracker.ModuleTracker() as tracker:
                for name in ("0", "1", "1.0"):
                    net.get_submodule(name).register_forward_hook(
                        lambda *a, name=name: log.append((name, sorted(tracker.parents), tracker.is_bw)) and None)
                x = lib.ones(1, 2, requires_grad=True)
                out = net(x)
                out.register_hook(lambda g: log.append(("gradient", tracker.is_bw)) and None)
                log.append(sorted(tracker.parents))
                out.sum().backward()
                log.append((sorted(tracker.parents), tracker.is_bw))
        return log

    assert seen(flambeau) == seen(torch)


def test_a_timer_measures():
    x = flambeau.ones(10)
    ticks = iter(range(10**9))
    timer = benchmark.Timer("x + y", "y = 1", globals={"x": x}, label="sum", sub_label="ten", description="here",
                            timer=lambda: next(ticks) * 0.02)
    found = timer.timeit(10)
    assert found.times == [pytest.approx(2e-3)] and found.number_per_run == 10 and found.title == "sum: ten"
    found = timer.blocked_autorange(min_run_time=0.01)
    assert found.raw_times == [pytest.approx(0.02)] and found.median == pytest.approx(found.mean)
    real = benchmark.Timer("torch.ones(2)").adaptive_autorange(min_run_time=0.001, max_run_time=0.5)
    assert 0 < real.median < 1 and "Median: " in str(real)
    with pytest.raises(NotImplementedError, match="blocked_autorange"):
        timer.collect_callgrind()
    with pytest.raises(NotImplementedError, match="C\\+\\+"):
        benchmark.Timer("x;", language="c++")
    with pytest.raises(NotImplementedError, match="Timer"):
        benchmark.Fuzzer()


def test_measurements_and_tables():
    def measured(seconds, **options):
        return benchmark.Measurement(2, [2 * s for s in seconds], benchmark.TaskSpec("f(x)", label="f", **options))

    m = measured([1e-6, 2e-6, 3e-6, 4e-6, 5e-6])
    other = torch.utils.benchmark.Measurement(2, [2e-6, 4e-6, 6e-6, 8e-6, 1e-5], torch.utils.benchmark.TaskSpec("f", ""))
    assert (m.median, m.mean, m.iqr) == pytest.approx((other.median, other.mean, other.iqr))
    assert m.has_warnings and "Median: 3.00 us" in str(m) and "IQR:    2.00 us (2.00 to 4.00)" in str(m)
    table = benchmark.Compare([measured([1e-6], sub_label="small", description="a"),
                               measured([4e-6, 4e-6], sub_label="small", description="b"),
                               measured([2.5e-3], sub_label="large", description="a", num_threads=2)])
    lines = str(table).split("\n")
    assert [line.split() for line in lines[1:7]] == [
        ["|", "a", "|", "b"], ["1", "thread:", lines[2].split()[-1]], ["small", "|", "1.0", "|", "4.0"],
        ["2", "threads:", lines[4].split()[-1]], ["large", "|", "2500.0", "|"], []]
    assert lines[7] == "Times are in microseconds (us)."
    assert benchmark.trim_sigfig(1234.5, 2) == 1200
    assert benchmark.select_unit(0.5) == ("ms", 1e-3)


def test_facts_of_the_system(capsys):
    from flambeau.utils import collect_env, deterministic, model_zoo

    collect_env.main()
    told = capsys.readouterr().out
    assert f"flambeau {flambeau.__version__}" in told and "numpy==" in told
    assert model_zoo.load_url is flambeau.hub.load_state_dict_from_url
    assert deterministic.fill_uninitialized_memory is True

    class Thing:
        pass

    flambeau.utils.set_module(Thing, "elsewhere")
    assert Thing.__module__ == "elsewhere"
    with pytest.raises(TypeError, match="string"):
        flambeau.utils.set_module(Thing, 3)


@pytest.mark.parametrize(("module", "name", "words"), [
    ("cpp_extension", "load", "adding-an-operator"), ("mobile_optimizer", "optimize_for_mobile", "torch.save"),
    ("bundled_inputs", "bundle_inputs", "beside the model"), ("mkldnn", "to_mkldnn", "as it is"),
    ("throughput_benchmark", "ThroughputBenchmark", "Timer"), ("_python_dispatch", "TorchDispatchMode", "TorchFunctionMode"),
    ("backend_registration", "rename_privateuse1_backend", "CONTRIBUTING"), ("show_pickle", "DumpUnpickler", "pickletools"),
])
def test_what_is_refused_says_what_to_do(module, name, words):
    found = getattr(importlib.import_module(f"flambeau.utils.{module}"), name)
    with pytest.raises(NotImplementedError, match=words):
        found()
    with pytest.raises(NotImplementedError, match="a.data = b.data"):
        flambeau.utils.swap_tensors(flambeau.ones(1), flambeau.ones(1))


def test_dictionaries_of_tensors_by_identity():
    from flambeau.utils.weak import TensorWeakRef, WeakIdRef, WeakTensorKeyDictionary

    a, b = flambeau.ones(2), flambeau.ones(2)
    kept = WeakTensorKeyDictionary({a: 1})
    kept[b] = 2
    assert [kept[a], kept[b], len(kept), a in kept, 3 in kept] == [1, 2, 2, True, False]
    other = kept.copy()
    del kept[a]
    assert list(kept.values()) == [2] and len(other) == 2
    ref = TensorWeakRef(b)
    assert ref() is b and WeakIdRef(b) == WeakIdRef(b) and WeakIdRef(a) != WeakIdRef(b)
    del b
    assert ref() is None and len(kept) == 0 and len(other) == 1


def test_marks_of_hooks():
    from flambeau.utils.hooks import unserializable_hook, warn_if_has_hooks

    marked = unserializable_hook(lambda g: g)
    assert marked.__torch_unserializable__
    with pytest.raises(NotImplementedError, match="after loading"):
        warn_if_has_hooks(flambeau.ones(1))


def test_old_names_of_optimizers_attention_and_amp():
    from flambeau.amp.autocast_mode import autocast_decorator
    from flambeau.amp.grad_scaler import OptState
    from flambeau.nn import attention
    from flambeau.optim import _multi_tensor

    assert _multi_tensor.AdamW is flambeau.optim.AdamW
    params = attention.SDPAParams(None, None, None, None, 0.0, True, False)
    assert params.is_causal and not attention.can_use_flash_attention(params)
    assert [state.name for state in OptState] == ["READY", "UNSCALED", "STEPPED"]
    product = autocast_decorator(flambeau.autocast("cpu"), lambda x: x @ x)
    assert product(flambeau.ones(2, 2)).dtype is flambeau.bfloat16


@pytest.mark.parametrize("d", [{}, {"a": 1, "b": [2]}])
def test_parts_of_a_dict_as_libraries_take_them(d):
    from torch.utils import _pytree as theirs

    from flambeau.utils import _pytree as ours

    assert ours._dict_flatten(d) == theirs._dict_flatten(d)
    for tree in (ours, theirs):
        pairs, context = tree._dict_flatten_with_keys(d)
        assert [(k.key, v) for k, v in pairs] == list(d.items()) and context == list(d)
        assert tree._dict_unflatten([v for _, v in pairs], context) == d
