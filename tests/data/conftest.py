"""Small pictures, and a cache of its own for every test."""

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

from reliant.config import Data


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("RELIANT_CACHE", str(place))
    monkeypatch.delenv("RELIANT_DATA", raising=False)
    return place / "images"


@pytest.fixture
def settings() -> Callable[..., Data]:
    """``data`` of a configuration, 16 px."""

    def make(**keys: Any) -> Data:
        return Data(**{"size": 16, "workers": 1, **keys})

    return make


@pytest.fixture
def pictures() -> list[np.ndarray]:
    """Six colour pictures of 24 × 20."""
    return list(np.random.default_rng(0).integers(0, 256, (6, 24, 20, 3), dtype=np.uint8))


@pytest.fixture
def encode() -> Callable[..., bytes]:
    """An array or PIL image as the bytes of a file."""

    def make(picture: Any, kind: str = "PNG", **options: Any) -> bytes:
        image = Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture
        file = io.BytesIO()
        image.save(file, kind, **options)
        return file.getvalue()

    return make


@pytest.fixture
def write_folder(encode: Callable[..., bytes]) -> Callable[..., Path]:
    """Pictures as ``00.png``, ``01.png`` … in a folder."""

    def make(folder: Path, pictures: list[np.ndarray]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for row, picture in enumerate(pictures):
            (folder / f"{row:02d}.png").write_bytes(encode(picture))
        return folder

    return make


@pytest.fixture
def write_parquet() -> Callable[..., Path]:
    """Encoded images as a parquet file: struct{bytes, path} where paths are given, else plain bytes."""

    def make(file: Path, images: list[Any], paths: list[Any] | None = None, rows: int = 2, **columns: Any) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        if paths is None:
            column = pa.array(images, pa.binary())
        else:
            kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
            column = pa.array([{"bytes": one, "path": path} for one, path in zip(images, paths)], kind)
        pq.write_table(pa.table({"image": column, **columns}), file, row_group_size=rows)
        return file

    return make
