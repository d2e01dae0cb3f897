"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import pytest


def sequential(lib):
    return lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.ReLU(), lib.nn.Tanh())


SEQUENTIAL = {
    "append": lambda lib, s: s.append(lib.nn.ELU()), "insert": lambda lib, s: s.insert(1, lib.nn.ELU()),
    "insert at the end": lambda lib, s: s.insert(3, lib.nn.ELU()), "insert outside": lambda lib,
    s: s.insert(9, lib.nn.ELU()), "extend": lambda lib, s: s.extend([lib.nn.ELU()]), "pop": lambda lib,
    s: s.pop(0), "slice": lambda lib, s: s[1:], "last": lambda lib, s: s[-1], "outside": lambda lib, s: s[3],
    "add": lambda lib, s: s + s, "times": lambda lib, s: s * 2, "times none": lambda lib, s: s * 0,
    "times word": lambda lib, s: s * "a", "add list": lambda lib, s: s + [1], "append number": lambda lib,
    s: s.append(3),
}


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_sequential(both, name):
    def run(lib):
        s = sequential(lib)
        return [repr(SEQUENTIAL[name](lib, s)), repr(s), len(s), list(s.state_dict())]

    both(run)


def test_sequential_by_item(both):
    def run(lib):
        s = sequential(lib)
        s[1] = lib.nn.ELU()
        del s[0]
        s += lib.nn.Sequential(lib.nn.GELU())
        return [repr(s), "0" in dir(s)]

    both(run)


def test_sequential_of_names(both):
    from collections import OrderedDict

    def run(lib):
        s = lib.nn.Sequential(OrderedDict([("a", lib.nn.Linear(2, 2)), ("b", lib.nn.ReLU())]))
        return [repr(s), repr(s[:1]), s(lib.ones(1, 2))]

    both(run)


def test_module_list(both):
    def run(lib):
        m = lib.nn.ModuleList([lib.nn.ReLU()])
        m += [lib.nn.Tanh()]
        m.insert(0, lib.nn.ELU())
        m.extend(lib.nn.ModuleList([lib.nn.GELU()]))
        texts = [repr(m), repr(m[1:]), repr(m[-1]), repr(m + [lib.nn.ReLU()])]
        del m[1:3]
        return [*texts, repr(m), repr(m.pop(0)), len(m)]

    both(run)
    both(lambda lib: lib.nn.ModuleList([1]))
    both(lambda lib: lib.nn.ModuleList([lib.nn.ReLU()])(1))
    both(lambda lib: lib.nn.ModuleList().extend(3))


def test_module_dict(both):
    def run(lib):
        m = lib.nn.ModuleDict({"b": lib.nn.ReLU(), "a": lib.nn.Tanh()})
        m["c"] = lib.nn.ELU()
        m.update([("z", lib.nn.GELU())])
        return [repr(m), list(m), "a" in m, repr(m.pop("a")), list(m.keys()), [repr(v) for v in m.values()],
                len(m)]

    both(run)
    both(lambda lib: lib.nn.ModuleDict({"keys": lib.nn.ReLU()}))
    both(lambda lib: lib.nn.ModuleDict([lib.nn.ReLU()]))
    both(lambda lib: lib.nn.ModuleDict().update(3))
    both(lambda lib: lib.nn.ModuleDict()["a"])


def test_parameter_list(both):
    def run(lib):
        ps = lib.nn.ParameterList([lib.nn.Parameter(lib.ones(2)), lib.zeros(1), 5])
        ps.append(lib.nn.Parameter(lib.ones(3)))
        ps[0] = lib.nn.Parameter(lib.zeros(4))
        ps += [lib.ones(1)]
        return [repr(ps), len(ps), ps[-1], repr(ps[0:2]), [k for k, _ in ps.named_parameters()],
                dict(ps.state_dict()), [p.requires_grad for p in ps.parameters()]]

    both(run)
    both(lambda lib: lib.nn.ParameterList([lib.ones(1)])[4])
    both(lambda lib: lib.nn.ParameterList([lib.ones(1)])())


def test_parameter_dict(both):
    def run(lib):
        ps = lib.nn.ParameterDict({"b": lib.nn.Parameter(lib.ones(2)), "a": lib.zeros(1)})
        return [repr(ps), list(ps), [k for k, _ in ps.named_parameters()], ps.pop("a"),
                repr(ps | {"q": lib.ones(1)}), list(reversed(ps)), ps.get("u"),
                ps.setdefault("k", lib.ones(1)), ps.popitem()[0], repr(ps.copy()), len(ps),
                repr(ps.fromkeys("xy", 1))]

    both(run)
    both(lambda lib: lib.nn.ParameterDict({3: lib.ones(1)}))
    both(lambda lib: lib.nn.ParameterDict()["a"])
