from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from reliant.learning.objectives import Refinement, Regression, TripletRanking, ranking
from reliant.learning.targets import one_each
from reliant.records import Triplets

CPU = torch.device("cpu")
DIMENSION = 4


def local(entries: int = 9, **keys: Any) -> Regression:
    fields = {"targets": one_each(entries, DIMENSION, 1), "device": CPU, "key": (0, "local"), "reassign_every": 0}
    return Regression(image_of_entry=np.arange(entries, dtype=np.int32), group_of_entry=None, **{**fields, **keys})


def triplets(*rows: tuple[int, int, int]) -> Triplets:
    columns = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    names = dict(zip(("anchor", "similar", "dissimilar"), (np.ascontiguousarray(one) for one in columns)))
    filler = np.zeros(len(rows), np.int32)
    return Triplets(**names, group=filler, subset=filler, kind=filler)


def refinement(*rows: tuple[int, int, int], **keys: Any) -> Refinement:
    fields = {"margin": 0.2, "weight": 1.0, "squared": False, "key": (0, "refine")}
    return Refinement(keys.pop("local", local()), triplets(*rows), **{**fields, **keys})


def features(count: int, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(count, DIMENSION, generator=torch.Generator().manual_seed(seed))
    return functional.normalize(drawn, dim=1)


def row(*numbers: float) -> torch.Tensor:
    return torch.tensor([numbers])


def test_the_hinge_by_hand() -> None:
    anchor, similar, dissimilar = row(0.0, 0.0), row(0.3, 0.4), row(0.6, 0.8)
    hinge, active = ranking(anchor, similar, dissimilar, margin=0.2, squared=False)
    assert (hinge.tolist(), active.tolist()) == ([0.0], [False])
    hinge, active = ranking(anchor, similar, dissimilar, margin=0.75, squared=False)
    assert float(hinge) == pytest.approx(0.5 - 1 + 0.75)
    assert active.tolist() == [True]
    hinge, _ = ranking(anchor, similar, dissimilar, margin=0.9, squared=True)
    assert float(hinge) == pytest.approx(0.25 - 1 + 0.9)


@pytest.mark.parametrize("squared", [False, True])
@given(st.integers(1, 6), st.floats(0, 2), st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_the_hinge_is_that_of_plain_loops(squared: bool, count: int, margin: float, seed: int) -> None:
    three = [features(count, seed + place) for place in range(3)]
    hinge, active = ranking(*three, margin=margin, squared=squared)
    for place in range(count):
        near, far = (sum(float(a - b) ** 2 for a, b in zip(three[0][place], one[place])) for one in three[1:])
        near, far = (near, far) if squared else (math.sqrt(near), math.sqrt(far))
        assert float(hinge[place]) == pytest.approx(max(0.0, near - far + margin), abs=1e-5)
        assert bool(active[place]) == (float(hinge[place]) > 0)


def test_the_hinge_has_finite_gradients_where_images_coincide() -> None:
    anchor = torch.zeros(1, 2, requires_grad=True)
    hinge, _ = ranking(anchor, torch.zeros(1, 2), torch.zeros(1, 2), margin=0.2, squared=False)
    hinge.sum().backward()
    assert anchor.grad is not None
    assert bool(anchor.grad.isfinite().all())


@given(st.integers(1, 9), st.integers(0, 50))
@settings(deadline=None, max_examples=40)
def test_a_batch_holds_its_entries_and_a_third_as_many_triplets_of_t(entries: int, step: int) -> None:
    rows = [(10, 11, 12), (20, 21, 22), (30, 31, 32)]
    images = refinement(*rows).images(np.arange(entries), step)
    assert images[:entries].tolist() == list(range(entries))
    count = max(1, entries // 3)
    anchors, similars, dissimilars = images[entries:].reshape(3, count).tolist()
    assert set(zip(anchors, similars, dissimilars)) <= set(rows)


def test_the_triplets_of_a_step_are_the_same_and_of_another_step_others() -> None:
    rows = [(place, 100 + place, 200 + place) for place in range(50)]
    objective, entries = refinement(*rows), np.arange(9)
    assert objective.images(entries, 3).tolist() == refinement(*rows).images(entries, 3).tolist()
    steps = [tuple(objective.images(entries, step)[9:]) for step in range(30)]
    assert len(set(steps)) == 30
    drawn = {anchor for step in steps for anchor in step[:3]}
    assert len(drawn) > 35


@pytest.mark.parametrize("squared", [False, True])
def test_the_terms_of_eq_4_by_hand(squared: bool) -> None:
    objective = refinement((10, 11, 12), (20, 21, 22), margin=0.5, weight=0.7, squared=squared)
    entries = np.arange(6)
    values = features(6 + 6)
    losses = objective.loss(values, entries, epoch=1)
    alone = float(local().loss(values[:6], entries, epoch=1)["loss"])
    hinge, active = ranking(values[6:8], values[8:10], values[10:12], 0.5, squared)
    transfer = float(hinge.mean()) * 6
    assert float(losses["local"]) == pytest.approx(alone)
    assert float(losses["transfer"]) == pytest.approx(transfer)
    assert float(losses["loss"]) == pytest.approx(alone + 0.7 * transfer)
    assert float(losses["active"]) == pytest.approx(float(active.sum()) / 2 * 6)
    assert not losses["local"].requires_grad


def test_both_terms_are_minimised() -> None:
    values = features(12).requires_grad_()
    refinement((10, 11, 12), margin=3.0).loss(values, np.arange(6), epoch=1)["loss"].backward()
    assert values.grad is not None
    assert bool((values.grad.norm(dim=1) > 0).all())


def test_without_triplets_the_refinement_is_local_learning() -> None:
    objective, entries, values = refinement(), np.arange(6), features(6)
    assert objective.images_per_entry == 1
    assert objective.images(entries, 0).tolist() == list(range(6))
    losses = objective.loss(values, entries, epoch=1)
    assert float(losses["loss"]) == float(local().loss(values, entries, epoch=1)["loss"])
    assert set(losses) == {"loss", "distance"}


def test_with_triplets_half_of_a_batch_is_theirs() -> None:
    assert refinement((1, 2, 3)).images_per_entry == 2


def test_re_assignment_and_state_are_those_of_the_local_objective() -> None:
    inner = local(reassign_every=1, view="clean")
    objective = refinement((1, 2, 3), local=inner)
    objective.before_epoch(0, lambda images: features(len(images)))
    assert objective.churn == inner.churn > 0
    other = refinement((1, 2, 3))
    other.load_state(objective.state())
    assert other.local.point.tolist() == inner.point.tolist()


def ranked(sizes: list[int], subsets: list[int], **keys: Any) -> TripletRanking:
    owners = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    fields = {"margin": 0.2, "squared": False, "device": CPU, "key": (0, "triplets")}
    return TripletRanking(
        image_of_entry=np.arange(100, 100 + len(owners), dtype=np.int32),
        group_of_entry=owners,
        subset_of_group=np.array(subsets, dtype=np.int32),
        **{**fields, **keys},
    )


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_a_partner_is_another_image_of_the_group(sizes: list[int], step: int) -> None:
    objective = ranked(sizes, [0] * len(sizes))
    entries = np.random.default_rng(step).permutation(objective.entries)
    anchors, partners = objective.images(entries, step).reshape(2, -1) - 100
    owners = objective.group_of_entry
    assert anchors.tolist() == entries.tolist()
    assert owners[partners].tolist() == owners[anchors].tolist()
    alone = np.array(sizes)[owners[anchors]] == 1
    assert ((partners == anchors) == alone).all()


def test_every_partner_has_its_turn() -> None:
    objective = ranked([4, 2], [0, 0])
    partners = {int(objective.images(np.array([1]), step)[1]) - 100 for step in range(60)}
    assert partners == {0, 2, 3}


def chosen_negatives(objective: TripletRanking, values: torch.Tensor, entries: np.ndarray, step: int) -> list[int]:
    """Which row of the batch each anchor is told from."""
    objective.images(entries, step)
    groups = torch.from_numpy(objective.group_of_entry[entries].astype(np.int64))
    subsets = torch.from_numpy(objective.subset_of_group.astype(np.int64))[groups]
    allowed = (groups[:, None] != groups[None, :]) & (subsets[:, None] == subsets[None, :])
    return list(objective._negatives(values, allowed).tolist())


def test_a_negative_comes_from_another_group_of_the_same_subset() -> None:
    objective = ranked([2, 2, 3, 1], [0, 1, 0, 1])
    entries, owners, subsets = np.arange(8), [0, 0, 1, 1, 2, 2, 2, 3], [0, 0, 1, 1, 0, 0, 0, 1]
    for step in range(40):
        for anchor, negative in enumerate(chosen_negatives(objective, features(8, step), entries, step)):
            assert owners[negative] != owners[anchor]
            assert subsets[negative] == subsets[anchor]


def test_negatives_are_drawn_against_the_density_of_their_distance() -> None:
    objective = ranked([1, 1, 1], [0, 0, 0])
    values = functional.normalize(torch.tensor([[1.0, 0.0, 0, 0], [1.0, 0.8, 0, 0], [0.2, 1.0, 0, 0]]), dim=1)

    def weight(distance: float) -> float:
        """q(d)⁻¹ on the sphere of four dimensions."""
        return 1 / (distance**2 * math.sqrt(1 - distance**2 / 4))

    near, far = (weight(float((values[0] - values[other]).norm())) for other in (1, 2))
    drawn = [chosen_negatives(objective, values, np.arange(3), step)[0] for step in range(1500)]
    assert set(drawn) == {1, 2}
    assert drawn.count(1) / 1500 == pytest.approx(near / (near + far), abs=0.04)


def test_the_ranking_loss_by_hand() -> None:
    # With one image of two groups each there is one negative for each anchor.
    objective = ranked([2, 2], [0, 0], margin=0.6)
    entries, values = np.array([0, 2]), features(4)
    objective.images(entries, 0)
    losses = objective.loss(values, entries, epoch=0)
    expected = active = 0.0
    for anchor, other in ((0, 1), (1, 0)):
        near, far = (float((values[anchor] - values[place]).norm()) for place in (anchor + 2, other))
        expected += max(0.0, near - far + 0.6)
        active += near - far + 0.6 > 0
    assert float(losses["loss"]) == pytest.approx(expected, rel=1e-4)
    assert float(losses["active"]) == active


def test_an_anchor_without_a_negative_costs_nothing() -> None:
    objective = ranked([2, 2], [0, 1], margin=5.0)
    entries = np.arange(4)
    objective.images(entries, 0)
    values = features(8).requires_grad_()
    losses = objective.loss(values, entries, epoch=0)
    losses["loss"].backward()
    assert (float(losses["loss"].detach()), float(losses["active"])) == (0, 0)
    assert values.grad is not None
    assert bool((values.grad == 0).all())


def test_ranking_has_no_state_and_asks_for_nothing() -> None:
    objective = ranked([2, 2], [0, 0])
    objective.before_epoch(0, lambda images: pytest.fail("features were asked for"))
    objective.load_state(objective.state())
    assert objective.state() == {}
    assert objective.churn == 0


def test_no_groups_are_no_entries() -> None:
    assert ranked([], []).entries == 0
