"""A model as a graph of TensorBoard: the operators that one call of it runs, grouped by module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from flambeau.autograd._rerun import rerun
from flambeau.core.interception import CAPTURE, register, set_limit, unregister
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.state import current_scope
from flambeau.ops._aten import ATEN

_LONGEST = 200         # characters of a parameter's text


def _tensors(value: Any) -> Iterator[tuple[str, TensorBase]]:
    """The tensors in nested containers, with the way to each."""
    if isinstance(value, TensorBase):
        yield "", value
        return
    parts: Iterable = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, (list, tuple)) else ())
    for key, part in parts:
        for path, t in _tensors(part):
            yield f".{key}{path}", t


class _Recorder:
    """Nodes of a graph, made while a model runs."""

    def __init__(self, model: Any) -> None:
        self.root = type(model).__name__
        self.nodes: list[NodeDef] = []
        self.names: dict[int, str] = {}             # of the node that made a tensor, by its id
        self.kept: list[Any] = []                   # tensors whose ids are in use
        self.counts: dict[str, int] = {}
        self.unused: dict[int, tuple[str, TensorBase]] = {}      # parameters and buffers: nodes once they are used
        for path, module in model.named_modules():
            place = self.place(path, model)
            for name, t in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
                self.unused.setdefault(id(t), (f"{place}/{name}", t))

    def place(self, path: str, model: Any) -> str:
        """Where TensorBoard shows a module: its classes and names from the root on."""
        place, module = self.root, model
        for name in path.split(".") if path else ():
            module = getattr(module, name)
            place += f"/{type(module).__name__}[{name}]"
        return place

    def scope(self) -> str:
        """Where the operator that runs now belongs."""
        links = []
        scope = current_scope()
        while scope is not None:
            links.append(f"{scope[1]}[{scope[0]}]")
            scope = scope[2]
        return "/".join([self.root, *reversed(links[:-1])])

    def unique(self, name: str) -> str:
        n = self.counts[name] = self.counts.get(name, 0) + 1
        return name if n == 1 else f"{name}_{n - 1}"

    def add(self, name: str, kind: str, inputs: list[str], result: Any, text: str = "") -> str:
        """Add a node for a tensor."""
        name = self.unique(name)
        attributes = {"attr": AttrValue(s=text.replace("'", " ").encode())}
        if result is not None:
            dims = [TensorShapeProto.Dim(size=n) for n in shape_of(result)]
            shape = AttrValue.ListValue(shape=[TensorShapeProto(dim=dims)])
            attributes["_output_shapes"] = AttrValue(list=shape)
            self.names[id(result)] = name
            self.kept.append(result)
        self.nodes.append(NodeDef(name=name, op=kind, input=inputs, attr=attributes))
        return name

    def name_of(self, t: TensorBase) -> str:
        """The node that a tensor comes from; a parameter's or a constant's is made when it is first used."""
        found = self.names.get(id(t))
        if found is not None:
            return found
        if id(t) in self.unused:
            name, t = self.unused.pop(id(t))
            return self.add(name, "Parameter", [], t)
        return self.add(self.scope() + "/constant", "prim::Constant", [], t)

    def operator(self, op: Any, inputs: tuple, params: Any, kind: int) -> Any:
        """The interceptor of operators."""
        names = [self.name_of(t) for t in inputs if isinstance(t, TensorBase)]
        old = set_limit(CAPTURE)
        try:
            out = rerun(op, inputs, params, kind)
        finally:
            set_limit(old)
        text = str({"params": params} if params else {})[:_LONGEST]
        results = [t for _, t in _tensors(out)]
        short = ATEN.get(op.name, op.name) + ("_" if kind == 1 else "")
        first = self.add(f"{self.scope()}/{short}", "aten::" + short, names, results[0] if results else None, text)
        for t in results[1:]:
            self.add(first + "_output", "prim::TupleUnpack", [first], t)
        return out


def graph(model: Any, args: Any, verbose: bool = False, use_strict_trace: bool = True) -> tuple[Any, Any]:
    """The graph of model(*args), run in evaluation mode, and the statistics that go with it: (GraphDef, RunMetadata).

    Args:
        model: a Module.
        args: its argument, or a tuple of arguments.
        verbose: print the nodes.
        use_strict_trace: False allows results that are dictionaries.

    Raises:
        RuntimeError: strict, and the model returns a dictionary.
    """
    recorder = _Recorder(model)
    arguments = args if isinstance(args, tuple) else (args,)
    for i, (_, t) in enumerate(_tensors(arguments)):
        recorder.add(f"input/{'x' if i == 0 else f'input.{i}'}", "IO Node", [], t)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    register(CAPTURE, recorder.operator)
    try:
        out = model(*arguments)
    finally:
        unregister(CAPTURE, recorder.operator)
        for module, training in modes:
            module.training = training
    if use_strict_trace and isinstance(out, dict):
        raise RuntimeError("add_graph(): the model returns a dict, which a strict trace refuses: its keys could change. "
                           "Return a tuple or a NamedTuple, or pass use_strict_trace=False.")
    for i, (_, t) in enumerate(_tensors(out)):
        source = recorder.name_of(t)
        recorder.add(f"output/output.{i + 1}", "IO Node", [source], t)
    if verbose:
        for node in recorder.nodes:
            print(f"{node.name} = {node.op}({', '.join(node.input)})")
    statistics = RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")]))
    return GraphDef(node=recorder.nodes, versions=VersionDef(producer=22)), statistics
