"""Other rates and other schedules: whatever part of them is there, the document says it and no more."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest
from scipy import stats

from builders.reproduction import (
    LONG,
    RATED,
    RATED_METHODS,
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
from reproduction.document import SENTENCES, TABLES, refresh
from reproduction.experiments import (
    FULL,
    OWN,
    RATES,
    STEPS,
    STEPS_TAKEN,
    change,
    same_models,
    there,
    values,
)
from reproduction.stored import METHOD_LIST, Kept
from sfra.bench.plan import plan
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import METHODS
from sfra.models import recipes

# the protocols


def test_models_count_as_the_same_where_their_cells_are(bare: Kept) -> None:
    keys: dict[str, dict[tuple[str, str], str]] = {
        name: {
            (goal.identity["method"], goal.identity["forget"]): goal.cell.key
            for goal in plan(load_protocol(name))
            if goal.what == "audit"
        }
        for name in (COMPARED, RATED, STEPPED, LONG)
    }
    assert same_models(bare, RATES) == ("retrained", "delete")
    assert (same_models(bare, STEPS), same_models(bare, FULL)) == ((), ())
    same = {place[0] for place, key in keys[RATED].items() if keys[COMPARED][place] == key}
    assert same == {"retrained"}  # delete is not asked for again
    for name in (STEPPED, LONG):
        assert [place for place, key in keys[name].items() if keys[COMPARED][place] == key] == []
    assert [place for place, key in keys[LONG].items() if keys[STEPPED][place] == key] == []


@pytest.mark.parametrize("protocol", [STEPPED, LONG])
def test_step_protocols_audit_three_classes_of_every_method_with_their_references_diagnosed(protocol: str) -> None:
    goals = plan(load_protocol(protocol))
    audited = {(goal.identity["method"], goal.identity["forget"]) for goal in goals if goal.what == "audit"}
    assert audited == {(method, forget) for method in (*METHOD_LIST, "masked") for forget in THREE}
    kinds = {what: sum(goal.what == what for goal in goals) for what in ("audit", "pra", "linear-probe", "diagnostics")}
    assert kinds == {"audit": 36, "pra": 36, "linear-probe": 0, "diagnostics": 3}
    assert {goal.identity["method"] for goal in goals if goal.what == "diagnostics"} == {"retrained"}


def test_the_short_step_recipe_is_the_long_one_at_thirds_of_60_epochs() -> None:
    short, long = (recipes.load(f"cifar10-resnet18-small-{name}") for name in ("short-steps", "steps"))
    assert short.training["epochs"] == 60
    assert [round(share * 60, 9) for share in short.training["milestones"]] == [20, 40]
    kept = set(long.training) - {"epochs", "milestones"}
    assert {name: short.training[name] for name in kept} == {name: long.training[name] for name in kept}
    assert (short.preprocess, short.augment) == (long.preprocess, long.augment)
    differing = {m for m in METHOD_LIST if short.methods.get(m, {}) != long.methods.get(m, {})}
    assert differing == {"delete", "learn-to-unlearn"}
    published = recipes.load("cifar10-resnet18-small-published")
    assert short.methods == published.methods


# nothing


def test_where_nothing_has_been_run_it_says_so(bare: Kept) -> None:
    assert there(bare) == (OWN,)
    assert SENTENCES["experiments"](bare).endswith("what is above, (a), train with it. None of them has been run.")
    for name in ("experiments", "experiments-models"):
        assert TABLES[name](bare).rows == ()
        assert refresh(f"<!-- table {name} -->\n<!-- end -->", bare) == f"<!-- table {name} -->\n\n<!-- end -->"
    changed = cells(TABLES["changes"](bare))
    assert list(changed) == ["reading the last epoch", "canonical scale"]
    assert "What (b), (c) and (d) would change is not known yet." in SENTENCES["changes"](bare)


def test_what_is_said_of_the_recipes_is_in_the_recipes(bare: Kept) -> None:
    told = SENTENCES["experiments"](bare)
    trained = {name: recipes.load(str(load_protocol(name).recipe)) for name in (COMPARED, RATED, STEPPED, LONG)}
    nesterov = {name: bool(recipe.training.get("nesterov")) for name, recipe in trained.items()}
    assert nesterov == {COMPARED: True, RATED: True, STEPPED: False, LONG: False}
    assert "(c) and (d) also train without Nesterov momentum; (b) and what is above, (a), train with it." in told
    full = trained[LONG].training
    assert [round(share * full["epochs"], 6) for share in full["milestones"]] == [40, 80, 120]
    assert (full["factor"], full["batch_size"]) == (0.1, 128)
    assert (len(trained[STEPPED].training["milestones"]), len(full["milestones"])) == (2, 3)
    assert "(c) is a shortened (d), with two drops of the rate instead of three, fewer epochs of DELETE and" in told
    assert f"in full, {full['epochs']} epochs with a tenth of the rate every 40, and its rates" in told
    assert f"a step schedule of {trained[STEPPED].training['epochs']} epochs, and with the paper's rates" in told
    for name in (RATED, STEPPED, LONG):
        assert f"`{name}`" in told


def test_the_effects_of_scale_and_epoch_are_those_of_the_tables_above(bare: Kept) -> None:
    changed, above = cells(TABLES["changes"](bare)), cells(TABLES["agreement"](bare))
    for step, reading in (
        ("reading the last epoch", "native, source-free"),
        ("canonical scale", "canonical, worst-case"),
    ):
        for when, where in (("before", "native, worst-case"), ("after", reading)):
            ours = bare.by_class(*where.split(", "))
            apart = fmean(abs(fmean(ours[m].values()) - paper_mean(m, TEN)) for m in METHOD_LIST)
            shown = changed[step][f"difference_{when}"], above[where]["difference"]
            assert shown == (f"{apart:.3f}", f"{apart:.2f}")
        assert changed[step]["spearman_after"] == above[reading]["spearman"]
        assert (changed[step]["methods"], changed[step]["models"]) == ("11", "110")


# one of them


def test_with_rates_alone_references_and_delete_are_the_same_models(bare: Kept) -> None:
    kept = rated(bare, 0.5)
    found = cells(TABLES["experiments"](kept))
    assert "c" not in TABLES["experiments"](kept).names
    for method in ("retrained", "delete"):
        assert found[METHODS[method]]["b"] == found[METHODS[method]]["a"]
    assert found["Negative Gradient+"]["b"] is None
    told = SENTENCES["experiments"](kept)
    assert "(b) is there in full, without Negative Gradient+. (c) has not been run. (d) has not been run." in told
    failed = {"protocol": STEPPED, "what": "audit", "method": "negative-gradient-plus", "failed": "unlearn"}
    assert "without Negative Gradient+, which diverges at the paper's rate. (c)" in SENTENCES["experiments"](
        replace(kept, failures=[failed])
    )
    assert "The rates, (b) instead of (a): over 10 methods and 100 models" in told
    assert not any(text in told for text in ("Retrained models, classes", "(c) for", "does not close"))
    assert "What (c) and (d) would change is not known yet." in SENTENCES["changes"](kept)


def test_with_the_schedule_alone_nothing_is_said_of_rates_alone(bare: Kept) -> None:
    kept = stepped(bare, 0.5)
    told = SENTENCES["experiments"](kept)
    assert "(b) has not been run. (c) is there in full. (d) has not been run." in told
    assert "Rates and training, (c) instead of (a): over 11 methods and 33 models" in told
    assert "(b) instead of (a)" not in told
    assert "(c) instead of (b)" not in told
    table = TABLES["experiments"](kept)
    assert table.names[:5] == ("method", "classes", "paper", "a", "c")
    assert {one["classes"] for one in cells(table).values()} == {"3"}


# several


def test_every_mean_is_over_the_classes_that_all_have(bare: Kept) -> None:
    kept = stepped(rated(bare, 0.5), 0.8)
    found = cells(TABLES["experiments"](kept))
    for method in METHOD_LIST:
        mine = found[METHODS[method]]
        assert mine["classes"] == "3"
        assert mine["paper"] == f"{paper_mean(method, THREE):.2f}"
        assert mine["paper_all"] == f"{paper_mean(method, TEN):.2f}"
        assert mine["a"] == f"{our_mean(kept, COMPARED, method, THREE):.2f}"
        assert mine["c"] == f"{our_mean(kept, STEPPED, method, THREE):.2f}"
        assert mine["a_all"] == f"{our_mean(kept, COMPARED, method, TEN):.2f}"
        if method in RATED_METHODS:
            assert mine["b"] == f"{our_mean(kept, RATED, method, THREE):.2f}"
            assert mine["b_all"] == f"{our_mean(kept, RATED, method, TEN):.2f}"


def test_accuracies_stand_beside_the_papers_in_percent(bare: Kept) -> None:
    kept = stepped(rated(bare, 0.5), 0.8, changed={"forget_before": 0.125, "retain_before": 0.875})
    found = cells(TABLES["experiments-models"](kept))
    for method in METHOD_LIST:
        mine = found[METHODS[method]]
        assert (mine["forget_c"], mine["retain_c"]) == ("12.5", "87.5")
        assert mine["retain_a"] == f"{100 * our_mean(kept, COMPARED, method, THREE, 'retain_before'):.1f}"
        for what in ("retain", "forget"):
            assert mine[f"{what}_paper"] == f"{paper_mean(method, THREE, 'unlearned', f'{what}_acc'):.1f}"


def test_each_change_is_measured_over_what_both_sides_have(bare: Kept) -> None:
    kept = stepped(rated(bare, 0.5), 0.8)
    found = cells(TABLES["changes"](kept))
    assert len(found) == 5
    methods = [m for m in METHOD_LIST if m != "negative-gradient-plus"]
    rates = {m: our_mean(kept, RATED if m in RATED_METHODS else COMPARED, m, THREE) for m in methods}
    steps = {m: our_mean(kept, STEPPED, m, THREE) for m in methods}
    paper = {m: paper_mean(m, THREE) for m in methods}
    mine = found["another training, (b) to (c)"]
    assert (mine["methods"], mine["models"]) == ("10", "30")
    assert mine["size"] == f"{fmean(abs(steps[m] - rates[m]) for m in methods):.2f}"
    assert mine["difference_before"] == f"{fmean(abs(rates[m] - paper[m]) for m in methods):.3f}"
    assert mine["difference_after"] == f"{fmean(abs(steps[m] - paper[m]) for m in methods):.3f}"
    rho = [stats.spearmanr(list(side.values()), list(paper.values())).statistic for side in (rates, steps)]
    assert [mine["spearman_before"], mine["spearman_after"]] == [f"{one:.2f}" for one in rho]
    assert mine["retrained_paper"] == f"{paper['retrained']:.2f}"
    assert found["the paper's rates, (a) to (b)"]["models"] == "100"
    told = SENTENCES["changes"](kept)
    start = "Three of them bring the mean absolute difference from the paper's down by 0.01 or more: "
    assert f"{start}rates and training, (a) to (c), from 0." in told
    ends = [fmean(abs(side[m] - paper[m]) for m in methods) for side in (rates, steps)]
    rank = "stays at {}" if f"{rho[0]:.2f}" == f"{rho[1]:.2f}" else "goes from {} to {}"
    order = rank.format(*(f"{one:.2f}" for one in rho))
    gains = [abs(rates[m] - paper[m]) - abs(steps[m] - paper[m]) for m in methods]
    line = f"; another training, (b) to (c), from {ends[0]:.3f} to {ends[1]:.3f} over 30 models "
    assert f"{line}(standard error over methods {stats.sem(gains):.3f}), and Spearman {order}" in told
    assert rho[1] >= rho[0]
    assert fmean(gains) > 2 * stats.sem(gains)
    assert "What (d) would change is not known yet." in told
    assert "not known yet" not in SENTENCES["changes"](in_full(kept, 0.9))


def test_methods_that_come_nearer_or_go_away_are_named(bare: Kept) -> None:
    nearer = change(rated(bare, 1.0), STEPS_TAKEN[2])
    assert nearer is not None
    gaps = {m: abs(our_mean(bare, COMPARED, m, TEN) - paper_mean(m, TEN)) for m in RATED_METHODS}
    assert set(nearer.nearer(0.05)) == {m for m, gap in gaps.items() if gap > 0.05}
    assert nearer.nearer(0.05, -1) == []
    away = change(rated(bare, -1.0), STEPS_TAKEN[2])
    assert away is not None
    assert away.nearer(0.05) == []
    assert set(away.nearer(0.05, -1)) == {m for m, gap in gaps.items() if gap > 0.05}
    assert "By more than 0.05 nearer: none; further: " in SENTENCES["experiments"](rated(bare, -1.0))
    assert SENTENCES["changes"](rated(bare, -1.0)).count("None of them brings") == 1


def test_other_protocols_leave_everything_else_as_it_is(bare: Kept) -> None:
    kept = in_full(stepped(rated(bare, 0.5, goals=82), 0.8), 0.9)
    told = {"coverage", "experiments", "changes", "norm", "agreement-scales"}
    assert {name for name in SENTENCES if SENTENCES[name](kept) != SENTENCES[name](bare)} == told
    shown = {"experiments", "experiments-canonical", "experiments-models", "changes"}
    shown |= {"norm", "norm-others", "agreement-scales", "agreement-scales-full"}
    assert {name for name in TABLES if TABLES[name](kept) != TABLES[name](bare)} == shown
    assert f"`{RATED}`: 80 of 82 audits." in SENTENCES["coverage"](kept)


# parts


def test_a_part_of_the_classes_is_compared_as_a_part(bare: Kept) -> None:
    kept = stepped(bare, 0.5, forget=["0"], methods=["retrained", "scrub"], goals=36)
    told = SENTENCES["experiments"](kept)
    assert "(b) has not been run. Of (c) 2 of 36 audits are there. (d) has not been run." in told
    assert "over 2 methods and 2 models" in told
    assert "Spearman" not in told
    assert "Retrained models, classes 0: " in told
    found = cells(TABLES["experiments"](kept))
    assert found["SCRUB"]["c"] == f"{our_mean(kept, STEPPED, 'scrub', ['0']):.2f}"
    assert (found["SCRUB"]["classes"], found["DELETE"]["c"]) == ("1", None)


def test_the_methods_of_tiny_rates_are_compared_with_the_paper_and_each_other(bare: Kept) -> None:
    kept = rated(bare, 0.5, changed={"forget_before": 0.125, "retain_before": 0.92})
    told = SENTENCES["experiments"](kept)
    paper = [paper_mean("random-label", TEN, "unlearned", f"{what}_acc") for what in ("retain", "forget")]
    assert f"Random Label 92.0 and 12.5 % (paper {paper[0]:.1f} and {paper[1]:.1f} %)" in told
    hits = [row["hits"] / row["samples"] for row in bare.originals if row["protocol"] == COMPARED]
    assert f"the original's forget accuracy is {100 * fmean(hits):.1f} %." in told
    scores = values(kept, RATES)
    apart = max(abs(scores["random-label"][k] - scores["boundary-shrink"][k]) for k in TEN)
    assert f"the two differ by at most 0.0 points of forget accuracy and {apart:.2f} in RS." in told
    alone = SENTENCES["experiments"](rated(bare, 0.5, methods=["random-label"]))
    assert "The other of the two is not there to compare." in alone
    assert "What rates of 1e-7" not in SENTENCES["experiments"](rated(bare, 0.5, methods=["scrub"]))


def test_tiny_rates_are_told_of_our_original_and_then_of_one_trained_as_the_papers_was(bare: Kept) -> None:
    both = in_full(rated(bare, 0.5), 0.5, changed={"forget_before": 0.125, "retain_before": 0.92})
    told = SENTENCES["experiments"](both)
    assert "What rates of 1e-7 and 1e-8 leave, in (b)" in told
    assert (
        "In (d), classes 0, 3 and 7, where drift alone was not measured: Random Label 92.0 and 12.5 % (paper " in told
    )
    lacking = SENTENCES["experiments"](in_full(bare, 0.5))
    assert "What rates of 1e-7 and 1e-8 leave, in (d)" in lacking
    assert "where drift alone was not measured" not in lacking


def test_what_else_than_the_rate_is_other_is_named_method_by_method(bare: Kept) -> None:
    ours, theirs = (recipes.load(str(load_protocol(name).recipe)).methods for name in (COMPARED, RATED))
    told = SENTENCES["experiments"](bare).partition("which changes more than the rate for ")[2].partition(". (c)")[0]
    for method in load_protocol(RATED).methods:
        names = {*ours.get(method, {}), *theirs.get(method, {})} - {"learning_rate"}
        other = {name for name in names if ours.get(method, {}).get(name) != theirs.get(method, {}).get(name)}
        expected = f"{METHODS[method]} ({', '.join(sorted(other)).replace('_', ' ')})"
        assert (expected in told) is bool(other)
    assert "Random Label (freeze batch norm, optimizer)" in told


def test_verdicts_that_another_recipe_changes_are_counted_by_method(bare: Kept) -> None:
    changed = {"scrub": "recovered", "salun": "degenerate"}
    kept = rated(bare, 0.5)
    audits = [
        {**row, "verdict": changed[row["method"]]}
        if row["protocol"] == RATED and row["method"] in changed and row["forget"] in ("3", "7")
        else row
        for row in kept.audits
    ]
    told = SENTENCES["experiments"](replace(kept, audits=audits))
    expected = (
        "SCRUB from 10 not-recovered to 8 not-recovered and 2 recovered; SalUn from 10 recovered to 8 recovered and 2"
    )
    assert f"that differ from those in (a): {expected} degenerate." in told
    assert "that differ from those in (a): none." in SENTENCES["experiments"](kept)


def test_tiny_rates_are_compared_with_passes_that_change_no_weight(bare: Kept) -> None:
    assert "batch-norm" not in SENTENCES["experiments"](replace(rated(bare, 0.5), drift=()))
    assert "batch-norm" not in SENTENCES["experiments"](bare)
    before = {"retain_before": 0.9, "forget_before": 0.2}
    kept = in_full(rated(bare, 0.5, changed=before), 0.5)
    rows = [{"forget": int(k), "passes": 2, "retain": 0.91, "forget_accuracy": 0.18 + 0.004 * int(k)} for k in TEN]
    start = [{**row, "passes": 0, "forget_accuracy": 0.95} for row in rows]
    told = SENTENCES["experiments"](replace(kept, drift=[*start, *rows], drift_audits=()))
    assert "2 passes over the class in training mode" in told
    assert "leave 91.0 and 19.8 %" in told
    assert "in (b): as far as accuracies tell, nothing else happens there. No such network was audited." in told
    audited = [
        {"forget": k, "passes": 2, "scale": scale, "rule": rule, "rs": rs}
        for k in (3, 7)
        for scale, rule, rs in (("native", "worst-case", 0.5), ("canonical", "source-free", 0.1))
    ]
    told_of = SENTENCES["experiments"](replace(kept, drift=[*start, *rows], drift_audits=audited))
    rs = {m: {k: our_mean(kept, RATED, m, [k]) for k in ("3", "7")} for m in ("random-label", "boundary-shrink")}
    apart = max(abs(value - 0.5) for some in rs.values() for value in some.values())
    means = [f"{fmean(some.values()):.2f}" for some in rs.values()]
    line = f"give RS 0.50 in the paper's reading (Random Label {means[0]} and Boundary Shrink {means[1]})"
    assert f"Audited, such networks of classes 3 and 7 {line}, class by class within {apart:.3f} of either." in told_of
    further = [{**row, "retain": 0.94} for row in rows]
    told = SENTENCES["experiments"](replace(kept, drift=[*start, *further]))
    assert "within 4.0 points of either in (b): other things moved too." in told


def test_the_committed_passes_are_of_the_original_and_of_every_class(other: Kept) -> None:
    hits = {int(row["label"]): row["hits"] / row["samples"] for row in other.originals if row["protocol"] == COMPARED}
    first = {row["forget"]: row["forget_accuracy"] for row in other.drift if row["passes"] == 0}
    assert first == pytest.approx(hits)
    assert len(other.drift) == 40


def test_what_the_paper_prints_of_the_two_is_nearly_the_same(bare: Kept) -> None:
    told = SENTENCES["alike"](bare)
    for variant, column, form in (("unlearned", "forget_acc", "{:.1f} points"), ("sfra", "rs", "RS by {:.2f}")):
        apart = [
            abs(paper_value("random-label", k, variant, column) - paper_value("boundary-shrink", k, variant, column))
            for k in TEN
        ]
        assert form.format(max(apart)) in told


def test_pra_is_compared_over_the_same_models(bare: Kept) -> None:
    kept = stepped(bare, 0.5)
    paper = {m: paper_mean(m, THREE, "pra") for m in METHOD_LIST}
    own = {
        m: fmean(
            row["rs"]
            for row in bare.pra
            if (row["protocol"], row["variant"], row["method"]) == (COMPARED, "cosine", m) and row["forget"] in THREE
        )
        for m in METHOD_LIST
    }
    apart = [fmean(abs(share * own[m] - paper[m]) for m in METHOD_LIST) for share in (1.0, 0.5)]
    told = f"11 methods and 33 models it differs from the paper's by {apart[0]:.2f} in (a), {apart[1]:.2f} in (c)."
    assert told in SENTENCES["experiments"](kept)
    assert "PRA, which" not in SENTENCES["experiments"](replace(kept, pra=bare.pra))
