"""Digests: of a stage before it runs (version, keys, inputs), of a file after it was written. blake2b, 128 bits, hex."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_BYTES = 16


def canonical(value: Any) -> bytes:
    """JSON with one spelling: names sorted, no spaces, floats in the shortest form that reads back to the same bits."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=plain_number).encode()


def digest(value: Any) -> str:
    return hashlib.blake2b(canonical(value), digest_size=_BYTES).hexdigest()


def stage_digest(version: int, keys: Mapping[str, Any], inputs: Iterable[str]) -> str:
    """Neither the stage's name nor device, threads or the number of rounds take part; the order of the inputs does."""
    return digest({"version": version, "keys": dict(keys), "inputs": list(inputs)})


def file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_BYTES)).hexdigest()


def plain_number(value: Any) -> Any:
    """For ``json.dumps(default=…)``: NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form; give text, numbers, lists or tables")
