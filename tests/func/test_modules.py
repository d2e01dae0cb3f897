"""Modules under transforms: gradients for each sample, ensembles, meta-learning, second derivatives, statistics."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import torch.func

import flambeau
import flambeau.func

from .test_transforms import agree


def mlp(T, dtype="float64"):
    T.manual_seed(3)
    nn = T.nn
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(getattr(T, dtype))


def cnn(T):
    T.manual_seed(4)
    nn = T.nn
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(3, 3), nn.Conv2d(3, 2, 3),
                         nn.LayerNorm([2, 2, 2]), nn.Flatten(), nn.Linear(8, 3)).to(T.float64)


def parameters(net):
    return {k: p.detach() for k, p in net.named_parameters()}


def per_sample(T, F, net, x, y):
    def loss(p, x, y):
        return T.nn.functional.cross_entropy(F.functional_call(net, p, (x.unsqueeze(0),)), y.unsqueeze(0))

    return F.vmap(F.grad(loss), in_dims=(None, 0, 0))(parameters(net), x, y)


def test_gradients_of_each_sample_agree_with_pytorch():
    agree(lambda T, F, d: per_sample(T, F, mlp(T), d(5, 4), d.ints(3, 5)))


def test_gradients_of_each_image_agree_with_pytorch():
    agree(lambda T, F, d: per_sample(T, F, cnn(T), d(4, 1, 8, 8), d.ints(3, 4)))


def test_gradients_of_each_sample_add_up_to_the_batch_gradient():
    net = mlp(flambeau)
    x, y = flambeau.randn(6, 4, dtype=flambeau.float64), flambeau.tensor([0, 1, 2, 0, 1, 2])
    each = per_sample(flambeau, flambeau.func, net, x, y)
    flambeau.nn.functional.cross_entropy(net(x), y, reduction="sum").backward()
    for name, p in net.named_parameters():
        flambeau.testing.assert_close(each[name].sum(0), p.grad)


def test_gradients_of_embeddings_and_recurrent_layers_for_each_sample():
    def program(T, F, d):
        T.manual_seed(0)
        table, rnn = T.nn.Embedding(7, 4, padding_idx=0).to(T.float64), T.nn.LSTM(4, 3, batch_first=True).to(T.float64)

        def loss(p, q, tokens):
            return F.functional_call(rnn, q, (F.functional_call(table, p, (tokens,)),))[0].pow(2).sum()

        tokens = d.ints(7, 3, 2, 5)
        if T is torch:      # its vmap has no rule for the LSTM
            rows = [F.grad(loss, argnums=(0, 1))(parameters(table), parameters(rnn), t) for t in tokens]
            return [{k: T.stack([r[i][k] for r in rows]) for k in rows[0][i]} for i in range(2)]
        each = F.vmap(F.grad(loss, argnums=(0, 1)), in_dims=(None, None, 0))
        return list(each(parameters(table), parameters(rnn), tokens))

    agree(program)


def test_an_ensemble_agrees_with_pytorch():
    def program(T, F, d):
        T.manual_seed(1)
        nets = [T.nn.Sequential(T.nn.Linear(4, 5), T.nn.BatchNorm1d(5), T.nn.ReLU(), T.nn.Linear(5, 2)).to(T.float64).eval()
                for _ in range(3)]
        params, buffers = F.stack_module_state(nets)

        def run(p, b, x):
            return F.functional_call(nets[0], (p, b), (x,))

        shared = F.vmap(run, in_dims=(0, 0, None))(params, buffers, d(6, 4))
        own = F.vmap(run)(params, buffers, d(3, 6, 4))
        gradients = T.autograd.grad(own.pow(2).sum(), list(params.values()))
        return shared, own, gradients

    agree(program)


def test_an_ensemble_trains_with_running_statistics_of_its_own():
    def program(T, F, d):
        T.manual_seed(1)
        nets = [T.nn.BatchNorm1d(2).to(T.float64) for _ in range(3)]
        params, buffers = F.stack_module_state(nets)
        out = F.vmap(lambda p, b, x: F.functional_call(nets[0], (p, b), (x,)))(params, buffers, d(3, 6, 2))
        return out, buffers["running_mean"], buffers["running_var"]

    agree(program)


def test_one_step_of_maml_agrees_with_pytorch():
    def program(T, F, d):
        net = mlp(T)

        def loss(p, x, y):
            return T.nn.functional.mse_loss(F.functional_call(net, p, (x,)), y)

        def task(p, x, y, x2, y2):
            g = F.grad(loss)(p, x, y)
            return loss({k: v - 0.1 * g[k] for k, v in p.items()}, x2, y2)

        def meta(p, *data):
            return F.vmap(task, in_dims=(None, 0, 0, 0, 0))(p, *data).mean()

        return F.grad(meta)(parameters(net), d(3, 5, 4), d(3, 5, 3), d(3, 5, 4), d(3, 5, 3))

    agree(program)


def test_the_hessian_of_a_network_agrees_with_pytorch():
    def program(T, F, d):
        net, x = mlp(T), d(5, 4)
        return F.hessian(lambda p: F.functional_call(net, p, (x,)).pow(2).mean())(parameters(net))

    agree(program)


def test_hessian_vector_products_agree_with_pytorch():
    def program(T, F, d):
        net, x = mlp(T), d(5, 4)
        p = parameters(net)

        def loss(p):
            return F.functional_call(net, p, (x,)).pow(2).mean()

        return F.jvp(F.grad(loss), (p,), ({k: T.ones_like(v) for k, v in p.items()},))

    agree(program)


def test_the_laplacian_of_a_network_at_each_point_agrees_with_pytorch():
    def program(T, F, d):
        net = mlp(T)
        return F.vmap(lambda x: F.hessian(lambda x: net(x).sum())(x).diagonal().sum())(d(5, 4))

    agree(program)


def test_the_tangent_kernel_agrees_with_pytorch():
    def program(T, F, d):
        net = mlp(T)
        p = parameters(net)
        jac = F.vmap(F.jacrev(lambda p, x: F.functional_call(net, p, (x,))), in_dims=(None, 0))
        a, b = jac(p, d(3, 4)), jac(p, d(2, 4))
        return sum(T.einsum("Naf,Mbf->NMab", a[k].flatten(2), b[k].flatten(2)) for k in p)

    agree(program)


def test_attention_of_each_sample_agrees_with_pytorch():
    def program(T, F, d):
        T.manual_seed(2)
        layer = T.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).to(T.float64)
        return F.vmap(F.grad(lambda x: layer(x.unsqueeze(0)).pow(2).sum()))(d(3, 5, 4))

    agree(program, 1e-8)


def test_batch_norm_is_refused_and_can_be_replaced():
    net = flambeau.nn.Sequential(flambeau.nn.BatchNorm1d(2), flambeau.nn.Linear(2, 1))
    with pytest.raises(RuntimeError, match="replace_all_batch_norm_modules_"):
        flambeau.func.vmap(net)(flambeau.randn(3, 4, 2))
    x = np.random.RandomState(0).randn(3, 4, 2).astype("float32")
    results = []
    for lib in (torch, flambeau):
        lib.manual_seed(0)
        net = lib.nn.Sequential(lib.nn.BatchNorm1d(2), lib.nn.Linear(2, 1))
        func = torch.func if lib is torch else flambeau.func
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert func.replace_all_batch_norm_modules_(net) is net
            results.append(func.vmap(net)(lib.tensor(x)).detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------------- randomness


def draws(randomness, fn, *args, **kwargs):
    flambeau.manual_seed(0)
    return flambeau.func.vmap(fn, randomness=randomness, **kwargs)(*args)


X = flambeau.ones(4, 50)
DRAWN = {
    "rand": lambda x: x * flambeau.rand(50),
    "randn_like": lambda x: flambeau.randn_like(x),
    "dropout": lambda x: flambeau.nn.functional.dropout(x),
    "dropout2d": lambda x: flambeau.nn.functional.dropout1d(x.reshape(10, 5)),
    "bernoulli_": lambda x: x.clone().bernoulli_(0.5),
    "normal_": lambda x: x.clone().normal_(),
    "randint": lambda x: flambeau.randint(0, 1000, (50,)) + x.long(),
    "randperm": lambda x: flambeau.randperm(50),
    "multinomial": lambda x: flambeau.multinomial(flambeau.ones(9), 50, True),
    "gumbel_softmax": lambda x: flambeau.nn.functional.gumbel_softmax(flambeau.zeros(50)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_different_draws_for_each_sample(name):
    out = draws("different", DRAWN[name], X)
    assert out.shape[0] == 4 and out.numel() == 200
    assert len({str(row.tolist()) for row in out}) == 4


@pytest.mark.parametrize("name", DRAWN)
def test_one_draw_for_all_samples(name):
    out = draws("same", DRAWN[name], X)
    assert len({str(row.tolist()) for row in out}) == 1


@pytest.mark.parametrize("name", DRAWN)
def test_random_operators_are_refused(name):
    with pytest.raises(RuntimeError, match="randomness"):
        draws("error", DRAWN[name], X)


def test_levels_decide_for_themselves():
    def inner(x):
        return flambeau.func.vmap(lambda y: y + flambeau.rand(()), randomness="same")(x)

    out = draws("different", inner, flambeau.zeros(3, 4))
    assert len({round(v, 6) for v in out.flatten().tolist()}) == 3
    assert (out == out[:, :1]).all()


def test_draws_that_depend_on_a_batch_cannot_be_the_same():
    with pytest.raises(RuntimeError, match="batched"):
        draws("same", lambda p: flambeau.bernoulli(p), flambeau.rand(3, 4))
    assert draws("different", lambda p: flambeau.bernoulli(p), flambeau.ones(3, 4)).tolist() == [[1.0] * 4] * 3


def test_a_shared_tensor_cannot_be_filled_differently():
    with pytest.raises(RuntimeError, match="inplace"):
        draws("different", lambda x: flambeau.zeros(3).uniform_(), X)


def test_dropout_of_a_network_in_gradients_of_each_sample():
    net = flambeau.nn.Sequential(flambeau.nn.Linear(4, 50), flambeau.nn.Dropout(0.5), flambeau.nn.Linear(50, 1))
    p = parameters(net)
    g = draws("different", flambeau.func.grad(lambda p, x: flambeau.func.functional_call(net, p, (x,)).sum()), p,
              flambeau.ones(3, 4), in_dims=(None, 0))
    kept = (g["2.weight"] != 0).squeeze(1)
    assert not (kept[0] == kept[1]).all()


WEIGHED = {
    "multinomial": lambda T, p: T.multinomial(p, 2),
    "with replacement": lambda T, p: T.multinomial(p, 5, True),
    "rows": lambda T, p: T.multinomial(p.expand(4, 3), 3, True),
    "Categorical": lambda T, p: T.distributions.Categorical(p, validate_args=False).sample((2,)),
    "gumbel_softmax": lambda T, p: T.nn.functional.gumbel_softmax(p),
}


@pytest.mark.parametrize("name", WEIGHED)
def test_draws_by_batched_weights_agree_with_pytorch(name):
    results = []
    for lib in (torch, flambeau):
        lib.manual_seed(0)
        p = lib.tensor([[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]])
        results.append(lib.func.vmap(lambda p, lib=lib: WEIGHED[name](lib, p), randomness="different")(p).tolist())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


def test_random_tensors_beside_a_dual_level_keep_their_options():
    x = flambeau.ones(2, 3).t()
    with flambeau.autograd.forward_ad.dual_level():
        assert flambeau.rand_like(x, requires_grad=True).requires_grad
        assert flambeau.rand_like(x).stride() == (1, 3)
        assert flambeau.rand_like(flambeau.empty(2, device="meta")).device.type == "meta"
    assert flambeau.vmap(lambda x: flambeau.rand_like(x, requires_grad=True), randomness="different")(x).requires_grad
