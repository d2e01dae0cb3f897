"""The random kernels against PyTorch's CPU generator: the numbers, and where the stream stands after them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from flambeau.kernels import random, random_samplers
from flambeau.kernels.random_engine import MersenneTwister

NUMPY = {
    torch.float16: np.dtype(np.float16),
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.complex64: np.dtype(np.complex64),
    torch.complex128: np.dtype(np.complex128),
    torch.bool: np.dtype(np.bool_),
    torch.uint8: np.dtype(np.uint8),
    torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
}
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
SHAPES = [(), (0,), (1,), (2,), (15,), (16,), (17,), (31,), (32,), (100,), (1000,), (3, 0, 2), (3, 5, 7), (90000,)]
SEED = 1234

BELOW_HALF = torch.empty(2000, dtype=torch.float64).bernoulli_(0.5, generator=torch.Generator().manual_seed(0))
DRAWS53 = MersenneTwister(0).uniform53(2000) < 0.5
# On Intel processors PyTorch draws scalar Bernoulli numbers from a generator of MKL instead: one stream a vendor.
own_bernoulli = pytest.mark.skipif(
    not np.array_equal(BELOW_HALF.numpy() != 0, DRAWS53), reason="this processor's PyTorch draws bernoulli_ by MKL"
)


def array(tensor: torch.Tensor) -> np.ndarray:
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def strided(tensor: torch.Tensor) -> np.ndarray:
    """A NumPy array of the shape and strides of `tensor`."""
    size = tensor.element_size()
    return np.lib.stride_tricks.as_strided(
        np.zeros(tensor.untyped_storage().nbytes() // size, NUMPY[tensor.dtype]),
        tensor.shape, [stride * size for stride in tensor.stride()],
    )


def compare(expected, draw, ulps: float = 0, seed: int = SEED) -> None:
    """`expected()` of torch and `draw(engine)` of ours give one array, and leave the streams at one place."""
    torch.manual_seed(seed)
    theirs = array(expected())
    their_next = torch.randn(1, dtype=torch.float64).numpy()
    engine = MersenneTwister(seed)
    ours = draw(engine)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    if ulps == 0:
        np.testing.assert_array_equal(ours, theirs)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=ulps * np.finfo(theirs.dtype).eps, atol=0)
    after = random.normal(engine, (1,), 0.0, 1.0, np.dtype(np.float64))
    np.testing.assert_allclose(after, their_next, rtol=1e-15)


def ulps_of(dtype: torch.dtype) -> float:
    return 4 if dtype in (torch.float64, torch.complex128) else 0


# -- the engine ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", [0, 1, 5489, 2**32 - 1, 2**32 + 7, 2**63 + 5, 2**64 - 1, -5])
def test_seed_gives_the_same_state_and_uniforms(seed):
    torch.manual_seed(seed)
    engine = MersenneTwister(seed)
    assert engine.initial_seed == torch.initial_seed()
    np.testing.assert_array_equal(engine.get_state(), torch.get_rng_state().numpy())
    np.testing.assert_array_equal(engine.uniform24(2000), torch.rand(2000).numpy())


@pytest.mark.parametrize("n", [1, 2, 3, 623, 624, 625, 1248, 20000, 45678])
@pytest.mark.parametrize("normals", [0, 1, 2])
def test_states_are_pytorch_bytes_both_ways(n, normals):
    generator = torch.Generator().manual_seed(3)
    engine = MersenneTwister(3)
    torch.rand(n, generator=generator)
    engine.uniform24(n)
    torch.randn(normals, generator=generator)
    random.normal(engine, (normals,), 0.0, 1.0, np.dtype(np.float64))
    state = engine.get_state()
    assert state.dtype == np.uint8 and state.shape == (5056,)
    np.testing.assert_array_equal(state, generator.get_state().numpy())

    loaded = MersenneTwister(99)
    loaded.set_state(generator.get_state().numpy())
    theirs = torch.Generator().set_state(torch.from_numpy(state))
    np.testing.assert_array_equal(loaded.get_state(), state)
    for count in (3, 1, 700, 2):
        expected = torch.randn(count, generator=theirs, dtype=torch.float64).numpy()
        actual = random.normal(loaded, (count,), 0.0, 1.0, np.dtype(np.float64))
        np.testing.assert_allclose(actual, expected, rtol=1e-15)


def test_small_and_large_draws_read_one_stream():
    whole = MersenneTwister(5).draw32(60000)
    engine = MersenneTwister(5)
    counts = [0, 1, 3, 620, 1, 624, 1248, 30000, 0, 7, 623, 20000]
    parts = [engine.draw32(n).copy() for n in counts]
    np.testing.assert_array_equal(np.concatenate(parts), whole[: sum(counts)])
    engine.manual_seed(5)
    assert [engine.next32() for _ in range(1300)] == whole[:1300].tolist()
    engine.manual_seed(5)
    wide = engine.draw64(1000).tolist()
    assert wide == [int(first) << 32 | int(second) for first, second in whole[:2000].reshape(-1, 2)]
    engine.manual_seed(5)
    assert [engine.next_uniform53() for _ in range(1000)] == [(w & 2**53 - 1) * 2.0**-53 for w in wide]


def test_uniforms_are_fresh_arrays():
    engine = MersenneTwister(5)
    engine.uniform24(10)[:] = 7.0
    state = engine.get_state()
    first = engine.uniform24(10)
    engine.set_state(state)
    np.testing.assert_array_equal(engine.uniform24(10), first)


def test_clone_is_independent():
    engine = MersenneTwister(8)
    engine.draw32(100)
    random.normal(engine, (3,), 0.0, 1.0, np.dtype(np.float32))
    copy = engine.clone()
    assert copy.next_normal == engine.next_normal and copy.initial_seed == 8
    np.testing.assert_array_equal(copy.draw32(1000), engine.draw32(1000))
    copy.draw32(1)
    assert copy.get_state().tolist() != engine.get_state().tolist()


def test_seed_differs_each_time_and_drops_the_waiting_normal():
    engine = MersenneTwister(8)
    random.normal(engine, (1,), 0.0, 1.0, np.dtype(np.float32))
    first = engine.seed()
    assert engine.next_normal is None and engine.initial_seed == first != engine.seed()


@pytest.mark.parametrize(
    "state, error, words",
    [
        (np.zeros(5056, np.float32), TypeError, "ByteTensor"),
        (np.zeros(100, np.uint8), RuntimeError, "5056 bytes"),
        (np.zeros(5056, np.uint8), RuntimeError, "Invalid mt19937 state"),
    ],
)
def test_bad_states_are_refused(state, error, words):
    with pytest.raises(error, match=words):
        MersenneTwister().set_state(state)


# -- uniform and normal ----------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.complex128], ids=str)
def test_rand(dtype, shape):
    compare(lambda: torch.rand(shape, dtype=dtype), lambda e: random.uniform(e, shape, 0.0, 1.0, NUMPY[dtype]))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.complex128], ids=str)
def test_randn(dtype, shape):
    compare(
        lambda: torch.randn(shape, dtype=dtype),
        lambda e: random.normal(e, shape, 0.0, 1.0, NUMPY[dtype]), ulps_of(dtype),
    )


@pytest.mark.parametrize(
    "low, high", [(-0.3, 0.7), (2, 5), (-1, 1), (0.1, 0.2), (-1 / 3, 1 / 3), (-100, 1.3e-3), (1, 1 + 1e-7), (3, 3)]
)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform_rounds_once_and_replaces_the_upper_bound(dtype, low, high):
    compare(
        lambda: torch.empty(50000, dtype=dtype).uniform_(low, high),
        lambda e: random.uniform(e, (50000,), low, high, NUMPY[dtype]),
    )


@pytest.mark.parametrize("mean, std", [(2.0, 3.0), (0.0, 0.1), (-1.5, 1.0), (1.3, 0.0)])
@pytest.mark.parametrize("n", [3, 15, 16, 40, 20000])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normal_of_mean_and_std(dtype, n, mean, std):
    torch.manual_seed(SEED)
    expected = array(torch.empty(n, dtype=dtype).normal_(mean, std))
    actual = random.normal(MersenneTwister(SEED), (n,), mean, std, NUMPY[dtype])
    if dtype is torch.float64:  # a sum near 0 keeps the absolute error of its terms
        np.testing.assert_allclose(actual, expected, rtol=1e-15, atol=8e-16 * (abs(mean) + std))
    else:
        np.testing.assert_array_equal(actual, expected)


def test_second_normal_waits_across_dtypes_and_operators():
    def theirs():
        return torch.cat([torch.randn(3), torch.rand(2), torch.randn(1), torch.randn(40), torch.empty(5).log_normal_()])

    def ours(engine):
        single = np.dtype(np.float32)
        return np.concatenate([
            random.normal(engine, (3,), 0.0, 1.0, single), random.uniform(engine, (2,), 0.0, 1.0, single),
            random.normal(engine, (1,), 0.0, 1.0, single), random.normal(engine, (40,), 0.0, 1.0, single),
            random.log_normal(engine, (5,), 1.0, 2.0, single),
        ])

    compare(theirs, lambda e: ours(e), 0)


# -- order of filling ------------------------------------------------------------------------------------
LAYOUTS = {
    "contiguous": lambda: torch.zeros(4, 30),
    "permuted": lambda: torch.zeros(6, 5, 4).permute(2, 0, 1),
    "channels_last": lambda: torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "one channel": lambda: torch.zeros(2, 1, 4, 5).to(memory_format=torch.channels_last),
    "steps": lambda: torch.zeros(20, 7)[::2, ::3],
    "permuted steps": lambda: torch.zeros(6, 5, 4, 8).permute(2, 3, 0, 1)[::2, 1:7:2],
    "a few": lambda: torch.zeros(3, 4).t(),
    "column": lambda: torch.zeros(40, 3)[:, 1],
    "none": lambda: torch.zeros(0, 3).t(),
}
FILLS = {
    "uniform_": (lambda t: t.uniform_(-0.3, 0.7), lambda e, a: random.uniform_(e, a, -0.3, 0.7)),
    "normal_": (lambda t: t.normal_(), lambda e, a: random.normal_(e, a, 0.0, 1.0)),
    "random_": (lambda t: t.random_(5, 50), lambda e, a: random.randint_(e, a, 5, 50)),
    "exponential_": (lambda t: t.exponential_(), lambda e, a: random.exponential_(e, a, 1.0)),
    "bernoulli_ tensor": (
        lambda t: t.bernoulli_(torch.linspace(0, 1, t.numel()).view(t.shape)),
        lambda e, a: random.bernoulli_tensor_(
            e, a, torch.linspace(0, 1, a.size).numpy().reshape(a.shape)
        ),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fill", FILLS)
def test_fills_go_in_the_order_of_memory(fill, layout):
    theirs, ours = FILLS[fill]

    def filled(engine):
        out = strided(LAYOUTS[layout]())
        ours(engine, out)
        return out

    compare(lambda: theirs(LAYOUTS[layout]()), filled)


def test_complex_normal_of_a_transposed_array():
    def filled(engine):
        out = np.zeros((20, 30), np.complex64).T
        random.normal_(engine, out, 2.0, 1.0)
        return out

    compare(lambda: torch.zeros(20, 30, dtype=torch.complex64).t().normal_(2.0, 1.0), filled)


# -- integers --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_randint(shape):
    compare(
        lambda: torch.randint(-3, 10, shape), lambda e: random.randint(e, shape, -3, 10, NUMPY[torch.int64])
    )


@pytest.mark.parametrize(
    "low, high",
    [(0, 1), (0, 2**28 - 1), (0, 2**28), (0, 2**28 + 1), (-(2**31), 2**31), (0, 2**32), (5, 2**40),
     (-(2**63), 2**63 - 1), (-(2**62), 2**62 + 5)],
)
def test_randint_of_wide_ranges(low, high):
    compare(
        lambda: torch.randint(low, high, (1000,)), lambda e: random.randint(e, (1000,), low, high, NUMPY[torch.int64])
    )


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS], ids=str)
def test_random_without_bounds(dtype):
    compare(lambda: torch.empty(1000, dtype=dtype).random_(), lambda e: random.randint_all(e, (1000,), NUMPY[dtype]))
    compare(
        lambda: torch.empty(1000, dtype=dtype).random_(2 if dtype is not torch.bool else 1),
        lambda e: random.randint(e, (1000,), 0, 2 if dtype is not torch.bool else 1, NUMPY[dtype]),
    )


@pytest.mark.parametrize("low", [0, 3, -7, -(2**63)])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, *FLOATS], ids=str)
def test_random_from_a_lower_bound(dtype, low):
    if low == -(2**63) and dtype is not torch.int64:
        low = -100
    compare(
        lambda: torch.empty(1000, dtype=dtype).random_(low, None),
        lambda e: random.randint_from(e, (1000,), low, NUMPY[dtype]),
    )


@pytest.mark.parametrize("low, high", [(3, 300), (-255, 256), (-100, 1001), (2047, 2050)])
@pytest.mark.parametrize("dtype", [torch.int16, *FLOATS], ids=str)
@pytest.mark.filterwarnings("ignore:.*is out of bounds")
def test_random_keeps_float_bounds_exact(dtype, low, high):
    compare(
        lambda: torch.empty(1000, dtype=dtype).random_(low, high),
        lambda e: random.randint(e, (1000,), low, high, NUMPY[dtype]),
    )


@pytest.mark.parametrize("n", [0, 1, 2, 3, 16, 624, 1000, 100_000])
def test_randperm(n):
    compare(lambda: torch.randperm(n), lambda e: random.randperm(e, n, NUMPY[torch.int64]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float32, torch.bfloat16], ids=str)
def test_randperm_dtypes(dtype):
    compare(lambda: torch.randperm(200, dtype=dtype), lambda e: random.randperm(e, 200, NUMPY[dtype]))


# -- the other distributions -----------------------------------------------------------------------------
@own_bernoulli
@pytest.mark.parametrize("p", [0.0, 0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, *FLOATS], ids=str)
def test_bernoulli(dtype, p):
    compare(
        lambda: torch.empty(70000, dtype=dtype).bernoulli_(p), lambda e: random.bernoulli(e, (70000,), p, NUMPY[dtype])
    )


def test_bernoulli_compares_the_second_word_too():
    engine = MersenneTwister(SEED)
    values = engine.uniform53(1000)
    p = float(values[123])
    engine.manual_seed(SEED)
    assert not random.bernoulli(engine, (1000,), p, np.dtype(np.bool_))[123]
    engine.manual_seed(SEED)
    above = random.bernoulli(engine, (1000,), float(np.nextafter(p, 1)), np.dtype(np.bool_))
    assert above[123]
    np.testing.assert_array_equal(above, values <= p)


@pytest.mark.parametrize("p_dtype", FLOATS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_bernoulli_of_probabilities(dtype, p_dtype):
    p = torch.linspace(0, 1, 4000, dtype=torch.float64).to(p_dtype).view(40, 100)
    compare(
        lambda: torch.empty(40, 100, dtype=dtype).bernoulli_(p),
        lambda e: random.bernoulli_tensor(e, array(p), NUMPY[dtype]),
    )


@pytest.mark.parametrize("n", [0, 1, 7, 40, 3000])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "name, parameters",
    [("exponential", (1.0,)), ("exponential", (0.7,)), ("cauchy", (0.0, 1.0)), ("cauchy", (0.3, 0.7)),
     ("log_normal", (1.0, 2.0)), ("log_normal", (0.5, 0.7)), ("geometric", (0.3,)), ("geometric", (0.99,))],
)
def test_continuous(name, parameters, dtype, n):
    compare(
        lambda: getattr(torch.empty(n, dtype=dtype), name + "_")(*parameters),
        lambda e: getattr(random, name)(e, (n,), *parameters, NUMPY[dtype]), 2 * ulps_of(dtype),
    )


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_geometric_integers(dtype):
    compare(
        lambda: torch.empty(500, dtype=dtype).geometric_(0.1), lambda e: random.geometric(e, (500,), 0.1, NUMPY[dtype])
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_rrelu_noise(dtype):
    x = torch.linspace(-1, 1, 200, dtype=dtype).view(10, 20)

    def theirs():
        noise = torch.empty_like(x)
        torch.ops.aten.rrelu_with_noise(x, noise, 0.1, 0.3, True)
        return noise

    compare(theirs, lambda e: random.rrelu_noise(e, array(x), 0.1, 0.3))


# -- parameters in arrays --------------------------------------------------------------------------------
@pytest.mark.parametrize("n, replacement", [(1, False), (1, True), (5, False), (60, False), (500, True)])
@pytest.mark.parametrize("shape", [(60,), (7, 60), (0, 60)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_multinomial(dtype, shape, n, replacement):
    if dtype in (torch.float16, torch.bfloat16) and n == 60:
        pytest.skip("equal speeds, frequent in 16 bits, have an order of their own in PyTorch's selection")
    p = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    p[..., 5] = 0
    compare(
        lambda: torch.multinomial(p, n, replacement), lambda e: random_samplers.multinomial(e, array(p), n, replacement)
    )


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [1.0, np.nan], [1.0, np.inf], [0.0, 0.0]], ids=str)
@pytest.mark.parametrize("n, replacement", [(1, False), (2, True)])
def test_multinomial_refuses_what_is_no_distribution(weights, n, replacement):
    with pytest.raises(RuntimeError, match="multinomial"):
        random_samplers.multinomial(MersenneTwister(0), np.array(weights, np.float32), n, replacement)


@pytest.mark.parametrize("scale", [0.0, 1.0, 9.0, 100.0])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_poisson(dtype, scale):
    rate = (torch.rand(20, 25, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * scale).to(dtype)
    compare(lambda: torch.poisson(rate), lambda e: random_samplers.poisson(e, array(rate)))


@pytest.mark.parametrize("trials", [1, 15, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_binomial(dtype, trials):
    generator = torch.Generator().manual_seed(0)
    count = torch.randint(0, trials + 1, (20, 25), generator=generator).to(dtype)
    prob = torch.rand(20, 25, generator=generator, dtype=dtype) * 1.2 - 0.1
    compare(lambda: torch.binomial(count, prob), lambda e: random_samplers.binomial(e, array(count), array(prob)))


@pytest.mark.parametrize("scale", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gamma_and_dirichlet(dtype, scale):
    alpha = torch.rand(20, 25, generator=torch.Generator().manual_seed(0), dtype=dtype) * scale
    compare(
        lambda: torch._standard_gamma(alpha), lambda e: random_samplers.standard_gamma(e, array(alpha)), ulps_of(dtype)
    )
    compare(
        lambda: torch._sample_dirichlet(alpha), lambda e: random_samplers.dirichlet(e, array(alpha)), ulps_of(dtype)
    )


def test_gamma_of_no_shape_is_nan_not_an_endless_loop():
    values = random_samplers.standard_gamma(MersenneTwister(0), np.array([-1.0, np.nan, 0.0]))
    assert np.isnan(values[:2]).all() and values[2] == np.finfo(np.float64).tiny
