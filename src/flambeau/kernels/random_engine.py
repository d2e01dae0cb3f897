"""The generator behind every random number: MT19937, with PyTorch's CPU stream and state bytes.

NumPy advances the recurrence; this file keeps the current block of 624 output words and a position in
it, so that a small draw is a slice. Several representations of one block (words, 24-bit uniforms,
Python integers) are made the first time they are asked for.

Source: Matsumoto and Nishimura, 1998, "Mersenne Twister", ACM TOMACS 8(1).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

BLOCK = 624
DEFAULT_SEED = 67280421310721  # what `initial_seed()` answers before any seeding

STATE_BYTES = 5056
# The layout of a state, in native byte order: a C structure of 64-bit machines, padding included.
_STATE = np.dtype(
    {
        "names": [
            "seed", "left", "seeded", "next", "key",
            "normal_x", "normal", "normal_rho", "normal_valid", "normal_float", "normal_float_valid",
        ],
        "formats": ["u8", "i4", "i4", "u8", ("u8", BLOCK), "f8", "f8", "f8", "i4", "f4", "u1"],
        "offsets": [0, 8, 12, 16, 24, 5016, 5024, 5032, 5040, 5048, 5052],
        "itemsize": STATE_BYTES,
    }
)

_CHUNK = 32 * BLOCK  # words drawn at a time by large draws: the pieces stay in the second-level cache
_LOW21, _LOW24 = np.uint32(2**21 - 1), np.uint32(2**24 - 1)
_SCALE24 = np.float32(2.0**-24)


class MersenneTwister:
    """A stream of 32-bit words, seeded and advanced as PyTorch's CPU generator is.

    Not locked: whoever shares one between threads holds a lock for the whole of an operator's draws.

    Attributes:
        next_normal: the second of a pair of float64 standard normals, waiting to be used, or None.
        next_normal_float: the same for float32; kept and stored in states, but no operator here uses it.
        derived: what others computed of this block's uniforms; None when the block is new.
    """

    __slots__ = ("_bits", "_integers", "_key", "_list", "_next", "_seed", "_seeder", "_uniforms", "_words", "derived",
                 "next_normal", "next_normal_float")

    derived: np.ndarray | None

    next_normal: float | None
    next_normal_float: float | None
    _words: np.ndarray | None       # the block, None when it is not yet made from the key
    _uniforms: np.ndarray | None    # the block as uniforms
    _list: list[int] | None         # the block as Python integers
    _next: int                      # position in the block

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self._bits = np.random.MT19937(0)
        self._seeder = np.random.RandomState(self._bits)  # seeds `_bits` by the reference init_genrand
        self._integers = np.random.Generator(self._bits).integers
        self.manual_seed(seed)

    # -- seeding ---------------------------------------------------------------------------------
    def manual_seed(self, seed: int) -> None:
        """Start the stream of `seed`, an integer taken modulo 2**64 (the stream depends on 32 bits of it)."""
        self._seed = seed & 0xFFFFFFFFFFFFFFFF
        self._seeder.seed(seed & 0xFFFFFFFF)
        self._set_block(None, BLOCK)
        self.next_normal = None
        self.next_normal_float = None

    def seed(self) -> int:
        """Seed from the operating system's entropy; returns the seed."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    @property
    def initial_seed(self) -> int:
        return self._seed

    # -- draws -----------------------------------------------------------------------------------
    def draw32(self, n: int) -> np.ndarray:
        """`n` words as uint32. The array may be a view of the block: read it, do not write it."""
        start = self._next
        stop = start + n
        if stop <= BLOCK:
            self._next = stop
            return self._block()[start:stop] if n else np.empty(0, np.uint32)
        out = np.empty(n, np.uint32)
        for first, words in self._pieces(n):
            out[first : first + words.size] = words
        return out

    def draw64(self, n: int) -> np.ndarray:
        """`n` 64-bit words, each made of two: (first << 32) | second."""
        words = self.draw32(2 * n)
        out = words[0::2].astype(np.uint64)
        out <<= np.uint64(32)
        out |= words[1::2]
        return out

    def uniform24(self, n: int) -> np.ndarray:
        """`n` float32 in [0, 1), the low 24 bits of a word each; a fresh array."""
        start = self._next
        stop = start + n
        if stop <= BLOCK:
            self._next = stop
            return self.uniforms()[start:stop].copy() if n else np.empty(0, np.float32)
        out = np.empty(n, np.float32)
        for first, words in self._pieces(n):
            part = out[first : first + words.size]
            np.bitwise_and(words, _LOW24, out=part.view(np.uint32))
            part[...] = part.view(np.uint32)
            part *= _SCALE24
        return out

    def uniform53(self, n: int) -> np.ndarray:
        """`n` float64 in [0, 1), the low 53 bits of a 64-bit word each; a fresh array."""
        if n <= BLOCK:
            words = self.draw32(2 * n)
            few: np.ndarray = (words[0::2] & _LOW21) * 2.0**-21
            few += words[1::2] * 2.0**-53
            return few
        out = np.empty(n)
        step = _CHUNK // 2
        for first in range(0, n, step):
            part = out[first : first + step]
            words = self.draw32(2 * part.size)
            np.multiply(words[0::2] & _LOW21, 2.0**-21, out=part)
            part += words[1::2] * 2.0**-53
        return out

    def next32(self) -> int:
        """One word."""
        if self._next == BLOCK:
            self._refill()
        if self._list is None:
            self._list = self._block().tolist()
        word: int = self._list[self._next]
        self._next += 1
        return word

    def next_uniform53(self) -> float:
        """One float64 in [0, 1), as from `uniform53(1)`."""
        first = self.next32()
        return ((first & 0x1FFFFF) << 32 | self.next32()) * 2.0**-53

    def next_uniforms53(self, n: int) -> list[float]:
        """`n` of `next_uniform53`: quicker than an array for a few."""
        if self._next + 2 * n > BLOCK or self._list is None:
            return [self.next_uniform53() for _ in range(n)]
        words = self._list[self._next : self._next + 2 * n]
        self._next += 2 * n
        return [((high & 0x1FFFFF) << 32 | low) * 2.0**-53 for high, low in zip(words[0::2], words[1::2], strict=True)]

    # -- within the block ------------------------------------------------------------------------
    def left(self) -> int:
        """Words left in the block, at least one: a block that is used up is renewed."""
        if self._next == BLOCK:
            self._refill()
        return BLOCK - self._next

    def take(self, n: int) -> int:
        """Draw the next `n` words of `left()`: their position in the block."""
        start = self._next
        self._next = start + n
        return start

    def uniforms(self) -> np.ndarray:
        """The block as the float32 of `uniform24`; not to be written."""
        if self._uniforms is None:
            self._uniforms = (self._block() & _LOW24).astype(np.float32) * _SCALE24
        return self._uniforms

    # -- drawing ahead ---------------------------------------------------------------------------
    def mark(self) -> tuple:
        """The place in the stream, for `rewind`; normals that wait are no part of it."""
        return self._bits.state, self._words, self._next

    def rewind(self, mark: tuple, n: int) -> None:
        """Go on from `n` words behind a mark of this stream: whoever draws ahead gives back what is left."""
        self._bits.state, words, position = mark
        self._set_block(words, position)
        self.draw32(n)

    # -- state -----------------------------------------------------------------------------------
    def get_state(self) -> np.ndarray:
        """The whole state as 5056 bytes (uint8), which PyTorch's CPU generator also loads."""
        state = np.zeros((), _STATE)
        state["seed"] = self._seed
        state["seeded"] = 1
        fresh = self._words is None and self._next == BLOCK  # nothing drawn from this key yet
        state["left"] = 1 if fresh else BLOCK - self._next + 1
        state["next"] = 0 if fresh else self._next
        state["key"] = self._bits.state["state"]["key"]
        if self.next_normal is not None:
            state["normal_valid"] = 1
            state["normal"] = self.next_normal
        if self.next_normal_float is not None:
            state["normal_float_valid"] = 1
            state["normal_float"] = self.next_normal_float
        return np.frombuffer(state.tobytes(), np.uint8).copy()

    def set_state(self, state: np.ndarray) -> None:
        """Continue from bytes that `get_state` here, or PyTorch's CPU generator, gave.

        Raises:
            TypeError: `state` is not an array of uint8.
            RuntimeError: its size is not 5056, or it is not a state of this generator.
        """
        if state.dtype != np.uint8:
            raise TypeError(f"expected a torch.ByteTensor as generator state, but got dtype {state.dtype}")
        if state.size != STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of {STATE_BYTES} bytes but found the input RNG state size to be "
                f"{state.size}: pass what get_rng_state() or Generator.get_state() returned."
            )
        fields = np.frombuffer(state.tobytes(), _STATE)[0]
        left, position = int(fields["left"]), int(fields["next"])
        if fields["seeded"] != 1 or not 0 < left <= BLOCK or position > BLOCK or fields["key"].max() > 0xFFFFFFFF:
            raise RuntimeError(
                f"Invalid mt19937 state: seeded={fields['seeded']}, left={left}, next={position}; "
                "pass what get_rng_state() or Generator.get_state() returned."
            )
        self._seed = int(fields["seed"])
        self._load(fields["key"].astype(np.uint32), BLOCK if left == 1 else position, fresh=position == 0)
        self.next_normal = float(fields["normal"]) if fields["normal_valid"] else None
        self.next_normal_float = float(fields["normal_float"]) if fields["normal_float_valid"] else None

    def clone(self) -> MersenneTwister:
        """An independent generator that continues this stream."""
        copy = MersenneTwister(0)
        copy.set_state(self.get_state())
        return copy

    # -- the block -------------------------------------------------------------------------------
    def _set_block(self, words: np.ndarray | None, position: int) -> None:
        self._words = words
        self._uniforms = None
        self._list = None
        self.derived = None
        self._next = position

    def _refill(self) -> None:
        self._set_block(self._bits.random_raw(BLOCK).astype(np.uint32), 0)

    def _block(self) -> np.ndarray:
        assert self._words is not None
        return self._words

    def _load(self, key: np.ndarray, position: int, fresh: bool) -> None:
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": BLOCK if fresh else 0}}
        # From position 0 NumPy puts out this key's own 624 words, and comes to stand at their end.
        self._set_block(None if fresh else self._bits.random_raw(BLOCK).astype(np.uint32), position)

    def _pieces(self, n: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (offset, words) that together are the next `n` words; ends with `_next` behind them."""
        start, offset = self._next, 0
        if start < BLOCK:
            offset = BLOCK - start
            self._next = BLOCK
            yield 0, self._block()[start:]
        while n - offset >= BLOCK:
            size = min(_CHUNK, (n - offset) // BLOCK * BLOCK)
            words = self._integers(0, 0xFFFFFFFF, size, np.uint32, True)
            self._set_block(words[-BLOCK:].copy(), BLOCK)
            yield offset, words
            offset += size
        if offset < n:
            self._refill()
            self._next = n - offset
            yield offset, self._block()[: n - offset]
