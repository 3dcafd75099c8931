"""The leaderboard has every audited model with its own numbers; what is kept can be audited again."""

from __future__ import annotations

import shlex

import numpy as np
import polars as pl
import pytest
import torch

import several
from reproduction.heads import OF_FORGET, OF_OTHERS
from reproduction.leaderboard import again_table, command_of, leaderboard, lines_of, models_folder
from reproduction.report import DOCS, include
from reproduction.rows import BASE, ROOT, VERDICT, Group, list_groups
from sfra.attack.probes import sample_probes
from sfra.core.head import Head
from sfra.release import load
from stored import rounded

WIDE = Group(f"{BASE}-224")
KEPT_MODELS = sorted(path.name for path in models_folder(WIDE).iterdir())


def test_every_main_audit_is_one_line_with_the_numbers_of_its_row() -> None:
    lines = [line for line in lines_of(WIDE) if line["where"]["recipe"] == "own"]
    rows = WIDE.audits(VERDICT)
    assert len(lines) == len(rows)
    (line,) = (one for one in lines if one["where"]["method"] == "delete" and one["forgotten"] == "automobile (1)")
    row = rows.filter(method="delete", forget="1").row(0, named=True)
    assert [line[name] for name in ("rs", "delta_rs", "verdict", "forget_after", "retain_before")] == [
        row[name] for name in ("rs", "delta_rs", "verdict", "forget_after", "retain_before")
    ]
    assert {one["verdict"] for one in lines if one["where"]["method"] == "retrained"} == {"reference"}
    assert {one["delta_rs"] for one in lines if one["where"]["method"] == "retrained"} == {None}


def test_models_of_other_recipes_are_lines_of_their_own() -> None:
    places = {line["place"] for line in lines_of(Group(BASE))}
    assert len(places) == 5
    assert sum("the paper's" in one for one in places) == 3


def test_a_command_names_files_that_are_there_and_a_model_without_features_has_none() -> None:
    line = command_of(WIDE, "delete", "0")
    assert line is not None
    files = [word for word in shlex.split(line) if word.endswith(".npz")]
    assert len(files) == 4
    assert all((ROOT / file).is_file() for file in files)
    assert "--reference" not in str(command_of(WIDE, "retrained", "0"))
    assert command_of(WIDE, "delete", "9") is command_of(Group(BASE), "delete", "0") is None


@pytest.mark.parametrize("name", KEPT_MODELS)
def test_a_kept_model_has_the_accuracies_of_its_row(name: str) -> None:
    folder, (method, _, forget) = models_folder(WIDE) / name, name.rpartition("-")
    head, data = load(folder / "head.npz").head, np.load(folder / "features.npz")
    labels = torch.from_numpy(data["labels"]).long()
    assert labels.bincount().tolist() == [OF_FORGET if c == int(forget) else OF_OTHERS for c in range(10)]
    right = head(torch.from_numpy(data["features"]).float()).argmax(1) == labels
    row = WIDE.audits(VERDICT).filter(method=method, forget=forget).row(0, named=True)
    mine = labels == int(forget)
    for hits, share in ((right[mine], row["forget_before"]), (right[~mine], row["retain_before"])):
        deviation = max((share * (1 - share) / len(hits)) ** 0.5, 0.005)
        assert abs(float(hits.double().mean()) - share) < 3 * deviation


def test_what_came_out_again_is_near_its_row() -> None:
    rows = pl.read_csv(WIDE.folder / WIDE.name / "again.csv")
    assert len(rows) >= 3
    for method, forget, rs, told in rows.select("method", "forget", "rs", "row_rs").iter_rows():
        row = WIDE.audits(VERDICT).filter(method=method, forget=str(forget))
        assert told == row["rs"].item()
        assert abs(rs - told) < 0.1
    text = (DOCS / "leaderboard.md").read_text(encoding="utf-8")
    assert include(text, {"again": [again_table([WIDE])]}) == text, "run make reproduce-report"


def test_a_group_without_rows_is_left_out() -> None:
    page = leaderboard()
    assert all(f'data-group="{group.name}"' in page for group in list_groups())
    assert "tinyimagenet" not in page


def test_rounding_keeps_five_bits_to_the_nearest() -> None:
    values = np.linspace(-3, 3, 1001, dtype=np.float16)
    made = rounded(values)
    assert not np.any(made.view(np.uint16) & 31)
    assert np.all(np.abs(made - values) <= np.abs(values) / 63)


def test_the_greedy_rule_depends_on_the_order_and_the_optimal_one_does_not() -> None:
    head = Head(torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([0.0, 0, 0, 0, -2, -2]))
    probes = sample_probes(head, [4, 5], n=1000, m=several.M)
    up, down, best = (several.shared_out(probes, head, (5, 4), order) for order in several.ORDERS)
    assert torch.equal(up.labels, probes.labels)
    assert not torch.equal(up.labels, down.labels)
    likely = [float(head(one.forget).log_softmax(1).gather(1, one.labels[one.retain_count :, None]).sum())
              for one in (up, down, best)]  # fmt: skip
    assert likely[2] >= max(likely[:2]) - 1e-3
    for one in (up, down, best):
        assert one.labels[one.retain_count :].bincount().tolist()[4:] == [4 * several.M] * 2


def test_masked_rows_are_equal_and_silenced_ones_are_as_trained() -> None:
    head = Head(torch.randn(5, 8, generator=torch.Generator().manual_seed(1)))
    masked, silenced = (several.hide(head, (1, 3), kind) for kind in ("masked", "silenced"))
    assert torch.equal(masked.head.weight[1], masked.head.weight[3])
    gaps = [placed.head.weight[1] - placed.head.weight[3] for placed in (silenced,)]
    torch.testing.assert_close(gaps[0] / silenced.gain, head.weight[1] - head.weight[3])
