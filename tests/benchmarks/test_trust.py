"""The rates behind the verdicts: how they are counted, and that page and figure say what the rows say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from builders.prose import changed_numbers, problems, prose, say
from sfra.auditing.control import default_self_controls
from sfra.auditing.verdict import FRESH_SPREAD, POWER, READ_BESIDE, RETRAINING_FREEDOM, RETRAINING_SPREAD, margin

trust_report = pytest.importorskip("trust_report", reason="the benchmarks are not on the path")
trust = pytest.importorskip("trust", reason="the benchmarks are not on the path")
DOCS = Path(__file__).parents[2] / "docs"


def row(model: str, seed: int, kind: str, rs: float, *, forget: int = 0, audited: int = 0) -> dict[str, Any]:
    """A row of a network that is right about every retain sample and gives back what makes this RS."""
    key = {"data": "made", "arch": "", "model": model, "forget": forget, "seed": seed, "audited": audited, "row": kind}
    accuracies = {"retain_before": 1.0, "retain_after": 1.0, "forget_before": 0.0, "forget_after": rs / (2 - rs)}
    return key | {"rs": rs} | accuracies | {"retain_samples": 900, "forget_samples": 100}


def network(model: str, seed: int, rs: float, *, hidden: float, forget: int = 0) -> list[dict[str, Any]]:
    """The rows of a network: its forget class, and four hidden classes."""
    own = ("fresh",) if model == "masked" else ("released", "fresh")
    return [row(model, seed, kind, rs, forget=forget) for kind in own] + [
        row(model, seed, "self", hidden, forget=forget, audited=other) for other in range(1, 5)
    ]


def judged(*networks: list[dict[str, Any]]) -> pl.DataFrame:
    rows = pl.DataFrame([one for some in networks for one in some])
    return pl.DataFrame(list(trust_report.judgements(rows)))


def share(found: pl.DataFrame, model: str, k: int, control: str = "self") -> dict[str, float]:
    chosen = trust_report.rates(found.filter(model=model, k=k, control=control), "model").row(0, named=True)
    return {kind: chosen[kind] for kind in trust_report.KINDS if chosen[kind]}


def test_the_spread_within_groups_is_that_of_numpy() -> None:
    groups = [[0.1, 0.4, 0.3], [0.9, 0.7], [0.5]]
    centred = [value - np.mean(group) for group in groups for value in group]
    assert trust_report.pooled_spread(groups) == (pytest.approx(np.sqrt(np.sum(np.square(centred)) / 3)), 3)


def test_a_hidden_class_is_found_and_an_unseen_one_is_cleared() -> None:
    honest = [network("retrained", seed, 0.0, hidden=0.9) for seed in range(3)]
    found = judged(*honest, network("masked", 0, 0.9, hidden=0.9))
    assert share(found, "retrained", 1) == share(found, "retrained", 2) == {"clear": 1.0}
    assert share(found, "masked", 1) == share(found, "masked", 2) == {"back": 1.0}
    assert share(found, "masked", 0) == {"back": 1.0}  # it comes back as the hidden ones do
    assert share(found, "retrained", 1, "original") == {"clear": 1.0}


def test_where_hidden_classes_stay_hidden_nothing_is_cleared() -> None:
    honest = [network("retrained", seed, 0.0, hidden=0.0) for seed in range(3)]
    found = judged(*honest, network("masked", 0, 0.0, hidden=0.0))
    assert share(found, "retrained", 2) == share(found, "masked", 2) == {"blind": 1.0}


def test_a_class_that_alone_stays_hidden_is_a_false_all_clear() -> None:
    honest = [network("retrained", seed, 0.0, hidden=0.9) for seed in range(2)]
    masked = [network("masked", seed, rs, hidden=0.9) for seed, rs in enumerate((0.0, 0.9))]
    assert share(judged(*honest, *masked), "masked", 1) == {"back": 0.5, "clear": 0.5}


def test_classes_count_alike_however_many_models_they_have() -> None:
    few = [network("retrained", seed, rs, hidden=0.9) for seed, rs in enumerate((0.0, 0.9))]
    many = [network("retrained", seed, 0.0, hidden=0.9, forget=1) for seed in range(5)]
    # Of the two, one is accused; the other's reference gives back as much as a hidden class, so nothing could be seen.
    assert share(judged(*few, *many), "retrained", 1) == {"back": 0.25, "blind": 0.25, "clear": 0.5}


def test_a_place_among_hidden_classes_counts_only_where_they_come_back() -> None:
    rows = [
        *network("masked", 0, 0.9, hidden=0.8),
        *network("masked", 1, 0.0, hidden=0.0),
        *network("masked", 2, 0.5, hidden=0.8),
    ]
    found = trust_report.places(pl.DataFrame(rows))
    assert found.select("power", "lowest", "median").rows() == [(True,) * 3, (False,) * 3, (True, False, False)]


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_margin_holds_its_level_where_trainings_spread_as_was_measured(k: int) -> None:
    draws = np.random.default_rng(k).normal(0.8, FRESH_SPREAD, size=(4000, k + 1))
    rs = np.sin(draws) ** 2
    alarms = np.mean([one[0] - one[1:].mean() > margin(one[1:].tolist(), fresh=True) for one in rs])
    exact = stats.norm.sf(stats.t.ppf(0.95, RETRAINING_FREEDOM))  # for one reference, whose spread is known here
    assert alarms < 0.05
    assert k > 1 or alarms == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("original", ("original", None, 0)),
        ("original-2", ("original", None, 2)),
        ("retrained-40-b", ("retrained", 40, 1)),
        ("negative-gradient-plus-7-0", ("negative-gradient-plus", 7, 0)),
    ],
)
def test_a_folder_names_model_class_and_seed(
    tmp_path: Path, folder: str, expected: tuple[str, int | None, int]
) -> None:
    (tmp_path / "net" / folder).mkdir(parents=True)
    (tmp_path / "net" / folder / "head.npz").touch()
    [model] = trust.find_models(tmp_path)
    assert (model.arch, model.name, model.forget, model.seed) == ("net", *expected)


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    found: pl.DataFrame = trust_report.read_rows()
    return found


@pytest.fixture(scope="module")
def known(rows: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame(list(trust_report.judgements(rows)))


def percent(found: pl.DataFrame, kind: str, *by: str) -> list[float]:
    """The rates of a kind, in percent."""
    return [100 * one for one in trust_report.rates(found, *by)[kind]]


def quotes(rows: pl.DataFrame, known: pl.DataFrame) -> list[str]:
    """What the page says, written from the rows."""
    own, world = known.filter(control="self"), ("data", "arch")
    honest, hiding = (own.filter(model=name) for name in trust_report.MODELS)
    alarms, missed = percent(honest, "back", "k"), percent(hiding, "clear", "k")
    judged_once = hiding.filter(k=1).select(*world, "forget", "seed", "kind")
    wrong = judged_once.filter(kind="clear").unique()
    others = known.filter(control="original", model="masked", data="digits", k=1)
    worst_alarm = max(percent(honest.filter(pl.col("k") > 0), "back", *world, "k"))
    blind = [
        percent(hiding.filter(k=1, **where), "blind", "k")[0] for where in ({"arch": "small-mlp"}, {"data": "cifar100"})
    ]
    apart = trust_report.left_out(rows)
    placed = trust_report.places(rows).filter(pl.col("data") != "cifar100", pl.col("power"))
    reached = [placed.filter(model=name) for name in trust_report.MODELS]
    spread = {(one["data"], one["arch"], one["row"]): one["angle"] for one in trust_report.spreads(rows).to_dicts()}
    fresh = {key: one for key, one in spread.items() if key[2] == "fresh"}
    parts = [rows.filter(data=name, row="fresh") for name in ("digits", "cifar10", "cifar100")]
    count = {name: [one.filter(model=name).height for one in parts] for name in trust_report.MODELS}
    return [
        say("with one / two / four references", holds=trust_report.REFERENCES == (0, 1, 2, 4)),
        say("Of {:,} verdicts on a network that never saw the class, beside one other such network, {:.1f} % are false "
            "alarms; beside two {:.1f} %, beside four {:.1f} %", honest.filter(k=1).height, *alarms[1:]),
        say("The highest rate of a network is {:.1f} %", worst_alarm),
        say("Without a reference it is {:.1f} %, and {:.1f} % at most (digits, batch norm)", alarms[0],
            percent(honest.filter(k=0, arch="small-cnn"), "back", "k")[0],
            holds=set(honest.filter(k=0, kind="back")["arch"]) == {"small-cnn"}),
        say("{:.1f} % of the networks that hide the class are cleared without a reference, {:.1f} % beside one, {:.1f} "
            "and {:.1f} % beside two and four", *missed),
        say("beside one they are {} of {}: {} of the digits, and {} of the ten on CIFAR-100", len(wrong),
            judged_once.drop("kind").n_unique(), wrong.filter(data="digits").height,
            wrong.filter(data="cifar100").height, holds=set(wrong["data"]) == {"digits", "cifar100"}),
        say("does not help ({:.1f} % on the digits)", percent(others, "clear", "k")[0]),
        say("{:.0f} % of the hiding networks without normalisation and {:.0f} % of those with a hundred classes are "
            "called blind", *blind),
        say("at up to 20 classes", holds=READ_BESIDE == 20),
        say("{} of {} networks that never saw the class reach the median of four hidden ones, and {} of {} that hide "
            "it", *(number for one in reached for number in (one["median"].sum(), one.height)),
            holds=default_self_controls(100) == 4),
        say("{:.3f} with the released row (digits, batch norm) and {:.3f} with a fresh one (digits, layer norm), less "
            "everywhere else", max(spread.values()), max(fresh.values()),
            holds=max(spread, key=spread.__getitem__) == ("digits", "small-cnn", "released")
            and max(fresh, key=fresh.__getitem__) == ("digits", "norm-mlp", "fresh")),
        say("takes {:.2f} and {:.2f}", RETRAINING_SPREAD, FRESH_SPREAD),
        say("{:.1f} % are false alarms beside one reference, and {:.1f} % at most", percent(apart, "back", "k")[0],
            max(percent(apart, "back", *world))),
        say("three small networks on the digits ({} retrainings, three originals each, all ten classes)",
            count["retrained"][0], holds=count["masked"][0] == 3 * 3 * 10),
        say("CIFAR-10 ({} retrainings of five classes, one original, all ten classes hidden in turn)",
            count["retrained"][1], holds=count["masked"][1] == 10),
        say("CIFAR-100 ({} retrainings of ten classes, {} of them with a self-control, one original)",
            count["retrained"][2], honest.filter(data="cifar100", k=0).height, holds=count["masked"][2] == 10),
        say("CIFAR-100 with N = 20,000, M = 50 and 60 epochs"),
        say("From 200 classes on two classes are hidden instead of four, and both must be seen: of audits that see a "
            "share p of hidden classes p² may clear a model, and 4p³ − 3p⁴ of those with four",
            holds=(default_self_controls(199), default_self_controls(200)) == (4, 2) and 1 / 2 < POWER <= 3 / 4),
        say("{:.0f} in place of {:.0f} % at p = 0.2, {:.0f} in place of {:.0f} % at one half and {:.0f} in place of "
            "{:.0f} % at 0.9", *(100 * float(stats.binom.sf(least - 1, of, p)) for p in (0.2, 0.5, 0.9)
                                 for least, of in ((2, 2), (3, 4)))),
    ]  # fmt: skip


def test_page_says_what_the_rows_say(rows: pl.DataFrame, known: pl.DataFrame) -> None:
    text, expected = prose("trust.md"), quotes(rows, known)
    assert problems(text, expected) == []
    assert [one for one in changed_numbers(text) if not problems(one, expected)] == []


def test_page_has_the_table_of_the_rows(known: pl.DataFrame) -> None:
    assert trust_report.rate_table(known.filter(control="self")) in (DOCS / "trust.md").read_text(encoding="utf-8")


def test_the_documents_show_what_is_drawn(known: pl.DataFrame, tmp_path: Path) -> None:
    trust_report.plot(known.filter(control="self"), tmp_path / "trust.svg")
    drawn, kept = ((folder / "trust.svg").read_text(encoding="utf-8") for folder in (tmp_path, DOCS))
    bars = [re.findall(r'aria-label="[^"]*"', one) for one in (drawn, kept)]
    assert bars[0] == bars[1]
    assert len(bars[0]) > 100
