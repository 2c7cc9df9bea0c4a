"""``manifest.json`` and ``config.toml``: what a run folder is, what it was asked for, and whether a command fits it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, DamagedError, StateError, UsageError, must
from .atomic import TEMPORARY
from .events import now, readable

if TYPE_CHECKING:
    from ..config import Config

MANIFEST = "manifest.json"
CONFIG = "config.toml"
LOCK = ".lock"
FORMAT = "reliant-run"
FORMAT_VERSION = 1


def new_manifest(config: Config, source: Mapping[str, Any], preset: str, machine: Mapping[str, Any]) -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "reliant": version("reliant"),
        "created": now(),
        "status": "running",
        "preset": preset,
        "seed": config.seed,
        "source": readable(source),
        "machine": readable(machine),
        "rounds": [],
        "verdict": None,
    }


def is_run(folder: Path) -> bool:
    """Whether there is a run to resume. A folder that is neither that nor free is a UsageError; nothing is touched."""
    if not folder.exists():
        return False
    must(folder.is_dir(), UsageError, f"{folder} is a file; use another --out")
    if (folder / MANIFEST).exists():
        must(_load(folder) is not None, UsageError, f"{folder} holds a manifest.json that is not reliant's; use another --out")
        return True
    others = sorted(path.name for path in folder.iterdir() if path.name != LOCK and not path.name.startswith(TEMPORARY))
    shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
    must(
        not others,
        UsageError,
        f"{folder} holds other files ({shown}) and is not a run folder (no {MANIFEST}); use another --out",
    )
    return False


def read_manifest(folder: Path) -> dict[str, Any]:
    advice = "give the folder that 'reliant fit --out' made"
    must((folder / MANIFEST).is_file(), StateError, f"{folder} is not a run folder (no {MANIFEST}); {advice}")
    manifest = _load(folder)
    if manifest is None:
        raise StateError(f"{folder} is not a run folder (its {MANIFEST} is not reliant's); {advice}")
    found = manifest.get("format_version")
    newer = f"{folder} has format version {found}, this reliant reads {FORMAT_VERSION}; use the version of reliant that made it"
    must(found == FORMAT_VERSION, StateError, newer)
    return manifest


def _load(folder: Path) -> dict[str, Any] | None:
    """None where it is another tool's."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except ValueError as error:
        advice = "restore it, or use another --out"
        raise DamagedError(f"{folder / MANIFEST} is damaged, or not reliant's ({error}); {advice}") from None
    return manifest if isinstance(manifest, dict) and manifest.get("format") == FORMAT else None


def read_config(folder: Path) -> Config:
    from ..config import build, read_toml

    path = folder / CONFIG
    try:
        return build(read_toml(path))
    except ConfigError as error:
        raise DamagedError(f"{path} cannot be used ({error}); restore it, or start again with another --out") from None


def check_same(folder: Path, manifest: Mapping[str, Any], stored: Config, config: Config, source: Mapping[str, Any]) -> None:
    """A resumed run is asked for what it was asked for at first, or a UsageError names every difference."""
    from ..config import flat

    before = manifest["source"]
    must(
        before["digest"] == source["digest"],
        UsageError,
        f"{folder} was made from '{before['name']}' ({before['images']} images), which is not what '{source['name']}' "
        f"({source['images']} images) holds now; use another --out",
    )
    old, new = flat(stored), flat(config)
    changed = [f"{key} = {old[key]!r} (asked for {new[key]!r})" for key in new if old[key] != new[key]]
    must(not changed, UsageError, f"{folder} was made with {', '.join(changed)}; leave that as it is, or use another --out")


def merged(stored: Config, config: Config) -> Config:
    """The asked configuration; rounds may be added, not taken away."""
    count = max(stored.rounds.count, config.rounds.count)
    return config.model_copy(update={"rounds": config.rounds.model_copy(update={"count": count})})
