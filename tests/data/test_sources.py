from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from reliant import data
from reliant.data.sources.base import BadImage, unique
from reliant.errors import DataError, UsageError


class Dataset:
    """Items of any kind, as a torch data set has them."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Tensor:
    """What torch gives: channels first, an array on request."""

    def __init__(self, picture):
        self.picture = np.moveaxis(picture, 2, 0)

    def __array__(self, dtype=None, copy=None):
        return self.picture


def test_every_kind_of_source_gives_the_same_pixels(tmp_path, pictures, settings, encode, write_folder, write_parquet):
    files = [encode(picture) for picture in pictures]
    paths = [f"{row:02d}.png" for row in range(6)]
    folder = write_folder(tmp_path / "photos", pictures)
    np.save(tmp_path / "a.npy", np.stack(pictures))
    np.savez(tmp_path / "b.npz", images=np.stack(pictures), labels=np.arange(6))
    np.savez_compressed(tmp_path / "c.npz", only=np.stack(pictures))
    write_parquet(tmp_path / "d.parquet", files, paths)
    write_parquet(tmp_path / "e.parquet", files)
    write_parquet(tmp_path / "shards" / "x-0.parquet", files[:3], paths[:3])
    write_parquet(tmp_path / "shards" / "x-1.parquet", files[3:], paths[3:])
    held = [Image.fromarray(picture) for picture in pictures]
    specs = [
        str(folder),
        folder,
        *(tmp_path / name for name in ("a.npy", "b.npz", "c.npz", "d.parquet", "e.parquet", "shards")),
        np.stack(pictures),
        np.asfortranarray(np.stack(pictures)),
        [folder / path for path in paths],
        held,
        pictures,
        Dataset([(image, 3) for image in held]),
        Dataset([{"label": 3, "image": image} for image in held]),
        Dataset([{"image": {"bytes": one, "path": None}} for one in files]),
        Dataset([(Tensor(picture), 3) for picture in pictures]),
        Dataset(files),
    ]
    expected = None
    for spec in specs:
        images, quarantine = data.load_images(data.open_source(spec), settings())
        assert len(quarantine) == 0
        assert images.pixels.shape == (6, 16, 16, 3)
        expected = images.pixels if expected is None else expected
        np.testing.assert_array_equal(images.pixels, expected)


def test_same_ids_and_pixels_are_one_digest_whatever_the_source(
    tmp_path, pictures, settings, encode, write_folder, write_parquet
):
    folder = write_folder(tmp_path / "photos", pictures)
    shard = write_parquet(tmp_path / "d.parquet", [encode(one) for one in pictures], [f"{row:02d}.png" for row in range(6)])
    first, _ = data.load_images(data.open_source(folder), settings())
    second, _ = data.load_images(data.open_source(shard), settings())
    assert first.ids == second.ids
    assert first.digest == second.digest


def test_grey_arrays_with_and_without_a_channel_axis_are_the_same(pictures, settings):
    grey = np.stack(pictures)[..., 0]
    plain, _ = data.load_images(data.open_source(grey), settings())
    with_axis, _ = data.load_images(data.open_source(grey[..., None]), settings())
    assert plain.pixels.shape == (6, 16, 16, 1)
    assert plain.digest == with_axis.digest


def test_a_folder_is_listed_by_posix_path_without_hidden_and_other_files(tmp_path, encode):
    picture = encode(np.zeros((2, 2), np.uint8))
    names = [
        "b/2.PNG",
        "b/1.jpeg",
        "a-b/x.png",
        "a/x.png",
        "ü.tif",
        "z.png",
        ".hidden.png",
        ".git/x.png",
        "notes.txt",
        "b/.x/y.png",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(picture)
    os.mkfifo(tmp_path / "pipe.png")
    assert data.open_source(tmp_path).ids == ["a-b/x.png", "a/x.png", "b/1.jpeg", "b/2.PNG", "z.png", "ü.tif"]


def test_linked_folders_are_entered_once_and_loops_end(tmp_path, encode):
    picture = encode(np.zeros((2, 2), np.uint8))
    root = tmp_path / "root"
    for place in (root / "real", tmp_path / "outside"):
        place.mkdir(parents=True)
        (place / "x.png").write_bytes(picture)
    (root / "real" / "loop").symlink_to(root)
    (root / "again").symlink_to(root / "real")
    (root / "far").symlink_to(tmp_path / "outside")
    (root / "far-again").symlink_to(tmp_path / "outside")
    (root / "file.png").symlink_to(root / "real" / "x.png")
    assert data.open_source(root).ids == ["far/x.png", "file.png", "real/x.png"]


def test_a_link_that_leads_nowhere_is_reported(tmp_path, pictures, settings, write_folder):
    folder = write_folder(tmp_path / "photos", pictures)
    (folder / "lost.png").symlink_to(tmp_path / "nowhere.png")
    images, quarantine = data.load_images(data.open_source(folder), settings())
    assert len(images) == 6
    assert quarantine.ids == ["lost.png"]
    assert quarantine.reasons == ["cannot be read: No such file or directory"]


def test_names_that_are_no_utf8_have_ids_and_are_read(tmp_path, pictures, settings, encode):
    folder = os.fsencode(tmp_path)
    for name, picture in zip([b"\xff.png", b"\\xff.png"], pictures):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(encode(picture))
    source = data.open_source(tmp_path)
    assert source.ids == ["\\xff.png", "\\xff.png#2"]
    images, quarantine = data.load_images(source, settings())
    assert len(images) == 2
    assert len(quarantine) == 0
    assert not np.array_equal(images.pixels[0], images.pixels[1])


def test_a_file_that_changed_or_became_a_pipe_after_listing_is_bad(tmp_path, pictures, write_folder):
    source = data.open_source(write_folder(tmp_path / "photos", pictures))
    (tmp_path / "photos" / "00.png").write_bytes(b"something else")
    (tmp_path / "photos" / "01.png").unlink()
    os.mkfifo(tmp_path / "photos" / "01.png")
    with pytest.raises(BadImage, match=r"^changed after it was listed$"):
        source.read(0)
    with pytest.raises(BadImage, match=r"^not a regular file$"):
        source.read(1)


def test_a_folder_of_paths_has_the_paths_as_ids(tmp_path, pictures, settings, write_folder):
    folder = write_folder(tmp_path / "photos", pictures)
    first = str(folder / "00.png")
    source = data.open_source([first, folder / "01.png", first])
    assert source.ids == [first, str(folder / "01.png"), first + "#2"]
    assert len(data.load_images(source, settings())[0]) == 3


@pytest.mark.parametrize(
    ("paths", "ids"),
    [
        (["a.png", "b.png", "c.png"], ["a.png", "b.png", "c.png"]),
        (["a.png", "a.png", "c.png"], ["t.parquet:0", "t.parquet:1", "t.parquet:2"]),
        (["a.png", "", "c.png"], ["t.parquet:0", "t.parquet:1", "t.parquet:2"]),
        (["a.png", None, "c.png"], ["t.parquet:0", "t.parquet:1", "t.parquet:2"]),
        (None, ["t.parquet:0", "t.parquet:1", "t.parquet:2"]),
    ],
)
def test_ids_of_parquet_are_paths_where_all_are_there_and_differ(tmp_path, pictures, encode, write_parquet, paths, ids):
    file = write_parquet(tmp_path / "t.parquet", [encode(picture) for picture in pictures[:3]], paths)
    assert data.open_source(file).ids == ids


def test_rows_of_parquet_are_read_in_any_order_across_groups_and_shards(tmp_path, pictures, encode, write_parquet):
    files = [encode(picture) for picture in pictures]
    write_parquet(tmp_path / "s" / "b.parquet", files[3:])
    write_parquet(tmp_path / "s" / "a.parquet", files[:3])
    source = data.open_source(tmp_path / "s")
    assert source.ids == ["a.parquet:0", "a.parquet:1", "a.parquet:2", "b.parquet:0", "b.parquet:1", "b.parquet:2"]
    for row in (5, 0, 3, 2, 4, 1):
        assert source.read(row) == files[row]


def test_an_empty_row_group_and_an_empty_cell_are_survived(tmp_path, pictures, settings, encode, write_parquet):
    file = write_parquet(tmp_path / "t.parquet", [encode(pictures[0]), None, encode(pictures[1]), b""], ["a", "b", "c", "d"])
    images, quarantine = data.load_images(data.open_source(file), settings())
    assert images.ids == ["a", "c"]
    assert quarantine.reasons == ["the row holds no image bytes", "not an image: it is empty"]


def test_a_damaged_row_group_costs_its_own_rows_only(tmp_path, pictures, settings, encode, write_parquet):
    import pyarrow.parquet as pq

    file = write_parquet(tmp_path / "t.parquet", [encode(picture) for picture in pictures])
    chunk = pq.ParquetFile(file).metadata.row_group(1).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    damaged = bytearray(file.read_bytes())
    damaged[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    file.write_bytes(damaged)
    images, quarantine = data.load_images(data.open_source(file), settings())
    assert images.ids == ["t.parquet:0", "t.parquet:1", "t.parquet:4", "t.parquet:5"]
    assert quarantine.reasons == ["its row group is damaged"] * 2


def test_an_item_that_raises_is_left_out(pictures, settings):
    class Failing(Dataset):
        def __getitem__(self, index):
            if index == 1:
                raise RuntimeError("no\nsuch picture")
            return self.items[index]

    images, quarantine = data.load_images(data.open_source(Failing(pictures)), settings())
    assert images.ids == ["0", "2", "3", "4", "5"]
    assert quarantine.reasons == ["the data set raised RuntimeError: no such picture"]


def test_names_serve_as_names_of_runs(tmp_path, pictures, encode, write_folder, write_parquet, monkeypatch):
    folder = write_folder(tmp_path / "photos", pictures)
    monkeypatch.chdir(folder)
    assert data.open_source(".").name == "photos"
    assert data.open_source(str(folder) + "/").name == "photos"
    assert data.open_source(write_parquet(tmp_path / "t.parquet", [encode(pictures[0])])).name == "t"
    assert data.open_source(pictures).name == "images"
    assert data.open_source("fashion-mnist-sample").name == "fashion-mnist-sample"
    assert data.open_source("fashion-mnist-sample:test").name == "fashion-mnist-sample-test"


def test_spec_opens_the_same_source_again(tmp_path, pictures, write_folder, monkeypatch):
    write_folder(tmp_path / "photos", pictures)
    monkeypatch.chdir(tmp_path)
    source = data.open_source("photos")
    monkeypatch.chdir("/")
    assert data.open_source(source.spec).digest() == source.digest()
    test = data.open_source("fashion-mnist-sample:test")
    assert data.open_source(test.spec).ids == test.ids
    assert data.open_source(test) is test


def test_digest_follows_the_contents_not_the_place(tmp_path, pictures, encode, write_folder):
    folder = write_folder(tmp_path / "photos", pictures)
    before = data.open_source(folder).digest()
    folder.rename(tmp_path / "moved")
    assert data.open_source(tmp_path / "moved").digest() == before
    os.utime(tmp_path / "moved" / "03.png", ns=(1, 1))
    assert data.open_source(tmp_path / "moved").digest() != before
    array = np.stack(pictures)
    assert data.open_source(array).digest() == data.open_source(np.asfortranarray(array)).digest()
    changed = array.copy()
    changed[5, 3, 2, 1] ^= 1
    assert data.open_source(array).digest() != data.open_source(changed).digest()
    palettes = [Image.new("P", (2, 2)), Image.new("P", (2, 2))]
    palettes[0].putpalette([9, 9, 9])
    palettes[1].putpalette([8, 8, 8])
    assert data.open_source(palettes[:1]).digest() != data.open_source(palettes[1:]).digest()


@given(st.lists(st.sampled_from(["a", "a#2", "b", "a#3", "b#2"]), max_size=9))
@settings(deadline=None, max_examples=50)
def test_unique_ids_differ_and_keep_their_first_place(names):
    marked = unique(names)
    assert len(set(marked)) == len(names)
    assert all(after == before or after.startswith(before + "#") for before, after in zip(names, marked))
    assert all(marked[names.index(name)] == name for name in set(names) if "#" not in name)


FORMS = "a folder of images, .npy, .npz, .parquet, a folder of .parquet files, or a known name"


def test_paths_that_are_no_source_get_one_line(tmp_path, encode):
    (tmp_path / "empty").mkdir()
    (tmp_path / "film.mp4").write_bytes(b"x")
    (tmp_path / "one.png").write_bytes(encode(np.zeros((2, 2), np.uint8)))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    (tmp_path / "bad.npy").write_bytes(b"x")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04")
    os.mkfifo(tmp_path / "pipe")
    expected = {
        "empty": f"{tmp_path}/empty holds no images; looked in it and its sub-folders for .jpg, .png, .webp, .gif, .bmp, .tif, "
        ".ppm and .pgm files, and in it for .parquet files",
        "film.mp4": f"{tmp_path}/film.mp4 is of no type that is read ('.mp4'); a source is {FORMS}",
        "one.png": f"{tmp_path}/one.png is one image; give the folder that holds it and others",
        "nothing": f"no file or folder '{tmp_path}/nothing', and no data set of that name; known names: fashion-mnist-sample, "
        "fashion-mnist, cifar10, tiny-imagenet, stl10, imagenet, voc2007, voc2012",
        "pipe": f"{tmp_path}/pipe is neither a file nor a folder; a source is {FORMS}",
    }
    for name, message in expected.items():
        with pytest.raises(DataError) as error:
            data.open_source(tmp_path / name)
        assert str(error.value) == message
    for name in ("bad.parquet", "bad.npy", "bad.npz"):
        with pytest.raises(
            DataError, match=rf"^{tmp_path}/{name} is not a readable {name[3:].replace('.p', 'p')} file: [^\n]+$"
        ):
            data.open_source(tmp_path / name)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 4, 4), np.float32), "images: images in an array must be uint8, got float32; scale them to 0…255"),
        (np.zeros((2, 4), np.uint8), "images: an array of images is (N, H, W), (N, H, W, 1) or (N, H, W, 3), got (2, 4)"),
        (
            np.zeros((2, 4, 4, 2), np.uint8),
            "images: an array of images is (N, H, W), (N, H, W, 1) or (N, H, W, 3), got (2, 4, 4, 2)",
        ),
        (
            np.zeros((2, 3, 4, 4), np.uint8),
            "images: channels come last, (N, H, W, 1 or 3), got (2, 3, 4, 4); transpose with (0, 2, 3, 1)",
        ),
        (np.zeros((0, 4, 4), np.uint8), "images: the array holds no images, its shape is (0, 4, 4)"),
        (np.zeros((2, 0, 4), np.uint8), "images: images of no pixels, the array's shape is (2, 0, 4)"),
    ],
)
def test_arrays_that_are_no_images_get_one_line(array, message):
    with pytest.raises(DataError) as error:
        data.open_source(array)
    assert str(error.value) == message


def test_arrays_of_python_objects_are_not_read(tmp_path):
    np.save(tmp_path / "o.npy", np.asarray([{}], dtype=object), allow_pickle=True)
    with pytest.raises(
        DataError, match=r"o.npy is not a readable .npy file: only arrays of numbers are read, no Python objects$"
    ):
        data.open_source(tmp_path / "o.npy")


def test_an_npz_must_say_which_array_holds_the_images(tmp_path):
    np.savez(tmp_path / "two.npz", a=np.zeros(1), b=np.zeros(1))
    with pytest.raises(DataError, match=r"two.npz: the images must be the array 'images' or the only one; it holds a, b$"):
        data.open_source(tmp_path / "two.npz")


def test_parquet_without_a_clear_column_of_images_gets_one_line(tmp_path, encode, write_parquet):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"label": [1]}), tmp_path / "none.parquet")
    pq.write_table(pa.table({"x": [b"a"], "y": [b"b"]}), tmp_path / "two.parquet")
    pq.write_table(pa.table({"image": pa.array([], pa.binary())}), tmp_path / "empty.parquet")
    write_parquet(tmp_path / "mixed" / "a.parquet", [encode(np.zeros((2, 2), np.uint8))])
    pq.write_table(pa.table({"image": ["text"]}), tmp_path / "mixed" / "b.parquet")
    wanted = "'image' must be bytes or a struct of bytes and path, the columns are"
    expected = {
        "none.parquet": f"{tmp_path}/none.parquet: no column of images; {wanted} label (int64)",
        "two.parquet": f"{tmp_path}/two.parquet: several columns of bytes; {wanted} x (binary), y (binary)",
        "empty.parquet": f"{tmp_path}/empty.parquet: no rows, so no images",
        "mixed": f"{tmp_path}/mixed/b.parquet: column 'image' is not the binary that it is in a.parquet",
    }
    for name, message in expected.items():
        with pytest.raises(DataError) as error:
            data.open_source(tmp_path / name)
        assert str(error.value) == message


def test_calls_that_cannot_be_meant_are_usage_errors(tmp_path, pictures, write_folder):
    folder = write_folder(tmp_path / "photos", pictures)
    expected = [
        (
            (3,),
            f"a source is {FORMS}; or a uint8 array, a list of paths or images, "
            "or an object with __len__ and __getitem__; got int",
        ),
        (("",), f"a source is {FORMS}; got an empty text"),
        ((pictures, "test"), "split='test' goes with a known name or a folder of shards, got list"),
        ((folder, "test"), f"{folder} is a folder of images and has no split 'test'; give the sub-folder itself"),
        (
            ("fashion-mnist-sample:test", "train"),
            "'fashion-mnist-sample:test' asks for the split 'test' and split='train' for another; give one",
        ),
    ]
    for arguments, message in expected:
        with pytest.raises(UsageError) as error:
            data.open_source(*arguments)
        assert str(error.value) == message
    with pytest.raises(DataError, match=r"^no images: the list is empty$"):
        data.open_source([])


def test_importing_data_loads_no_heavy_library():
    import subprocess
    import sys

    code = (
        "import reliant.data, sys; print([m for m in ('torch', 'pyarrow', 'PIL', 'pydantic', 'filelock') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path("/"))
    assert found.stdout.strip() == "[]"
