"""state_dict and load_state_dict."""

from __future__ import annotations

import copy

import pytest
from module_nets import make_net

import flambeau
from flambeau import nn


def changed(lib, change, **options):
    net = make_net(lib)
    net.register_buffer("kept", lib.ones(2))
    state = copy.deepcopy(net.state_dict())
    change(lib, state)
    result = net.load_state_dict(state, **options)
    return [list(result.missing_keys), list(result.unexpected_keys), net.first.weight]


CHANGES = {
    "nothing": lambda lib, s: None,
    "missing": lambda lib, s: s.pop("first.weight"),
    "unexpected": lambda lib, s: s.update(more=lib.ones(1)),
    "nested unexpected": lambda lib, s: s.update({"first.more": lib.ones(1)}),
    "other shape": lambda lib, s: s.update(kept=lib.ones(5)),
    "other dtype": lambda lib, s: s.update({k: v.double() for k, v in s.items()}),
    "no tensor": lambda lib, s: s.update(kept=3),
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_loading(both, name, strict):
    both(lambda lib: changed(lib, CHANGES[name], strict=strict))


def test_loading_of_what_is_no_mapping(both):
    both(lambda lib: make_net(lib).load_state_dict(3))


def test_assign_takes_the_tensors_themselves(both):
    def run(lib):
        net = make_net(lib)
        before = net.first.weight
        state = {k: v.double() for k, v in net.state_dict().items()}
        net.load_state_dict(state, assign=True)
        return [net.first.weight, net.first.weight is before, net.first.weight.requires_grad,
                isinstance(net.first.weight, lib.nn.Parameter)]

    both(run)


def test_errors_come_together_and_name_the_nearest():
    net = make_net(flambeau)
    state = net.state_dict()
    state["first.weigth"] = state.pop("first.weight")
    state["rest.0.bias"] = flambeau.ones(7)
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    assert "Missing key(s) in state_dict" in text and "Unexpected key(s) in state_dict" in text
    assert 'the checkpoint has "first.weigth"' in text
    assert "size mismatch for rest.0.bias" in text


def test_prefix_of_wrapped_checkpoints_is_recognised():
    net = make_net(flambeau)
    state = {"module." + k: v for k, v in net.state_dict().items()}
    with pytest.raises(RuntimeError, match=r"begin with \"module\.\".*removeprefix"):
        net.load_state_dict(state)


def test_state_is_live_and_loading_copies():
    net = nn.Linear(2, 1)
    live = net.state_dict()
    frozen = copy.deepcopy(live)
    with flambeau.no_grad():
        net.weight.add_(1)
    assert live["weight"].tolist() == net.weight.tolist() != frozen["weight"].tolist()
    net.load_state_dict(frozen)
    with flambeau.no_grad():
        net.weight.zero_()
    assert frozen["weight"].abs().sum().item() > 0
    assert not live["weight"].requires_grad and net.state_dict(keep_vars=True)["weight"].requires_grad


def test_extra_state(both):
    def run(lib):
        class Counter(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 5

            def get_extra_state(self):
                return self.count

            def set_extra_state(self, state):
                self.count = state * 2

        module = lib.nn.Sequential(Counter())
        state = module.state_dict()
        module.load_state_dict(state)
        return [dict(state), module[0].count]

    both(run)


def test_hooks_of_saving_and_loading(both):
    def run(lib):
        net = make_net(lib)
        log = []
        net.register_state_dict_pre_hook(lambda m, prefix, keep: log.append(["pre", prefix, keep]))
        net.register_state_dict_post_hook(lambda m, s, prefix,
                                          meta: s.update(added=1) or log.append(["post", prefix]))
        net.register_load_state_dict_pre_hook(lambda m, s, prefix,
                                              *rest: s.pop("added") and log.append(["load", prefix]))
        net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
        state = dict(net.state_dict(prefix=""))
        state.pop("first.bias")
        return [repr(net.load_state_dict(state)), log]

    both(run)


def test_scalar_of_one_element_loads_into_zero_dimensions(both):
    def run(lib):
        module = lib.nn.Module()
        module.register_buffer("n", lib.zeros(()))
        module.load_state_dict({"n": lib.ones(1)})
        return module.n

    both(run)
