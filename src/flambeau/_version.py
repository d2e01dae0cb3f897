"""The version of flambeau, read by the build and at run time."""

__version__ = "0.1.0"

# The PyTorch whose behaviour this is. Programs compare `torch.__version__` with the releases of PyTorch.
API_VERSION = "2.13.0"
