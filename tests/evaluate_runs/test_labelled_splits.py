from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from reliant.config import Data
from reliant.errors import DataError
from reliant.evaluate.splits import _hold_out, open_splits
from tiny_runs import kinds, pictures

HOW = Data(size=12, workers=1)


def archive(file: Path, labels: np.ndarray, seed: int = 0) -> Path:
    np.savez(file, images=pictures(len(labels), seed=seed), labels=labels)
    return file


@given(st.lists(st.integers(-1, 3), max_size=60))
@settings(deadline=None, max_examples=50)
def test_a_fifth_of_every_class_is_held_out(values: list[int]) -> None:
    labels = np.array(values, dtype=np.int32)
    kept, held = _hold_out(labels)
    assert sorted([*kept, *held]) == np.flatnonzero(labels >= 0).tolist()
    assert (np.diff(kept) > 0).all()
    assert (np.diff(held) > 0).all()
    for value in range(4):
        count = int((labels == value).sum())
        assert (labels[held] == value).sum() == (count // 5 if count >= 5 else int(count > 1))


def test_the_fifth_is_the_same_for_every_run() -> None:
    first, second = _hold_out(kinds(40).astype(np.int32)), _hold_out(kinds(40).astype(np.int32))
    assert first[1].tolist() == second[1].tolist() == [1, 3, 12, 14, 21, 24, 26, 39]


def test_a_source_without_a_test_split_is_cut(tmp_path: Path) -> None:
    splits = open_splits(archive(tmp_path / "a.npz", kinds(40)), None, "auto", HOW)
    assert (splits.name, splits.split) == ("a", "held-out-fifth")
    assert splits.train.images is splits.test.images
    assert (len(splits.train.rows), len(splits.test.rows)) == (32, 8)
    assert splits.train.labels.tolist() == kinds(40)[splits.train.rows].tolist()
    assert np.bincount(splits.test.labels).tolist() == [2, 2, 2, 2]


def test_a_test_source_is_taken_whole(tmp_path: Path) -> None:
    train, test = archive(tmp_path / "a.npz", kinds(20)), archive(tmp_path / "b.npz", kinds(8), seed=1)
    splits = open_splits(train, test, "auto", HOW)
    assert (splits.name, splits.split) == ("a", "test")
    assert (splits.train.rows.tolist(), splits.test.rows.tolist()) == (list(range(20)), list(range(8)))
    assert len(splits.test.images) == 8


def test_a_test_source_is_read_in_the_channels_of_the_training_source(tmp_path: Path) -> None:
    np.savez(tmp_path / "colour.npz", images=pictures(20, channels=3), labels=kinds(20))
    splits = open_splits(tmp_path / "colour.npz", archive(tmp_path / "grey.npz", kinds(8)), "auto", HOW)
    assert splits.test.images.pixels.shape[3] == splits.train.images.pixels.shape[3] == 3


def test_folders_with_splits_bring_their_own_test_split(tmp_path: Path) -> None:

    def shard(name: str, count: int, seed: int) -> None:
        images = []
        for picture in pictures(count, seed=seed):
            file = io.BytesIO()
            Image.fromarray(picture[..., 0]).save(file, "PNG")
            images.append(file.getvalue())
        pq.write_table(pa.table({"image": pa.array(images, pa.binary()), "label": kinds(count)}), tmp_path / "set" / name)

    (tmp_path / "set").mkdir()
    shard("train-0.parquet", 20, 0)
    shard("test-0.parquet", 8, 1)
    splits = open_splits(tmp_path / "set", None, "auto", HOW)
    assert (splits.split, len(splits.train.rows), len(splits.test.rows)) == ("test", 20, 8)


def test_of_a_small_class_one_image_is_held_out(tmp_path: Path) -> None:
    splits = open_splits(archive(tmp_path / "a.npz", kinds(12)), None, "auto", HOW)
    assert (len(splits.train.rows), len(splits.test.rows)) == (8, 4)


def test_one_image_of_every_class_leaves_nothing_to_hold_out(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the test split has no labels"):
        open_splits(archive(tmp_path / "a.npz", kinds(4)), None, "auto", HOW)


def test_a_class_that_only_the_test_source_has(tmp_path: Path) -> None:
    train, test = archive(tmp_path / "a.npz", kinds(20) % 3), archive(tmp_path / "b.npz", kinds(8))
    with pytest.raises(DataError, match=r"is in the test split \(2 images\) but not in the training split"):
        open_splits(train, test, "auto", HOW)
