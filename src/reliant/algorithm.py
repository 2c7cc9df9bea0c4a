"""Algorithm 1: the only file that knows the order.

Read :func:`learn` beside the paper's listing; every line is one of its steps. A step is a stage (``stages/``) that saves
its output, and is skipped where that is there already.
"""

from __future__ import annotations

from dataclasses import dataclass

from .records import Verdict
from .stages.bench import Bench, Representation
from .stages.choosing import choose, examine
from .stages.relating import extract_relations
from .stages.training import continue_initial, learners_of, rank_triplets, refine_local, train_initial, train_local


@dataclass(frozen=True)
class Outcome:
    """The last healthy representation and its round, and the verdict under which the rounds ended."""

    phi: Representation
    round: int
    verdict: Verdict


def learn(bench: Bench) -> Outcome:
    """φ from images without labels, in T rounds of extracting reliable relations and learning from them."""
    config = bench.config.rounds

    # Train initial representation φ_init.
    phi = choose(bench, 0, train_initial(bench))
    mined = extract_relations(bench, 0, phi)
    verdict = examine(bench, 0, phi, mined)
    outcome = Outcome(phi, 0, verdict)

    # Iterative learning: for iter ← 1 to T.
    for turn in range(1, config.count + 1):
        # The control needs no groups; it goes on where a round could not.
        if not verdict.healthy and not (config.control and verdict.state == "empty"):
            break
        if config.control:
            phi = choose(bench, turn, continue_initial(bench, turn, phi))
        elif config.objective == "triplets":
            phi = choose(bench, turn, rank_triplets(bench, turn, phi, mined.relations))
        else:
            subsets = range(learners_of(mined.relations.value))
            # Train local representations φ_k.
            local = [train_local(bench, turn, k, phi, mined.relations) for k in subsets]
            # Refine local representations φ_k.
            refined = [refine_local(bench, turn, k, local[k], mined.relations) for k in subsets]
            # Update global φ by choosing k*.
            phi = choose(bench, turn, *refined)

        # Extract reliable image relations. The paper's listing does so at the start of the next round; they are mined
        # after the last round too, as what a user may want of a run.
        mined = extract_relations(bench, turn, phi)
        verdict = examine(bench, turn, phi, mined)
        # A representation that collapsed stays on disk, but it is not the result.
        outcome = (
            Outcome(phi, turn, verdict) if verdict.state in ("ok", "empty") else Outcome(outcome.phi, outcome.round, verdict)
        )
    return outcome
