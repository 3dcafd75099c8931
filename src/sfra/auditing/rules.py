"""Which epoch of a trajectory counts: one entry per selection rule. Lists, schema, pages and tables read ``RULES``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sfra.auditing.trace import Trace
from sfra.core.errors import InputError
from sfra.core.metrics import TOLERANCE

RETAIN_FLOOR = 0.9
"""Share of the released retain accuracy that an epoch must keep to be a worst case."""

VERDICT_RULE = "source-free"
"""Rule of the verdict: no real data decides which epoch counts."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A selection rule: its sentence, and the function that picks an epoch off a trace."""

    sentence: str
    choose: Callable[[Trace], int]
    """Picks the epoch off the trace on the evaluation data or, if the rule validates, on the validation data."""
    validates: bool = False
    """Picks on validation data and is reported on the rest."""


def last_epoch(trace: Trace) -> int:
    """Return the last epoch, without a look at any data."""
    return len(trace.right) - 1


def best_epoch(trace: Trace) -> int:
    """Return the epoch of the best RS; ties go to the earliest."""
    return int(trace.rs.argmax())


def worst_case_epoch(trace: Trace) -> int:
    """Return the epoch of the best RS among those that keep 90 % of the released retain accuracy."""
    allowed = trace.retain >= RETAIN_FLOOR * trace.retain[0] - TOLERANCE
    return int(trace.rs.where(allowed, -1.0).argmax())


RULES: dict[str, Rule] = {
    "source-free": Rule(sentence="last epoch: no real data is used", choose=last_epoch),
    "validation": Rule(sentence="best epoch on validation data", choose=best_epoch, validates=True),
    "worst-case": Rule(
        sentence=f"best epoch on the test data that keeps {RETAIN_FLOOR:.0%} of the retain accuracy",
        choose=worst_case_epoch,
    ),
}


def select(trace: Trace, rule: str, validation: Trace | None = None) -> int:
    """Return the epoch that counts under a rule.

    Args:
        trace: The trajectory on the evaluation data.
        rule: A key of ``RULES``.
        validation: The same trajectory on validation data, disjoint from the evaluation data.

    >>> import torch
    >>> right = torch.tensor([[True, False, False], [True, True, True], [True, True, False]])
    >>> trace = Trace(right=right, counts=torch.tensor([1, 2]), forget_classes=(1,))
    >>> select(trace, "source-free"), select(trace, "worst-case")
    (2, 1)
    """
    if rule not in RULES:
        raise InputError("unknown selection rule", expected=", ".join(RULES), got=rule)
    if not RULES[rule].validates:
        return RULES[rule].choose(trace)
    if validation is None:
        raise InputError(f"the rule {rule} needs validation data", do="pass some, or use source-free")
    if len(validation.right) != len(trace.right):
        raise InputError(
            "the two splits cover different numbers of epochs", expected=len(trace.right), got=len(validation.right)
        )
    return RULES[rule].choose(validation)
