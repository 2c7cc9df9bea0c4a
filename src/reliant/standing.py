"""What is known before a run is trained: its folder, what its manifest says of the source, and what its user should be told.

Source, Images, Quarantine and a configuration → a folder's name, a record, notices, and how the run in the folder stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .errors import UsageError, must
from .records import Images, Quarantine
from .store.manifest import CONFIG, check_same, is_run, read_config, read_manifest

if TYPE_CHECKING:
    from .config import Config
    from .data import Source

Standing = Literal["new", "unfinished", "finished"]
# Of many files that were left out, so many are named.
_NAMED = 3


def default_folder(source: Source) -> Path:
    """``runs/NAME``; of the source's name only letters, digits, ``.``, ``_`` and ``-`` are kept."""
    name = re.sub(r"[^\w.-]+", "-", source.name).strip(".-")
    return Path("runs") / (name or "images")


def source_record(
    images: Images, quarantine: Quarantine, spec: str | None = None, start: str | None = None, trunk: str | None = None
) -> dict[str, Any]:
    """The source in the manifest. ``spec`` opens it again; ``start`` and ``trunk`` are digests of what a user brought.

    ``start``: the weights that the run begins with; ``trunk``: a module of the user's own in the place of a named network.
    """
    return {
        "name": images.name,
        "spec": spec,
        "digest": images.digest,
        "images": len(images),
        "channels": images.pixels.shape[3],
        "size": images.pixels.shape[1],
        "start": start,
        "trunk": trunk,
        "quarantined": [{"id": name, "reason": reason} for name, reason in zip(quarantine.ids, quarantine.reasons)],
    }


def notices(images: Images, quarantine: Quarantine, config: Config) -> list[str]:
    """What is no error but changes what a run is made of."""
    found = []
    if len(quarantine):
        named = [f"{one} ({why})" for one, why in list(zip(quarantine.ids, quarantine.reasons))[:_NAMED]]
        more = f" and {len(quarantine) - _NAMED} more" if len(quarantine) > _NAMED else ""
        found.append(f"{len(quarantine)} of {len(images) + len(quarantine)} images are left out: {', '.join(named)}{more}")
    batches = {"initial": config.initial.batch, "local": config.local.batch, "refine": config.refine.batch}
    short = [f"{name}.batch = {batch}" for name, batch in batches.items() if batch > len(images)]
    if short:
        found.append(f"{len(images)} images are fewer than a batch ({', '.join(short)}): the batch shrinks to {len(images)}")
    return found


def standing(out: Path, config: Config, source: Mapping[str, Any]) -> Standing:
    """How the run in ``out`` stands to what is asked for; a folder or a run that does not fit it is a UsageError.

    Nothing is written, and no lock is taken.
    """
    if not is_run(out):
        return "new"
    manifest = read_manifest(out)
    if not (out / CONFIG).exists():
        return "new"  # killed between its first two files
    stored = read_config(out)
    check_same(out, manifest, stored, config, source)
    must(
        manifest["source"].get("start") == source.get("start"),
        UsageError,
        f"{out} began with {_weights(manifest['source'])}, asked for {_weights(source)}; "
        "leave --init as it was, or use another --out",
    )
    must(
        manifest["source"].get("trunk") == source.get("trunk"),
        UsageError,
        f"{out} was made with {_trunk(manifest['source'])}, asked for {_trunk(source)}; "
        "pass the same network with the same weights, or use another out",
    )
    done = manifest["status"] == "finished" and config.rounds.count <= stored.rounds.count
    return "finished" if done else "unfinished"


def _trunk(source: Mapping[str, Any]) -> str:
    trunk = source.get("trunk")
    return f"a network of your own ({trunk[:8]}…)" if trunk else "a named network"


def _weights(source: Mapping[str, Any]) -> str:
    start = source.get("start")
    return f"given weights ({start[:8]}…)" if start else "fresh weights"
