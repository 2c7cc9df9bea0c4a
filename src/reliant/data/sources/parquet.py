"""A parquet file, or a folder of parquet shards, with a column of encoded images.

The column is Hugging Face's struct{bytes, path} or plain bytes. Only it is ever read here, a row group at a time; labels
lie in a column of their own, which :meth:`Parquet.labels` alone opens. Ids are the struct's paths where every row has one
and all differ; else ``train-0.parquet:17``, the shard's name and the row in it.
"""

from __future__ import annotations

import bisect
import hashlib
import json
from pathlib import Path
from typing import Any

from ...errors import DataError, must
from .. import known
from .base import BadImage, RawLabels, Source, hash_file

_LABELS = ("label", "labels", "class", "target", "fine_label")
# What pyarrow raises of a damaged file; its own errors are sub-classes of these.
_DAMAGE = (OSError, ValueError, KeyError, NotImplementedError, MemoryError)


class Parquet(Source):
    """The rows of the shards, in the order of their names."""

    def __init__(self, files: list[Path], dataset: str, *, split: str = "", spec: str = "") -> None:
        self.files = files
        self._starts: list[int] = []  # the first row of every row group
        self._groups: list[tuple[int, int]] = []  # (shard, row group in it)
        rows: list[int] = []
        for shard, file in enumerate(files):
            metadata = _open(file).metadata
            base = sum(rows)
            for group in range(metadata.num_row_groups):
                if metadata.row_group(group).num_rows:
                    self._starts.append(base)
                    self._groups.append((shard, group))
                    base += metadata.row_group(group).num_rows
            rows.append(base - sum(rows))
        must(sum(rows) > 0, DataError, f"{_names(files)}: no rows, so no images")
        self._column, self._struct = _image_column(files)
        super().__init__(dataset, self._ids(rows), split=split, spec=spec)
        self._opened: tuple[int, Any] = (-1, None)  # the shard that is being read
        self._held: tuple[int, Any] = (-1, None)  # the images of one row group

    def read(self, index: int) -> bytes:
        place = bisect.bisect_right(self._starts, index) - 1
        if self._held[0] != place:
            shard, group = self._groups[place]
            self._held = (place, self._read_group(shard, group))
        column = self._held[1]
        if column is None:
            raise BadImage("its row group is damaged", unreadable=True)
        value = column[index - self._starts[place]].as_py()
        if value is None:
            raise BadImage("the row holds no image bytes")
        return bytes(value)

    def digest(self) -> str:
        digest = hashlib.blake2b(b"parquet " + self._column.encode(), digest_size=16)
        for file in self.files:
            digest.update(f"{file.name} {hash_file(file)}\n".encode("utf-8", "backslashreplace"))
        return digest.hexdigest()

    def labels(self, column: str | None) -> RawLabels | None:
        schema = _open(self.files[0]).schema_arrow
        name = next((one for one in ((column,) if column else _LABELS) if one in schema.names and one != self._column), None)
        if name is None:
            return None
        values: list[Any] = []
        for file in self.files:
            try:
                values += _open(file).read(columns=[name]).column(name).to_pylist()
            except _DAMAGE as error:
                raise DataError(f"{file}: column '{name}' cannot be read: {_first_line(error)}") from None
        fits = all(value is None or isinstance(value, (int, str)) for value in values)
        must(
            fits, DataError, f"{self.files[0]}: column '{name}' must hold integers or texts, it holds {schema.field(name).type}"
        )
        return RawLabels(values=values, names=_class_names(schema, name) or known.class_names(self.files[0].parent))

    def _ids(self, rows: list[int]) -> list[str]:
        paths = self._paths() if self._struct else None
        if paths and len(paths) == sum(rows) and all(paths) and len(set(paths)) == len(paths):
            return [str(path) for path in paths]
        return [f"{file.name}:{row}" for file, count in zip(self.files, rows) for row in range(count)]

    def _paths(self) -> list[str | None] | None:
        paths: list[str | None] = []
        try:
            for file in self.files:
                opened = _open(file)
                for group in range(opened.metadata.num_row_groups):
                    column = opened.read_row_group(group, columns=[f"{self._column}.path"]).column(self._column)
                    paths += [one and one.get("path") for one in column.to_pylist()]
        # Only names are lost; what else is damaged shows when the images are read.
        except _DAMAGE:
            return None
        return paths

    def _read_group(self, shard: int, group: int) -> Any:
        """The encoded images of one row group as an Arrow array, None where it is damaged."""
        import pyarrow.compute as pc

        name = f"{self._column}.bytes" if self._struct else self._column
        try:
            if self._opened[0] != shard:
                self._opened = (shard, _open(self.files[shard]))
            column = self._opened[1].read_row_group(group, columns=[name]).column(self._column)
        except (*_DAMAGE, DataError):
            return None
        return pc.struct_field(column, "bytes") if self._struct else column


def _open(file: Path) -> Any:
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file)
    except _DAMAGE as error:
        raise DataError(f"{file} is not a readable parquet file: {_first_line(error)}") from None


def _image_column(files: list[Path]) -> tuple[str, bool]:
    """The name of the column of images, the same in every shard, and whether it is a struct."""
    import pyarrow.types as types

    schema = _open(files[0]).schema_arrow
    found: dict[str, bool] = {}
    for field in schema:
        kind = field.type
        if types.is_struct(kind):
            inner = {kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}
            if "bytes" in inner and _is_bytes(inner["bytes"]):
                found[field.name] = True
        elif _is_bytes(kind):
            found[field.name] = False
    named = [name for name in ("image", "img", "bytes", "jpg", "png") if name in found]
    if not named and len(found) != 1:
        columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
        problem = "no column of images" if not found else "several columns of bytes"
        raise DataError(
            f"{files[0]}: {problem}; 'image' must be bytes or a struct of bytes and path, the columns are {columns}"
        )
    column = named[0] if named else next(iter(found))
    kind = schema.field(column).type
    for file in files[1:]:
        other = _open(file).schema_arrow
        same = column in other.names and other.field(column).type == kind
        must(same, DataError, f"{file}: column '{column}' is not the {kind} that it is in {files[0].name}")
    return column, found[column]


def _is_bytes(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _class_names(schema: Any, column: str) -> list[str] | None:
    """The names of a Hugging Face ClassLabel, from the schema's metadata."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        names = features[column]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    return [str(name) for name in names] if isinstance(names, list) else None


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _names(files: list[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"{files[0].parent} ({len(files)} parquet files)"
