from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_folders import SOURCE, settings

from reliant.store import Run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def open_run(path: Path) -> Callable[..., Run]:
    def open_(**changes: Any) -> Run:
        arguments: dict[str, Any] = {"config": settings(), "source": SOURCE, "preset": "demo"}
        return Run.open(changes.pop("path", path), **{**arguments, **changes})

    return open_
