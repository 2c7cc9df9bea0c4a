"""Counter-based randomness: every random number is a pure function of what it is for.

A number is drawn for (seed, stage, round, learner, epoch, item), never from a global state that remembers what was
drawn before. So a run draws the same numbers on a CPU and on a GPU, with any number of workers, and after a resume.

Two ways to draw:

* :func:`generator` — a NumPy ``Generator`` (Philox) for the host: permutations, samples of groups.
* :func:`uniforms` / :func:`normals` — arrays or tensors (items,) → (items, count), the same bits in NumPy and in torch
  (normals up to rounding: they pass through ``log`` and ``cos``). Only integer arithmetic that fits into int64 is used, as
  torch has no unsigned 32-bit product on every device.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9


def derive(*key: int | str) -> int:
    """A 64-bit key from a tuple such as ``(seed, "initial", round, learner, epoch)``; the order matters."""
    text = "\x1f".join(f"{type(part).__name__[0]}{part}" for part in key)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def generator(*key: int | str) -> np.random.Generator:
    """A NumPy generator for this key alone."""
    return np.random.Generator(np.random.Philox(key=derive(*key)))


def _mix(state: Any) -> Any:
    """One round of a 32-bit integer hash (two multiply–xorshift steps), on int64 arrays that hold 32-bit values.

    The multipliers lie below 2³¹, so a product of a 32-bit value with one of them stays below 2⁶³.
    """
    state = state ^ (state >> 16)
    state = (state * 0x21F0AAAD) & _MASK
    state = state ^ (state >> 15)
    state = (state * 0x735A2D97) & _MASK
    return state ^ (state >> 15)


def _words(key: int, items: Any, columns: Any) -> Any:
    """(items,), (count,) → (items, count) of 32-bit words. ``items`` and ``columns`` are int64 of the same library."""
    low, high = key & _MASK, (key >> 32) & _MASK
    rows = _mix((items & _MASK) ^ low)
    rows = _mix(rows ^ ((items >> 32) & _MASK) ^ high)
    lanes = _mix(((columns * _GOLDEN) & _MASK) ^ high)
    return _mix(_mix(rows[:, None] ^ lanes[None, :]) ^ low)


def _columns(items: Any, count: int) -> Any:
    if isinstance(items, np.ndarray):
        return np.arange(count, dtype=np.int64)
    import torch

    return torch.arange(count, dtype=torch.int64, device=items.device)


def uniforms(key: int, items: Any, count: int) -> Any:
    """``count`` numbers of [0, 1) for each item: float32 multiples of 2⁻²⁴, the same in NumPy and torch."""
    words = _words(key, items, _columns(items, count)) >> 8
    if isinstance(items, np.ndarray):
        return words.astype(np.float32) * np.float32(2.0**-24)
    import torch

    return words.to(torch.float32) * 2.0**-24


def normals(key: int, items: Any, count: int) -> Any:
    """``count`` standard normal numbers for each item (Box–Muller), float32."""
    half = (count + 1) // 2
    pairs = uniforms(key, items, 2 * half)
    # 1 − u lies in (0, 1], so that the logarithm is finite.
    first, angle = 1.0 - pairs[:, :half], pairs[:, half:] * (2.0 * math.pi)
    if isinstance(items, np.ndarray):
        radius = np.sqrt(-2.0 * np.log(first))
        both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        return both[:, :count].astype(np.float32)
    import torch

    radius = torch.sqrt(-2.0 * torch.log(first))
    return torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], dim=1)[:, :count]
