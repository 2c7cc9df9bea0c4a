"""Each mistake gets one line on stderr, its exit code, and with --json an object; nothing is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_lines import Ran, contents
from filelock import FileLock
from PIL import Image

Command = Callable[..., Ran]

USAGE = [
    ("fitt photos", "unknown command 'fitt'; did you mean 'fit'?"),
    ("mine z.npy", "unknown command 'mine'; allowed: cache, doctor, embed, evaluate, fit, presets"),
    ("fit", "missing argument 'SOURCE'; see 'reliant fit --help'"),
    ("fit photos --presett small", "unknown option '--presett'; did you mean '--preset'? (see 'reliant fit --help')"),
    ("fit photos more", "got unexpected extra argument(s) (more); see 'reliant fit --help'"),
    ("fit photos --preset smal", "unknown preset 'smal'; did you mean 'small'?"),
    ("fit photos --set local.pases=2", "unknown key 'local.pases'; did you mean 'local.passes'?"),
    ("fit photos --set locl.passes=2", "unknown stage 'locl'; did you mean 'local'?"),
    ("fit photos --set local.passes", "--set takes stage.key=value (for example local.passes=20), got 'local.passes'"),
    ("fit photos --set local.passes=0", "local.passes: Input should be greater than 0, got 0"),
    ("fit photos --device gpu", "machine.device: Input should be 'auto', 'cpu' or 'cuda', got 'gpu'"),
    ("fit photos --config none.toml", "no configuration file none.toml"),
    ("fit photos --init none", "no weights at none; give a run folder or a .safetensors file"),
    ("evaluate none", "no run folder and no weights at none; give RUN, a .safetensors file or random:NETWORK"),
    ("evaluate none --protocol kn", "unknown protocol 'kn'; did you mean 'knn'?"),
    ("evaluate random:small", "there is no source to evaluate on; name one: --data SOURCE"),
    ("embed run photos --out z.csv", "--out takes a file that ends in .parquet, .npy or .safetensors, got 'z.csv'"),
    ("embed run photos --out z.npy --layer fc", "layer is 'final' or 'conv', got 'fc'"),
    ("presets dem", "unknown preset 'dem'; did you mean 'demo'?"),
]


@pytest.mark.parametrize(("line", "message"), USAGE, ids=[line for line, _ in USAGE])
def test_wrong_usage(reliant: Command, photos: Path, tmp_path: Path, line: str, message: str) -> None:
    arguments = [str(photos) if word == "photos" else word for word in line.split()]
    done = reliant(*arguments)
    assert (done.code, done.out, done.err) == (2, "", f"reliant: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_json(reliant: Command) -> None:
    done = reliant("fit", "photos", "--preset", "smal", "--json")
    message = "unknown preset 'smal'; did you mean 'small'?"
    assert done.json == {"error": {"kind": "ConfigError", "message": message}}
    assert (done.code, done.err) == (2, f"reliant: {message}\n")


def test_a_mistake_of_the_parser_in_json(reliant: Command) -> None:
    done = reliant("fit", "--json", "--presett", "x")
    assert done.code == 2
    assert done.json["error"]["kind"] == "UsageError"
    assert done.json["error"]["message"].startswith("unknown option '--presett'; did you mean '--preset'?")


def test_an_option_before_the_command(reliant: Command) -> None:
    done = reliant("--json", "fit", "photos")
    problem = (
        "unknown option '--json'; allowed: --version, --help (options of a command come after its name; see 'reliant --help')"
    )
    assert (done.code, done.err) == (2, f"reliant: {problem}\n")
    assert done.json["error"]["message"] == problem


def test_a_value_behind_the_end_of_options_is_no_option(reliant: Command) -> None:
    done = reliant("fit", "--", "--json")
    assert done.out == ""
    assert done.err.startswith("reliant: no file or folder '--json', and no data set of that name; known names: ")


def test_no_such_source(reliant: Command) -> None:
    done = reliant("fit", "fashion-mnist-sampel")
    known = "no file or folder 'fashion-mnist-sampel', and no data set of that name; did you mean 'fashion-mnist-sample'?"
    assert (done.code, done.err) == (1, f"reliant: {known}\n")


def test_an_empty_folder(fit: Command, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = fit(source=empty)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"reliant: {empty} holds no images; looked in it and its sub-folders for .jpg, .png, .webp, .gif, .bmp, .tif, .ppm and "
        ".pgm files, and in it for .parquet files\n"
    )


def test_one_image(fit: Command, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    Image.new("L", (12, 12)).save(folder / "only.png")
    done = fit(source=folder)
    assert (done.code, done.out) == (1, "")
    assert done.err == "reliant: one: 1 usable image, at least 2 are needed; add images\n"
    assert not (tmp_path / "runs").exists()


def test_no_such_device(fit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = fit("--device", "cuda")
    problem = "machine.device = 'cuda', but torch sees no CUDA device; use machine.device=auto or cpu"
    assert (done.code, done.err) == (1, f"reliant: {problem}\n")


def test_a_folder_with_the_files_of_another_tool(fit: Command, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    before = contents(other)
    done = fit("--out", "other")
    problem = "other holds other files (thesis.tex) and is not a run folder (no manifest.json); use another --out"
    assert (done.code, done.err) == (2, f"reliant: {problem}\n")
    assert contents(other) == before


def test_a_run_of_another_source(fit: Command, photos: Path, finished: Path, tmp_path: Path) -> None:
    fewer = tmp_path / "fewer"
    fewer.symlink_to(photos / "a")
    before = contents(finished)
    done = fit("--out", finished, source=fewer)
    problem = f"{finished} was made from 'photos' (48 images), which is not what 'fewer' (16 images) holds now"
    assert (done.code, done.err) == (2, f"reliant: {problem}; use another --out\n")
    assert contents(finished) == before


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_other_keys_than_the_run_was_made_with(fit: Command, finished: Path, more: tuple[str, ...]) -> None:
    before = contents(finished)
    done = fit("--out", finished, "--set", "local.passes=3", "--seed", "5", *more)
    problem = f"{finished} was made with seed = 0 (asked for 5), local.passes = 2.0 (asked for 3.0)"
    assert (done.code, done.err) == (2, f"reliant: {problem}; leave that as it is, or use another --out\n")
    assert contents(finished) == before


def test_a_run_in_use(fit: Command, finished: Path) -> None:
    with FileLock(finished / ".lock"):
        done = fit("--out", finished)
    problem = f"{finished} is in use by another process; wait until it ends, or use another --out"
    assert (done.code, done.err) == (1, f"reliant: {problem}\n")


def test_a_damaged_file_is_named_with_the_stage_that_can_be_redone(fit: Command, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    stage = tmp_path / "copy" / "rounds" / "00" / "initial"
    file = stage / "arrays.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    done = fit("--out", tmp_path / "copy")
    size = file.stat().st_size
    assert done.code == 1
    assert done.err == (
        f"reliant: {file} of stage 'rounds/00/initial' has {size} bytes instead of {size + 1}; delete the folder {stage} and "
        "run the same command again, which redoes this stage\n"
    )
    shutil.rmtree(stage)
    assert fit("--out", tmp_path / "copy").code == 0


def test_a_folder_that_is_no_run(reliant: Command, photos: Path) -> None:
    done = reliant("embed", photos, photos, "--out", "z.npy")
    problem = f"{photos} is not a run folder (no manifest.json); give the folder that 'reliant fit --out' made"
    assert (done.code, done.err) == (1, f"reliant: {problem}\n")


@pytest.mark.parametrize("line", ["evaluate {run} --rounds 7", "embed {run} {photos} --round 7 --out z.npy"])
def test_a_round_that_is_not_there(reliant: Command, finished: Path, photos: Path, tmp_path: Path, line: str) -> None:
    done = reliant(*line.format(run=finished, photos=photos).split())
    assert done.code == 2
    assert "[0, 1]" in done.err
    assert "7" in done.err
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_foresaw_is_said_in_a_line_and_shown_in_full_with_v(
    reliant: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> list[str]:
        raise KeyError("a\nb")

    monkeypatch.setattr("reliant.config.preset_names", fail)
    said = "unexpected KeyError: 'a\\nb' (a defect of reliant; the same command with -v shows where, please report it)"
    short = reliant("presets", "--json")
    assert (short.code, short.err) == (1, f"reliant: {said}\n")
    assert json.loads(short.out) == {"error": {"kind": "KeyError", "message": said}}
    long = reliant("presets", "-v")
    assert long.err.startswith("Traceback (most recent call last):\n")
    assert long.err.endswith(f"reliant: {said}\n")


def test_no_color_is_honoured(reliant: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[1;31mreliant: " in reliant("fitt").err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in reliant("fitt").err
