"""Tables of a group beside another one: RS and ΔRS by method, RS by class, the forget row drawn anew, the claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reproduction.agreement import ByClass, means
from reproduction.beside import Reading, Side, class_names, place_name, side_of
from reproduction.claims import Claim, Numbers, list_claims, our_numbers, told, word
from reproduction.simple import Text, score, signed, simple_table
from reproduction.stored import METHOD_LIST, PUBLISHED, RULES, VERDICT, Kept, arrange, own
from reproduction.tables_models import short
from sfra.bench.tables import Column, Table
from sfra.bench.tables.names import method_name
from sfra.report.classes import label_name


def rs_beside_table(kept: Kept, other: Side, scale: str) -> Table:
    """Show the mean RS of every method at one scale under the three rules, each beside the other's."""
    ours, readings = side_of(kept), [(scale, rule) for rule in RULES]
    pairs = [(means(ours.rs[one]), means(other.rs[one])) for one in readings]
    rows = [
        (*_counted(method, ours.rs[readings[0]]), *(score(some.get(method)) for pair in pairs for some in pair))
        for method in (*METHOD_LIST, "masked")
    ]
    columns = {"method": "Method", "classes": "Classes"} | _pairs({rule: rule for rule in RULES}, other)
    notes = ("Mean over the forget classes, as many as there are.",)
    title = f"Mean RS at {scale} scale beside that of {other.name}"
    return simple_table(f"rs-{scale}-beside-{short(other)}", title, columns, rows, notes)


def delta_table(kept: Kept, other: Side) -> Table:
    """Show the mean ΔRS of every method in the paper's reading and in that of a verdict, each beside the other's."""
    ours, readings = side_of(kept), (PUBLISHED, VERDICT)
    pairs = [(means(ours.delta[one]), means(other.delta[one])) for one in readings]
    rows = [
        (*_counted(method, ours.delta[VERDICT]), *(signed(some.get(method)) for pair in pairs for some in pair))
        for method in (*METHOD_LIST, "masked")
        if method != "retrained"
    ]
    columns = {"method": "Method", "classes": "Classes"}
    columns |= _pairs({"-".join(reading): ", ".join(reading) for reading in readings}, other)
    notes = ("RS minus that of the retrained model of the same class; mean over the forget classes.",)
    return simple_table(f"delta-beside-{short(other)}", "Mean ΔRS", columns, rows, notes)


def classes_table(kept: Kept, reading: Reading) -> Table:
    """Show RS of every model, methods down and forget classes across."""
    found = kept.by_class(*reading)
    classes = sorted({forget for some in found.values() for forget in some}, key=int)
    names = class_names(kept)
    rows = [
        (method_name(method), *(score(found.get(method, {}).get(forget)) for forget in classes))
        for method in (*METHOD_LIST, "masked")
    ]
    columns = {"method": "Method"} | {f"class_{c}": label_name(int(c), names) for c in classes}
    scale, rule = reading
    return simple_table(f"classes-{scale}", f"RS of every model ({scale} scale, {rule})", columns, rows)


def reset_table(kept: Kept) -> Table:
    """Show what drawing the forget row anew changes, at the scale of the verdict, with the last epoch and the best."""
    rules = ("source-free", "worst-case")
    found = [means(one) for rule in rules for one in reset_pair(kept, rule)]
    rows = [(method_name(m), *(score(some.get(m)) for some in found)) for m in (*METHOD_LIST, "masked")]
    columns = {"method": "Method"}
    for rule in rules:
        key = rule.replace("-", "_")
        columns |= {f"released_{key}": f"as released, {rule}", f"reset_{key}": f"drawn anew, {rule}"}
    notes = ("Mean RS at canonical scale; drawn anew: forget row and bias as a new layer has them.",)
    return simple_table("reset-row", "The forget row drawn anew", columns, rows, notes)


def reset_pair(kept: Kept, rule: str, scale: str = "canonical") -> tuple[ByClass, ByClass]:
    """Arrange RS with the forget row as released and drawn anew."""
    anew = (scale, rule, "main", "reset-row")
    rows = [
        row
        for row in own(kept.audits, kept)
        if tuple(row[name] for name in ("scale", "rule", "audit", "variant")) == anew
    ]
    return kept.by_class(scale, rule), arrange(rows, "rs")


def claims_beside_table(kept: Kept, other: Kept) -> Table:
    """Show the claims on single forget classes for two groups, in both readings; of the other only whether they hold.

    The remarks are about CIFAR-10 and are left out.
    """
    here, there = (in_both(one) for one in (kept, other))
    rows = [
        ((claim.text,), *((word(claim, n),) for n in there), *((told(claim, n),) for n in here))
        for claim in single_claims()
    ]
    names = {"claim": "The paper's numbers for CIFAR-10 say"}
    for key, one in (("other", other), ("here", kept)):
        names |= {f"{key}_{scale}": f"{place_name(one)}, {scale}, {rule}" for scale, rule in (PUBLISHED, VERDICT)}
    columns = tuple(Column(names=(name,), heading=text, numeric=False) for name, text in names.items())
    return Table(title="Claims", label="claims", columns=columns, rows=tuple(rows))


def in_both(kept: Kept) -> tuple[Numbers, Numbers]:
    """Read a group's numbers in the paper's reading and in that of a verdict."""
    return our_numbers(kept, *PUBLISHED), our_numbers(kept, *VERDICT)


def single_claims() -> list[Claim]:
    """List the claims that need no audit of several classes forgotten at once."""
    return [claim for claim in list_claims() if "multi" not in claim.needs]


def decided(claims: Sequence[Claim], numbers: Numbers) -> list[bool]:
    """Say which of the claims hold; those that numbers are missing for are left out."""
    return [claim.holds(numbers) for claim in claims if not claim.lacking(numbers)]


def _counted(method: str, found: ByClass) -> tuple[Text, Text]:
    return method_name(method), str(len(found.get(method, {})))


def _pairs(headings: Mapping[str, str], other: Side) -> dict[str, str]:
    """Name two columns for each: ours, and the other's beside it."""
    names = {key.replace("-", "_"): text for key, text in headings.items()}
    return {
        name: heading
        for key, text in names.items()
        for name, heading in ((key, text), (f"{key}_{short(other)}", other.name))
    }
