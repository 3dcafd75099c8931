"""Every number in the prose of the reproduction pages is one of the rows, or a setting of a protocol."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest

from builders.prose import changed_numbers, problems, prose, say
from reproduction import overview, together, worlds
from reproduction.ablations import SCORES, SIZES, SUPPORT, level_rows
from reproduction.rows import (
    BASE,
    KEPT,
    METHOD_LIST,
    PUBLISHED,
    ROOT,
    VERDICT,
    Agreement,
    Group,
    Values,
    agree,
    arrange,
    means,
    paper_side,
    side_of,
)
from reproduction.tables import native_kappas, of_methods, selection_parts, sweep_outcomes
from sfra.attack.scale import KAPPA, SWEEP

VIT = "cifar10-vit-small"


@cache
def toml(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "src" / "sfra" / path).read_text(encoding="utf-8"))


def agreement(ours: Values, theirs: Values) -> Agreement:
    found = agree(ours, theirs)
    assert found is not None
    return found


def counts(rows: pl.DataFrame, *methods: str) -> dict[str, int]:
    """Count the verdicts of some methods."""
    chosen = rows.filter(pl.col("method").is_in(methods))
    return dict(chosen.group_by("verdict").len().iter_rows())


def alarms(rows: pl.DataFrame) -> int:
    found = counts(rows, "retrained")
    return sum(found.values()) - found.get("not-recovered", 0)


def accuracy(group: Group) -> float:
    return float(100 * group.rows("originals").select(pl.sum("hits") / pl.sum("samples")).item())


def settings(group: Group) -> tuple[list[Any], int, int]:
    """Read N, M, epochs and seeds of a protocol, and count its forget classes and methods."""
    protocol = toml(f"bench/protocols/{group.name}.toml")
    audited = group.audits(VERDICT)
    audit = [protocol["audit"][name] for name in ("n", "m", "epochs", "seeds")]
    return audit, audited["forget"].n_unique(), len(set(audited["method"]) & set(METHOD_LIST) - {"retrained"})


def cifar10(group: Group) -> list[str]:
    (n, m, epochs, seeds), classes, methods = settings(group)
    paper, side = paper_side(group.dataset), side_of(group)
    ours, theirs = (of_methods(one.rs[PUBLISHED]) for one in (side, paper))
    near, hiding = agreement(ours, theirs), ("bad-teacher", "salun", "delete")
    retrained, printed = side.rs[PUBLISHED]["retrained"], paper.rs[PUBLISHED]["retrained"]
    busy = group.rows("coverage").filter(what="all on cuda")["seconds"].sum()
    reached = worlds.reached(group, paper, list(retrained))
    verdicts, published = group.audits(VERDICT), group.audits(PUBLISHED)
    judged = counts(verdicts, *METHOD_LIST[1:])
    masked, added = group.rs(VERDICT)["masked"], selection_parts(group, "native")
    gain = {name: added["best"][name] - added["last"][name] for name in METHOD_LIST}
    recipes = {one: worlds.values(group, one)["retrained"] for one in ("a", "d")}
    some = list(recipes["d"])
    rates = toml("models/recipes/cifar10-resnet18-small-published.toml")["methods"]
    tiny = {
        name: means(worlds.values(group, "b", "forget_before"))[name] for name in ("random-label", "boundary-shrink")
    }
    drift = json.loads((group.folder / group.name / "drift.json").read_text())["rows"]
    drifted = fmean(row["forget_accuracy"] for row in drift if row["passes"] == max(one["passes"] for one in drift))
    wide = Group(f"{BASE}-224")
    energy, energy_there = (
        level_rows(one, SCORES, VERDICT)["energy"].filter(method="retrained") for one in (group, wide)
    )
    few, positive = (
        level_rows(group, factor, VERDICT)[level].filter(method="masked")
        for factor, level in ((SIZES["M"], "50"), (SUPPORT, "abs-gaussian"))
    )
    both = group.audits(VERDICT, ending="-multi").filter(method="masked", forget="1+6")["rs"].item()
    lost = (
        group.rows("confusion", "-multi").filter(method="masked").select(pl.col("own") / pl.col("samples")).to_series()
    )
    ablations = group.rows("coverage", "-ablations").filter(what="audit").row(0, named=True)
    l2 = means(arrange(group.rows("pra").filter(variant="l2"), "rs"))["retrained"]
    larger, coded = wide.rs(PUBLISHED), worlds.values(wide, "b")
    last = wide.rows("models", "-published").filter(method="salun").row(0, named=True)
    agree_there = {"retrained", "negative-gradient", "random-label", "boundary-shrink", "learn-to-unlearn"}
    agree_there |= {"bad-teacher", "delete"}
    near_there = {
        method
        for method, some in larger.items()
        if method in theirs and abs(fmean(some[c] - paper.rs[PUBLISHED][method][c] for c in some)) < 0.06
    }
    return [
        say("with the paper's own, over five classes, they give back {:.2f}, the paper's {:.2f}",
            *(fmean(one["retrained"][c] for c in larger["retrained"]) for one in (larger, paper.rs[PUBLISHED])),
            holds=len(larger["retrained"]) == 5),
        say("One original, {} forget classes, {} unlearning methods", classes, methods),
        say("N = {:,}, M = {}, {} epochs and {} seeds", n, m, epochs, seeds),
        say("on one H200 in {:.0f} minutes", busy / 60),
        say("RS is 0 if nothing came back and 1 if all did"),
        say("differs by {:.2f} on average over {} methods; the rank correlation is {:.2f}",
            near.difference, len(ours), near.spearman),
        say("at least {:.2f} here and {:.2f} in the paper", *(min(one[h] for h in hiding) for one in (ours, theirs))),
        say("give back {:.2f} instead of {:.2f}, but class by class in the paper's order (rank correlation {:.2f})",
            ours["retrained"], theirs["retrained"], agreement(retrained, printed).spearman),
        say("({:.2f} instead of {:.2f}), Negative Gradient and Learn to Unlearn less",
            ours["finetune"], theirs["finetune"],
            holds=all(ours[one] < theirs[one] - 0.2 for one in ("negative-gradient", "learn-to-unlearn"))),
        say("The original has {:.2f} % accuracy, the paper's {:.2f} %",
            accuracy(group), 100 * fmean(paper.forget["original"].values())),
        say("images of 224 × 224 pixels"),
        say("κ = {:.2f} (the median norm of their rows). Enlarged to κ = {:.2f}",
            native_kappas(group)["retrained"], reached),
        say("they have κ = {:.2f}, and the mean RS of seven methods is within 0.06", native_kappas(wide)["retrained"],
            holds=near_there == agree_there),
        say("and Learn to Unlearn over classes {}, {}, {}, {} and {}, Bad Teacher and DELETE over the first four",
            *larger["retrained"],
            holds=list(larger["delete"]) == list(larger["bad-teacher"]) == list(larger["retrained"])[:4]),
        say("Learn to Unlearn keeps {:.1f} % of the class (the paper's {:.1f} %), Bad Teacher {:.1f} % of class 7", *(
            100 * fmean(one.forget["learn-to-unlearn"][c] for c in larger["learn-to-unlearn"])
            for one in (side_of(wide), paper)), 100 * side_of(wide).forget["bad-teacher"]["7"]),
        say("Finetune keeps {:.1f} % of the class after {} epochs (the paper's {:.1f} %, of up to 300 epochs)",
            100 * fmean(side_of(wide).forget["finetune"].values()),
            toml("models/recipes/cifar10-resnet18.toml")["methods"]["finetune"]["epochs"],
            100 * fmean(paper.forget["finetune"].values())),
        say("tried on classes {}, {} and {}, keeps {:.1f} % (the paper's {:.1f} %)", *larger["salun"],
            *(100 * fmean(one.forget["salun"][c] for c in larger["salun"]) for one in (side_of(wide), paper))),
        say("tried on class 7, SCRUB gives {:.2f} instead of {:.2f} (the paper's {:.2f})", *(
            one["scrub"]["7"] for one in (coded, larger, paper.rs[PUBLISHED])), holds=set(coded["scrub"]) == {"7"}),
        say("keeps {:.1f} % of the class and gives {:.2f} (the paper's {:.1f} % and {:.2f})",
            100 * worlds.values(wide, "b", "forget_before")["salun"]["7"], coded["salun"]["7"],
            100 * paper.forget["salun"]["7"], paper.rs[PUBLISHED]["salun"]["7"]),
        say("the best of its {} epochs is the last, and the paper's runs for up to 300", int(last["epochs"]),
            holds=last["epoch"] == last["epochs"]),
        say("sees forget and retain data: {:.2f}, the paper's {:.2f}", ours["salun"], theirs["salun"]),
        say("retrained models of {} classes give {:.2f} instead of {:.2f}; the paper has {:.2f}", len(some),
            *(fmean(one[c] for c in some) for one in (recipes["d"], recipes["a"], printed))),
        say("rates of 1e-7 and 1e-8, Random Label and Boundary Shrink",
            holds=[rates[name]["learning_rate"] for name in tiny] == [1e-7, 1e-8]),
        say("leave {:.1f} % of the class, the two methods {:.1f} and {:.1f} %",
            100 * drifted, *(100 * one for one in tiny.values())),
        say("No retrained model raises an alarm ({} of {}). In the paper's reading {} of {} do",
            alarms(verdicts), classes,
            alarms(published), classes, holds=alarms(verdicts) == 0),
        say("found in all classes ({} of {}), with RS {:.2f} to {:.2f}",
            counts(verdicts, "masked")["recovered"], classes,
            min(masked.values()), max(masked.values()), holds=counts(verdicts, "masked") == {"recovered": classes}),
        say("Of {} unlearned models {} are recovered, {} are not, and {} are degenerate: Random Label",
            sum(judged.values()),
            *(judged[one] for one in ("recovered", "not-recovered", "degenerate")),
            holds=counts(verdicts, "random-label") == {"degenerate": judged["degenerate"]}),
        say("At the scale of the released head, choosing the best epoch adds {:.2f} to RS on average, and {:.2f} "
            "for SCRUB", fmean(gain.values()), gain["scrub"]),
        say("retrained models then give {:.2f}, and all {} raise an alarm; with the paper's network they give {:.2f}",
            fmean(energy["rs"]), alarms(energy), fmean(energy_there["rs"]), holds=alarms(energy) == classes),
        say("M = 50 hides the control (RS {:.2f})", few["rs"].item(), holds="recovered" not in few["verdict"]),
        say("of absolute values (RS {:.2f}); each was tried on one class", positive["rs"].item()),
        say("Of two classes forgotten at once only one comes back. RS of the control is then {:.2f}, and {:.0f} % of "
            "the other class", both, 100 * min(lost), holds=max(lost) > 0.8),
        say("PRA brings {:.2f} back from retrained models, and a linear probe reads {:.1f} % of",
            l2, 100 * means(side.probe)["retrained"]),
        say("diverges at the paper's rate, and {} of {} ablations ran out of draws",
            int(ablations["goals"] - ablations["done"]),
            int(ablations["goals"]),
            holds=set(group.all_rows("failures").filter(failed="unlearn")["method"]) == {"negative-gradient-plus"}),
        say("at its own rate ({:.2f}) and at the paper's ({:.2f})",
            ours["finetune"], means(worlds.values(group, "b"))["finetune"]),
        say("one training seed, and {} retrained models", classes, holds=set(verdicts["seed"]) == {0}),
    ]  # fmt: skip


def cifar100(group: Group) -> list[str]:
    (n, m, epochs, seeds), classes, methods = settings(group)
    paper, side, base = paper_side(group.dataset), side_of(group), Group(BASE, group.folder)
    ours, theirs = (of_methods(one.rs[PUBLISHED]) for one in (side, paper))
    gaps = {name: abs(ours[name] - theirs[name]) for name in ours}
    near, rest = agreement(ours, theirs), agreement({one: ours[one] for one in ours if one != "salun"}, theirs)
    verdicts, here = group.audits(VERDICT), group.rs(VERDICT)
    found, judged = counts(verdicts, "masked"), counts(verdicts, *METHOD_LIST[1:])
    known, names = group.original()[1], group.class_names()
    gap = {c: here["masked"][c] - here["retrained"][c] for c in here["masked"]}
    swept, outcomes = group.swept(ending="-scales"), sweep_outcomes(group)
    at = {round(row["kappa"], 2): row for row in outcomes.iter_rows(named=True)}
    broken = [kappa for kappa, row in at.items() if row["degenerate"] == row["audits"]]
    most = outcomes["recovered"].max()
    mouse = swept.filter(method="masked", forget=str(names.index("mouse")), verdict="recovered")
    per_class = [abs(side.rs[PUBLISHED]["retrained"][c] - one) for c, one in paper.rs[PUBLISHED]["retrained"].items()]
    anew = arrange(group.audits(VERDICT, variant="reset-row"), "rs")
    reset = {name: means(anew)[name] - means(here)[name] for name in METHOD_LIST}
    probe, retain = means(side.probe), means(side.retain)
    l2 = means(arrange(group.rows("pra").filter(variant="l2"), "rs"))["retrained"]
    every = max(here["retrained"], key=here["retrained"].__getitem__)
    hidden = together.several_rows(group)
    sums, single = hidden.filter(pl.col("class").is_null()), hidden.drop_nulls("class").filter(kind="silenced")
    greedy, best = (sums.filter(kind="silenced", order=one)["rs"] for one in ("ascending", "optimal"))
    shares = [single.filter(order=one).select(100 * pl.col("own") / pl.col("samples")).to_series()
              for one in ("ascending", "optimal")]  # fmt: skip
    turned = greedy - sums.filter(kind="silenced", order="descending")["rs"]
    coded, salun = worlds.values(group, "b")["salun"], toml("models/recipes/cifar100-resnet18-small-published.toml")
    same = fmean(paper.rs[PUBLISHED]["salun"][c] for c in coded)
    left = abs(fmean(coded.values()) - same)
    return [
        say("retain data, a rate of {}, the best of {} epochs instead of up to 300",
            *(salun["methods"]["salun"][one] for one in ("learning_rate", "epochs"))),
        say("gives back {:.2f} over {} classes, the paper's over the same {:.2f}: {:.2f} more, instead of {:.2f}",
            fmean(coded.values()), len(coded), same, left, fmean(side.rs[PUBLISHED]["salun"][c] for c in coded) - same),
        say("the mean difference over {} methods is {:.2f}", len(gaps),
            fmean((gaps | {"salun": left}).values())),
        say("Two, five and ten classes were hidden", holds=sorted(set(sums["classes"])) == [2, 5, 10]),
        say("next to nothing comes back (RS at most {:.2f})", max(sums.filter(pl.col("kind") != "silenced")["rs"])),
        say("RS is {:.2f} to {:.2f} under the paper's greedy assignment and {:.2f} to {:.2f} under the optimal one",
            min(greedy), max(greedy), min(best), max(best)),
        say("from {:.0f} to {:.0f} %, under the optimal assignment from {:.0f} % up. Reversing the order changes RS of "
            "rows as trained by up to {:.2f}", min(shares[0]), max(shares[0]), min(shares[1]), max(map(abs, turned))),
        say("RS near 0 of several masked rows"),
        say("with a hundred classes. Our mean RS is near", holds=len(names) == 100),
        say("more than half of the retrained models raise an alarm, and half of the classes",
            holds=alarms(verdicts) > classes / 2
            and found["recovered"] == classes / 2),
        say("One original, {} forget classes (every tenth), {} unlearning methods", classes, methods,
            holds=[int(c) for c in known] == list(range(0, 100, 10))),
        say("N = {:,}, M = {}, {} epochs and {} seeds", n, m, epochs, seeds),
        say("For {} classes, {} models each were audited at {} scales",
            swept["forget"].n_unique(), swept["method"].n_unique(),
            swept["kappa"].n_unique()),
        say("differs by {:.2f} on average over {} methods, and by at most {:.2f} for all but SalUn",
            near.difference, len(ours),
            max(value for name, value in gaps.items() if name != "salun")),
        say("Retrained, Bad Teacher and DELETE agree within 0.01",
            holds=all(gaps[one] < 0.01 for one in ("retrained", "bad-teacher", "delete"))),
        say("RS of retrained models differs by at most {:.2f}", max(per_class)),
        say("SalUn gives back {:.2f} here and {:.2f} in the paper", ours["salun"], theirs["salun"]),
        say("Without it the rank correlation is {:.2f}, with it {:.2f}", rest.spearman, near.spearman),
        say("The original has {:.2f} % accuracy, the paper's {:.2f} %",
            accuracy(group), 100 * fmean(paper.retain["original"].values())),
        say("({:.1f} % on the retain classes, the paper's {:.1f} %)",
            100 * retain["finetune"], 100 * means(paper.retain)["finetune"]),
        say("less with a hundred classes is not known"),
        say("{} of {} retrained models raise an alarm; on CIFAR-10 none does", alarms(verdicts), classes,
            holds=alarms(base.audits(VERDICT)) == 0),
        say("{:.2f} on average, at most {:.2f} ({})",
            means(here)["retrained"], here["retrained"][every], names[int(every)]),
        say("recovered for {} of {} classes only. For mouse it gives back less ({:.2f}) than a model that never saw a "
            "mouse ({:.2f})",
            found["recovered"], classes, *(here[one][str(names.index("mouse"))] for one in ("masked", "retrained"))),
        say("ΔRS has rank correlation {:.2f} with its accuracy", agreement(gap, known).spearman),
        say("Of {} unlearned models {} are recovered, {} generic (no more than a retrained model), {} degenerate, "
            "{} not recovered, {} inconclusive and {} not unlearned", sum(judged.values()),
            *(judged[one] for one in
              ("recovered", "generic", "degenerate", "not-recovered", "inconclusive", "not-unlearned"))),
        say("Bad Teacher and SalUn are recovered for all {} classes", classes,
            holds=counts(verdicts, "bad-teacher", "salun") == {"recovered": 2 * classes}),
        say("At κ = 1.43 the control is recovered for {} of {} classes and {} of {} retrained models raises an alarm",
            *(at[1.43][one] for one in ("recovered", "masked", "alarms", "retrained")),
            holds=at[1.43]["recovered"] == most),
        say("at the constant κ = 1.70 it is {} and {}", at[1.7]["recovered"], at[1.7]["alarms"]),
        say("recovered at no scale, and from κ = {:.2f} on", min(broken), holds=len(mouse) == 0 and max(at) in broken),
        say("PRA brings {:.2f} back from retrained models, and a linear probe reads {:.1f} % of the class from them, "
            "as much as from any other", l2, 100 * probe["retrained"],
            holds=round(max(probe.values()), 3) == round(probe["retrained"], 3)),
        say("changes mean RS by at most {:.2f}", max(map(abs, reset.values()))),
        say("{:.0f} test samples, so forget accuracy moves in steps of a hundredth",
            group.rows("originals")["samples"].unique().item()),
        say("and {} of {} classes", classes, len(names)),
    ]  # fmt: skip


def all_groups(group: Group) -> list[str]:
    """Say what the overview says; the group only names the folder of all groups."""
    base, wide, many = (Group(name, group.folder) for name in (BASE, f"{BASE}-224", "cifar100-resnet18"))
    coded, small = worlds.values(many, "b")["salun"], Group(VIT, group.folder).rs(PUBLISHED)
    single = worlds.values(wide, "b")["salun"]
    own, theirs = ({one: overview.beside(one)[i] for one in (wide, base, many)} for i in (0, 1))
    mean = {one: of_methods(own[one].rs[PUBLISHED]) for one in own}
    paper = {one: of_methods(theirs[one].rs[PUBLISHED]) for one in own}
    gap = {one: {m: mean[one][m] - paper[one][m] for m in mean[one] if m in paper[one]} for one in own}
    near = {one: agreement(mean[one], paper[one]) for one in own}
    rest = {one: agreement({m: mean[one][m] for m in mean[one] if m not in overview.OTHERWISE}, paper[one])
            for one in own}  # fmt: skip
    found = {(one, name): read(one) for one in own for name, (_, read) in overview.CLAIMS.items()}
    wrong = {key for key, (ours, _) in found.items() if ours is not None and not ours[1]}

    def said(one: Group, name: str, side: int = 0) -> str:
        quoted = found[one, name][side]
        return quoted[0] if quoted else "NOTHING"

    def first(one: Group, name: str) -> str:
        return said(one, name).partition(" of ")[0]

    verdict = ("comes-back-verdict", "generic-verdict")
    never = own[wide].rs[PUBLISHED]["retrained"]
    read_vit = [
        read(Group(VIT, group.folder))[0] for name, (_, read) in overview.CLAIMS.items() if "verdict" not in name
    ]
    shown_vit = [one[1] for one in read_vit if one is not None]
    vit = shown_vit.count(False), len(shown_vit)
    return [
        say("mean RS differs by {:.2f} over {} methods with our small stem, and by {:.2f} with the paper's network at "
            "224 pixels; there, without Finetune and SalUn, by {:.2f}, in nearly the same order (rank correlation "
            "{:.2f})",
            near[base].difference, len(mean[wide]), near[wide].difference, rest[wide].difference, rest[wide].spearman,
            holds=len(mean[wide]) == len(mean[base])),
        say("where the network is ours, it differs by {:.2f}, without the two by {:.2f}", near[many].difference,
            rest[many].difference),
        say("Finetune gives back more here (by {:.2f}, {:.2f} and {:.2f}); with the paper's network it runs for {} "
            "epochs instead of up to 300",
            *(gap[one]["finetune"] for one in (wide, base, many)),
            toml("models/recipes/cifar10-resnet18.toml")["methods"]["finetune"]["epochs"]),
        say("SalUn is {:.2f} below the paper's where it sees forget data only (by {:.2f} for class 0, by {:.2f} for "
            "class 7), and {:.2f} and {:.2f} above", -gap[wide]["salun"], *(
                theirs[wide].rs[PUBLISHED]["salun"][c] - own[wide].rs[PUBLISHED]["salun"][c] for c in ("0", "7")),
            gap[base]["salun"], gap[many]["salun"],
            holds=toml("models/recipes/cifar10-resnet18.toml")["methods"]["salun"]["retain"] is False),
        say("With the small stem Retrained, Learn to Unlearn and Negative Gradient give back less (by {:.2f}, {:.2f} "
            "and {:.2f})", *(-gap[base][one] for one in ("retrained", "learn-to-unlearn", "negative-gradient"))),
        say("SCRUB and Negative Gradient+ give back more (by {:.2f} and {:.2f})",
            *(gap[wide][one] for one in ("scrub", "negative-gradient-plus"))),
        say("it is {:.2f} above on CIFAR-100, and {:.2f} below for the one class of CIFAR-10 at 224",
            fmean(coded[c] - paper_side(many.dataset).rs[PUBLISHED]["salun"][c] for c in coded),
            paper_side(wide.dataset).rs[PUBLISHED]["salun"]["7"] - single["7"], holds=set(single) == {"7"}),
        say("the control gives back {:.2f} and the reference {:.2f}",
            *(fmean(small[one].values()) for one in ("masked", "retrained"))),
        say("It has one class so far", holds={len(one) for one in small.values()} == {1}),
        say("Over the same {} classes its retrained models give back {:.2f}, those of the paper's network {:.2f}, the "
            "paper's {:.2f}", len(never), fmean(own[base].rs[PUBLISHED]["retrained"][c] for c in never),
            mean[wide]["retrained"], paper[wide]["retrained"]),
        say("holds for ResNet-18.** Two things do not",
            holds={one for one in wrong if one[1] not in verdict} == {(many, "retain"), (base, "support")}),
        say("costs the other classes {}, which it does in the paper too ({})", said(many, "retain"),
            said(many, "retain", 1).split()[-2]),
        say("comes back by half from probes of absolute values ({}, the paper's {})",
            *(said(base, "support", side).rpartition(" ")[2] for side in (0, 1))),
        say("With the paper's network and the same class 7 it is {}, and {} with ReLU probes (the paper's {})",
            said(wide, "support").split(", ")[2],
            *(said(one, "support", side).split(", ")[1] for one, side in ((wide, 0), (base, 1)))),
        say("We left the two out after the fact"),
        say("differ in all three", holds=len(own) == 3),
        say("Of the ViT's single class, {} of {} claims do not hold", *vit),
        say("no retrained model gives the class back ({} and {}; the paper's reading {} and {})",
            said(base, "generic-verdict"), said(wide, "generic-verdict"), first(base, "generic"),
            first(wide, "generic"), holds=said(base, "generic-verdict") + said(wide, "generic-verdict")
            == f"0 of {len(own[base].rs[VERDICT]['retrained'])}0 of {len(own[wide].rs[VERDICT]['retrained'])}"),
        say("at most 1 % of the class {} and {} give it back, not {} and {}", said(base, verdict[0]),
            said(wide, verdict[0]), first(base, "comes-back"), first(wide, "comes-back")),
        say("RS is 0 if nothing of the class came back and 1 if all did"),
        say("with two networks"),
    ]  # fmt: skip


def transformers(group: Group) -> list[str]:
    audit = toml(f"bench/protocols/{BASE}-224.toml")["audit"]
    recipe = toml("models/recipes/cifar10-vit-small.toml")["training"]
    paper, side, native = paper_side(group.dataset, group.backbone), side_of(group), group.rs(("native", "source-free"))
    rows = group.rows("audits").filter(audit="main", rule="source-free", variant="released")
    own, ours = (rows.filter(scale=one) for one in ("native", "canonical"))
    never = [one.filter(method="retrained").sort("seed") for one in (own, ours)]
    left = {m: 100 * fmean(some.values()) for m, some in side.forget.items() if m in METHOD_LIST[1:]}
    gone, kept = ({m for m in left if (left[m] == 0) is empty} for empty in (True, False))
    main = ours.filter(seed=0)
    near = agreement(*(of_methods(one.rs[PUBLISHED]) for one in overview.beside(group)))
    lost = 100 * (never[1]["retain_before"] - never[1]["retain_after"])
    there = {m: group.swept(ending="-scales").filter(method=m) for m in ("masked", "retrained")}
    at = {m: some.filter((pl.col("kappa") - 0.6).abs() < 0.01)["rs"].item() for m, some in there.items()}
    busy = group.rows("coverage").filter(what="all on cuda")["seconds"].item()
    return [
        say("One class of one network so far", holds=main["forget"].n_unique() == 1),
        say("images of 32 × 32 (patches of 4 pixels, 7 layers, 256 features), trained from nothing for {} epochs",
            recipe["epochs"]),
        say("Its accuracy is {:.2f} %", accuracy(group)),
        say("the paper's is ViT-B/16 with weights of ImageNet, {:.2f} %",
            100 * fmean(paper.retain["original"].values())),
        say("forgot airplanes in nine ways", holds=len(left) == 8),  # and one that diverged
        say("there are two references of different seeds. Audits use N = {:,}, M = {}, {} epochs and {} seeds",
            *(audit[one] for one in ("n", "m", "epochs", "seeds")), holds=never[0]["seed"].to_list() == [0, 1]),
        say("busy with it for six minutes", holds=330 < busy < 390),
        say("(native, last epoch) the control gives back {:.2f}, the two models that never saw the class {:.2f} and "
            "{:.2f}", native["masked"]["0"], *never[0]["rs"]),
        say("the reference gives {:.2f}, the paper's {:.2f}",
            *(one.rs[PUBLISHED]["retrained"]["0"] for one in (side, paper))),
        say("Of three models that keep nothing of the class each gives it back: Learn to Unlearn {:.2f}, DELETE "
            "{:.2f}, SalUn {:.2f}", *(native[one]["0"] for one in ("learn-to-unlearn", "delete", "salun")),
            holds=gone == {"learn-to-unlearn", "delete", "salun"}),
        say("Five others did not forget: Finetune, Negative Gradient, Random Label, SCRUB and Bad Teacher keep {:.1f} "
            "to {:.1f} % of the class, the paper's at most {:.1f} %", min(left[m] for m in kept), max(left.values()),
            100 * max(paper.forget[m]["0"] for m in kept), holds=len(kept) == 5),
        say("{:.2f} on average over {} methods", near.difference, len(left) + 1),
        say("diverged in its second epoch"),
        say("κ = {:.2f} in the retrained model, where ResNet-18 has {:.2f}",
            *(native_kappas(one)["retrained"] for one in (group, Group(BASE, group.folder)))),
        say("The constant, κ = {:.2f}", KAPPA),
        say("almost three times as large", holds=2.7 < KAPPA / native_kappas(group)["retrained"] < 3),
        say("the two models that never saw the class give back {:.2f} and {:.2f}, and lose {:.1f} and {:.1f} points",
            *never[1]["rs"], *lost),
        say("Of {} models {} are degenerate", len(main), counts(main, *set(main["method"]))["degenerate"],
            holds="recovered" not in set(main["verdict"])),
        say("At κ = 0.60 the control gives back {:.2f} and the reference {:.2f} (table, on 190 test samples",
            at["masked"], at["retrained"]),
        say("begins at {:.2f}, where the two still lie far apart ({:.2f} and {:.2f})", SWEEP[0].kappa, *(
            some.filter(pl.col("kappa") == SWEEP[0].kappa)["rs"].item() for some in there.values())),
    ]  # fmt: skip


Quotes = Callable[[Group], list[str]]
PAGES: dict[str, tuple[str, Quotes]] = {
    "reproduction-overview.md": (BASE, all_groups),
    "reproduction.md": (BASE, cifar10),
    "reproduction-cifar100.md": ("cifar100-resnet18", cifar100),
    "reproduction-transformers.md": (VIT, transformers),
}


@pytest.mark.parametrize("page", PAGES)
def test_every_number_in_the_prose_is_that_of_the_rows(page: str) -> None:
    group, quotes = PAGES[page]
    assert problems(prose(page), quotes(Group(group))) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_changed_number_is_noticed_wherever_it_stands(page: str) -> None:
    group, quotes = PAGES[page]
    text, said = prose(page), quotes(Group(group))
    changes = changed_numbers(text)
    assert len(changes) > 30
    assert all(problems(changed, said) for changed in changes)
    assert problems(f"{text} It was 0.5.", said) == ["0.5."]
    assert problems(f"{text} It was so for nine classes.", said) == ["nine"]


@pytest.mark.parametrize("page", PAGES)
def test_changed_rows_are_noticed(page: str, tmp_path: Path) -> None:
    name, quotes = PAGES[page]
    for group in {name, BASE, f"{BASE}-224", "cifar100-resnet18", VIT}:
        (tmp_path / group).mkdir()
        for file in (KEPT / group).iterdir():
            (tmp_path / group / file.name).symlink_to(file)
    audits = pl.read_csv(KEPT / name / "audits.csv", infer_schema=False)
    (tmp_path / name / "audits.csv").unlink()
    shifted = pl.col("rs").cast(pl.Float64) + pl.when(pl.col("method") == "retrained").then(0.02).otherwise(0)
    audits.with_columns(rs=shifted.cast(pl.String)).write_csv(tmp_path / name / "audits.csv")
    found = problems(prose(page), quotes(Group(name, tmp_path)))
    assert any(re.search("retrained models|instead of|never saw", one.lower()) for one in found)
