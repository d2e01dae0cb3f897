"""Corner cases of the engine: hooks, accumulation, pruning, errors; the same lines on torch and on flambeau."""

from __future__ import annotations

import pytest

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


@case
def hook_remove_in_hook(T):
    log = []
    x = T.tensor([1.0], requires_grad=True)
    y = x * 2

    def h(g):
        log.append(1)
        hh.remove()

    hh = y.register_hook(h)
    y.register_hook(lambda g: log.append(2))
    z = (y * y).sum()
    z.backward(retain_graph=True)
    z.backward()
    return log


@case
def hook_replaces_chain(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: g + 1)
    y.retain_grad()
    y.sum().backward()
    return x.grad, y.grad


@case
def retain_then_hook(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    return x.grad, y.grad


@case
def hook_wrong_shape(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: g.sum())
    (x * 2).sum().backward()


@case
def hook_wrong_type(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: 5)
    (x * 2).sum().backward()


@case
def hook_wrong_dtype(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: g.double())
    (x * 2).sum().backward()


@case
def create_graph_grad(T):
    x = T.tensor([2.0], requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    g = x.grad
    r = [g.requires_grad]
    (g**2).sum().backward()
    return r, x.grad


@case
def accumulate_identity(T):
    x = T.tensor([2.0], requires_grad=True)
    (x * 3).sum().backward()
    g = x.grad
    (x * 3).sum().backward()
    return x.grad is g, g


@case
def seed_not_stolen(T):
    x = T.tensor([2.0, 3.0], requires_grad=True)
    s = T.tensor([1.0, 1.0])
    (x * 1).backward(s)
    x.grad.mul_(9)
    y = x.clone()
    y.backward(s)
    return s, x.grad


@case
def seed_identity_leaf(T):
    x = T.tensor([2.0, 3.0], requires_grad=True)
    s = T.tensor([1.0, 1.0])
    x.backward(s)
    x.grad.mul_(9)
    return s


@case
def leaf_root(T):
    x = T.tensor(2.0, requires_grad=True)
    x.backward()
    return x.grad


@case
def post_acc_nonleaf(T):
    x = T.tensor(2.0, requires_grad=True) * 1
    x.register_post_accumulate_grad_hook(print)


@case
def reg_hook_nograd(T):
    T.tensor(2.0).register_hook(print)


@case
def retain_nograd(T):
    T.tensor(2.0).retain_grad()


@case
def retain_leaf(T):
    x = T.tensor(2.0, requires_grad=True)
    x.retain_grad()
    (x * 2).backward()
    return x.grad, x.retains_grad


@case
def grad_setter(T):
    x = T.tensor([2.0], requires_grad=True)
    x.grad = T.tensor([1.0, 2.0])


@case
def grad_setter2(T):
    x = T.tensor([2.0], requires_grad=True)
    x.grad = T.tensor([5.0])
    (x * 2).sum().backward()
    del x.grad
    return x.grad


@case
def multi_out_hook(T):
    log = []
    x = T.tensor([1.0, 2.0], requires_grad=True)
    a, b = x.unbind()
    a.register_hook(lambda g: log.append(None if g is None else g.item()))
    b.register_hook(lambda g: log.append(None if g is None else g.item()))
    (a * 3).backward()
    return log, x.grad


@case
def prehook_none(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.grad_fn.register_prehook(lambda g: (None,))
    (y.sum() + x.sum()).backward()
    return x.grad


@case
def posthook_none(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: (None, None))
    (y.sum() + x.sum()).backward()
    return x.grad


@case
def posthook_wrong_count(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * T.tensor([1.0, 2.0])
    y.grad_fn.register_hook(lambda gi, go: (gi[0],))
    y.sum().backward()
    return x.grad


@case
def posthook_len(T):
    log = []
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * T.tensor([1.0, 2.0])
    y.grad_fn.register_hook(lambda gi, go: log.append([None if g is None else g.tolist() for g in gi]))
    z = y * 2
    z.grad_fn.register_hook(lambda gi, go: log.append([None if g is None else g.tolist() for g in gi]))
    z.sum().backward()
    return log


@case
def grad_prune_hooks(T):
    log = []
    x = T.tensor([1.0], requires_grad=True)
    w = T.tensor([2.0], requires_grad=True)
    x.register_hook(lambda g: log.append("x"))
    w.register_hook(lambda g: log.append("w"))
    y = x * w
    y.register_hook(lambda g: log.append("y"))
    w.register_post_accumulate_grad_hook(lambda t: log.append("pw"))
    g = T.autograd.grad(y.sum(), w, retain_graph=True)
    y.sum().backward(inputs=[w])
    return log, w.grad, x.grad, g


@case
def grad_intermediate(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    return T.autograd.grad(z, [y, x])


@case
def grad_of_self(T):
    x = T.tensor([1.0], requires_grad=True)
    y = x * 2
    return T.autograd.grad(y, y)


@case
def inplace_after_hook_view(T):
    log = []
    x = T.tensor([1.0, 2.0], requires_grad=True)
    b = x * 1
    v = b[0]
    v.register_hook(lambda g: log.append(("v", g.tolist())))
    b.mul_(3)
    v2 = b[1]
    (v * 5 + v2).backward()
    return log, x.grad, None


@case
def retain_view_inplace(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    b = x * 1
    v = b[0]
    v.retain_grad()
    b.retain_grad()
    v.mul_(3)
    (b * T.tensor([1.0, 10.0])).sum().backward()
    return x.grad, b.grad, v.grad


@case
def no_grad_backward(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    with T.no_grad():
        y.backward()
    return x.grad, x.grad.requires_grad


@case
def hook_grad_mode(T):
    log = []
    x = T.tensor([1.0], requires_grad=True)
    x.register_hook(lambda g: log.append(T.is_grad_enabled()))
    (x * 2).sum().backward()
    (x * x).sum().backward(create_graph=True)
    return log


@case
def inference_backward(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    with T.inference_mode():
        y.backward()
    return x.grad, x.grad.is_inference()


@case
def int_grad(T):
    T.tensor([1], requires_grad=True)


@case
def complex_scalar(T):
    z = T.tensor(1 + 2j, requires_grad=True)
    (z * z).backward()


@case
def second_use_of_part(T):
    x = T.tensor([1.0], requires_grad=True)
    y = x.exp()
    a = y.sum()
    b = (y * 2).sum()
    a.backward()
    b.backward()


@case
def freed_but_not_needed(T):
    x = T.tensor([1.0], requires_grad=True)
    y = x + 1
    y.sum().backward()
    y.sum().backward()
    return x.grad


@case
def grad_fn_after(T):
    x = T.tensor([1.0], requires_grad=True)
    y = (x * 2).sum()
    y.backward()
    return y.grad_fn.name(), y.requires_grad


@case
def requires_false_on_nonleaf(T):
    x = T.tensor([1.0], requires_grad=True) * 1
    x.requires_grad = False


@case
def detach_view_version(T):
    x = T.tensor([1.0], requires_grad=True) * 1
    y = x * x
    d = x.detach()
    d.zero_()
    y.sum().backward()


@case
def is_leaf_rules(T):
    x = T.tensor([1.0], requires_grad=True)
    r = [x.is_leaf, (x * 1).is_leaf, x.detach().is_leaf, (x * 1).requires_grad_(True).is_leaf]
    with T.no_grad():
        r.append((x * 2).is_leaf)
    return r


@pytest.mark.parametrize("name", CASES)
def test_corner(agree, name):
    agree(CASES[name])
