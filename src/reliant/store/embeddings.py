"""Features with their ids ↔ one file (or two) that other tools read: ``.parquet``, ``.npy``, ``.safetensors``.

Features (N, D) and N ids → ``F.parquet`` with the columns ``id`` and ``embedding`` (a list of D float32), or ``F.npy`` /
``F.safetensors`` (tensor ``embedding``) with ``F.ids.parquet`` (column ``id``) beside it. Written whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import UsageError, must
from ..records import Floats
from .atomic import make_folder, writing
from .codec import write_arrays

ENDINGS = (".parquet", ".npy", ".safetensors")


def check_embeddings_file(path: Path) -> None:
    """Whether features can be written there, before they are made."""
    must(
        path.suffix in ENDINGS,
        UsageError,
        f"--out takes a file that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got '{path.name}'",
    )
    must(not path.is_dir(), UsageError, f"--out {path} is a folder; name a file, for example {path / 'embeddings.parquet'}")


def write_embeddings(path: Path, ids: Sequence[str], values: Floats) -> list[Path]:
    """Rows in the given order; the files that were written, the one with the features last."""
    import pyarrow as pa

    check_embeddings_file(path)
    make_folder(path.parent)
    column = pa.array(list(ids), pa.string())
    if path.suffix == ".parquet":
        flat = pa.array(np.ascontiguousarray(values, dtype=np.float32).reshape(-1))
        rows = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        _write_table(path, pa.table({"id": column, "embedding": rows}))
        return [path]
    beside = path.with_suffix(".ids.parquet")
    _write_table(beside, pa.table({"id": column}))
    values = np.ascontiguousarray(values, dtype=np.float32)
    if path.suffix == ".safetensors":
        write_arrays(path, {"embedding": values})
    else:
        with writing(path) as temporary, temporary.open("wb") as file:
            np.save(file, values)
    return [beside, path]


def _write_table(path: Path, table: object) -> None:
    import pyarrow.parquet as pq

    with writing(path) as temporary:
        pq.write_table(table, temporary)
