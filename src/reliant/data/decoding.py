"""Every image of a source, decoded in the source's order by a few threads (Pillow's decoders release the interpreter's lock).

Sources are read and user's objects are touched in the calling thread alone; threads see encoded bytes and arrays. What comes
out, and in which order, does not depend on how many threads there are.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .decode import Preprocessing, decode
from .sources.base import BadImage, Payload, Source

Outcome: TypeAlias = NDArray[np.uint8] | BadImage

# A chunk is handed to a thread when it has so many images or bytes; at most this many per thread are waiting.
_CHUNK, _CHUNK_BYTES, _WAITING = 32, 8 * 1024 * 1024, 3


def decoded(source: Source, how: Preprocessing, workers: int) -> Generator[Outcome]:
    """Pixels or a reason for every image of ``source``, in its order."""
    with warnings.catch_warnings():
        # Pillow warns of what is odd in a file: either it decodes or the reason is on record.
        warnings.simplefilter("ignore")
        if workers == 0:
            for chunk in _chunks(source, how):
                yield from _decode_all(chunk, how)
            return
        pool = ThreadPoolExecutor(workers, thread_name_prefix="reliant-decode")
        try:
            waiting: deque[Future[list[Outcome]]] = deque()
            for chunk in _chunks(source, how):
                waiting.append(pool.submit(_decode_all, chunk, how))
                if len(waiting) > _WAITING * workers:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _decode_all(chunk: list[Payload | BadImage], how: Preprocessing) -> list[Outcome]:
    return [one if isinstance(one, BadImage) else _one(one, how) for one in chunk]


def _one(payload: Payload, how: Preprocessing) -> Outcome:
    try:
        return decode(payload, how)
    except BadImage as bad:
        return bad


def _chunks(source: Source, how: Preprocessing) -> Iterator[list[Payload | BadImage]]:
    chunk: list[Payload | BadImage] = []
    weight = 0
    for index in range(len(source)):
        try:
            payload: Payload | BadImage = source.read(index)
        except BadImage as bad:
            payload = bad
        if isinstance(payload, bytes):
            weight += len(payload)
        elif isinstance(payload, np.ndarray):
            weight += payload.nbytes
        elif not isinstance(payload, BadImage):
            # A PIL image may share an open file with another one: not for threads.
            outcome = _one(payload, how)
            payload = outcome
        chunk.append(payload)
        if len(chunk) >= _CHUNK or weight >= _CHUNK_BYTES:
            yield chunk
            chunk, weight = [], 0
    if chunk:
        yield chunk
