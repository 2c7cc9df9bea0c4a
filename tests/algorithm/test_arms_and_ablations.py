from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from reliant.learning import features, subproblem
from reliant.learning.device import Device
from reliant.learning.network import Aggregate
from reliant.learning.pixels import Pixels
from reliant.learning.targets import one_each, uniform_hubs
from reliant.randomness import derive, generator
from reliant.relations import consensus, neighbours
from reliant.stages import training
from tiny_runs import arrays, kinds, pictures, same_bits, tiny

Make = Callable[..., Any]


def passes(run: Any, *parts: str) -> float:
    """What the stages of a run have spent that have one of these parts in their names."""
    names = [name for name in run.folder.stages() if any(part in name for part in parts)]
    return float(sum(run.folder.stored(name).budget.passes for name in names))


def digest_of(run: Any, stage: str) -> str:
    return str(run.folder.stored(stage).digest)


def inputs_of(run: Any, stage: str) -> list[str]:
    return list(json.loads((run.path / stage / "stage.json").read_text(encoding="utf-8"))["inputs"])


def network_arrays(run: Any, stage: str) -> dict[str, np.ndarray]:
    return {name: array for name, array in run.folder.stored(stage).value.arrays.items() if name.startswith("network.")}


def test_the_learners_of_a_round_share_its_passes(base: Any) -> None:
    batch = 16 / 48
    for turn in (1, 2):
        local, refined = passes(base, f"rounds/{turn:02d}/learners/0/local"), passes(base, f"{turn:02d}/learners/0/refined")
        assert 3 / 2 - batch < local <= 3 / 2
        assert 2 / 2 - batch < refined <= 2 / 2
    assert 3 - batch < passes(base, "initial") <= 3


def test_the_control_spends_what_a_round_spends_on_the_initialisations_objective(base: Any, make: Make) -> None:
    control = make(rounds__control=True)
    assert [row["round"] for row in control.rounds] == [0, 1, 2]
    assert control.learners(1) == control.learners(2) == []
    # Four stages of a round, each of which may leave out less than a batch.
    spent = [passes(base, "learners/"), passes(control, "control/")]
    assert 2 * (3 + 2) - 8 * 16 / 48 < spent[0] <= 10
    assert 2 * (3 + 2) - 4 * 16 / 48 < spent[1] <= 10
    assert same_bits(arrays(base, "rounds/00/initial"), arrays(control, "rounds/00/initial"))


def test_the_control_keeps_its_targets_and_goes_on_from_its_assignment(make: Make) -> None:
    run = make(rounds__control=True, rounds__count=1, local__reassign_every=0, initial__reassign_every=0)
    started, ended = (arrays(run, stage) for stage in ("rounds/00/initial", "rounds/01/control/refine"))
    targets = uniform_hubs(derive(0, "initial targets"), np.arange(48), 8)
    np.testing.assert_allclose(started["rounds/00/initial: present"], targets, atol=1e-6)
    assert ended["rounds/01/control/refine: assignment"].tolist() == list(range(48))
    assert ended["rounds/01/control/refine: present"].tobytes() == started["rounds/00/initial: present"].tobytes()


def test_the_control_goes_on_from_the_assignment_that_it_finds(make: Make) -> None:
    # So few passes that no batch fits: what comes out is what went in.
    run = make(rounds__control=True, rounds__count=1, local__passes=0.01, refine__passes=0.01)
    started, ended = (run.folder.stored(stage).value.arrays for stage in ("rounds/00/initial", "rounds/01/control/refine"))
    assert started["assignment"].tolist() != list(range(48))
    assert started.keys() == ended.keys()
    assert all(array.tobytes() == ended[name].tobytes() for name, array in started.items())


def test_the_control_deals_the_same_targets_out_anew(make: Make) -> None:
    run = make(rounds__control=True, rounds__count=1)
    started, ended = (arrays(run, stage)[f"{stage}: present"] for stage in ("rounds/00/initial", "rounds/01/control/refine"))
    assert started.tobytes() != ended.tobytes()
    np.testing.assert_array_equal(np.sort(started[:, 0]), np.sort(ended[:, 0]))


def test_singletons_are_the_mined_groups_cut_to_their_seed(base: Any, make: Make) -> None:
    run = make(groups__members="singletons", rounds__count=1)
    mined, cut = base.relations(0), run.relations(0)
    assert [group.tolist() for group in cut.groups] == [[int(seed)] for seed in mined.groups.seeds]
    np.testing.assert_array_equal(cut.subsets.of_group, mined.subsets.of_group)
    assert [len(triplets) for triplets in cut.triplets] == [0, 0]
    assert run.learners(1) == [0, 1]


def test_shuffled_groups_have_the_mined_sizes_and_overlaps(base: Any, make: Make) -> None:
    run = make(groups__members="shuffled", rounds__count=1)
    mined, shuffled = base.relations(0), run.relations(0)
    np.testing.assert_array_equal(shuffled.groups.offsets, mined.groups.offsets)
    np.testing.assert_array_equal(shuffled.subsets.of_group, mined.subsets.of_group)
    place = dict(zip(mined.groups.members.tolist(), shuffled.groups.members.tolist()))
    assert [place[member] for member in mined.groups.members.tolist()] == shuffled.groups.members.tolist()
    assert len(set(place.values())) == len(place)
    assert shuffled.groups.members.tolist() != mined.groups.members.tolist()


def test_without_refinement_a_learner_is_what_local_learning_made(base: Any, make: Make) -> None:
    run = make(refine__passes=0, rounds__count=1)
    for learner in (0, 1):
        place = f"rounds/01/learners/{learner}/local"
        assert same_bits(arrays(base, place), arrays(run, place))
        assert run.weights(1, learner).arrays.keys() == run.weights(1, learner, refined=False).arrays.keys()
    chosen = run.rounds[1]["chosen"]
    representation = network_arrays(run, "rounds/01/representation")
    assert same_bits(representation, network_arrays(run, f"rounds/01/learners/{chosen}/local"))


def test_more_subsets_than_groups_are_as_many_as_there_are_groups(make: Make) -> None:
    run = make(subsets__count=60, local__passes=16, local__batch=4, rounds__count=1, refine__passes=0)
    groups = run.relations(0).summary["groups"]
    assert 2 < groups < 60
    assert run.relations(0).subsets.count <= groups
    assert run.learners(1) == list(range(run.relations(0).subsets.count))
    assert run.verdict.state in ("ok", "collapsed", "flat", "empty")


def test_without_decomposition_one_learner_gets_all_groups(make: Make) -> None:
    run = make(subsets__mode="whole", rounds__count=1)
    relations = run.relations(0)
    assert relations.subsets.count == 1
    assert (relations.subsets.of_group == 0).all()
    images, owners = subproblem.entries(relations, 0)
    assert images.tolist() == relations.groups.members.tolist()
    assert owners.tolist() == relations.groups.owners.tolist()
    assert len(set(images.tolist())) < len(images)
    assert run.learners(1) == [0]
    assert passes(run, "learners/") == pytest.approx(5, abs=2 * 16 / 48)


def test_triplets_only_ranks_with_the_passes_of_a_round(make: Make) -> None:
    run = make(rounds__objective="triplets")
    assert run.learners(1) == []
    saved = run.folder.stored("rounds/01/ranking").value
    assert set(saved.meta["epochs"][0]["terms"]) == {"loss", "active"}
    assert 5 - 16 / 48 < passes(run, "01/ranking") <= 5
    assert not same_bits(network_arrays(run, "rounds/00/initial"), network_arrays(run, "rounds/01/ranking"))
    assert digest_of(run, "rounds/01/ranking") in inputs_of(run, "rounds/02/ranking")


def test_triplets_only_without_a_pair_trains_nothing(make: Make) -> None:
    run = make(rounds__objective="triplets", groups__members="singletons", rounds__count=1)
    assert same_bits(network_arrays(run, "rounds/00/initial"), network_arrays(run, "rounds/01/ranking"))
    assert run.folder.stored("rounds/01/ranking").value.meta["epochs"] == []


def test_one_learner_is_chosen_at_random(base: Any) -> None:
    for turn in (1, 2):
        expected = int(generator(0, "choice", turn).integers(2))
        assert base.rounds[turn]["chosen"] == expected
        chosen = network_arrays(base, f"rounds/{turn:02d}/learners/{expected}/refined")
        assert same_bits(network_arrays(base, f"rounds/{turn:02d}/representation"), chosen)


def test_the_best_learner_is_the_one_whose_neighbours_the_others_confirm(make: Make) -> None:
    run = make(rounds__choice="best", subsets__count=3, rounds__count=1)
    device = Device(run.config.machine)
    pixels = Pixels(run.images(pictures())[0].pixels, device.torch)
    networks = [run.weights(1, learner) for learner in run.learners(1)]
    assert len(networks) == 3
    lists = []
    for learner in range(3):
        phi = run.network_of(1, learner)
        lists.append(neighbours.nearest(features.extract(phi, pixels, device), 10))
    assert run.rounds[1]["chosen"] == consensus.most_agreeing(lists)
    assert run.folder.stored("rounds/01/representation").budget.passes == pytest.approx(3 / 3)


@pytest.mark.parametrize(("choice", "dimension"), [("average", 8), ("concatenate", 16)])
def test_an_aggregate_speaks_for_all_learners_and_each_goes_on_alone(make: Make, choice: str, dimension: int) -> None:
    run = make(rounds__choice=choice)
    assert isinstance(run.network, Aggregate)
    assert run.rounds[1]["chosen"] is None
    found = run.embed(pictures())
    assert found.shape == (48, dimension)
    parts = []
    for learner in (0, 1):
        device = Device(run.config.machine)
        pixels = Pixels(run.images(pictures())[0].pixels, device.torch)
        parts.append(torch.from_numpy(features.extract(run.network_of(2, learner), pixels, device).values))
        start = digest_of(run, f"rounds/01/learners/{learner}/refined")
        assert start in inputs_of(run, f"rounds/02/learners/{learner}/local")
    merged = torch.cat(parts, dim=1) if choice == "concatenate" else (parts[0] + parts[1]) / 2
    np.testing.assert_allclose(found, functional.normalize(merged, dim=1).numpy(), atol=2e-2)


def test_features_of_all_learners_side_by_side(make: Make) -> None:
    run = make(features__learners="all", features__layer="final", rounds__count=1)
    stored = run.folder.stored("rounds/01/features")
    assert stored.value.values.shape == (48, 16)
    assert stored.budget.passes == pytest.approx(2 / 3)


@pytest.mark.parametrize("start", ["warm", "cold"])
def test_a_learner_starts_from_phi_or_from_scratch(make: Make, start: str) -> None:
    # So few passes that no batch fits: what comes out is what went in.
    run = make(local__start=start, local__passes=0.01, refine__passes=0, rounds__count=1)
    initial = network_arrays(run, "rounds/00/initial")
    learners = [network_arrays(run, f"rounds/01/learners/{learner}/local") for learner in (0, 1)]
    if start == "warm":
        assert same_bits(initial, learners[0])
        assert same_bits(initial, learners[1])
    else:
        assert len({arrays["network.head.1.weight"].tobytes() for arrays in (initial, *learners)}) == 3


def objective_of(run: Any, learner: int, **keys: Any) -> Any:
    """The local objective of round 1, as the stage makes it."""
    bench = SimpleNamespace(config=tiny(**keys), device=Device(tiny().machine))
    before = run.folder.stored("rounds/00/initial").value
    return training.local_objective(bench, learner, (0, "local", 1, learner), run.relations(0), before)  # type: ignore[arg-type]


def test_inherited_hubs_are_the_means_of_present_targets(base: Any) -> None:
    objective = objective_of(base, 1)
    present = base.folder.stored("rounds/00/initial").value.arrays["present"]
    images, owners = subproblem.entries(base.relations(0), 1, "singletons")
    for hub in range(int(owners.max()) + 1):
        mean = present[images[owners == hub]].mean(axis=0)
        np.testing.assert_allclose(objective.space.hubs[hub].numpy(), mean / np.linalg.norm(mean), atol=1e-5)
    assert objective.space.targets.spread == 0.3


def test_fresh_hubs_are_drawn_for_every_learner_and_stage(base: Any, make: Make) -> None:
    first, second = (objective_of(base, learner, targets__hubs="fresh").space.targets for learner in (0, 1))
    assert first.key != second.key
    key = derive(0, "local", 1, 0, "targets")
    np.testing.assert_array_equal(first.hubs, uniform_hubs(key, np.arange(len(first.hubs)), 8).astype(np.float32))
    assert "present" not in make(targets__hubs="fresh", rounds__count=0).folder.stored("rounds/00/initial").value.arrays


def test_a_measured_spread_is_that_of_the_mined_groups(base: Any) -> None:
    objective = objective_of(base, 0, targets__spread="measured")
    assert objective.space.targets.spread == base.relations(0).summary["spread"] > 0


def test_uncovered_images_take_part_or_not(base: Any) -> None:
    relations = base.relations(0)
    inside = relations.groups.select(relations.subsets.groups_of(0)).members
    assert len(inside) < 48
    assert set(objective_of(base, 0).image_of_entry.tolist()) == set(range(48))
    assert sorted(objective_of(base, 0, local__uncovered="leave").image_of_entry.tolist()) == sorted(inside.tolist())


def test_an_image_outside_a_subset_keeps_the_target_that_it_had(make: Make) -> None:
    run = make(local__uncovered="leave", rounds__count=1)
    relations = run.relations(0)
    before = run.folder.stored("rounds/00/initial").value.arrays["present"]
    for learner in run.learners(1):
        after = run.folder.stored(f"rounds/01/learners/{learner}/refined").value.arrays["present"]
        inside = relations.groups.select(relations.subsets.groups_of(learner)).members
        outside = np.setdiff1d(np.arange(48), inside)
        assert after[outside].tobytes() == before[outside].tobytes()
        assert (after[inside] != before[inside]).any(axis=1).all()


def test_the_initialisation_has_a_target_each(base: Any) -> None:
    objective = training.initial_objective(
        SimpleNamespace(  # type: ignore[arg-type]
            config=tiny(), device=Device(tiny().machine), images=kinds(48), seed=0
        ),
        (0, "initial"),
    )
    assert objective.space.targets == one_each(48, 8, derive(0, "initial targets"))
    assert objective.image_of_entry.tolist() == list(range(48))
    assert base.folder.stored("rounds/00/initial").value.arrays["assignment"].tolist() != list(range(48))
