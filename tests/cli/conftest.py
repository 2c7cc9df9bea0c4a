"""A folder of tiny images, a configuration that trains on them in a second, and two ways to run a command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_lines import CLI, TINY, Ran
from PIL import Image
from typer.testing import CliRunner

from reliant.cli.application import app


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def surroundings(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of our own, 100 columns without colour, an empty folder to be in."""
    monkeypatch.setenv("RELIANT_CACHE", str(cache))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("RELIANT_DATA", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 grey images of 12 px in three sub-folders, each a pattern with noise."""
    folder = tmp_path_factory.mktemp("sources") / "photos"
    random = np.random.default_rng(0)
    for kind in ("a", "b", "c"):
        (folder / kind).mkdir(parents=True)
        pattern = random.integers(0, 256, (12, 12))
        for number in range(16):
            picture = np.clip(pattern + random.normal(0, 30, (12, 12)), 0, 255).astype(np.uint8)
            Image.fromarray(picture).save(folder / kind / f"{number:02d}.png")
    return folder


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("settings") / "tiny.toml"
    file.write_text(TINY, encoding="utf-8")
    return file


def _invoke(*arguments: object) -> Ran:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def reliant() -> Callable[..., Ran]:
    """A command in this process."""
    return _invoke


@pytest.fixture
def shell() -> Callable[..., Ran]:
    """A command in a process of its own; ``program`` is the Python that runs it."""

    def run(*arguments: object, program: str = CLI) -> Ran:
        command = [sys.executable, "-c", program, *(str(one) for one in arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def fit(reliant: Callable[..., Ran], photos: Path, settings: Path) -> Callable[..., Ran]:
    """``fit`` of the photos with the tiny settings."""

    def run(*arguments: object, source: Path | None = None) -> Ran:
        return reliant("fit", source or photos, "--preset", "smoke", "--config", settings, *arguments)

    return run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path, photos: Path, settings: Path) -> tuple[Path, Ran]:
    """A finished run of the photos, and what was said while it was made."""
    out = tmp_path_factory.mktemp("runs") / "photos"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELIANT_CACHE", str(cache))
        patch.setenv("COLUMNS", "100")
        done = _invoke("fit", photos, "--preset", "smoke", "--config", settings, "--out", out)
    return out, done


@pytest.fixture(scope="session")
def finished(made: tuple[Path, Ran]) -> Path:
    """A finished run of the photos; not to be changed."""
    out, done = made
    assert done.code == 0, done.err
    return out
