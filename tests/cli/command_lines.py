"""What the tests of the command line share besides fixtures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLI = "from reliant.cli import main; main()"
# As if torch were not installed.
WITHOUT_TORCH = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Blocked())
{CLI}
"""

TINY = """
[data]
size = 12
workers = 1
[network]
name = "small"
dimension = 16
size = 12
input = "rgb"
head = "linear"
[augment]
recipe = "nat"
[initial]
passes = 2
batch = 16
rate = 0.05
loss = "softmax"
reduction = "mean"
[features]
layer = "conv"
learners = "chosen"
views = 0
agreement = false
[neighbours]
k = 8
[chance]
groups = 100
null = "random"
[groups]
cap = 4
[subsets]
count = 2
fraction = 1.0
[local]
passes = 2
batch = 16
unit = "image"
view = "augmented"
uncovered = "leave"
reduction = "mean"
[targets]
hubs = "fresh"
spread = 0.3
[refine]
passes = 2
batch = 16
reduction = "mean"
[rounds]
count = 1
choice = "random"
[health]
rank = 1e-6
spread = 1e-6
[store]
checkpoint_seconds = 2
[machine]
threads = 1
device = "cpu"
"""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output, which must be one object on one line."""
        assert self.out.count("\n") == 1, self.out
        value = json.loads(self.out, parse_constant=lambda name: 1 / 0)
        assert isinstance(value, dict)
        return value


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time of change and bytes of every file."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
