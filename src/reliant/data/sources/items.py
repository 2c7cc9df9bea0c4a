"""Images that Python objects yield: a list of PIL images or arrays, a torch or Hugging Face data set.

Anything with ``__len__`` and ``__getitem__`` whose items are an image (PIL, an array or tensor of uint8, encoded bytes) or a
tuple or dict that holds one. The ids are row numbers. The digest is that of the contents, so it reads every item once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import DataError, must
from .base import BadImage, Payload, RawLabels, Source, hash_array

_IMAGE_KEYS = ("image", "img", "pixel_values", "bytes")
_LABEL_KEYS = ("label", "labels", "target", "targets")


class Items(Source):
    """The items of ``data``, asked for one at a time."""

    def __init__(self, data: Any) -> None:
        must(len(data) > 0, DataError, f"no images: the {type(data).__name__} is empty")
        super().__init__("images", [str(row) for row in range(len(data))])
        self._data = data

    def read(self, index: int) -> Payload:
        image = _image_of(self._item(index))
        if image is None:
            raise BadImage(
                "the item holds no image; it must hold a PIL image, a uint8 array (H, W), (H, W, 1) or (H, W, 3), or bytes"
            )
        return image

    def digest(self) -> str:
        digest = hashlib.blake2b(b"items", digest_size=16)
        for row in range(len(self)):
            try:
                digest.update(_hash(self.read(row)))
            except BadImage as bad:
                digest.update(b"bad" + bad.reason.encode())
        return digest.hexdigest()

    def labels(self, column: str | None) -> RawLabels | None:
        for name in (column,) if column else ("targets", "labels"):
            held = getattr(self._data, name, None)
            if held is not None and not callable(held) and len(held) == len(self):
                return RawLabels(values=np.asarray(held).tolist(), names=getattr(self._data, "classes", None))
        values = [_label_of(self._item(row), column) for row in range(len(self))]
        return None if all(value is None for value in values) else RawLabels(values=values)

    def _item(self, index: int) -> Any:
        try:
            return self._data[index]
        # Whatever a stranger's data set raises concerns this one image.
        except Exception as error:
            raise BadImage(f"the data set raised {type(error).__name__}: {error}", unreadable=True) from None


def _image_of(item: Any) -> Payload | None:
    if isinstance(item, Mapping):
        return next((image for key in _IMAGE_KEYS if key in item and (image := _image_of(item[key])) is not None), None)
    if isinstance(item, (tuple, list)):
        return _image_of(item[0]) if item else None
    if isinstance(item, (bytes, bytearray, memoryview)):
        return bytes(item)
    if isinstance(item, np.ndarray):
        return item
    from PIL.Image import Image

    if isinstance(item, Image):
        return item
    if hasattr(item, "__array__"):
        array = np.asarray(item)
        # A tensor has its channels first.
        first = array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3)
        return np.ascontiguousarray(np.moveaxis(array, 0, 2)) if first else array
    return None


def _label_of(item: Any, column: str | None) -> int | str | None:
    value = None
    if isinstance(item, Mapping):
        value = next((item[key] for key in ((column,) if column else _LABEL_KEYS) if key in item), None)
    elif isinstance(item, (tuple, list)) and len(item) > 1 and column is None:
        value = item[1]
    if hasattr(value, "item") and getattr(value, "size", None) is not None:
        value = np.asarray(value).reshape(-1)[0].item() if np.asarray(value).size == 1 else None
    return value if isinstance(value, (int, str)) else None


def _hash(payload: Payload) -> bytes:
    if isinstance(payload, bytes):
        return hashlib.blake2b(payload, digest_size=16).digest()
    if isinstance(payload, np.ndarray):
        return hash_array(payload)
    try:
        orientation = payload.getexif().get(0x0112)
        look = (payload.mode, payload.size, payload.getpalette(), payload.info.get("transparency"), orientation)
        return hashlib.blake2b(repr(look).encode() + payload.tobytes(), digest_size=16).digest()
    # An image that cannot be decoded is told so when it is decoded.
    except Exception as error:
        return f"undecodable {type(error).__name__}".encode()
