"""Files and folders that are complete or not there, at whatever instant the process is killed.

A file is written under a temporary name beside its own, flushed to the disk and renamed. A folder is filled under a
temporary name and renamed; one that it replaces steps aside first: ``NAME`` → ``.old-NAME``, new → ``NAME``, the old one is
deleted. :func:`recover` ends what a kill left between these steps.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import StorageError

TEMPORARY = ".tmp-"
REPLACED = ".old-"

_FREE = "free some space and run the same command again"
_PERMIT = "make it writable and run the same command again"
_ADVICE = {
    errno.ENOSPC: _FREE,
    errno.EDQUOT: _FREE,
    errno.EFBIG: "raise the limit on file sizes and run the same command again",
    errno.EROFS: _PERMIT,
    errno.EACCES: _PERMIT,
    errno.EPERM: _PERMIT,
    errno.EIO: "check the disk",
}


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """What the disk refuses becomes a StorageError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _ADVICE:
            raise
        reason, advice = os.strerror(error.errno), _ADVICE[error.errno]
        raise StorageError(f"cannot write {path}: {reason}; what was saved before it is intact: {advice}") from error


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of ``path`` when the block ends well."""
    temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{path.name}")
    with refusals(path):
        try:
            temporary.touch()
            mode = temporary.stat().st_mode
            yield temporary
            os.chmod(temporary, mode)  # safetensors gives files to their owner alone
            _flush(temporary)
            os.replace(temporary, path)
            _flush(path.parent)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def write_bytes(path: Path, data: bytes) -> None:
    with writing(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    write_bytes(path, f"{json.dumps(value, indent=indent)}\n".encode())


@contextmanager
def publishing(folder: Path) -> Iterator[Path]:
    """A temporary folder that takes the place of ``folder`` when the block ends well. Fill it through :func:`writing`."""
    make_folder(folder.parent)
    temporary = folder.with_name(f"{TEMPORARY}{os.getpid()}-{folder.name}")
    replaced = folder.with_name(REPLACED + folder.name)
    with refusals(folder):
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            yield temporary
            if folder.exists():
                shutil.rmtree(replaced, ignore_errors=True)
                os.rename(folder, replaced)
            os.rename(temporary, folder)
            _flush(folder.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            if replaced.exists() and not folder.exists():
                os.rename(replaced, folder)
            raise
    shutil.rmtree(replaced, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Like ``mkdir -p``, and the names of the new folders reach the disk."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with refusals(folder):
        folder.mkdir(exist_ok=True)
        _flush(folder.parent)


def remove_folder(folder: Path) -> None:
    """The folder is gone at once, even if a kill leaves some of its files under a temporary name."""
    doomed = folder.with_name(f"{TEMPORARY}{os.getpid()}-{folder.name}")
    if folder.exists():
        with refusals(folder):
            os.rename(folder, doomed)
            shutil.rmtree(doomed)


def recover(root: Path) -> None:
    """Removes what a killed process left half-written, and puts back what it had moved aside but not replaced."""
    with refusals(root):
        for parent, folders, files in os.walk(root):
            for name in (*folders, *files):
                path, replaced = Path(parent, name), name.startswith(REPLACED)
                original = path.with_name(name.removeprefix(REPLACED))
                if replaced and not original.exists():
                    os.rename(path, original)
                elif replaced or name.startswith(TEMPORARY):
                    _remove(path)
            folders[:] = [name for name in folders if not name.startswith((TEMPORARY, REPLACED))]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
