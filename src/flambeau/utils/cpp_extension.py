"""`torch.utils.cpp_extension`: there is no interface for extensions in C++."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(
    __name__, "load load_inline CppExtension CUDAExtension SyclExtension BuildExtension "
              "include_paths library_paths is_ninja_available verify_ninja_availability check_compiler_ok_for_platform "
              "get_default_build_root",
    "there is no C++ extension interface. Write operators in Python: see docs/adding-an-operator.md."))
