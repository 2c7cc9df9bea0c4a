"""Decode once: source → (N, size, size, C) uint8 in a memory map, found again by the digest of what it was made from.

An entry is a folder ``$RELIANT_CACHE/images/KEY`` (else ``~/.cache/reliant/images/KEY``) that holds ``pixels.u8`` (raw),
``ids.parquet``, ``quarantine.parquet`` and ``meta.json``. KEY digests the source, the :class:`Preprocessing` and the version
of the decoder. An entry appears whole or not at all (built under a lock beside it, then renamed), and any run may read it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, StorageError, must
from ..records import Images, Quarantine
from .decode import Preprocessing
from .decoding import decoded
from .pixelmap import PixelMap
from .sources.base import BadImage, Source

if TYPE_CHECKING:
    from ..config import Data

Progress = Callable[[int, int], None]
log = logging.getLogger(__name__)

_FORMAT = 1
_PIXELS, _IDS, _QUARANTINE, _META = "pixels.u8", "ids.parquet", "quarantine.parquet", "meta.json"
_BUILDING = ".building-"
_REPORT_EVERY = 64  # images


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the cache holds of one source under one preprocessing."""

    key: str
    name: str
    shape: tuple[int, int, int, int]
    bytes: int
    path: Path


def load_images(
    source: Source, config: Data, progress: Progress | None = None, *, minimum: int = 2
) -> tuple[Images, Quarantine]:
    """The pixels of a source, decoded now or found in the cache, and what was left out and why.

    ``Images.digest`` is that of ids and pixels alone: a source with bad files and the same one without them have the same.
    ``progress(done, total)`` is called while images are decoded. Fewer than ``minimum`` good ones, or a larger share of bad
    ones than ``config.max_bad``, is a DataError.
    """
    how = Preprocessing.of(config)
    text = json.dumps([_FORMAT, source.digest(), how.record()], sort_keys=True)
    place = folder() / hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    found = _read(place, source)
    if found is None:
        with _storing(place), _locked(place):
            found = _read(place, source) or _build(place, source, how, config.workers, progress)
    images, quarantine = found
    _check(source, quarantine, len(images.ids) if images else 0, config.max_bad, minimum)
    if images is None:
        raise DataError(f"{source.name}: no image could be decoded")
    return images, quarantine


def folder() -> Path:
    """Where the cache lies; it need not be there."""
    value = os.environ.get("RELIANT_CACHE", "")
    return (Path(value) if value else Path("~/.cache/reliant")).expanduser() / "images"


def entries() -> list[Entry]:
    """What the cache holds, by key."""
    found = []
    for place in sorted(folder().glob(f"[!.]*/{_META}")):
        try:
            meta = json.loads(place.read_text(encoding="utf-8"))
            size = sum(file.stat().st_size for file in place.parent.iterdir())
            shape = tuple(meta["shape"])
            found.append(Entry(key=place.parent.name, name=meta["name"], shape=shape, bytes=size, path=place.parent))
        except (OSError, ValueError, KeyError, TypeError):
            found.append(Entry(key=place.parent.name, name="damaged", shape=(0, 0, 0, 0), bytes=0, path=place.parent))
    return found


def clear() -> int:
    """Remove every entry that is not being built, and what killed builds left; the bytes that came free."""
    from filelock import FileLock, Timeout

    freed = 0
    root = folder()
    if not root.is_dir():
        return 0
    for place in sorted(path for path in root.iterdir() if path.is_dir()):
        lock = root / f"{place.name.removeprefix(_BUILDING)}.lock"
        with _storing(place):
            try:
                with FileLock(lock, timeout=0):
                    freed += sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
                    shutil.rmtree(place)
            except Timeout:
                log.info("%s is being built and stays", place)
    return freed


def _check(source: Source, quarantine: Quarantine, good: int, max_bad: float, minimum: int) -> None:
    bad, total = len(quarantine), len(source)
    reasons = "; ".join(f"{one}: {why}" for one, why in list(zip(quarantine.ids, quarantine.reasons))[:3])
    if bad > max_bad * total:
        raise DataError(
            f"{source.name}: {bad} of {total} images are bad, more than data.max_bad = {max_bad} allows; "
            f"mend or remove them, or raise data.max_bad; the first: {reasons}"
        )
    plural = "" if good == 1 else "s"
    problem = f"{source.name}: {good} usable image{plural}, at least {minimum} are needed"
    must(good >= minimum, DataError, problem + (f"; left out: {reasons}" if reasons else "") + "; add images")


def _read(place: Path, source: Source) -> tuple[Images | None, Quarantine] | None:
    """A whole entry; None where there is none, where it is damaged, or where what could not be read then can be now."""
    import pyarrow.parquet as pq

    try:
        meta = json.loads((place / _META).read_text(encoding="utf-8"))
        shape = tuple(meta["shape"])
        ids = pq.read_table(place / _IDS).column("id").to_pylist()
        bad = pq.read_table(place / _QUARANTINE).to_pydict()
        pixels: Any = np.memmap(place / _PIXELS, mode="r", dtype=np.uint8)
        if pixels.size != np.prod(shape):
            return None
        images = Images(pixels=pixels.reshape(shape), ids=ids, name=source.name, digest=meta["digest"])
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return None
    if any(_readable(source, row) for row, once in zip(bad["row"], bad["unreadable"]) if once):
        return None
    return images, Quarantine(ids=bad["id"], reasons=bad["reason"])


def _readable(source: Source, row: int) -> bool:
    try:
        source.read(row)
    except BadImage:
        return False
    return True


def _build(
    place: Path, source: Source, how: Preprocessing, workers: int, progress: Progress | None
) -> tuple[Images | None, Quarantine]:
    """Decode the source into a folder beside ``place`` and rename it; nothing is published where no image is good."""
    building = place.with_name(_BUILDING + place.name)
    shutil.rmtree(building, ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)
    building.mkdir()
    try:
        pixels, ids, bad = _decode_into(building / _PIXELS, source, how, workers, progress)
        quarantine = Quarantine(ids=bad["id"], reasons=bad["reason"])
        if not ids:
            return None, quarantine
        shape = (len(ids), how.size, how.size, pixels.channels)
        digest = hashlib.blake2b(json.dumps([shape, ids]).encode() + pixels.hash.digest(), digest_size=16).hexdigest()
        meta = {"format": _FORMAT, "name": source.name, "shape": shape, "digest": digest, "preprocessing": how.record()}
        _write_tables(building, ids, bad)
        (building / _META).write_text(json.dumps(meta, indent=1), encoding="utf-8")
        for file in building.iterdir():
            _sync(file)
        _sync(building)
        os.rename(building, place)
        _sync(place.parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    stored: Any = np.memmap(place / _PIXELS, mode="r", dtype=np.uint8, shape=shape)
    return Images(pixels=stored, ids=ids, name=source.name, digest=digest), quarantine


def _decode_into(
    file: Path, source: Source, how: Preprocessing, workers: int, progress: Progress | None
) -> tuple[PixelMap, list[str], dict[str, list[Any]]]:
    ids: list[str] = []
    bad: dict[str, list[Any]] = {"row": [], "id": [], "reason": [], "unreadable": []}
    with PixelMap(file) as pixels, closing(decoded(source, how, workers)) as outcomes:
        for row, outcome in enumerate(outcomes):
            if isinstance(outcome, BadImage):
                for name, value in zip(bad, (row, source.ids[row], outcome.reason, outcome.unreadable)):
                    bad[name].append(value)
            else:
                pixels.add(outcome)
                ids.append(source.ids[row])
            if progress and ((row + 1) % _REPORT_EVERY == 0 or row + 1 == len(source)):
                progress(row + 1, len(source))
    return pixels, ids, bad


def _write_tables(place: Path, ids: list[str], bad: dict[str, list[Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"row": pa.int64(), "id": pa.string(), "reason": pa.string(), "unreadable": pa.bool_()}
    pq.write_table(pa.table({"id": pa.array(ids, pa.string())}), place / _IDS)
    columns = {name: pa.array(values, kinds[name]) for name, values in bad.items()}
    pq.write_table(pa.table(columns), place / _QUARANTINE)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """One builder of an entry at a time; the others wait and then find it built."""
    from filelock import FileLock, Timeout

    place.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(place.with_name(f"{place.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log.info("waiting for another process that decodes the same images")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _storing(place: Path) -> Iterator[None]:
    """A refusing disk, said in one line."""
    try:
        yield
    except BrokenPipeError:
        # Of whoever shows the progress.
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StorageError(
            f"the image cache {place} cannot be written: {reason}; free space there or set RELIANT_CACHE to another folder"
        ) from None
