from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from builders.audits import trace_of
from sfra.auditing.evaluate import check_evaluation, confusion, evaluate
from sfra.auditing.rules import select
from sfra.auditing.trace import Trace
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.metrics import relearning_score


@dataclass
class Path:
    """What evaluate needs of a trajectory."""

    weights: Tensor
    biases: Tensor


def whole_numbers(seed: int, *shape: int, low: int = -2, high: int = 3) -> Tensor:
    """Small integers as floats: every product is exact, and ties are common."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=generator).float()


def case(*, epochs: int = 4, classes: int = 5, width: int = 6, samples: int = 200) -> tuple[Path, Tensor, Tensor]:
    path = Path(whole_numbers(1, epochs + 1, classes, width), whole_numbers(2, epochs + 1, classes))
    labels = whole_numbers(4, samples, low=0, high=classes).long()
    return path, whole_numbers(3, samples, width), labels


def expected_hits(path: Path, features: Tensor, labels: Tensor) -> NDArray[Any]:
    """Hits per epoch and class, one epoch at a time in float64 with numpy's argmax."""
    X, y = features.double().numpy(), labels.numpy()
    hits = []
    for W, b in zip(path.weights.double().numpy(), path.biases.double().numpy(), strict=True):
        predicted = (X @ W.T + b).argmax(axis=1)
        hits.append([int(((predicted == y) & (y == c)).sum()) for c in range(len(b))])
    return np.array(hits)


def trace(retain: list[int], forget: list[int], total: int = 100) -> Trace:
    """A trace over two retain classes and forget class 2, from hits out of `total` on either side."""
    hits = [[r // 2, r - r // 2, f] for r, f in zip(retain, forget, strict=True)]
    return trace_of(hits, [total // 2, total - total // 2, total], (2,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hits_equal_an_epoch_by_epoch_count_in_numpy(dtype: torch.dtype) -> None:
    """Heads in float32 are measured by compiled loops, others by torch, as on a GPU."""
    path, features, labels = case()
    got = evaluate(Path(path.weights.to(dtype), path.biases.to(dtype)), features, labels, [3])
    assert torch.equal(got.hits, torch.from_numpy(expected_hits(path, features, labels)))
    assert got.counts.tolist() == np.bincount(labels.numpy(), minlength=5).tolist()


def test_samples_that_are_right_stand_by_class_and_then_as_given_also_when_two_parts_are_joined() -> None:
    path, features, labels = case()
    order = np.argsort(labels.numpy(), kind="stable")
    logits = np.einsum("nd,ecd->enc", features.numpy(), path.weights.numpy()) + path.biases.numpy()[:, None]
    expected = (logits.argmax(2) == labels.numpy())[:, order]
    whole = evaluate(path, features, labels, [3], chunk_bytes=3000)
    parts = [evaluate(path, features[part], labels[part], [3]) for part in (slice(0, 90), slice(90, None))]
    for got in (whole, parts[0].joined(parts[1])):
        assert got.right is not None
        assert (got.right.numpy() == expected).all()
        assert torch.equal(got.hits, whole.hits)
    forget = labels.numpy()[order] == 3
    for which, mask in ((True, forget), (False, ~forget)):
        assert whole.right_of(2, forget=which).tolist() == expected[2, mask].tolist()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("chunk_bytes", [1, 500])
@pytest.mark.parametrize("rows", [1, 10])
def test_the_size_of_the_blocks_and_the_threads_change_nothing(
    rows: int, chunk_bytes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfra.auditing.evaluate.ROWS", rows)
    path, features, labels = case()
    got = evaluate(path, features, labels, [0], chunk_bytes=chunk_bytes, threads=threads)
    assert torch.equal(got.hits, torch.from_numpy(expected_hits(path, features, labels)))


def test_half_precision_features_and_narrow_labels_give_the_same_counts() -> None:
    path, features, labels = case()
    narrow = evaluate(path, features.half(), labels.to(torch.int16), [1])
    assert torch.equal(narrow.hits, evaluate(path, features, labels, [1]).hits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_tie_goes_to_the_first_class_and_a_hair_more_wins_it_back(dtype: torch.dtype) -> None:
    weights, biases = torch.ones(2, 3, 4, dtype=dtype), torch.tensor([[0, 0, -1], [0, 1e-3, -1]], dtype=dtype)
    features, labels = torch.ones(6, 4), torch.tensor([0, 0, 1, 1, 2, 2])
    got = evaluate(Path(weights, biases), features, labels, [1])
    assert got.hits.tolist() == [[2, 0, 0], [0, 2, 0]]


def test_accuracies_count_samples_not_classes() -> None:
    head = Path(torch.zeros(1, 3, 2), torch.tensor([[1.0, 0.0, 0.0]]))
    labels = torch.tensor([0] * 9 + [1] + [2] * 5)
    got = evaluate(head, torch.zeros(15, 2), labels, [2])
    assert got.retain.tolist() == [0.9]
    assert got.forget.tolist() == [0.0]
    assert (got.retain_count, got.forget_count) == (10, 5)


def test_several_forget_classes_are_pooled() -> None:
    path, features, labels = case()
    got, hits = evaluate(path, features, labels, [4, 0]), expected_hits(path, features, labels)
    counts = np.bincount(labels.numpy(), minlength=5)
    assert got.forget_classes == (0, 4)
    np.testing.assert_allclose(got.forget, hits[:, [0, 4]].sum(1) / counts[[0, 4]].sum())
    np.testing.assert_allclose(got.retain, hits[:, 1:4].sum(1) / counts[1:4].sum())


def test_a_class_without_samples_has_no_accuracy() -> None:
    path, features, labels = case()
    kept = labels != 2
    got = evaluate(path, features[kept], labels[kept], [3])
    assert got.per_class[:, 2].isnan().all()
    assert not got.per_class[:, [0, 1, 3, 4]].isnan().any()


def test_the_score_of_each_epoch_compares_it_with_the_released_head() -> None:
    got = trace([90, 85, 95], [0, 60, 100])
    expected = [relearning_score(0.9, r, 0.0, f) for r, f in ((0.9, 0.0), (0.85, 0.6), (0.95, 1.0))]
    assert got.rs.tolist() == pytest.approx(expected)


def test_the_input_is_left_as_it_was() -> None:
    path, features, labels = case()
    copies = [t.clone() for t in (path.weights, path.biases, features, labels)]
    evaluate(path, features, labels, [0])
    assert all(torch.equal(a, b) for a, b in zip(copies, (path.weights, path.biases, features, labels), strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_trajectory_on_the_accelerator_gives_the_same_counts() -> None:
    path, features, labels = case()
    there = Path(path.weights.cuda(), path.biases.cuda())
    assert torch.equal(evaluate(there, features, labels, [0]).hits, evaluate(path, features, labels, [0]).hits)


def broken(what: str) -> tuple[Path, Tensor, Tensor, list[int]]:
    path, features, labels = case()
    forget = [3]
    if what == "width":
        features = features[:, :5]
    elif what == "labels":
        labels = labels.clone()
        labels[7], labels[9] = 11, -1
    elif what == "length":
        labels = labels[:-1]
    elif what == "finite":
        features = features.clone()
        features[3, 2] = torch.nan
    elif what == "no-forget-samples":
        features, labels = features[labels != 3], labels[labels != 3]
    elif what == "no-retain-samples":
        features, labels = features[labels == 3], labels[labels == 3]
    elif what == "no-samples":
        features, labels = features[:0], labels[:0]
    elif what == "diverged":
        path.weights[2, 0, 0] = torch.inf
    else:
        forget = {"forget-range": [5], "forget-none": [], "forget-all": [0, 1, 2, 3, 4], "forget-twice": [1, 1]}[what]
    return path, features, labels, forget


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("width", r"(?s)do not fit the head.*6 wide.*5"),
        ("labels", r"(?s)labels outside.*0 to 4.*-1, 11"),
        ("length", r"(?s)features and labels differ.*200.*199"),
        ("finite", r"(?s)features are not finite"),
        ("no-forget-samples", r"(?s)no sample of the forget class.*3"),
        ("no-retain-samples", r"(?s)no sample of the retain classes"),
        ("no-samples", r"(?s)evaluation set is empty"),
        ("diverged", r"(?s)relearned heads are not finite"),
        ("forget-range", r"(?s)forget classes.*0 to 4.*\[5\]"),
        ("forget-none", r"(?s)forget classes"),
        ("forget-all", r"(?s)forget classes"),
        ("forget-twice", r"(?s)forget classes.*\[1, 1\]"),
    ],
)
def test_what_cannot_be_measured_is_refused(what: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(*broken(what))


@pytest.mark.parametrize("what", ["width", "labels", "length", "finite", "no-forget-samples", "forget-range"])
def test_the_check_ahead_of_any_work_says_what_the_evaluation_would(what: str) -> None:
    path, features, labels, forget = broken(what)
    with pytest.raises(InputError) as ahead:
        check_evaluation(features, labels, forget, classes=5, width=6)
    with pytest.raises(InputError) as later:
        evaluate(path, features, labels, forget)
    assert str(ahead.value) == str(later.value)


def test_confusion_counts_equal_a_count_by_hand() -> None:
    path, features, labels = case(samples=60)
    head = Head(path.weights[1], path.biases[1])
    expected = np.zeros((5, 5), dtype=int)
    for x, y in zip(features.numpy(), labels.tolist(), strict=True):
        expected[y, (path.weights[1].numpy() @ x + path.biases[1].numpy()).argmax()] += 1
    assert confusion(head, features.half(), labels).tolist() == expected.tolist()
    assert np.diag(expected).tolist() == evaluate(path, features, labels, [0]).hits[1].tolist()


def test_source_free_takes_the_last_epoch_whatever_came_back() -> None:
    assert select(trace([90, 90, 10], [0, 100, 0]), "source-free") == 2


def test_worst_case_takes_the_best_epoch_above_the_retain_floor() -> None:
    # Released 0.90: the floor is 0.81. Epoch 1 scores best but lies below it, epoch 2 exactly on it.
    walk = trace([90, 80, 81, 90], [0, 99, 60, 40])
    assert walk.rs.argmax() == 1
    assert select(walk, "worst-case") == 2


def test_worst_case_of_a_model_that_only_collapses_is_the_released_head() -> None:
    assert select(trace([90, 40, 20], [0, 90, 95]), "worst-case") == 0


def test_validation_chooses_on_its_own_split() -> None:
    walk, held_out = trace([90, 90, 90], [0, 80, 40]), trace([90, 90, 90], [0, 10, 30])
    assert select(walk, "worst-case") == 1
    assert select(walk, "validation", held_out) == 2


@pytest.mark.parametrize("rule", ["worst-case", "validation"])
def test_ties_go_to_the_earliest_epoch(rule: str) -> None:
    walk = trace([90, 90, 90, 90], [0, 50, 70, 70])
    assert select(walk, rule, walk) == 2


@pytest.mark.parametrize(
    ("rule", "validation", "message"),
    [
        ("best", None, r"(?s)unknown selection rule.*source-free, validation, worst-case.*best"),
        ("validation", None, r"(?s)validation needs validation data"),
        ("validation", trace([90], [0]), r"(?s)different numbers of epochs"),
    ],
)
def test_a_rule_that_cannot_be_applied_says_why(rule: str, validation: Trace | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        select(trace([90, 90], [0, 50]), rule, validation)
