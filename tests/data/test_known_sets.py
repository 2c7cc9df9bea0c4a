from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from reliant import data
from reliant.data import known
from reliant.errors import DataError

# The data for development of this machine; elsewhere whatever RELIANT_DATA names.
REAL = Path(os.environ.get("RELIANT_DATA") or "/work/shared/data")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("RELIANT_DATA", str(tmp_path / "sets"))
    (tmp_path / "sets").mkdir()
    return tmp_path / "sets"


@pytest.fixture
def shard(encode, write_parquet):
    """A parquet file of as many images of one shade."""

    def make(file, shade, count=2):
        return write_parquet(file, [encode(np.full((4, 4), shade, np.uint8))] * count, label=[0] * count)

    return make


def ids(spec, split=None):
    return data.open_source(spec, split).ids


def test_a_name_is_its_training_split(root, shard):
    shard(root / "cifar10" / "train-1.parquet", 1)
    shard(root / "cifar10" / "train-0.parquet", 0, 1)
    shard(root / "cifar10" / "val.parquet", 2, 1)
    assert ids("cifar10") == ids("cifar10:train") == ["train-0.parquet:0", "train-1.parquet:0", "train-1.parquet:1"]
    assert ids("cifar10:test") == ids("cifar10", "test") == ids("cifar10:val") == ["val.parquet:0"]
    shard(root / "cifar10" / "test.parquet", 3, 1)
    assert ids("cifar10:test") == ["test.parquet:0"]
    assert ids("cifar10:val") == ["val.parquet:0"]
    source = data.open_source("cifar10:test")
    assert (source.dataset, source.split, source.name, source.spec) == ("cifar10", "test", "cifar10-test", "cifar10:test")


def test_an_unknown_folder_beside_them_and_one_elsewhere_have_splits_too(root, shard, tmp_path):
    for place in (root / "mine", tmp_path / "elsewhere"):
        shard(place / "train.parquet", 1)
        shard(place / "test.parquet", 2, 1)
        shard(place / "unlabelled.parquet", 3, 3)
    assert len(ids("mine")) == 2
    assert len(ids("mine:unlabelled")) == 3
    assert len(ids(tmp_path / "elsewhere")) == 2
    assert len(ids(tmp_path / "elsewhere", "test")) == 1
    assert len(ids(f"{tmp_path}/elsewhere:test")) == 1
    assert data.open_source(f"{tmp_path}/elsewhere:test").name == "elsewhere-test"
    reopened = data.open_source(data.open_source(tmp_path / "elsewhere", "test").spec)
    assert reopened.ids == ["test.parquet:0"]


def test_shards_in_data_and_shards_without_splits(tmp_path, shard):
    shard(tmp_path / "hub" / "data" / "train-00000-of-00001.parquet", 1)
    shard(tmp_path / "plain" / "part-0.parquet", 1)
    shard(tmp_path / "plain" / "part-1.parquet", 1)
    assert len(ids(tmp_path / "hub")) == 2
    assert len(ids(tmp_path / "plain")) == 4


def test_a_known_name_comes_before_a_path_and_a_path_before_an_unknown_one(root, shard, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("cifar10", "mine"):
        shard(tmp_path / name / "train.parquet", 1, 1)
    assert len(ids("cifar10")) == 1
    for name in ("cifar10", "mine"):
        shard(root / name / "train.parquet", 2, 2)
    assert len(ids("cifar10")) == 2
    assert len(ids("./cifar10")) == 1
    assert len(ids(Path("cifar10"))) == 1
    assert len(ids("mine")) == 1


def test_the_test_split_of_a_name_or_none(root, shard, tmp_path, write_folder, pictures):
    shard(root / "cifar10" / "train.parquet", 1)
    shard(root / "cifar10" / "test.parquet", 2, 1)
    shard(root / "stl10" / "train.parquet", 1)
    for spec in ("cifar10", "cifar10:train", root / "cifar10", data.open_source("cifar10")):
        assert data.test_source(spec).ids == ["test.parquet:0"]
    folder = write_folder(tmp_path / "photos", pictures)
    held = data.open_source(pictures)
    for spec in ("cifar10:test", "stl10", "imagenet", "nothing", folder, held, pictures, ""):
        assert data.test_source(spec) is None
    assert data.test_source("fashion-mnist-sample").name == "fashion-mnist-sample-test"


def test_absent_names_say_what_to_put_where(root, monkeypatch):
    about = "50,000 + 10,000 images of 32 px (Hugging Face: uoft-cs/cifar10)"
    wanted = f"put train*.parquet and test*.parquet there, with a column 'image': {about}"
    with pytest.raises(DataError) as error:
        data.open_source("cifar10:test")
    assert str(error.value) == f"cifar10 is not at $RELIANT_DATA/cifar10 ({root}/cifar10); {wanted}"
    monkeypatch.delenv("RELIANT_DATA")
    with pytest.raises(DataError) as error:
        data.open_source("cifar10")
    assert str(error.value) == f"cifar10 is looked up in $RELIANT_DATA/cifar10, and RELIANT_DATA is not set; {wanted}"
    for name in known.KNOWN:
        if name != "fashion-mnist-sample":
            with pytest.raises(DataError, match=f"^{name} is looked up in "):
                data.open_source(name)


def test_misspelt_names_get_the_nearest(root):
    with pytest.raises(DataError) as error:
        data.open_source("cifar-10")
    assert str(error.value) == "no file or folder 'cifar-10', and no data set of that name; did you mean 'cifar10'?"


def test_other_layouts_are_named(root, shard):
    for number in range(1, 7):
        (root / "cifar10").mkdir(exist_ok=True)
        (root / "cifar10" / f"data_batch_{number}.bin").write_bytes(b"")
    (root / "voc2007" / "VOCdevkit").mkdir(parents=True)
    (root / "imagenet").mkdir()
    shard(root / "stl10" / "test.parquet", 1)
    tail = "; of named sets the parquet layout is read"
    batches = ", ".join(f"data_batch_{number}.bin" for number in range(1, 6))
    expected = {
        "cifar10": f"cifar10: no train*.parquet in {root}/cifar10, found {batches}, … (6 entries){tail}",
        "voc2007": f"voc2007: no train*.parquet in {root}/voc2007, found VOCdevkit/{tail}",
        "imagenet": f"imagenet: no train*.parquet in {root}/imagenet, found nothing{tail}",
        "imagenet:test": f"imagenet: no test*.parquet or val*.parquet in {root}/imagenet, found nothing{tail}",
        "stl10": f"stl10: no train*.parquet in {root}/stl10, found test.parquet{tail}",
    }
    for spec, message in expected.items():
        with pytest.raises(DataError) as error:
            data.open_source(spec)
        assert str(error.value) == message


@pytest.mark.parametrize(("split", "count"), [("train", 8000), ("test", 4000)])
def test_the_embedded_sample(settings, split, count):
    source = data.open_source("fashion-mnist-sample", split)
    images, quarantine = data.load_images(source, settings(size=28))
    labels = data.read_labels(source, ids=images.ids)
    assert len(quarantine) == 0
    assert images.pixels.shape == (count, 28, 28, 1)
    assert np.bincount(labels.values).tolist() == [count // 10] * 10
    assert labels.names == known.class_names(known.EMBEDDED / "fashion-mnist-sample")
    assert labels.names[9] == "Ankle boot"
    assert len(np.unique(images.pixels.reshape(count, -1), axis=0)) > 0.99 * count
    # Trousers are narrow, pullovers wide: labels and pixels belong together.
    widths = [(images.pixels[labels.values == one, 14] > 0).sum(axis=1).mean() for one in (1, 2)]
    assert widths[0] < 0.75 * widths[1]


def test_the_embedded_sample_is_small_and_says_where_it_is_from():
    place = known.EMBEDDED / "fashion-mnist-sample"
    assert sum(file.stat().st_size for file in place.iterdir()) < 6_000_000
    provenance = (place / "PROVENANCE.md").read_text()
    for name in ("train.parquet", "test.parquet"):
        assert hashlib.sha256((place / name).read_bytes()).hexdigest() in provenance
        assert pq.read_schema(place / name).names == ["image", "label"]
        assert str(pq.read_schema(place / name).field("label").type) == "int32"
    assert "Copyright (c) 2017 Zalando SE" in (place / "LICENSE").read_text()


@pytest.mark.parametrize(
    ("spec", "size", "count"),
    [("cifar10:test", 32, 10_000), ("stl10-sample:test", 48, 800), ("stl10-sample:unlabelled", 96, 201)],
)
def test_real_sets(monkeypatch, settings, spec, size, count):
    if not (REAL / spec.split(":")[0]).is_dir():
        pytest.skip(f"{spec} is not under {REAL}")
    monkeypatch.setenv("RELIANT_DATA", str(REAL))
    images, quarantine = data.load_images(data.open_source(spec), settings(size=size))
    assert images.pixels.shape == (count, size, size, 3)
    assert len(quarantine) == 0
    assert images.pixels.reshape(count, -1).std(axis=1).min() > 0
