"""What a released head answers: against brute force."""

from __future__ import annotations

import itertools

import pytest
import torch

from sfra.auditing.answers import Answers
from sfra.core.head import Head


def test_chance_is_what_shuffled_labels_give() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.tensor([0] * 30 + [1] * 12 + [3] * 8)
    answered = torch.randint(0, 4, (50,), generator=generator)
    counts = torch.zeros(4, 4, dtype=torch.long)
    counts.index_put_((labels, answered), torch.tensor(1), accumulate=True)
    shuffled = torch.stack([labels[torch.randperm(50, generator=generator)] for _ in range(20_000)])
    simulated = (shuffled == answered).double().mean(1)
    mean, spread = Answers(counts=counts, confidence=0.5).chance
    assert mean == pytest.approx(float(simulated.mean()), abs=0.002)
    assert spread == pytest.approx(float(simulated.std()), rel=0.03)


def test_a_constant_answer_is_chance_without_spread() -> None:
    counts = torch.tensor([[9, 0, 0], [1, 0, 0], [0, 0, 0]])
    found = Answers(counts=counts, confidence=1.0)
    assert found.accuracy == pytest.approx(found.chance[0])
    assert found.chance[1] == 0.0


def test_forget_samples_do_not_count_and_outputs_stand_for_the_classes_that_a_head_has() -> None:
    labels = torch.tensor([0, 1, 2, 3, 3])
    features = torch.nn.functional.one_hot(torch.tensor([0, 0, 1, 2, 1]), 3).float()  # outputs of classes 0, 2, 3
    found = Answers.of(Head(torch.eye(3)), features, labels, (0, 2, 3), forget=[1])
    assert found.counts.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    e = 2.718281828459045
    assert (found.samples, found.accuracy) == (4, 0.75)
    assert found.confidence == pytest.approx(e / (e + 2))


@pytest.mark.parametrize("own", [0, 2, 6, 30])
def test_the_best_order_is_that_of_all_orders_with_most_hits(own: int) -> None:
    generator = torch.Generator().manual_seed(own)
    for _ in range(20):
        counts = torch.randint(0, 9, (4, 4), generator=generator) + own * torch.eye(4, dtype=torch.long)
        order = Answers(counts=counts, confidence=0.5).best_order
        hits = {
            order: sum(int(counts[label, answer]) for label, answer in enumerate(order))
            for order in itertools.permutations(range(4))
        }
        found = tuple(order[label] for label in range(4))
        moved = sum(label != answer for label, answer in enumerate(found))
        assert max(hits.values()) - hits[found] <= (4 - moved) / 2  # a class in place counts half a sample


def test_labels_that_lead_their_own_answers_stay_in_place_also_where_one_has_no_samples() -> None:
    counts = torch.tensor([[3, 3, 0], [2, 2, 1], [0, 0, 0]])
    assert Answers(counts=counts, confidence=0.5).best_order == {0: 0, 1: 1}
