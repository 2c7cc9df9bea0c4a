"""Training stages: φ_init, the φ_k before and after refinement, and the arms that a round is compared with (Sec. 3.5)."""

from __future__ import annotations

import numpy as np

from .. import config as configuration
from ..learning import network, objectives, subproblem, targets
from ..randomness import derive
from ..records import Assignment, Relations, Snapshot
from ..store import CheckpointSlot, Stored
from .bench import Bench, Representation, digest_of

Key = tuple[int | str, ...]


def train_initial(bench: Bench) -> Stored:
    """φ_init: every image onto a random point of the sphere (Sec. 3.5, initialisation).

    Weights that come from outside (``--init``) bring no assignment: their targets are dealt as at the start of a run.
    """
    config, count = bench.config.initial, len(bench.images)
    key: Key = (bench.seed, "initial")

    def compute(slot: CheckpointSlot) -> Snapshot:
        phi = bench.build()
        objective = initial_objective(bench, key)
        epochs = []
        if bench.init is None:
            epochs = bench.train(phi, objective, config, config.passes * count, key, slot)
        else:
            network.restore(phi, network.weights_of(bench.init))
        return bench.trained(phi, epochs, objective.point, bench.present(objective, None))

    keys = bench.keys("seed", "network", "augment", "initial", "targets.hubs")
    inputs = [*bench.source, *([] if bench.init is None else [digest_of(bench.init.arrays)])]
    return bench.stage("rounds/00/initial", compute, keys, inputs)


def continue_initial(bench: Bench, turn: int, phi: Representation) -> Stored:
    """The control: a round's passes, rates and annealing, spent on the initialisation's objective and assignment."""
    before = phi.starts[0]
    phases: list[tuple[str, configuration.Local | configuration.Refine]] = [("local", bench.config.local)]
    if bench.config.refine.passes:
        phases.append(("refine", bench.config.refine))
    for name, optimiser in phases:
        before = _continue(bench, f"rounds/{turn:02d}/control/{name}", optimiser, (bench.seed, "control", turn, name), before)
    return before


def _continue(
    bench: Bench, place: str, optimiser: configuration.Local | configuration.Refine, key: Key, before: Stored
) -> Stored:
    def compute(slot: CheckpointSlot) -> Snapshot:
        start: Snapshot = before.value
        phi = bench.load(start)
        objective = initial_objective(bench, key, Assignment(point=start.arrays["assignment"]))
        epochs = bench.train(phi, objective, optimiser, optimiser.passes * len(bench.images), key, slot)
        return bench.trained(phi, epochs, objective.point, bench.present(objective, None))

    keys = bench.keys("seed", "network", "augment", "initial", "local", "refine", "targets.hubs")
    return bench.stage(place, compute, keys, [*bench.source, before.digest])


def train_local(bench: Bench, turn: int, learner: int, phi: Representation, relations: Stored) -> Stored:
    """φ_k: the images of X̄_k onto Gaussian points around random hubs (Eq. 2)."""
    config, before = bench.config.local, phi.starts[learner % len(phi.starts)]
    key: Key = (bench.seed, "local", turn, learner)

    def compute(slot: CheckpointSlot) -> Snapshot:
        start: Snapshot = before.value
        phi_k = bench.load(start) if config.start == "warm" else bench.build(turn, learner)
        objective = local_objective(bench, learner, key, relations.value, start)
        images = config.passes * len(bench.images) / learners_of(relations.value)
        epochs = bench.train(phi_k, objective, config, images, key, slot)
        return bench.trained(phi_k, epochs, present=bench.present(objective, start.arrays.get("present")))

    keys = bench.keys("seed", "network", "augment", "local", "targets") | {"round": turn, "learner": learner}
    return bench.stage(_place(turn, learner, "local"), compute, keys, [*bench.source, before.digest, relations.digest])


def refine_local(bench: Bench, turn: int, learner: int, local: Stored, relations: Stored) -> Stored:
    """φ_k again, on fresh targets and with the triplets that transitivity gives (Eq. 3, 4)."""
    config, transfer = bench.config.refine, bench.config.triplets
    key: Key = (bench.seed, "refine", turn, learner)
    if not config.passes:
        return local

    def compute(slot: CheckpointSlot) -> Snapshot:
        start: Snapshot = local.value
        mined: Relations = relations.value
        phi_k = bench.load(start)
        regression = local_objective(bench, learner, key, mined, start)
        objective = objectives.Refinement(
            regression,
            mined.triplets[learner],
            margin=transfer.margin,
            weight=transfer.weight,
            squared=transfer.squared,
            key=key,
        )
        images = config.passes * len(bench.images) / learners_of(mined)
        epochs = bench.train(phi_k, objective, config, images, key, slot)
        return bench.trained(phi_k, epochs, present=bench.present(regression, start.arrays.get("present")))

    keys = bench.keys("seed", "network", "augment", "local", "refine", "targets", "triplets")
    keys |= {"round": turn, "learner": learner}
    return bench.stage(_place(turn, learner, "refined"), compute, keys, [*bench.source, local.digest, relations.digest])


def rank_triplets(bench: Bench, turn: int, phi: Representation, relations: Stored) -> Stored:
    """The ablation "Triplets only": a ranking loss on the reliable relations in the place of targets."""
    config, transfer, before = bench.config.local, bench.config.triplets, phi.starts[0]
    key: Key = (bench.seed, "triplets", turn)

    def compute(slot: CheckpointSlot) -> Snapshot:
        phi_r, mined = bench.load(before.value), relations.value
        chosen = np.flatnonzero((mined.subsets.of_group >= 0) & (mined.groups.sizes > 1))
        kept = mined.groups.select(chosen)
        objective = objectives.TripletRanking(
            image_of_entry=kept.members,
            group_of_entry=kept.owners,
            subset_of_group=mined.subsets.of_group[chosen],
            margin=transfer.margin,
            squared=transfer.squared,
            device=bench.device.torch,
            key=key,
        )
        images = (config.passes + bench.config.refine.passes) * len(bench.images)
        return bench.trained(phi_r, bench.train(phi_r, objective, config, images, key, slot))

    keys = bench.keys("seed", "network", "augment", "local", "refine.passes", "triplets")
    return bench.stage(f"rounds/{turn:02d}/ranking", compute, keys, [*bench.source, before.digest, relations.digest])


def initial_objective(bench: Bench, key: Key, start: Assignment | None = None) -> objectives.Regression:
    """Eq. 2 with a target of its own for every image; the control keeps these targets, so their key is the run's."""
    config, count = bench.config.initial, len(bench.images)
    return objectives.Regression(
        image_of_entry=np.arange(count, dtype=np.int32),
        group_of_entry=None,
        targets=targets.one_each(count, bench.config.network.dimension, derive(bench.seed, "initial targets")),
        device=bench.device.torch,
        key=key,
        loss=config.loss,
        temperature=config.temperature,
        reassign_every=config.reassign_every,
        start=start,
    )


def local_objective(bench: Bench, learner: int, key: Key, mined: Relations, before: Snapshot) -> objectives.Regression:
    """Eq. 2 on X̄_k; the space of targets is drawn from the key, so that the refinement draws another.

    With inherited hubs only the points around them are drawn anew.
    """
    config, spheres = bench.config.local, bench.config.targets
    image_of_entry, group_of_entry = subproblem.entries(mined, learner, config.uncovered)
    spread = mined.summary["spread"] if spheres.spread == "measured" else float(spheres.spread)
    hubs = None
    if spheres.hubs == "inherited" and "present" in before.arrays:
        hubs = subproblem.inherited_hubs(before.arrays["present"], image_of_entry, group_of_entry, derive(*key, "hubs"))
    dimension = bench.config.network.dimension
    space = targets.around_hubs(group_of_entry, dimension, derive(*key, "targets"), spread, spheres.projected, hubs)
    return objectives.Regression(
        image_of_entry=image_of_entry,
        group_of_entry=group_of_entry,
        targets=space,
        device=bench.device.torch,
        key=key,
        loss=config.loss,
        temperature=config.temperature,
        unit=config.unit,
        view=config.view,
        reassign_every=config.reassign_every,
        block=config.block,
    )


def learners_of(mined: Relations) -> int:
    """How many learners share a round's passes: one a subset."""
    return max(1, mined.subsets.count)


def _place(turn: int, learner: int, stage: str) -> str:
    return f"rounds/{turn:02d}/learners/{learner}/{stage}"
