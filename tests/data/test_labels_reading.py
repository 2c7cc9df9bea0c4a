from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant import data
from reliant.data.labels import _folders
from reliant.errors import DataError, UsageError

PICTURE = np.zeros((2, 2), np.uint8)


@pytest.fixture
def folder(tmp_path, encode):
    """cat/ and dog/ with two pictures each (one of them deeper), and one picture outside."""
    for name in ("cat/1.png", "cat/tabby/2.png", "dog/1.png", "dog/2.png", "stray.png"):
        (tmp_path / "pets" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pets" / name).write_bytes(encode(PICTURE))
    return tmp_path / "pets"


def test_folders_are_labels_where_asked(folder):
    source = data.open_source(folder)
    for how in ("auto", "folders"):
        labels = data.read_labels(source, how)
        assert source.ids == ["cat/1.png", "cat/tabby/2.png", "dog/1.png", "dog/2.png", "stray.png"]
        assert labels.values.tolist() == [0, 0, 1, 1, -1]
        assert labels.names == ["cat", "dog"]


def test_the_first_level_that_differs_counts():
    assert _folders(["train/a/images/1", "train/b/images/2"]).values == ["a", "b"]
    assert _folders(["train/a/1", "train/a/2"]) is None
    assert _folders(["1", "2"]) is None
    assert _folders(["a/1", "2"]) is None


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=3), min_size=1, max_size=8))
@settings(deadline=None, max_examples=50)
def test_labels_from_folders_equal_the_plain_rule(folders):
    found = _folders(["/".join([*parts, "x.png"]) for parts in folders])
    depth = 0
    while all(len(parts) > depth and parts[depth] == folders[0][depth] for parts in folders):
        depth += 1
    expected = [parts[depth] if len(parts) > depth else None for parts in folders]
    if len({label for label in expected if label}) < 2:
        assert found is None
    else:
        assert found.values == expected


def test_a_column_of_integers_keeps_its_numbers(tmp_path, encode, write_parquet):
    file = write_parquet(tmp_path / "t.parquet", [encode(PICTURE)] * 4, label=[3, -1, None, 0], other=["b", "a", None, "b"])
    labels = data.read_labels(data.open_source(file))
    assert labels.values.tolist() == [3, -1, -1, 0]
    assert labels.names == ["0", "1", "2", "3"]
    other = data.read_labels(data.open_source(file), "other")
    assert other.values.tolist() == [1, 0, -1, 1]
    assert other.names == ["a", "b"]


def test_large_integers_are_numbered_in_order(tmp_path, encode, write_parquet):
    file = write_parquet(tmp_path / "t.parquet", [encode(PICTURE)] * 3, label=[10**12, 7, 10**6])
    labels = data.read_labels(data.open_source(file))
    assert labels.values.tolist() == [2, 0, 1]
    assert labels.names == ["7", "1000000", "1000000000000"]


def test_names_come_from_the_schema_or_from_classes_txt(tmp_path, encode, write_parquet):
    file = write_parquet(tmp_path / "t.parquet", [encode(PICTURE)] * 2, label=[1, 0])
    (tmp_path / "classes.txt").write_text("0\tn01\tcat\n1\tn02\tdog\n")
    assert data.read_labels(data.open_source(file)).names == ["cat", "dog"]
    (tmp_path / "classes.txt").write_text("big cat\nsmall dog\n")
    assert data.read_labels(data.open_source(file)).names == ["big cat", "small dog"]
    (tmp_path / "classes.txt").write_text("too few\n")
    assert data.read_labels(data.open_source(file)).names == ["0", "1"]
    table = pq.read_table(file)
    features = {"info": {"features": {"label": {"names": ["ant", "bee"], "_type": "ClassLabel"}}}}
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), file)
    assert data.read_labels(data.open_source(file)).names == ["ant", "bee"]


def test_npz_datasets_and_sequences_have_labels(tmp_path):
    pictures = np.zeros((3, 2, 2), np.uint8)
    np.savez(tmp_path / "t.npz", images=pictures, labels=[2, 0, 1], fine=["x", "y", "x"])
    source = data.open_source(tmp_path / "t.npz")
    assert data.read_labels(source).values.tolist() == [2, 0, 1]
    assert data.read_labels(source, "fine").names == ["x", "y"]
    pairs = [(PICTURE, 2), (PICTURE, np.int64(0)), (PICTURE, 1)]
    assert data.read_labels(data.open_source(pairs)).values.tolist() == [2, 0, 1]
    rows = [{"image": PICTURE, "label": "b", "age": 7}, {"image": PICTURE, "label": "a", "age": 9}]
    assert data.read_labels(data.open_source(rows)).values.tolist() == [1, 0]
    assert data.read_labels(data.open_source(rows), "age").values.tolist() == [7, 9]
    assert data.read_labels(data.open_source(pictures), [1, 0, 1]).values.tolist() == [1, 0, 1]
    assert data.read_labels(data.open_source(pictures), np.asarray(["b", "a", "b"])).names == ["a", "b"]


def test_targets_of_a_torch_data_set_need_no_image():
    class Dataset:
        targets = [1, 0]  # noqa: RUF012
        classes = ["cat", "dog"]  # noqa: RUF012

        def __len__(self):
            return 2

        def __getitem__(self, index):
            raise AssertionError("an image was read for its label")

    labels = data.read_labels(data.open_source(Dataset()))
    assert labels.values.tolist() == [1, 0]
    assert labels.names == ["cat", "dog"]


def test_a_table_of_labels(tmp_path, folder):
    source = data.open_source(folder)
    (tmp_path / "a.csv").write_text("note,id,label\nx,dog/1.png,7\ny,cat/1.png,-1\nz,elsewhere.png,9\n")
    assert data.read_labels(source, tmp_path / "a.csv").values.tolist() == [-1, -1, 7, -1, -1]
    (tmp_path / "b.csv").write_text('\ufeffid,label\r\ndog/1.png,"a, b"\r\ncat/1.png,7\r\nstray.png,\r\n', encoding="utf-8")
    labels = data.read_labels(source, str(tmp_path / "b.csv"))
    assert labels.values.tolist() == [0, -1, 1, -1, -1]
    assert labels.names == ["7", "a, b"]


def test_labels_follow_the_images_that_are_left(folder, settings):
    (folder / "cat" / "1.png").write_bytes(b"bad")
    (folder / "aaa").mkdir()
    (folder / "aaa" / "1.png").write_bytes(b"bad too")
    source = data.open_source(folder)
    images, _ = data.load_images(source, settings())
    labels = data.read_labels(source, ids=images.ids)
    assert images.ids == ["cat/tabby/2.png", "dog/1.png", "dog/2.png", "stray.png"]
    assert labels.values.tolist() == [0, 1, 1, -1]
    assert labels.names == ["cat", "dog"]
    assert data.read_labels(source, ids=images.ids[::-1]).values.tolist() == [-1, 1, 1, 0]


def test_a_test_split_is_numbered_like_its_training_split():
    pictures = np.zeros((3, 2, 2), np.uint8)
    source = data.open_source(pictures)
    labels = data.read_labels(source, ["dog", "ant", "dog"], names=["cat", "dog", "ant"])
    assert labels.values.tolist() == [1, 2, 1]
    assert labels.names == ["cat", "dog", "ant"]
    with pytest.raises(DataError, match=r"^images: 1 classes are not among the 2 asked for: \['dog'\]$"):
        data.read_labels(source, ["dog", "ant", "dog"], names=["cat", "ant"])


def test_the_column_of_labels_is_never_opened_for_images(tmp_path, settings, encode, write_parquet):
    """Its bytes in the file are destroyed: whoever reads them fails."""
    rng = np.random.default_rng(0)
    images = [encode(rng.integers(0, 256, (4, 4), dtype=np.uint8)) for _ in range(6)]
    file = write_parquet(tmp_path / "t.parquet", images, list("abcdef"), label=[0, 1, 2, 3, 4, 5])
    damaged = bytearray(file.read_bytes())
    metadata = pq.ParquetFile(file).metadata
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(2)
        assert chunk.path_in_schema == "label"
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        damaged[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    file.write_bytes(damaged)
    source = data.open_source(file)
    loaded, quarantine = data.load_images(source, settings(size=4))
    assert (loaded.ids, len(quarantine)) == (list("abcdef"), 0)
    with pytest.raises(DataError, match=r"t.parquet: column 'label' cannot be read: [^\n]+$"):
        data.read_labels(source)


def test_opening_and_decoding_call_for_no_label(pictures, settings, monkeypatch, encode, write_parquet, write_folder, tmp_path):
    from reliant.data.sources import base
    from reliant.data.sources.arrays import Pixels
    from reliant.data.sources.items import Items
    from reliant.data.sources.parquet import Parquet

    def refuse(self, column):
        raise AssertionError("a label was asked for")

    for kind in (base.Source, Pixels, Items, Parquet):
        monkeypatch.setattr(kind, "labels", refuse)
    np.savez(tmp_path / "t.npz", images=np.stack(pictures), labels=np.arange(6))
    file = write_parquet(tmp_path / "t.parquet", [encode(picture) for picture in pictures], label=[1] * 6)
    for spec in (tmp_path / "t.npz", file, write_folder(tmp_path / "f", pictures), [(picture, 1) for picture in pictures]):
        data.load_images(data.open_source(spec), settings())


def test_what_is_no_label_gets_one_line(tmp_path, folder, encode, write_parquet):
    source = data.open_source(folder)
    flat = data.open_source(np.zeros((2, 2, 2), np.uint8))
    (tmp_path / "columns.csv").write_text("name,class\n")
    (tmp_path / "others.csv").write_text("id,label\nx,1\n")
    odd = data.open_source(
        write_parquet(tmp_path / "t.parquet", [encode(PICTURE)] * 2, label=pa.array([0.5, 1.5]), empty=[None, -1])
    )
    expected = [
        (
            source,
            "species",
            UsageError,
            "pets has no column of labels 'species'; labels are auto, folders, a column, or a .csv file",
        ),
        (flat, "folders", DataError, "images: labels from folders need images in at least two sub-folders"),
        (
            flat,
            "auto",
            DataError,
            "images has no labels: no column 'label' and no two sub-folders; give a column or a .csv file (id,label)",
        ),
        (flat, [1, 2, 3], DataError, "images: 3 labels for 2 images"),
        (odd, "empty", DataError, "t: no image has a label"),
        (odd, "label", DataError, f"{tmp_path}/t.parquet: column 'label' must hold integers or texts, it holds double"),
        (source, "gone.csv", DataError, "gone.csv cannot be read as labels: No such file or directory"),
        (
            source,
            tmp_path / "columns.csv",
            DataError,
            f"{tmp_path}/columns.csv: the first line must name the columns id and label, it is 'name,class'",
        ),
        (
            source,
            tmp_path / "others.csv",
            DataError,
            f"{tmp_path}/others.csv labels no image of pets, whose ids look like 'cat/1.png'",
        ),
    ]
    for where, how, error, message in expected:
        with pytest.raises(error) as raised:
            data.read_labels(where, how)
        assert str(raised.value) == message
    with pytest.raises(DataError, match=r"^pets: 1 images are not in it, the first 'x'$"):
        data.read_labels(source, ids=["cat/1.png", "x"])


SHARED = Path("/work/shared/data")


@pytest.mark.skipif(not os.environ.get("RELIANT_DATA") and not SHARED.is_dir(), reason="no RELIANT_DATA")
def test_real_sets_have_their_class_names(monkeypatch):
    monkeypatch.setenv("RELIANT_DATA", os.environ.get("RELIANT_DATA") or str(SHARED))
    labels = data.read_labels(data.open_source("cifar10:test"))
    assert labels.names[:3] == ["airplane", "automobile", "bird"]
    assert np.bincount(labels.values).tolist() == [1000] * 10
