from __future__ import annotations

import errno
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from PIL import Image

from reliant import data
from reliant.config import Data
from reliant.data import cache
from reliant.data.pixelmap import PixelMap
from reliant.data.sources import folder as folder_module
from reliant.data.sources.base import BadImage, Source
from reliant.errors import DataError, StorageError


def add_bad_files(folder, encode):
    """Four files that are no images, before, between and after the good ones."""
    whole = encode(np.random.default_rng(9).integers(0, 256, (30, 30, 3), dtype=np.uint8))
    (folder / "000.png").write_bytes(b"")
    (folder / "02-cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "03-text.jpg").write_bytes(b"hello")
    (folder / "99.gif").symlink_to(folder / "nowhere")
    return ["000.png", "02-cut.png", "03-text.jpg", "99.gif"]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_bad_files_change_nothing_for_the_others(tmp_path, pictures, settings, encode, write_folder, workers):
    clean = write_folder(tmp_path / "clean", pictures)
    dirty = write_folder(tmp_path / "dirty", pictures)
    bad = add_bad_files(dirty, encode)
    expected, nothing = data.load_images(data.open_source(clean), settings(workers=workers))
    images, quarantine = data.load_images(data.open_source(dirty), settings(workers=workers))
    assert images.ids == expected.ids
    assert images.digest == expected.digest
    np.testing.assert_array_equal(images.pixels, expected.pixels)
    assert len(nothing) == 0
    assert quarantine.ids == bad
    assert quarantine.reasons == [
        "not an image: it is empty",
        "PNG that cannot be decoded: image file is truncated",
        "not an image: its first bytes are of none of JPEG, PNG, WebP, GIF, BMP, TIFF, PPM",
        "cannot be read: No such file or directory",
    ]


def test_the_number_of_workers_changes_no_bit(tmp_path, settings, encode):
    rng = np.random.default_rng(3)
    for row in range(150):
        picture = rng.integers(0, 256, rng.integers(1, 40, 2).tolist() + [3] * int(row % 3 > 0), dtype=np.uint8)
        (tmp_path / f"{row}.png").write_bytes(encode(picture) if row % 7 else b"bad")
    results = []
    for workers in (0, 1, 2, 5):
        results.append(data.load_images(data.open_source(tmp_path), settings(workers=workers)))
        assert cache.clear() > 0
    first, bad = results[0]
    assert len(bad) == 22
    for images, quarantine in results[1:]:
        assert images.digest == first.digest
        assert images.ids == first.ids
        assert quarantine == bad


def test_a_second_call_decodes_nothing(tmp_path, pictures, settings, write_folder, monkeypatch):
    folder = write_folder(tmp_path / "photos", pictures)
    (folder / "x.png").write_bytes(b"bad")
    first, bad = data.load_images(data.open_source(folder), settings())
    monkeypatch.setattr(cache, "decoded", None)
    second, also_bad = data.load_images(data.open_source(folder), settings(workers=0, max_bad=0.3))
    assert second.digest == first.digest
    assert second.ids == first.ids
    assert also_bad == bad
    np.testing.assert_array_equal(second.pixels, first.pixels)


def test_pixels_are_a_read_only_map(pictures, settings):
    for _ in range(2):
        images, _ = data.load_images(data.open_source(pictures), settings())
        assert isinstance(images.pixels, np.memmap)
        assert not images.pixels.flags.writeable


@pytest.mark.parametrize("keys", [{"size": 15}, {"channels": "1"}, {"max_pixels": 10_000}])
def test_another_preprocessing_is_another_entry(pictures, settings, keys):
    data.load_images(data.open_source(pictures), settings())
    data.load_images(data.open_source(pictures), settings(**keys))
    data.load_images(data.open_source(pictures), settings(**keys, workers=2, max_bad=0.9))
    assert len(cache.entries()) == 2


def test_changed_files_are_decoded_again(tmp_path, pictures, settings, encode, write_folder):
    folder = write_folder(tmp_path / "photos", pictures)
    before, _ = data.load_images(data.open_source(folder), settings())
    (folder / "00.png").write_bytes(encode(pictures[0][::-1]))
    after, _ = data.load_images(data.open_source(folder), settings())
    assert before.digest != after.digest
    np.testing.assert_array_equal(before.pixels[1:], after.pixels[1:])


def test_what_could_not_be_read_once_is_tried_again(tmp_path, pictures, settings, write_folder, monkeypatch):
    folder = write_folder(tmp_path / "photos", pictures)

    def refuse(path, state=None):
        if str(path).endswith("02.png"):
            raise BadImage("cannot be read: Permission denied", unreadable=True)
        return read_file(path, state)

    read_file = folder_module.read_file
    monkeypatch.setattr(folder_module, "read_file", refuse)
    images, quarantine = data.load_images(data.open_source(folder), settings())
    assert (len(images), quarantine.ids) == (5, ["02.png"])
    monkeypatch.setattr(folder_module, "read_file", read_file)
    images, quarantine = data.load_images(data.open_source(folder), settings())
    assert (len(images), quarantine.ids) == (6, [])


@given(st.lists(st.sampled_from(["grey", "colour", "bad"]), min_size=1, max_size=9), st.sampled_from(["auto", "1", "3"]))
@hypothesis_settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_channels_follow_the_good_images(settings, kinds, channels):
    rng = np.random.default_rng(len(kinds))
    values = [rng.integers(0, 256, (4, 4), dtype=np.uint8) for _ in kinds]
    pictures = {"grey": lambda one: one, "colour": lambda one: np.stack([one, one, 255 - one], axis=2), "bad": lambda one: b""}
    items = [pictures[kind](value) for kind, value in zip(kinds, values)]
    good = [kind for kind in kinds if kind != "bad"]
    assume(good)
    images, _ = data.load_images(data.open_source(items), settings(size=4, channels=channels, max_bad=1.0), minimum=1)
    wide = channels == "3" or (channels == "auto" and "colour" in good)
    assert images.pixels.shape == (len(good), 4, 4, 3 if wide else 1)
    kept = [value for kind, value in zip(kinds, values) if kind != "bad"]
    for kind, value, pixels in zip(good, kept, images.pixels):
        if kind == "grey":
            np.testing.assert_array_equal(pixels, np.repeat(value[..., None], 3 if wide else 1, axis=2))
        elif wide:
            np.testing.assert_array_equal(pixels, np.stack([value, value, 255 - value], axis=2))


def test_digest_covers_ids_and_pixels(pictures, settings, encode, write_parquet, tmp_path):
    files = [encode(picture) for picture in pictures[:2]]
    digests = set()
    for row, (images, paths) in enumerate([(files, ["a", "b"]), (files, ["a", "c"]), (files[::-1], ["a", "b"])]):
        file = write_parquet(tmp_path / f"{row}.parquet", images, paths)
        digests.add(data.load_images(data.open_source(file), settings())[0].digest)
    assert len(digests) == 3


def test_progress_counts_up_to_the_end(settings):
    calls = []
    source = data.open_source(np.zeros((150, 4, 4), np.uint8))
    data.load_images(source, settings(size=4), lambda done, total: calls.append((done, total)))
    assert calls == [(64, 150), (128, 150), (150, 150)]


def test_a_failing_progress_is_not_taken_for_the_disk(pictures, settings):
    def broken(done, total):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        data.load_images(data.open_source(pictures), settings(), broken)
    assert cache.entries() == []


TWO_BUILDERS = """
import sys
from reliant import data
from reliant.config import Data
calls = []
images, _ = data.load_images(data.open_source(sys.argv[1]), Data(size=16, workers=1), lambda done, total: calls.append(done))
print(images.digest, len(calls))
"""


def test_two_processes_build_one_cache(tmp_path, encode, cache_folder):
    rng = np.random.default_rng(0)
    for row in range(128):
        (tmp_path / f"{row}.png").write_bytes(encode(rng.integers(0, 256, (60, 60, 3), dtype=np.uint8)))
    command = [sys.executable, "-W", "error", "-c", TWO_BUILDERS, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [one.communicate(timeout=60)[0].split() for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert outputs[0][0] == outputs[1][0]
    assert sorted(int(output[1]) for output in outputs) == [0, 2]
    assert len(cache.entries()) == 1
    assert [place.name for place in cache_folder.iterdir() if place.name.startswith(".")] == []


def test_what_a_killed_build_left_is_replaced(pictures, settings, cache_folder):
    data.load_images(data.open_source(pictures), settings())
    (entry,) = cache.entries()
    left = cache_folder / f".building-{entry.key}"
    entry.path.rename(left)
    (left / "pixels.u8").write_bytes(b"half")
    images, _ = data.load_images(data.open_source(pictures), settings())
    assert len(images) == 6
    assert not left.exists()
    assert [one.key for one in cache.entries()] == [entry.key]


@pytest.mark.parametrize("damage", ["pixels.u8", "ids.parquet", "quarantine.parquet", "meta.json"])
@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_damaged_entry_is_built_again(pictures, settings, damage, how):
    before, _ = data.load_images(data.open_source(pictures), settings())
    expected = before.pixels.copy()
    (entry,) = cache.entries()
    file = entry.path / damage
    content = file.read_bytes()
    file.unlink()
    if how == "cut":
        file.write_bytes(content[: len(content) // 2])
    after, _ = data.load_images(data.open_source(pictures), settings())
    assert after.digest == before.digest
    np.testing.assert_array_equal(after.pixels, expected)
    assert file.read_bytes() == content


def test_an_entry_holds_raw_pixels_and_says_what_it_is(pictures, settings):
    images, _ = data.load_images(data.open_source(pictures), settings())
    (entry,) = cache.entries()
    assert entry.shape == (6, 16, 16, 3)
    assert entry.name == "images"
    assert (entry.path / "pixels.u8").read_bytes() == images.pixels.tobytes()
    assert entry.bytes == sum(file.stat().st_size for file in entry.path.iterdir())
    meta = json.loads((entry.path / "meta.json").read_text())
    assert meta["preprocessing"]["size"] == 16
    assert meta["preprocessing"]["decoder"].startswith("reliant ")
    assert meta["digest"] == images.digest


def test_clear_frees_what_entries_name_and_maps_stay_readable(pictures, settings):
    images, _ = data.load_images(data.open_source(pictures), settings())
    (entry,) = cache.entries()
    assert cache.clear() == entry.bytes
    assert cache.entries() == []
    assert cache.clear() == 0
    assert images.pixels.sum() > 0


def test_clear_leaves_what_is_being_built(pictures, settings):
    from filelock import FileLock

    data.load_images(data.open_source(pictures), settings())
    (entry,) = cache.entries()
    with FileLock(entry.path.with_name(f"{entry.key}.lock")):
        assert cache.clear() == 0
    assert cache.entries() == [entry]


def test_a_full_disk_is_named_and_leaves_nothing_half_done(pictures, settings, cache_folder, monkeypatch):
    put = PixelMap._put

    def full(self, pixels):
        if self.path.stat().st_size or self.count > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.count += 1
        put(self, pixels)

    monkeypatch.setattr(PixelMap, "count", 0, raising=False)
    monkeypatch.setattr(PixelMap, "_put", full)
    with pytest.raises(StorageError) as error:
        data.load_images(data.open_source(pictures), settings())
    (lock,) = cache_folder.iterdir()
    place = cache_folder / lock.stem
    assert str(error.value) == (
        f"the image cache {place} cannot be written: No space left on device; "
        "free space there or set RELIANT_CACHE to another folder"
    )
    monkeypatch.setattr(PixelMap, "_put", put)
    assert len(data.load_images(data.open_source(pictures), settings())[0]) == 6


def test_a_cache_that_cannot_be_made_is_named(tmp_path, pictures, settings, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("RELIANT_CACHE", str(tmp_path / "file"))
    with pytest.raises(StorageError, match=r"^the image cache .* cannot be written: Not a directory; free space there or set "):
        data.load_images(data.open_source(pictures), settings())


def test_more_bad_files_than_allowed_stop_the_run(pictures, settings):
    items = [*pictures[:2], b"", b"x", b"y", b"z"]
    bad = "not an image: its first bytes are of none of JPEG, PNG, WebP, GIF, BMP, TIFF, PPM"
    for _ in range(2):
        with pytest.raises(DataError) as error:
            data.load_images(data.open_source(items), settings())
        assert str(error.value) == (
            "images: 4 of 6 images are bad, more than data.max_bad = 0.5 allows; mend or remove them, or raise data.max_bad; "
            f"the first: 2: not an image: it is empty; 3: {bad}; 4: {bad}"
        )
    assert len(data.load_images(data.open_source(items), settings(max_bad=0.7))[0]) == 2
    assert len(data.load_images(data.open_source(items[1:4]), settings(max_bad=0.67), minimum=1)[0]) == 1


def test_exactly_the_allowed_share_is_allowed(pictures, settings):
    images, quarantine = data.load_images(data.open_source([*pictures[:2], b"", b""]), settings())
    assert (len(images), len(quarantine)) == (2, 2)


def test_too_few_images_stop_the_run(tmp_path, pictures, settings, write_folder):
    folder = write_folder(tmp_path / "photos", pictures[:1])
    with pytest.raises(DataError, match=r"^photos: 1 usable image, at least 2 are needed; add images$"):
        data.load_images(data.open_source(folder), settings())
    assert len(data.load_images(data.open_source(folder), settings(), minimum=1)[0]) == 1
    (folder / "x.png").write_bytes(b"")
    with pytest.raises(DataError) as error:
        data.load_images(data.open_source(folder), settings())
    assert str(error.value) == (
        "photos: 1 usable image, at least 2 are needed; left out: x.png: not an image: it is empty; add images"
    )


def test_no_good_image_at_all(settings):
    with pytest.raises(
        DataError, match=r"^images: 0 usable images, at least 2 are needed; left out: 0: not an image: it is empty; 1: "
    ):
        data.load_images(data.open_source([b"", b""]), settings(max_bad=1.0))
    with pytest.raises(DataError, match=r"^images: no image could be decoded$"):
        data.load_images(data.open_source([b"", b""]), settings(max_bad=1.0), minimum=0)


def test_pil_images_of_one_open_file_are_read(tmp_path, encode, settings):
    """They share a file position, so that two threads must not decode them at once."""
    frames = [Image.new("L", (8, 8), shade) for shade in range(0, 250, 10)]
    (tmp_path / "a.tif").write_bytes(encode(frames[0], "TIFF", save_all=True, append_images=frames[1:]))
    with Image.open(tmp_path / "a.tif") as opened:

        class Frames:
            def __len__(self):
                return len(frames)

            def __getitem__(self, index):
                opened.seek(index)
                return opened

        images, _ = data.load_images(data.open_source(Frames()), settings(size=8, workers=2))
    assert images.pixels[:, 3, 3, 0].tolist() == list(range(0, 250, 10))


class Numbered(Source):
    """A source that remembers how far it was read ahead of what was taken."""

    def __init__(self, count):
        super().__init__("numbered", [str(row) for row in range(count)])
        self.read_so_far = 0

    def read(self, index):
        self.read_so_far = index + 1
        return np.full((4, 4), index % 256, np.uint8)

    def digest(self):
        return "numbered"


def test_reading_ahead_is_bounded_and_ordered(settings):
    from reliant.data.decode import Preprocessing
    from reliant.data.decoding import decoded

    source = Numbered(5000)
    how = Preprocessing.of(Data(size=4))
    ahead = []
    for row, pixels in enumerate(decoded(source, how, 2)):
        assert pixels[0, 0, 0] == row % 256
        ahead.append(source.read_so_far - row)
    assert row == 4999
    assert max(ahead) <= 32 * 8
