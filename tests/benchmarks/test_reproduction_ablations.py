"""Ablations beside the paper's: nothing, a part or everything of them, recomputed from the rows in plain loops."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import pytest
from scipy import stats

from builders.reproduction import ABLATIONS, TEN, cells, paper_file, varied, with_rows
from reproduction.ablations import PROPOSALS, ROWS, SCORES, SIZES, SUPPORT, compare, levels, paper_proposals, shared
from reproduction.build import COMPARED
from reproduction.document import SENTENCES, TABLES, refresh
from reproduction.draw import size_rows
from reproduction.stored import METHOD_LIST, VERDICT, Kept, Row, read_kept
from sfra.bench.plan import plan
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import METHODS

NAMES = ("ablations", "proposals", "scores", "missing-row", "support", "sizes")


@pytest.fixture(scope="module")
def bare() -> Kept:
    """Only the main audits."""
    kept = read_kept(COMPARED)
    return replace(
        kept,
        audits=[row for row in kept.audits if row["protocol"] == COMPARED],
        coverage=[row for row in kept.coverage if row["protocol"] != ABLATIONS],
        failures=[row for row in kept.failures if row["protocol"] != ABLATIONS],
    )


@pytest.fixture(scope="module")
def whole(bare: Kept) -> Kept:
    """Every audit of methods that the protocol asks for."""
    rows = []
    for ablation in load_protocol(ABLATIONS).ablations:
        forget = TEN if ablation.forget is None else ["7"]
        for one in ablation.variants():
            text = " ".join(f"{name}={value}" for name, value in one.items())
            rows += varied(bare, ablation.name, text, forget=forget)
    return with_rows(bare, rows, done=583)


def printed_mean(table: str, method: str, level: tuple[str, str], value: str, forget: Sequence[str]) -> float:
    """Average the paper's printed numbers, read from the file as it is."""
    rows = [row for row in paper_file(table) if row["method"] == METHODS[method] and row[level[0]] == level[1]]
    rows = [row for row in rows if row.get("backbone", "ResNet-18") == "ResNet-18"]
    return fmean(float(row[value]) for row in rows if row.get("forget_class", forget[0]) in forget)


def our_mean(
    kept: Kept, method: str, place: Mapping[str, str], forget: Sequence[str], scale: str = "native", value: str = "rs"
) -> float:
    rule = {"native": "worst-case", "canonical": "source-free"}[scale]
    wanted = {"method": method, "scale": scale, "rule": rule, **place}
    rows = [row for row in kept.audits if all(row[name] == text for name, text in wanted.items())]
    return fmean(row[value] for row in rows if row["forget"] in forget)


MAIN = {"protocol": COMPARED, "audit": "main", "variant": "released"}


def ablated(audit: str, level: str, variant: str = "released") -> dict[str, str]:
    return {"protocol": ABLATIONS, "audit": audit, "varied": level, "variant": variant}


# nothing


def test_without_audits_every_part_says_so_in_one_sentence_and_shows_no_table(bare: Kept) -> None:
    told = {name: SENTENCES[name](bare) for name in NAMES}
    assert told["ablations"] == "None of these audits has been computed yet."
    assert told["proposals"] == "No other proposal has been audited yet."
    assert told["scores"] == "No other score has been audited yet."
    assert told["missing-row"] == "No model without its forget row has been audited yet."
    assert told["support"] == "No proposal of another support has been audited yet."
    assert told["sizes"].startswith("No other M has been audited yet. No other N has been audited yet.")
    for name in ("proposals", "scores", "missing-row", "support", "sizes-m", "sizes-n", "sizes-n-canonical"):
        table = TABLES[name](bare)
        assert (table.rows, table.notes) == ((), ("Not computed yet.",))
        assert refresh(f"<!-- table {name} -->\nold\n<!-- end -->", bare) == f"<!-- table {name} -->\n\n<!-- end -->"


def test_the_main_audits_alone_are_no_comparison(bare: Kept) -> None:
    for factor in (PROPOSALS, SCORES, ROWS, SUPPORT, *SIZES.values()):
        assert list(levels(bare, factor, ("native", "worst-case"))) == [factor.main]
        assert compare(bare, factor, {}) is None


def test_the_levels_are_those_of_the_protocol_and_the_main_audit() -> None:
    protocol = load_protocol(ABLATIONS)
    main = {"proposal": "gaussian", "score": "softmax", "missing_row": "False"} | {
        size: str(protocol.audit[size]) for size in ("m", "n")
    }
    factors = {factor.audit: factor for factor in (PROPOSALS, SCORES, ROWS, SUPPORT, *SIZES.values())}
    assert set(factors) == {ablation.name for ablation in protocol.ablations}
    for ablation in protocol.ablations:
        ((name, values),) = ablation.vary.items()
        factor = factors[ablation.name]
        assert set(factor.names) == {main[name], *map(str, values)}
        assert factor.main == main[name]
    assert sum(goal.identity.get("audit", "main") != "main" for goal in plan(protocol)) == 583 + 53  # the control's


# a part


def test_a_part_is_compared_over_the_classes_that_all_have(bare: Kept) -> None:
    rows = varied(bare, "proposals", "proposal=uniform", forget="01234", methods=["scrub", "salun"])
    rows += varied(bare, "proposals", "proposal=laplace", forget="34567", methods=["scrub"])
    kept = with_rows(bare, rows, done=15)
    found = cells(TABLES["proposals"](kept))
    assert {name: one["classes"] for name, one in found.items()} == {"SCRUB": "2", "SalUn": "5"}
    scrub, salun = found["SCRUB"], found["SalUn"]
    assert scrub["gaussian"] == f"{our_mean(kept, 'scrub', MAIN, ['3', '4']):.2f}"
    assert scrub["uniform"] == f"{our_mean(kept, 'scrub', ablated('proposals', 'proposal=uniform'), ['3', '4']):.2f}"
    level = ("distribution", "laplace")
    assert scrub["laplace_paper"] == f"{printed_mean('distribution_ablation', 'scrub', level, 'rs', ['3', '4']):.2f}"
    assert (salun["laplace"], salun["laplace_canonical"]) == (None, None)
    told = SENTENCES["proposals"](kept)
    assert told.startswith("So far only SCRUB, 2 models. Mean RS: Gaussian")
    assert "too few methods for an order" in told
    assert SENTENCES["ablations"](kept).startswith("15 of 583 of these audits are there, of SCRUB and SalUn alone")


def test_a_class_that_the_paper_lacks_is_left_out(bare: Kept) -> None:
    kept = with_rows(bare, varied(bare, "proposals", "proposal=uniform", forget="012"))
    found = levels(kept, PROPOSALS, ("native", "worst-case"))
    paper = {level: {m: dict(some) for m, some in by.items()} for level, by in paper_proposals().items()}
    del paper["uniform"]["scrub"]["1"]
    del paper["laplace"]["scrub"]["2"]  # a level that ours does not have
    classes = shared(found, PROPOSALS, paper)
    assert classes["scrub"] == ["0", "2"]
    assert classes["salun"] == ["0", "1", "2"]


def test_a_method_without_a_class_in_common_is_left_out(bare: Kept) -> None:
    rows = varied(bare, "proposals", "proposal=uniform", forget="01", methods=["scrub", "delete"])
    rows += varied(bare, "proposals", "proposal=laplace", forget="2", methods=["scrub"])
    kept = with_rows(bare, rows)
    assert list(cells(TABLES["proposals"](kept))) == ["DELETE"]
    assert SENTENCES["proposals"](kept).startswith("So far only DELETE, 2 models. Mean RS: Gaussian")


def test_support_without_the_method_of_the_paper_says_that_it_is_missing(bare: Kept) -> None:
    kept = with_rows(bare, varied(bare, "support", "proposal=relu-gaussian", forget="7", methods=["delete"]))
    assert "Bad Teacher, of which the paper's table is, is not among them yet." in SENTENCES["support"](kept)
    assert cells(TABLES["support"](kept))["DELETE"]["gaussian_paper"] is None


# everything


@pytest.mark.parametrize(
    ("name", "audit", "setting", "table", "heading", "value"),
    [
        ("proposals", "proposals", "proposal", "distribution_ablation", "distribution", "rs"),
        ("scores", "scores", "score", "uncertainty_ablation", "score", "rs_mean"),
    ],
)
def test_every_mean_is_that_of_the_rows_and_of_the_paper(
    whole: Kept, name: str, audit: str, setting: str, table: str, heading: str, value: str
) -> None:
    found = cells(TABLES[name](whole))
    factor = {"proposals": PROPOSALS, "scores": SCORES}[name]
    assert list(found) == [METHODS[method] for method in METHOD_LIST]
    for method, level in itertools.product(METHOD_LIST, factor.names):
        mine, place = found[METHODS[method]], ablated(audit, f"{setting}={level}")
        place = MAIN if level == factor.main else place
        assert mine["classes"] == "10"
        assert str(mine[level]).split(" ± ")[0] == f"{our_mean(whole, method, place, TEN):.2f}"
        assert mine[f"{level}_canonical"] == f"{our_mean(whole, method, place, TEN, 'canonical'):.2f}"
        paper = printed_mean(table, method, (heading, level), value, TEN)
        assert str(mine[f"{level}_paper"]).split(" ± ")[0] == f"{paper:.2f}"


def test_scores_come_with_their_deviation_over_seeds(whole: Kept) -> None:
    mine = cells(TABLES["scores"](whole))["SCRUB"]
    spread = our_mean(whole, "scrub", ablated("scores", "score=energy"), TEN, value="rs_std")
    paper = printed_mean("uncertainty_ablation", "scrub", ("score", "energy"), "rs_std", TEN)
    assert str(mine["energy"]).endswith(f" ± {spread:.2f}")
    assert str(mine["energy_paper"]).endswith(f" ± {paper:.2f}")
    assert "±" not in str(mine["energy_canonical"])


def test_the_order_of_methods_is_correlated_as_scipy_does(whole: Kept) -> None:
    told = SENTENCES["proposals"](whole)
    for level, scale in itertools.product(("uniform", "laplace"), ("native", "canonical")):
        place = ablated("proposals", f"proposal={level}")
        one, other = ([our_mean(whole, m, p, TEN, scale) for m in METHOD_LIST] for p in (MAIN, place))
        assert f"{PROPOSALS.names[level]} {stats.spearmanr(one, other).statistic:.2f}" in told
    paper = {
        level: [printed_mean("distribution_ablation", m, ("distribution", level), "rs", TEN) for m in METHOD_LIST]
        for level in PROPOSALS.names
    }
    rho = [stats.spearmanr(paper["gaussian"], paper[level]).statistic for level in ("uniform", "laplace")]
    assert f"in the paper uniform {rho[0]:.2f}, Laplace {rho[1]:.2f}." in told
    assert told.startswith("All 11 methods, 110 models.")


def test_the_largest_change_and_the_distance_from_the_paper_are_those_of_the_means(whole: Kept) -> None:
    told = SENTENCES["scores"](whole)
    places = {level: ablated("scores", f"score={level}") for level in ("entropy", "energy")}
    moved = {
        (m, level): our_mean(whole, m, place, TEN) - our_mean(whole, m, MAIN, TEN)
        for m in METHOD_LIST
        for level, place in places.items()
    }
    method, level = max(moved, key=lambda key: abs(moved[key]))
    sign = "−" if moved[method, level] < 0 else "+"
    most = f"{sign}{abs(moved[method, level]):.2f} in the paper's reading ({METHODS[method]} with {level})"
    assert f"largest change against softmax is {most}" in told
    apart = fmean(
        abs(
            our_mean(whole, m, MAIN, TEN)
            - printed_mean("uncertainty_ablation", m, ("score", "softmax"), "rs_mean", TEN)
        )
        for m in METHOD_LIST
    )
    assert f"difference from the paper's: softmax {apart:.2f}," in told


def test_the_missing_row_is_compared_with_the_released_one_of_class_7(whole: Kept) -> None:
    found = cells(TABLES["missing-row"](whole))
    place = ablated("missing row", "missing_row=True", "restored-row")
    changed, paper = [], []
    for method in METHOD_LIST:
        mine = found[METHODS[method]]
        released, fresh = (our_mean(whole, method, p, ["7"]) for p in (MAIN, place))
        assert (mine["False"], mine["True"]) == (f"{released:.2f}", f"{fresh:.2f}")
        rows = [printed_mean("missing_row", method, ("row", row), "rs", ["7"]) for row in ("unlearned", "random")]
        assert [mine["False_paper"], mine["True_paper"]] == [f"{value:.2f}" for value in rows]
        changed.append(fresh - released)
        paper.append(rows[1] - rows[0])
    told = SENTENCES["missing-row"](whole)
    sign = "−" if fmean(changed) < 0 else "+"
    assert f"changes RS by {fmean(map(abs, changed)):.2f} either way on average" in told
    assert f"({sign}{abs(fmean(changed)):.2f} with its sign, the paper's +{fmean(paper):.2f})" in told
    assert "the restored heads answer at most " in told
    none = [{**row, "forget_before": 0.0} for row in whole.audits]
    assert "the restored heads answer none of the forget samples" in SENTENCES["missing-row"](
        replace(whole, audits=none)
    )
    assert told.startswith("All 11 methods, class 7.")


def test_support_stands_beside_bad_teacher_alone(whole: Kept) -> None:
    found = cells(TABLES["support"](whole))
    assert [found["Bad Teacher"][f"{level}_paper"] for level in SUPPORT.names] == ["0.99", "0.94", "0.00"]
    assert {one["gaussian_paper"] for name, one in found.items() if name != "Bad Teacher"} == {None}
    mine = our_mean(whole, "bad-teacher", ablated("support", "proposal=abs-gaussian"), ["7"])
    told = SENTENCES["support"](whole)
    assert f"absolute value {mine:.2f}; the paper's signed 0.99, ReLU 0.94, absolute value 0.00." in told


def test_sizes_are_in_order_with_the_main_audit_among_them(whole: Kept) -> None:
    table = TABLES["sizes-m"](whole)
    assert table.names == ("method", "m_50", "m_100", "m_200", "m_500", "m_1000", "m_2000")
    found = cells(table)
    ranges, above = {}, {}
    for method in METHOD_LIST:
        values = [
            our_mean(whole, method, MAIN if m == 500 else ablated("M", f"m={m}"), ["7"])
            for m in (50, 100, 200, 500, 1000, 2000)
        ]
        assert list(found[METHODS[method]].values())[1:] == [f"{value:.2f}" for value in values]
        ranges[method], above[method] = max(values) - min(values), max(values[3:]) - min(values[3:])
    told = SENTENCES["sizes"](whole)
    most, further = (max(some, key=some.__getitem__) for some in (ranges, above))
    assert f"a method's moves by up to {ranges[most]:.2f} ({METHODS[most]})" in told
    assert f"from 500 up by {above[further]:.2f} ({METHODS[further]})." in told
    assert TABLES["sizes-n"](whole).names[1:] == tuple(f"n_{n}" for n in SIZES["N"].names)
    canonical = cells(TABLES["sizes-m-canonical"](whole))["SCRUB"]["m_50"]
    assert canonical == f"{our_mean(whole, 'scrub', ablated('M', 'm=50'), ['7'], 'canonical'):.2f}"


def test_everything_is_said_to_be_there_and_nothing_so_far(whole: Kept) -> None:
    assert SENTENCES["ablations"](whole) == "All 583 of these audits are there, of all methods."
    assert not any("So far" in SENTENCES[name](whole) or "yet" in SENTENCES[name](whole) for name in NAMES)


def test_audits_that_fail_are_not_called_a_part_that_is_still_to_come(whole: Kept) -> None:
    (row,) = (one for one in whole.coverage if one["protocol"] == ABLATIONS)
    lacking = [{**one, "done": 581.0} if one is row else one for one in whole.coverage]
    failed = {
        "protocol": ABLATIONS,
        "what": "audit",
        "forget": "7",
        "varied": "proposal=abs-gaussian",
        "reason": "none",
    }
    rows = [failed | {"method": method} for method in ("scrub", "delete")]
    part, all_but_two = (
        SENTENCES["ablations"](replace(whole, coverage=lacking, failures=some)) for some in (rows[:1], rows)
    )
    assert part == "581 of 583 of these audits are there, of all methods: what follows is a part."
    assert all_but_two == (
        "581 of 583 of these audits are there, of all methods. Two others cannot be computed ([why](#what-was-run))."
    )
    told = "2 audits of SCRUB (class 7) and DELETE (class 7) with proposal=abs-gaussian"
    assert told in SENTENCES["coverage"](replace(whole, coverage=lacking, failures=rows))


def test_methods_with_a_level_that_cannot_be_computed_are_named_where_they_lack(whole: Kept) -> None:
    lost = [row for row in whole.audits if (row["method"], row["varied"]) != ("scrub", "proposal=abs-gaussian")]
    failed = {"protocol": ABLATIONS, "audit": "support", "method": "scrub", "forget": "7"}
    told = SENTENCES["support"](replace(whole, audits=lost, failures=[failed]))
    assert told.startswith("10 of 11 methods (not SCRUB, see above), class 7. ")
    other = SENTENCES["support"](replace(whole, audits=lost, failures=[failed | {"audit": "proposals"}]))
    assert other.startswith("So far 10 of 11 methods, class 7. ")


def test_a_score_with_which_retrained_models_alarm_is_called_useless(whole: Kept) -> None:
    def with_references(**given: float) -> str:
        def read(row: Row) -> Row:
            place = (row["audit"], row["method"], row["scale"], row["rule"])
            if place != ("scores", "retrained", *VERDICT):
                return row
            rs = given[str(row["varied"]).removeprefix("score=")]
            return {
                **row,
                "rs": rs,
                "verdict": "no-reference" if rs > 0.1 and row["forget"] != "5" else "not-recovered",
            }

        return SENTENCES["scores"](replace(whole, audits=[read(row) for row in whole.audits]))

    told = with_references(entropy=0.05, energy=0.25)
    assert "With energy, at canonical scale with the last epoch, retrained models give 0.25 (softmax 0.01)" in told
    assert "and nine of 10 raise an alarm: RS alone says nothing there; beside a reference all models of " in told
    assert "With entropy, at" not in told
    assert "raise an alarm" not in with_references(entropy=0.05, energy=0.05)


def test_the_figure_over_sizes_has_every_level_of_every_method(bare: Kept, whole: Kept) -> None:
    rows = [row for row in size_rows(whole) if (row["scale"], row["rule"], row["variant"]) == (*VERDICT, "released")]
    for size, factor in SIZES.items():
        mine = {(row["method"], str(row[size.lower()])): row["rs"] for row in rows if row["audit"] == size}
        assert set(mine) == set(itertools.product(METHOD_LIST, factor.names))
        for (method, level), rs in mine.items():
            place = MAIN if level == factor.main else ablated(size, f"{size.lower()}={level}")
            assert rs == pytest.approx(our_mean(whole, method, place, ["7"], "canonical"))
    assert size_rows(bare) == []


def test_verdicts_that_a_level_changes_are_counted_by_method_and_the_others_named(whole: Kept) -> None:
    def told(name: str, **changed: tuple[str, Sequence[str]]) -> str:
        def verdict(row: Row) -> str:
            level, methods = changed.get(str(row["audit"]), ("", ()))
            return "other" if row["varied"] == level and row["method"] in methods else str(row["verdict"])

        return SENTENCES[name](replace(whole, audits=[{**row, "verdict": verdict(row)} for row in whole.audits]))

    same = (
        "With uniform and Laplace, at canonical scale with the last epoch, no verdict differs from that with Gaussian."
    )
    assert same in told("proposals")
    some = told("proposals", proposals=("proposal=laplace", ["scrub", "salun"]))
    reading = "at canonical scale with the last epoch"
    line = f"Verdicts that, {reading}, differ from those with Gaussian: with Laplace 20 of 110 (SCRUB 10 and SalUn 10)"
    assert f"{line}; with uniform none." in some
    sizes = told("sizes", M=("m=50", ["finetune"]))
    assert (
        "Verdicts that differ from those with 500: with 50 1 of 11 (Finetune); with 100, 200, 1,000 and 2,000" in sizes
    )
    assert ", 1,000,000 and 2,000,000, no verdict differs from that with 500,000." in sizes


def test_an_audit_in_which_the_rule_takes_no_epoch_is_told_if_the_class_is_back_at_the_last(whole: Kept) -> None:
    def with_last(rs: float) -> str:
        place = {"audit": "M", "varied": "m=2000", "method": "random-label", "scale": "native"}
        mine = [place.items() <= row.items() for row in whole.audits]
        ends = {"worst-case": {"epoch": 0.0, "rs": 0.0}, "source-free": {"epoch": 500.0, "rs": rs}}
        audits = [
            {**row, **ends.get(row["rule"], {})} if chosen else row
            for row, chosen in zip(whole.audits, mine, strict=True)
        ]
        return SENTENCES["sizes"](replace(whole, audits=audits))

    line = "No epoch keeps 90 % of the retain accuracy there for Random Label with 2,000: the rule then takes none"
    assert line in with_last(0.8)
    assert "No epoch keeps" not in with_last(0.3)
