from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_lines import Ran, contents
from safetensors.numpy import load_file

from reliant.trained import TrainedRun

Command = Callable[..., Ran]


@pytest.fixture
def spoilt(photos: Path, tmp_path: Path) -> Path:
    """Some of the photos and a file that is none, in the middle of them."""
    folder = tmp_path / "spoilt"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.png").symlink_to(photos / "a" / f"{number:02d}.png")
    (folder / "1b.png").write_bytes(b"no image")
    return folder


# ---- embed


def test_embed_into_parquet_keeps_the_order_of_the_source(reliant: Command, finished: Path, photos: Path) -> None:
    done = reliant("embed", finished, photos, "--out", "new/z.parquet")
    table = pq.read_table("new/z.parquet")
    assert (done.code, done.out) == (0, "48 × 16 features in new/z.parquet\n")
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 16)
    assert table["id"].to_pylist() == sorted(f"{kind}/{number:02d}.png" for kind in "abc" for number in range(16))
    values = np.array(table["embedding"].to_pylist(), np.float32)
    assert np.array_equal(values, TrainedRun(finished).embed(photos))


def test_embed_into_npy_and_safetensors_puts_the_ids_beside(reliant: Command, finished: Path, photos: Path) -> None:
    assert reliant("embed", finished, photos, "--out", "z.npy", "--layer", "conv", "--round", 0).code == 0
    assert reliant("embed", finished, photos, "--out", "y.safetensors", "--layer", "conv", "--round", 0).code == 0
    expected = TrainedRun(finished).embed(photos, layer="conv", round=0)
    assert np.array_equal(np.load("z.npy"), expected)
    assert list(load_file("y.safetensors")) == ["embedding"]
    assert np.array_equal(load_file("y.safetensors")["embedding"], expected)
    for name in ("z", "y"):
        assert pq.read_table(f"{name}.ids.parquet")["id"].to_pylist()[:2] == ["a/00.png", "a/01.png"]
    assert sorted(path.name for path in Path().iterdir()) == ["y.ids.parquet", "y.safetensors", "z.ids.parquet", "z.npy"]


def test_embed_leaves_out_what_is_no_image_and_says_so(reliant: Command, finished: Path, spoilt: Path) -> None:
    done = reliant("embed", finished, spoilt, "--out", "z.parquet", "--json", "-q")
    reason = "not an image: its first bytes are of none of JPEG, PNG, WebP, GIF, BMP, TIFF, PPM"
    assert done.err == f"warning: left out: 1b.png: {reason}\n"
    assert done.json == {
        "run": str(finished),
        "round": 1,
        "layer": "final",
        "images": 4,
        "dimension": 16,
        "files": ["z.parquet"],
        "quarantined": [{"id": "1b.png", "reason": reason}],
    }
    assert pq.read_table("z.parquet")["id"].to_pylist() == ["0.png", "1.png", "2.png", "3.png"]


def test_embed_replaces_a_file_and_changes_nothing_in_the_run(reliant: Command, finished: Path, photos: Path) -> None:
    before = contents(finished)
    Path("z.npy").write_text("old")
    assert reliant("embed", finished, photos, "--out", "z.npy").code == 0
    assert np.load("z.npy").shape == (48, 16)
    assert contents(finished) == before


def test_embed_does_not_take_a_folder_for_a_file(reliant: Command, finished: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "z.npy").mkdir()
    done = reliant("embed", finished, photos, "--out", "z.npy")
    assert done.code == 2
    assert done.err == "reliant: --out z.npy is a folder; name a file, for example z.npy/embeddings.parquet\n"


# ---- evaluate


def test_evaluate_in_json_has_the_rounds_ascending_and_the_measures_at_the_top(reliant: Command, finished: Path) -> None:
    found = reliant("evaluate", finished, "--json").json
    assert found["protocol"] == "knn"
    assert [row["round"] for row in found["rounds"]] == [0, 1]
    for row in found["rounds"]:
        assert list(row) == ["round", "accuracy", "accuracy_final"]
        assert 0 <= row["accuracy"] <= 1
        assert isinstance(row["accuracy_final"], float)


def test_evaluate_shows_a_table_of_rounds_and_measures(reliant: Command, finished: Path) -> None:
    done = reliant("evaluate", finished)
    scores = reliant("evaluate", finished, "--json").json["rounds"]
    lines = done.out.splitlines()
    assert lines[0] == "knn on photos, split held-out-fifth"
    assert lines[2].split() == ["round", "accuracy", "accuracy", "final"]
    for line, row in zip(lines[4:6], scores, strict=True):
        shown = [f"{100 * row[name]:.2f}" for name in ("accuracy", "accuracy_final")]
        assert line.split() == [str(row["round"]), shown[0], "%", shown[1], "%"]


def test_evaluate_beside_a_control(reliant: Command, fit: Command, finished: Path) -> None:
    assert fit("--out", "control", "--set", "rounds.control=true", "-q").code == 0
    found = reliant("evaluate", finished, "--control", "control", "--json").json
    assert found["control"]["run"] == "control"
    alone = reliant("evaluate", "control", "--json").json
    assert found["control"]["rounds"] == alone["rounds"]
    done = reliant("evaluate", finished, "--control", "control")
    row = next(line for line in done.out.splitlines() if line.split()[:3] == ["1", "accuracy", "final"])
    run, control = found["rounds"][1]["accuracy_final"], alone["rounds"][1]["accuracy_final"]
    cells = [f"{100 * run:.2f}", "%", f"{100 * control:.2f}", "%", f"{100 * (run - control):+.2f}"]
    assert row.split()[3:] == cells


def test_evaluate_every_learner(reliant: Command, finished: Path) -> None:
    found = reliant("evaluate", finished, "--learners", "all", "--rounds", "last", "--json").json
    learners = found["rounds"][0]["learners"]
    stages = [(0, "local"), (0, "refined"), (1, "local"), (1, "refined")]
    assert [(one["learner"], one["stage"]) for one in learners] == stages
    done = reliant("evaluate", finished, "--learners", "all", "--rounds", "last")
    assert "1 · learner 2 refined" in done.out


def test_evaluate_relations_also_by_size(reliant: Command, finished: Path) -> None:
    found = reliant("evaluate", finished, "--protocol", "relations", "--json").json
    assert {"correctness", "correctness_seed", "coverage"} <= set(found["rounds"][0])
    done = reliant("evaluate", finished, "--protocol", "relations")
    assert done.out.splitlines()[0] == "relations on photos, split train"
    assert any(line.split() == ["round", "size", "groups", "correctness", "coverage"] for line in done.out.splitlines())


def test_evaluate_random_weights_on_a_source_of_choice(reliant: Command, photos: Path) -> None:
    found = reliant("evaluate", "random:small", "--data", photos, "--labels", "folders", "--json").json
    assert [row["round"] for row in found["rounds"]] == [0]


def test_evaluate_without_labels(reliant: Command, finished: Path, photos: Path) -> None:
    done = reliant("evaluate", finished, "--data", photos / "a")
    assert done.code == 1
    assert done.err.startswith("reliant: ")
    assert "label" in done.err
    assert done.err.count("\n") == 1


# ---- presets


def test_presets_lists_names_and_titles(reliant: Command) -> None:
    found = reliant("presets", "--json").json["presets"]
    names = [one["name"] for one in found]
    assert {"smoke", "demo", "small"} <= set(names)
    assert names == sorted(names)
    shown = reliant("presets").out
    assert all(one["name"] in shown and one["title"].split()[0] in shown for one in found)


def test_a_preset_shows_what_it_is_for_and_which_keys_it_changes(reliant: Command) -> None:
    import tomllib

    found = reliant("presets", "smoke", "--json").json
    assert found["name"] == "smoke"
    assert "title" in found["about"]
    done = reliant("presets", "smoke")
    about, _, keys = done.out.partition("\n\n")
    assert found["about"]["title"] in about
    assert tomllib.loads(keys) == found["keys"]


# ---- doctor


def test_doctor_tells_of_the_machine(reliant: Command) -> None:
    machine = reliant("doctor", "--json").json["machine"]
    assert machine["torch"]["bf16_gflops"] > 0
    assert machine["data_folder"] is None
    assert machine["data_sets"] == ["fashion-mnist-sample"]
    assert machine["free_disk_bytes"] > 0


def test_doctor_tells_what_is_wrong_with_a_source(reliant: Command, spoilt: Path) -> None:
    done = reliant("doctor", spoilt)
    assert done.code == 0
    assert "images    5, of which 4 can be used\n" in [f"{line.rstrip()}\n" for line in done.out.splitlines()]
    lines = done.out.splitlines()
    assert "left out: 1b.png: not an image: its first bytes are of none of JPEG, PNG, WebP, GIF, BMP, TIFF, PPM" in lines
    assert "1 of 5 images cannot be used and are left out" in lines
    found = reliant("doctor", spoilt, "--json").json["source"]
    assert (found["images"], found["usable"], found["grey"], found["colour"]) == (5, 4, 4, 0)
    assert found["sizes"] == {"different": 1, "smallest": [12, 12], "largest": [12, 12], "most": [12, 12]}
    assert [bad["id"] for bad in found["quarantined"]] == ["1b.png"]


def test_doctor_survives_a_source_without_one_good_image(reliant: Command, tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.png").write_bytes(b"")
    found = reliant("doctor", tmp_path / "bad", "--json").json["source"]
    assert found["usable"] == 0
    assert found["problems"] == [
        "1 of 1 images cannot be used and are left out",
        "that is more than data.max_bad = 0.5 allows: fit stops",
        "0 usable images: fit needs at least 2",
    ]


def test_doctor_works_where_torch_is_not_installed(shell: Command) -> None:
    from command_lines import WITHOUT_TORCH

    done = shell("doctor", program=WITHOUT_TORCH)
    assert done.code == 0
    line = next(line for line in done.out.splitlines() if line.startswith("torch "))
    assert line.split(None, 1)[1].rstrip() == "not installed: fit, embed and evaluate need it; pip install 'reliant[train]'"


# ---- cache


def test_cache_lists_what_it_holds_and_clears_it(reliant: Command, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIANT_CACHE", "own")
    assert reliant("cache").out == "0 entries, 0 bytes, in own/images\n"
    assert reliant("evaluate", "random:small", "--data", photos, "-q").code == 0
    found = reliant("cache", "--json").json
    entry = found["entries"][0]
    assert (entry["name"], entry["images"], entry["size"], entry["channels"]) == ("photos", 48, 32, 1)
    assert found["bytes"] == entry["bytes"] > 48 * 32 * 32
    shown = reliant("cache").out.splitlines()
    assert shown[3].split()[:4] == ["photos", "48", "32", "px"]
    cleared = reliant("cache", "--clear", "--json").json
    assert (cleared["entries"], cleared["bytes"], cleared["freed"]) == ([], 0, found["bytes"])
