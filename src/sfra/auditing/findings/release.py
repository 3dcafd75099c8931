"""Findings about the release and its probes: odd or missing forget rows, rare classes, too few probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from sfra.attack.scale import Canonical, place
from sfra.attack.settings import published_n, stable_m
from sfra.auditing.findings.registry import above, finding
from sfra.auditing.result import Finding
from sfra.core.errors import counted
from sfra.core.head import Head
from sfra.core.metrics import TOLERANCE

OUTLIER_Z = 3.5  # the usual cut of a robust z
NORM_FLOOR, BIAS_FLOOR = 0.25, 0.5  # least spread assumed: of the median norm; in logits

ONE_LENGTH = 1e-3  # what is normalised in half precision differs by less

LOST_AT_N = {5_000: (0.15, 0.22), 25_000: (0.08, 0.13), 100_000: (0.04, 0.09)}
"""RS of a hidden class lost at a smaller N than 500,000, mean and worst of five classes of CIFAR-10."""
RS_AT_M = {"CIFAR-10": {100: 0.54, 200: 0.79, 500: 0.80}, "CIFAR-100": {10: 0.53, 20: 0.61, 50: 0.32}}
"""RS of a hidden class at M probes per class, mean of five and of ten classes."""
FEW_CLASSES = 20
"""At 100 classes RS did not follow N, from 1,000 to 400,000."""


@finding("cosine-head")
def cosine_head(length_spread: float) -> Finding | None:
    """Fire when all features have one length and all retain rows have one: scores are cosines, times a scale."""
    message = (
        "All features have the same length, and so have the rows of the head: its scores are cosines. It was audited "
        "as the linear layer that it is on these features; relearning may give rows other lengths, and a bias."
    )
    return Finding("cosine-head", "info", length_spread, ONE_LENGTH, message) if length_spread <= ONE_LENGTH else None


@finding("forget-row-missing")
def forget_row_missing(restored_rows: int) -> Finding | None:
    """Fire when the head had lost forget rows that were drawn anew."""
    classes, each = counted(restored_rows, "forget class", "forget classes"), "it" if restored_rows == 1 else "each"
    message = (
        f"The released head has no output for {classes}: {each} was restored with a random row. "
        "The scores depend a little on that draw, and the accuracy before is that of the restored head."
    )
    return above(float(restored_rows), 0.0, "forget-row-missing", "info", message)


def row_outlier(
    forget: int, norm: float, bias: float, retain_norms: Sequence[float], retain_biases: Sequence[float]
) -> Finding | None:
    """Fire when a forget row stands out among the retain rows, in norm or in bias.

    ``z = |x - median| / max(1.4826 MAD, least spread)``. The least spread, a quarter of the median norm and
    half a logit, lets pass the small rows of retrained models (a third of the median norm, bias -0.2) and
    stops rows that were zeroed, blown up or biased away.
    """
    z_norm = _robust_z(norm, retain_norms, NORM_FLOOR * median(retain_norms))
    z_bias = _robust_z(bias, retain_biases, BIAS_FLOOR)
    odd = [f"norm {norm:.2f} against {median(retain_norms):.2f}"] if z_norm > OUTLIER_Z else []
    odd += [f"bias {bias:+z.2f} against {median(retain_biases):+z.2f}"] if z_bias > OUTLIER_Z else []
    message = (
        f"The row of forget class {forget} is unlike those of the retain classes ({', '.join(odd)} in the median): "
        "it may hide the class from a short audit. Read the result of the reset-row variant as well."
    )
    return above(max(z_norm, z_bias), OUTLIER_Z, "forget-row-outlier", "warning", message)


def odd_rows(head: Head, forget: Sequence[int]) -> dict[int, Finding]:
    """Return the forget rows that stand out among the retain rows, centred or as released.

    A row added to all of them changes nothing, but hides an odd one.
    """
    found = {}
    retain = [k for k in range(head.classes) if k not in forget]
    for label in forget:
        for view in (place(head, forget, scale=Canonical()).head, head):
            norms, biases = view.weight.double().norm(dim=1).tolist(), view.bias.tolist()
            retain_norms, retain_biases = [norms[k] for k in retain], [biases[k] for k in retain]
            odd = row_outlier(label, norms[label], biases[label], retain_norms, retain_biases)
            if odd is not None:
                found[label] = odd
                break
    return found


@finding("forget-row-outlier")
def forget_row_outlier(head: Head, forget: Sequence[int]) -> list[Finding]:
    """Fire when a forget row stands out among the retain rows."""
    return list(odd_rows(head, forget).values())


@finding("rare-class")
def rare_class(acceptance: Mapping[int, float]) -> Finding | None:
    """Fire when classes were sampled conditionally; `acceptance` is the share of plain draws that each wins."""
    if not acceptance:
        return None
    rarest = sorted(acceptance.items(), key=lambda item: item[1])
    named = ", ".join(f"{label} ({share:.1e})" for label, share in rarest[:8]) + (" …" if len(rarest) > 8 else "")
    alone = len(rarest) == 1
    message = (
        f"{counted(len(rarest), 'retain class wins', 'retain classes win')} too few random draws and "
        f"{'was' if alone else 'were'} sampled conditionally: {named}. The number in brackets is the share of draws "
        f"that {'it' if alone else 'each'} wins."
    )
    return Finding("rare-class", "info", rarest[0][1], None, message)


@finding("small-m")
def small_m(m: int, retain_classes: int) -> Finding | None:
    """Fire when M is below ``min(200, 1800 / retain classes)``, the least that was seen to be stable."""
    stable = stable_m(retain_classes)
    data = "CIFAR-10" if retain_classes < FEW_CLASSES else "CIFAR-100"
    levels = ", ".join(f"{rs:.2f} at M = {each}" for each, rs in RS_AT_M[data].items())
    message = (
        f"M = {m} is a small number of probes per class for {retain_classes} retain classes: below about {stable}, "
        f"results vary from seed to seed, and RS moves: that of a hidden class of {data} was {levels}."
    )
    return Finding("small-m", "warning", float(m), float(stable), message) if m < stable else None


@finding("small-n")
def small_n(n: int, classes: int) -> Finding | None:
    """Fire when N is below 100,000 at few classes, where RS rises with N, or at many below that of the protocol."""
    if classes > FEW_CLASSES:
        return _fewer_than_published(n, classes)
    measured = next((at for at in LOST_AT_N if n <= at and n < max(LOST_AT_N)), None)
    if measured is None:
        return None
    mean, worst = LOST_AT_N[measured]
    message = (
        f"N = {n:,} is a small number of candidates per class: at N = {measured:,} a hidden class of CIFAR-10 gave "
        f"an RS that was {mean:.2f} lower than at N = 500,000, and up to {worst:.2f}. Compare audits of equal N only."
    )
    return Finding("small-n", "warning", float(n), float(max(LOST_AT_N)), message)


def _fewer_than_published(n: int, classes: int) -> Finding | None:
    published = published_n(classes)
    message = (
        f"N = {n:,} is less than the {published:,} candidates per class of the published protocol for so many classes. "
        f"At 100 classes RS did not follow N, from 1,000 to 400,000; at more nothing was measured. Compare audits of "
        f"equal N only."
    )
    return Finding("small-n", "info", float(n), float(published), message) if n < published else None


def _robust_z(value: float, others: Sequence[float], least_spread: float) -> float:
    """Measure the distance of a value from the median of others in robust standard deviations."""
    centre = median(others)
    spread = 1.4826 * median(abs(other - centre) for other in others)
    return abs(value - centre) / max(spread, least_spread, TOLERANCE)
