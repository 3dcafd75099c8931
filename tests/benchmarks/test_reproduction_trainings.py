"""Models of other trainings: what a schedule, in part or in full, does to RS and to the references."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest
from scipy import stats

from builders.reproduction import (
    LONG,
    RATED,
    STEPPED,
    TEN,
    THREE,
    cells,
    in_full,
    our_mean,
    paper_mean,
    paper_value,
    rated,
    stepped,
)
from reproduction.build import COMPARED
from reproduction.claims import list_claims
from reproduction.document import SENTENCES, TABLES
from reproduction.experiments import FULL, STEPS, World, native_kappa, trained_otherwise
from reproduction.simple import trainings
from reproduction.stored import METHOD_LIST, Kept, read_kept
from sfra.attack.scale import KAPPA
from sfra.bench.protocol import load_protocol
from sfra.models import recipes

SCHEDULE = "the schedule of the paper's code"
MOST = [m for m in METHOD_LIST if m != "negative-gradient-plus"]


def test_the_full_schedule_is_measured_against_the_short_one_and_against_ours(bare: Kept) -> None:
    kept = in_full(stepped(bare, 0.25, methods=[m for m in METHOD_LIST if m != "negative-gradient-plus"]), 0.75)
    found = cells(TABLES["changes"](kept))
    for what, before, methods in (
        ("the training in full, (c) to (d)", STEPPED, [m for m in METHOD_LIST if m != "negative-gradient-plus"]),
        ("rates and full training, (a) to (d)", COMPARED, METHOD_LIST),
    ):
        sides = [{m: our_mean(kept, name, m, THREE) for m in methods} for name in (before, LONG)]
        paper = {m: paper_mean(m, THREE) for m in methods}
        mine = found[what]
        assert (mine["methods"], mine["models"]) == (str(len(methods)), str(3 * len(methods)))
        assert mine["size"] == f"{fmean(abs(sides[0][m] - sides[1][m]) for m in methods):.2f}"
        differences = [fmean(abs(side[m] - paper[m]) for m in methods) for side in sides]
        assert [mine["difference_before"], mine["difference_after"]] == [f"{one:.3f}" for one in differences]
        assert mine["retrained_after"] == f"{sides[1]['retrained']:.2f}"
    told = SENTENCES["experiments"](kept)
    assert "(c) is there in full. (d) is there in full." in told
    assert "The training in full, (d) instead of (c): over 10 methods and 30 models" in told
    assert "Rates and full training, (d) instead of (a): over 11 methods and 33 models" in told
    assert "over the means of 10 methods and 30 models that all have: (a) 0." in told
    ours, printed = [our_mean(kept, LONG, m, THREE) for m in MOST], [paper_mean(m, THREE) for m in MOST]
    without = [
        stats.spearmanr(ours[:i] + ours[i + 1 :], printed[:i] + printed[i + 1 :]).statistic for i in range(len(MOST))
    ]
    around = f"(leaving out any one method {min(without):.2f} to {max(without):.2f})"
    assert f", Spearman {stats.spearmanr(ours, printed).statistic:.2f} {around}." in told
    table = TABLES["experiments"](kept)
    assert table.names[2:5] == ("paper", "a", "c")
    assert [name for name in table.names if name.endswith("_all")] == ["paper_all", "a_all"]
    row = cells(table)["Negative Gradient+"]
    assert (row["c"], row["d"]) == (None, f"{our_mean(kept, LONG, 'negative-gradient-plus', THREE):.2f}")


# what is said of retrained models


@pytest.mark.parametrize(("world", "form"), [(STEPS, f"a shortened form of {SCHEDULE}"), (FULL, SCHEDULE)])
@pytest.mark.parametrize(
    ("toward", "told"),
    [
        (1.0, "So the training of ({letter}) closes the gap."),
        (0.5, "So the training of ({letter}) closes 50 % of the gap."),
        (0.1, "So the training of ({letter}), {form}, closes only 10 % of the gap."),
        (0.0, "So the training of ({letter}), {form}, does not close the gap."),
        (-0.4, "So the training of ({letter}), {form}, does not close the gap."),
        (1.5, "That is past the paper's, by 0."),
    ],
)
def test_the_verdict_on_a_training_follows_the_share_of_the_gap(
    bare: Kept, toward: float, told: str, world: World, form: str
) -> None:
    made = stepped(bare, toward) if world is STEPS else in_full(bare, toward)
    text = SENTENCES["experiments"](made)
    assert told.format(letter=world.letter, form=form) in text
    verdicts = ("closes the gap", "% of the gap", "does not close the gap", "past the paper's", "hardly a gap")
    assert sum(one in text for one in verdicts) == 1


def test_every_training_with_references_of_its_own_has_a_line(bare: Kept) -> None:
    kept = in_full(stepped(rated(bare, 0.5), 0.25), 0.9)
    assert trained_otherwise(kept) == (STEPS, FULL)
    lines = [line for line in SENTENCES["experiments"](kept).splitlines() if line.startswith("- Retrained models")]
    assert len(lines) == 2
    paper, own = paper_mean("retrained", THREE), our_mean(kept, COMPARED, "retrained", THREE)
    for line, name, letter, verdict in zip(
        lines, (STEPPED, LONG), "cd", ("closes 25 % of the gap.", "closes the gap."), strict=True
    ):
        mine = our_mean(kept, name, "retrained", THREE)
        last = [
            fmean(
                row["rs"]
                for row in kept.audits
                if (row["protocol"], row["method"], row["scale"], row["rule"])
                == (protocol, "retrained", "native", "source-free")
                and (row["audit"], row["variant"]) == ("main", "released")
                and row["forget"] in THREE
            )
            for protocol in (COMPARED, name)
        ]
        ends = f"(with the last epoch {last[0]:.2f} and {last[1]:.2f}), {paper:.2f} in the paper"
        assert f"classes 0, 3 and 7: {own:.2f} in (a), {mine:.2f} in ({letter}) {ends}" in line
        assert f"So the training of ({letter}) {verdict}" in line
        assert f"At canonical scale, source-free, the highest of ({letter}) is 0." in line


def test_without_a_gap_there_is_nothing_to_close(bare: Kept) -> None:
    audits = [
        {**row, "rs": paper_value("retrained", row["forget"])}
        if (row["protocol"], row["method"], row["variant"]) == (COMPARED, "retrained", "released")
        else row
        for row in bare.audits
    ]
    assert "There is hardly a gap to close." in SENTENCES["experiments"](stepped(replace(bare, audits=audits), 0.0))


def test_the_norm_of_the_rows_is_told_where_it_was_diagnosed(bare: Kept) -> None:
    kept = stepped(bare, 0.5)
    assert "median norm" not in SENTENCES["experiments"](kept)
    assert native_kappa(kept, STEPS, THREE) is None
    more = [
        {**row, "protocol": STEPPED, "gain": 0.5}
        for row in bare.diagnostics
        if row["protocol"] == COMPARED and row["method"] == "retrained" and row["forget"] in THREE
    ]
    kept = replace(kept, diagnostics=[*kept.diagnostics, *more])
    gains = [
        row["gain"]
        for row in bare.diagnostics
        if (row["protocol"], row["method"], row["scale"]) == (COMPARED, "retrained", "canonical")
        and row["forget"] in THREE
    ]
    norms = f"median norm of the retain rows {KAPPA / fmean(gains):.2f} in (a), {KAPPA / 0.5:.2f} in (c)"
    assert norms in SENTENCES["experiments"](kept)


# models that are lacking, or that kept the class


def test_a_method_that_a_world_lacks_is_shown_over_the_classes_of_the_others(bare: Kept) -> None:
    kept = stepped(bare, 0.5, methods=MOST)
    row = cells(TABLES["experiments"](kept))["Negative Gradient+"]
    assert (row["classes"], row["c"]) == ("3", None)
    canonical = cells(TABLES["experiments-canonical"](kept))["Negative Gradient+"]
    mine = kept.by_class("canonical", "source-free")["negative-gradient-plus"]
    expected = f"{fmean(mine[forget] for forget in THREE):.2f}"
    assert (canonical["classes"], canonical["a_canonical"], canonical["c_canonical"]) == ("3", expected, None)
    assert row["paper"] == f"{paper_mean('negative-gradient-plus', THREE):.2f}"
    assert row["a"] == f"{our_mean(kept, COMPARED, 'negative-gradient-plus', THREE):.2f}"
    assert row["a_all"] == f"{our_mean(kept, COMPARED, 'negative-gradient-plus', TEN):.2f}"
    models = cells(TABLES["experiments-models"](kept))["Negative Gradient+"]
    retain = our_mean(kept, COMPARED, "negative-gradient-plus", THREE, "retain_before")
    assert (models["classes"], models["retain_a"], models["retain_c"]) == ("3", f"{100 * retain:.1f}", None)
    assert cells(TABLES["experiments"](rated(bare, 0.5)))["Negative Gradient+"]["classes"] == "10"


@pytest.mark.parametrize(("left", "named"), [(0.09375, False), (0.125, True)])
def test_models_that_kept_much_of_the_class_are_named(bare: Kept, left: float, named: bool) -> None:
    kept = stepped(bare, 0.5, methods=["retrained", "salun", "delete"], changed={"forget_before": left})
    audits = [
        {**row, "forget_before": 0.0} if (row["protocol"], row["method"]) == (STEPPED, "retrained") else row
        for row in kept.audits
    ]
    told = SENTENCES["experiments"](replace(kept, audits=audits))
    line = (
        "Models of (c) that still had more than 10 % of the class before relearning, on average: SalUn (12.5 %) and "
        "DELETE (12.5 %); RS counts only what comes back on top of that."
    )
    assert (line in told) is named
    assert ("still had more" in told) is named
    own, paper = our_mean(kept, COMPARED, "retrained", THREE), paper_mean("retrained", THREE)
    mine = our_mean(kept, STEPPED, "retrained", THREE)
    rest = f"Without them the difference goes from {abs(own - paper):.2f} to {abs(mine - paper):.2f}."
    assert (rest in told) is named


def test_audits_that_cannot_be_computed_are_not_called_a_part_that_is_still_to_come(bare: Kept) -> None:
    failed = {"protocol": STEPPED, "seed": 0, "method": "negative-gradient-plus", "audit": "main", "varied": None}
    rows = [
        failed | {"what": what, "forget": forget, "failed": "unlearn", "reason": "diverged"}
        for what in ("audit", "pra")
        for forget in THREE
    ]
    kept = stepped(bare, 0.5, methods=[*MOST, "masked"], goals=36)
    there = "Of (c) 33 of 36 audits are there"
    text, explained, part = (SENTENCES["experiments"](replace(kept, failures=some)) for some in ([], rows, rows[:2]))
    assert f"{there}. " in text
    assert explained == text.replace(there, f"{there}; the others cannot be computed ([why](#what-was-run))")
    assert part == text
    whom = f"3 PRA of Negative Gradient+ (classes 0, 3, 7) in `{STEPPED}` (diverged)"
    assert whom in SENTENCES["coverage"](replace(kept, failures=rows))
    elsewhere = [row | {"protocol": RATED} for row in rows]
    assert SENTENCES["experiments"](replace(kept, failures=elsewhere)) == text


# what one change does


@pytest.mark.parametrize(
    ("toward", "told"),
    [(0.9, "Only one of them brings the mean absolute difference"), (0.0, "None of them brings"), (-0.5, "None of")],
)
def test_what_brings_ours_nearer_is_told_with_both_ends(bare: Kept, toward: float, told: str) -> None:
    kept = stepped(bare, toward)
    text = SENTENCES["changes"](kept)
    assert told in text
    sides = [{m: our_mean(kept, name, m, THREE) for m in METHOD_LIST} for name in (COMPARED, STEPPED)]
    paper = {m: paper_mean(m, THREE) for m in METHOD_LIST}
    ends = [fmean(abs(side[m] - paper[m]) for m in METHOD_LIST) for side in sides]
    line = f"rates and training, (a) to (c), from {ends[0]:.3f} to {ends[1]:.3f} over 33 models (standard error "
    assert (line in text) is (toward > 0)


def test_an_order_that_gets_worse_is_set_against_the_gain(bare: Kept) -> None:
    against = {"retrained": 0.51, "finetune": 0.53, "scrub": 0.55}  # the paper's order of the three, reversed
    assert sorted(against, key=lambda m: -paper_mean(m, THREE)) == list(against)
    kept = stepped(bare, 0.0, methods=list(against))
    audits = [{**r, "rs": against[r["method"]]} if r["protocol"] == STEPPED else r for r in kept.audits]
    apart = fmean(abs(rs - paper_mean(m, THREE)) for m, rs in against.items())
    text = SENTENCES["changes"](replace(kept, audits=audits))
    assert f" to {apart:.3f} over 9 models (standard error over methods 0." in text
    assert ", so it may be chance), while Spearman goes from −0.50 to −1.00." in text


# the committed rows


def test_remarks_on_the_papers_findings_are_what_the_rows_say() -> None:
    kept = read_kept(COMPARED)
    remarks = {claim.text: claim.why for claim in list_claims()}
    (tuned,) = (why for text, why in remarks.items() if text.startswith("fine-tuning"))
    assert (
        "without weight decay, (b) below, they lost less of it, kept more of the class and gave back as much" in tuned
    )
    rows = {str(int(row["label"])): row for row in kept.originals if row["protocol"] == COMPARED}
    right, all_of = (sum(row[value] for row in rows.values()) for value in ("hits", "samples"))
    before = fmean((right - rows[k]["hits"]) / (all_of - rows[k]["samples"]) for k in TEN)
    after = {name: our_mean(kept, name, "finetune", TEN, "retain_before") for name in (COMPARED, RATED)}
    theirs = [
        paper_mean("finetune", TEN, "unlearned", "retain_acc"),
        paper_mean("original", TEN, "original", "retain_acc"),
    ]
    assert theirs[0] >= theirs[1]
    assert before > after[RATED] > after[COMPARED]
    forget = {name: our_mean(kept, name, "finetune", TEN, "forget_before") for name in (COMPARED, RATED)}
    assert forget[RATED] > forget[COMPARED] + 0.02
    rs = {name: our_mean(kept, name, "finetune", TEN) for name in (COMPARED, RATED)}
    assert rs[RATED] == pytest.approx(rs[COMPARED], abs=0.02)
    assert rs[COMPARED] > paper_mean("finetune", TEN)
    decay = [recipes.load(str(load_protocol(name).recipe)).methods["finetune"] for name in (COMPARED, RATED)]
    assert [one.get("weight_decay", 0.0) > 0 for one in decay] == [True, False]
    assert decay[0]["learning_rate"] == decay[1]["learning_rate"]


@pytest.mark.parametrize(
    ("method", "start"), [("scrub", "SCRUB stays"), ("negative-gradient-plus", "Negative Gradient+")]
)
def test_a_mean_that_is_the_papers_is_no_agreement_class_by_class(method: str, start: str) -> None:
    kept = read_kept(COMPARED)
    (why,) = (claim.why for claim in list_claims() if claim.text.startswith(start))
    assert why.startswith(
        "At native scale its mean RS is the paper's, though class by class they differ; the reference's"
    )
    assert abs(our_mean(kept, COMPARED, method, TEN) - paper_mean(method, TEN)) < 0.01
    assert max(abs(our_mean(kept, COMPARED, method, [k]) - paper_value(method, k)) for k in TEN) > 0.2
    assert abs(our_mean(kept, COMPARED, "retrained", TEN) - paper_mean("retrained", TEN)) > 0.2


def test_a_single_training_and_the_epoch_of_the_curves_are_named() -> None:
    kept = read_kept(COMPARED)
    alone = "One training seed, so differences between the models of a method are differences between classes."
    assert len(load_protocol(COMPARED).seeds) == 1
    assert SENTENCES["settings"](kept).endswith(alone)
    assert (trainings(1), trainings(3)) == (alone, "Training seeds: 3.")
    assert "to 3.40, with the last epoch, " in SENTENCES["curves"](kept)
