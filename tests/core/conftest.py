from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELIANT_DATA", raising=False)
