"""Softmax and log-softmax along a dimension: `torch.softmax`, `Tensor.softmax`, `nn.functional.softmax`, softmin.

Both save their output. The two backwards are primitives, so that second derivatives take few kernels too:
softmax_backward is linear in g and its own adjoint, log_softmax_backward's derivatives are sums along the dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.apply import apply1
from flambeau.core.dtype import DType
from flambeau.core.objects import dtype_of, shape_of
from flambeau.core.op import Op
from flambeau.core.origin import warn_user
from flambeau.kernels import softmax as kernel
from flambeau.kernels.services import is_float

from ._args import dim as checked_dim
from ._args import tensor
from ._record import KERNEL, call, primitive, public
from ._shapes import like


def _softmax_backward_out(xp: Any, g: Any, grad: Any, out: Any, dim: int) -> Any:
    # of out * (grad - sum(grad * out)) in out, its own gradient being g
    return g * (grad - xp.sum(grad * out, dim, True)) - grad * xp.sum(g * out, dim, True)


SOFTMAX = primitive("softmax", kernel.softmax, params=("dim",), meta=like(), expr=KERNEL,
                    self=lambda xp, g, out, dim: xp.softmax_backward(g, out, dim))
primitive("softmax_backward", kernel.softmax_backward, inputs=("grad", "output"), params=("dim",), meta=like(), expr=KERNEL,
          node="SoftmaxBackwardDataBackward0",
          grad=lambda xp, g, output, dim: xp.softmax_backward(g, output, dim),
          output=lambda xp, g, grad, output, dim: _softmax_backward_out(xp, g, grad, output, dim))
LOG_SOFTMAX = primitive("log_softmax", kernel.log_softmax, params=("dim",), meta=like(), expr=KERNEL,
                        self=lambda xp, g, out, dim: xp.log_softmax_backward(g, out, dim))
primitive("log_softmax_backward", kernel.log_softmax_backward, inputs=("grad", "output"), params=("dim",), meta=like(),
          expr=KERNEL,
          node="LogSoftmaxBackwardDataBackward0",
          grad=lambda xp, g, output, dim: g - xp.sum(g * xp.exp(output), dim, True),
          output=lambda xp, g, grad, output, dim: -(g * xp.exp(output) * xp.sum(grad, dim, True)))


def _run(op: Op, input: Any, dim: Any, dtype: DType | None, name: str) -> Any:
    t: Any = tensor(input, name)
    shape = shape_of(t)
    if type(dim) is not int or not -len(shape) <= dim < len(shape):
        if isinstance(dim, bool) or not hasattr(dim, "__index__"):
            raise TypeError(f"{name}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}")
        dim = checked_dim(dim, len(shape))
    if dtype is not None:
        t = t.to(dtype)
    d = dtype_of(t)
    if d.kind == "c" or not is_float(d):
        raise NotImplementedError(f'"{name}_lastdim_kernel_impl" not implemented for {d.name!r}: convert the tensor to a '
                                  f"floating dtype, or give dtype=torch.float32 to {name}.")
    return apply1(op, t, (dim,))


def _implicit_dim(name: str, n_dims: int) -> int:
    """The dimension that old programs, which give none, rely on."""
    warn_user(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
              "argument.")
    return 0 if n_dims in (0, 1, 3) else 1


def _samples(t: Any) -> list:
    return [call(t(3, 4), 1), call(t(3, 4), 0), call(t(2, 3, 4), dim=-2), call(t(), 0), call(t(0, 3), 1),
            call(t(4, 3, transposed=True), 1), call(t(3, 4), 1, dtype=t.library.float64)]


_ERRORS = (lambda t: [(call(t(3, 2), 2), IndexError, "out of range"),  # noqa: E731
                      (call(t(3, dtype="int64"), 0), NotImplementedError, "not implemented for")])


@public(op=SOFTMAX, samples=_samples, errors=_ERRORS, aliases=("special.softmax",))
def softmax(input: Any, dim: int, dtype: DType | None = None) -> Any:
    """exp(input) / sum(exp(input)) along dim, without overflow.

    Args:
        input: floating tensor of shape (*).
        dtype: converts input first.

    Returns:
        Tensor of shape (*), nan where a row is all -inf.

    Raises:
        IndexError: dim is out of range.
        NotImplementedError: input is of integers or complex, and no dtype is given.

    >>> flambeau.softmax(flambeau.tensor([1., 1.]), 0).tolist()
    [0.5, 0.5]
    """
    return _run(SOFTMAX, input, dim, dtype, "softmax")


@public(op=LOG_SOFTMAX, samples=_samples, errors=_ERRORS, aliases=("special.log_softmax",))
def log_softmax(input: Any, dim: int, dtype: DType | None = None) -> Any:
    """input - log(sum(exp(input))) along dim, without overflow or underflow. See `softmax`.

    >>> flambeau.log_softmax(flambeau.tensor([7.]), 0).tolist()
    [0.0]
    """
    return _run(LOG_SOFTMAX, input, dim, dtype, "log_softmax")


def _functional(errors: Callable | None = _ERRORS, **options: Any) -> Callable:
    return public(namespaces=("nn.functional",), method=False, out=False, samples=_samples, errors=errors, **options)


def _softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Any:
    """exp(input) / sum(exp(input)) along dim; see `flambeau.softmax`.

    Args:
        dim: when None, 0 for tensors of 0, 1 or 3 dimensions, else 1, with a warning: PyTorch's old default.

    >>> flambeau.nn.functional.softmax(flambeau.tensor([1., 1.]), 0).tolist()
    [0.5, 0.5]
    """
    if dim is None:
        dim = _implicit_dim("softmax", len(shape_of(tensor(input, "softmax"))))
    return _run(SOFTMAX, input, dim, dtype, "softmax")


def _log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Any:
    """input - log(sum(exp(input))) along dim; see `flambeau.nn.functional.softmax`.

    >>> flambeau.nn.functional.log_softmax(flambeau.tensor([7.]), 0).tolist()
    [0.0]
    """
    if dim is None:
        dim = _implicit_dim("log_softmax", len(shape_of(tensor(input, "log_softmax"))))
    return _run(LOG_SOFTMAX, input, dim, dtype, "log_softmax")


_functional(name="softmax")(_softmax)
_functional(name="log_softmax")(_log_softmax)


@_functional()
def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Any:
    """softmax of -input along dim.

    >>> flambeau.nn.functional.softmin(flambeau.tensor([1., 1.]), 0).tolist()
    [0.5, 0.5]
    """
    t: Any = tensor(input, "softmin")
    if dim is None:
        dim = _implicit_dim("softmin", len(shape_of(t)))
    if dtype is not None:
        t = t.to(dtype)
    return _run(SOFTMAX, -t, dim, None, "softmax")
