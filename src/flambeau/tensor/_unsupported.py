"""Tensor methods that flambeau lacks: each exists, and raises when it is called. Some of them answer trivially."""

from __future__ import annotations

from typing import Any

from flambeau._unavailable import missing
from flambeau.core.dtype import as_device, by_name
from flambeau.core.objects import TensorBase
from flambeau.core.origin import warn_user

from ._storage import TypedStorage
from ._typed_storages import BY_DTYPE

_LACKING = {
    "int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme":
        "there are no quantised tensors. Keep the floating-point model; to train against rounding use "
        "torch.fake_quantize_per_tensor_affine.",
    "chalf": "there is no complex32. Use cfloat().",
    "to_mkldnn": "tensors have one layout, and need no other for speed. Leave it out.",
    "to_padded_tensor": "there are no nested tensors. Pad a list of tensors with torch.nn.utils.rnn.pad_sequence.",
    "smm sspaddmm": "use torch.smm and torch.sparse.addmm.",
    "record_stream": "there are no streams on the CPU. Leave it out.",
    "slice_inverse": "it is a step of PyTorch's functionalisation. Use slice_scatter.",
    "resize_as_sparse_": "make a new sparse tensor with torch.sparse_coo_tensor(indices, values, size).",
}
METHODS: dict[str, Any] = {}
for _names, _instead in _LACKING.items():
    METHODS.update(missing("flambeau.Tensor", _names, _instead))


def _to_device(name: str) -> Any:
    def method(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        return as_device(name if not isinstance(device, int) else f"{name}:{device}")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Raises: there is no {name} device."
    return method


METHODS.update({name: _to_device(name) for name in ("ipu", "mtia", "xpu")})


class Unsupported:
    """What PyTorch's tensors answer beside."""

    def dequantize(self: Any) -> Any:
        """The tensor in float32: what a quantised one stands for, and these are not quantised."""
        return self.to(by_name["float32"])

    def const_data_ptr(self: Any) -> int:
        """The address of the first element."""
        return self.data_ptr()

    @property
    def grad_dtype(self: Any) -> Any:
        """The dtype of the gradient: the tensor's own."""
        return self.dtype

    @property
    def volatile(self: Any) -> bool:
        """False: removed long ago in favour of torch.no_grad()."""
        warn_user("volatile was removed from PyTorch (Variable.volatile is always False): use torch.no_grad().")
        return False

    def module_load(self: Any, other: Any, assign: bool = False) -> Any:
        """What `load_state_dict` puts in this tensor's place for `other`: `other` itself, or this one with its values."""
        return other.detach() if assign else self.copy_(other).detach()

    def reinforce(self: Any, reward: Any, *args: Any) -> Any:
        """Removed from PyTorch. Raises: use torch.distributions."""
        raise RuntimeError("reinforce() was removed from PyTorch: sample with torch.distributions and multiply the "
                           "log_prob() with the reward yourself.")

    def resize_as(self: Any, tensor: TensorBase) -> Any:
        """Deprecated: a view of the shape of another tensor with as many elements."""
        warn_user("non-inplace resize_as is deprecated: use view_as() or reshape().")
        return self.reshape(tensor.shape)

    def storage_type(self: Any) -> type:
        """The class of the old typed storages: torch.FloatStorage for float32."""
        return BY_DTYPE.get(self.dtype.name, TypedStorage)

    def index(self: Any, indices: Any) -> Any:
        """self[tuple(indices)], None taking all of a dimension."""
        return self[tuple(slice(None) if i is None else i for i in indices)]


def removed(name: str, instead: str) -> Any:
    """A function that PyTorch has removed and that says what to call."""
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"torch.{name} was deprecated since version 1.9 and is now removed. {instead}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed from PyTorch. {instead}"
    return function


REMOVED = {name: removed(name, instead) for name, instead in {
    "eig": "torch.linalg.eig and torch.linalg.eigvals give complex tensors.",
    "symeig": "Use torch.linalg.eigh or torch.linalg.eigvalsh; they read the lower triangle unless UPLO='U'.",
    "lstsq": "Use torch.linalg.lstsq(A, B).solution, whose arguments are in the other order.",
    "solve": "Use torch.linalg.solve(A, B), whose arguments are in the other order.",
    "matrix_rank": "Use torch.linalg.matrix_rank, whose `symmetric` is called hermitian.",
}.items()}
METHODS.update({name: REMOVED[name] for name in ("eig", "symeig", "lstsq", "solve")})
