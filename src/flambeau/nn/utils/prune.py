"""Pruning: parameters some of whose elements are kept at zero.

A pruned parameter `name` is computed before each call of the module as `name_orig * name_mask`; `remove` makes the
product the parameter.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import flambeau

__all__ = ["BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
           "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
           "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove"]


class BasePruningMethod(ABC):
    """A way to choose what is pruned. Subclasses define PRUNING_TYPE ("unstructured", "structured" or "global") and
    compute_mask."""

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for t, given the mask so far: 1 where an element stays, 0 where it is pruned."""

    def apply_mask(self, module: Any) -> Any:
        """The pruned parameter."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune a parameter, on top of what is pruned already.

        Args:
            args, kwargs: of the method's constructor.
            importance_scores: tensor of the parameter's shape by which elements are chosen; default: the parameter.
        """
        old = [(k, h) for k, h in module._forward_pre_hooks.items()
               if isinstance(h, BasePruningMethod) and h._tensor_name == name]
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}")
        first = not old
        if first:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            default = flambeau.ones_like(original)
        else:
            default = getattr(module, name + "_mask").detach().clone()
            container = PruningContainer()
            container._tensor_name = name
            for key, hook in old:
                for m in hook if isinstance(hook, PruningContainer) else [hook]:
                    container.add_pruning_method(m)
                del module._forward_pre_hooks[key]
            container.add_pruning_method(method)
            method = container
        try:
            mask = method.compute_mask(importance_scores, default_mask=default)
        except Exception:
            if first:
                module.register_parameter(name, original)
                del module._parameters[name + "_orig"]
            raise
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """t with what the method chooses set to zero; no module is needed."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        default_mask = flambeau.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruned tensor the parameter."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        value = self.apply_mask(module)
        if hasattr(module, self._tensor_name):
            delattr(module, self._tensor_name)
        original = module._parameters[self._tensor_name + "_orig"]
        original.data = value.data
        del module._parameters[self._tensor_name + "_orig"]
        del module._buffers[self._tensor_name + "_mask"]
        setattr(module, self._tensor_name, original)


class PruningContainer(BasePruningMethod):
    """Several methods one after the other: each chooses among what the ones before left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple = ()
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
            self.add_pruning_method(args[0])
        elif len(args) == 1:
            for method in args[0]:
                self._tensor_name = method._tensor_name
                self.add_pruning_method(method)
        else:
            for method in args:
                self._tensor_name = method._tensor_name
                self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError("PruningContainer: its methods all act on the parameter "
                             f"'{self._tensor_name}', this one on '{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            chosen: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim if method.dim >= 0 else method.dim + t.dim()
            others = tuple(d for d in range(t.dim()) if d != dim)
            kept = mask.sum(dim=others) != 0
            chosen = [slice(None)] * t.dim()
            chosen[dim] = kept
            chosen = tuple(chosen)
        elif method.PRUNING_TYPE == "global":
            chosen = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        partial = method.compute_mask(t[chosen], default_mask=mask[chosen])
        result = mask.clone()
        result[chosen] = partial.to(mask.dtype)
        return result


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> Any:  # type: ignore[override]
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    def _pruned(self, t: Any, n: int) -> Any:
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        n = _count(self.amount, t.nelement())
        mask = default_mask.clone()
        if n:
            mask.view(-1)[self._pruned(t, n)] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes elements at random: a fraction (float) or a number (int) of them."""

    def _pruned(self, t: Any, n: int) -> Any:
        return flambeau.topk(flambeau.rand_like(t).view(-1), k=n).indices

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prunes the elements of least magnitude: a fraction (float) or a number (int) of them."""

    def _pruned(self, t: Any, n: int) -> Any:
        return flambeau.topk(flambeau.abs(t).view(-1), k=n, largest=False).indices

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def _keep(self, t: Any, n_pruned: int, n: int) -> Any:
        """A bool tensor: which of the n channels stay."""
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if t.dim() <= 1:
            raise ValueError("Structured pruning needs a tensor of at least 2 dimensions. Found tensor of shape "
                             f"{t.shape} with {t.dim()} dims")
        if self.dim >= t.dim() or self.dim < -t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        n = t.shape[self.dim]
        n_pruned = _count(self.amount, n)
        if not n_pruned:
            return default_mask
        mask = flambeau.zeros_like(t)
        chosen: list[Any] = [slice(None)] * t.dim()
        chosen[self.dim] = self._keep(t, n_pruned, n)
        mask[tuple(chosen)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prunes channels along a dimension at random."""

    def _keep(self, t: Any, n_pruned: int, n: int) -> Any:
        chance = flambeau.rand(n)
        return chance > flambeau.kthvalue(chance, k=n_pruned).values

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, dim: int = -1) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the channels along a dimension whose n-norms are least."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _keep(self, t: Any, n_pruned: int, n: int) -> Any:
        dim = self.dim if self.dim >= 0 else self.dim + t.dim()
        norms = flambeau.norm(t, p=self.n, dim=tuple(d for d in range(t.dim()) if d != dim))
        keep = flambeau.zeros(n, dtype=flambeau.bool)
        keep[flambeau.topk(norms, k=n - n_pruned, largest=True).indices] = True
        return keep

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"the mask has shape {self.mask.shape}, the parameter {default_mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, mask: Any) -> Any:  # type: ignore[override]
        return super().apply(module, name, mask=mask)


def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune elements at random: a fraction (float) or a number (int)."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the elements of least magnitude: a fraction (float) or a number (int).

    >>> layer = l1_unstructured(flambeau.nn.Linear(2, 2), "weight", amount=0.5)
    >>> int((layer.weight == 0).sum())
    2
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune channels along a dimension at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Prune the channels along a dimension whose n-norms are least."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune what a mask of the parameter's shape says."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any) -> None:
    """Prune elements of several parameters, chosen among all of them together.

    Args:
        parameters: pairs (module, name). pruning_method: class of an unstructured method; kwargs: its arguments.
        importance_scores: {(module, name): tensor} by which elements are chosen.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    scores = importance_scores or {}
    pairs = list(parameters)
    flat = flambeau.cat([scores.get((m, n), getattr(m, n)).reshape(-1) for m, n in pairs])
    masks = flambeau.cat([getattr(m, n + "_mask", flambeau.ones_like(getattr(m, n))).reshape(-1) for m, n in pairs])
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError('Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
                        f"{pruning_method} of type {method.PRUNING_TYPE}")
    container = PruningContainer()
    container._tensor_name = "temp"
    container.add_pruning_method(method)
    final = container.compute_mask(flat, masks)
    start = 0
    for module, name in pairs:
        p = getattr(module, name)
        custom_from_mask(module, name, mask=final[start:start + p.numel()].view_as(p))
        start += p.numel()


def remove(module: Any, name: str) -> Any:
    """Make the pruned tensor the parameter, for good.

    Raises:
        ValueError: the parameter is not pruned.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Any) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned."""
    return any(isinstance(hook, BasePruningMethod) for _, m in module.named_modules()
               for hook in m._forward_pre_hooks.values())


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if (isinstance(amount, numbers.Integral) and amount < 0) or (
            not isinstance(amount, numbers.Integral) and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(f"amount={amount} should be a fraction in [0, 1] or a number of elements (a non-negative integer)")


def _count(amount: Any, n: int) -> int:
    """How many of n elements are pruned."""
    if isinstance(amount, numbers.Integral):
        if amount > n:
            raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={n}")
        return int(amount)
    return round(amount * n)
