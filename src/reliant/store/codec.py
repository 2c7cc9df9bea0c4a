"""A stage's value ↔ the files of a folder: safetensors, parquet and JSON, from which nothing can be run.

======== ===========================================================================
Snapshot ``arrays.safetensors``, ``meta.json``
Features ``features.safetensors``, ``meta.json``
Relations ``groups.parquet``, ``subsets.parquet``, ``triplets.parquet``, ``summary.json``
dict     ``value.json``
======== ===========================================================================
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..records import Features, Relations, Snapshot
from .atomic import write_json, writing
from .digest import plain_number
from .relations import read_relations, write_relations

Value = Snapshot | Features | Relations | dict[str, Any]


def settled(value: Value) -> Value:
    """``value`` as reading its files would give it, so that a resumed run goes on from the same bits and types.

    Arrays become C-contiguous (a matrix product may round differently in another order), tuples lists, JSON names text.
    """
    match value:
        case Snapshot():
            return Snapshot(arrays=_contiguous(value.arrays), meta=_plain(value.meta))
        case Features():
            return replace(value, values=_contiguous({"values": value.values})["values"])
        case Relations():
            subsets = replace(value.subsets, terms=_plain(value.subsets.terms))
            return replace(value, subsets=subsets, summary=_plain(value.summary))
        case dict():
            return dict(_plain(value))
    raise DataError(f"a stage gives a Snapshot, Features, Relations or a dict, got {type(value).__name__}")


def write_value(folder: Path, value: Value) -> str:
    """Writes a settled value into an empty folder and returns its kind."""
    match value:
        case Snapshot():
            write_arrays(folder / "arrays.safetensors", value.arrays)
            write_json(folder / "meta.json", value.meta, indent=None)
            return "snapshot"
        case Features():
            write_arrays(folder / "features.safetensors", {"values": value.values})
            meta = {name: getattr(value, name) for name in ("layer", "learner", "view", "normalised")}
            write_json(folder / "meta.json", meta)
            return "features"
        case Relations():
            write_relations(folder, value)
            return "relations"
        case dict():
            write_json(folder / "value.json", value, indent=None)
            return "json"


def read_value(folder: Path, kind: str) -> Value:
    match kind:
        case "snapshot":
            return Snapshot(arrays=_read_arrays(folder / "arrays.safetensors"), meta=_read_json(folder / "meta.json"))
        case "features":
            values = _read_arrays(folder / "features.safetensors")["values"]
            return Features(values=values, **_read_json(folder / "meta.json"))
        case "relations":
            return read_relations(folder)
        case "json":
            return dict(_read_json(folder / "value.json"))
    raise DataError(f"{folder} holds a value of kind '{kind}', which this version of reliant does not know; use a newer one")


def _contiguous(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: np.require(array, requirements="C") for name, array in arrays.items()}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=plain_number))


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    with writing(path) as temporary:
        try:
            save_file(arrays, temporary)
        except SafetensorError as error:
            # The library hides the number of the system's error in its text.
            number = re.search(r"os error (\d+)", str(error))
            raise OSError(int(number[1]), str(error)) if number else error from error


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors.numpy import load_file

    return load_file(path)
