"""Names of `torch` itself that flambeau lacks: each exists, and raises when it is used.

They are made when one is first asked for. The methods of tensors stand in tensor/_unsupported.py, the names of other
modules in these; docs/unsupported.md lists all.
"""

from __future__ import annotations

from typing import Any

from ._unavailable import REGISTRY, missing, missing_module
from .core.dtype import DType

_SCRIPT = "there is no TorchScript. The function or module is run as it is; its parameters are saved with state_dict()."
_QUANTISED = ("there are no quantised tensors. Keep the floating-point model; to train against rounding use "
              "torch.fake_quantize_per_tensor_affine.")
_DEVICE = "flambeau computes on the CPU. Use the function of torch.nn.functional, which needs no such library."
_SYNCED = ("it is one of the steps of batch norm over several accelerators. Use torch.nn.functional.batch_norm.")
_STREAM = "work on the CPU is done when a call returns: leave streams and events out. time.perf_counter() measures it."
_INTERNAL = "it is one of PyTorch's own tools, with no counterpart here. Leave it out."
_SPARSE = "use the product of the same tensors with @, which takes sparse ones too."

GROUPS = (
    ("AliasDb AnyType Argument ArgumentSpec AwaitType Block BoolType BufferDict CallStack Capsule ClassType Code "
     "CompilationUnit CompleteArgumentSpec ComplexType ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable "
     "DeserializationStorageContext DeviceObjType DictType EnumType ErrorReport ExecutionPlan FileCheck FloatType "
     "FunctionSchema FutureType Gradient Graph GraphExecutorState IODescriptor InferredType IntType InterfaceType "
     "JITException ListType LiteScriptModule LockingLogger LoggerBase ModuleDict Node NoneType NoopLogger NumberType "
     "OperatorInfo OptionalType ParameterDict PyObjectType PyTorchFileReader PyTorchFileWriter RRefType ScriptClass "
     "ScriptClassFunction ScriptDict ScriptDictIterator ScriptDictKeyIterator ScriptFunction ScriptList ScriptListIterator "
     "ScriptMethod ScriptModule ScriptModuleSerializer ScriptObject ScriptObjectProperty SerializationStorageContext "
     "StaticModule StreamObjType StringType SymBoolType SymIntType TensorType TracingState TupleType Type UnionType Use "
     "Value fork wait import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_schema "
     "parse_type_comment unify_type_list", _SCRIPT),
    ("choose_qparams_optimized empty_quantized fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation "
     "fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight "
     "fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix fused_moving_avg_obs_fake_quant int_repr "
     "q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point quantize_per_channel "
     "quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm "
     "quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell "
     "quantized_rnn_tanh_cell QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage", _QUANTISED),
    ("cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu "
     "cudnn_convolution_transpose cudnn_grid_sampler miopen_batch_norm miopen_convolution miopen_convolution_add_relu "
     "miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn "
     "mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d "
     "mkldnn_rnn_layer", _DEVICE),
    ("batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats "
     "batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats", _SYNCED),
    ("Event Stream", _STREAM),
    ("dsmm hsmm saddmm", _SPARSE),
    ("ccol_indices_copy col_indices_copy crow_indices_copy indices_copy row_indices_copy values_copy",
     "call the method of the name without _copy on a sparse tensor, and clone() its result."),
    ("get_autocast_ipu_dtype get_autocast_xla_dtype is_autocast_ipu_enabled is_autocast_xla_enabled set_autocast_gpu_dtype "
     "set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled",
     "flambeau computes on the CPU. Use torch.get_autocast_dtype('cpu') and its like."),
    ("native_norm", "PyTorch has it for sparse tensors alone. Use torch.norm or torch.linalg.vector_norm."),
    ("slice_inverse", "it is a step of PyTorch's functionalisation. Use torch.slice_scatter."),
    ("resize_as_sparse_", "make a new sparse tensor with torch.sparse_coo_tensor(indices, values, size)."),
    ("BenchmarkConfig BenchmarkExecutionStats ThroughputBenchmark AggregationType DispatchKey DispatchKeySet "
     "ExcludeDispatchKeyGuard Tag prepare_multiprocessing_environment profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 "
     "sym_constrain_range sym_constrain_range_for_size sym_fresh_size thread_safe_generator", _INTERNAL),
    ("SymBool SymFloat SymInt", "sizes are Python's numbers: int, float and bool."),
)
MODULES = {
    "classes": _SCRIPT, "package": "torch.save and torch.load keep tensors and state_dicts; code goes with its own package.",
    "monitor": "use the logging module of Python.", "cpp": _SCRIPT, "windows": _INTERNAL,
    "quasirandom": "scipy.stats.qmc.Sobol draws the same kind of points: torch.from_numpy(Sobol(d).random(n)).",
}
# name: (kind, bytes)
DTYPES = {
    "complex32": ("c", 4), "float8_e4m3fn": ("f", 1), "float8_e4m3fnuz": ("f", 1), "float8_e5m2": ("f", 1),
    "float8_e5m2fnuz": ("f", 1), "float8_e8m0fnu": ("f", 1), "float4_e2m1fn_x2": ("f", 1), "qint8": ("i", 1),
    "quint8": ("u", 1), "qint32": ("i", 4), "quint4x2": ("u", 1), "quint2x4": ("u", 1), "bits8": ("u", 1),
    "bits16": ("u", 2), "bits1x8": ("u", 1), "bits2x4": ("u", 1), "bits4x2": ("u", 1),
    **{f"{sign}int{n}": (sign or "i", 1) for sign in ("u", "") for n in range(1, 8)},
}
SCHEMES = ("per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric", "per_tensor_affine",
           "per_tensor_symmetric")
_STORED = "no tensor has this dtype. Take float16, bfloat16, int8, complex64, or keep the bits in a uint8 tensor."


class NoArrays:
    """Stands where a dtype has its array type: whatever is asked of it, the dtype has no arrays."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)

    def __getattr__(self, attribute: str) -> Any:
        name = object.__getattribute__(self, "name")
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise NotImplementedError(f"torch.{name} is not supported by flambeau: {_STORED}")


class MissingDType(DType):
    """A dtype to compare with and to print; making a tensor of it raises."""

    def __init__(self, name: str, itemsize: int, kind: str) -> None:
        super().__init__(name, NoArrays(name), itemsize, kind)

    def __reduce__(self) -> Any:
        return (find, (self.name,))


class qscheme:  # noqa: N801  PyTorch's name
    """How quantised numbers stand for real ones; a constant."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


def _made() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for names, instead in GROUPS:
        found.update(missing("flambeau", names, instead))
    REGISTRY.append(("flambeau", " ".join((*DTYPES, "chalf")), _STORED))
    found.update({name: MissingDType(name, size, kind) for name, (kind, size) in DTYPES.items()})
    found["chalf"] = found["complex32"]
    found.update({name: qscheme(name) for name in SCHEMES})
    found["qscheme"] = qscheme
    found["AVG"], found["SUM"] = found["AggregationType"], found["AggregationType"]
    found.update({name: missing_module("flambeau", name, instead) for name, instead in MODULES.items()})
    return found


_FOUND: dict[str, Any] = {}


def everything() -> dict[str, Any]:
    """All of them, by name."""
    if not _FOUND:
        _FOUND.update(_made())
    return _FOUND


def find(name: str) -> Any:
    """One of them, or None."""
    return everything().get(name)
