"""Convolutions, windows, normalisations and recurrent layers on batches.

What treats the items of a layer's own batch N apart gets the samples folded into N. Where each sample has weights of its
own, a convolution gets them as groups; a normalisation is done without weights, which are applied afterwards.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import TensorBase, shape_of

from ._call import Call, into_first, out_of_first, rank, reshape
from ._each import each


def into_second(t: Any) -> Any:
    """(B, N, C, ...) as (N, B * C, ...)."""
    front = t.movedim(0, 1)
    shape = tuple(shape_of(front))
    return reshape(front, (shape[0], shape[1] * shape[2], *shape[3:]))


def out_of_second(call: Call, t: Any) -> Any:
    shape = tuple(shape_of(t))
    return reshape(t, (shape[0], call.size, shape[1] // call.size, *shape[2:])).movedim(1, 0)


def items(call: Call) -> Any:
    """Operators of (N, C, ...) that treat items of N apart."""
    if any(isinstance(t, TensorBase) and rank(t) == 0 for t in call.inputs):
        return each(call)
    params = list(call.params or ())
    for i, name in enumerate(call.op.param_names):
        if name == "shape":
            params[i] = (call.size * params[i][0], *params[i][1:])
    out = call.run([into_first(call.whole(t)) if isinstance(t, TensorBase) else t for t in call.inputs],
                   tuple(params) if call.params is not None else None)
    if isinstance(out, (list, tuple)):
        return [out_of_first(call, o) for o in out]
    return out_of_first(call, out)


# ------------------------------------------------------------------------------------------ convolution


def convolution(call: Call) -> Any:
    x, w, bias = call.inputs
    transposed = call.op.name == "convolution_transpose"
    params = list(call.params)
    g = call.op.param_names.index("groups")
    own_bias = None
    if bias is not None and (call.is_batched(bias) or call.is_batched(w)):
        own_bias, bias = bias, None
    if not call.is_batched(w):
        if call.is_batched(x):
            out = out_of_first(call, call.run([into_first(call.inner(x)), w, bias], tuple(params)))
        else:
            out = call.whole(call.run([x, w, bias], tuple(params)))
    elif not call.is_batched(x) and params[g] == 1 and not transposed:
        out = out_of_second(call, call.run([x, into_first(call.inner(w)), None], tuple(params)))
    else:
        params[g] *= call.size
        out = out_of_second(call, call.run([into_second(call.whole(x)), into_first(call.whole(w)), None], tuple(params)))
    if own_bias is not None:
        b = call.inner(own_bias)
        if call.is_batched(own_bias):
            b = reshape(b, (call.size, 1, shape_of(b)[1], *(1,) * (rank(x) - 2)))
        else:
            b = reshape(b, (1, shape_of(b)[0], *(1,) * (rank(x) - 2)))
        out = out + b
    return out


def grad_input(call: Call) -> Any:
    grad, w = call.inputs
    shape, *rest = call.params
    if not call.is_batched(w):
        out = call.run([into_first(call.inner(grad)), w], ((call.size * shape[0], *shape[1:]), *rest))
        return out_of_first(call, out)
    g = call.op.param_names.index("groups") - 1
    rest[g] *= call.size
    out = call.run([into_second(call.whole(grad)), into_first(call.whole(w))],
                   ((shape[0], call.size * shape[1], *shape[2:]), *rest))
    return out_of_second(call, out)


def grad_weight(call: Call) -> Any:
    grad, x = call.inputs
    shape, *rest = call.params
    g = call.op.param_names.index("groups") - 1
    full = (call.size * shape[0], *shape[1:])
    if not call.is_batched(x) and rest[g] == 1:
        return out_of_first(call, call.run([into_second(call.inner(grad)), x], (full, *rest)))
    rest[g] *= call.size
    return out_of_first(call, call.run([into_second(call.whole(grad)), into_second(call.whole(x))], (full, *rest)))


# ------------------------------------------------------------------------------------------ normalisation


def _affine(call: Call, out: Any, weight: Any, bias: Any, channels: bool) -> Any:
    """out, with its batch in front, times weight plus bias: per channel, or over the last dimensions."""
    n = rank(out) - 1

    def placed(t: Any) -> Any:
        inner = call.inner(t)
        own = tuple(shape_of(t))
        shape = (1, own[0], *(1,) * (n - 2)) if channels else (*(1,) * (n - len(own)), *own)
        return reshape(inner, (call.size, *shape) if call.is_batched(t) else shape)

    if weight is not None:
        out = out * placed(weight)
    return out if bias is None else out + placed(bias)


def _weights_batched(call: Call) -> bool:
    return any(call.is_batched(t) for t in call.inputs[1:3])


def last_dims(call: Call) -> Any:
    """Layer and RMS normalisation."""
    weight = call.inputs[1]
    bias = call.inputs[2] if len(call.inputs) > 2 else None
    x = call.whole(call.inputs[0])
    if not _weights_batched(call):
        return call.run([x, *call.inputs[1:]], call.params)
    outs = call.run([x, *[None] * (len(call.inputs) - 1)], call.params)
    return [_affine(call, outs[0], weight, bias, False), *outs[1:]]


def groups(call: Call) -> Any:
    """Group and instance normalisation: items of N apart."""
    x, weight, bias = call.inputs
    own = _weights_batched(call)
    outs = call.run([into_first(call.whole(x)), *((None, None) if own else (weight, bias))], call.params)
    outs = [out_of_first(call, o) if shape_of(o)[0] == shape_of(outs[0])[0] else reshape(o, (call.size, -1)) for o in outs]
    return [_affine(call, outs[0], weight, bias, True), *outs[1:]] if own else outs


def batch_norm(call: Call) -> Any:
    """Statistics over N: samples are folded into the channels."""
    x, weight, bias, *running = call.inputs
    if any(call.is_batched(x) and not call.is_batched(r) for r in running if r is not None):
        raise RuntimeError(
            "vmap: Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated "
            "in place, were not batched: each sample would write statistics that all share. Use GroupNorm, or BatchNorm "
            "with track_running_stats=False (func.replace_all_batch_norm_modules_(module) sets it everywhere), or eval().")
    flat = [None if r is None else reshape(call.whole(r), (-1,)) for r in running]
    outs = call.run([into_second(call.whole(x)), None, None, *flat], call.params)
    first = _affine(call, out_of_second(call, outs[0]), weight, bias, True)
    return [first, *[reshape(o, (call.size, -1)) for o in outs[1:]]]


def batch_norm_eval(call: Call) -> Any:
    x, weight, bias, mean, var = call.inputs
    if not any(call.is_batched(t) for t in call.inputs[1:]):
        return out_of_first(call, call.run([into_first(call.inner(x)), *call.inputs[1:]], call.params))
    flat = [reshape(call.whole(t), (-1,)) for t in (mean, var)]
    out = call.run([into_second(call.whole(x)), None, None, *flat], call.params)
    return _affine(call, out_of_second(call, out), weight, bias, True)


# ------------------------------------------------------------------------------------------ recurrent layers


def recurrent(call: Call) -> Any:
    """A layer over (L, N, D): the samples are folded into N when they share the weights."""
    n_states = 2 if call.op.name == "lstm_layer" else 1
    states, weights = call.inputs[1:1 + n_states], call.inputs[1 + n_states:]
    if call.param("batch_sizes") is not None or any(call.is_batched(w) for w in weights) or rank(call.inputs[0]) != 3:
        return each(call)
    given = [None if s is None else into_first(call.whole(s)) for s in states]
    outs = call.run([into_second(call.whole(call.inputs[0])), *given, *weights], call.params)
    return [out_of_second(call, outs[0]), *[out_of_first(call, o) for o in outs[1:]]]


RULES: dict[str, Any] = {
    **dict.fromkeys(("convolution", "convolution_transpose"), convolution),
    **dict.fromkeys(("native_layer_norm", "rms_norm"), last_dims),
    **dict.fromkeys(("native_group_norm", "instance_norm"), groups),
    **dict.fromkeys(("native_batch_norm", "batch_norm_update"), batch_norm),
    **dict.fromkeys(("lstm_layer", "gru_layer", "rnn_layer"), recurrent),
    "convolution_grad_input": grad_input,
    "convolution_grad_weight": grad_weight,
    "batch_norm_eval": batch_norm_eval,
}
