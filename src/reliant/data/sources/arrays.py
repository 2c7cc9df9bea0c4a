"""Images that are pixels already: uint8 (N, H, W), (N, H, W, 1) or (N, H, W, 3), from memory, ``.npy`` or ``.npz``.

The ids are row numbers. An ``.npy`` file is mapped, not read; of an ``.npz`` only the array of images is (labels later, alone).
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, must
from .base import RawLabels, Source, hash_array, hash_file

_LABELS = ("labels", "label")
_DAMAGE = (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error)


class Pixels(Source):
    """The rows of one array; ``file`` is where they were read from, if they were."""

    def __init__(self, array: NDArray[Any], dataset: str = "images", *, file: Path | None = None, spec: str = "") -> None:
        _check(array, dataset)
        super().__init__(dataset, [str(row) for row in range(len(array))], spec=spec)
        self._array = array
        self._file = file

    def read(self, index: int) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self._array[index])

    def digest(self) -> str:
        return hash_array(self._array).hex() if self._file is None else hash_file(self._file)

    def labels(self, column: str | None) -> RawLabels | None:
        if self._file is None or self._file.suffix.lower() != ".npz":
            return None
        with _open_npz(self._file) as archive:
            names = [name for name in ((column,) if column else _LABELS) if name in archive.files]
            if not names:
                return None
            try:
                values = archive[names[0]]
            except _DAMAGE as error:
                raise DataError(f"{self._file}: array '{names[0]}' cannot be read: {_reason(error)}") from None
        must(values.ndim == 1, DataError, f"{self._file}: array '{names[0]}' must have one dimension, got {values.shape}")
        return RawLabels(values=values.tolist())


def npy_source(file: Path, spec: str) -> Pixels:
    try:
        array = np.load(file, mmap_mode="r")
    except _DAMAGE as error:
        raise DataError(f"{file} is not a readable .npy file: {_reason(error)}") from None
    return Pixels(array, file.stem, file=file, spec=spec)


def npz_source(file: Path, spec: str) -> Pixels:
    with _open_npz(file) as archive:
        names = [name for name in archive.files if name not in _LABELS]
        name = "images" if "images" in names else names[0] if len(names) == 1 else None
        if name is None:
            held = ", ".join(archive.files) or "nothing"
            raise DataError(f"{file}: the images must be the array 'images' or the only one; it holds {held}")
        try:
            array = archive[name]
        except _DAMAGE as error:
            raise DataError(f"{file}: array '{name}' cannot be read: {_reason(error)}") from None
    return Pixels(array, file.stem, file=file, spec=spec)


@contextmanager
def _open_npz(file: Path) -> Iterator[Any]:
    # Opened here, for NumPy leaves the file open when it finds it damaged.
    with file.open("rb") as opened:
        try:
            archive = np.load(opened)
        except _DAMAGE as error:
            raise DataError(f"{file} is not a readable .npz file: {_reason(error)}") from None
        must(hasattr(archive, "files"), DataError, f"{file} is one array, not an .npz file; name it .npy")
        yield archive


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    text = str(error)
    if "Object arrays" in text or "Python objects" in text:
        return "only arrays of numbers are read, no Python objects"
    # NumPy takes every file that does not begin like one of its own for serialised objects, and offers to load them.
    if "allow_" in text:
        return "its first bytes are those of another kind of file"
    return text.splitlines()[0] if text else "truncated"


def _check(array: NDArray[Any], name: str) -> None:
    shape = tuple(array.shape)
    must(
        array.dtype == np.uint8, DataError, f"{name}: images in an array must be uint8, got {array.dtype}; scale them to 0…255"
    )
    if array.ndim == 4 and shape[3] not in (1, 3) and shape[1] in (1, 3):
        raise DataError(f"{name}: channels come last, (N, H, W, 1 or 3), got {shape}; transpose with (0, 2, 3, 1)")
    fits = array.ndim == 3 or (array.ndim == 4 and shape[3] in (1, 3))
    must(fits, DataError, f"{name}: an array of images is (N, H, W), (N, H, W, 1) or (N, H, W, 3), got {shape}")
    must(len(array) > 0, DataError, f"{name}: the array holds no images, its shape is {shape}")
    must(shape[1] > 0 and shape[2] > 0, DataError, f"{name}: images of no pixels, the array's shape is {shape}")
