"""PRA against a brute force over α with plain torch, a case done by hand, and its refusals."""

from itertools import product

import pytest
import torch
from torch import Tensor

from sfra.controls import ALPHAS, VARIANTS, pra
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.metrics import relearning_score
from sfra.data import FeatureSet

CLASSES, WIDTH = 6, 16


def clouds(seed: int, samples: int = 600, spread: float = 1.0) -> FeatureSet:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % CLASSES
    centres = 2 * torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(99))
    noise = torch.randn(samples, WIDTH, generator=generator)
    return FeatureSet(features=(centres[labels] + spread * noise).relu(), labels=labels)


def released(seed: int = 3, scale: float = 0.3) -> Head:
    """A head that knows every class but those it forgot, whose bias is low."""
    means = torch.stack([clouds(seed).features[clouds(seed).labels == c].mean(0) for c in range(CLASSES)])
    bias = -scale * means.square().sum(1) / 2
    bias[2] -= 8.0
    bias[4] -= 8.0
    return Head(scale * means, bias)


def reference(
    head: Head, train: FeatureSet, support: dict[int, tuple[int, ...]], variant: str, max_drop: float
) -> tuple[float, Tensor, Tensor, list[float]]:
    """Build all eleven heads one by one, look at every prediction, and keep the largest α that is allowed."""
    kept = torch.tensor([int(y) not in support for y in train.labels])
    found: list[tuple[float, Tensor, Tensor]] = []
    accuracies = []
    for step in range(10, -1, -1):
        alpha = step / 10
        W, b = head.weight.clone(), head.bias.clone()
        for c, rows in support.items():
            mean = sum(train.features[i] for i in rows) / len(rows)
            assert isinstance(mean, Tensor)
            p = mean / mean.norm()
            w_hat, b_hat = (p, torch.tensor(0.0)) if variant == "cosine" else (2 * p, -(p @ p))
            W[c] = alpha * w_hat + (1 - alpha) * W[c]
            b[c] = alpha * b_hat + (1 - alpha) * b[c]
        hits = (train.features @ W.T + b).argmax(1)[kept] == train.labels[kept]
        accuracies.append(float(hits.double().mean()))
        found.append((alpha, W, b))
    allowed = [i for i, accuracy in enumerate(accuracies) if accuracies[-1] - accuracy <= max_drop + 1e-9]
    return *found[allowed[0]], accuracies


@pytest.mark.parametrize("forget", [[2], [4, 2]])
def test_the_new_head_is_that_of_a_brute_force_over_alpha(forget: list[int]) -> None:
    alphas = set()
    for variant, (scale, max_drop) in product(VARIANTS, [(0.05, 0.01), (0.3, 0.01), (0.3, 0.0), (0.1, 0.2)]):
        head, train = released(scale=scale), clouds(0)
        got = pra(head, train, forget, variant=variant, max_drop=max_drop, seed=5)
        alpha, W, b, accuracies = reference(head, train, got.support, variant, max_drop)
        assert got.alpha == alpha
        assert got.retain_curve == pytest.approx(accuracies, abs=1e-12)
        assert (got.retain_before, got.retain_after) == (got.retain_curve[-1], accuracies[ALPHAS.index(alpha)])
        torch.testing.assert_close(got.head.weight, W)
        torch.testing.assert_close(got.head.bias, b)
        alphas.add(alpha)
    assert len(alphas) >= 3


def hand_made() -> tuple[Head, FeatureSet]:
    """Two retain classes along the axes; the forget class lies between them, at (3, 4) on average."""
    head = Head([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0.0, 0.0, -1.0])
    features = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 0.5], [3.0, 3.0], [3.0, 5.0]])
    return head, FeatureSet(features=features, labels=torch.tensor([0, 0, 1, 1, 2, 2]))


def test_the_cosine_row_of_a_case_done_by_hand() -> None:
    # p = (0.6, 0.8). Logits of the retain samples for class 2 at α = 1: 1.2, 1.2, 1.6, 0.4, below 2, 2, 2, 0.5.
    head, train = hand_made()
    got = pra(head, train, [2], k=2)
    assert (got.alpha, got.retain_before, got.retain_after) == (1.0, 1.0, 1.0)
    assert got.support == {2: (4, 5)}
    torch.testing.assert_close(got.head.weight[2], torch.tensor([0.6, 0.8]))
    assert float(got.head.bias[2]) == 0.0


def test_the_l2_row_of_a_case_done_by_hand_stops_before_a_sample_is_lost() -> None:
    # w = α (1.2, 1.6), b = -1 for every α. (2, 0) scores 2.4 α - 1 < 2; (0, 2) scores 3.2 α - 1, which is 2.2 > 2 at
    # α = 1 and 1.88 at 0.9. One lost sample of four is a drop of 0.25.
    head, train = hand_made()
    strict = pra(head, train, [2], k=2, variant="l2")
    assert (strict.alpha, strict.retain_after) == (0.9, 1.0)
    torch.testing.assert_close(strict.head.weight[2], 0.9 * torch.tensor([1.2, 1.6]))
    torch.testing.assert_close(strict.head.bias[2], torch.tensor(-1.0))
    assert strict.retain_curve[:2] == (0.75, 1.0)
    at_the_edge = pra(head, train, [2], k=2, variant="l2", max_drop=0.25)
    assert (at_the_edge.alpha, at_the_edge.retain_after) == (1.0, 0.75)


@pytest.mark.parametrize(("forget", "lost"), [(0, True), (2, False)])
def test_a_tie_with_the_forget_logit_goes_to_the_smaller_index_as_in_argmax(forget: int, lost: bool) -> None:
    # The forget sample is (0, 1); at α = 1 the sample (0, 2) of the retain class has logit 2 for both classes.
    weight = torch.zeros(3, 2)
    weight[1], weight[2 - forget] = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])
    bias = torch.zeros(3)
    bias[forget] = -5.0
    train = FeatureSet(
        features=torch.tensor([[0.0, 1.0], [0.0, 2.0], [2.0, 0.0]]), labels=torch.tensor([forget, 1, 2 - forget])
    )
    got = pra(Head(weight, bias), train, [forget], k=1)
    W, b = weight.clone(), bias.clone()
    W[forget], b[forget] = torch.tensor([0.0, 1.0]), 0.0
    predicted = (train.features @ W.T + b).argmax(1)
    assert (int(predicted[1]) != 1) == lost
    assert (got.alpha < 1.0) == lost
    assert (got.retain_curve[0] < 1.0) == lost


def test_only_the_forget_rows_differ_and_nothing_of_the_caller_changes() -> None:
    head, train = released(), clouds(0)
    before = head.fingerprint, train.fingerprint
    state = torch.get_rng_state()
    got = pra(head, train, [2, 4])
    assert (head.fingerprint, train.fingerprint) == before
    assert torch.equal(torch.get_rng_state(), state)
    retained = [0, 1, 3, 5]
    assert torch.equal(got.head.weight[retained], head.weight[retained])
    assert torch.equal(got.head.bias[retained], head.bias[retained])
    assert got.alpha > 0
    assert not torch.equal(got.head.weight[[2, 4]], head.weight[[2, 4]])


def test_where_every_step_costs_too_much_the_released_head_comes_back_bit_for_bit() -> None:
    # (3, 0) of class 0 has logit 3, against 2.99 of the forget row and 5 of the l2 prototype: lost from α = 0.1 on.
    head = Head([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0.0, 0.0, -0.01])
    train = FeatureSet(features=torch.tensor([[3.0, 0.0], [0.0, 1.0], [2.0, 0.0]]), labels=torch.tensor([0, 1, 2]))
    got = pra(head, train, [2], k=1, variant="l2")
    assert got.alpha == 0.0
    assert got.retain_curve == (0.5,) * 10 + (1.0,)
    assert got.head.fingerprint == head.fingerprint


def test_samples_are_drawn_by_seed_and_do_not_depend_on_the_other_forget_classes() -> None:
    head, train = released(), clouds(0)
    alone, together = pra(head, train, [4], seed=1), pra(head, train, [2, 4], seed=1)
    assert alone.support[4] == together.support[4]
    assert len(set(alone.support[4])) == 5
    assert {int(train.labels[i]) for i in alone.support[4]} == {4}
    assert pra(head, train, [4], seed=1).head.fingerprint == alone.head.fingerprint
    assert pra(head, train, [4], seed=2).support != alone.support


def test_a_hidden_class_comes_back_and_the_score_is_that_of_the_test_accuracies() -> None:
    head, train, test = released(), clouds(0), clouds(1)
    got = pra(head, train, [2])
    outcome = got.measure(test)
    wanted = test.labels == 2
    for model, retain, forget in (
        (head, outcome.retain_before, outcome.forget_before),
        (got.head, outcome.retain_after, outcome.forget_after),
    ):
        hits = model(test.features).argmax(1) == test.labels
        assert retain == pytest.approx(float(hits[~wanted].double().mean()), abs=1e-12)
        assert forget == pytest.approx(float(hits[wanted].double().mean()), abs=1e-12)
    assert outcome.rs == relearning_score(
        outcome.retain_before, outcome.retain_after, outcome.forget_before, outcome.forget_after
    )
    assert outcome.forget_before < 0.1 < 0.9 < outcome.forget_after
    assert outcome.alpha == got.alpha


def refusal(head: Head, train: FeatureSet, forget: list[int], **settings: float | str) -> str:
    with pytest.raises(InputError) as caught:
        pra(head, train, forget, **settings)  # type: ignore[arg-type]
    return str(caught.value)


def test_settings_and_data_that_cannot_be_are_refused() -> None:
    head, train = released(), clouds(0)
    few = refusal(head, clouds(0, samples=18), [1, 2])
    assert "too few training samples of forget class 1" in few
    assert "got:      3" in few
    assert "expected: cosine or l2" in refusal(head, train, [2], variant="euclid")
    assert "expected: k of 1 or more" in refusal(head, train, [2], k=0)
    assert "max_drop is out of range" in refusal(head, train, [2], max_drop=1.5)
    assert "one or more distinct indices" in refusal(head, train, [])
    assert "one or more distinct indices" in refusal(head, train, [17])
    narrow = FeatureSet(features=train.features[:, :8].contiguous(), labels=train.labels)
    assert "features 16 wide" in refusal(head, narrow, [2])
    only = FeatureSet(features=train.features[train.labels == 2], labels=train.labels[train.labels == 2])
    assert "no sample of the retain classes" in refusal(head, only, [2])
