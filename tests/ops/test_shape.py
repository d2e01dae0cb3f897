"""Views, splits, joins and padding: memory shared, strides, nodes, in-place forms, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flambeau

torch.set_num_threads(1)
DATA = np.arange(24, dtype="float32").reshape(2, 3, 4)

VIEWS = {
    "view": lambda x: x.view(6, 4),
    "view with -1": lambda x: x.view(-1, 8),
    "reshape": lambda x: x.reshape((4, 6)),
    "view of a transposed part": lambda x: x.transpose(0, 1).view(3, 2, 2, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "mT": lambda x: x.mT,
    "movedim": lambda x: x.movedim(0, 2),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unsqueeze of a transposed": lambda x: x.transpose(0, 1).unsqueeze(-1),
    "squeeze": lambda x: x.narrow(1, 0, 1).squeeze(1),
    "narrow": lambda x: x.narrow(2, 1, 2),
    "select": lambda x: x.select(1, -1),
    "diagonal": lambda x: x.diagonal(1, 0, 2),
    "as_strided": lambda x: x.as_strided((2, 3), (4, 1), 2),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(2, (2, -1)),
    "tensor_split": lambda x: x.tensor_split(3, 2)[1],
    "t": lambda x: x.select(0, 1).t(),
    "T": lambda x: x.select(0, 1).T,
}
PARTS = {
    "split": lambda x: x.split(2, 2)[1],
    "split with sizes": lambda x: x.split([1, 3], 2)[1],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "unbind": lambda x: x.unbind(1)[2],
}
COPIES = {
    "cat": lambda lib, x: lib.cat([x.mT, x.mT], 2),
    "stack": lambda lib, x: lib.stack([x.mT, x.mT], 1),
    "flip": lambda lib, x: x.permute(2, 0, 1).flip(0),
    "roll": lambda lib, x: x.mT.roll(1, 0),
    "repeat": lambda lib, x: x.mT.repeat(1, 2, 1),
    "clone keeps the order": lambda lib, x: x.permute(2, 0, 1).clone(),
    "contiguous": lambda lib, x: x.permute(2, 0, 1).contiguous(),
    "channels last": lambda lib, x: x[None].clone(memory_format=lib.channels_last),
    "cat of channels last": lambda lib, x: lib.cat([x[None].contiguous(memory_format=lib.channels_last)] * 2, 1),
    "reshape that must copy": lambda lib, x: x.mT.reshape(24),
}


def both(grad=False):
    return [lib.from_numpy(DATA.copy()).requires_grad_(grad) for lib in (torch, flambeau)]


def layout(t):
    return tuple(t.shape), tuple(t.stride()), t.storage_offset(), t.is_contiguous(), t._is_view()


@pytest.mark.parametrize("name", [*VIEWS, *PARTS])
def test_view_shares_memory_with_pytorchs_layout(name):
    theirs, ours = both()
    f = (VIEWS | PARTS)[name]
    a, b = f(theirs), f(ours)
    assert layout(b) == layout(a)
    a.mul_(2)
    b.mul_(2)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert ours._version == theirs._version == 1


@pytest.mark.parametrize("name", COPIES)
def test_copy_has_pytorchs_layout_and_memory_of_its_own(name):
    theirs, ours = both()
    a, b = COPIES[name](torch, theirs), COPIES[name](flambeau, ours)
    assert layout(b)[:4] == layout(a)[:4]
    np.testing.assert_array_equal(b.numpy(), a.numpy())
    b.zero_() if hasattr(b, "zero_") else b.mul_(0)
    np.testing.assert_array_equal(ours.numpy(), DATA)


@pytest.mark.parametrize("name", VIEWS)
def test_gradient_flows_through_a_written_view(name):
    grads = []
    for x in both(grad=True):
        y = x * 1.5
        v = VIEWS[name](y)
        v.mul_(3)
        (y * y).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-6)


@pytest.mark.parametrize("name", PARTS)
def test_one_of_several_views_cannot_be_written(name):
    for x in both(grad=True):
        with pytest.raises(RuntimeError, match="modified inplace"):
            PARTS[name](x * 1.0).mul_(2)


NODES = {
    "ViewBackward0": lambda lib, x: x.view(24),
    "UnsafeViewBackward0": lambda lib, x: x.mT.reshape(24),
    "SqueezeBackward0": lambda lib, x: x.squeeze(),
    "SqueezeBackward1": lambda lib, x: x.squeeze(0),
    "SqueezeBackward2": lambda lib, x: x.squeeze((0, 1)),
    "UnsqueezeBackward0": lambda lib, x: x.unsqueeze(0),
    "TransposeBackward0": lambda lib, x: x.swapaxes(0, 1),
    "TBackward0": lambda lib, x: x[0].t(),
    "PermuteBackward0": lambda lib, x: x.movedim(0, 1),
    "ExpandBackward0": lambda lib, x: x.expand(2, 2, 3, 4),
    "SliceBackward0": lambda lib, x: x.narrow(0, 0, 1),
    "SelectBackward0": lambda lib, x: x.select(0, 0),
    "UnfoldBackward0": lambda lib, x: x.unfold(2, 2, 1),
    "DiagonalBackward0": lambda lib, x: x.diagonal(),
    "AsStridedBackward0": lambda lib, x: x.as_strided((2, 2), (1, 2)),
    "UnbindBackward0": lambda lib, x: x.unbind(0)[0],
    "SplitBackward0": lambda lib, x: x.chunk(2, 2)[0],
    "SplitWithSizesBackward0": lambda lib, x: x.split([1, 3], 2)[0],
    "CatBackward0": lambda lib, x: lib.hstack([x, x]),
    "StackBackward0": lambda lib, x: lib.stack([x, x]),
    "RepeatBackward0": lambda lib, x: x.tile(2),
    "FlipBackward0": lambda lib, x: x.fliplr(),
    "RollBackward0": lambda lib, x: x.roll(1),
    "Rot90Backward0": lambda lib, x: x.rot90(),
    "BlockDiagBackward0": lambda lib, x: lib.block_diag(x[0], x[1]),
    "ReflectionPad1DBackward0": lambda lib, x: lib.nn.functional.pad(x, (1, 1), mode="reflect"),
    "ReplicationPad2DBackward0": lambda lib, x: lib.nn.functional.pad(x[None], (1, 1, 1, 1), mode="replicate"),
    "ConstantPadNdBackward0": lambda lib, x: lib.nn.functional.pad(x, (1, 1)),
}


@pytest.mark.parametrize("name", NODES)
def test_node_is_named_as_in_pytorch(name):
    theirs, ours = both(grad=True)
    assert NODES[name](torch, theirs).grad_fn.name() == name
    assert NODES[name](flambeau, ours).grad_fn.name() == name


ITSELF = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "squeeze_": lambda x: x.unsqueeze_(0).squeeze_(0),
    "as_strided_": lambda x: x.as_strided_((2, 2), (1, 2)),
}


@pytest.mark.parametrize("name", ITSELF)
def test_inplace_view_method_changes_the_tensor_itself(name):
    facts = []
    for x in both(grad=True):
        y = (x * 2)[0].clone()
        assert ITSELF[name](y) is y
        (y * y).sum().backward()
        facts.append((layout(y)[:3], y._version, y.grad_fn.name(), x.grad.tolist()))
    assert facts[1] == facts[0]


def test_inplace_view_method_refuses_a_leaf_that_requires_grad():
    for x in both(grad=True):
        with pytest.raises(RuntimeError, match="leaf"):
            x.transpose_(0, 1)
        assert tuple(x.shape) == (2, 3, 4)


def test_view_as_another_dtype_reads_the_bits():
    x = flambeau.tensor([1.0, -2.0])
    assert x.view(flambeau.int32).tolist() == torch.tensor([1.0, -2.0]).view(torch.int32).tolist()
    assert tuple(x.view(flambeau.int16).shape) == (4,)
    x.view(flambeau.int32).zero_() if hasattr(x, "zero_") else x.view(flambeau.int32).mul_(0)
    assert x.tolist() == [0.0, 0.0]
    leaf = flambeau.ones(2, requires_grad=True)
    assert not leaf.view(flambeau.int32).requires_grad
    with pytest.raises(RuntimeError, match="divisible by 2"):
        flambeau.ones(3).view(flambeau.float64)


def test_flatten_and_contiguous_return_the_tensor_itself_when_nothing_is_to_do():
    x = flambeau.ones(3)
    assert x.flatten() is x
    assert x.contiguous() is x
    assert flambeau.broadcast_shapes((2, 1), 3) == (2, 3)


def test_undefined_gradients_of_parts_are_zeros():
    for lib in (torch, flambeau):
        x = lib.ones(5, requires_grad=True)
        parts = x.split([1, 2, 2])
        (parts[1] * 3).sum().backward()
        assert x.grad.tolist() == [0.0, 3.0, 3.0, 0.0, 0.0]


def test_overlapping_as_strided_adds_gradients_up():
    grads = []
    for lib in (torch, flambeau):
        x = lib.ones(3, requires_grad=True)
        x.as_strided((2, 2), (1, 1)).sum().backward()
        y = lib.ones(1, requires_grad=True)
        y.expand(3).as_strided((3,), (0,)).sum().backward()
        grads.append((x.grad.tolist(), y.grad.tolist()))
    assert grads[1] == grads[0]


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda lib: lib.cat(lib.ones(2)), TypeError, "must be tuple of Tensors"),
        (lambda lib: lib.cat([lib.ones(2), 1]), TypeError, "expected Tensor as element 1"),
        (lambda lib: lib.cat([lib.ones(2, 3)], 2), IndexError, "out of range"),
        (lambda lib: lib.ones(2, 3).mT.view(6), RuntimeError, "reshape"),
        (lambda lib: lib.ones(2).select(0, 2), IndexError, "out of range"),
        (lambda lib: lib.ones(2).narrow(0, 1, 2), RuntimeError, "exceeds dimension size"),
        (lambda lib: lib.nn.functional.pad(lib.ones(1, 2), (2, 0), mode="reflect"), RuntimeError, "Padding size"),
        (lambda lib: lib.ones(2, 3).permute(0, 0), RuntimeError, "uplicate|repeated"),
        (lambda lib: lib.tensor(1.0).unbind(), IndexError, "Dimension"),
    ],
)
def test_errors_are_of_pytorchs_type(call, kind, words):
    for lib in (torch, flambeau):
        with pytest.raises(kind, match=words):
            call(lib)


def test_reshape_to_the_wrong_size_gives_both_sizes():
    with pytest.raises(RuntimeError, match=r"shape '\[4\]' is invalid for input of size 6"):
        flambeau.ones(2, 3).reshape(4)


def test_stack_of_transposed_matrices_is_row_major():
    out = flambeau.stack([flambeau.ones(3, 4).t(), flambeau.zeros(3, 4).t()])
    assert out.stride() == (12, 3, 1) and out[0].sum().item() == 12 and out[1].sum().item() == 0
