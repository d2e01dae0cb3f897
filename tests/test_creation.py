"""Tensors from data and from sizes: the same values, dtypes, shapes, strides and errors as PyTorch."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import flambeau

from .expressions import check, torch

EXPRESSIONS = r"""
torch.tensor(np.float64(1))
torch.tensor([np.float64(1)])
torch.tensor([np.float32(1)])
torch.tensor([np.float32(1), 2.5])
torch.tensor([np.int32(1)])
torch.tensor([np.int32(1), np.int8(1)])
torch.tensor(np.int32(3))
torch.tensor(np.bool_(True))
torch.tensor([np.array([1.,2.]), np.array([3.,4.])])
torch.tensor([np.array([1,2],dtype=np.float32)])
torch.tensor([1, 2.5])
torch.tensor([True, 2])
torch.tensor([True, 2.5])
torch.tensor([1, 2j])
torch.tensor([1.5, 2j])
torch.tensor([[1,2],[3]])
torch.tensor([[1,2],3])
torch.tensor([1,[2,3]])
torch.tensor([])
torch.tensor([[],[]])
torch.tensor([[[]]])
torch.tensor(())
torch.tensor("abc")
torch.tensor(["a"])
torch.tensor(None)
torch.tensor([None])
torch.tensor([torch.tensor(1.), torch.tensor(2)])
torch.tensor([torch.tensor([1.]), torch.tensor([2.])])
torch.tensor([torch.tensor([1.,2.]), torch.tensor([2.,3.])])
torch.tensor([[torch.tensor(1), 2.]])
torch.tensor([torch.tensor(1, dtype=torch.float16), torch.tensor(2,dtype=torch.bfloat16)])
torch.tensor(torch.tensor([1.,2.]))
torch.tensor(2**63)
torch.tensor(2**62)
torch.tensor(-2**63)
torch.tensor(-2**63-1)
torch.tensor([1,2**63])
torch.tensor(300, dtype=torch.uint8)
torch.tensor([300], dtype=torch.uint8)
torch.tensor([-1], dtype=torch.uint8)
torch.tensor([-129], dtype=torch.int8)
torch.tensor([1.7], dtype=torch.int64)
torch.tensor([float('nan')], dtype=torch.int64)
torch.tensor([1e10], dtype=torch.int32)
torch.tensor([1e300])
torch.tensor([1j], dtype=torch.float32)
torch.tensor([1.5], dtype=torch.bool)
torch.tensor(1, requires_grad=True)
torch.tensor(1., requires_grad=True)
torch.tensor(range(4))
torch.tensor({1,2})
torch.tensor({1:2})
torch.tensor(x for x in [1,2])
torch.tensor(np.array(['a']))
torch.tensor(np.array([1,2],dtype='>i4'))
torch.tensor(np.array([1,2],dtype=object))
torch.tensor([1.,2.], device='meta')
torch.tensor(bytearray(b'abc'))
torch.tensor(b'abc')
torch.tensor([1.,2.], dtype=float)
torch.tensor([1.,2.], dtype=int)
torch.tensor([1.,2.], dtype=np.float32)
torch.tensor([1.,2.], dtype='float32')
torch.tensor([[1,2],[3,4]], dtype=torch.float32).stride()
torch.tensor(np.arange(6).reshape(2,3).T).stride()
torch.tensor(3.14159265358979, dtype=torch.float64)
torch.tensor()
torch.tensor([1.,2.], 3)
torch.tensor(True)
torch.tensor([1.0], pin_memory=True)
torch.as_tensor([1,2])
torch.as_tensor(np.array([1,2])[::-1])
torch.from_numpy(np.array([1,2])[::-1])
torch.from_numpy([1])
torch.from_numpy(np.float32(1))
torch.from_numpy(np.array(1.))
torch.from_numpy(np.array(['a']))
torch.from_numpy(np.broadcast_to(np.zeros(1),(3,)))
torch.asarray([1,2])
torch.asarray(3.)
torch.asarray(np.float32(3.))
torch.asarray(torch.ones(2,requires_grad=True))
torch.asarray(torch.ones(2,requires_grad=True), requires_grad=True)
torch.asarray(np.arange(3), copy=False, dtype=torch.float32)
torch.asarray([1], copy=False)
torch.asarray(b'abcd', dtype=torch.uint8)
torch.frombuffer(bytearray(b'abcdefgh'), dtype=torch.int16)
torch.frombuffer(bytearray(b'abcdefgh'), dtype=torch.int16, offset=2, count=2)
torch.frombuffer(bytearray(b'abcdefgh'), dtype=torch.int16, offset=2, count=9)
torch.frombuffer(bytearray(b'abcdefg'), dtype=torch.int16)
torch.frombuffer(bytearray(b''), dtype=torch.int16)
torch.frombuffer(bytearray(b'abcdefgh'), dtype=torch.int16, offset=9)
torch.frombuffer(bytearray(b'abcdefgh'), dtype=torch.int16, count=0)
torch.frombuffer(b'abcdefgh', dtype=torch.int16)
torch.frombuffer(3, dtype=torch.int16)
torch.arange(5)
torch.arange(5.)
torch.arange(1,5)
torch.arange(1,5,2)
torch.arange(0,1,0.1)
torch.arange(5,1)
torch.arange(5,1,-1)
torch.arange(0,5,0)
torch.arange(0,5,-1)
torch.arange(0,float('nan'))
torch.arange(0,float('inf'))
torch.arange(3,dtype=torch.float16)
torch.arange(3,dtype=torch.bool)
torch.arange(2,dtype=torch.bool)
torch.arange(True)
torch.arange(torch.tensor(3))
torch.arange(torch.tensor(3.))
torch.arange(np.int64(3))
torch.arange(np.float32(3))
torch.arange(1.5, 4, dtype=torch.int64)
torch.arange(0, 2.5, 0.5, dtype=torch.int64)
torch.arange(-2.5, 2.5, 1, dtype=torch.int64)
torch.arange(0, 10, 2.5)
torch.arange(end=4)
torch.arange(start=1,end=4)
torch.arange(start=1,end=4,step=2)
torch.arange(0, 3, out=torch.empty(3))
torch.arange(0, 3, out=torch.empty(3,dtype=torch.int32))
torch.arange(1,2,0.1,dtype=torch.float64).tolist()
torch.arange(1,2,0.1).tolist()
torch.arange(0,1,0.1).tolist()
torch.arange(0,300,1,dtype=torch.uint8)[-2:]
torch.arange(-1,2,dtype=torch.uint8)
torch.range(0,3)
torch.range(0,3,dtype=torch.int64)
torch.range(1,4,0.5)
torch.linspace(0,1,5)
torch.linspace(0,1,1)
torch.linspace(0,1,0)
torch.linspace(0,1,-1)
torch.linspace(0,1)
torch.linspace(0,10,5,dtype=torch.int64)
torch.linspace(-10,10,4,dtype=torch.int64)
torch.linspace(0,1j,3)
torch.linspace(0,1,steps=4).tolist()
torch.linspace(torch.tensor(0.),torch.tensor(1.),3)
torch.linspace(0,1,7,dtype=torch.float64).tolist()
torch.linspace(-3.3,10.7,11).tolist()
torch.linspace(0,1,5,dtype=torch.float16)
torch.linspace(0,1,5,dtype=torch.bool)
torch.logspace(0,2,3)
torch.logspace(0,2,3,base=2)
torch.logspace(-1,1,5).tolist()
torch.logspace(0,3,4,dtype=torch.int64)
torch.logspace(0,2,1)
torch.logspace(0,2,3,base=-2)
torch.zeros(2.5)
torch.zeros(-1)
torch.zeros((2,'a'))
torch.zeros(2, dtype=float)
torch.zeros()
torch.zeros([])
torch.zeros(torch.tensor(2), 3)
torch.zeros(torch.Size([2]))
torch.zeros(size=(2,))
torch.zeros((2,),out=torch.empty(5))
torch.zeros(2,out=torch.empty(2,dtype=torch.int64))
torch.zeros(2,out=torch.empty(2,dtype=torch.int64), dtype=torch.float32)
torch.full((2,),1.5,dtype=torch.int64)
torch.full((2,),300,dtype=torch.uint8)
torch.full((2,),1j)
torch.full((2,),1j,dtype=torch.float32)
torch.full((2,),torch.tensor(2))
torch.full(2,1)
torch.full((2,),torch.tensor([2]))
torch.full((2,),True)
torch.full((2,),'a')
torch.full((2,),1.,requires_grad=True)
torch.full((2,),1,requires_grad=True)
torch.eye(2,3)
torch.eye(-1)
torch.eye(2,dtype=torch.bool)
torch.eye(2.5)
torch.ones(2).new_zeros(3)
torch.ones(2).new_full((2,),1)
torch.ones(2,dtype=torch.int64).new_full((2,),1.5)
torch.ones(2).new_tensor([1,2])
torch.ones(2).new_tensor(torch.ones(2))
torch.full_like(torch.ones(2,dtype=torch.int64),1.5)
torch.zeros_like([1])
torch.zeros_like(torch.ones(2,3).T).stride()
torch.empty(2,3,4,5,memory_format=torch.channels_last).stride()
torch.empty((2,3),memory_format=torch.channels_last)
torch.ones(2, device='meta')
torch.scalar_tensor(2)
torch.ones(2,dtype='x')
torch.ones(2, requires_grad=True, dtype=torch.int64)
torch.ones(2, foo=1)
""".strip().splitlines()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_agrees_with_pytorch(expression: str) -> None:
    check(expression)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_arange_and_linspace_are_exact_in_every_dtype(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        start, step = float(rng.normal() * 3), float(rng.uniform(0.01, 1))
        n = int(rng.integers(0, 90))
        for make in ("arange", "linspace"):
            args = (start, start + step * n, step) if make == "arange" else (start, float(rng.normal() * 20), n)
            ours = getattr(flambeau, make)(*args, dtype=getattr(flambeau, dtype))
            theirs = getattr(torch, make)(*args, dtype=getattr(torch, dtype))
            assert ours.tolist() == theirs.tolist(), (make, args)


def test_from_numpy_shares_memory_both_ways() -> None:
    a = np.arange(3.0)
    t = flambeau.from_numpy(a)
    t[0] = 7
    a[1] = 8
    assert a[0] == 7 and t[1].item() == 8
    assert t.data_ptr() == a.__array_interface__["data"][0]


def test_tensor_copies_and_as_tensor_does_not() -> None:
    a = np.zeros(2)
    copied, shared = flambeau.tensor(a), flambeau.as_tensor(a)
    a[0] = 1
    assert copied[0].item() == 0 and shared[0].item() == 1


def test_tensor_of_a_tensor_warns() -> None:
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        flambeau.tensor(flambeau.ones(2))


def test_ragged_data_says_where_and_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"expected sequence of length 2 at dim 1 \(got 1\).*pad"):
        flambeau.tensor([[1, 2], [3]])


def test_default_dtype_decides_for_floats_and_complex() -> None:
    flambeau.set_default_dtype(flambeau.float64)
    try:
        assert flambeau.tensor(1.5).dtype is flambeau.float64
        assert flambeau.tensor(1j).dtype is flambeau.complex128
        assert flambeau.zeros(2).dtype is flambeau.float64
        assert flambeau.arange(0, 1, 0.5).dtype is flambeau.float64
        assert (flambeau.tensor([1]) / 2).dtype is flambeau.float64
        assert repr(flambeau.tensor(1.5)) == "tensor(1.5000)"
    finally:
        flambeau.set_default_dtype(flambeau.float32)


def test_default_device_and_device_blocks() -> None:
    with flambeau.device("meta"):
        assert flambeau.zeros(2).is_meta and flambeau.tensor([1]).is_meta
    assert not flambeau.zeros(2).is_meta
    flambeau.set_default_device("meta")
    try:
        assert flambeau.ones(2).is_meta and str(flambeau.get_default_device()) == "meta"
        with flambeau.device("cpu"):
            assert not flambeau.ones(2).is_meta
    finally:
        flambeau.set_default_device(None)
    assert not flambeau.ones(2).is_meta


@pytest.mark.parametrize("make", ["zeros(2, device='cuda')", "tensor([1.0], device='cuda')", "arange(3, device='cuda')",
                                  "ones(2).to('cuda')", "ones(2).cuda()"])
def test_cuda_is_refused_with_the_way_out(make: str) -> None:
    with pytest.raises(RuntimeError, match="cuda.is_available"):
        eval(f"flambeau.{make}")


def test_read_only_array_warns_once_and_is_not_written() -> None:
    from flambeau.ops import _from_data

    _from_data._warned.discard("not writable array")
    a = np.arange(3.0)
    a.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        t = flambeau.from_numpy(a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flambeau.from_numpy(a)
    with pytest.raises((ValueError, RuntimeError)):
        t.add_(1)
    assert a.tolist() == [0.0, 1.0, 2.0]


def test_out_takes_its_own_dtype_and_the_new_shape() -> None:
    out = flambeau.empty(5, dtype=flambeau.int64)
    assert flambeau.zeros(2, 3, out=out) is out
    assert out.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert flambeau.arange(3, out=out) is out and out.tolist() == [0, 1, 2]


@pytest.mark.parametrize("give", ["from_numpy", "as_tensor", "asarray", "tensor", "Tensor"])
def test_unpickled_array_meets_other_tensors(give: str) -> None:
    a = pickle.loads(pickle.dumps(np.arange(6.0, dtype=np.float32).reshape(2, 3)))
    assert a.dtype is not np.dtype(np.float32), "NumPy makes a dtype object of its own for it"
    x = getattr(flambeau, give)(a)
    assert flambeau.nn.BatchNorm1d(3)(x).shape == (2, 3)
    assert flambeau.nn.functional.conv1d(x[None], flambeau.ones(1, 2, 1)).tolist() == [[[3.0, 5.0, 7.0]]]
    if give == "from_numpy":
        x[0, 0] = 9
        assert a[0, 0] == 9


def test_longlong_array_is_int64() -> None:
    x = flambeau.from_numpy(np.array([2, 0], np.longlong))
    assert x.dtype is flambeau.int64 and flambeau.ones(3)[x].tolist() == [1.0, 1.0]
    assert flambeau.nn.functional.cross_entropy(flambeau.zeros(2, 3), x).item() == pytest.approx(1.0986123)


def test_copy_of_an_unpickled_tensor_meets_other_tensors() -> None:
    x = copy.deepcopy(pickle.loads(pickle.dumps(flambeau.ones(2, 3))))
    assert flambeau.nn.BatchNorm1d(3)(x).tolist() == [[0.0] * 3] * 2


def test_ranges_and_random_numbers_go_to_the_device_of_the_context():
    with flambeau.device("meta"):
        made = [flambeau.arange(3), flambeau.linspace(0, 1, 3), flambeau.rand(2), flambeau.randint(3, (2,)),
                flambeau.ones(2), flambeau.full((2,), 1.5)]
    assert {t.device.type for t in made} == {"meta"}
