"""Yes-or-no facts of a tensor: its kind of dtype, and the devices and forms that it does not have."""

from __future__ import annotations

from typing import Any

from flambeau.core.dtype import META


def _never(doc: str) -> property:
    return property(lambda self: False, doc=doc)


class Facts:
    """Properties and predicates of Tensor."""

    is_cuda = _never("Whether the tensor is on a CUDA device: never here.")
    is_mps = _never("Whether the tensor is on Apple's GPU: never here.")
    is_xpu = _never("Whether the tensor is on an Intel GPU: never here.")
    is_xla = _never("Whether the tensor is on an XLA device: never here.")
    is_hpu = _never("Whether the tensor is on an HPU: never here.")
    is_ipu = _never("Whether the tensor is on an IPU: never here.")
    is_vulkan = _never("Whether the tensor is on a Vulkan device: never here.")
    is_maia = _never("Whether the tensor is on a Maia device: never here.")
    is_mtia = _never("Whether the tensor is on an MTIA device: never here.")
    is_mkldnn = _never("Whether the tensor has oneDNN's own layout: never here.")
    is_quantized = _never("Whether the tensor is quantized: never here.")
    is_nested = _never("Whether the tensor is a nested one: never here.")

    @property
    def is_cpu(self: Any) -> bool:
        """Whether the tensor is on the CPU."""
        return self.device is not META

    def is_floating_point(self: Any) -> bool:
        """Whether the dtype is a real floating one."""
        return self.dtype.kind == "f"

    def is_complex(self: Any) -> bool:
        """Whether the dtype is complex."""
        return self.dtype.kind == "c"

    def is_signed(self: Any) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.is_signed

    def is_conj(self: Any) -> bool:
        """Whether the conjugation is pending: never here, conj() computes it."""
        return False

    def is_neg(self: Any) -> bool:
        """Whether a negation is pending: never here."""
        return False

    def resolve_conj(self: Any) -> Any:
        """The tensor itself: no conjugation is pending."""
        return self

    def resolve_neg(self: Any) -> Any:
        """The tensor itself: no negation is pending."""
        return self

    def is_nonzero(self: Any) -> bool:
        """bool(tensor): whether its only element is not zero."""
        return bool(self)
