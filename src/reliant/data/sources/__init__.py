"""From what a user names, or holds in Python, to a :class:`Source` of images with stable ids."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

from ...errors import DataError, UsageError, must
from .. import known
from .base import Source

__all__ = ["Source", "open_source", "test_source"]

_TAKEN = "a folder of images, .npy, .npz, .parquet, a folder of .parquet files, or a known name"


def open_source(spec: Any, split: str | None = None) -> Source:
    """A source of images.

    ``spec``: a folder of images (nested), ``.npy``, ``.npz``, ``.parquet`` or a folder of shards, a name ``NAME[:SPLIT]``;
    or from Python a uint8 array (N, H, W[, 1 or 3]), a list of paths, a list of PIL images, or anything with ``__len__`` and
    ``__getitem__`` that yields an image or a tuple or dict that holds one. ``split``: of a known name or of a folder of
    shards with ``train*.parquet`` (then ``train`` where none is given). A known name that is there comes before a path of
    the same text; ``./NAME`` is always the path.
    """
    if isinstance(spec, (str, os.PathLike)):
        return _named(os.fspath(spec), split, isinstance(spec, os.PathLike))
    must(split is None, UsageError, f"split='{split}' goes with a known name or a folder of shards, got {type(spec).__name__}")
    return spec if isinstance(spec, Source) else _held(spec)


def test_source(spec: Any) -> Source | None:
    """The test (or else validation) split of a known name or of a folder with splits; None where there is none."""
    if isinstance(spec, Source):
        spec = spec.spec
    if not isinstance(spec, (str, os.PathLike)) or not os.fspath(spec):
        return None
    folder, _, split = _find(os.fspath(spec), isinstance(spec, os.PathLike))
    if folder is None or not folder.is_dir() or split not in (None, "train"):
        return None
    files = known.shards(folder)
    if not known.has_splits(files) or not known.split_shards(files, "test"):
        return None
    text = os.fspath(spec)
    return open_source(text[: -len(":train")] if split == "train" else spec, "test")


# The name is the contract's; pytest would take it for a test wherever it is imported.
test_source.__test__ = False  # type: ignore[attr-defined]


def _held(spec: Any) -> Source:
    import numpy as np

    if isinstance(spec, np.ndarray):
        from .arrays import Pixels

        return Pixels(spec)
    if isinstance(spec, (list, tuple)) and spec and all(isinstance(one, (str, os.PathLike)) for one in spec):
        from .folder import paths_source

        return paths_source(spec)
    if hasattr(spec, "__len__") and hasattr(spec, "__getitem__") and not isinstance(spec, (bytes, dict)):
        from .items import Items

        return Items(spec)
    raise UsageError(
        f"a source is {_TAKEN}; or a uint8 array, a list of paths or images, or an object with __len__ and __getitem__; "
        f"got {type(spec).__name__}"
    )


def _find(text: str, is_path: bool) -> tuple[Path | None, str, str | None]:
    """(where it lies, its name if it was found by name, the split that the text asks for)."""
    head, colon, tail = text.rpartition(":")
    name, asked = (head, tail) if colon and head else (text, None)
    by_name = not is_path and not os.path.dirname(text)
    if by_name and name in known.KNOWN and (folder := known.place(name)):
        return folder, name, asked
    if os.path.exists(text):
        return Path(text), "", None
    if by_name and (folder := known.place(name)):
        return folder, name, asked
    if asked and os.path.isdir(name):
        return Path(name), "", asked
    return None, name if by_name else "", asked


def _named(text: str, split: str | None, is_path: bool) -> Source:
    must(bool(text), UsageError, f"a source is {_TAKEN}; got an empty text")
    place, name, asked = _find(text, is_path)
    agree = split is None or asked is None or split == asked
    must(agree, UsageError, f"'{text}' asks for the split '{asked}' and split='{split}' for another; give one")
    split = asked or split
    if place is None:
        raise _not_found(text, name)
    if place.is_dir():
        return _folder(place, name, split)
    must(split is None, UsageError, f"{place} is a file and has no split '{split}'; leave it out")
    return _file(place)


def _folder(folder: Path, name: str, split: str | None) -> Source:
    from .folder import folder_source
    from .parquet import Parquet

    files = known.shards(folder)
    if name not in known.KNOWN and not files:
        name = ""
    spec = name or os.path.abspath(folder)
    if not name:
        images = folder_source(folder, spec)
        if images is not None:
            problem = f"{folder} is a folder of images and has no split '{split}'; give the sub-folder itself"
            must(split is None, UsageError, problem)
            return images
        if not files:
            raise DataError(
                f"{folder} holds no images; looked in it and its sub-folders for .jpg, .png, .webp, .gif, .bmp, .tif, .ppm and "
                ".pgm files, and in it for .parquet files"
            )
    dataset = name or Path(spec).name
    if not name and split is None and not known.has_splits(files):
        return Parquet(files, dataset, spec=spec)
    split = split or "train"
    chosen = known.split_shards(files, split)
    if not chosen:
        raise known.no_shards(dataset, folder, files, split)
    return Parquet(chosen, dataset, split=split, spec=spec if split == "train" else f"{spec}:{split}")


def _file(file: Path) -> Source:
    spec, kind = os.path.abspath(file), file.suffix.lower()
    must(file.is_file(), DataError, f"{file} is neither a file nor a folder; a source is {_TAKEN}")
    if kind == ".parquet":
        from .parquet import Parquet

        return Parquet([file], file.stem, spec=spec)
    if kind == ".npy":
        from .arrays import npy_source

        return npy_source(file, spec)
    if kind == ".npz":
        from .arrays import npz_source

        return npz_source(file, spec)
    from .folder import EXTENSIONS

    if kind in EXTENSIONS:
        raise DataError(f"{file} is one image; give the folder that holds it and others")
    raise DataError(f"{file} is of no type that is read ('{kind}'); a source is {_TAKEN}")


def _not_found(text: str, name: str) -> DataError:
    if name in known.KNOWN:
        return known.absent(name)
    near = difflib.get_close_matches(name, known.KNOWN, n=1, cutoff=0.6) if name else []
    hint = f"did you mean '{near[0]}'?" if near else f"known names: {', '.join(known.KNOWN)}"
    return DataError(f"no file or folder '{text}', and no data set of that name; {hint}")
