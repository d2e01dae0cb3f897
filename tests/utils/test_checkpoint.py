"""Checkpoints give PyTorch's numbers in every form; selective ones compute again what their policy says."""

from __future__ import annotations

import functools
import itertools
import warnings

import pytest
import torch
import torch.utils.checkpoint

import flambeau
import flambeau.nn
import flambeau.utils.checkpoint
from flambeau.ops import aten
from flambeau.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)


def model(lib):
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 6, bias=False)
            self.norm, self.drop = nn.LayerNorm(6), nn.Dropout(0.3)
            self.runs = 0

        def forward(self, x, scale=1.0):
            self.runs += 1
            return x + self.drop(self.second(lib.tanh(self.first(self.norm(x))))) * scale

    return Block()


def close(a, b, tolerance=1e-5):
    return flambeau.testing.assert_close(flambeau.tensor(a), flambeau.tensor(b), rtol=tolerance, atol=tolerance)


def train(lib, wrap, autocast=None):
    lib.manual_seed(0)
    blocks = [model(lib) for _ in range(3)]
    x = lib.randn(4, 6, requires_grad=True)
    dtype = autocast and getattr(lib, autocast)
    with warnings.catch_warnings(), lib.autocast("cpu", dtype=dtype, enabled=autocast is not None):
        warnings.simplefilter("ignore")             # of reentrant checkpoints inside of one another
        out = wrap(lib, blocks, x)
    out.float().square().mean().backward()
    lib.rand(1)
    after = lib.rand(3)
    grads = [p.grad.tolist() for block in blocks for p in block.parameters()]
    return [out.tolist(), x.grad.tolist(), grads, after.tolist(), [block.runs for block in blocks]]


def each(lib, blocks, x, **options):
    for block in blocks:
        x = lib.utils.checkpoint.checkpoint(block, x, **options)
    return x


def nested(lib, blocks, x, **options):
    run = lib.utils.checkpoint.checkpoint

    def inner(x):
        return run(blocks[1], run(blocks[0], x, **options), **options)

    return blocks[2](run(inner, x, **options))


def sequential(lib, blocks, x, **options):
    return lib.utils.checkpoint.checkpoint_sequential(lib.nn.Sequential(*blocks), 2, x, **options)


def same(expected, got, tolerance):
    for a, b in zip(expected[:2], got[:2], strict=True):
        close(a, b, tolerance)
    for a, b in zip(expected[2], got[2], strict=True):
        close(a, b, tolerance)
    assert got[3] == pytest.approx(expected[3])
    assert got[4] == expected[4]


FORMS = {"each": each, "nested": nested, "sequential": sequential}


@pytest.mark.parametrize("autocast", [None, "bfloat16"])
@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_numbers_runs_and_random_states_are_pytorchs(form, use_reentrant, autocast):
    wrap = functools.partial(FORMS[form], use_reentrant=use_reentrant)
    same(train(torch, wrap, autocast), train(flambeau, wrap, autocast), 5e-2 if autocast else 1e-5)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_without_the_random_state_the_masks_differ(use_reentrant):
    wrap = functools.partial(each, use_reentrant=use_reentrant, preserve_rng_state=False)
    same(train(torch, wrap), train(flambeau, wrap), 1e-5)


@pytest.mark.parametrize("early_stop", [False, True])
def test_early_stop_and_keywords(early_stop):
    def wrap(lib, blocks, x):
        ends = []

        def run(x, *, scale):
            y = blocks[0](x, scale=scale)
            z = y.exp()
            ends.append(1)
            return z * 0 + y

        out = lib.utils.checkpoint.checkpoint(run, x, scale=2.0, use_reentrant=False, early_stop=early_stop)
        with lib.utils.checkpoint.set_checkpoint_early_stop(not early_stop):
            out = lib.utils.checkpoint.checkpoint(blocks[1], out, use_reentrant=False)
        out = blocks[2](out)
        counts.append(ends)
        return out

    counts: list = []
    same(train(torch, wrap), train(flambeau, wrap), 1e-5)
    assert counts[0] == counts[1]


def test_no_grad_and_inputs_that_need_none(both_libraries):
    def run(lib):
        block = model(lib).eval()
        x = lib.ones(2, 6)
        with lib.no_grad():
            out = lib.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        found = [out.requires_grad, block.runs]
        lib.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum().backward()
        found += [block.runs, block.first.bias.grad is not None]
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            out = lib.utils.checkpoint.checkpoint(block, x, use_reentrant=True)
        return [*found, out.requires_grad, ["requires_grad=True" in str(w.message) for w in warned]]

    assert both_libraries(run)


@pytest.fixture
def both_libraries():
    return lambda run: run(torch) == run(flambeau) or pytest.fail(f"{run(torch)} {run(flambeau)}")


def test_the_determinism_check_compares_shapes():
    def run(lib):
        width = [4]

        def changing(x):
            width[0] += 1
            return (x * lib.ones(width[0], 1)).sin().sum(0)

        x = lib.ones(3, requires_grad=True)
        out = lib.utils.checkpoint.checkpoint(changing, x, use_reentrant=False)
        try:
            out.sum().backward()
        except Exception as error:
            return type(error).__name__
        return "no error"

    assert run(flambeau) == run(torch)


# ------------------------------------------------------------------------------------- selective


class Counter:
    """How often each operator's kernel runs."""

    def __init__(self):
        self.counts: dict = {}

    def __enter__(self):
        from flambeau.core.interception import register

        register(1, self._see)
        return self.counts

    def __exit__(self, *error):
        from flambeau.core.interception import unregister

        unregister(1, self._see)

    def _see(self, op, inputs, params, kind):
        if "<lambda>" not in getattr(op.kernel, "__qualname__", ""):
            self.counts[op.name] = self.counts.get(op.name, 0) + 1
        return NotImplemented


SAVED = {
    "mm": [aten.mm.default], "addmm": [aten.addmm.default], "both": [aten.mm.default, aten.addmm.default], "nothing": [],
    "tanh": [aten.tanh.default],
}


@pytest.mark.parametrize("chosen", SAVED)
def test_chosen_operators_run_once(chosen):
    contexts = functools.partial(create_selective_checkpoint_contexts, SAVED[chosen])

    def run(**options):
        flambeau.manual_seed(0)
        block = model(flambeau)
        x = flambeau.randn(4, 6, requires_grad=True)
        with Counter() as counts:
            out = checkpoint(lambda x: block(x).sin(), x, use_reentrant=False, **options)
            out.sum().backward()
        return [x.grad.tolist(), [p.grad.tolist() for p in block.parameters()]], counts

    plain, plain_counts = run()
    selective, counts = run(context_fn=contexts)
    assert selective == plain
    assert plain_counts["linear"] == plain_counts["linear_bias"] == plain_counts["tanh"] == 2
    names = {"mm": "linear", "addmm": "linear_bias", "tanh": "tanh"}
    once = {"both": ["mm", "addmm"], "nothing": []}.get(chosen, [chosen])
    for name, record in names.items():
        assert counts[record] == (1 if name in once else 2), record


def everything(*args, **kwargs):
    return CheckpointPolicy.PREFER_SAVE


def nothing(*args, **kwargs):
    return CheckpointPolicy.MUST_RECOMPUTE


def yes(*args, **kwargs):
    return True


def every_other():
    seen = itertools.count()
    return lambda context, op, *args, **kwargs: (
        CheckpointPolicy.MUST_SAVE if next(seen) % 2 else CheckpointPolicy.PREFER_RECOMPUTE)


@pytest.mark.parametrize("policy", [everything, nothing, yes, every_other], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("autocast", [None, "bfloat16"])
def test_every_policy_gives_the_plain_numbers(policy, autocast):
    made = (lambda: every_other()) if policy is every_other else (lambda: policy)
    contexts = lambda: create_selective_checkpoint_contexts(made())  # noqa: E731
    plain = train(flambeau, functools.partial(each, use_reentrant=False), autocast)
    assert train(flambeau, functools.partial(each, use_reentrant=False, context_fn=contexts), autocast) == plain
    assert train(flambeau, functools.partial(nested, use_reentrant=False, context_fn=contexts), autocast)[:3] == train(
        flambeau, functools.partial(nested, use_reentrant=False), autocast)[:3]


def test_selective_numbers_are_pytorchs():
    def wrap(lib, blocks, x):
        if lib is torch:
            from torch.utils.checkpoint import create_selective_checkpoint_contexts as create
        else:
            create = create_selective_checkpoint_contexts
        ops = lib.ops.aten
        contexts = functools.partial(create, [ops.mm.default, ops.addmm.default, ops.native_layer_norm.default])
        return each(lib, blocks, x, use_reentrant=False, context_fn=contexts)

    same(train(torch, wrap), train(flambeau, wrap), 1e-5)


def test_second_derivatives_through_selective_checkpoints():
    """PyTorch refuses a second run."""
    def run(**options):
        x = flambeau.ones(3, 3, dtype=flambeau.float64, requires_grad=True)
        out = checkpoint(lambda x: (x @ x).sin(), x, use_reentrant=False, **options)
        (g,) = flambeau.autograd.grad(out.sum(), x, create_graph=True)
        g.square().sum().backward()
        return x.grad.tolist()

    assert run(context_fn=functools.partial(create_selective_checkpoint_contexts, [aten.mm.default])) == run()


def test_a_policy_is_asked_in_the_first_run():
    asked = []

    def policy(context, op, *args, **kwargs):
        asked.append((str(op), context.is_recompute, tuple(context.op_output.shape), [type(a).__name__ for a in args]))
        return CheckpointPolicy.PREFER_RECOMPUTE

    x = flambeau.ones(2, 3, requires_grad=True)
    out = checkpoint(lambda x: (x @ x.t()).relu_(), x, use_reentrant=False,
                     context_fn=lambda: create_selective_checkpoint_contexts(policy))
    n = len(asked)
    out.sum().backward()
    assert len(asked) == n
    assert asked == [("aten.t.default", False, (3, 2), ["Tensor"]), ("aten.mm.default", False, (2, 2), ["Tensor", "Tensor"]),
                     ("aten.relu_.default", False, (2, 2), ["Tensor"])]
    assert isinstance(SelectiveCheckpointContext(is_recompute=True).is_recompute, bool)
    assert [p.name for p in CheckpointPolicy] == [p.name for p in torch.utils.checkpoint.CheckpointPolicy]


def test_kept_results_that_are_written_are_refused():
    def run(**options):
        x = flambeau.ones(2, 2, requires_grad=True)
        contexts = functools.partial(create_selective_checkpoint_contexts, [aten.mm.default], **options)
        out = checkpoint(lambda x: (x @ x).mul_(2).sin(), x, use_reentrant=False, context_fn=contexts)
        out.sum().backward()

    with pytest.raises(RuntimeError, match="Tensor cached during selective activation checkpoint has been mutated.*mm"):
        run()
    run(allow_cache_entry_mutation=True)


def test_a_second_run_that_does_more_is_refused():
    runs = []

    def changing(x):
        runs.append(1)
        for _ in range(len(runs)):
            x = x @ x
        return x

    x = flambeau.ones(2, 2, requires_grad=True)
    out = checkpoint(changing, x, use_reentrant=False, early_stop=False,
                     context_fn=functools.partial(create_selective_checkpoint_contexts, [aten.mm.default]))
    with pytest.raises(RuntimeError, match="aten.mm.default ran more often.*not found in storage"):
        out.sum().backward()


def test_refused_policies(both_libraries):
    def run(lib):
        create = lib.utils.checkpoint.create_selective_checkpoint_contexts
        found = []
        for wrong in ([lib.ops.aten.mm], ["mm"], 3):
            try:
                create(wrong)
            except Exception as error:
                found.append(type(error).__name__)
        try:
            lib.utils.checkpoint.checkpoint(lambda x: x, lib.ones(1), use_reentrant=True, context_fn=lambda: create([]))
        except ValueError:
            found.append("reentrant")
        return found

    assert both_libraries(run)
    with pytest.raises(ValueError, match=r"Name its form: aten.mm.default"):
        create_selective_checkpoint_contexts([aten.mm])
