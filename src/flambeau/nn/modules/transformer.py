"""The Transformer: layers of attention and their stacks. Source: Vaswani et al., 2017, arXiv:1706.03762; with the norm
before each block: Xiong et al., 2020, arXiv:2002.04745."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.core.origin import warn_user
from flambeau.nn import functional as F
from flambeau.nn.init import xavier_uniform_

from .activation import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
    return flambeau.triu(flambeau.full((sz, sz), -math.inf, dtype=dtype, device=device), diagonal=1)


def _get_clones(module: Module, N: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_activation_fn(activation: str) -> Callable:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _additive(mask: Any, name: str, like: Any) -> Any:
    """A bool mask (True: may not attend) as one to be added to the scores; others as they are."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype is not flambeau.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported, got {mask.dtype}")
    return flambeau.zeros(mask.shape, dtype=like.dtype, device=mask.device).masked_fill_(mask, -math.inf)


class _Layer(Module):
    """What encoder and decoder layers have in common."""

    __constants__ = ["norm_first"]
    activation: Any
    activation_relu_or_gelu = 0

    def _set_activation(self, activation: str | Callable) -> None:
        if isinstance(activation, str):
            activation = _get_activation_fn(activation)
        self.activation = activation

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _feed_forward(self, x: Any, last: Module) -> Any:
        return last(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention, then two linear layers, each added to its input and normalised.

    Args:
        d_model: E, size of input and output. nhead: heads of the attention.
        dim_feedforward: size between the two linear layers.
        dropout: probability, in training: on attention weights, within the linear block and on what is added.
        activation: between the linear layers: "relu", "gelu" or a function.
        layer_norm_eps: eps of the norms.
        batch_first: (N, L, E) instead of (L, N, E).
        norm_first: normalise the input of each block, instead of the sum after it.
        bias: whether linear layers and norms have one.

    >>> layer = flambeau.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    >>> layer(flambeau.ones(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | Callable = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **made)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self._set_activation(activation)
        known = {"ReLU": 1, "GELU": 2}.get(type(self.activation).__name__, 0) if isinstance(self.activation, Module) else 0
        # == and not `is`: a function made overridable for subclasses is equal to what it wraps
        self.activation_relu_or_gelu = 1 if self.activation == F.relu else 2 if self.activation == F.gelu else known

    def forward(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Any:
        """src (L, N, E), (N, L, E) or (L, E); masks as in `MultiheadAttention`."""
        padding = _additive(src_key_padding_mask, "src_key_padding_mask", src)
        mask = _additive(src_mask, "src_mask", src)
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        return self.dropout1(self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
                                            need_weights=False, is_causal=is_causal)[0])

    def _ff_block(self, x: Any) -> Any:
        return self._feed_forward(x, self.dropout2)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, then two linear layers; see `TransformerEncoderLayer`."""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | Callable = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        attention: dict[str, Any] = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **made}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self._set_activation(activation)

    def forward(self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, tgt_key_padding_mask: Any = None,
                memory_key_padding_mask: Any = None, tgt_is_causal: bool = False, memory_is_causal: bool = False) -> Any:
        """tgt (L, N, E), memory (S, N, E), the encoder's output; masks as in `MultiheadAttention`."""
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = tgt + self._sa_block(self.norm1(tgt), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(tgt + self._sa_block(tgt, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        return self.dropout1(self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
                                            is_causal=is_causal, need_weights=False)[0])

    def _mha_block(self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        return self.dropout2(self.multihead_attn(x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
                                                 is_causal=is_causal, need_weights=False)[0])

    def _ff_block(self, x: Any) -> Any:
        return self._feed_forward(x, self.dropout3)


def _no_nested(layer: Any) -> str:
    """Why PyTorch would not skip padding in this encoder's evaluation; "" when it would."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    for wrong, why in (
        (layer.norm_first, "encoder_layer.norm_first was True"),
        (not attention.batch_first, "encoder_layer.self_attn.batch_first was not True(use batch_first for better "
                                    "inference performance)"),
        (not attention._qkv_same_embed_dim, "encoder_layer.self_attn._qkv_same_embed_dim was not True"),
        (attention.in_proj_bias is None, "encoder_layer.self_attn was passed bias=False"),
        (not layer.activation_relu_or_gelu, "encoder_layer.activation_relu_or_gelu was not True"),
        (layer.norm1.eps != layer.norm2.eps, "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"),
        (attention.num_heads % 2 == 1, "encoder_layer.self_attn.num_heads is odd"),
    ):
        if wrong:
            return why
    return ""


class TransformerEncoder(Module):
    """Encoder layers one after the other, copies of one.

    Args:
        encoder_layer: copied num_layers times: all layers start equal.
        norm: applied to the result, or None.
        enable_nested_tensor: in evaluation without gradients, give zeros at padding, as PyTorch does where it skips
            padding. Nothing is skipped here.
        mask_check: do so only when padding follows each sequence.
    """

    __constants__ = ["norm"]

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
                 mask_check: bool = True) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        why = _no_nested(encoder_layer)
        self.use_nested_tensor = enable_nested_tensor and not why
        self.mask_check = mask_check
        if enable_nested_tensor and why:
            warn_user(f"enable_nested_tensor is True, but nested tensors cannot be used here: {why}. Results are "
                      "the same; enable_nested_tensor=False silences this.")

    def forward(self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None) -> Any:
        """src (L, N, E) or (N, L, E); masks as in `MultiheadAttention`."""
        padding = _additive(src_key_padding_mask, "src_key_padding_mask", src)
        mask = _additive(mask, "mask", src)
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=padding)
        if padding is not None and mask is None and self._blanks_padding(src, padding):
            output = output.masked_fill((padding == -math.inf).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _blanks_padding(self, src: Any, padding: Any) -> bool:
        """Whether PyTorch would compute without the padding, and so give zeros there."""
        if not self.use_nested_tensor or self.training or src.dim() != 3:
            return False
        if flambeau.is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in self.layers[0].parameters())):
            return False
        is_padding = padding == -math.inf
        return not self.mask_check or not bool((is_padding[:, :-1] & ~is_padding[:, 1:]).any())


class TransformerDecoder(Module):
    """Decoder layers one after the other, copies of one; norm is applied to the result."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, tgt_key_padding_mask: Any = None,
                memory_key_padding_mask: Any = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Any:
        """tgt (L, N, E), memory (S, N, E), the encoder's output; masks as in `MultiheadAttention`."""
        output = tgt
        for layer in self.layers:
            output = layer(output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                           tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                           tgt_is_causal=bool(tgt_is_causal), memory_is_causal=memory_is_causal)
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """Encoder and decoder; see `TransformerEncoderLayer` for the sizes.

    Args:
        num_encoder_layers, num_decoder_layers: layers of each.
        custom_encoder, custom_decoder: used instead.

    >>> model = flambeau.nn.Transformer(4, 2, 1, 1, 8, batch_first=True)
    >>> model(flambeau.ones(1, 5, 4), flambeau.ones(1, 3, 4)).shape
    torch.Size([1, 3, 4])
    """

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation: str | Callable = F.relu,
                 custom_encoder: Any = None, custom_decoder: Any = None, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer: Module = TransformerEncoderLayer(*sizes, **made)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            layer = TransformerDecoderLayer(*sizes, **made)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            self.decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(self, src: Any, tgt: Any, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None,
                src_key_padding_mask: Any = None, tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
                src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Any:
        """src (S, N, E), tgt (L, N, E); masks as in `MultiheadAttention`."""
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and (tgt.dim() != 3 or src.size(batch) != tgt.size(batch)):
            raise RuntimeError(f"the batch number of src and tgt must be equal, got shapes {list(src.shape)} and "
                               f"{list(tgt.shape)}; dimension {batch} is the batch")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(f"the feature number of src and tgt must be equal to d_model, {self.d_model}, got shapes "
                               f"{list(src.shape)} and {list(tgt.shape)}")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                            tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                            tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """The causal mask (sz, sz): 0 where a query may attend, -inf at later keys."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.dim() > 1:
                xavier_uniform_(p)
