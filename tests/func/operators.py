"""Every record's sample calls under vmap against a loop, and their Jacobians by every transform against autograd."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import flambeau
from flambeau.func import _pytree, jacfwd, jacrev, vmap
from flambeau.ops import REGISTRY
from flambeau.testing import samples as S

SAMPLES = 3
IMPOSSIBLE = (RuntimeError, ValueError, TypeError, IndexError)      # how an operator refuses its arguments
UNDEFINED = {"empty_like", "new_empty", "new_empty_strided", "empty", "empty_strided", "empty_permuted"}
# Shapes that depend on values, and shared tensors that would be written: PyTorch refuses them too
REFUSED = {"bincount", "nonzero", "unique", "unique_consecutive", "resize_as_", "copy_"}
# One sample's strides are not those of a tensor of its own
STRIDED = {"as_strided", "as_strided_copy", "as_strided_", "as_strided_scatter"}
# Not differentiable twice, which jacfwd asks for
ONCE = {"cdist", "pdist"}
# Running statistics are written, and one tensor cannot be for all samples
STATISTICS = {"batch_norm", "native_batch_norm", "nn.functional.batch_norm", "nn.functional.instance_norm"}
# Packed sequences: a vector of lengths is no vector of samples
LENGTHS = {"gru", "lstm", "rnn_tanh", "rnn_relu"}


def batches(key: str) -> Iterator[tuple]:
    """(number of the sample call, which tensors are mapped, function of those, their values for each sample)"""
    record = REGISTRY[key]
    fn = S.public_callable(flambeau, key, record)
    for i in range(len(list(record.samples(S.Maker(flambeau, 0))))):
        try:
            variants = [list(record.samples(S.Maker(flambeau, S.seed_of(key, seed), "float64")))[i]
                        for seed in range(1, SAMPLES + 1)]
        except IMPOSSIBLE:      # a sample that has no float64 form
            continue
        flat = [_pytree.flatten((list(v.args), v.kwargs)) for v in variants]
        if any(spec != flat[0][1] for _, spec in flat):
            continue
        columns = list(zip(*[values for values, _ in flat], strict=True))
        places = [j for j, c in enumerate(columns) if isinstance(c[0], flambeau.Tensor) and len({t.shape for t in c}) == 1]
        if not places:
            continue
        chosen = {"all": places}
        if len(places) > 1:
            chosen.update(first=places[:1], last=places[-1:])
        for which, used in chosen.items():

            def call(*tensors, used=used, flat=flat):
                values = list(flat[0][0])
                for j, t in zip(used, tensors, strict=True):
                    values[j] = t
                args, kwargs = _pytree.unflatten(values, flat[0][1])
                return tuple(S.tensors(fn(*args, **kwargs)))

            yield i, which, call, [columns[j] for j in used]


def check_values(key: str) -> int:
    """vmap of the sample calls gives what a loop gives; the number of comparisons."""
    count = 0
    for i, which, call, columns in batches(key):
        try:
            expected = [call(*[c[b].clone() for c in columns]) for b in range(SAMPLES)]
        except IMPOSSIBLE:      # arguments that do not fit when only some are taken from another sample
            continue
        if not expected[0] or any([t.shape for t in e] != [t.shape for t in expected[0]] for e in expected):
            continue
        what = f"{key} sample {i}, {which} mapped"
        try:
            got = vmap(call)(*[flambeau.stack(list(c)) for c in columns])
        except RuntimeError as error:
            if key in REFUSED or key in STATISTICS or key in LENGTHS:
                assert "vmap" in str(error), what
                continue
            raise AssertionError(f"{what}: {error}") from error
        for o, t in enumerate(got):
            want = flambeau.stack([e[o] for e in expected])
            assert t.shape == want.shape and t.dtype == want.dtype, (what, t.shape, want.shape, t.dtype, want.dtype)
            if key not in UNDEFINED and not (key in STRIDED and i > 0):
                flambeau.testing.assert_close(t, want, equal_nan=True, rtol=1e-7, atol=1e-9)
        count += 1
    return count


def check_jacobians(key: str) -> int:
    """jacrev, jacfwd and both in vmap give the rows of autograd.grad; the number of comparisons."""
    record = REGISTRY[key]
    fn = S.public_callable(flambeau, key, record)
    count = 0
    for i, sample, maker in S.calls(flambeau, key, record, "float64", True):
        flat, spec = _pytree.flatten((list(sample.args), sample.kwargs))
        inputs = [t for t in maker.leaves if any(x is t for x in flat)]
        if not inputs or any(t.numel() == 0 for t in inputs) or sum(t.numel() for t in inputs) > 60 or i > 7:
            continue
        places = [next(j for j, x in enumerate(flat) if x is t) for t in inputs]

        def function(*xs, flat=flat, spec=spec, places=places):
            values = list(flat)
            for j, x in zip(places, xs, strict=True):
                values[j] = x * 1 if key.endswith("_") else x
            args, kwargs = _pytree.unflatten(values, spec)
            return tuple([o for o in S.tensors(fn(*args, **kwargs)) if o.is_floating_point() and o.requires_grad])

        points = [t.detach() for t in inputs]
        try:
            rows = _rows(function, points)
        except IMPOSSIBLE:      # not differentiable at these arguments
            continue
        if rows is None:
            continue
        numbers = tuple(range(len(points)))
        twice = [flambeau.stack([x, x]) for x in points]
        whole = not any(t.is_complex() for t in (*points, *function(*inputs)))
        ways = {"jacrev": (jacrev(function, argnums=numbers) if whole else by_vectors(function), points)}
        if whole and key not in STATISTICS:
            ways["vmap of jacrev"] = (vmap(jacrev(function, argnums=numbers)), twice)
        real = all(t.dtype == flambeau.float64 for t in (*points, *function(*inputs)))
        if real and key not in ONCE:
            ways["jacfwd"] = (jacfwd(function, argnums=numbers), points)
        for way, (jacobian, arguments) in ways.items():
            got = jacobian(*arguments)
            for o, row in enumerate(rows):
                for q, want in enumerate(row):
                    if way.startswith("vmap"):
                        want = flambeau.stack([want, want])
                    if not (key in STRIDED and i > 0):
                        flambeau.testing.assert_close(got[o][q], want, rtol=1e-6, atol=1e-8, equal_nan=True,
                                                      msg=lambda m, w=way, i=i: f"{key} sample {i}, {w}: {m}")
            count += 1
    return count


def _rows(function, points) -> list | None:
    xs = [x.detach().requires_grad_() for x in points]
    outs = function(*xs)
    if not outs or sum(o.numel() for o in outs) > 60:
        return None
    table = []
    for o in outs:
        rows = [flambeau.autograd.grad(o.reshape(-1)[k], xs, retain_graph=True, allow_unused=True, materialize_grads=True)
                for k in range(o.numel())]
        table.append([flambeau.stack([r[q] for r in rows]).reshape(*o.shape, *x.shape) for q, x in enumerate(xs)]
                     if rows else [x.new_zeros(*o.shape, *x.shape) for x in xs])
    return table


def by_vectors(function):
    """Jacobians by one backward for the unit vectors: where PyTorch's jacrev refuses complex numbers."""

    def rows(*points):
        xs = [x.detach().requires_grad_() for x in points]
        found = []
        for o in function(*xs):
            unit = flambeau.eye(o.numel(), dtype=o.dtype).reshape(o.numel(), *o.shape)
            grads = flambeau.autograd.grad(o, xs, unit, retain_graph=True, is_grads_batched=True, allow_unused=True,
                                           materialize_grads=True)
            found.append([g.reshape(*o.shape, *x.shape) for g, x in zip(grads, xs, strict=True)])
        return found

    return rows


def keys() -> list[str]:
    """Operators that draw nothing."""
    return [k for k in sorted(REGISTRY) if not REGISTRY[k].random]


def quietly(check, key: str) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check(key)
