"""Build the embedded data set ``fashion-mnist-sample`` from Debian's package ``dataset-fashion-mnist``.

    apt-get download dataset-fashion-mnist && dpkg -x dataset-fashion-mnist_*.deb unpacked
    python benchmarks/build_sample.py unpacked/usr/share/datasets/fashion-mnist

writes ``train.parquet`` (8,000 images of the 60,000 for training) and ``test.parquet`` (4,000 of the 10,000 for test) into
``src/reliant/data/embedded/fashion-mnist-sample``: as many of each class, drawn and shuffled by seed, as optimised PNG. The
same Pillow and pyarrow write the same bytes; every version writes the same pixels. The licence, the provenance and the names
of the classes lie beside them and are written by hand.
"""

from __future__ import annotations

import argparse
import gzip
import io
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from reliant.randomness import generator

SEED = 0
SPLITS = {"train": ("train", 8000), "test": ("t10k", 4000)}
TARGET = Path(__file__).parent.parent / "src" / "reliant" / "data" / "embedded" / "fashion-mnist-sample"


def read_idx(file: Path) -> NDArray[np.uint8]:
    """The array of an IDX file of unsigned bytes."""
    data = gzip.decompress(file.read_bytes())
    zero, kind, dimensions = struct.unpack(">HBB", data[:4])
    if zero != 0 or kind != 8:
        raise SystemExit(f"{file} is no IDX file of unsigned bytes")
    shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def choose(labels: NDArray[np.uint8], count: int, split: str) -> NDArray[np.int64]:
    """Rows, as many of each class, in a shuffled order."""
    classes = np.unique(labels)
    each = count // len(classes)
    rows = [
        generator(SEED, "fashion-mnist-sample", split, int(one)).choice(np.flatnonzero(labels == one), each, replace=False)
        for one in classes
    ]
    return generator(SEED, "fashion-mnist-sample", split, "order").permutation(np.concatenate(rows))


def png(pixels: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return file.getvalue()


def build(source: Path, target: Path) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    for split, (prefix, count) in SPLITS.items():
        images = read_idx(source / f"{prefix}-images-idx3-ubyte.gz")
        labels = read_idx(source / f"{prefix}-labels-idx1-ubyte.gz")
        rows = choose(labels, count, split)
        # The number in the name is the row in the original file; the name does not tell the class.
        column = [{"bytes": png(images[row]), "path": f"{split}/{row:05d}.png"} for row in rows]
        table = pa.table({"image": pa.array(column, kind), "label": pa.array(labels[rows].astype(np.int32))})
        file = target / f"{split}.parquet"
        pq.write_table(table, file, row_group_size=1000, compression="zstd", compression_level=19, use_dictionary=False)
        print(f"{file.name}: {len(rows)} images, {file.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("source", type=Path, help="folder of the four *-ubyte.gz files")
    parser.add_argument("--target", type=Path, default=TARGET)
    given = parser.parse_args()
    given.target.mkdir(parents=True, exist_ok=True)
    build(given.source, given.target)


if __name__ == "__main__":
    main()
