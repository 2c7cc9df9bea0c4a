"""Labels, apart from the images: only ``evaluate`` asks for them, never anything that ``fit`` calls.

A label is an index into ``names``; −1 where an image has none. Integers stay as they are up to 65,535 (so that two splits of
one set agree), larger ones and texts are numbered in ascending order.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, UsageError, must
from ..records import Labels
from .sources import Source
from .sources.base import RawLabels

_VERBATIM = 65536


def read_labels(
    source: Source,
    how: str | Path | Sequence[Any] = "auto",
    *,
    ids: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
) -> Labels:
    """The labels of a source.

    ``how``: ``auto`` (the usual column, else sub-folders), ``folders`` (the first level of sub-folders that differs), the
    name of a column, a ``.csv`` with the columns id and label; from Python also a label for every image of the source.
    ``ids``: the images wanted, in their order (``Images.ids``, when bad ones were left out); else all of the source.
    ``names``: the classes and their order, so that a test split is numbered like its training split.
    """
    raw = _raw(source, how)
    must(len(raw.values) == len(source), DataError, f"{source.name}: {len(raw.values)} labels for {len(source)} images")
    values = list(raw.values)
    if ids is not None and list(ids) != source.ids:
        row_of = {one: row for row, one in enumerate(source.ids)}
        unknown = [one for one in ids if one not in row_of]
        must(
            not unknown, DataError, f"{source.name}: {len(unknown)} images are not in it, the first '{next(iter(unknown), '')}'"
        )
        values = [values[row_of[one]] for one in ids]
    labels = _numbered(source, RawLabels(values=values, names=raw.names))
    return labels if names is None else _renumbered(source, labels, names)


def _raw(source: Source, how: str | Path | Sequence[Any]) -> RawLabels:
    if not isinstance(how, (str, Path)):
        return RawLabels(values=np.asarray(how).tolist())
    text = str(how)
    if text == "folders":
        found = _folders(source.ids)
        if found is None:
            raise DataError(f"{source.name}: labels from folders need images in at least two sub-folders")
        return found
    if text.lower().endswith(".csv"):
        return _table(source, Path(text))
    if text != "auto":
        found = source.labels(text)
        if found is None:
            raise UsageError(
                f"{source.name} has no column of labels '{text}'; labels are auto, folders, a column, or a .csv file"
            )
        return found
    found = source.labels(None) or _folders(source.ids)
    if found is None:
        raise DataError(
            f"{source.name} has no labels: no column 'label' and no two sub-folders; give a column or a .csv file (id,label)"
        )
    return found


def _folders(ids: list[str]) -> RawLabels | None:
    """The first level of folders at which ids differ; an image above it has no label."""
    folders = [one.split("/")[:-1] for one in ids]
    levels = list(zip(*folders))
    depth = len(list(takewhile(lambda level: len(set(level)) == 1, levels)))
    values = [parts[depth] if len(parts) > depth else None for parts in folders]
    return RawLabels(values=values) if len(set(values) - {None}) > 1 else None


def _table(source: Source, file: Path) -> RawLabels:
    try:
        with file.open(newline="", encoding="utf-8-sig") as opened:
            rows = csv.DictReader(opened)
            columns = rows.fieldnames or []
            must(
                "id" in columns and "label" in columns,
                DataError,
                f"{file}: the first line must name the columns id and label, it is '{','.join(columns)}'",
            )
            of_id = {row["id"]: row["label"] for row in rows}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as labels: {getattr(error, 'strerror', None) or error}") from None
    texts = [of_id.get(one) or None for one in source.ids]
    if all(text is None for text in texts):
        raise DataError(f"{file} labels no image of {source.name}, whose ids look like '{source.ids[0]}'")
    numbers = all(text is None or text.removeprefix("-").isdecimal() for text in texts)
    return RawLabels(values=[int(text) if numbers and text else text for text in texts])


def _numbered(source: Source, raw: RawLabels) -> Labels:
    there = {value for value in raw.values if value is not None and not (isinstance(value, int) and value < 0)}
    must(bool(there), DataError, f"{source.name}: no image has a label")
    if all(isinstance(value, int) for value in there):
        largest = max(int(value) for value in there)
        if largest < _VERBATIM:
            values = np.asarray([-1 if value is None else max(int(value), -1) for value in raw.values], dtype=np.int32)
            fits = raw.names is not None and len(raw.names) > largest
            return Labels(values=values, names=list(raw.names or ()) if fits else [str(one) for one in range(largest + 1)])
        order: list[Any] = sorted(there, key=int)
    else:
        must(all(isinstance(value, str) for value in there), DataError, f"{source.name}: labels are integers and texts mixed")
        order = sorted(there, key=str)
    place = {value: index for index, value in enumerate(order)}
    values = np.asarray([place.get(value, -1) for value in raw.values], dtype=np.int32)
    return Labels(values=values, names=[str(value) for value in order])


def _renumbered(source: Source, labels: Labels, names: Sequence[str]) -> Labels:
    place = {name: index for index, name in enumerate(names)}
    used = [labels.names[value] for value in np.unique(labels.values) if value >= 0]
    strange = [name for name in used if name not in place]
    must(
        not strange, DataError, f"{source.name}: {len(strange)} classes are not among the {len(names)} asked for: {strange[:3]}"
    )
    table = np.asarray([place.get(name, -1) for name in labels.names] + [-1], dtype=np.int32)
    return Labels(values=table[labels.values], names=list(names))
