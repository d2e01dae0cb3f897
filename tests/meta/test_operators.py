"""Every operator of PyTorch's database on meta tensors: shape, dtype and strides as PyTorch's, and gradients."""

from __future__ import annotations

import warnings

import pytest
import torch

import flambeau
from flambeau.ops import PRIMITIVES, REGISTRY
from flambeau.testing import samples as S

from . import database as D

torch.set_num_threads(1)
OPERATORS = D.operators()
GROUPS = 24                 # names are tested in groups: one test for each would take longer to collect than to run


@pytest.mark.parametrize("group", range(GROUPS))
def test_results_agree_with_pytorchs_meta_device(group):
    wrong = {}
    for name in sorted(OPERATORS)[group::GROUPS]:
        op = OPERATORS[name]
        try:
            chosen = D.samples(op, name, 2)
        except Exception as error:      # the database's own sample maker fails on this machine
            assert not isinstance(error, AssertionError)
            continue
        for i, sample in enumerate(chosen):
            difference = D.disagreement(op, sample) or (i == 0 and D.gradient_disagreement(op, sample)) or None
            if difference and not difference.startswith("missing"):
                wrong[name] = difference
    assert not wrong


def test_every_primitive_has_a_shape_rule():
    """Pointwise operators and views need none, and where the size depends on values there is none."""
    flambeau.eye(2).to_sparse() @ flambeau.eye(2)       # loads the primitives of sparse tensors, which have no meta form
    without = [name for name, op in PRIMITIVES.items()
               if op.meta is None and not (op.pointwise or op.view or op.dynamic_shape)
               and "sparse" not in name and name not in ("spmm", "sddmm")]
    assert not without, "give their records meta= (see ops/_shapes.py)"


# What samples of our own records say that PyTorch's database does not
UNLIKE_THE_CPU = {"nn.functional.multilabel_margin_loss"}


def on_meta(value):
    if isinstance(value, flambeau.Tensor):
        made = flambeau.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype, device="meta")
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(on_meta(v) for v in value)
    if isinstance(value, dict):
        return {k: on_meta(v) for k, v in value.items()}
    return value


@pytest.mark.parametrize("key", [k for k in sorted(REGISTRY) if k not in UNLIKE_THE_CPU])
def test_a_meta_result_has_the_shape_and_dtype_of_the_computed_one(key):
    record = REGISTRY[key]
    for i, sample, _ in list(S.calls(flambeau, key, record, None, False))[:3]:
        fn = S.public_callable(flambeau, key, record)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = on_meta(sample.args), on_meta(sample.kwargs)
            if not any(t.is_meta for t in S.tensors([given[0], given[1]])):
                return
            try:
                expected = fn(*sample.args, **sample.kwargs)
            except Exception:
                continue
            try:
                got = fn(*given[0], **given[1])
            except (NotImplementedError, RuntimeError) as error:
                assert any(words in str(error) for words in (
                    "depends on the values", "cannot be called on meta tensors", "no data", "without output_size"))
                continue
        a, b = S.tensors(expected), S.tensors(got)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert (tuple(x.shape), x.dtype) == (tuple(y.shape), y.dtype), f"{key} sample {i}"
            assert y.is_meta, f"{key} sample {i}"


# Where what is wrong is a value, or where the size of the result is unknown before the arguments are looked at
OF_VALUES = {
    "bernoulli", "istft", "linalg.ldl_factor", "linalg.lu_factor", "multinomial", "nn.functional.binary_cross_entropy",
    "nn.functional.ctc_loss", "nn.functional.embedding", "nn.functional.gaussian_nll_loss", "nn.functional.one_hot",
    "nn.functional.multi_margin_loss", "nn.functional.multilabel_margin_loss", "normal", "poisson", "searchsorted", "take",
    "gather", "scatter", "index_select", "unique", "unique_consecutive", "nn.functional.cross_entropy",
    "nn.functional.nll_loss"}


@pytest.mark.parametrize("key", [k for k in sorted(REGISTRY) if REGISTRY[k].errors and k not in OF_VALUES])
def test_wrong_arguments_raise_as_with_values(key):
    record = REGISTRY[key]
    fn = S.public_callable(flambeau, key, record)
    for sample, kind, _ in record.errors(S.Maker(flambeau, 1)):
        args, kwargs = on_meta(sample.args), on_meta(sample.kwargs)
        if any(t.is_meta for t in S.tensors([args, kwargs])):
            with pytest.raises((kind, NotImplementedError)), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fn(*args, **kwargs)
