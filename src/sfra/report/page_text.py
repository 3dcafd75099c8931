"""Words for the names that an audit uses."""

from __future__ import annotations

RULES = {"source-free": "last epoch", "validation": "best on validation data", "worst-case": "best on test data"}
VARIANTS = {"released": "as released", "reset-row": "reset", "restored-row": "restored"}


def variant_words(name: str) -> str:
    """Name what became of the forget row.

    >>> variant_words("reset-row")
    'reset'
    """
    return VARIANTS.get(name, name)


def reading_words(scale: str, rule: str, variant: str) -> str:
    """Say in one phrase how the numbers were read.

    >>> reading_words("canonical", "source-free", "released")
    'canonical scale, source-free rule (last epoch), forget row as released'
    """
    rule_text = f"{rule} rule ({RULES[rule]})" if rule in RULES else f"{rule} rule"
    return f"{scale if '=' in scale else f'{scale} scale'}, {rule_text}, forget row {variant_words(variant)}"
