"""torch.masked: reductions and normalisations of the valid elements, against PyTorch."""

from __future__ import annotations

import pytest

import flambeau

NAMES = "sum prod amax amin mean median norm var std logsumexp"


def x(lib, dtype="float64"):
    lib.manual_seed(0)
    return (lib.randn(3, 4, dtype=lib.float64) * 3).to(getattr(lib, dtype))


def mask(lib):
    return lib.tensor([[True, False, True, True], [False, False, False, True], [True, True, False, True]])


CASES = {f"{name}, {dim}": lambda lib, name=name, dim=dim: getattr(lib.masked, name)(x(lib), dim=dim, mask=mask(lib))
         for name in NAMES.split() for dim in (0, 1, -1)}
CASES |= {f"{name}, all": lambda lib, name=name: getattr(lib.masked, name)(x(lib), mask=mask(lib))
          for name in NAMES.split() if name != "median"}
CASES |= {f"{name}, keepdim, no mask": lambda lib, name=name: getattr(lib.masked, name)(x(lib), dim=1, keepdim=True)
          for name in NAMES.split()}
CASES |= {f"{name} along 1": lambda lib, name=name: getattr(lib.masked, name)(x(lib), 1, mask=mask(lib))
          for name in ("softmax", "log_softmax", "softmin", "cumsum", "cumprod", "argmax", "argmin")}
CASES |= {f"{name} of integers": lambda lib, name=name: getattr(lib.masked, name)(x(lib, "int32"), 1, mask=mask(lib))
          for name in ("sum", "prod", "amax", "amin", "argmax", "cumsum", "median", "var", "mean")}
CASES |= {
    "normalize": lambda lib: lib.masked.normalize(x(lib), 2.0, 1, mask=mask(lib)),
    "norm -inf": lambda lib: lib.masked.norm(x(lib), -float("inf"), 1, mask=mask(lib)),
    "norm 1": lambda lib: lib.masked.norm(x(lib), 1.0, (0, 1), mask=mask(lib)),
    "row mask": lambda lib: lib.masked.sum(x(lib), 0, mask=lib.tensor([True, False, True, False])),
    "all masked": lambda lib: lib.masked.mean(x(lib), 0, mask=lib.zeros(4, dtype=lib.bool)),
    "all masked, amax": lambda lib: lib.masked.amax(x(lib), 0, mask=lib.zeros(4, dtype=lib.bool)),
    "unbiased": lambda lib: lib.masked.var(x(lib), 1, False, mask=mask(lib)),
    "correction": lambda lib: lib.masked.std(x(lib), 1, correction=2, mask=mask(lib)),
    "dtype": lambda lib: lib.masked.sum(x(lib), 1, dtype=lib.float32, mask=mask(lib)),
    "complex": lambda lib: lib.masked.var(x(lib, "complex128") * 1j, 1, mask=mask(lib)),
    "logaddexp": lambda lib: lib.masked.logaddexp(x(lib), x(lib) + 1, input_mask=mask(lib), other_mask=~mask(lib)),
    "empty dim": lambda lib: lib.masked.sum(x(lib), (), mask=mask(lib)),
    "out of range": lambda lib: lib.masked.sum(x(lib), 2),
    "twice": lambda lib: lib.masked.sum(x(lib), (0, 0)),
    "mask too large": lambda lib: lib.masked.sum(x(lib), 0, mask=lib.ones(1, 3, 4, dtype=lib.bool)),
    "median of masked integers": lambda lib: lib.masked.median(x(lib, "int32"), 0, mask=lib.zeros(4, dtype=lib.bool)),
    "both corrections": lambda lib: lib.masked.var(x(lib), 1, True, correction=1),
}


@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name, both):
    both(CASES[name], 1e-9)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "mean", "norm", "var", "std", "logsumexp"])
def test_masked_elements_have_no_gradient(name, both):
    def gradient(lib):
        t = x(lib).requires_grad_()
        getattr(lib.masked, name)(t, dim=1, mask=mask(lib))[[0, 2]].sum().backward()
        return t.grad

    grad = both(gradient, 1e-9)[2]
    assert grad[0][1] == 0.0 and grad[2][2] == 0.0


def test_what_is_not_there_says_what_to_do():
    with pytest.raises(NotImplementedError, match="pass mask="):
        flambeau.masked.masked_tensor(flambeau.ones(2), flambeau.ones(2).bool())
    with pytest.raises(ValueError, match="masked sum expects strided tensor.*to_dense"):
        flambeau.masked.sum(flambeau.eye(2).to_sparse())
    assert not flambeau.masked.is_masked_tensor(flambeau.ones(2))
