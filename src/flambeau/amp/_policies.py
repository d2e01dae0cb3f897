"""What autocast does to operators that are reached without a function that `ops._whole` lists: by `@`, inside of other
functions, or through a compiled function. PyTorch's lists for the CPU."""

from __future__ import annotations

from flambeau.ops._whole import AS_IS, FLOAT32, LOWER, WIDEST

RESULT = "result"         # computed in float32, and given in the lower dtype: PyTorch's is a product of what is

_LISTS = {
    LOWER: """mm mv dot bmm addmm baddbmm addbmm linear linear_bias linear_nd linear_nd_bias convolution
        convolution_transpose prelu_kernel""",
    FLOAT32: """prod prod_all trace cdist polar view_as_complex avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d
        max_pool3d_with_indices max_unpool2d max_unpool3d fractional_max_pool2d fractional_max_pool3d reflect_pad1d
        reflect_pad2d replicate_pad1d replicate_pad2d replicate_pad3d mse_loss huber_loss nll_loss nll_loss2d
        binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss ctc_loss fft_c2c fft_r2c fft_c2r""",
    WIDEST: "index_copy",
    RESULT: "linalg_pinv",
}
OPERATORS = {name: policy for policy, names in _LISTS.items() for name in names.split()}

__all__ = ["AS_IS", "FLOAT32", "LOWER", "OPERATORS", "RESULT", "WIDEST"]
