"""PyTorch's own names of operators, `torch.ops.aten.mm.default`: what flop counters and checkpoint policies are told by.

A record stands for one overload packet, mostly of its own name; `ATEN` lists the others. The names are labels first: a
packet can be called when flambeau has a function of its name.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.state import state

# What a record is in PyTorch, where the names differ: the overload that does the work.
ATEN = {
    "linear": "mm", "linear_nd": "mm", "linear_bias": "addmm", "linear_nd_bias": "addmm",
    "convolution_transpose": "convolution", "convolution_grad_input": "convolution_backward",
    "convolution_grad_weight": "convolution_backward", "softmax": "_softmax", "log_softmax": "_log_softmax",
    "safe_softmax": "_safe_softmax", "softmax_backward": "_softmax_backward_data",
    "log_softmax_backward": "_log_softmax_backward_data", "nll_loss": "nll_loss_forward",
    "nll_loss2d": "nll_loss2d_forward", "cast": "_to_copy", "to_copy": "_to_copy", "cdist": "_cdist_forward",
    "batch_norm_update": "native_batch_norm", "batch_norm_eval": "native_batch_norm",
    "adaptive_avg_pool2d": "_adaptive_avg_pool2d", "adaptive_avg_pool3d": "_adaptive_avg_pool3d",
    "log_sigmoid": "log_sigmoid_forward", "sum_all": "sum", "mean_all": "mean", "max_all": "max", "min_all": "min",
    "prod_all": "prod", "median_all": "median", "pow_scalar": "pow", "pow_base": "pow", "pow_wide": "pow",
    "rsub_scalar": "rsub", "fmod_scalar": "fmod", "remainder_scalar": "remainder", "lerp_scalar": "lerp",
    "div_floor": "div", "div_trunc": "div", "lstm_layer": "mkldnn_rnn_layer", "clamp_tensor": "clamp",
    "fft_c2c": "_fft_c2c", "fft_c2r": "_fft_c2r", "fft_r2c": "_fft_r2c", "masked_fill_tensor": "masked_fill",
    "unfold_dim": "unfold", "squeeze_dim": "squeeze", "squeeze_dims": "squeeze", "ctc_loss": "_ctc_loss",
    "prelu_kernel": "_prelu_kernel", "conj": "_conj", "random_range": "random_",
}

# Which overload of a packet a record is; "default" for others.
_OVERLOADS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "rsub", "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or",
                     "bitwise_xor", "remainder", "fmod", "clamp_tensor", "split", "slice", "masked_fill_tensor", "xlogy",
                     "index"), "Tensor"),
    "pow": "Tensor_Tensor", "pow_scalar": "Tensor_Scalar", "pow_base": "Scalar", "pow_wide": "Tensor_Scalar",
    "rsub_scalar": "Scalar", "fmod_scalar": "Scalar", "remainder_scalar": "Scalar", "masked_fill": "Scalar",
    "sum": "dim_IntList", "mean": "dim", "max": "dim", "min": "dim", "prod": "dim_int", "median": "dim", "std": "correction",
    "var": "correction", "select": "int", "transpose": "int", "unbind": "int", "squeeze_dim": "dim", "squeeze_dims": "dims",
    "where": "self", "lerp": "Tensor", "lerp_scalar": "Scalar", "div_floor": "Tensor_mode", "div_trunc": "Tensor_mode",
}


class OpOverload:
    """One form of an operator: `torch.ops.aten.mm.default`."""

    def __init__(self, packet: OpOverloadPacket, name: str) -> None:
        self.overloadpacket = self._overloadpacket = packet
        self._overloadname = name
        self.__name__ = f"{packet.__name__}.{name}"
        self.__module__ = packet.__module__
        self.namespace = packet.namespace

    def name(self) -> str:
        """"aten::mm", with the overload's name if it has one of its own."""
        own = "" if self._overloadname == "default" else "." + self._overloadname
        return f"{self.namespace}::{self._overloadpacket.__name__}{own}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._overloadpacket(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._overloadpacket.__name__}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self._overloadpacket}.{self._overloadname}"

    def __reduce__(self) -> Any:
        return getattr, (self._overloadpacket, self._overloadname)


class OpOverloadPacket:
    """All forms of an operator: `torch.ops.aten.mm`; its attributes are the overloads."""

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.__name__ = namespace, name
        self._qualified_op_name = f"{namespace}::{name}"
        self.__module__ = f"torch.ops.{namespace}"

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__"):
            raise AttributeError(f"'{self}' has no attribute '{name}'")
        found = self.__dict__[name] = OpOverload(self, name)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.__name__
        plain = name.removeprefix("_")
        for candidate in (name, plain, plain.removesuffix("_")):
            try:
                fn = state.public(candidate)
            except (AttributeError, KeyError):
                fn = None
            if callable(fn):
                return fn(*args, **kwargs)
        if args and hasattr(args[0], name):
            return getattr(args[0], name)(*args[1:], **kwargs)
        raise NotImplementedError(f"torch.ops.{self.namespace}.{name}: flambeau has no function of this name to call. Call "
                                  "the public function (torch.* or torch.nn.functional.*) instead.")

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self.__name__}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __reduce__(self) -> Any:
        return _named, (self.namespace, self.__name__)


class OpNamespace:
    """`torch.ops.aten`: any attribute is an operator's name."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__"):
            raise AttributeError(f"torch.ops.{self.__dict__['__name__']} has no attribute '{name}'")
        found = self.__dict__[name] = OpOverloadPacket(self.__dict__["__name__"], name)
        return found

    def __repr__(self) -> str:
        return f"<torch.ops.{self.__dict__['__name__']}>"


aten = OpNamespace("aten")


def _named(namespace: str, name: str) -> OpOverloadPacket:
    """A packet, of a pickle."""
    found: OpOverloadPacket = getattr(aten, name) if namespace == "aten" else OpOverloadPacket(namespace, name)
    return found


def packet_of(record: str) -> OpOverloadPacket:
    """What a record, by its name, is called in PyTorch."""
    found: OpOverloadPacket = getattr(aten, ATEN.get(record, record))
    return found


def overload_of(record: str, in_place: bool = False) -> OpOverload:
    """The overload of a record."""
    name = ATEN.get(record, record)
    packet = getattr(aten, name + "_" if in_place and not name.endswith("_") else name)
    found: OpOverload = getattr(packet, _OVERLOADS.get(record, "default"))
    return found
