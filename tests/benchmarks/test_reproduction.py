"""The reproduction: the document says what the committed rows say, and these are what the archive holds."""

from __future__ import annotations

import itertools
import json
import random
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from safetensors.torch import load_file
from scipy import stats

from builders.pages import true_audit
from builders.reproduction import cells, paper_value
from reproduction.agreement import agree, leave_one_out, pearson, ranks, shift_correlation, spearman
from reproduction.build import COMPARED, DOCUMENT, FIGURES
from reproduction.claims import list_claims, paper_numbers
from reproduction.document import SENTENCES, TABLES, comparison_tables, refresh
from reproduction.draw import description, document_figures
from reproduction.groups import groups_of, own_goals
from reproduction.keep import COLUMNS, busy, keep, rows_of, to_csv
from reproduction.selection import best_epoch, parts
from reproduction.slim import slim_audit
from reproduction.stored import KEPT, METHOD_LIST, Kept, read_kept
from sfra.auditing.trace import RETAIN_FLOOR
from sfra.bench.engine.packing import read_facts, unpack
from sfra.bench.engine.store import Record, Store
from sfra.bench.report import make_report
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.report.page_audit import audit_view
from sfra.report.page_runs import audit_data


@pytest.fixture(scope="module")
def kept() -> Kept:
    return read_kept(COMPARED)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("reproduction") / "store")
    unpack(KEPT / f"{COMPARED}.tar.xz", store)
    return store


def values(n: int, *, seed: int, ties: bool = True) -> list[float]:
    source = random.Random(seed)  # noqa: S311 - not a secret
    return [round(source.random(), 1 if ties else 9) for _ in range(n)]


# the document


def test_the_document_says_what_the_rows_say(kept: Kept) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert refresh(text, kept) == text, "make reproduce-report"


def test_a_number_that_changes_in_the_rows_changes_the_document(kept: Kept) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    audits = [{**row, "rs": 0.5} if row["method"] == "scrub" else row for row in kept.audits]
    assert refresh(text, replace(kept, audits=audits)) != text


def test_the_figures_of_the_document_are_of_these_rows(kept: Kept) -> None:
    for name, chart in document_figures(kept).items():
        drawn = (FIGURES / f"{name}.svg").read_text(encoding="utf-8")
        told = re.search(r'aria-label="([^"]*)"', drawn)
        assert told is not None
        assert unescape(told[1]) == description(chart), name


def test_prose_outside_the_blocks_has_no_scores(kept: Kept) -> None:
    prose = re.sub(r"<!-- (?:table|text) .*?<!-- end -->", "", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
    rule = f"keep {100 * RETAIN_FLOOR:.0f} % of"
    assert re.findall(r"\d\.\d|\d %", " ".join(prose.split()).replace(rule, "")) == []
    main = kept.main("native", "worst-case")
    scales = {row["scale"] for row in kept.audits if row["protocol"] == COMPARED}
    assert "ten forget classes, ten unlearning methods" in prose
    assert (len({row["forget"] for row in main}), len(set(METHOD_LIST) - {"retrained"})) == (10, 10)
    assert "native, canonical and eight further scales" in prose
    assert len(scales) == 10


def test_every_block_is_used_or_in_the_report_and_unknown_ones_are_refused(kept: Kept) -> None:
    used = re.findall(r"<!-- (table|text) ([a-z-]+) -->", DOCUMENT.read_text(encoding="utf-8"))
    assert {name for kind, name in used if kind == "text"} == set(SENTENCES)
    assert {name for kind, name in used if kind == "table"} <= set(TABLES)
    with pytest.raises(InputError, match=r"unknown text\n  expected: coverage, .*\n  got: +nonsense"):
        refresh("<!-- text nonsense -->\n<!-- end -->", kept)
    assert len({table.label for table in comparison_tables(kept)}) == len(TABLES)


def test_originals_and_references_are_told_as_the_files_have_them(kept: Kept) -> None:
    hits: dict[str, list[float]] = {}
    for row in kept.originals:
        hits.setdefault(row["protocol"], []).append(row["hits"] / row["samples"])
    text = SENTENCES["original"](kept)
    assert text.startswith(
        f"The original has {100 * fmean(hits[COMPARED]):.2f} % on the test split, the paper's 94.65 %."
    )
    steps, full = (100 * fmean(hits[f"{COMPARED}-{name}"]) for name in ("steps", "long-steps"))
    assert text.endswith(f"Of other trainings, (c) and (d) below, the original has {steps:.2f} % and {full:.2f} %.")
    ours = kept.by_class("native", "worst-case", "retain_before")["retrained"]
    paper = {one: paper_value("retrained", one, "unlearned", "retain_acc") for one in ours}
    apart = max(abs(100 * ours[one] - paper[one]) for one in ours)
    means = f"{100 * fmean(ours.values()):.2f} % on the retain classes, the paper's {fmean(paper.values()):.2f} %"
    assert f"Retrained models have {means}; class by class they are within {apart:.2f} points." in text


def test_the_control_at_its_best_scale_stands_beside_a_retrained_model_at_that_scale(kept: Kept) -> None:
    rows = {
        (row["method"], row["forget"], row["kappa"]): row["rs"]
        for row in kept.audits
        if (row["protocol"], row["variant"], row["rule"]) == (COMPARED, "released", "source-free")
        and row["audit"] == "main"
    }
    shown = list(cells(TABLES["control"](kept)).values())
    assert len(shown) == 10
    for forget, line in enumerate(shown):
        swept = {k: rs for (m, c, k), rs in rows.items() if (m, c) == ("masked", str(forget)) and k is not None}
        kappa = max(swept, key=swept.__getitem__)
        beside = rows["retrained", str(forget), kappa]
        found = (line["masked_best"], line["kappa"], line["retrained_there"])
        assert found == (f"{swept[kappa]:.2f}", f"{kappa:.2f}", f"{beside:.2f}")


# the numbers


@pytest.mark.parametrize("seed", range(5))
def test_correlations_are_those_of_scipy_with_ties(seed: int) -> None:
    x, y = values(12, seed=seed), values(12, seed=seed + 100)
    assert ranks(x) == list(stats.rankdata(x))
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert spearman([1.0] * 12, y) is None
    assert spearman(x[:2], y[:2]) is None


def test_agreement_counts_what_both_have_and_leaves_out_one_at_a_time() -> None:
    names = list("abcdefg")
    ours = dict(zip(names, values(7, seed=1, ties=False), strict=True)) | {"only ours": 0.3}
    theirs = dict(zip(names, values(7, seed=2, ties=False), strict=True)) | {"only theirs": 0.4}
    found = agree(ours, theirs)
    differences = [ours[name] - theirs[name] for name in names]
    assert found.n == 7
    assert found.bias == pytest.approx(sum(differences) / 7)
    assert found.difference == pytest.approx(sum(map(abs, differences)) / 7)
    left = leave_one_out(ours, theirs)
    assert set(left) == set(names)
    for name, one in left.items():
        rest = [other for other in names if other != name]
        x, y = ([side[other] for other in rest] for side in (ours, theirs))
        assert one.spearman == pytest.approx(stats.spearmanr(x, y).statistic)
    correlations = [one.spearman or 0 for one in left.values()]
    assert correlations == sorted(correlations, reverse=True)


def test_shift_correlation_is_that_of_absolute_differences() -> None:
    scores = {str(i): (a, b) for i, (a, b) in enumerate(zip(values(9, seed=3), values(9, seed=4), strict=True))}
    facts = {str(i): (a, b) for i, (a, b) in enumerate(zip(values(8, seed=5), values(8, seed=6), strict=True))}
    x, y = ([abs(side[str(i)][0] - side[str(i)][1]) for i in range(8)] for side in (scores, facts))
    n, rho = shift_correlation(scores, facts)
    assert n == 8
    assert rho == pytest.approx(stats.spearmanr(x, y).statistic)


def test_the_parts_of_a_choice_add_up_and_equal_seeds_have_no_noise() -> None:
    def run(seed: int) -> dict[str, Any]:
        return {"retain": [0.9, *values(30, seed=seed)], "rs": [0.0, *values(30, seed=seed + 50, ties=False)]}

    runs = [run(seed) for seed in range(3)]
    allowed = [[e for e, kept in enumerate(one["retain"]) if kept >= 0.81] for one in runs]
    best = [max(some, key=lambda e, one=one: one["rs"][e]) for some, one in zip(allowed, runs, strict=True)]  # type: ignore[misc]
    assert [best_epoch(one["retain"], one["rs"]) for one in runs] == best
    found = parts(runs)
    assert found["best"] == pytest.approx(fmean(one["rs"][e] for one, e in zip(runs, best, strict=True)))
    crossed = [runs[j]["rs"][best[i]] for i, j in itertools.permutations(range(3), 2)]
    assert found["transferred"] == pytest.approx(fmean(crossed))
    same = parts([runs[0]] * 3)
    assert same["best"] == same["transferred"]
    assert parts(runs[:1])["transferred"] is None


def test_last_and_best_epochs_are_those_of_the_rules(kept: Kept) -> None:
    for scale, (name, rule) in itertools.product(
        ("native", "canonical"), (("last", "source-free"), ("best", "worst-case"))
    ):
        audits = {(row["method"], row["forget"]): row["rs"] for row in kept.main(scale, rule)}
        mine = [row for row in kept.selection if (row["protocol"], row["scale"]) == (COMPARED, scale)]
        assert len(mine) == len(audits) == 120
        for row in mine:
            assert row[name] == pytest.approx(audits[row["method"], row["forget"]], abs=2e-5)


def test_the_paper_meets_every_claim_that_is_made_of_its_numbers() -> None:
    numbers = paper_numbers()
    assert [claim.text for claim in list_claims() if not claim.holds(numbers)] == []


def test_a_claim_fails_where_every_score_is_the_same() -> None:
    numbers = paper_numbers()
    flat = replace(
        numbers,
        rs=dict.fromkeys(numbers.rs, 0.2),
        delta=dict.fromkeys(numbers.delta, 0.06),
        over_pra=dict.fromkeys(numbers.over_pra, 0.0),
        cosine=dict.fromkeys(numbers.cosine, 0.0),
        probe=dict.fromkeys(numbers.probe, 0.1),
        multi=dict.fromkeys(numbers.multi, 0.9),
        gap=0.1,
    )
    held = [claim.text[:20] for claim in list_claims() if claim.holds(flat)]
    assert held == []


# what is kept


def test_the_csv_files_hold_what_the_archive_holds(unpacked: Store) -> None:
    protocol = f"{COMPARED}-multi"
    goals = {protocol: dict(own_goals([COMPARED, protocol]))[protocol]}
    made = rows_of(goals, unpacked, [Record(**fact) for fact in read_facts(KEPT / f"{COMPARED}.tar.xz")])
    for name in ("audits", "pra", "probes", "diagnostics", "models", "confusion"):
        columns = ("protocol", *COLUMNS[name])
        lines = (KEPT / COMPARED / f"{name}.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        committed = "".join([lines[0], *(line for line in lines[1:] if line.startswith(f"{protocol},"))])
        assert to_csv(made[name], columns) == committed, name


def test_the_heads_are_those_that_were_audited(unpacked: Store) -> None:
    heads = load_file(KEPT / COMPARED / "heads.safetensors")
    goals = dict(own_goals([f"{COMPARED}-multi"]))[f"{COMPARED}-multi"]
    audited = {goal.identity["method"]: goal.cell for goal in goals if goal.what == "audit"}
    assert set(audited) == {*METHOD_LIST, "masked"}
    for method in METHOD_LIST:
        report = json.loads((unpacked.folder(audited[method]) / "audit.json").read_text(encoding="utf-8"))
        head = Head(heads[f"{method}-1+6.weight"], heads[f"{method}-1+6.bias"])
        assert head.fingerprint == report["model"]["fingerprint"], method


def test_the_files_are_small_and_end_their_lines_alike() -> None:
    files = [path for path in KEPT.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files if COMPARED in path.as_posix()) < 14 * 2**20
    assert [path.name for path in files if path.suffix in (".csv", ".md") and b"\r" in path.read_bytes()] == []


def test_a_slim_audit_keeps_the_runs_that_pages_show_and_everything_else() -> None:
    def run(subject: str, scale: str, variant: str) -> dict[str, Any]:
        identity = {"subject": subject, "scale": scale, "variant": variant, "seed": 0}
        return identity | {"retain": [0.123456, 0.5], "forget": None, "rs": [0.0, 0.33333], "loss": [3.0, 2.0, 1.0]}

    scales, variants = ("native", "canonical", "kappa=2"), ("released", "reset-row")
    runs = [run(*place) for place in itertools.product(("model", "reference"), scales, variants)]
    slim = slim_audit({"scale": "canonical", "variant": "released", "rs": 0.7, "trajectory": runs})
    assert [(one["subject"], one["scale"], one["variant"]) for one in slim["trajectory"]] == [
        ("model", "native", "released"),
        ("model", "canonical", "released"),
        ("reference", "canonical", "released"),
    ]
    first = slim["trajectory"][0]
    assert (first["retain"], first["forget"], first["rs"]) == ([0.12346, 0.5], None, [0.0, 0.3333])
    assert first["loss"] == [3.0, 1.0]
    assert (slim["rs"], slim["scale"]) == (0.7, "canonical")
    assert slim_audit({**slim, "trajectory": runs}, curves=False)["trajectory"] == []


def test_a_slim_audit_looks_like_the_whole_one_on_a_page_of_many() -> None:
    whole = json.loads(json.dumps(true_audit()))
    slim = json.loads(json.dumps(slim_audit(whole)))
    assert len(slim["trajectory"]) < len(whole["trajectory"])
    assert audit_data(slim, all_runs=False) == audit_data(whole, all_runs=False)
    views = [audit_view(one, key="key", label="label") | {"audit": None} for one in (slim, whole)]
    assert views[0] == views[1]


def test_time_in_which_something_is_computed_counts_once(unpacked: Store) -> None:
    some = next(unpacked.records("pra"))

    def cell(start: float, end: float) -> Record:
        return replace(some, seconds=end - start, finished=end)

    assert busy([cell(0.0, 10.0), cell(2.0, 5.0), cell(8.0, 12.0), cell(20.0, 21.0)]) == 13
    assert busy([]) == 0


def test_protocols_are_grouped_and_goals_counted_once() -> None:
    assert groups_of(["b-multi", "a", "b", "a-more"]) == {"a": ["a", "a-more"], "b": ["b-multi", "b"]}
    found = dict(own_goals(["cifar10-resnet18", "cifar10-resnet18-ablations"]))
    keys = [goal.cell.key for goals in found.values() for goal in goals]
    assert len(keys) == len(set(keys))
    assert {goal.identity["audit"] for goal in found["cifar10-resnet18-ablations"]} >= {"M", "N", "scores"}


def test_keeping_a_kept_store_gives_the_same_bytes_and_tables(unpacked: Store, tmp_path: Path) -> None:
    protocol = f"{COMPARED}-multi"
    for name in ("first", "second"):
        keep([protocol], unpacked, tmp_path / name, [KEPT / f"{COMPARED}.tar.xz"])
    files = sorted(path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*") if path.is_file())
    assert [str(path) for path in files if path.suffix == ".xz"] == [f"{protocol}.tar.xz"]
    for path in files:
        assert (tmp_path / "first" / path).read_bytes() == (tmp_path / "second" / path).read_bytes(), path
    again = Store(tmp_path / "store")
    assert unpack(tmp_path / "first" / f"{protocol}.tar.xz", again) == 52
    before, after = (make_report(protocol, store.root) for store in (unpacked, again))
    assert json.dumps(after.to_dict()) == json.dumps(before.to_dict())
