"""What a machine can do, and what is wrong with a source of images: plain tables of facts, nothing is trained.

Nothing → facts about the machine; a source → counts, sizes, channels, and every image that cannot be used, with its reason.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .data import open_source
from .data.cache import entries, folder
from .data.decode import Preprocessing, size_of
from .data.decoding import decoded
from .data.known import KNOWN, data_folder, place
from .data.sources.base import BadImage, Payload, Source

if TYPE_CHECKING:
    import torch

    from .config import Config
    from .data.sources.base import RawLabels

# The matrices whose product is timed, and for about how long.
_SIDE, _PATIENCE = 1024, 0.5


def examine_machine() -> dict[str, Any]:
    """Works without torch: ``torch`` is then None."""
    from importlib.metadata import version

    cached = entries()
    root = data_folder()
    return {
        "reliant": version("reliant"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "torch": _torch(),
        "faiss": _installed("faiss"),
        "free_disk_bytes": shutil.disk_usage(Path.cwd()).free,
        "data_folder": None if root is None else str(root),
        "data_sets": [name for name in KNOWN if place(name) is not None],
        "cache_folder": str(folder()),
        "cache_bytes": sum(entry.bytes for entry in cached),
        "cache_entries": len(cached),
    }


def examine_source(spec: Any, config: Config) -> dict[str, Any]:
    """Every image is read and decoded, none is kept; ``problems`` says what would stop or hamper ``fit``."""
    source = _Observed(open_source(spec))
    how = Preprocessing.of(config.data)
    grey = colour = 0
    bad: list[dict[str, str]] = []
    for name, outcome in zip(source.ids, decoded(source, how, config.data.workers)):
        if isinstance(outcome, BadImage):
            bad.append({"id": name, "reason": outcome.reason})
        elif outcome.shape[2] == 1:
            grey += 1
        else:
            colour += 1
    found = {
        "source": source.name,
        "images": len(source),
        "usable": grey + colour,
        "grey": grey,
        "colour": colour,
        "sizes": _sizes(source.sizes),
        "quarantined": bad,
    }
    return {**found, "problems": _problems(found, config)}


class _Observed(Source):
    """A source that counts the sizes of what is read from it."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.dataset, source.ids, split=source.split, spec=source.spec)
        self._source = source
        self.sizes: Counter[tuple[int, int]] = Counter()

    def read(self, index: int) -> Payload:
        payload = self._source.read(index)
        size = size_of(payload)
        if size is not None:
            self.sizes[size] += 1
        return payload

    def digest(self) -> str:
        return self._source.digest()

    def labels(self, column: str | None) -> RawLabels | None:
        return self._source.labels(column)


def _sizes(counted: Counter[tuple[int, int]]) -> dict[str, Any]:
    """The smallest and largest by area, and the most frequent; widths before heights."""
    if not counted:
        return {"different": 0, "smallest": None, "largest": None, "most": None}
    by_area = sorted(counted, key=lambda size: (size[0] * size[1], size))
    most = min(counted, key=lambda size: (-counted[size], size))
    return {"different": len(counted), "smallest": list(by_area[0]), "largest": list(by_area[-1]), "most": list(most)}


def _problems(found: dict[str, Any], config: Config) -> list[str]:
    problems = []
    bad, total, usable = len(found["quarantined"]), found["images"], found["usable"]
    if bad:
        problems.append(f"{bad} of {total} images cannot be used and are left out")
    if bad > config.data.max_bad * total:
        problems.append(f"that is more than data.max_bad = {config.data.max_bad} allows: fit stops")
    if usable < 2:
        problems.append(f"{usable} usable image{'' if usable == 1 else 's'}: fit needs at least 2")
    elif usable < config.initial.batch:
        problems.append(f"{usable} images are fewer than a batch of {config.initial.batch}: the batch shrinks")
    if found["grey"] and found["colour"]:
        problems.append(f"{found['grey']} grey images among {found['colour']} in colour: all are treated as colour")
    return problems


def _torch() -> dict[str, Any] | None:
    try:
        import torch
    except ImportError:
        return None
    from .config import Machine
    from .learning.device import Device

    device = Device(Machine())
    described = device.describe()
    return {
        "version": torch.__version__,
        **{name: described[name] for name in ("device", "name", "threads", "bits_promised")},
        "bf16_gflops": round(_product_rate(device.torch) / 1e9, 1),
    }


def _product_rate(device: torch.device) -> float:
    """Multiply-adds × 2 a second of bf16 matrix products."""
    import torch

    left = torch.rand(_SIDE, _SIDE).to(device, torch.bfloat16)

    def products(number: int) -> float:
        begun = time.perf_counter()
        for _ in range(number):
            result = left @ left
        float(result[0, 0])  # waits for the device
        return max(time.perf_counter() - begun, 1e-9)

    first = products(1)
    number = max(1, min(100, int(_PATIENCE / first)))
    return number * 2 * _SIDE**3 / min(products(number), number * first)


def _installed(name: str) -> str | None:
    from importlib import import_module

    try:
        return str(getattr(import_module(name), "__version__", "installed"))
    except ImportError:
        return None
