"""Modules and optimizers on the meta device: built without memory, given it later, trained by shape."""

from __future__ import annotations

import copy
import io
import pickle
import time
import tracemalloc

import pytest
import torch as pytorch

import flambeau as torch
from flambeau import nn

from . import modules as M

pytorch.set_num_threads(1)
INFOS = M.infos()
GROUPS = 8


@pytest.mark.parametrize("group", range(GROUPS))
def test_modules_of_pytorchs_database_agree(group):
    wrong = {}
    for name in sorted(INFOS)[group::GROUPS]:
        for i, item in enumerate(M.items(INFOS[name])[:7]):
            difference = M.disagreement(INFOS[name], item) if (name, i) not in M.UNLIKE_THE_CPU else None
            if difference:
                wrong[name] = difference
    assert not wrong


def test_a_model_of_seventy_billion_parameters_is_built_run_and_trained():
    tracemalloc.start()
    began = time.monotonic()
    with torch.device("meta"):
        layers = [nn.Sequential(nn.Linear(8192, 28672), nn.SiLU(), nn.Linear(28672, 8192), nn.LayerNorm(8192))
                  for _ in range(150)]
        model = nn.Sequential(*layers)
        x = torch.empty(4, 4096, 8192)
    count = sum(p.numel() for p in model.parameters())
    out = model(x)
    out.square().mean().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 7.0e10 < count < 7.2e10 and tuple(out.shape) == (4, 4096, 8192) and norm.is_meta
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())
    assert optimizer.state[model[3][0].weight]["exp_avg"].shape == (28672, 8192)
    assert peak < 30_000_000 and time.monotonic() - began < 60


def test_memory_comes_with_to_empty_or_with_assigned_values():
    for build in (lambda: nn.Linear(3, 4, device="meta"), lambda: nn.Sequential(nn.Linear(3, 4, device="meta"))[0]):
        layer = build()
        assert layer.weight.is_meta and layer.weight.requires_grad
        assert layer.to_empty(device="cpu") is layer and not layer.weight.is_meta
        nn.init.ones_(layer.weight)
        assert layer.weight.sum().item() == 12
    values = nn.Linear(3, 4).state_dict()
    layer = nn.Linear(3, 4, device="meta")
    with pytest.warns(UserWarning, match="assign"):
        layer.load_state_dict(values)
    assert layer.weight.is_meta
    layer.load_state_dict(values, assign=True)
    assert torch.equal(layer.weight, values["weight"])
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad
    assert layer(torch.ones(2, 3)).shape == (2, 4)


def test_to_says_what_to_do_instead():
    layer = nn.Linear(3, 4, device="meta")
    for run in (lambda: layer.to("cpu"), layer.cpu):
        with pytest.raises(NotImplementedError, match=r"Cannot copy out of meta tensor; no data!.*torch.nn.Module.to_empty"):
            run()
    assert layer.double().weight.dtype is torch.float64 and layer.to("meta").weight.is_meta
    real = nn.Linear(3, 4)
    assert real.to("meta").weight.is_meta and isinstance(real.weight, nn.Parameter)


def test_skip_init_draws_nothing():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert not nn.utils.skip_init(nn.Linear, 3, 4).weight.is_meta
    assert nn.utils.skip_init(nn.Linear, 3, 4, device="meta").weight.is_meta
    with torch.device("meta"):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.LSTM(3, 4), nn.Embedding(4, 5), nn.Bilinear(2, 3, 4),
                              nn.MultiheadAttention(8, 2), nn.TransformerEncoderLayer(8, 2))
        for p in model.parameters():
            nn.init.normal_(p), nn.init.uniform_(p), nn.init.trunc_normal_(p), nn.init.constant_(p, 1.0)
            if p.dim() > 1:
                nn.init.xavier_uniform_(p), nn.init.kaiming_normal_(p), nn.init.orthogonal_(p)
            if p.dim() == 2:
                nn.init.sparse_(p, 0.5)
    assert torch.equal(before, torch.get_rng_state())
    assert all(t.is_meta for t in [*model.parameters(), *model.buffers()])


def test_copies_and_files_keep_the_device():
    layer = nn.Linear(3, 4, device="meta")
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    for weight in (copy.deepcopy(layer).weight, pickle.loads(pickle.dumps(layer)).weight, torch.load(file)["weight"]):
        assert weight.is_meta and tuple(weight.shape) == (4, 3)
    assert "device='meta', size=(4, 3)" in repr(layer.weight)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad",
                                  "Adadelta", "ASGD", "Muon"])
def test_optimizers_make_their_state_on_meta(name):
    def run(library):
        layer = library.nn.Linear(3, 4, bias=name != "Muon", device="meta")
        options = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}
        optimizer = getattr(library.optim, name)(layer.parameters(), **options)
        for _ in range(2):
            optimizer.zero_grad()
            layer(library.ones(2, 3, device="meta")).sum().backward()
            optimizer.step()
        return layer, {k: (v.device.type, tuple(v.shape)) for k, v in optimizer.state[layer.weight].items()
                       if hasattr(v, "device")}

    layer, state = run(torch)
    assert layer.weight.is_meta and layer.weight._version > 0
    if name != "ASGD":                  # PyTorch's looks at a value on its way
        assert state == run(pytorch)[1]


def test_gradients_are_clipped_by_shape():
    layer = nn.Linear(3, 4, device="meta")
    layer(torch.ones(2, 3, device="meta")).sum().backward()
    assert nn.utils.clip_grad_norm_(layer.parameters(), 1.0).is_meta and layer.weight.grad._version == 1
    nn.utils.clip_grad_value_(layer.parameters(), 1.0)
    with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0, error_if_nonfinite=True)
