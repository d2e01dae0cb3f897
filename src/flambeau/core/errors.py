"""The errors of autograd. Each message says what happened, where in the user's program, and what to do.

The classes are subclasses of those that PyTorch raises, so that `except RuntimeError` keeps working.
"""
from __future__ import annotations

from typing import Any

from mypy_extensions import i64, mypyc_attr

from .objects import VERSION_MASK, Cell, Node, TensorBase, edge, shape_of
from .origin import quoted, scope_path, source_line, warn_user


@mypyc_attr(native_class=False)
class AutogradError(RuntimeError):
    """A rule of automatic differentiation is broken; the message names the user's lines."""


@mypyc_attr(native_class=False)
class SavedValueError(AutogradError):
    """A value saved for backward was changed in place, or given up by an earlier backward."""


@mypyc_attr(native_class=False)
class InplaceError(AutogradError):
    """An in-place write that autograd cannot follow."""


def node_text(n: Node) -> str:
    """`MulBackward0, recorded at file.py:3: y = a * b`."""
    text = str(n.op.node_name) + ", recorded at " + quoted(n.code, n.lasti)
    path = scope_path(n.scope)
    if path:
        text += ", in module " + path
    return text


def shape_text(shape: Any) -> str:
    return "[" + ", ".join([str(s) for s in shape]) + "]"


def dtype_text(dtype: Any) -> str:
    return str(dtype)


def of_leaf(n: Node, i: i64) -> bool:
    """Whether input i of n is a leaf, or a view of one."""
    e = edge(n, i)
    while isinstance(e, Node) and e.op.view:
        e = edge(e, 0)
    return e is not None and not isinstance(e, Node)


def version_error(n: Node, what: str, i: i64, c: Cell, had: i64, shape: Any, dtype: Any) -> RuntimeError:
    """what: "output", or "input 'weight'" of number i."""
    writer = "an in-place operation" if c.op is None else c.op.name
    if c.op is not None and not writer.endswith(("_", ")")):
        writer += "_"
    if writer.endswith(")"):
        fix = ("the graph holds the values from before the step. Compute the loss again after it, or run every backward "
               "through this graph before it.")
    elif i >= 0 and of_leaf(n, i):
        fix = ("the graph holds the values from before the write. Compute the loss again after it, or run every backward "
               "through this graph before it.")
    else:
        fix = "use the out-of-place form there (y = y.%s(...) instead of y.%s(...)), or change a clone() of it." % (
            writer.rstrip("_"), writer) if c.op is not None else "change a clone() of it."
    now: i64 = c.stamp & VERSION_MASK
    was: i64 = had & VERSION_MASK
    return SavedValueError(
        "one of the variables needed for gradient computation has been modified by an inplace operation.\n"
        "  saved:    the %s of %s (a tensor of shape %s, %s) was saved at version %d by\n            %s\n"
        "  modified: %s made it version %d at\n            %s\n"
        "  fix:      %s" % (
            what, n.op.node_name, shape_text(shape), dtype_text(dtype), int(was), node_text(n), writer, int(now),
            quoted(c.code, c.lasti), fix))


def data_write_warning(n: Node, what: str, c: Cell) -> None:
    """Once for each write: a weight that many nodes saved is one mistake."""
    if c.warned == c.stamp:
        return
    c.warned = c.stamp
    warn_user(
        "a value saved for backward was changed through .data, which autograd cannot see: the gradient computed now "
        f"uses the changed value and may be wrong.\n  saved:    the {what} of {node_text(n)}\n"
        f"  modified: through .data, at {quoted(c.code, c.lasti)}\n"
        "  fix:      write under torch.no_grad() instead of through .data: then this is an error that names both lines.")


def freed_error(n: Node) -> RuntimeError:
    first = ""
    x = n.extra
    if x is not None and x.first_backward is not None:
        first = "\n  freed by: the first backward, at " + quoted(x.first_backward[0], x.first_backward[1])
    return SavedValueError(
        "Trying to backward through the graph a second time, or reading its saved tensors after a backward freed "
        f"them.\n  needed:   the saved values of {node_text(n)}{first}\n  fix:      pass retain_graph=True to the "
        "first backward if the graph is meant to be used twice; or, if a tensor was carried over from an earlier "
        "step (a hidden state, a running total), detach() it there.")


def no_grad_error(index: i64, t: TensorBase, why: str) -> RuntimeError:
    return AutogradError(
        "element %d of tensors does not require grad and does not have a grad_fn%s" % (int(index), why))


def leaf_inplace_error(t: TensorBase, of_view: bool, op_name: str) -> RuntimeError:
    v = t._view
    if of_view and v is not None:
        return InplaceError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation: %s would overwrite, "
            "through a view of shape %s, values of a leaf of shape %s, whose gradient is taken with respect to what it "
            "holds. To update a parameter, write inside `with torch.no_grad():`; to compute with changed values, change a "
            "clone()." % (
                op_name, shape_text(shape_of(t)), shape_text(shape_of(v.base))))
    return InplaceError(
        "a leaf Variable that requires grad is being used in an in-place operation: %s would overwrite its values (shape "
        "%s). To update a parameter, write inside `with torch.no_grad():`; to compute with changed values, use the "
        "out-of-place form or change a clone()." % (op_name, shape_text(shape_of(t))))


def view_error(t: TensorBase, n: Node | None, name: str, creation: str, indirect: bool, nr: i64) -> RuntimeError:
    what = ("is a view and its base or another view of its base has been modified inplace. "
            if indirect else "is a view and is being modified inplace. ")
    made = "" if n is None else "\n  made at:  " + quoted(n.code, n.lasti)
    if creation == "no_grad":
        why = ("It was made inside torch.no_grad() but is written with grad mode on, so it is not clear whether the write "
               "belongs to the graph.\n  fix:      make the view and write to it on the same side of the no_grad block, "
               "or change a clone().")
    elif creation == "inference":
        why = ("It was made inside torch.inference_mode() from a normal tensor.\n  fix:      make the view outside "
               "inference mode, or change a clone().")
    elif creation == "custom":
        why = ("It was returned by a custom autograd.Function, so the write would skip the Function's own backward."
               "\n  fix:      change a clone() of it, or return a clone() from the Function's forward.")
    else:
        why = ("This view is the output of a function that returns multiple views, which autograd cannot follow through "
               "a write.\n  fix:      use the out-of-place form, or change a clone() of it.")
    return InplaceError("Output %d of %s %s%s%s" % (int(nr), name, what, why, made))


def inference_save_error() -> RuntimeError:
    return AutogradError(
        "Inference tensors cannot be saved for backward. The tensor was made inside torch.inference_mode(), so no gradient "
        "can be computed through operators that need its value. Make a clone() of it outside inference mode and use that, "
        "or use torch.no_grad() instead of inference_mode() where it is made.")


def inference_inplace_error() -> RuntimeError:
    return AutogradError(
        "Inplace update to inference tensor outside InferenceMode. The tensor was made inside "
        "torch.inference_mode(). Make a clone() of it and change that, or use torch.no_grad() where it is made.")


def unused_error(index: i64) -> RuntimeError:
    return AutogradError(
        "One of the differentiated Tensors appears to not have been used in the graph: input %d did not take part in "
        "computing the outputs. Set allow_unused=True if this is meant (its gradient is then None), or "
        "materialize_grads=True for zeros." % int(index))


def not_a_tensor(function: str, argument: str, position: int, value: Any) -> TypeError:
    return TypeError("%s(): argument '%s' (position %d) must be Tensor, not %s" % (
        function, argument, position, type(value).__name__))


def forward_line(n: Node) -> str:
    """The user's line that recorded n, with its text."""
    return quoted(n.code, n.lasti)


def line_text(n: Node) -> str:
    return source_line(n.code, n.lasti)
