"""Relations ↔ a folder of tables, the format of ``reliant mine`` and of every round.

``groups.parquet`` (a row a group: id, seed, size, members, diameter, chance, reliability, shared, survival, agreement),
``subsets.parquet`` (group, subset; a group in no subset has no row), ``triplets.parquet`` (learner, anchor, similar,
dissimilar, group, subset, kind), ``summary.json``. Images are rows of the input, int64. What a record needs beyond its rows
(the number of images, of subsets, of learners) stands under ``reliant`` in a table's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DamagedError, StateError, must
from ..records import Evidence, Groups, Relations, Subsets, Triplets
from .atomic import make_folder, write_json, writing

EVIDENCE = ("chance", "reliability", "shared", "survival", "agreement")
TRIPLETS = {"anchor": "int64", "similar": "int64", "dissimilar": "int64", "group": "int64", "subset": "int32", "kind": "int8"}


def write_relations(folder: Path, relations: Relations) -> None:
    """Each file whole or not at all; ``summary.json`` comes last, so that a folder with it is complete."""
    make_folder(folder)
    _write_groups(folder / "groups.parquet", relations.groups, relations.evidence)
    _write_subsets(folder / "subsets.parquet", relations.subsets)
    _write_triplets(folder / "triplets.parquet", relations.triplets)
    write_json(folder / "summary.json", relations.summary)


def read_relations(folder: Path) -> Relations:
    missing = [
        name
        for name in ("groups.parquet", "subsets.parquet", "triplets.parquet", "summary.json")
        if not (folder / name).is_file()
    ]
    must(
        not missing,
        StateError,
        f"{folder} is not a complete relations folder (no {', '.join(missing)}); run 'reliant mine' again",
    )
    groups, evidence = _read_groups(folder / "groups.parquet")
    return Relations(
        groups=groups,
        evidence=evidence,
        subsets=_read_subsets(folder / "subsets.parquet", len(groups)),
        triplets=_read_triplets(folder / "triplets.parquet"),
        summary=_read_summary(folder / "summary.json"),
    )


def _write_groups(path: Path, groups: Groups, evidence: Evidence) -> None:
    import pyarrow as pa

    lists = pa.ListArray.from_arrays(pa.array(groups.offsets, pa.int32()), pa.array(groups.members, pa.int64()))
    columns = {
        "id": np.arange(len(groups)),
        "seed": groups.seeds.astype(np.int64),
        "size": groups.sizes,
        "members": lists,
        "diameter": groups.diameters,
        **{name: getattr(evidence, name) for name in EVIDENCE},
    }
    _write_table(path, columns, images=groups.images)


def _read_groups(path: Path) -> tuple[Groups, Evidence]:
    import pyarrow.compute as pc

    table, about = _read_table(path)
    sizes = pc.list_value_length(table["members"]).to_numpy()
    members = pc.list_flatten(table["members"]).to_numpy()
    ordered = np.array_equal(table["id"].to_numpy(), np.arange(len(sizes)))
    must(
        ordered, DamagedError, f"{path}: the ids must be 0 … {len(sizes) - 1} in this order; run the command that made it again"
    )
    groups = Groups(
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        members=members.astype(np.int32),
        diameters=table["diameter"].to_numpy(),
        images=int(about["images"]),
    )
    return groups, Evidence(**{name: table[name].to_numpy() for name in EVIDENCE})


def _write_subsets(path: Path, subsets: Subsets) -> None:
    chosen = np.flatnonzero(subsets.of_group >= 0)
    _write_table(path, {"group": chosen, "subset": subsets.of_group[chosen]}, count=subsets.count, terms=subsets.terms)


def _read_subsets(path: Path, groups: int) -> Subsets:
    table, about = _read_table(path)
    of_group = np.full(groups, -1, dtype=np.int32)
    of_group[table["group"].to_numpy()] = table["subset"].to_numpy()
    return Subsets(of_group=of_group, count=int(about["count"]), terms=about["terms"])


def _write_triplets(path: Path, triplets: list[Triplets]) -> None:
    learners = np.repeat(np.arange(len(triplets), dtype=np.int32), [len(one) for one in triplets])
    columns: dict[str, NDArray[Any]] = {"learner": learners}
    for name, dtype in TRIPLETS.items():
        columns[name] = np.concatenate([np.empty(0, dtype), *(getattr(one, name) for one in triplets)]).astype(dtype)
    _write_table(path, columns, learners=len(triplets))


def _read_triplets(path: Path) -> list[Triplets]:
    table, about = _read_table(path)
    learner = table["learner"].to_numpy()
    columns = {field.name: table[field.name].to_numpy().astype(np.int32) for field in fields(Triplets)}
    rows = [np.flatnonzero(learner == one) for one in range(int(about["learners"]))]
    return [Triplets(**{name: column[chosen] for name, column in columns.items()}) for chosen in rows]


def _write_table(path: Path, columns: Mapping[str, Any], **about: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(dict(columns)).replace_schema_metadata({"reliant": json.dumps(about)})
    with writing(path) as temporary:
        pq.write_table(table, temporary)


def _read_table(path: Path) -> tuple[Any, dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
        return table, json.loads(table.schema.metadata[b"reliant"])
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(
            f"{path} is damaged or not written by reliant ({error}); run the command that made it again"
        ) from error


def _read_summary(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise DamagedError(f"{path} is damaged ({error}); run the command that made it again") from error
