from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import reliant
from reliant.errors import ConfigError, DataError, StateError, UsageError
from reliant.trained import configured, read_weights, weights_from
from tiny_runs import Trunk, arrays, fit, pictures, same_bits, tiny

Make = Callable[..., Any]


def test_a_run_describes_itself(base: Any) -> None:
    assert repr(base) == f"TrainedRun({str(base.path)!r}, rounds=3, status='finished')"
    assert base.config == tiny()
    assert base.verdict.healthy


def test_phi_is_a_plain_network_on_the_sphere(base: Any) -> None:
    phi = base.network
    assert isinstance(phi, torch.nn.Module)
    assert not phi.training
    with torch.no_grad():
        found = phi(torch.rand(3, 1, 12, 12))
    assert found.shape == (3, 8)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(3))


def test_an_embedding_is_what_the_network_says_of_each_image(base: Any) -> None:
    images = pictures(5)
    found = base.embed(images)
    with torch.no_grad():
        expected = base.network(torch.from_numpy(images).permute(0, 3, 1, 2) / 255).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-2)
    assert base.embed(images, layer="conv").shape == (5, 144)
    assert base.embed(images, round=0).tobytes() != found.tobytes()
    assert base.embed(images).tobytes() == found.tobytes()
    np.testing.assert_array_equal(base.embed(images[::-1].copy())[::-1], found)


def test_colour_images_are_embedded_as_the_run_saw_its_own(base: Any) -> None:
    grey = pictures(4)
    np.testing.assert_allclose(base.embed(np.repeat(grey, 3, axis=3)), base.embed(grey), atol=2e-2)


def test_a_loaded_run_is_the_one_that_was_fitted(base: Any) -> None:
    loaded = reliant.load(base.path, network=Trunk(seed=5))
    assert loaded.embed(pictures(4)).tobytes() == base.embed(pictures(4)).tobytes()
    assert loaded.rounds == base.rounds


def test_a_network_of_ones_own_is_needed_to_load_its_weights(base: Any) -> None:
    loaded = reliant.load(base.path)
    assert loaded.relations().summary == base.relations().summary
    with pytest.raises(DataError, match=r"pass it again: reliant\.load"):
        loaded.embed(pictures(2))


def test_learners_before_and_after_refinement_are_networks(base: Any) -> None:
    found = [base.network_of(1, learner, refined) for learner in (0, 1) for refined in (False, True)]
    heads = {phi.head[1].weight.detach().numpy().tobytes() for phi in found}
    assert len(heads) == 4


def test_what_is_not_there_is_said(base: Any) -> None:
    with pytest.raises(UsageError) as caught:
        base.embed(pictures(2), round=7)
    assert str(caught.value) == f"{base.path} has rounds [0, 1, 2], got 7"
    with pytest.raises(UsageError) as caught:
        base.embed(pictures(2), layer="conv3")
    assert str(caught.value) == "layer is 'final' or 'conv', got 'conv3'"
    with pytest.raises(StateError, match="has no stage 'rounds/01/learners/9/refined'"):
        base.weights(1, learner=9)
    with pytest.raises(StateError, match="has no stage 'rounds/09/relations'"):
        base.relations(9)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"is not a run folder \(no manifest.json\)"):
        reliant.load(tmp_path)


def test_a_run_without_a_round(make: Make, events: Any, killed: Any, tmp_path: Path) -> None:
    with pytest.raises(killed):
        make(progress=events(stop=1))
    with pytest.raises(StateError) as caught:
        _ = reliant.load(tmp_path / "run").round
    assert str(caught.value) == f"{tmp_path / 'run'} has no finished round yet; run the same 'reliant fit' command again"


def test_the_budget_is_that_of_all_stages(base: Any) -> None:
    stages = [base.folder.stored(name).budget for name in base.folder.stages()]
    assert base.budget.passes == pytest.approx(sum(stage.passes for stage in stages))
    # Training, features of three rounds, and three looks at the health of φ.
    assert base.budget.passes == pytest.approx(3 + 2 * (3 + 2) + 3 / 3 + 3 / 3, abs=9 * 16 / 48)
    assert base.budget.seconds > 0


def test_a_summary_is_read_without_the_relations(base: Any) -> None:
    assert base.summary(1) == base.relations(1).summary
    assert base.summary(9) == {}


def test_the_default_folder_has_the_name_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "holiday photos.npy", pictures(8))
    run = reliant.fit("holiday photos.npy", config=tiny(rounds__count=0), network=Trunk())
    assert run.path == Path("runs/holiday-photos")
    assert run.manifest["source"]["spec"] == str(tmp_path / "holiday photos.npy")


def test_arrays_have_no_name_to_be_found_by_again(base: Any) -> None:
    assert base.manifest["source"]["spec"] is None
    assert base.manifest["source"]["name"] == "images"


def test_a_run_starts_from_the_weights_of_another(base: Any, tmp_path: Path) -> None:
    def started(out: str, init: Any) -> Any:
        settings = tiny(rounds__count=1)
        return reliant.fit(pictures(seed=1), out=tmp_path / out, config=settings, network=Trunk(), init=init)

    run = started("run", base.path)
    initial = run.folder.stored("rounds/00/initial").value
    given = base.weights(2).arrays
    assert all(initial.arrays[name].tobytes() == array.tobytes() for name, array in given.items())
    assert initial.meta["epochs"] == []
    assert run.folder.stored("rounds/00/initial").budget.passes == 0
    weights = base.path / "rounds/02/representation/arrays.safetensors"
    for name, init in (("open", base), ("file", weights), ("snapshot", base.weights(2))):
        assert same_bits(arrays(run), arrays(started(name, init)))


def test_another_trunk_does_not_overwrite_a_run(base: Any) -> None:
    before = base.weights(2).arrays
    for other, named in ((Trunk(seed=1), "a network of your own"), (None, "a named network")):
        with pytest.raises(UsageError, match=rf"was made with a network of your own \(.*\), asked for {named}"):
            reliant.fit(pictures(), out=base.path, config=base.config, network=other)
    assert same_bits(base.weights(2).arrays, before)


def test_weights_of_another_network_do_not_start_a_run(base: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="these weights belong to another network: "):
        reliant.fit(pictures(8), out=tmp_path / "run", config=tiny(), init=base.path)


def test_weights_are_read_with_what_describes_them(base: Any, tmp_path: Path) -> None:
    place = base.path / "rounds/02/representation"
    found = read_weights(place / "arrays.safetensors")
    assert found.meta["network"]["dimension"] == 8
    assert same_bits(found.arrays, weights_from(base.path).arrays)
    file = tmp_path / "weights.safetensors"
    with pytest.raises(UsageError) as caught:
        read_weights(file)
    assert str(caught.value) == f"no weights at {file}; give a run folder or a .safetensors file"
    shutil.copy(place / "arrays.safetensors", file)
    with pytest.raises(UsageError) as caught:
        read_weights(file)
    assert str(caught.value) == (f"{tmp_path / 'meta.json'} is missing; weights need the meta.json that was saved beside them")
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(StateError) as caught:
        read_weights(file)
    assert str(caught.value) == (
        f"{tmp_path / 'meta.json'} does not describe a network; give the one saved beside weights.safetensors"
    )
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(StateError, match="holds no weights that can be read"):
        read_weights(file)


def test_sets_may_be_texts_or_a_table() -> None:
    texts = configured("smoke", ["local.passes=7", "seed=3"])
    table = configured("smoke", {"local.passes": 7, "seed": 3})
    assert texts == table == configured("smoke", {"local.passes": 7}, seed=3)
    assert table.local.passes == 7
    with pytest.raises(ConfigError, match=r"unknown key 'local.pases'; did you mean 'local.passes'\?"):
        configured("smoke", {"local.pases": 7})


def test_a_source_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="got int"):
        fit(tmp_path / "run", 7)
    with pytest.raises(DataError, match="no file or folder 'nowhere'"):
        fit(tmp_path / "run", "nowhere")
    assert not (tmp_path / "run").exists()
