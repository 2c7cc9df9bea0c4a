"""From whatever bytes a file holds to pixels: encoded image, array or PIL image → (size, size, 1 or 3) uint8, or a reason.

The format is told by the first bytes and must be on the list; the header's size is checked before a pixel is decoded; every
failure of a decoder is a :class:`BadImage`. All choices are ours, the paper names none:

* the first frame of an animation; turned upright as EXIF says; colour profiles are left alone;
* transparency over white, for most transparent pictures are drawn for a white page;
* CMYK, YCbCr and palettes to RGB by Pillow; 1 bit to 0 and 255; 16 bits to their upper 8 (full range, no stretching);
* signed, 32-bit and floating-point pixels have no stated range: refused;
* the largest centred square, resampled to size × size (antialiased bilinear); a square of that size is left as it is, to the
  bit. The square is cut first: it is what resizing the shorter side and cutting then would leave, without the work, and
  without the giant that resizing makes of an image of 1 × 1,000,000.
"""

from __future__ import annotations

import io
import struct
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .sources.base import BadImage, Payload

if TYPE_CHECKING:
    from PIL.Image import Image

    from ..config import Data

# Raise it when the same file would give other pixels: it is part of every cache's key.
VERSION = 1

_MAGIC = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
    *((f"P{kind}".encode(), "PPM") for kind in range(1, 7)),
)
_ORIENTATION = 0x0112
_PHOTOMETRIC = 262


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """All that decides which pixels a file becomes, and whether it becomes any."""

    size: int
    channels: str
    max_pixels: int
    crop: str = "centre"
    resampling: str = "bilinear, box-reduced above 2"
    background: int = 255
    sixteen_bit: str = "upper 8 bits"
    decoder: str = ""

    @classmethod
    def of(cls, config: Data) -> Preprocessing:
        from PIL import __version__

        decoder = f"reliant {VERSION}, pillow {__version__}"
        return cls(size=config.size, channels=config.channels, max_pixels=config.max_pixels, decoder=decoder)

    def record(self) -> dict[str, Any]:
        return asdict(self)


def decode(payload: Payload, how: Preprocessing) -> NDArray[np.uint8]:
    """The pixels of one image, (size, size, 1) where it is grey and ``how.channels`` is not "3", else (size, size, 3)."""
    if isinstance(payload, np.ndarray):
        _check_array(payload, how)
        grey = payload.ndim == 2 or payload.shape[2] == 1
        if payload.shape[:2] == (how.size, how.size) and how.channels in ("auto", "1" if grey else "3"):
            return payload.reshape(how.size, how.size, -1)
    try:
        image = _square(_plain(_opened(payload, how)), how.size)
        if how.channels != "auto":
            image = image.convert("L" if how.channels == "1" else "RGB")
        return np.asarray(image).reshape(how.size, how.size, -1)
    except BadImage:
        raise
    except _bomb():
        # Pillow looks at the header before we can; its limit is for all of a program and not ours to move.
        raise BadImage(f"far more pixels than data.max_pixels = {how.max_pixels}") from None
    except MemoryError:
        raise BadImage("decoding it needs more memory than there is") from None
    # A decoder on hostile bytes raises anything: SyntaxError, struct.error, OverflowError, zlib.error …
    except Exception as error:
        raise BadImage(f"{_kind(payload)} that cannot be decoded: {_reason(error)}") from None


def _opened(payload: Payload, how: Preprocessing) -> Image:
    """Decoded and upright, after its header was found acceptable."""
    from PIL import Image

    if isinstance(payload, np.ndarray):
        return Image.fromarray(payload[..., 0] if payload.ndim == 3 and payload.shape[2] == 1 else payload)
    if not isinstance(payload, bytes):
        _check_size(payload.size, how)
        payload.load()
        return _upright(payload)
    name = sniff(payload)
    if name is None:
        problem = "it is empty" if not payload else "its first bytes are of none of JPEG, PNG, WebP, GIF, BMP, TIFF, PPM"
        raise BadImage(f"not an image: {problem}")
    _load_plugins()
    with Image.open(io.BytesIO(payload), formats=[name]) as image:
        _check_size(image.size, how)
        image.load()
        return _upright(image)


def size_of(payload: Payload) -> tuple[int, int] | None:
    """Width and height as the header or the array tells them, before anything is turned or cut; None where neither does."""
    from PIL import Image

    if isinstance(payload, np.ndarray):
        return (payload.shape[1], payload.shape[0]) if payload.ndim in (2, 3) else None
    if not isinstance(payload, bytes):
        return payload.size
    name = sniff(payload)
    if name is None:
        return None
    _load_plugins()
    try:
        with Image.open(io.BytesIO(payload), formats=[name]) as image:
            return image.size
    # As in decode: a decoder on hostile bytes raises anything.
    except Exception:
        return None


def sniff(data: bytes) -> str | None:
    """The format that the first bytes tell, None where it is not on the list."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    return next((name for magic, name in _MAGIC if data.startswith(magic)), None)


def _load_plugins() -> None:
    """Pillow's decoders of the formats on the list; loading all of them would make every other one reachable."""
    from PIL import (  # noqa: F401
        BmpImagePlugin,
        GifImagePlugin,
        JpegImagePlugin,
        PngImagePlugin,
        PpmImagePlugin,
        TiffImagePlugin,
        WebPImagePlugin,
    )


def _check_size(size: tuple[int, int], how: Preprocessing) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise BadImage(f"{width} × {height}: no pixels")
    if width * height > how.max_pixels:
        raise BadImage(f"{width} × {height} pixels, more than data.max_pixels = {how.max_pixels}")


def _check_array(array: NDArray[Any], how: Preprocessing) -> None:
    if array.dtype != np.uint8:
        raise BadImage(f"an array of {array.dtype}; uint8 is read")
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3)):
        raise BadImage(f"an array of shape {array.shape}; (H, W), (H, W, 1) and (H, W, 3) are read")
    _check_size((array.shape[1], array.shape[0]), how)


def _upright(image: Image) -> Image:
    """Turned as EXIF says; a damaged EXIF block does not spoil the picture. (Pillow turns a TIFF itself when it loads it.)"""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    try:
        turn = turns.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:
        turn = None
    if turn is None:
        return image
    turned = image.transpose(turn)
    turned.format = image.format
    return turned


def _plain(image: Image) -> Image:
    """As mode L where it is grey, else as RGB; nothing transparent."""
    mode = image.mode
    if mode.startswith("I;16") or (mode == "I" and image.format in ("PNG", "PPM")):
        return _upper_bits(image)
    if mode in ("I", "F"):
        raise BadImage("signed, 32-bit or floating-point pixels have no stated range; convert the file to 8 or 16 bits")
    if mode in ("LA", "La") or (mode in ("1", "L") and image.has_transparency_data):
        return _over_white(image.convert("LA"), "L")
    if image.has_transparency_data or mode in ("PA", "RGBA", "RGBa"):
        return _over_white(image.convert("RGBA"), "RGB")
    return image.convert("L" if mode in ("1", "L") else "RGB")


def _over_white(image: Image, mode: str) -> Image:
    from PIL import Image as pil

    page = pil.new(mode, image.size, "white")
    page.paste(image.convert(mode), mask=image.getchannel("A"))
    return page


def _upper_bits(image: Image) -> Image:
    from PIL import Image as pil

    values = np.asarray(image)
    upper = (values >> 8).astype(np.uint8)
    # Pillow inverts a TIFF in which 0 is white at 8 bits, not at 16.
    if getattr(image, "tag_v2", {}).get(_PHOTOMETRIC) == 0:
        upper = 255 - upper
    key = image.info.get("transparency")
    if isinstance(key, int):
        upper[values == key] = 255
    return pil.fromarray(upper)


def _square(image: Image, size: int) -> Image:
    """The largest centred square at size × size."""
    from PIL.Image import Resampling

    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    box = (left, top, left + side, top + side)
    if side == size:
        return image if image.size == (size, size) else image.crop(box)
    return image.resize((size, size), Resampling.BILINEAR, box=box, reducing_gap=2.0)


def _bomb() -> type[Exception]:
    from PIL.Image import DecompressionBombError

    return DecompressionBombError


def _kind(payload: Payload) -> str:
    if isinstance(payload, bytes):
        return sniff(payload) or "a file"
    return "an array" if isinstance(payload, np.ndarray) else "a PIL image"


def _reason(error: Exception) -> str:
    """Pillow's words, without the address in memory that it puts into some of them."""
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return "its header is damaged or cut off"
    if isinstance(error, struct.error):
        return "it ends within a header"
    text = str(error)
    return type(error).__name__ if not text or " at 0x" in text else text
