"""A raw file of pixels that grows image by image: (size, size, 1 or 3) uint8 → (N, size, size, C), no header."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 20


class PixelMap:
    """One channel while all images are grey, three from the first that is not (those before it are written again)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.channels = 1
        self.hash = hashlib.blake2b(digest_size=16)

    def __enter__(self) -> PixelMap:
        self._file = self.path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def add(self, image: NDArray[np.uint8]) -> None:
        if image.shape[2] > self.channels:
            self._widen()
        self._put(image if image.shape[2] == self.channels else np.repeat(image, self.channels, axis=2))

    def _put(self, pixels: NDArray[np.uint8]) -> None:
        data = np.ascontiguousarray(pixels).tobytes()
        self._file.write(data)
        self.hash.update(data)

    def _widen(self) -> None:
        self._file.close()
        grey = self.path.with_suffix(".grey")
        os.replace(self.path, grey)
        self._file = self.path.open("wb")
        self.channels, self.hash = 3, hashlib.blake2b(digest_size=16)
        with grey.open("rb") as file:
            for block in iter(lambda: file.read(_BLOCK), b""):
                self._put(np.repeat(np.frombuffer(block, np.uint8), 3))
        grey.unlink()
