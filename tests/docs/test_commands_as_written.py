"""Every command and every line of Python in the README runs as it is written, on a folder of small photographs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reliant.randomness import generator

README = Path(__file__).parents[2] / "README.md"
SCRIPTS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with photos/ of two kinds, stripes and blobs, and a file that is no image."""
    folder = tmp_path_factory.mktemp("desk")
    for kind, name in enumerate(("stripes", "blobs")):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(24):
            Image.fromarray(_picture(kind, number)).save(folder / "photos" / name / f"{number:02d}.png")
    (folder / "photos" / "broken.jpg").write_bytes(b"no image")
    return folder


def _picture(kind: int, number: int) -> np.ndarray:
    rng = generator(number, "picture", kind)
    rows, columns = np.mgrid[:40, :48] / 8.0
    shape = np.sin(columns * (1 + number % 3)) if kind == 0 else np.exp(-((rows - 2) ** 2 + (columns - 3) ** 2))
    noisy = 127 + 90 * shape[..., None] + rng.normal(0, 12, (40, 48, 3))
    return noisy.clip(0, 255).astype(np.uint8)


def commands(text: str) -> list[str]:
    """The lines after a ``$`` in console blocks, without their comments; `make` and `pip` are CI's own first steps."""
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    lines = [line[2:].split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in lines if line.startswith("reliant ")]


def environment(desk: Path) -> dict[str, str]:
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "RELIANT_CACHE": str(desk / "cache"), "OMP_NUM_THREADS": "2"}


def test_the_readme_shows_the_commands_of_a_first_day() -> None:
    named = {line.split()[1] for line in commands(README.read_text(encoding="utf-8"))}
    assert {"doctor", "fit", "embed", "evaluate"} <= named


def test_every_command_of_the_readme_runs_as_written(desk: Path) -> None:
    for line in commands(README.read_text(encoding="utf-8")):
        done = subprocess.run(line, shell=True, cwd=desk, env=environment(desk), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert (desk / "photos.parquet").is_file()


def test_the_python_of_the_readme_runs_as_written(desk: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    check = "\nassert features.shape == (48, 128), features.shape\nassert len(groups) > 0"
    done = subprocess.run(
        [sys.executable, "-c", block + check], cwd=desk, env=environment(desk), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
