"""From tensors to Python and NumPy: numbers, lists, arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase, array_of, requires, shape_of
from flambeau.kernels.casting import BFLOAT16


def _number(a: np.ndarray) -> Any:
    """The Python number of a one-element array."""
    x = a.item()
    return float(x) if a.dtype == BFLOAT16 else x


class Conversions:
    """Methods of Tensor that leave the world of tensors."""

    def item(self: Any) -> Any:
        """The Python number of a tensor of one element.

        Raises:
            RuntimeError: more or fewer elements.
        """
        a = self._array
        if a is None:
            if self._lazy.device.type == "meta":
                raise RuntimeError("Tensor.item() cannot be called on meta tensors: they have no values")
            a = array_of(self)
        if a.size != 1:
            raise RuntimeError(
                f"a Tensor with {a.size} elements cannot be converted to Scalar: item() is for tensors of one element, and this "
                f"one has shape {list(a.shape)}. Use tolist(), or reduce it first.")
        return _number(a)

    def tolist(self: Any) -> Any:
        """Nested lists of Python numbers; a number for a 0-d tensor."""
        a = array_of(self)
        return a.astype(np.float32).tolist() if a.dtype == BFLOAT16 else a.tolist()

    def numpy(self: Any, *, force: bool = False) -> np.ndarray:
        """A NumPy array over the tensor's memory: writing one changes the other.

        Args:
            force: detach first when the tensor requires grad, instead of raising.

        Raises:
            RuntimeError: the tensor requires grad.
            TypeError: a meta tensor, or bfloat16, which NumPy lacks.
        """
        if not force and requires(self):
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad: what NumPy computes is not recorded. Use "
                "tensor.detach().numpy() instead.")
        a = self._array
        if a is None:
            if self._lazy.device.type == "meta":
                raise TypeError("can't convert meta device type tensor to numpy: it has no values. Use "
                                "torch.empty_like(t, device='cpu') for real memory.")
            a = array_of(self)
        if a.dtype == BFLOAT16:
            raise TypeError("Got unsupported ScalarType BFloat16: NumPy has no bfloat16. Use tensor.float().numpy().")
        return a.view()


_ = TensorBase, shape_of
