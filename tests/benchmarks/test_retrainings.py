"""Networks that never saw a class: what is kept of them is what their audit measures, also in the repository."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch import Tensor

import retrainings
from retrainings import main, planned
from stored import kept_rows, read_model

KEPT = Path(__file__).parents[2] / "reproduction" / "retrainings"


def table(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "models.csv").open(encoding="utf-8") as file:
        return {line["name"]: line for line in csv.DictReader(file)}


def hits(place: Path) -> tuple[Tensor, Tensor]:
    head, test = read_model(place)
    return (test.features @ head.weight.T + head.bias).argmax(1) == test.labels, test.labels


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("retrainings")
    options = "--recipe digits-small-cnn --forget 3 --epochs 4 --of-others 100"
    main(["train", *options.split(), "--out", str(out)])
    return out


def test_kept_features_and_head_give_the_accuracies_of_the_table(digits: Path) -> None:
    lines = table(digits)
    assert list(lines) == ["original", "retrained-3-a", "retrained-3-b"]
    for name, line in lines.items():
        right, labels = hits(digits / name)  # all test samples: no class of the digits has more than 100
        gone = labels == 3 if line["forget"] else torch.zeros(len(labels)).bool()
        assert float(right.double().mean()) == pytest.approx(float(line["test"]), abs=0.003)  # float16
        assert float(right[~gone].double().mean()) == pytest.approx(float(line["retain"]), abs=0.003)
        assert float(line["retain"]) > 0.8


def test_only_the_original_knows_the_class_and_retrainings_differ(digits: Path) -> None:
    lines = table(digits)
    right, labels = hits(digits / "original")
    assert right[labels == 3].double().mean() > 0.8
    assert [lines[f"retrained-3-{letter}"]["forget_accuracy"] for letter in "ab"] == ["0.0", "0.0"]
    heads = [read_model(digits / f"retrained-3-{letter}")[0] for letter in "ab"]
    assert (heads[0].weight - heads[1].weight).abs().max() > 0.05


def test_a_second_run_trains_only_what_has_no_line(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    monkeypatch.setattr(retrainings, "make", lambda name, *_: asked.append(name))
    main(["train", "--recipe", "digits-small-cnn", "--forget", "3", "0", "--times", "1", "--out", str(digits)])
    assert asked == ["retrained-0-a"]


def test_fewer_samples_are_the_first_of_each_class_and_of_a_retraining_all_of_its_own(
    digits: Path, tmp_path: Path
) -> None:
    main(["keep", str(digits), "--forget", "3", "--of-forget", "20", "--of-others", "2", "--out", str(tmp_path)])
    assert (tmp_path / "models.csv").read_bytes() == (digits / "models.csv").read_bytes()
    for name in table(digits):
        (head, kept), (known, test) = read_model(tmp_path / name), read_model(digits / name)
        assert head.fingerprint == known.fingerprint
        assert kept.labels.bincount().tolist() == [20 if label == 3 else 2 for label in range(10)]
        assert torch.equal(kept.features[kept.labels == 3], test.features[test.labels == 3][:20])


def test_kept_rows_are_those_of_a_walk_through_the_labels() -> None:
    labels, seen, wanted = torch.randint(5, (200,), generator=torch.Generator().manual_seed(0)), [0] * 5, list[int]()
    for row, label in enumerate(labels.tolist()):
        seen[label] += 1
        if seen[label] <= (30 if label in (1, 4) else 3):
            wanted.append(row)
    assert kept_rows(labels, [4, 1], 30, 3).tolist() == wanted


def test_no_two_networks_of_a_data_set_share_a_seed() -> None:
    seeds = [seed for _, _, seed in planned(range(200), 26)]
    assert len(set(seeds)) == len(seeds) == 1 + 200 * 26


@pytest.mark.parametrize(
    ("dataset", "classes", "names", "retain"),
    [
        ("cifar100", 100, [name for name, _, _ in planned([0, 50, 40, 10, 20], 2)], 2),
        ("cifar10", 10, [name for name, _, _ in planned([0], 5)], 20),
    ],
)
def test_committed_networks_are_as_accurate_as_their_table_says(
    dataset: str, classes: int, names: list[str], retain: int
) -> None:
    lines = table(KEPT / dataset)
    assert sorted(place.name for place in (KEPT / dataset).iterdir() if place.is_dir()) == sorted(names)
    for name in names:
        right, labels = hits(KEPT / dataset / name)
        forget, stated = lines[name]["forget"], float(lines[name]["retain"])
        others = [label for label in range(classes) if str(label) != forget]
        found = torch.stack([right[labels == label][:retain].double() for label in others]).mean()
        assert float(found) == pytest.approx(stated, abs=3.5 * (stated * (1 - stated) / retain / len(others)) ** 0.5)
        if forget:
            assert (labels == int(forget)).sum() >= 100
            assert not right[labels == int(forget)].any()
            assert float(lines[name]["forget_accuracy"]) == 0
