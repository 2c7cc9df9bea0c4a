"""The end of a round: φ from the learners, its health, its row in the manifest, and what is kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..learning import features as extraction
from ..learning import health, loop, network
from ..randomness import generator
from ..records import Relations, Snapshot, Verdict
from ..relations import consensus, neighbours
from ..store import CheckpointSlot, Stored
from . import relating
from .bench import Bench, Mined, Representation

# Neighbours by which learners are compared with each other.
_AGREEMENT_LIST = 10


def choose(bench: Bench, turn: int, *learners: Stored) -> Representation:
    """φ ← φ_k* with k* drawn at random, or another of the "aggregation strategies" (Sec. 3.5.3).

    ``average`` takes the mean of K spaces that nothing aligns; it is there because the paper names it.
    """
    choice = bench.config.rounds.choice if len(learners) > 1 else "random"

    def compute(slot: CheckpointSlot) -> Snapshot:
        if choice in ("average", "concatenate"):
            return network.aggregate([stored.value for stored in learners], choice)
        chosen = int(generator(bench.seed, "choice", turn).integers(len(learners)))
        if choice == "best":
            chosen = _most_agreeing(bench, learners)
            slot.spend(passes=len(learners) * loop.FORWARD_SHARE)
        value: Snapshot = learners[chosen].value
        arrays = {name: array for name, array in value.arrays.items() if name.startswith("network.")}
        return Snapshot(arrays=arrays, meta={**value.meta, "chosen": chosen})

    keys = bench.keys("seed", "network") | {"choice": choice, "round": turn}
    stored = bench.stage(f"rounds/{turn:02d}/representation", compute, keys, [one.digest for one in learners])
    chosen = stored.value.meta.get("chosen")
    return Representation(stored, learners, starts=learners if chosen is None else [learners[chosen]])


def _most_agreeing(bench: Bench, learners: Sequence[Stored]) -> int:
    """The label-free best: the learner whose neighbours the other learners confirm most; the lowest where they are equal."""
    lists = []
    for place, stored in enumerate(learners):
        found = extraction.extract(bench.load(stored.value), bench.pixels, bench.device, "final", learner=place)
        lists.append(neighbours.nearest(found, _AGREEMENT_LIST))
    return consensus.most_agreeing(lists)


def examine(bench: Bench, turn: int, phi: Representation, mined: Mined) -> Verdict:
    """Health of φ and of what was mined from it, without labels."""
    trained = phi.starts[0]

    def compute(slot: CheckpointSlot) -> dict[str, Any]:
        rows = health.sample(len(bench.images), bench.seed)
        slot.spend(passes=len(rows) / len(bench.images) * loop.FORWARD_SHARE)
        # Of φ itself, whichever layer is mined: conv features can be sound while φ has collapsed.
        final = extraction.forward_clean(bench.load(phi.stored.value), bench.pixels, rows, bench.device).cpu().numpy()
        measured = health.measures(final, relating.as_neighbours(mined.neighbours), bench.seed)
        found: Relations = mined.relations.value
        scratch = turn == 0 or (bench.config.local.start == "cold" and not bench.config.rounds.control)
        verdict = health.verdict(measured, final.shape[1], trained.value.meta["epochs"], bench.config.health, scratch)
        if verdict.healthy and not len(found.groups):
            verdict = Verdict(
                state="empty",
                reason="no group of images is more compact than chance explains",
                advice="train the initialisation longer (initial.passes) or loosen chance.percentile",
            )
        return {"measures": measured, "verdict": vars(verdict)}

    keys, inputs = bench.keys("seed", "health"), [phi.stored.digest, mined.neighbours.digest, mined.relations.digest]
    stored = bench.stage(f"rounds/{turn:02d}/health", compute, keys, inputs)
    _publish(bench, turn, phi, mined.relations, stored)
    return Verdict(**stored.value["verdict"])


def _publish(bench: Bench, turn: int, phi: Representation, relations: Stored, examined: Stored) -> None:
    """The round's row in the manifest; and retention: what the next round does not need and can be computed again goes."""
    summary, verdict = relations.value.summary, examined.value["verdict"]
    row = {
        "round": turn,
        "chosen": phi.stored.value.meta.get("chosen"),
        "verdict": verdict,
        "groups": summary["groups"],
        "coverage": summary["coverage"],
        "health": examined.value["measures"],
    }
    others = [other for other in bench.run.manifest["rounds"] if other["round"] != turn]
    bench.run.update_manifest(rounds=sorted([*others, row], key=lambda one: one["round"]))
    bench.run.event("round", **row)
    if bench.config.store.features == "last" and turn > 0:
        before = f"rounds/{turn - 1:02d}/"
        for name in bench.run.stages():
            if name.startswith(before) and name.endswith(("/features", "/neighbours")):
                bench.run.drop(name)
