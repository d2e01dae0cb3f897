"""autocast on the CPU: the dtype of each operator's result, modes, caches, and training, against PyTorch."""

from __future__ import annotations

import threading
import warnings

import pytest

import flambeau
from flambeau.core import interception
from flambeau.core.state import state


def positive(lib, kind):
    """A maker of tensors of one dtype; "mixed" takes float32 and bfloat16 in turn."""
    n_made = 0

    def make(*shape):
        nonlocal n_made
        n_made += 1
        name = kind if kind != "mixed" else ("float32" if n_made % 2 else "bfloat16")
        return (lib.rand(*shape) * 0.8 + 0.1).to(getattr(lib, name))

    return make


IMAGE, VOLUME = (1, 1, 4, 4), (1, 1, 4, 4, 4)
LOWER = {
    "mm": lambda L, F, t: L.mm(t(3, 3), t(3, 3)), "matrix @ vector": lambda L, F, t: t(3, 3) @ t(3),
    "vector @ vector": lambda L, F, t: L.matmul(t(3), t(3)), "stack @ matrix": lambda L, F, t: t(2, 3, 3) @ t(3, 3),
    "bmm": lambda L, F, t: L.bmm(t(2, 3, 3), t(2, 3, 3)), "addmm": lambda L, F, t: L.addmm(t(3), t(3, 3), t(3, 3)),
    "baddbmm": lambda L, F, t: L.baddbmm(t(2, 3, 3), t(2, 3, 3), t(2, 3, 3)),
    "addbmm": lambda L, F, t: L.addbmm(t(3, 3), t(2, 3, 3), t(2, 3, 3)),
    "einsum": lambda L, F, t: L.einsum("ij,jk", t(3, 3), t(3, 3)),
    "linear": lambda L, F, t: F.linear(t(2, 3), t(4, 3), t(4)),
    "linear 3d": lambda L, F, t: F.linear(t(2, 2, 3), t(4, 3), t(4)),
    "conv1d": lambda L, F, t: F.conv1d(t(1, 1, 5), t(1, 1, 2), t(1)),
    "same": lambda L, F, t: F.conv2d(t(*IMAGE), t(1, 1, 2, 2), padding="same"),
    "conv_transpose2d": lambda L, F, t: F.conv_transpose2d(t(*IMAGE), t(1, 1, 2, 2)),
    "prelu": lambda L, F, t: F.prelu(t(2, 3), t(3)),
    "attention": lambda L, F, t: F.scaled_dot_product_attention(t(*IMAGE), t(*IMAGE), t(*IMAGE)),
    "vecdot": lambda L, F, t: L.linalg.vecdot(t(3, 3), t(3, 3)),
    "matrix_power": lambda L, F, t: L.linalg.matrix_power(t(3, 3), 2),
}
FLOAT32 = {
    "cross_entropy": lambda L, F, t: F.cross_entropy(t(3, 3), L.tensor([0, 1, 2])),
    "mse": lambda L, F, t: F.mse_loss(t(3), t(3)),
    "l1": lambda L, F, t: F.l1_loss(t(3), t(3)),
    "huber": lambda L, F, t: F.huber_loss(t(3), t(3)),
    "kl": lambda L, F, t: F.kl_div(t(3), t(3)),
    "bce": lambda L, F, t: F.binary_cross_entropy(t(3), t(3)),
    "logits": lambda L, F, t: F.binary_cross_entropy_with_logits(t(3), t(3)),
    "triplet": lambda L, F, t: F.triplet_margin_loss(t(3, 3), t(3, 3), t(3, 3)),
    "poisson": lambda L, F, t: F.poisson_nll_loss(t(3), t(3)),
    "prod": lambda L, F, t: t(3, 3).prod(),
    "prod of rows": lambda L, F, t: t(3, 3).prod(1),
    "trace": lambda L, F, t: t(3, 3).trace(),
    "cdist": lambda L, F, t: L.cdist(t(3, 3), t(3, 3)),
    "quantile": lambda L, F, t: L.quantile(t(3), 0.5),
    "fft": lambda L, F, t: L.fft.fft(t(4)),
    "rfft2": lambda L, F, t: L.fft.rfft2(t(4, 4)).real,
    "inv": lambda L, F, t: L.linalg.inv(t(3, 3)),
    "svdvals": lambda L, F, t: L.linalg.svdvals(t(3, 3)),
    "solve": lambda L, F, t: L.linalg.solve(t(3, 3), t(3, 3)), "polar": lambda L, F, t: L.polar(t(3), t(3)).real,
    "avg_pool3d": lambda L, F, t: F.avg_pool3d(t(*VOLUME), 2),
    "max_pool3d": lambda L, F, t: F.max_pool3d(t(*VOLUME), 2),
    "reflect": lambda L, F, t: F.pad(t(*IMAGE), (1, 1, 1, 1), mode="reflect"),
    "grid": lambda L, F, t: F.grid_sample(t(*IMAGE), t(1, 2, 2, 2), align_corners=False),
}
AS_IT_IS = {
    "mv": lambda L, F, t: L.mv(t(3, 3), t(3)),
    "dot": lambda L, F, t: L.dot(t(3), t(3)),
    "softmax": lambda L, F, t: F.softmax(t(3, 3), 1),
    "log_softmax": lambda L, F, t: F.log_softmax(t(3, 3), 1), "layer_norm": lambda L, F, t: F.layer_norm(t(3, 3), (3,)),
    "sum": lambda L, F, t: t(3, 3).sum(),
    "exp": lambda L, F, t: t(3).exp(),
    "pow": lambda L, F, t: t(3) ** 2,
    "outer": lambda L, F, t: L.outer(t(3), t(3)),
    "avg_pool2d": lambda L, F, t: F.avg_pool2d(t(*IMAGE), 2), "max_pool2d": lambda L, F, t: F.max_pool2d(t(*IMAGE), 2),
    "cat": lambda L, F, t: L.cat([t(3), t(3)]), "stack": lambda L, F, t: L.stack([t(3), t(3)]),
    "index_copy": lambda L, F, t: L.index_copy(t(3), 0, L.tensor([0]), t(1)),
    "addmm_": lambda L, F, t: t(3, 3).addmm_(t(3, 3), t(3, 3)),
    "out=": lambda L, F, t: L.mm(t(3, 3), t(3, 3), out=t(3, 3)),
    "gaussian_nll": lambda L, F, t: F.gaussian_nll_loss(t(3), t(3), t(3)),
}
CASES = {**LOWER, **FLOAT32, **AS_IT_IS}
# Errors relative to PyTorch's results: 8 bits of bfloat16, rounded after one operator or a few, are 2**-8 = 4e-3 each; 11
# bits of float16 are 5e-4
BFLOAT16, FLOAT16 = 0.02, 2e-3


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float64", "mixed"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_pytorch(both, name, kind):
    def run(lib):
        with lib.autocast("cpu", dtype=lib.bfloat16):
            return CASES[name](lib, lib.nn.functional, positive(lib, kind))

    both(run, 1e-6 if kind == "float64" else BFLOAT16 if name in LOWER or kind in ("bfloat16", "mixed") else 1e-5)


@pytest.mark.parametrize("name", ["linear", "cross_entropy", "exp"])
def test_float16(both, name):
    def run(lib):
        with lib.autocast("cpu", dtype=lib.float16):
            return CASES[name](lib, lib.nn.functional, positive(lib, "float32"))

    both(run, FLOAT16)


def net_of(lib):
    n = lib.nn
    return n.Sequential(n.Conv2d(1, 4, 3, padding=1), n.BatchNorm2d(4), n.ReLU(), n.Conv2d(4, 4, 3), n.MaxPool2d(2),
                        n.Flatten(), n.Linear(36, 10), n.LayerNorm(10), n.GELU(), n.Linear(10, 3))


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", BFLOAT16 / 2), ("float16", FLOAT16 / 2)])
def test_training(both, dtype, tolerance):
    def run(lib):
        net = net_of(lib)
        opt = lib.optim.AdamW(net.parameters(), lr=1e-2)
        scaler = lib.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=3, enabled=dtype == "float16")
        x, y = lib.randn(16, 1, 8, 8), lib.randint(0, 3, (16,))
        losses, kinds = [], []
        for _ in range(8):
            opt.zero_grad()
            with lib.autocast("cpu", dtype=getattr(lib, dtype)):
                out = net(x)
                loss = lib.nn.functional.cross_entropy(out, y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            losses.append(loss.item())
            kinds.append([str(out.dtype).split(".")[-1], all(p.grad.dtype == lib.float32 for p in net.parameters())])
        return losses, kinds, scaler.get_scale()

    both(run, tolerance)


@pytest.mark.parametrize("kind", ["LSTM", "RNN", "GRU", "MultiheadAttention"])
def test_layers_that_compute_by_themselves(both, kind):
    def run(lib):
        x = lib.randn(5, 2, 4)
        with lib.autocast("cpu"):
            if kind == "MultiheadAttention":
                return lib.nn.MultiheadAttention(4, 2)(x, x, x)[0]
            first = lib.nn.Linear(4, 4)(x)              # bfloat16: the layer's own weights are float32
            return getattr(lib.nn, kind)(4, 3)(first)[0]

    both(run, 1.5 * BFLOAT16)               # five steps, each of which starts from the rounded state before it


# ------------------------------------------------------------------------------------- modes


def test_nesting_and_switching_off(both):
    def run(lib):
        x = lib.ones(2, 2)
        names = []

        def note():
            names.append([str((x @ x).dtype).split(".")[-1], lib.is_autocast_enabled("cpu"), lib.is_autocast_enabled(),
                          str(lib.get_autocast_dtype("cpu")).split(".")[-1], lib.is_autocast_cache_enabled()])

        note()
        with lib.autocast("cpu"):
            note()
            with lib.autocast("cpu", dtype=lib.float16, cache_enabled=False):
                note()
                with lib.autocast("cpu", enabled=False):
                    note()
                note()
            note()
        note()
        try:
            with lib.amp.autocast("cpu"):
                raise KeyError("left by an exception")
        except KeyError:
            note()
        return names

    both(run)


def test_decorated_functions_and_reuse():
    @flambeau.autocast("cpu")
    def product(x):
        """Doc."""
        return x @ x

    assert product(flambeau.ones(2, 2)).dtype == flambeau.bfloat16 and product.__doc__ == "Doc."
    mode = flambeau.autocast("cpu")
    with mode, mode:
        pass
    assert not flambeau.is_autocast_enabled("cpu")


def test_a_thread_has_its_own_mode():
    found = []

    def other():
        x = flambeau.ones(2, 2)
        found.append((x @ x).dtype)
        with flambeau.autocast("cpu", dtype=flambeau.float16):
            found.append((x @ x).dtype)

    with flambeau.autocast("cpu"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert (flambeau.ones(2, 2) @ flambeau.ones(2, 2)).dtype == flambeau.bfloat16
    assert found == [flambeau.float32, flambeau.float16]


def test_nothing_is_left_when_it_is_off():
    before = state.special
    with flambeau.autocast("cpu"):
        assert state.special == before + 1
    assert state.special == before and not any(order == 25 for order, _ in interception._registered)


def test_a_parameter_is_cast_once_a_block():
    w = flambeau.ones(2, 2, requires_grad=True)
    x = flambeau.ones(2, 2)
    with flambeau.autocast("cpu"):
        casts = [(x @ w).grad_fn.next_functions[1][0] for _ in range(2)]
        with flambeau.no_grad():
            assert not (x @ w).requires_grad
            w.add_(1)
        changed = x @ w
    assert casts[0] is casts[1] and changed[0, 0] == 4
    with flambeau.autocast("cpu", cache_enabled=False):
        a, b = ((x @ w).grad_fn.next_functions[1][0] for _ in range(2))
    assert a is not b


def test_evaluation_before_training_in_one_block_keeps_gradients():
    w = flambeau.ones(2, 2, requires_grad=True)
    with flambeau.autocast("cpu"):
        with flambeau.no_grad():
            w @ w
        (w @ w).sum().backward()
    assert w.grad.dtype == flambeau.float32 and w.grad[0, 0] == 4


def test_devices_and_dtypes():
    with pytest.warns(UserWarning, match="CUDA is not available"), flambeau.autocast("cuda"):
        assert not flambeau.is_autocast_enabled("cuda")
    with pytest.warns(UserWarning, match="target dtype is not supported"), flambeau.autocast("cpu", dtype=flambeau.float64):
        assert (flambeau.ones(2, 2) @ flambeau.ones(2, 2)).dtype == flambeau.float32
    with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
        flambeau.autocast("gpu")
    with pytest.raises(RuntimeError, match="device type"):
        flambeau.is_autocast_enabled("gpu")
    assert flambeau.amp.is_autocast_available("cpu")
    with pytest.warns(FutureWarning, match="torch.cpu.amp.autocast"):
        old = flambeau.cpu.amp.autocast()
    with old:
        assert flambeau.is_autocast_enabled("cpu")
    with pytest.warns(DeprecationWarning, match="is_autocast_enabled"):
        assert not flambeau.is_autocast_cpu_enabled()


def test_low_level_switches():
    flambeau.set_autocast_enabled("cpu", True)
    flambeau.set_autocast_dtype("cpu", flambeau.float16)
    try:
        assert (flambeau.ones(2, 2) @ flambeau.ones(2, 2)).dtype == flambeau.float16
    finally:
        flambeau.set_autocast_enabled("cpu", False)
        flambeau.set_autocast_dtype("cpu", flambeau.bfloat16)


@pytest.mark.parametrize("cast", [None, "float32", "float16"])
def test_custom_functions(both, cast):
    def run(lib):
        seen = []

        class Product(lib.autograd.Function):
            @staticmethod
            @lib.amp.custom_fwd(device_type="cpu", cast_inputs=cast and getattr(lib, cast))
            def forward(ctx, a, b):
                seen.append([str(a.dtype).split(".")[-1], lib.is_autocast_enabled("cpu")])
                ctx.save_for_backward(a, b)
                return a @ b

            @staticmethod
            @lib.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                seen.append([lib.is_autocast_enabled("cpu"), str((a @ b).dtype).split(".")[-1]])
                return g.to(a.dtype) @ b.t(), a.t() @ g.to(a.dtype)

        a = lib.ones(2, 2, requires_grad=True)
        b = lib.ones(2, 2, requires_grad=True)
        with lib.autocast("cpu"):
            out = Product.apply(a, b)
        out.float().sum().backward()
        outside = Product.apply(a, b)
        return [seen, out, outside, a.grad]

    both(run)


def test_profiler_and_modules_see_casts():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with flambeau.autograd.profiler.profile() as profile, flambeau.autocast("cpu"):
            x = flambeau.ones(2, 2)
            assert (x @ x).dtype == flambeau.bfloat16
            assert flambeau.nn.functional.cross_entropy(x @ x, flambeau.tensor([0, 1])).dtype == flambeau.float32
    assert any("log_softmax" in event.name for event in profile.function_events)
