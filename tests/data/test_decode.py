from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from reliant.data.decode import Preprocessing, decode, sniff
from reliant.data.sources.base import BadImage


def how(size=2, channels="auto", max_pixels=1_000_000):
    return Preprocessing(size=size, channels=channels, max_pixels=max_pixels)


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width, height, depth, colour, rows, extra=b""):
    """A PNG written by hand: ``rows`` are the raw bytes of the lines."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    lines = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


def tiff16(values, photometric=1, order="<", sample_format=1):
    """A 2 × 2 grey TIFF of 16 bits written by hand."""
    tags = [
        (256, 2),
        (257, 2),
        (258, 16),
        (259, 1),
        (262, photometric),
        (273, 8),
        (277, 1),
        (278, 2),
        (279, 8),
        (339, sample_format),
    ]
    entries = b"".join(struct.pack(f"{order}HHIHH", tag, 3, 1, value, 0) for tag, value in tags)
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 16)
    directory = struct.pack(f"{order}H", len(tags)) + entries + struct.pack(f"{order}I", 0)
    return head + struct.pack(f"{order}4H", *values) + directory


def test_grey_and_colour_are_told_apart(encode):
    grey = np.asarray([[0, 1], [128, 255]], np.uint8)
    np.testing.assert_array_equal(decode(encode(grey), how()), grey[..., None])
    colour = np.repeat(grey[..., None], 3, axis=2)
    np.testing.assert_array_equal(decode(encode(colour), how()), colour)
    np.testing.assert_array_equal(decode(encode(grey), how(channels="3")), colour)


def test_colour_becomes_one_channel_by_luminance(encode):
    colour = np.asarray([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8)
    # 0.299 R + 0.587 G + 0.114 B
    np.testing.assert_array_equal(decode(encode(colour), how(channels="1"))[..., 0], [[76, 150], [29, 255]])


def test_palette(encode):
    image = Image.new("P", (2, 2))
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 1, 2, 3])
    image.putdata([0, 1, 2, 3])
    expected = [[[10, 20, 30], [40, 50, 60]], [[70, 80, 90], [1, 2, 3]]]
    for kind in ("PNG", "GIF", "BMP", "TIFF"):
        np.testing.assert_array_equal(decode(encode(image, kind), how()), expected)
    transparent = encode(image, "PNG", transparency=b"\x00\xff\x80\xff")
    # 128 of 255 over white: 70 → 70·128/255 + 127 = 162
    np.testing.assert_array_equal(decode(transparent, how()), [[[255] * 3, [40, 50, 60]], [[162, 167, 172], [1, 2, 3]]])


def test_alpha_is_laid_over_white(encode):
    rgba = np.asarray([[[10, 20, 30, 255], [10, 20, 30, 0]], [[0, 0, 0, 128], [255, 0, 0, 51]]], np.uint8)
    expected = [[[10, 20, 30], [255, 255, 255]], [[127, 127, 127], [255, 204, 204]]]
    for kind in ("PNG", "TIFF"):
        np.testing.assert_array_equal(decode(encode(rgba, kind), how()), expected)
    np.testing.assert_array_equal(decode(encode(rgba, "WEBP", lossless=True, exact=True), how()), expected)
    grey = Image.new("LA", (2, 2))
    grey.putdata([(10, 255), (10, 0), (0, 128), (100, 51)])
    np.testing.assert_array_equal(decode(encode(grey), how())[..., 0], [[10, 255], [127, 224]])


def test_a_transparent_colour_is_laid_over_white(encode):
    grey = np.asarray([[0, 7], [7, 200]], np.uint8)
    np.testing.assert_array_equal(decode(encode(grey, transparency=7), how())[..., 0], [[0, 255], [255, 200]])
    wide = grey.astype(np.uint16) * 256
    np.testing.assert_array_equal(decode(encode(wide, transparency=7 * 256), how())[..., 0], [[0, 255], [255, 200]])
    colour = np.repeat(grey[..., None], 3, axis=2)
    np.testing.assert_array_equal(decode(encode(colour, transparency=(7, 7, 7)), how())[0, 1], [255, 255, 255])
    bit = encode(Image.fromarray(grey > 7), transparency=0)
    np.testing.assert_array_equal(decode(bit, how())[..., 0], np.full((2, 2), 255))


def test_one_bit(encode):
    image = Image.fromarray(np.asarray([[True, False], [False, True]]))
    for kind in ("PNG", "TIFF", "BMP", "PPM", "GIF"):
        pixels = decode(encode(image, kind), how(channels="1"))
        np.testing.assert_array_equal(pixels[..., 0], [[255, 0], [0, 255]])
    assert decode(encode(image, "PNG"), how()).shape == (2, 2, 1)


def test_sixteen_bits_keep_their_upper_eight(encode):
    values = np.asarray([[0x0000, 0x00FF], [0x1234, 0xFFFF]], np.uint16)
    expected = np.asarray([[[0], [0]], [[0x12], [0xFF]]])
    for kind in ("PNG", "TIFF", "PPM"):
        np.testing.assert_array_equal(decode(encode(values, kind), how()), expected)
    for order in "<>":
        np.testing.assert_array_equal(decode(tiff16(values.ravel(), order=order), how()), expected)
    colour = struct.pack(">6H", 0x1234, 0xFFFF, 0x00FF, 0, 0, 0xAB00)
    np.testing.assert_array_equal(decode(png(2, 2, 16, 2, [colour, colour]), how())[0], [[0x12, 0xFF, 0], [0, 0, 0xAB]])


def test_a_tiff_in_which_zero_is_white_is_inverted():
    np.testing.assert_array_equal(decode(tiff16([0, 0x1200, 0xFF00, 0xFFFF], photometric=0), how()).ravel(), [255, 0xED, 0, 0])


def test_cmyk(encode):
    image = Image.new("CMYK", (2, 2))
    image.putdata([(0, 0, 0, 0), (0, 255, 255, 0), (0, 0, 0, 255), (255, 0, 0, 51)])
    expected = [[[255, 255, 255], [255, 0, 0]], [[0, 0, 0], [0, 204, 204]]]
    np.testing.assert_array_equal(decode(encode(image, "TIFF"), how()), expected)
    flat = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    found = decode(encode(flat, "JPEG", quality=100), how(16)).astype(int)
    assert abs(found - [255, 0, 0]).max() <= 2


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_the_picture_upright(encode, orientation):
    upright = np.random.default_rng(1).integers(0, 256, (5, 8, 3), dtype=np.uint8)
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: upright.transpose(1, 0, 2)[::-1],
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: upright.transpose(1, 0, 2)[:, ::-1],
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    expected = decode(encode(upright), how(5))
    for kind, options in (("PNG", {}), ("TIFF", {}), ("WEBP", {"lossless": True})):
        turned = encode(np.ascontiguousarray(stored), kind, exif=exif, **options)
        np.testing.assert_array_equal(decode(turned, how(5)), expected)


def test_exif_of_a_jpeg(encode):
    flat = np.zeros((8, 16), np.uint8)
    flat[:, 8:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # stored on its left side
    found = decode(encode(flat, "JPEG", exif=exif, quality=100), how(8))
    assert found[0].max() <= 2
    assert found[-1].min() >= 253


def test_a_damaged_exif_block_does_not_spoil_the_picture(encode):
    grey = np.full((2, 2), 9, np.uint8)
    np.testing.assert_array_equal(decode(encode(grey, exif=b"Exif\0\0MM\0*\xff\xff\xff\xff"), how())[..., 0], grey)


def test_an_animation_gives_its_first_frame(encode):
    frames = [Image.new("RGB", (2, 2), colour) for colour in ("red", "blue")]
    for kind, options in (("GIF", {}), ("PNG", {}), ("WEBP", {"lossless": True}), ("TIFF", {})):
        found = decode(encode(frames[0], kind, save_all=True, append_images=frames[1:], **options), how())
        np.testing.assert_array_equal(found, np.broadcast_to([255, 0, 0], (2, 2, 3)))


def test_a_jpeg_with_trailing_data_is_read(encode):
    data = encode(np.full((8, 8), 77, np.uint8), "JPEG")
    np.testing.assert_array_equal(decode(data + b"trailing" * 100, how(8)), decode(data, how(8)))


def test_the_centre_is_cut_and_a_square_of_the_right_size_is_untouched(encode):
    wide = np.arange(2 * 5, dtype=np.uint8).reshape(2, 5)
    np.testing.assert_array_equal(decode(encode(wide), how())[..., 0], wide[:, 1:3])
    tall = np.arange(6 * 2, dtype=np.uint8).reshape(6, 2)
    np.testing.assert_array_equal(decode(encode(tall), how())[..., 0], tall[2:4])
    exact = np.random.default_rng(0).integers(0, 256, (7, 7, 3), dtype=np.uint8)
    np.testing.assert_array_equal(decode(encode(exact), how(7)), exact)
    np.testing.assert_array_equal(decode(exact, how(7)), exact)


def test_one_pixel_is_enlarged():
    np.testing.assert_array_equal(decode(np.full((1, 1), 42, np.uint8), how(5))[..., 0], np.full((5, 5), 42))
    np.testing.assert_array_equal(decode(np.full((1, 900_000), 42, np.uint8), how(5))[..., 0], np.full((5, 5), 42))


def triangle(line, size):
    """Antialiased linear interpolation of a line of values, as plain loops."""
    scale = len(line) / size
    support = max(scale, 1.0)
    result = []
    for place in range(size):
        centre = (place + 0.5) * scale
        weights = [max(0.0, 1.0 - abs(at + 0.5 - centre) / support) for at in range(len(line))]
        result.append(sum(weight * value for weight, value in zip(weights, line)) / sum(weights))
    return result


@pytest.mark.parametrize(("side", "size"), [(6, 3), (5, 3), (7, 4), (3, 8), (16, 5)])
def test_resampling_is_an_antialiased_triangle(side, size):
    picture = np.random.default_rng(side).integers(0, 256, (side, side), dtype=np.uint8)
    found = decode(picture, how(size))[..., 0].astype(float)
    shrunk = picture.astype(float)
    factor = int(side / size / 2) or 1
    if factor > 1:
        starts = range(0, side, factor)
        shrunk = np.asarray([[picture[y : y + factor, x : x + factor].mean() for x in starts] for y in starts])
    rows = np.asarray([triangle(row, size) for row in shrunk])
    expected = np.asarray([triangle(column, size) for column in rows.T]).T
    assert abs(found - expected).max() <= 1.01


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not an image: it is empty"),
        (b"%PDF-1.4", "not an image: its first bytes are of none of JPEG, PNG, WebP, GIF, BMP, TIFF, PPM"),
        (b"\x00\x00\x01\x00", "not an image: its first bytes are of none of JPEG, PNG, WebP, GIF, BMP, TIFF, PPM"),
        (b"P6 0 5 255\n", "PPM that cannot be decoded: its header is damaged or cut off"),
        (png(100_000, 100_000, 8, 0, []), "far more pixels than data.max_pixels = 1000000"),
        (b"P5 2000 501 255\n", "2000 × 501 pixels, more than data.max_pixels = 1000000"),
        (b"P5 4 4 255\nxxxx", "PPM that cannot be decoded: image file is truncated (0 bytes not processed)"),
        (b"\x89PNG\r\n\x1a\n", "PNG that cannot be decoded: its header is damaged or cut off"),
        (
            tiff16([1, 2, 3, 4], sample_format=2),
            "signed, 32-bit or floating-point pixels have no stated range; convert the file to 8 or 16 bits",
        ),
        (np.zeros((4, 4), np.float32), "an array of float32; uint8 is read"),
        (np.zeros((4, 4, 2), np.uint8), "an array of shape (4, 4, 2); (H, W), (H, W, 1) and (H, W, 3) are read"),
        (np.zeros((0, 4), np.uint8), "4 × 0: no pixels"),
        (
            Image.new("F", (4, 4)),
            "signed, 32-bit or floating-point pixels have no stated range; convert the file to 8 or 16 bits",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "payload",
)
def test_what_cannot_be_decoded_has_a_reason(payload, reason):
    with pytest.raises(BadImage) as error:
        decode(payload, how())
    assert error.value.reason == reason
    assert not error.value.unreadable


def test_the_pixel_cap_is_inclusive(encode):
    picture = np.zeros((4, 5), np.uint8)
    assert decode(encode(picture), how(max_pixels=20)).shape == (2, 2, 1)
    with pytest.raises(BadImage, match=r"^5 × 4 pixels, more than data.max_pixels = 19$"):
        decode(encode(picture), how(max_pixels=19))


def seeds():
    """A small valid file of every format, and of the odd variants of some."""
    import io

    rng = np.random.default_rng(7)
    colour = Image.fromarray(rng.integers(0, 256, (12, 9, 3), dtype=np.uint8))
    wide = Image.fromarray(rng.integers(0, 65536, (6, 6), dtype=np.uint16))
    exif = Image.Exif()
    exif[0x0112] = 6
    files = []
    for image, kind, options in [
        (colour, "JPEG", {"exif": exif}),
        (colour, "JPEG", {"progressive": True}),
        (colour.convert("CMYK"), "JPEG", {}),
        (colour, "PNG", {}),
        (colour.convert("P"), "PNG", {"transparency": 3}),
        (wide, "PNG", {}),
        (colour, "WEBP", {}),
        (colour.convert("RGBA"), "WEBP", {"lossless": True}),
        (colour, "GIF", {"save_all": True, "append_images": [colour.rotate(90)]}),
        (colour, "BMP", {}),
        (colour, "TIFF", {"exif": exif}),
        (colour, "TIFF", {"compression": "tiff_lzw"}),
        (colour.convert("1"), "TIFF", {"compression": "group4"}),
        (wide, "TIFF", {}),
        (colour, "PPM", {}),
        (colour.convert("L"), "PPM", {}),
    ]:
        file = io.BytesIO()
        image.save(file, kind, **options)
        files.append(file.getvalue())
    return files


SEEDS = seeds()


def test_every_seed_is_valid_and_of_a_format_on_the_list():
    assert {sniff(data) for data in SEEDS} == {"JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"}
    for data in SEEDS:
        assert decode(data, how(8)).shape in ((8, 8, 1), (8, 8, 3))


def outcome(data):
    try:
        return decode(data, how(8, max_pixels=100_000)).tobytes()
    except BadImage as bad:
        return bad.reason


def survives(data):
    """Decoded to the right shape, or refused with one clean line; the same both times."""
    first, second = outcome(data), outcome(data)
    assert first == second
    if isinstance(first, str):
        assert first
        assert first.isprintable()
        assert "0x" not in first
    else:
        assert len(first) in (64, 192)


@pytest.mark.filterwarnings("ignore")
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=8),
    st.floats(0, 1),
)
@settings(deadline=None, max_examples=200)
def test_mutated_and_truncated_files_are_decoded_or_reported(data, changes, kept):
    mutant = bytearray(data)
    for place, value in changes:
        mutant[int(place * len(mutant))] = value
    survives(bytes(mutant[: int(len(mutant) * max(kept, 0.05))]) if kept < 0.7 else bytes(mutant))


@pytest.mark.filterwarnings("ignore")
@given(st.sampled_from(SEEDS), st.binary(max_size=60))
@settings(deadline=None, max_examples=50)
def test_noise_behind_a_valid_beginning_is_decoded_or_reported(data, noise):
    survives(data[:30] + noise)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", range(len(SEEDS)))
def test_a_truncated_file_of_every_format_is_reported(row):
    with pytest.raises(BadImage, match=r"^[^\n]+$"):
        decode(SEEDS[row][: len(SEEDS[row]) * 35 // 100], how(8))
