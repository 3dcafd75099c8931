"""Words for the names that an audit uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfra.auditing.verdict import VERDICTS

RULES = {"source-free": "last epoch", "validation": "best on validation data", "worst-case": "best on test data"}
VARIANTS = {"released": "as released"}

REFERENCE = "reference"
"""What stands for a verdict where the audited model is the reference itself."""

BADGES: Mapping[str, str] = {
    **VERDICTS,
    REFERENCE: "The reference itself: it never saw the class, so what comes back here comes back without memory.",
}
"""Every word that a page shows as a verdict, with what it means."""


def variant_words(name: str) -> str:
    """Name what became of the forget row.

    >>> variant_words("released"), variant_words("reset-row")
    ('as released', 'reset-row')
    """
    return VARIANTS.get(name, name)


def reading_words(scale: str, rule: str, variant: str) -> str:
    """Say in one phrase how the numbers were read.

    >>> reading_words("canonical", "source-free", "released")
    'canonical scale, source-free rule (last epoch), forget row as released'
    >>> reading_words("native", "validation", "restored-row").endswith(", restored-row variant")
    True
    """
    rule_text = f"{rule} rule ({RULES[rule]})" if rule in RULES else f"{rule} rule"
    place, row = _scale_and_row(scale, variant)
    return f"{place}, {rule_text}, {row}"


def reading_place(scale: str, variant: str) -> str:
    """Say at which scale and with which forget row something holds.

    >>> reading_place("kappa=3", "released")
    'kappa=3, forget row as released'
    """
    return ", ".join(_scale_and_row(scale, variant))


def _scale_and_row(scale: str, variant: str) -> tuple[str, str]:
    row = f"forget row {VARIANTS[variant]}" if variant in VARIANTS else f"{variant} variant"
    return scale if "=" in scale else f"{scale} scale", row


def titled(names: Sequence[str]) -> str:
    """Name the benchmarks of a page.

    >>> titled(["digits"]), titled(["digits", "digits-ablations"])
    ('Benchmark digits', 'Benchmarks digits and digits-ablations')
    """
    *first, last = names
    return f"Benchmarks {', '.join(first)} and {last}" if first else f"Benchmark {last}"
