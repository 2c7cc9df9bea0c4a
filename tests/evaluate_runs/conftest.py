from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tiny_runs import fit, kinds, pictures

COUNT, NOISE = 60, 120


@pytest.fixture(autouse=True, scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELIANT_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("RELIANT_DATA", str(tmp_path_factory.mktemp("data")))
        patch.setattr("reliant.store.atomic.os.fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def labelled(surroundings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty pictures with the four kinds as labels."""
    file = tmp_path_factory.mktemp("source") / "blobs.npz"
    np.savez(file, images=pictures(COUNT, noise=NOISE), labels=kinds(COUNT))
    return file


@pytest.fixture(scope="module")
def run(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two rounds of two learners on the labelled pictures."""
    return fit(tmp_path_factory.mktemp("run") / "run", labelled, initial__passes=6)
