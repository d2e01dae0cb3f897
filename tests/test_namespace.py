"""The names around tensors: devices that are not there, settings, and modules that say what to do instead."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings

import pytest
import torch

import flambeau

QUESTIONS = [
    "cuda.is_available()", "cuda.device_count()", "cuda.is_initialized()", "cuda.is_bf16_supported()", "cuda.manual_seed(1)",
    "cuda.manual_seed_all(1)", "cuda.seed()", "cuda.seed_all()", "cuda.empty_cache()", "cuda.set_device(-1)",
    "cuda.memory_allocated()", "cuda.max_memory_allocated()", "cuda.memory_reserved()", "cuda.memory_stats()",
    "cuda.get_rng_state_all()", "cuda.set_rng_state_all([])", "cuda.get_arch_list()", "cuda.set_stream(None)",
    "backends.cudnn.benchmark", "backends.cudnn.deterministic", "backends.cudnn.enabled", "backends.cudnn.allow_tf32",
    "backends.cudnn.is_available()", "backends.cudnn.version()", "backends.cuda.is_built()",
    "backends.cuda.matmul.allow_tf32", "backends.cuda.flash_sdp_enabled()", "backends.mps.is_available()",
    "backends.mps.is_built()",
    "version.cuda", "version.hip", "mps.is_available()", "mps.manual_seed(1)", "xpu.is_available()", "xpu.device_count()",
    "cpu.is_available()", "cpu.device_count()", "cpu.synchronize()", "cpu.current_device()", "accelerator.is_available()",
    "accelerator.current_accelerator()", "accelerator.device_count()", "distributed.is_initialized()",
    "distributed.is_nccl_available()", "distributed.is_torchelastic_launched()", "jit.is_scripting()", "jit.is_tracing()",
    "jit.annotate(int, 3)", "compiler.is_compiling()", "compiler.reset()", "is_autocast_enabled()",
    "amp.GradScaler('cpu').state_dict()", "amp.GradScaler('cuda', enabled=False).state_dict()", "onnx.is_in_onnx_export()",
    "multiprocessing.get_sharing_strategy()", "utils.checkpoint.get_device_states(1)",
]
REFUSALS = [
    "cuda.synchronize()", "cuda.current_device()", "cuda.get_device_name(0)", "cuda.get_device_properties(0)",
    "cuda.mem_get_info()", "cuda.get_rng_state()", "cuda.current_stream()", "cuda.init()", "cuda.device(0).__enter__()",
    "cuda.Stream()", "cuda.Event()", "ones(1).cuda()", "ones(1, device='cuda')", "ones(1).to('cuda:0')", "mps.synchronize()",
    "mps.empty_cache()", "xpu.synchronize()", "accelerator.synchronize()", "accelerator.current_device_index()",
    "distributed.get_rank()", "distributed.get_world_size()", "distributed.barrier()",
    "distributed.all_reduce(library.ones(1))",
    "compile(3)", "compile(len, mode='quick')", "autocast('quick')",
]


def answer(library, text):
    return eval(text, {"library": library})


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_have_the_answers_of_a_machine_without_a_gpu(question):
    assert answer(flambeau, "library." + question) == answer(torch, "library." + question)


@pytest.mark.parametrize("request_", REFUSALS)
def test_what_needs_a_device_or_a_process_group_raises_as_in_pytorch(request_):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((Exception,)) as theirs:
            answer(torch, "library." + request_)
        with pytest.raises((Exception,)) as ours:
            answer(flambeau, "library." + request_)
    kind = next(k for k in (ValueError, AssertionError, RuntimeError) if isinstance(theirs.value, k))
    assert isinstance(ours.value, kind)
    assert len(str(ours.value)) > 40                    # it says what to do


def test_a_missing_gpu_is_both_of_the_errors_that_programs_catch():
    with pytest.raises(RuntimeError, match="computes on the CPU.*cuda.is_available"):
        flambeau.ones(1).cuda()
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        flambeau.nn.Linear(1, 1).cuda()


def test_settings_can_be_set_and_restored():
    cudnn = flambeau.backends.cudnn
    cudnn.benchmark, cudnn.deterministic = True, True
    with cudnn.flags(enabled=False, benchmark=False):
        assert not cudnn.enabled and not cudnn.benchmark
    assert cudnn.enabled and cudnn.benchmark
    cudnn.benchmark = cudnn.deterministic = False
    flambeau.backends.cuda.matmul.allow_tf32 = True
    assert flambeau.backends.cuda.matmul.allow_tf32
    flambeau.backends.cuda.matmul.allow_tf32 = False
    with pytest.raises(AttributeError, match="Unknown attribute allow_tf23"):
        flambeau.backends.cuda.matmul.allow_tf23 = True


@pytest.mark.parametrize("call, words", [
    (lambda f: f.jit.save(len, "f.pt"), "Python code is what is computed"),
    (lambda f: f.jit.load("f.pt"), "Python code is what is computed"),
    (lambda f: f.onnx.export(None, (), "x"), "later version"),
    (lambda f: f.hub.load("a/b", "c"), "downloads nothing"),
    (lambda f: f.distributed.init_process_group("gloo"), "one process"),
    (lambda f: f.nn.parallel.DistributedDataParallel(None), "use the module itself"),
    (lambda f: f.quantization.quantize_dynamic(None), "keep the floating-point model"),
    (lambda f: f.sparse.solve(f.eye(2).to_sparse(), f.ones(2)), "torch.linalg.solve"),
    (lambda f: f.fx.symbolic_trace(None), "hooks"),
    (lambda f: f.export.export(None, ()), "later version"),
])
def test_what_is_not_there_says_what_to_do(call, words):
    with pytest.raises(NotImplementedError, match=words):
        call(flambeau)


def test_classes_that_are_not_there_can_be_named():
    model = flambeau.nn.Linear(1, 1)
    assert not isinstance(model, (flambeau.nn.parallel.DistributedDataParallel, flambeau.jit.ScriptModule))


def test_unknown_names_of_these_modules_are_attribute_errors():
    for module in ("cuda", "jit", "distributed", "onnx", "sparse", "linalg", "fft"):
        with pytest.raises(AttributeError, match="no_such_name"):
            getattr(flambeau, module).no_such_name  # noqa: B018
        assert not hasattr(getattr(flambeau, module), "__no_such_name__")


@pytest.mark.parametrize("module, slip, near", [
    ("distributions", "Norml", "Did you mean Normal[?]"), ("func", "vamp", "Did you mean vmap[?]"),
    ("utils.data", "Dataloader", "Did you mean DataLoader or"), ("nn", "Lineer", "Did you mean Linear")])
def test_the_nearest_names_are_given(module, slip, near):
    with pytest.raises(AttributeError, match=f"no attribute '{slip}'.*{near}"):
        getattr(importlib.import_module("flambeau." + module), slip)
    with pytest.raises(ImportError, match=near):
        exec(f"from flambeau.{module} import {slip}")
    with pytest.raises(AttributeError, match="Did you mean data[?]"):
        flambeau.utils.dta  # noqa: B018


def test_only_an_absent_gpu_is_a_matter_of_cuda():
    with pytest.raises(RuntimeError, match="'mps' is not available") as caught:
        flambeau.ones(1, device="mps")
    assert "CUDA" not in str(caught.value)


def test_marks_for_torchscript_leave_functions_as_they_are():
    def f(x):
        return x

    jit = flambeau.jit
    assert jit.ignore(f) is jit.ignore()(f) is jit.unused(f) is jit.export(f) is f
    assert jit.isinstance([1], list[int])


def test_data_parallel_calls_its_module():
    results = []
    for library in (torch, flambeau):
        library.manual_seed(0)
        model = library.nn.DataParallel(library.nn.Linear(2, 3))
        results.append((list(model.state_dict()), model(library.ones(1, 2)).tolist(), model.device_ids))
    assert results[1][0] == results[0][0] and results[1][2] == results[0][2]
    assert results[1][1][0] == pytest.approx(results[0][1][0], rel=1e-6)


# --------------------------------------------------------------------------------- compile


@pytest.fixture
def fresh_warning(monkeypatch):
    monkeypatch.setattr(flambeau.compiler, "_warned", [False])


@pytest.mark.usefixtures("fresh_warning")
def test_compile_warns_once_and_computes_the_same():
    def double(x):
        return x * 2

    with pytest.warns(UserWarning, match="compiles nothing yet.*same results"):
        compiled = flambeau.compile(double)
    assert compiled(flambeau.ones(2)).tolist() == [2.0, 2.0] and compiled.__name__ == "double"

    @flambeau.compile(mode="max-autotune")              # a second warning would be an error
    def triple(x):
        return x * 3

    assert triple(flambeau.ones(1)).item() == 3.0
    assert flambeau.compile(double, disable=True) is double


@pytest.mark.usefixtures("fresh_warning")
def test_a_compiled_module_is_the_module_under_orig_mod():
    model = flambeau.nn.Sequential(flambeau.nn.Linear(2, 2), flambeau.nn.Dropout(0.5))
    with pytest.warns(UserWarning, match="compiles nothing"):
        compiled = flambeau.compile(model)
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    compiled.eval()
    assert not model[1].training and not compiled.training
    x = flambeau.ones(1, 2)
    assert flambeau.equal(compiled(x), model(x)) and len(compiled) == 2
    compiled(x).sum().backward()
    assert model[0].bias.grad.tolist() == [1.0, 1.0]


# --------------------------------------------------------------------------------- mixed precision


def test_autocast_of_an_absent_gpu_switches_itself_off():
    with pytest.warns(UserWarning, match="CUDA is not available. Disabling"):
        context = flambeau.autocast("cuda")
    with context:
        assert (flambeau.ones(2, 2) @ flambeau.ones(2, 2)).dtype == flambeau.float32

    @flambeau.autocast("cpu", enabled=False)
    def f(x):
        return x @ x

    assert f(flambeau.ones(2, 2)).dtype == flambeau.float32


def _scaled_steps(library):
    scaler = library.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    p = library.nn.Parameter(library.ones(2))
    optimizer = library.optim.SGD([p], lr=0.1)
    seen = []
    for factor in (2.0, float("inf"), 2.0, 2.0, 2.0):
        optimizer.zero_grad()
        scaler.scale((p * factor).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        seen.append((p.tolist(), scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
    return seen


def test_grad_scaler_skips_steps_and_moves_its_scale_as_pytorch():
    assert _scaled_steps(flambeau) == _scaled_steps(torch)


def test_grad_scaler_refuses_calls_out_of_order():
    p = flambeau.nn.Parameter(flambeau.ones(1))
    optimizer = flambeau.optim.SGD([p], lr=0.1)
    scaler = flambeau.amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match="scaler.scale"):
        scaler.step(optimizer)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="unscale_.. has already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="step.. has already been called"):
        scaler.step(optimizer)


# --------------------------------------------------------------------------------- processes

SPAWN = """
import torch
import torch.multiprocessing as mp

def work(i, fail):
    x = torch.ones(2) * i
    if fail and i == 1:
        raise ValueError("boom in process")

if __name__ == "__main__":
    mp.spawn(work, (False,), nprocs=2)
    try:
        mp.spawn(work, (True,), nprocs=2)
    except mp.ProcessRaisedException as error:
        assert "boom in process" in str(error) and error.error_index == 1
        print("raised")
"""


def test_spawn_runs_processes_and_brings_their_errors(tmp_path):
    script = tmp_path / "spawning.py"
    script.write_text(SPAWN)
    run = subprocess.run([sys.executable, "-m", "flambeau", "run", str(script)], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "raised", run.stderr


def test_version_compares_as_the_followed_release_of_pytorch():
    assert flambeau.__version__ >= "1.10" and flambeau.__version__ >= (2, 9)
    assert [int(n) for n in flambeau.__version__.split(".")[:2]] == [int(n) for n in torch.__version__.split(".")[:2]]
    assert type(flambeau.__version__).__name__ == type(torch.__version__).__name__
    assert flambeau.version.__version__ == str(flambeau.__version__)
    assert flambeau.__version__.endswith("+flambeau." + flambeau.version.flambeau)
    packaging = pytest.importorskip("packaging.version")
    assert packaging.Version(flambeau.__version__) > packaging.Version("2.12.1")


def test_scripted_and_traced_code_is_the_python_code():
    """What PyTorch does with PYTORCH_JIT=0: libraries decorate with it at import."""
    @flambeau.jit.script
    def twice(x: flambeau.Tensor, n: int = 2) -> flambeau.Tensor:
        return x * n

    class Net(flambeau.jit.ScriptModule):
        __constants__ = ["k"]

        def __init__(self):
            super().__init__()
            self.k, self.lin = 3, flambeau.nn.Linear(2, 1)

        @flambeau.jit.script_method
        def forward(self, x):
            return self.lin(x) * self.k

    net = Net()
    x = flambeau.ones(4, 2)
    assert twice(x).sum().item() == 16
    assert flambeau.jit.script(net) is net and flambeau.jit.trace(net, x) is net
    assert flambeau.jit.trace(lambda x: x + 1, (x,))(x).sum().item() == 16
    assert flambeau.jit.trace_module(net, {"forward": x}) is net
    assert flambeau.equal(net(x), net.lin(x) * 3) and list(net.state_dict()) == ["lin.weight", "lin.bias"]
    assert isinstance(net, flambeau.nn.Module) and isinstance(net, flambeau.jit.ScriptModule)
    assert not isinstance(net.lin, flambeau.jit.ScriptModule)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"])
def test_limits_of_eight_bit_floats(name):
    assert repr(flambeau.finfo(getattr(flambeau, name))) == repr(torch.finfo(getattr(torch, name)))


def test_names_that_libraries_import_are_there():
    from flambeau._C import _TensorMeta
    from flambeau.distributed import nn
    from flambeau.serialization import MAP_LOCATION

    assert isinstance(flambeau.Tensor, _TensorMeta) and MAP_LOCATION is not None
    with pytest.raises(NotImplementedError, match="one process"):
        nn.all_reduce(flambeau.ones(1))
    with pytest.raises(TypeError):
        flambeau.finfo(flambeau.float4_e2m1fn_x2)


NAMES = ["sum", "tanh", "cat", "addmm", "adaptive_avg_pool1d", "linalg.inv", "fft.fft", "special.expit",
         "nn.functional.relu", "nn.functional.adaptive_avg_pool2d", "nn.functional.conv2d", "Tensor.addmm_", "Tensor.sum",
         "Tensor.float"]


@pytest.mark.parametrize("overridden", [False, True])
def test_functions_can_be_pickled(overridden):
    """As they are, and once some class or mode has made functions ask their arguments."""
    program = f"""
import copy, operator, pickle, flambeau, flambeau.fft, flambeau.linalg, flambeau.nn.functional, flambeau.special
from flambeau.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {{}}))
if {overridden}:
    with Mode():
        flambeau.ones(1)
for name in {NAMES}:
    fn = operator.attrgetter(name)(flambeau)
    assert pickle.loads(pickle.dumps(fn)) == fn and copy.deepcopy(fn) == fn, name
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
