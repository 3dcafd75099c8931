"""A second group of protocols beside the first: its document says what its rows say."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import replace
from html import unescape
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from scipy import stats

from builders.second_group import BLOCK, GROUP, TEMPLATE, audits, blocks, mean_rs, minus
from reproduction import build
from reproduction.beside import paper_side, side_of
from reproduction.build import COMPARED, DOCS, further_groups, make_document
from reproduction.document_beside import BESIDE, beside_tables, refresh_beside, sentences_of, tables_of
from reproduction.draw import beside_figures, description
from reproduction.sentences_summary import hiding, order_word
from reproduction.simple import listed
from reproduction.stored import KEPT, METHOD_LIST, PUBLISHED, VERDICT, Kept, read_kept
from reproduction.tables_audit import control_table
from reproduction.tables_models import unlearned_table
from sfra.auditing.trace import RETAIN_FLOOR
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import method_name

# the document and its template


def test_the_template_has_every_block_once_and_all_of_them_are_empty(other: Kept) -> None:
    text = TEMPLATE.read_text(encoding="utf-8")
    found = [(kind, name) for kind, name, _ in BLOCK.findall(text)]
    known = {("table", name) for name in tables_of(other)} | {("text", name) for name in sentences_of(other)}
    assert len(found) == len(set(found))
    assert set(found) == known
    assert set(blocks(text).values()) == {""}


def test_prose_outside_the_blocks_has_no_scores_and_counts_what_the_protocol_has(kept: Kept) -> None:
    prose = re.sub(r"<!-- (?:table|text) .*?<!-- end -->", "", TEMPLATE.read_text(encoding="utf-8"), flags=re.DOTALL)
    rule = f"keep {100 * RETAIN_FLOOR:.0f} % of"
    assert re.findall(r"\d\.\d|\d %", " ".join(prose.split()).replace(rule, "")) == []
    assert "ten forget classes, ten unlearning methods" in prose
    assert (len({row["forget"] for row in kept.main(*VERDICT)}), len(set(METHOD_LIST) - {"retrained"})) == (10, 10)
    assert {row["scale"] for row in kept.audits} == {"native", "canonical"}
    assert "audited at native and at canonical scale" in " ".join(prose.split())
    swept = load_protocol(f"{GROUP}-scales")
    assert (len(swept.methods) + len(swept.controls), len(swept.forget)) == (6, 3)
    assert "six models each of three classes" in " ".join(prose.split())


def test_every_block_is_made_and_making_it_again_changes_nothing(kept: Kept, other: Kept) -> None:
    text = refresh_beside(TEMPLATE.read_text(encoding="utf-8"), kept, other)
    assert [place for place, content in blocks(text).items() if not content] == [
        ("table", "every-scale"),
        ("table", "every-scale-means"),
    ]
    assert refresh_beside(text, kept, other) == text
    assert "None" not in text
    assert "nan" not in text
    assert max(len(line) for line in text.splitlines() if not line.startswith(("|", "- "))) <= 140


def test_no_number_of_the_paper_stands_in_the_tables(kept: Kept, other: Kept) -> None:
    headings = [column.heading for table in beside_tables(kept, other) for column in table.columns]
    assert [heading for heading in headings if heading.startswith("Paper")] == []
    assert headings.count("CIFAR-10") == 13
    assert len({table.label for table in beside_tables(kept, other)}) == len(tables_of(other))


def test_documents_of_groups_that_have_rows_say_what_the_rows_say(other: Kept) -> None:
    for group in further_groups():
        rows, name = read_kept(group), f"reproduction-{BESIDE[group]}"
        files = [KEPT / f"{group}.tar.xz", *(KEPT / group).iterdir()]
        assert sum(path.stat().st_size for path in files) < 12 * 2**20
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        assert refresh_beside(text, rows, other) == text, "make reproduce-report"
        for figure, chart in beside_figures(rows, other).items():
            drawn = re.search(r'aria-label="([^"]*)"', (DOCS / name / f"{figure}.svg").read_text(encoding="utf-8"))
            assert drawn is not None
            assert unescape(drawn[1]) == description(chart), figure


def save_names(charts: dict[str, Any], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in charts:
        (folder / f"{name}.svg").write_text(name, encoding="utf-8")


def test_a_group_without_rows_is_passed_over_and_later_made_from_the_template(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs, folder = tmp_path / "docs", tmp_path / "kept"
    docs.mkdir()
    shutil.copyfile(DOCS / "reproduction.md", docs / "reproduction.md")
    shutil.copytree(KEPT / COMPARED, folder / COMPARED)
    drawn = dict.fromkeys(("comparison", "comparison-canonical", "heatmap"))
    monkeypatch.setattr(build, "refresh", lambda text, rows: text)
    monkeypatch.setattr(build, "document_figures", lambda rows: {})
    monkeypatch.setattr(build, "beside_figures", lambda kept, other: drawn)
    monkeypatch.setattr(build, "save_figures", save_names)
    make_document(kept=folder, docs=docs)
    assert sorted(path.name for path in docs.glob("*.md")) == ["reproduction.md"]
    assert further_groups(folder) == []
    monkeypatch.setattr(build, "read_kept", lambda group, _: kept if group == GROUP else read_kept(group))
    make_document(kept=folder, docs=docs)
    page = docs / "reproduction-cifar100.md"
    text = page.read_text(encoding="utf-8")
    images = re.findall(r"\]\((\S+\.svg)\)", text)
    assert len(images) == 3
    assert [image for image in images if not (docs / image).is_file()] == []
    page.write_text(text.replace("## Limits", "A sentence by hand.\n\n## Limits"), encoding="utf-8")
    make_document(kept=folder, docs=docs)
    assert page.read_text(encoding="utf-8") == text.replace("## Limits", "A sentence by hand.\n\n## Limits")


# numbers in sentences, computed again


@pytest.mark.parametrize("reading", [PUBLISHED, VERDICT])
def test_the_agreement_of_the_methods_is_that_of_scipy(kept: Kept, other: Kept, reading: tuple[str, str]) -> None:
    x, y = mean_rs(kept, reading), mean_rs(other, reading)
    rho, r = stats.spearmanr(x, y).statistic, stats.pearsonr(x, y).statistic
    text = sentences_of(other)["agreement"](kept)
    assert f"Spearman {minus(rho)}, Pearson {minus(r)}; mean difference to CIFAR-10 " in text
    differences = [a - b for a, b in zip(x, y, strict=True)]
    assert f"mean absolute difference {fmean(map(abs, differences)):.2f}" in text
    far = sum(abs(one) > 0.2 for one in differences)
    where = "in the paper's reading" if reading == PUBLISHED else "at canonical scale"
    said = next(one for one in text.split("Over 11 methods, ") if one.startswith(where))
    assert len(re.findall(r"\([+−]0\.\d\d\)", said)) == far
    cells = next(row for row in tables_of(other)["agreement"](kept).records if row["reading"] == ", ".join(reading))
    assert (cells["spearman"], cells["pearson"]) == (minus(rho), minus(r))


def test_models_are_described_as_their_rows_are(kept: Kept, other: Kept) -> None:
    hits = {int(row["label"]): row["hits"] / 100 for row in kept.originals}
    text = sentences_of(other)["original"](kept)
    singles = [100 * hits[label] for label in range(0, 100, 10)]
    assert f"The original has {fmean(hits.values()):.2%}".replace("%", " %") in text
    assert f"single forget classes have {min(singles):.1f} to {max(singles):.1f} %" in text
    retain = [100 * fmean(value for label, value in hits.items() if label != gone) for gone in range(0, 100, 10)]
    (row,) = (one for one in unlearned_table(kept, side_of(other)).records if one["method"] == "Original")
    assert row["retain"] == f"{fmean(retain):.2f} ± {stdev(retain):.2f}"
    assert row["forget"] == f"{min(singles):.1f}, {fmean(singles):.1f}, {max(singles):.1f}"
    left = sentences_of(other)["unlearned"](kept)
    named = {m for m in METHOD_LIST if fmean(row["forget_before"] for row in audits(kept, PUBLISHED, m)) > 0.01}
    assert 0 < len(named) < len(METHOD_LIST)
    assert {m for m in METHOD_LIST if f"{method_name(m)} (" in left} == named
    assert "were lost by no method" in left
    better = replace(kept, originals=[{**row, "hits": 100.0} for row in kept.originals])
    lost = 100 - 100 * fmean(row["retain_before"] for row in audits(kept, PUBLISHED, "finetune"))
    assert f"Finetune ({lost:.1f})" in sentences_of(other)["unlearned"](better)


def test_false_alarms_verdicts_and_the_positive_control_are_counted(kept: Kept, other: Kept) -> None:
    loud = [
        {**row, "verdict": "no-reference"}
        if (row["method"], row["forget"], row["rule"], row["scale"]) == ("retrained", "30", "source-free", "canonical")
        else row
        for row in kept.audits
    ]
    say, readings = sentences_of(other), (("native", "source-free"), PUBLISHED, VERDICT)
    alarms = [sum(r["verdict"] != "not-recovered" for r in audits(other, one, "retrained")) for one in readings]
    there = f"(on CIFAR-10 {alarms[0]}, {alarms[1]} and {alarms[2]} of 10)"
    assert f"at canonical scale with the last epoch none of them {there}" in say["scales"](kept)
    told_of = say["scales"](replace(kept, audits=loud))
    assert "at canonical scale with the last epoch 1 of them" in told_of
    assert "False alarms: 1 of 10 retrained models have " in say["summary"](replace(kept, audits=loud))
    assert "on CIFAR-10); CIFAR-10: 0 of 10." in say["summary"](kept)
    top = max(audits(kept, VERDICT, "retrained"), key=lambda row: row["rs"])
    assert f"is {top['rs']:.2f}, of thing {top['forget']} ({top['forget']})" in told_of
    masked = {row["forget"]: row["rs"] for row in audits(kept, VERDICT, "masked")}
    low = min(masked, key=lambda label: masked[label])
    text = say["control"](kept)
    assert f"RS {min(masked.values()):.2f} to {max(masked.values()):.2f}, mean {fmean(masked.values()):.2f}" in text
    assert f"least for thing {low} ({low})" in text
    back = sum(row["verdict"] == "recovered" for row in audits(kept, VERDICT, "masked"))
    assert f"{back} of 10 have the verdict recovered" in text
    given = Counter(row["verdict"] for m in METHOD_LIST[1:] for row in audits(kept, VERDICT, m))
    assert all(f"{count} {verdict}" in say["verdicts"](kept) for verdict, count in given.items())
    always = [m for m in METHOD_LIST[1:] if {row["verdict"] for row in audits(kept, VERDICT, m)} == {"recovered"}]
    assert f"Recovered for every class audited: {listed(always)};" in say["verdicts"](kept)


def test_epochs_probes_and_cosines_are_averaged_over_the_rows(kept: Kept, other: Kept) -> None:
    gains = {
        method: fmean(
            row["best"] - row["last"] for row in kept.selection if (row["method"], row["scale"]) == (method, "native")
        )
        for method in METHOD_LIST
    }
    say = sentences_of(other)
    assert f"The best of 500 epochs on the test data adds {minus(fmean(gains.values()))} to the" in say["selection"](
        kept
    )
    assert f"({minus(max(gains.values()), '+.2f')} native, +" in say["selection"](kept)
    probes = {m: [r["forget_accuracy"] for r in kept.probes if r["method"] == m] for m in METHOD_LIST}
    read = [100 * fmean(some) for some in probes.values()]
    count = sum(map(len, probes.values()))
    assert f"of {count} models read the class with {min(read):.1f} to {max(read):.1f} % by" in say["controls"](kept)
    own = [row["cosine"] for row in kept.diagnostics if (row["method"], row["scale"]) == ("retrained", "native")]
    assert f"The cosine is {minus(fmean(own), '+.2f')} for retrained models" in say["alignment"](kept)
    anew = [
        r for r in kept.audits if (r["variant"], r["rule"], r["method"]) == ("reset-row", "source-free", "retrained")
    ]
    assert f"to {fmean(row['rs'] for row in anew):.2f}." in say["reset"](kept)


def test_tables_put_both_data_sets_side_by_side(kept: Kept, other: Kept) -> None:
    cells = {row["method"]: row for row in tables_of(other)["rs-canonical"](kept).records}["DELETE"]
    ours, theirs = (fmean(row["rs"] for row in audits(one, VERDICT, "delete")) for one in (kept, other))
    assert (cells["classes"], cells["source_free"], cells["source_free_cifar10"]) == (
        "10",
        f"{ours:.2f}",
        f"{theirs:.2f}",
    )
    delta = {row["method"]: row for row in tables_of(other)["delta"](kept).records}["SCRUB"]
    assert delta["native_worst_case"] == minus(
        fmean(row["delta_rs"] for row in audits(kept, PUBLISHED, "scrub")), "+.2f"
    )
    table = tables_of(other)["classes-native"](kept)
    assert [column.heading for column in table.columns][1:4] == ["thing 0 (0)", "thing 10 (10)", "thing 20 (20)"]
    (thirty,) = (row["rs"] for row in audits(kept, PUBLISHED, "scrub") if row["forget"] == "30")
    assert {row["method"]: row for row in table.records}["SCRUB"]["class_30"] == f"{thirty:.2f}"


def test_the_best_scale_of_a_sweep_is_shown_only_where_there_is_a_sweep(kept: Kept, other: Kept) -> None:
    assert "masked_best" in control_table(other).names
    table = tables_of(other)["control"](kept)
    assert table.names == ("forget_class", "masked", "retrained", "masked_native", "retrained_native")
    assert [row["forget_class"] for row in table.records][:2] == ["thing 0 (0)", "thing 10 (10)"]
    assert [row["forget_class"] for row in control_table(other).records][:2] == ["airplane (0)", "automobile (1)"]


def test_the_summary_tells_every_outcome_apart(kept: Kept, other: Kept) -> None:
    say = sentences_of(other)["summary"]
    assert "is much the same as on CIFAR-10" in say(kept)
    turned = replace(kept, audits=[{**row, "rs": 1 - row["rs"]} for row in kept.audits])
    assert "is not the same as on CIFAR-10 (Spearman −0." in say(turned)
    equal = replace(kept, audits=[{**row, "rs": 0.5} for row in kept.audits])
    assert "too equal, to compare their order" in say(equal)
    assert "give the class back (mean RS above 0.8): none. On" in say(equal)
    assert order_word(0.6) == "only roughly the same as"
    back = {m for m, rs in zip(METHOD_LIST, mean_rs(other, VERDICT), strict=True) if rs > 0.8}
    gone = {m for m in METHOD_LIST if fmean(row["forget_before"] for row in audits(other, VERDICT, m)) < 0.1}
    assert set(hiding(other)) == back & gone
    assert hiding(other)


# figures


def test_figures_name_both_data_sets_and_never_the_paper(kept: Kept, other: Kept) -> None:
    drawn = beside_figures(kept, other)
    assert list(drawn) == ["comparison", "comparison-canonical", "heatmap"]
    for name in ("comparison", "comparison-canonical"):
        spec = drawn[name].to_dict()
        assert spec["description"].startswith("Mean RS on CIFAR-100 against CIFAR-10, 11 methods. Spearman's ρ ")
        words = re.findall(r"'(?:title|text)': '([^']*)'", str(spec))
        assert {"Mean RS on CIFAR-100 beside CIFAR-10", "RS on CIFAR-10", "RS on CIFAR-100"} <= set(words)
        assert [word for word in words if "paper" in word] == []


def test_two_sides_have_the_same_numbers_under_different_names(other: Kept) -> None:
    paper, ours = paper_side(), side_of(other)
    assert (paper.name, ours.name) == ("Paper", "CIFAR-10")
    assert set(paper.rs) == set(ours.rs)
    for name in ("retain", "forget", "pra", "probe", "inner", "cosine"):
        assert set(METHOD_LIST) <= set(getattr(paper, name)) & set(getattr(ours, name)), name
    assert set(paper.confidence) == set(ours.confidence)
