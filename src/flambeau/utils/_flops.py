"""How many floating-point operations an operator takes, from the shapes of its tensors; a product and a sum count as two.

`flop_registry` has a formula for each of PyTorch's operators that is counted: f(*shapes and other arguments, out_shape=).
`forward_calls` and `backward_calls` say which of those a record, and the gradient of a record, amounts to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from math import prod
from typing import Any

from flambeau.core.objects import TensorBase, shape_of
from flambeau.ops._aten import OpOverloadPacket, aten, packet_of

flop_registry: dict[Any, Callable] = {}


def get_shape(value: Any) -> Any:
    """The shape of a tensor; others as they are."""
    return tuple(shape_of(value)) if isinstance(value, TensorBase) else value


def _shapes(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_shapes(v) for v in value) if type(value) in (list, tuple) else value
    return get_shape(value)


def shape_wrapper(formula: Callable) -> Callable:
    """A formula of shapes as a function of tensors, their other arguments, and out_val: the result."""

    @wraps(formula)
    def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        return int(formula(*map(_shapes, args), out_shape=_shapes(out_val), **{k: _shapes(v) for k, v in kwargs.items()}))

    return counted


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable:
    """Decorator: f(*shapes, out_shape=None, **kwargs) counts the operators in targets.

    Args:
        targets: `torch.ops.aten.name`, or a list of such.
        get_raw: True gives f the tensors, and the result as out_val, instead of shapes.

    Raises:
        ValueError: a target is no such name. RuntimeError: it has a formula.
    """

    def register(formula: Callable) -> Callable:
        if not get_raw:
            formula = shape_wrapper(formula)
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not isinstance(target, OpOverloadPacket):
                raise ValueError("register_flop_formula(targets): expected each target to be an OpOverloadPacket, such as "
                                 f"torch.ops.aten.mm (without .default), got {target} of type {type(target)}")
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}: its formula is in "
                                   "torch.utils.flop_counter.flop_registry. Count it otherwise by custom_mapping of "
                                   "FlopCounterMode.")
            flop_registry[target] = formula
        return formula

    return register


# ------------------------------------------------------------------------------------- formulas


def _mm(a: Any, b: Any, what: str) -> int:
    if a[-1] != b[-2] or tuple(a[:-2]) != tuple(b[:-2]):
        raise AssertionError(f"{what}: {tuple(a)} and {tuple(b)} have no product")
    return int(2 * prod(a) * b[-1])


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """(M, K) @ (K, N)."""
    return _mm(a_shape, b_shape, "matmul")


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """The product's; the sum is not counted."""
    return _mm(a_shape, b_shape, "addmm")


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """(N, M, K) @ (N, K, L)."""
    return _mm(a_shape, b_shape, "bmm")


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """The product's; the sum is not counted."""
    return _mm(a_shape, b_shape, "baddbmm")


@register_flop_formula(aten._scaled_mm)
def _scaled_mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return _mm(a_shape, b_shape, "_scaled_mm")


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """Each weight meets each position of the output (of the input, if transposed) of each sample; bias is not counted."""
    places = prod((x_shape if transposed else out_shape)[2:])
    return int(2 * x_shape[0] * places * prod(w_shape))


@register_flop_formula([aten.convolution, aten._convolution, aten.cudnn_convolution, aten._slow_conv2d_forward,
                        aten.convolution_overrideable])
def conv_flop(x_shape: Any, w_shape: Any, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
              *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """A convolution, transposed or not."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def _swapped(shape: Any) -> tuple:
    return (shape[1], shape[0], *shape[2:])


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(grad_out_shape: Any, x_shape: Any, w_shape: Any, _bias: Any, _stride: Any, _padding: Any,
                       _dilation: Any, transposed: bool, _output_padding: Any, _groups: Any, output_mask: Any,
                       out_shape: Any = None, **kwargs: Any) -> int:
    """The input's gradient is a convolution with the weight, the weight's one of input and gradient."""
    total = 0
    if output_mask[0]:
        total += conv_flop_count(grad_out_shape, w_shape, x_shape, not transposed)
    if output_mask[1]:
        image, kernel = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        total += conv_flop_count(_swapped(image), _swapped(kernel), _swapped(w_shape), False)
    return total


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Attention: scores, and their product with the values."""
    n, heads, rows, width = query_shape
    columns, value_width = key_shape[-2], value_shape[-1]
    return int(2 * n * heads * rows * columns * (width + value_width))


def sdpa_backward_flop_count(grad_out_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """The scores again, and the gradients of scores, values, queries and keys."""
    n, heads, rows, width = query_shape
    columns, value_width = key_shape[-2], value_shape[-1]
    return int(2 * n * heads * rows * columns * (3 * width + 2 * value_width))


_SDPA = ("_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention",
         "_scaled_dot_product_cudnn_attention")


@register_flop_formula([getattr(aten, name) for name in _SDPA])
def sdpa_flop(query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Attention."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


@register_flop_formula([getattr(aten, name + "_backward") for name in _SDPA])
def sdpa_backward_flop(grad_out_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any, *args: Any,
                       out_shape: Any = None, **kwargs: Any) -> int:
    """The gradients of attention."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


# ------------------------------------------------------------------------------------- records

Calls = Iterable[tuple[Any, tuple, Any]]         # (packet, arguments with shapes for tensors, shape of the result)
_GATES = {"lstm_layer": 4, "gru_layer": 3, "rnn_layer": 1}
_PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2)}
_LINEAR = {"linear": (0, 1), "linear_nd": (0, 1), "linear_bias": (1, 2), "linear_nd_bias": (1, 2)}
_CONVOLUTIONS = {"convolution": False, "convolution_transpose": True}


def _t(shape: Any) -> tuple:
    return (*shape[:-2], shape[-1], shape[-2])


def _rows(shape: Any) -> tuple:
    return (prod(shape[:-1]), shape[-1])


def forward_calls(name: str, inputs: tuple, params: tuple, out: Any) -> Calls:
    """What a record amounts to. inputs: shapes, None for absent ones, other values as they are."""
    if name in _LINEAR:
        i, j = _LINEAR[name]
        factors = (_rows(inputs[i]), _t(inputs[j]))
        yield (aten.addmm, (inputs[0], *factors), out) if i else (aten.mm, factors, out)
    elif name in _CONVOLUTIONS:
        yield aten.convolution, (*inputs[:3], 1, 0, 1, _CONVOLUTIONS[name]), out
    elif name in ("convolution_grad_input", "convolution_grad_weight"):
        first = name == "convolution_grad_input"
        x, w = (params[0], inputs[1]) if first else (inputs[1], params[0])
        yield aten.convolution_backward, (inputs[0], x, w, None, 1, 0, 1, False, 0, 1, [first, not first, False]), None
    elif name in _GATES:
        yield from _recurrent(name, inputs)
    else:
        yield packet_of(name), inputs if name in _PRODUCTS else (*inputs, *params), out


def _recurrent(name: str, inputs: tuple) -> Calls:
    x = inputs[0]
    w_ih, w_hh, b_ih, b_hh = inputs[3:7] if name == "lstm_layer" else inputs[2:6]
    n = prod(x[:-1])
    for rows, weight, bias in (((n, x[-1]), w_ih, b_ih), ((n, w_hh[-1]), w_hh, b_hh)):
        yield (aten.mm, (rows, _t(weight)), None) if bias is None else (aten.addmm, (bias, rows, _t(weight)), None)
    if name == "lstm_layer" and inputs[7] is not None:
        yield aten.mm, ((n, inputs[7][-1]), _t(inputs[7])), None


def backward_calls(name: str, inputs: tuple, params: tuple, out: Any, needs: list[bool]) -> Calls:
    """What the gradients of a record amount to, of those inputs that need one."""
    if name in _PRODUCTS or name in _LINEAR:
        i, j = _PRODUCTS.get(name) or _LINEAR[name]
        a, b, packet = inputs[i], inputs[j], aten.mm
        if name in _LINEAR:
            b = None if b is None else _t(b)
            a, out = None if a is None else _rows(a), _rows(out)
        elif len(out) == 3:
            packet = aten.bmm
        inner = a[-1] if a is not None else b[-2]
        a, b = (*out[:-1], inner), (*out[:-2], inner, out[-1])
        if needs[i]:
            yield packet, (out, _t(b)), None
        if needs[j]:
            yield packet, (_t(a), out), None
    elif name in _CONVOLUTIONS:
        if needs[0] or needs[1]:
            mask = [needs[0], needs[1], False]
            yield aten.convolution_backward, (out, *inputs[:2], None, 1, 0, 1, _CONVOLUTIONS[name], 0, 1, mask), None
    elif name in ("convolution_grad_input", "convolution_grad_weight"):
        x, w = (params[0], inputs[1]) if name.endswith("input") else (inputs[1], params[0])
        for need in needs[:2]:
            if need:
                yield aten.convolution, (x, w, None, 1, 0, 1, False), inputs[0]
    elif name in _GATES and any(needs):
        sizes = params[-2]                    # of the batch at each step, of a packed sequence
        yield from _recurrent_backward(name, inputs, inputs[0][-2] if sizes is None else int(sizes[0]), needs)


def _recurrent_backward(name: str, inputs: tuple, batch: int, needs: list[bool]) -> Calls:
    x = inputs[0]
    at = 3 if name == "lstm_layer" else 2
    w_ih, w_hh = inputs[at], inputs[at + 1]
    n = prod(x[:-1])
    for needed, weight, width in ((needs[0], w_ih, x[-1]), (needs[at], w_ih, x[-1]), (needs[at + 1], w_hh, w_hh[-1])):
        if needed:
            yield aten.mm, ((n, weight[0]), (weight[0], width)), None
    first = 0 if needs[1] else batch           # the first step's gradient goes nowhere else
    yield aten.mm, ((n - first, w_hh[0]), tuple(w_hh)), None
    if name == "lstm_layer" and inputs[7] is not None:
        for _ in range(1 + needs[7]):
            yield aten.mm, ((n, inputs[7][0]), tuple(inputs[7])), None
