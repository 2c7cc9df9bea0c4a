"""The command as a process: what it imports, its exit codes, its streams, signals, and that the README shows it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from command_lines import CLI, WITHOUT_TORCH, Ran

import reliant
from reliant.cli.application import app

Command = Callable[..., Ran]
COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback is not None]
README = Path(__file__).parents[2] / "README.md"


def test_the_commands_that_there_are() -> None:
    assert COMMANDS == ["fit", "embed", "evaluate", "presets", "doctor", "cache"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_shows_every_command(command: str) -> None:
    assert f"reliant {command}" in README.read_text(encoding="utf-8"), f"README.md does not show 'reliant {command}'"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_the_common_options(reliant: Command, command: str) -> None:
    done = reliant(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert "Examples:" in done.out
    assert f"  reliant {command}" in done.out
    assert all(option in done.out for option in ("--json", "--quiet", "--verbose", "-q", "-v"))


def test_help_names_the_commands(reliant: Command) -> None:
    for arguments in (("--help",), ()):
        done = reliant(*arguments)
        assert (done.code, done.err) == (0, "")
        assert all(command in done.out for command in COMMANDS)


def test_version(shell: Command) -> None:
    assert shell("--version") == Ran(0, f"reliant {reliant.__version__}\n", "")


def test_the_script_is_installed() -> None:
    (script,) = entry_points(group="console_scripts", name="reliant")
    assert script.value == "reliant.cli:main"


@pytest.mark.parametrize(
    ("arguments", "imported"),
    # Typer itself reads the arguments of a command with pydantic.
    [("--help", []), ("--version", []), ("fit --help", ["pydantic"]), ("fitt", ["pydantic"])],
)
def test_nothing_heavy_is_imported_before_a_command_runs(shell: Command, arguments: str, imported: list[str]) -> None:
    program = (
        "import atexit, sys\n"
        "heavy = {'torch', 'numpy', 'pandas', 'pyarrow', 'pydantic', 'scipy', 'faiss', 'sklearn', 'PIL', 'matplotlib'}\n"
        "atexit.register(lambda: print('imported:', *sorted(heavy & set(sys.modules)), file=sys.stderr))\n"
    )
    done = shell(*arguments.split(), program=program + CLI)
    assert done.err.splitlines()[-1].split()[1:] in ([], imported)


def test_a_mistake_leaves_standard_output_empty(shell: Command) -> None:
    assert shell("fitt") == Ran(2, "", "reliant: unknown command 'fitt'; did you mean 'fit'?\n")


@pytest.mark.parametrize("line", ["fit {photos}", "embed {run} {photos} --out z.npy", "evaluate {run}"])
def test_without_torch_there_is_one_line(shell: Command, photos: Path, finished: Path, line: str, tmp_path: Path) -> None:
    done = shell(*line.format(photos=photos, run=finished).split(), "--json", "-q", program=WITHOUT_TORCH)
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "needs torch, which is not installed; pip install 'reliant[train]'" in done.err
    assert done.json["error"]["kind"] == "MissingExtraError"
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def started(photos: Path, settings: Path) -> Callable[..., subprocess.Popen[str]]:
    """A fit in a process of its own, in its initialisation after a checkpoint."""

    def start(*more: str) -> subprocess.Popen[str]:
        arguments = ["fit", str(photos), "--config", str(settings), "--preset", "smoke", "--out", "made"]
        command = [sys.executable, "-c", CLI, *arguments, "--set", "initial.passes=200"]
        command += ["--set", "store.checkpoint_seconds=0.2", *more]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        events = Path("made") / "events.jsonl"
        while not (events.exists() and '"kind": "checkpoint"' in events.read_text()):
            assert process.poll() is None
            time.sleep(0.02)
        return process

    return start


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_stops_and_the_same_command_goes_on(
    started: Callable[..., subprocess.Popen[str]], fit: Command, finished: Path
) -> None:
    process = started("--json")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    done = Ran(process.returncode, out, err)
    stopped = "stopped; the same command goes on from here"
    assert done.code == 130
    assert done.err.splitlines()[-1] == f"reliant: {stopped}"
    assert done.json == {"error": {"kind": "Interrupted", "message": stopped}}
    again = fit("--out", "made", "--set", "initial.passes=200", "--json", "-q")
    assert again.json["status"] == "finished"
    assert "checkpoint-restored" in Path("made/events.jsonl").read_text()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_termination_exits_with_143(started: Callable[..., subprocess.Popen[str]]) -> None:
    process = started()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err.splitlines()[-1] == "reliant: stopped; the same command goes on from here"


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_termination_before_a_run_is_open_exits_with_143(shell: Command) -> None:
    program = (
        "import os, signal, reliant.config\nreliant.config.preset_names = lambda: os.kill(os.getpid(), signal.SIGTERM) or []\n"
    )
    done = shell("presets", program=program + CLI)
    assert done == Ran(143, "", "reliant: stopped\n")


@pytest.mark.skipif(os.name != "posix", reason="pipes")
def test_a_reader_that_has_enough_is_no_error() -> None:
    command = f'{sys.executable} -c "{CLI}" presets smoke | head -c 1'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
