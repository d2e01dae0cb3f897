"""The Tensor class: conversions, Python's protocols, memory, copies, hooks, subclasses, the meta device."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest

import flambeau

from .expressions import check

SETUP = """
x = torch.tensor([1.5,2.5])
xi = torch.tensor([1,2])
xg = torch.tensor([1.,2.],requires_grad=True)
s=torch.tensor(3.7)
si=torch.tensor(3)
e=torch.empty(0)
m=torch.tensor([[1.,2.],[3.,4.]])
b=torch.tensor(True)
c=torch.tensor(1+2j)
bf=torch.tensor(1.5,dtype=torch.bfloat16)
y2 = xg*2
mt = torch.empty(2,3,device='meta')
big=torch.zeros(2,3,4,5)
mr = torch.empty(2, 3, device='meta', requires_grad=True)
"""

EXPRESSIONS = r"""
x.to(torch.float64)
x.to('cpu') is x
x.to(torch.float32) is x
x.to(torch.float32, copy=True) is x
x.to(xi)
x.to('cpu', torch.int64)
x.to(device='cpu', dtype=torch.int32)
x.to('meta')
mt.to('cpu')
mt.to(torch.float64)
mt
x.to()
xg.to(torch.float64)
xg.double()
xg.long()
xg.half()
xg.bfloat16()
x.int()
x.bool()
x.type()
xi.type()
x.type('torch.LongTensor')
x.type(torch.float64)
x.type(torch.LongTensor)
x.type_as(xi)
x.cpu() is x
x.char()
x.byte()
x.short()
x.cfloat()
x.cdouble()
xg.numpy()
xg.numpy(force=True)
xg.detach().numpy()
x.numpy()
np.asarray(x)
np.array(x, dtype=np.float64)
np.sin(x)
np.array([1.,2.])*x
x*np.array([1.,2.])
np.float64(2.)*x
x*np.float64(2.)
np.add(x, 1)
np.float32(2)*xg
np.stack([x.numpy(),x.numpy()])
np.array([x,x])
bf.numpy()
bf.item()
bf.tolist()
m.tolist()
s.tolist()
e.item()
x.item()
torch.tensor([2.]).item()
torch.tensor([[2]]).item()
b.item()
c.item()
torch.tensor(1.5,dtype=torch.float16).item()
bool(s)
bool(x)
bool(e)
bool(torch.tensor([0]))
int(s)
int(x)
float(si)
float(x)
complex(s)
complex(c)
float(c)
int(c)
range(si)
range(s)
[1,2,3,4][torch.tensor(2)]
[1,2,3][b]
"abc"[torch.tensor([1])]
len(x)
len(s)
list(x)
list(s)
list(m)
1.5 in x
7 in x
torch.tensor(2.5) in x
'a' in x
None in x
reversed(xi)
f"{s:.2f}"
f"{s}"
f"{x}"
f"{x:.2f}"
"%s" % x
"%.2f" % s
"%d" % si
str(x)
format(xg[0], '.3f')
round(s.item())
copy.copy(x)
copy.deepcopy(xg)
copy.deepcopy(xg).requires_grad
copy.deepcopy(y2)
(lambda a: a[0] is a[1])(copy.deepcopy([x,x]))
pickle.loads(pickle.dumps(x))
pickle.loads(pickle.dumps(xg))
pickle.loads(pickle.dumps(y2))
pickle.loads(pickle.dumps(m.t()))
pickle.loads(pickle.dumps(bf))
x.stride()
m.stride(0)
m.stride(-1)
m.stride(5)
m.size()
m.size(0)
m.size(-1)
m.size(2)
s.size(0)
m[1].storage_offset()
m.element_size()
m.nbytes
m.itemsize
m.nelement()
m.numel()
m.is_contiguous()
m.t().is_contiguous()
big.is_contiguous(memory_format=torch.channels_last)
big.contiguous(memory_format=torch.channels_last).stride()
m.t().contiguous().stride()
m.contiguous() is m
m.is_floating_point()
m.is_complex()
m.is_signed()
torch.tensor([1],dtype=torch.uint8).is_signed()
m.is_sparse
m.is_quantized
m.is_mps
m.is_cpu
m.is_meta
m.get_device()
m.untyped_storage().nbytes()
m.untyped_storage().data_ptr()==m.data_ptr()
m.untyped_storage().size()
len(m.untyped_storage())
m[1].untyped_storage().nbytes()
m.T
m.mT
m.H
m.mH
x.T
big.T.shape
big.mT.shape
x.mT
torch.is_tensor(x)
torch.is_tensor(1)
torch.is_storage(x)
torch.numel(m)
torch.is_floating_point(x)
torch.is_complex(x)
torch.is_nonzero(s)
torch.is_nonzero(x)
torch.typename(x)
torch.typename(xi)
torch.finfo(torch.float32)
torch.finfo(torch.bfloat16)
torch.finfo(torch.float16).tiny
torch.finfo(torch.float64).eps
torch.finfo()
torch.iinfo(torch.int64)
torch.iinfo(torch.uint8)
torch.iinfo(torch.float32)
torch.result_type(x, 1)
torch.result_type(xi, 1.5)
torch.result_type(1, 1.5)
torch.can_cast(torch.float32, torch.int64)
torch.can_cast(torch.int64, torch.float32)
torch.promote_types(torch.int32, torch.float16)
torch.get_default_dtype()
torch.get_num_threads() >= 1
torch.Size([1,2])
torch.Size([2,3]).numel()
torch.Size((2,3)) + (1,)
(1,) + torch.Size((2,3))
torch.Size((2,3))[1:]
torch.Size((2,3)) == (2,3)
hash(torch.Size((2,3)))==hash((2,3))
torch.float32
torch.float
torch.half
torch.float32.is_floating_point
torch.float32.itemsize
torch.complex64.to_real()
torch.bool
torch.strided
x.device
xg.is_leaf
y2.is_leaf
y2.grad
y2.name
y2.requires_grad_(False)
xi.requires_grad_()
xi.register_hook(print)
y2.retain_grad()
xi.retain_grad()
y2.register_post_accumulate_grad_hook(print)
m[0].detach_()
(xg*1).detach_()
torch.Tensor()
torch.Tensor(2,3).shape
torch.Tensor([1,2])
torch.Tensor(np.array([1,2]))
torch.Tensor(torch.Size([2,3])).shape
torch.Tensor((2,3))
torch.Tensor(2.5)
torch.Tensor(x)
torch.Tensor(x) is x
torch.Tensor(x).data_ptr()==x.data_ptr()
torch.Tensor(xi)
torch.Tensor(s)
torch.Tensor(3).shape
torch.Tensor([1],device='cpu')
torch.LongTensor([1,2])
torch.LongTensor(2,2).shape
torch.LongTensor([1.7])
torch.BoolTensor([1,0])
torch.ByteTensor([1])
torch.DoubleTensor(2).shape
torch.HalfTensor([1])
isinstance(x, torch.LongTensor)
isinstance(x, torch.Tensor)
x.new([1,2])
x.new(2,3).shape
x.new().shape
xi.new([1,2])
x.new_tensor([1,2])
x.is_set_to(x)
x.is_shared()
x.is_pinned()
x.dim()
x.ndimension()
xg.grad_fn
y2.grad_fn.name()
y2._version
x.data is x
x.element_size()
x.is_same_size(x)
x.apply_(lambda v: v+1)
x.map_(torch.tensor([1.,1.]), lambda a,b: a+b)
x.__array_priority__
x.__dlpack_device__()
torch.from_dlpack(np.arange(3.))
torch.from_dlpack(x)
np.from_dlpack(x)
np.from_dlpack(xg)
torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
hash(x)==id(x)
torch.zeros(2,3).resize_(3,2).shape
torch.zeros(2).resize_(4).shape
torch.zeros(2,requires_grad=True).resize_(4)
torch.zeros(4).resize_as_(m).shape
torch.zeros(4).set_(m).shape
torch.empty(0).set_(m.untyped_storage())
x == 'a'
x == None
x != None
x is None
x.foo
x.sum().backward()
xg.sum().backward(torch.ones(2))
xg.grad
x.requires_grad
torch.tensor(float('nan'))
torch.tensor([1e-8,1.])
torch.tensor([[1,2],[3,4]])[0,1]
x[0]
x[-1]
x[5]
x[None]
m[:,0]
m[...,1]
m[0:1]
m[::2]
m[::-1]
m['a']
m[1.5]
m[True].shape
m[[0,1]]
m[torch.tensor([1,0])]
m[m>2]
m[0,0,0]
""".strip().splitlines()

META = r"""
mt
mr
mt+1
mt*mt
mt+torch.tensor(1.)
mt+torch.empty(5,device='meta')
mt.t()
mt.t().stride()
mt[0]
mt[:,1:]
mt[:,1:].storage_offset()
mt.sum()
mt.sum(1)
mt.mul_(2)
mt.reshape(3,2)
mt.view(6)
mt.detach()
mr.detach().requires_grad
(mr*2).requires_grad
mt.to(torch.int64)
mt.long()
mt.clone()
mt.shape
mt.size(1)
mt.numel()
mt.nbytes
mt.item()
mt.tolist()
mt.numpy()
bool(torch.empty(1,device='meta'))
torch.zeros_like(mt)
torch.empty_like(mt,device='cpu').shape
mt.new_zeros(3)
torch.ones(2).to('meta')
copy.deepcopy(mt)
pickle.loads(pickle.dumps(mt))
torch.cat([mt,mt])
torch.stack([mt,mt]).shape
mt.is_meta
mt.device
mt.data
torch.tensor([1,2],device='meta')
mt.expand(4,2,3).shape
mt.split(1)
mt == mt
mt @ torch.empty(3,4,device='meta')
mt.copy_(torch.ones(2,3))
torch.ones(2,3).copy_(mt)
mt.contiguous()
mt.float() is mt
pickle.loads(pickle.dumps(torch.ones(2,2).t()))
pickle.loads(pickle.dumps([torch.ones(3)]*2))
copy.deepcopy(torch.arange(4)[1:3]).storage_offset()
""".strip().splitlines()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_agrees_with_pytorch(expression: str) -> None:
    check(expression, SETUP)


@pytest.mark.parametrize("expression", META)
def test_agrees_with_pytorch_on_meta(expression: str) -> None:
    check(expression, SETUP)


def test_numpy_shares_memory() -> None:
    t = flambeau.zeros(3)
    a = t.numpy()
    a[0] = 5
    t[1] = 6
    assert t.tolist() == [5.0, 6.0, 0.0] and a.tolist() == [5.0, 6.0, 0.0]


def test_numpy_of_a_tensor_that_requires_grad_names_the_fix() -> None:
    with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy\(\)"):
        flambeau.ones(2, requires_grad=True).numpy()


def test_wrong_arguments_are_refused_in_the_name_of_the_method() -> None:
    t = flambeau.ones(3)
    for call in (lambda: t.sum(axes=0), lambda: t.backward(axes=0), lambda: t.exp(1, 2), lambda: t.item(1)):
        with pytest.raises(TypeError) as caught:
            call()
        assert not any(name in str(caught.value) for name in ("Hot", "Methods", "Conversions"))
    assert pickle.loads(pickle.dumps(flambeau.Tensor.backward))(t.sum().requires_grad_()) is None


def test_numpy_is_given_where_nothing_is_recorded() -> None:
    import torch

    for library in (flambeau, torch):
        w = library.ones(2, requires_grad=True)
        with library.no_grad():
            w.numpy()[0] = 3
            assert np.asarray(w).tolist() == [3.0, 1.0]
        with library.inference_mode():
            assert w.numpy().tolist() == [3.0, 1.0]
        with pytest.raises(RuntimeError, match="Can't call numpy"):
            np.asarray(w)


@pytest.mark.parametrize("convert", [float, complex, lambda t: np.zeros(1).__setitem__(0, t),
                                     lambda t: flambeau.tensor([t])])
def test_losing_the_history_to_a_number_warns(convert) -> None:
    with pytest.warns(UserWarning, match="requires_grad=True to a scalar"):
        convert(flambeau.tensor(1.0, requires_grad=True))


def test_views_share_storage_after_deepcopy_and_pickle() -> None:
    x = flambeau.arange(4.0)
    for a, b in (copy.deepcopy((x, x[1:3])), pickle.loads(pickle.dumps((x, x[1:3])))):
        a += 10
        assert b.tolist() == [11.0, 12.0] and b.storage_offset() == 1
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_attributes_travel_with_copies() -> None:
    x = flambeau.ones(2, requires_grad=True)
    x.note = {"a": 1}
    x.grad = flambeau.zeros(2)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.note == {"a": 1} and y.requires_grad and y.is_leaf
    deep = copy.deepcopy(x)
    assert deep.grad is not x.grad and deep.grad.tolist() == [0.0, 0.0] and deep.note is not x.note


def test_deepcopy_of_a_result_says_what_to_do() -> None:
    y = flambeau.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="deepcopy protocol.*MulBackward0.*detach"):
        copy.deepcopy(y)


def test_parameters_are_printed_as_such() -> None:
    assert repr(flambeau.nn.Parameter(flambeau.ones(2))) == (
        "Parameter containing:\ntensor([1., 1.], requires_grad=True)")


def test_parameter_survives_copy_and_pickle() -> None:
    p = flambeau.nn.Parameter(flambeau.ones(2))
    for q in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(q) is flambeau.nn.Parameter and q.requires_grad and q.tolist() == [1.0, 1.0]
        assert q.data_ptr() != p.data_ptr()


def test_share_memory_is_seen_by_a_forked_process() -> None:
    import os

    t = flambeau.zeros(3).share_memory_()
    assert t.is_shared()
    child = os.fork()
    if child == 0:
        t[1] = 42
        os._exit(0)
    os.waitpid(child, 0)
    assert t.tolist() == [0.0, 42.0, 0.0]


def test_hooks_replace_gradients_and_are_removed() -> None:
    x = flambeau.ones(2, requires_grad=True)
    seen = []
    with x.register_hook(lambda g: g * 10):
        x.register_hook(lambda g: seen.append(g.tolist()))
        (x * 3).sum().backward()
    assert x.grad.tolist() == [30.0, 30.0] and seen == [[30.0, 30.0]]
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_hook_handles_can_be_pickled() -> None:
    x = flambeau.ones(2, requires_grad=True)
    handle = x.register_hook(print)
    again = pickle.loads(pickle.dumps(handle))
    assert again.id == handle.id
    again.remove()
    handle.remove()
    handle.remove()


def test_post_accumulate_hook_sees_the_gradient() -> None:
    x = flambeau.ones(2, requires_grad=True)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert seen == [(True, [2.0, 2.0])]


def test_grad_of_a_non_leaf_warns_with_its_line() -> None:
    x = flambeau.ones(2, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match=r"not a leaf Tensor.*retain_grad[\s\S]*test_tensor"):
        assert y.grad is None


def test_tensors_are_freed_without_the_collector() -> None:
    gc.disable()
    try:
        x = flambeau.ones(3, requires_grad=True)
        y = x[0]
        gone = weakref.ref(y)
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_dlpack_shares_memory_with_numpy() -> None:
    t = flambeau.zeros(2)
    a = np.from_dlpack(t)
    t[0] = 3
    assert a[0] == 3
    source = np.zeros(2)
    u = flambeau.from_dlpack(source)
    source[1] = 4
    assert u[1].item() == 4
    back = flambeau.utils.dlpack.from_dlpack(flambeau.utils.dlpack.to_dlpack(t))
    back[1] = 5
    assert t[1].item() == 5


def test_setitem_writes_through_views_and_gradients_follow() -> None:
    x = flambeau.ones(2, 3, requires_grad=True)
    v = flambeau.tensor([5.0, 6.0], requires_grad=True)
    y = x * 1
    y[:, 1] = v
    (y * 2).sum().backward()
    assert y.tolist() == [[1.0, 5.0, 1.0], [1.0, 6.0, 1.0]]
    assert x.grad.tolist() == [[2.0, 0.0, 2.0], [2.0, 0.0, 2.0]] and v.grad.tolist() == [2.0, 2.0]


# ---------------------------------------------------------------------------------------------- subclasses


class Plain(flambeau.Tensor):
    pass


class Logged(flambeau.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Number:
    """No tensor, but takes part."""

    def __init__(self, value: float) -> None:
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not flambeau.add:
            return NotImplemented
        return "sum of " + ", ".join(type(a).__name__ for a in args)


def test_results_keep_the_subclass() -> None:
    t = Plain([1.0, 2.0])
    assert repr(t) == "Plain([1., 2.])"
    for result in (t + 1, 1 - t, t.sum(), flambeau.ones(2) + t, t[0], t.to(flambeau.float64), t.data, t.detach(),
                   flambeau.stack([t, t]), t.split(1)[0], flambeau.nn.functional.relu(t)):
        assert type(result) is Plain
    assert type(t.numpy()) is np.ndarray and t.shape == (2,) and type(flambeau.ones(2) + 1) is flambeau.Tensor
    with flambeau._C.DisableTorchFunctionSubclass():
        assert type(t + 1) is flambeau.Tensor


def test_parameters_give_plain_tensors() -> None:
    p = flambeau.nn.Parameter(flambeau.ones(2))
    assert type(p * 2) is flambeau.Tensor and type(p.data) is flambeau.Tensor
    assert not flambeau.overrides.has_torch_function([p]) and flambeau.overrides.has_torch_function([Plain([1.0])])


def test_torch_function_sees_public_functions() -> None:
    t = flambeau.ones(2).as_subclass(Logged)
    Logged.calls.clear()
    _ = t + 1, t.sum(), flambeau.exp(t), t.shape, flambeau.cat([t, t])
    assert Logged.calls == ["add", "sum", "exp", "__get__", "cat"]


def test_objects_that_are_no_tensors_take_part() -> None:
    assert flambeau.add(flambeau.ones(1), Number(2)) == "sum of Tensor, Number"
    with pytest.raises(TypeError, match="NotImplemented"):
        flambeau.exp(Number(1))


def test_gradients_of_a_subclass_are_plain() -> None:
    t = flambeau.ones(2).as_subclass(Plain).requires_grad_()
    (t * t).sum().backward()
    assert type(t.grad) is flambeau.Tensor and t.grad.tolist() == [2.0, 2.0]


def test_function_modes_see_every_call() -> None:
    names = []

    class Mode(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Mode():
        flambeau.exp(flambeau.ones(2)) + 1
    assert names == ["ones", "exp", "add"]


# ---------------------------------------------------------------------------------------------- assert_close


def fails(*args, **kwargs) -> str:
    with pytest.raises(AssertionError) as info:
        flambeau.testing.assert_close(*args, **kwargs)
    return str(info.value)


def test_assert_close_tells_how_much_and_where() -> None:
    text = fails(flambeau.tensor([1.0, 2.0]), flambeau.tensor([1.0, 2.5]))
    assert text == (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)")
    assert "do not match: torch.Size([2]) != torch.Size([3])" in fails(flambeau.ones(2), flambeau.ones(3))
    assert "'dtype' do not match: torch.float32 != torch.float64" in fails(flambeau.ones(2), flambeau.ones(2).double())
    assert "The failure occurred for item ['a'][1]" in fails({"a": [1, 2]}, {"a": [1, 3]})
    assert fails(flambeau.ones(1), flambeau.zeros(1), msg=lambda m: "mine") == "mine"


def test_assert_close_accepts_what_is_close() -> None:
    close = flambeau.testing.assert_close
    close(flambeau.ones(3), flambeau.ones(3) + 1e-6)
    close([1.0, {"a": flambeau.ones(2)}], [1.0, {"a": flambeau.ones(2)}])
    close(flambeau.tensor(float("nan")), flambeau.tensor(float("nan")), equal_nan=True)
    close(flambeau.ones(2), flambeau.ones(2).double(), check_dtype=False)
    with pytest.raises(ValueError, match="no atol"):
        close(1.0, 1.0, rtol=0.1)
    with pytest.raises(TypeError, match="No comparison pair"):
        close("a", "a")


def test_warnings_are_silent_when_nothing_is_wrong() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = flambeau.zeros(2) / 0
        assert str(x) == "tensor([nan, nan])" and np.asarray(x).shape == (2,)
