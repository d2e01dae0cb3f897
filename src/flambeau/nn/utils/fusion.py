"""Batch normalisation in evaluation folded into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

import flambeau
from flambeau.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _scale_shift(like: Any, bias: Any, mean: Any, var: Any, eps: float, bn_w: Any, bn_b: Any) -> tuple[Any, Any]:
    """What a channel is multiplied by, and the new bias."""
    bias = flambeau.zeros_like(mean) if bias is None else bias
    bn_w = flambeau.ones_like(mean) if bn_w is None else bn_w
    bn_b = flambeau.zeros_like(mean) if bn_b is None else bn_b
    scale = bn_w * flambeau.rsqrt(var + eps)
    return scale.to(like.dtype), ((bias - mean) * scale + bn_b).to(like.dtype if bias is None else bias.dtype)


def fuse_conv_bn_weights(conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any,
                         transpose: bool = False) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution that does what it and the batch normalisation after it do.

    Args:
        conv_w, conv_b: of the convolution. bn_rm, bn_rv, bn_eps, bn_w, bn_b: running mean, running variance, eps,
            weight and bias of the normalisation. Biases and bn_w may be None.
        transpose: it is a transposed convolution.
    """
    scale, bias = _scale_shift(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    shape = [1, -1] if transpose else [-1, 1]
    weight = conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2))
    return (Parameter(weight.detach(), conv_w.requires_grad),
            Parameter(bias.detach(), conv_w.requires_grad if conv_b is None else conv_b.requires_grad))


def fuse_linear_bn_weights(linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any,
                           bn_b: Any) -> tuple[Parameter, Parameter]:
    """The same for a linear layer."""
    scale, bias = _scale_shift(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    return (Parameter((linear_w * scale.unsqueeze(-1)).detach(), linear_w.requires_grad),
            Parameter(bias.detach(), linear_w.requires_grad if linear_b is None else linear_b.requires_grad))


def _check_eval(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval! Call eval() on both layers: in training the normalisation depends on "
                             "the batch.")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what `conv` and the batch normalisation `bn` after it do in evaluation.

    >>> conv, bn = flambeau.nn.Conv1d(2, 3, 1).eval(), flambeau.nn.BatchNorm1d(3).eval()
    >>> x = flambeau.ones(1, 2, 4)
    >>> flambeau.allclose(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps,
                                                    bn.weight, bn.bias, transpose)
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what `linear` and the batch normalisation `bn` after it do in evaluation."""
    _check_eval(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1; got "
                             f"{linear.out_features} and {bn.num_features}")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps,
                                                      bn.weight, bn.bias)
    return fused
