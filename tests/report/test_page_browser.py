"""Pages in a real browser, where one is installed: scripts run under the page's own policy, and nothing complains."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from statistics import fmean

import pytest
import torch

from page_toys import DATE, HOSTILE, Parsed, made_up, true_audit
from sfra.metrics import relearning_curve, rs_at_budget
from sfra.report.page import audit_page
from sfra.report.page_bench import page_of_reports

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


def opened(page: str, folder: Path, anchor: str = "") -> tuple[str, list[str]]:
    """Open a page from disk; return the document that its scripts left, and what they complained of."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--enable-logging=stderr"]
    profile = f"--user-data-dir={folder / 'profile'}"
    ran = subprocess.run(
        [str(BROWSER), *flags, profile, "--dump-dom", f"{file.as_uri()}{anchor}"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=240,
        check=False,
    )
    return ran.stdout, [line for line in ran.stderr.splitlines() if "CONSOLE" in line and '"WARN ' not in line]


def test_the_page_of_an_audit_draws_its_curves_and_tells_the_score_at_a_budget(tmp_path: Path) -> None:
    audit = true_audit()
    document, complaints = opened(audit_page(audit, date=DATE), tmp_path)
    assert complaints == []
    assert document.count('class="marks"') == 1
    assert f"ε = 2.0 points: RS@ε {audit['rs_at']['0.02']:.2f} at epoch" in Parsed(document).text


@pytest.mark.parametrize("points", [0.5, 8.0])
def test_the_slider_shows_the_mean_over_seeds_of_the_best_score_within_its_budget(
    tmp_path: Path, points: float
) -> None:
    audit = true_audit()
    main = (audit["scale"], audit["variant"])
    run = next(
        run for run in audit["trajectory"] if run["subject"] == "model" and (run["scale"], run["variant"]) == main
    )
    forget = torch.linspace(0.0, 0.8, 41)
    runs = [(0.95 - share * torch.linspace(0.0, 1.0, 41), forget) for share in (0.2, 0.4)]
    audit["trajectory"] = [
        run | {"seed": i, "retain": r.tolist(), "forget": f.tolist(), "rs": relearning_curve(r, f).tolist()}
        for i, (r, f) in enumerate(runs)
    ]
    page = audit_page(audit, date=DATE).replace('step="0.1" value="2"', f'step="0.1" value="{points}"')
    document, complaints = opened(page, tmp_path)
    expected = fmean(rs_at_budget(retain, forget, points / 100) for retain, forget in runs)
    assert complaints == []
    assert f"ε = {points} points: RS@ε {expected:.2f} at epoch" in Parsed(document).text


def test_the_page_of_a_benchmark_fills_its_leaderboard_and_opens_the_audit_of_a_link(tmp_path: Path) -> None:
    report, audits = made_up(["retrained", "finetune", HOSTILE], 2, true_audit())
    key = f"audit-{next(iter(audits))[:12]}"
    document, complaints = opened(page_of_reports([report], audits, date=DATE), tmp_path, f"#{key}")
    assert complaints == []
    board = document[document.index('id="board"') :]
    names = re.findall(r'<tr><th scope="row">(.*?)</th>', board[: board.index("</table>")])
    assert names[1:] == ["Finetune", "Retrained"]
    assert re.search(rf'<details class="audit" id="{key}"[^>]* open=""', document)
    assert document.count('class="marks"') == 5  # four figures, and the curves of the open audit
    assert "<img" not in document[: document.index("<script")]
