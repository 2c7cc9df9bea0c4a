"""Labels never reach a fit: whatever stands beside the images, the weights are the same to the bit."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from reliant import data
from reliant.data import Source, labels
from reliant.errors import DataError
from reliant.evaluate import splits
from tiny_runs import arrays, kinds, pictures, same_bits, same_relations

Make = Callable[..., Any]
COUNT = 32


def png(picture: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture[..., 0]).save(file, "PNG")
    return file.getvalue()


def parquet(file: Path, **columns: Any) -> Path:
    images = pa.array([png(picture) for picture in pictures(COUNT)], pa.binary())
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"image": images, **columns}), file)
    return file


POISON: dict[str, dict[str, Any]] = {
    "right": {"label": kinds(COUNT)},
    "wrong": {"label": kinds(COUNT)[::-1].copy()},
    "texts": {"label": [f"kind {kind}" for kind in kinds(COUNT)], "class": ["x"] * COUNT},
    "useless": {"label": [[1.5, float("nan")]] * COUNT, "target": [None] * COUNT},
}


def test_labels_of_any_kind_change_no_bit(make: Make, tmp_path: Path) -> None:
    plain = make(parquet(tmp_path / "none/images.parquet"), out="none-run")
    for name, columns in POISON.items():
        run = make(parquet(tmp_path / name / "images.parquet", **columns), out=f"{name}-run")
        assert run.rounds == plain.rounds
        assert same_bits(arrays(plain), arrays(run))
        assert same_relations(plain.relations(), run.relations())


def test_a_fit_never_asks_for_labels(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **keys: Any) -> Any:
        raise AssertionError("labels were asked for")

    source = parquet(tmp_path / "labelled/images.parquet", **POISON["right"])
    for kind in (Source, *Source.__subclasses__()):
        monkeypatch.setattr(kind, "labels", refuse)
    for module in (data, labels, splits):
        monkeypatch.setattr(module, "read_labels", refuse)
    assert make(source, rounds__count=1).manifest["status"] == "finished"


def test_folders_of_classes_are_one_folder_of_images(make: Make, tmp_path: Path) -> None:
    def write(name: str, folder_of: Callable[[int], str]) -> Path:
        for row, picture in enumerate(pictures(COUNT)):
            # The file names keep the order of the images whatever the folders are called.
            place = tmp_path / name / f"{row:02d}-{folder_of(row)}"
            place.mkdir(parents=True)
            (place / "image.png").write_bytes(png(picture))
        return tmp_path / name

    first = make(write("kinds", lambda row: f"kind{row % 4}"), out="kinds-run", rounds__count=1)
    second = make(write("numbers", lambda row: str(7 * row)), out="numbers-run", rounds__count=1)
    assert same_bits(arrays(first), arrays(second))


def test_broken_files_change_no_bit(make: Make, tmp_path: Path) -> None:
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
        for row, picture in enumerate(pictures(COUNT)):
            (tmp_path / name / f"{row:02d}.png").write_bytes(png(picture))
    (tmp_path / "broken/05-cut.png").write_bytes(png(pictures()[5])[:40])
    (tmp_path / "broken/zz-text.jpg").write_text("no image")
    whole = make(tmp_path / "whole", out="whole-run", rounds__count=1)
    broken = make(tmp_path / "broken", out="broken-run", rounds__count=1)
    assert same_bits(arrays(whole), arrays(broken))
    assert [one["id"] for one in broken.manifest["source"]["quarantined"]] == ["05-cut.png", "zz-text.jpg"]
    assert broken.manifest["source"]["digest"] == whole.manifest["source"]["digest"]


def test_a_fit_of_nothing_is_refused(make: Make, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no images"):
        make(tmp_path / "empty")
    assert not (tmp_path / "run").exists()
