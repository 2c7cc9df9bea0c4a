"""Data sets known by name, ``NAME[:SPLIT]``, and folders of parquet shards that have splits.

A named set lies in ``$RELIANT_DATA/NAME/`` as ``train*.parquet`` with ``test*.parquet`` or ``val*.parquet``; the sample of
Fashion-MNIST comes with the package. A folder of another name beside them is found in the same way.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import DataError

EMBEDDED = Path(__file__).parent / "embedded"

# What each name stands for, and where its parquet files come from.
KNOWN = {
    "fashion-mnist-sample": "8,000 + 4,000 images of Fashion-MNIST, part of the package",
    "fashion-mnist": "60,000 + 10,000 grey images of 28 px (Hugging Face: zalando-datasets/fashion_mnist)",
    "cifar10": "50,000 + 10,000 images of 32 px (Hugging Face: uoft-cs/cifar10)",
    "tiny-imagenet": "100,000 + 10,000 images of 64 px in 200 classes (Hugging Face: zh-plus/tiny-imagenet)",
    "stl10": "STL-10, images of 96 px",
    "imagenet": "ImageNet's 1.28M + 50,000 images in 1,000 classes (Hugging Face: ILSVRC/imagenet-1k)",
    "voc2007": "PASCAL VOC 2007",
    "voc2012": "PASCAL VOC 2012",
}
# What a split may be called in file names, the first that is there.
_PREFIXES = {"test": ("test", "val"), "val": ("val", "test")}


def data_folder() -> Path | None:
    """``$RELIANT_DATA``, if it is set."""
    value = os.environ.get("RELIANT_DATA", "")
    return Path(value).expanduser() if value else None


def place(name: str) -> Path | None:
    """The folder of the set with this name, None where there is none."""
    if not name or name != Path(name).name or name.startswith("."):
        return None
    root = data_folder()
    for folder in [EMBEDDED / name] + ([root / name] if root else []):
        if os.path.isdir(folder):
            return folder
    return None


def shards(folder: Path) -> list[Path]:
    """The parquet files of a folder by name; Hugging Face keeps them in ``data/``."""
    for where in (folder, folder / "data"):
        if where.is_dir():
            found = [file for file in where.iterdir() if file.suffix == ".parquet" and not file.name.startswith(".")]
            if found:
                return sorted(found, key=lambda file: file.name)
    return []


def split_shards(files: list[Path], split: str) -> list[Path]:
    """Those of a split; ``test`` takes ``val*`` where there is no ``test*``, and the other way round."""
    for prefix in _PREFIXES.get(split, (split,)):
        found = [file for file in files if file.name.startswith(prefix)]
        if found:
            return found
    return []


def has_splits(files: list[Path]) -> bool:
    return bool(split_shards(files, "train"))


def class_names(folder: Path) -> list[str] | None:
    """From ``classes.txt``: a line a class, ``index<tab>…<tab>name`` or the name alone; None where there is none."""
    try:
        lines = (folder / "classes.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    names = []
    for row, line in enumerate(lines):
        index, *rest = line.split("\t")
        names.append(rest[-1] if rest and index == str(row) else line)
    return names


def absent(name: str) -> DataError:
    """A known name whose folder is not there: what to put where."""
    root = data_folder()
    where = f"$RELIANT_DATA/{name}" + (f" ({root / name})" if root else "")
    problem = f"{name} is not at {where}" if root else f"{name} is looked up in {where}, and RELIANT_DATA is not set"
    return DataError(f"{problem}; put train*.parquet and test*.parquet there, with a column 'image': {KNOWN[name]}")


def no_shards(name: str, folder: Path, found: list[Path], split: str) -> DataError:
    """A folder of a named set without the parquet files of a split: what it holds instead."""
    held = [file.name for file in found] or sorted(entry.name + "/" * entry.is_dir() for entry in folder.iterdir())
    listed = ", ".join(held[:5]) + (f", … ({len(held)} entries)" if len(held) > 5 else "") or "nothing"
    wanted = " or ".join(f"{prefix}*.parquet" for prefix in _PREFIXES.get(split, (split,)))
    return DataError(f"{name}: no {wanted} in {folder}, found {listed}; of named sets the parquet layout is read")
