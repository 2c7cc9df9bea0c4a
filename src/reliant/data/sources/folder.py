"""A folder of image files, nested, or a list of paths.

The ids of a folder are its relative POSIX paths, in the order of those texts. Every regular file with the extension of an
image is taken, and whether it is one is seen when it is decoded; other files and hidden ones (a leading dot) are ignored.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from .base import BadImage, Source, as_id, read_file, unique

# Of the formats that are decoded.
EXTENSIONS = frozenset(
    [".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"]
)


def extension(name: str) -> str:
    return os.path.splitext(name)[1].lower()


class Files(Source):
    """Image files by path, each with the size and time of change that it had when it was listed (−1 where it was not there)."""

    def __init__(self, dataset: str, root: Path | None, paths: list[str], states: NDArray[np.int64], *, spec: str = "") -> None:
        super().__init__(dataset, unique([as_id(path) for path in paths]), spec=spec)
        self.root = root
        # Most names are valid UTF-8 and then id and path are the same text: only the others are kept twice.
        self._odd = {row: path for row, path in enumerate(paths) if path != self.ids[row]}
        self._states = states

    def read(self, index: int) -> bytes:
        path = self._odd.get(index, self.ids[index])
        size, changed = (int(value) for value in self._states[index])
        if path.endswith("/"):
            raise BadImage("this sub-folder cannot be listed", unreadable=True)
        place = path if self.root is None else os.path.join(self.root, path)
        return read_file(place, None if size < 0 else (size, changed))

    def digest(self) -> str:
        digest = hashlib.blake2b(b"files", digest_size=16)
        for one in self.ids:
            digest.update(one.encode("utf-8", "surrogatepass") + b"\0")
        digest.update(self._states.tobytes())
        return digest.hexdigest()


def folder_source(root: Path, spec: str) -> Files | None:
    """Every image file below ``root``; None where there is none."""
    found = sorted(_listed(root), key=lambda entry: entry[0])
    if not found:
        return None
    states = np.asarray([entry[1:] for entry in found], dtype=np.int64)
    return Files(Path(os.path.abspath(root)).name, root, [entry[0] for entry in found], states, spec=spec)


def paths_source(paths: Sequence[str | os.PathLike[str]]) -> Files:
    """These files in this order; the ids are the paths as they were given, in POSIX form."""
    texts = [Path(path).as_posix() for path in paths]
    states = [_state(text) for text in texts]
    return Files("images", None, texts, np.asarray(states, dtype=np.int64).reshape(-1, 2))


def _state(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return -1, -1
    return found.st_size, found.st_mtime_ns


def _listed(root: Path) -> Iterator[tuple[str, int, int]]:
    """(relative path, size, time of change) in no order; a folder that cannot be listed ends in a slash.

    Linked folders are entered after all real ones, in the order of their paths, and no folder is listed twice: so an image
    has the id of its real place, and a loop of links ends.
    """
    seen: set[tuple[int, int]] = set()
    real, linked = [""], list[str]()
    while real or linked:
        if not real:
            linked.sort(key=lambda path: path[:-1], reverse=True)
            real.append(linked.pop())
        prefix = real.pop()
        place = os.path.join(root, prefix)
        try:
            state = os.stat(place)
            if (state.st_dev, state.st_ino) in seen:
                continue
            seen.add((state.st_dev, state.st_ino))
            entries = os.scandir(place)
        except OSError as error:
            if not prefix:
                raise DataError(f"{root} cannot be listed: {error.strerror}; check its permissions") from None
            yield prefix, -1, -1
            continue
        with entries:
            yield from _images(entries, prefix, real, linked)


def _images(entries: Any, prefix: str, real: list[str], linked: list[str]) -> Iterator[tuple[str, int, int]]:
    for entry in entries:
        name: str = entry.name
        if name.startswith("."):
            continue
        if entry.is_dir():
            (linked if entry.is_symlink() else real).append(f"{prefix}{name}/")
        elif extension(name) in EXTENSIONS:
            if entry.is_file():
                try:
                    state = entry.stat()
                except OSError:
                    yield prefix + name, -1, -1
                    continue
                yield prefix + name, state.st_size, state.st_mtime_ns
            elif entry.is_symlink() and not os.path.exists(entry.path):
                # A link that leads nowhere was meant to be an image: it is reported, not ignored.
                yield prefix + name, -1, -1
