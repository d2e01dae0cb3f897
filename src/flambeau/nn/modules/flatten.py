"""Joining and splitting dimensions."""

from __future__ import annotations

from typing import Any

from .module import Module


class Flatten(Module):
    """Joins the dimensions start_dim to end_dim into one; by default all but the first.

    >>> flambeau.nn.Flatten()(flambeau.zeros(4, 3, 2)).shape
    torch.Size([4, 6])
    """

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dimension dim into unflattened_size.

    >>> flambeau.nn.Unflatten(1, (3, 2))(flambeau.zeros(4, 6)).shape
    torch.Size([4, 3, 2])
    """

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: Any, unflattened_size: Any) -> None:
        super().__init__()
        if isinstance(dim, int):
            if not isinstance(unflattened_size, (tuple, list)):
                raise TypeError("unflattened_size must be a tuple of ints, but found type "
                                + type(unflattened_size).__name__)
            for i, size in enumerate(unflattened_size):
                if not isinstance(size, int):
                    raise TypeError("unflattened_size must be tuple of ints, but found element of type "
                                    f"{type(size).__name__} at pos {i}")
        elif isinstance(dim, str):
            raise NotImplementedError("Unflatten by dimension name: named tensors are not supported. Give "
                                      "the dimension's number.")
        else:
            raise TypeError(f"invalid argument type for dim parameter: {type(dim).__name__}")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Any) -> Any:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
