"""What every source offers: N images with stable ids, read one by one, and a digest of what they are read from.

Nothing here reads a label: :meth:`Source.labels` is called by :func:`reliant.data.read_labels` alone.
"""

from __future__ import annotations

import hashlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

Payload: TypeAlias = "bytes | NDArray[Any] | Image"

# Ours: 8 bytes a pixel of the default data.max_pixels. A file above it cannot be an image that would be decoded.
LARGEST_FILE = 512 * 1024 * 1024
# Files below it are hashed whole; of larger ones the two ends, with the time of the last change.
HASHED_WHOLE = 64 * 1024 * 1024
_END = 1024 * 1024


class BadImage(DataError):
    """One image that cannot be had: ``reason`` is one line and names no path.

    ``unreadable`` tells a disk that refused (which may be mended without the file changing) from bytes that are no image.
    """

    def __init__(self, reason: str, *, unreadable: bool = False) -> None:
        self.reason = one_line(reason)
        self.unreadable = unreadable
        super().__init__(self.reason)


@dataclass(frozen=True, kw_only=True)
class RawLabels:
    """Labels as a source holds them: integers or texts, a negative one or None where there is none."""

    values: Sequence[int | str | None]
    names: list[str] | None = None


class Source(ABC):
    """N images with stable ids. ``dataset`` and ``split`` say what it is, ``name`` is both and serves as a run's name."""

    def __init__(self, dataset: str, ids: list[str], *, split: str = "", spec: str = "") -> None:
        self.dataset = dataset or "images"
        self.split = split
        self.ids = ids
        self.spec = spec  # what open_source takes to open it again; empty where it came from Python objects

    @property
    def name(self) -> str:
        return self.dataset if self.split in ("", "train") else f"{self.dataset}-{self.split}"

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def read(self, index: int) -> Payload:
        """The encoded or decoded image, or :class:`BadImage`. Cheapest in ascending order."""

    @abstractmethod
    def digest(self) -> str:
        """Changes whenever the images may have changed; does not depend on where they lie."""

    def labels(self, column: str | None) -> RawLabels | None:
        """The named column of labels, or with None the usual one; None where there is no such column."""
        return None


def one_line(text: str, limit: int = 200) -> str:
    """Printable, on one line, and short."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text)
    clean = " ".join(clean.split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def as_id(path: str) -> str:
    """A path as an id that any UTF-8 file can hold: bytes that are no UTF-8 are written as ``\\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def unique(ids: list[str]) -> list[str]:
    """The ids, the second and later of equal ones marked ``#2``, ``#3``, …"""
    if len(set(ids)) == len(ids):
        return ids
    taken, marked = set(ids), []
    seen: set[str] = set()
    for one in ids:
        name, turn = one, 1
        while name in seen or (turn > 1 and name in taken):
            turn += 1
            name = f"{one}#{turn}"
        seen.add(name)
        marked.append(name)
    return marked


def read_file(path: str | Path, state: tuple[int, int] | None = None) -> bytes:
    """The bytes of a regular file that is still what it was when it was listed (size and time of change)."""
    # Without O_NONBLOCK a pipe that took the file's place would be waited for.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BadImage("not a regular file", unreadable=True)
            if state is not None and state != (found.st_size, found.st_mtime_ns):
                raise BadImage("changed after it was listed", unreadable=True)
            if found.st_size > LARGEST_FILE:
                raise BadImage(f"{found.st_size} bytes; at most {LARGEST_FILE} are read")
            return file.read()
    except OSError as error:
        raise BadImage(f"cannot be read: {error.strerror or type(error).__name__}", unreadable=True) from None
    except ValueError:
        raise BadImage("cannot be read: not a valid path", unreadable=True) from None


def hash_file(path: Path) -> str:
    """Of size and content; above 64 MB of size, time of change, and the first and last MB."""
    size, changed = path.stat().st_size, path.stat().st_mtime_ns
    digest = hashlib.blake2b(f"{size}".encode(), digest_size=16)
    with path.open("rb") as file:
        if size < HASHED_WHOLE:
            for block in iter(lambda: file.read(_END), b""):
                digest.update(block)
        else:
            digest.update(f" {changed} ".encode() + file.read(_END))
            file.seek(size - _END)
            digest.update(file.read(_END))
    return digest.hexdigest()


def hash_array(array: NDArray[Any]) -> bytes:
    """Of shape, type and content; an array that is not contiguous is hashed by rows of its first axis."""
    digest = hashlib.blake2b(f"{array.shape} {array.dtype.str}".encode(), digest_size=16)
    if array.flags.c_contiguous:
        digest.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    else:
        for row in array:
            digest.update(np.ascontiguousarray(row).tobytes())
    return digest.digest()
