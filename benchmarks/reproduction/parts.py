"""The published experiments in parts that a short sitting on a GPU can finish, and what each costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reproduction.heads import goals_of
from sfra.bench.engine.cell import Cell, reachable
from sfra.bench.plan import Goal
from sfra.core.errors import InputError

Only = Mapping[str, str]
TINY = ("0", "40", "80", "120", "160")
FIRST = ("audit", "diagnostics")
"""What is wanted of transformers at once; linear probes and PRA are left for later sittings."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some goals of a protocol, worth bringing home by themselves."""

    what: str
    picks: tuple[tuple[str, Only], ...]
    """Protocols, and what is wanted of each, as ``--only`` says it."""

    def goals(self) -> list[tuple[str, Goal]]:
        """List the goals with their protocols, each once, in turn."""
        found = {g.cell.key: (name, g) for name, only in self.picks for g in goals_of(name) if g.matches(only)}
        return sorted(found.values(), key=lambda one: turn(one[1]))


def turn(goal: Goal) -> tuple[bool, bool, str, bool]:
    """Sort goals so that a run that is cut short has whole classes.

    Class by class, its reference first, then the linear probes, which are slow beside others, then ablations.
    """
    reference = goal.identity["method"] in ("original", "retrained")
    main = goal.identity.get("audit", "main") == "main"
    return not main, goal.what == "linear-probe", str(goal.identity.get("forget", "")), not reference


def _a_class(protocol: str, forget: str, *, references: int = 1, what: tuple[str, ...] = ()) -> Part:
    """Everything of one forget class, or some kinds of goals, and the original's accuracy.

    Each of several references is of another seed.
    """
    picks: list[tuple[str, Only]] = [(protocol, {"what": "accuracy", "seed": "0"})]
    picks += [(protocol, {"forget": forget, "seed": "0"} | ({"what": one} if one else {})) for one in what or ("",)]
    again = [{"forget": forget, "seed": str(seed), "method": "retrained"} for seed in range(1, references)]
    picks += [(protocol, {**only, "what": one}) for only in again for one in ("audit", "diagnostics")]
    return Part(what=f"{protocol}: class {forget}", picks=tuple(picks))


def _salun(*forget: str) -> Part:
    """SalUn as the paper's public code has it, of some classes of CIFAR-100, and their references."""
    protocol = "cifar100-resnet18-published"
    picks = tuple((protocol, {"forget": one}) for one in forget)
    return Part(what=f"{protocol}: classes {', '.join(forget)}", picks=picks)


def _rest(protocol: str, forget: str, *methods: str) -> Part:
    """Audits and diagnostics of the methods of a class that other sittings left out."""
    picks = tuple((protocol, {"forget": forget, "method": one, "what": what}) for one in methods for what in FIRST)
    return Part(what=f"{protocol}: class {forget}, {', '.join(methods)}", picks=picks)


LARGE, PUBLIC = "cifar10-resnet18-224", "cifar10-resnet18-224-published"
PARTS: dict[str, Part] = {
    "rehearsal": _a_class("digits-tiny", "3"),
    **{f"large-{one}": _a_class(LARGE, one) for one in ("7", "9")},
    **{f"public-{c}": Part(what=f"{PUBLIC}: class {c}", picks=((PUBLIC, {"forget": c}),)) for c in ("7", "9")},
    "rest-9": _rest(LARGE, "9", "masked", "delete", "bad-teacher", "scrub"),
    "ablations-7": Part(what=f"{LARGE}-ablations: class 7", picks=((f"{LARGE}-ablations", {"forget": "7"}),)),
    "hundred-a": _salun("0", "20", "40", "60", "80"),
    "hundred-b": _salun("10", "30", "50", "70", "90"),
    **{f"vit-{one}": _a_class("cifar10-vit-small", one, references=2, what=FIRST) for one in ("0", "3", "7")},
    **{f"swin-{one}": _a_class("cifar10-swin-t-small", one, references=2, what=FIRST) for one in ("0", "3", "7")},
    **{f"tiny-{one}": _a_class("tinyimagenet-resnet18", one, what=("audit",)) for one in TINY},
}
"""In the order in which they are wanted; the first tries a machine and the way home."""

EPOCH = {
    ("cifar10", "resnet18"): 3.8,
    ("cifar10", "resnet18-small"): 1.3,
    ("cifar100", "resnet18-small"): 1.3,
    ("cifar10", "vit-small"): 1.2,
    ("cifar10", "swin-t-small"): 4.8,
    ("tiny-imagenet", "resnet18"): 2.7,
}
"""Seconds of one H200 for a pass of training, alone; transformers from passes beside others."""

PASSES: dict[str, tuple[float, float]] = {
    "finetune": (0, 1),
    "negative-gradient": (1, 0),
    "negative-gradient-plus": (0, 2),
    "random-label": (1, 0),
    "boundary-shrink": (1.3, 0),
    "learn-to-unlearn": (2, 0),
    "scrub": (1.3, 1.3),
    "bad-teacher": (1.7, 0.5),
    "salun": (1, 1),
    "delete": (1.3, 0),
}
"""Passes of training that an epoch of a method is worth, over forget and over retain data."""

PLAIN = 1.2
"""Steps that are not compiled take this much longer."""

CLASSES = {"cifar10": 10, "cifar100": 100, "tiny-imagenet": 200}
READING = {10: 6.0, 100: 12.0, 200: 20.0}
"""Seconds of an audit, by the number of classes; the other readings take a third of it."""

OTHERS = 0.57
"""Each cell beside it makes a cell longer by this share: four trainings side by side took 2.7 times one alone."""


def find(names: Sequence[str]) -> dict[str, Part]:
    """Look up parts by name."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise InputError("there is no such part", expected=", ".join(PARTS), got=", ".join(unknown))
    return {name: PARTS[name] for name in names}


def minutes(
    parts: Mapping[str, Part], is_done: Callable[[Cell], bool] = lambda _: False
) -> Iterator[tuple[str, float]]:
    """Estimate the minutes of one GPU for each part, after those before it; what is done costs nothing."""
    seen: set[str] = set()
    for name, part in parts.items():
        left = _left([goal.cell for _, goal in part.goals()], is_done)
        yield name, sum(seconds(cell) for key, cell in left.items() if key not in seen) / 60
        seen |= set(left)


def _left(goals: Sequence[Cell], is_done: Callable[[Cell], bool]) -> dict[str, Cell]:
    """List what has to be computed; nothing behind a cell that is done."""
    found: dict[str, Cell] = {}
    stack = list(goals)
    while stack:
        cell = stack.pop()
        if cell.key not in found and not is_done(cell):
            found[cell.key] = cell
            stack += cell.needs.values()
    return found


def seconds(cell: Cell) -> float:
    """Estimate the seconds that a cell takes alone on a GPU."""
    settings, made = cell.settings, _training(cell)
    if made is None:
        return 0.0
    classes = CLASSES.get(made["data"], 10)
    epoch = EPOCH.get((made["data"], made["backbone"]), 0.1)
    if cell.kind == "train":
        return float(epoch * settings["training"]["epochs"])
    if cell.kind == "unlearn":
        forget, retain = PASSES.get(settings["method"], (1, 1))
        chosen = settings["settings"]
        retain *= chosen.get("retain", True)
        share = len(settings["forget"]) / classes
        return float(PLAIN * epoch * chosen["epochs"] * (forget * share + retain * (1 - share)))
    if cell.kind == "features":
        return epoch * {"train": 1.0, "test": 0.2}.get(settings["split"], 0.05) / 3
    if cell.kind == "audit":
        return READING[classes]
    return READING[classes] / 3


def _training(cell: Cell) -> dict[str, str] | None:
    """Return the settings of a training that a cell rests on."""
    if cell.kind == "train":
        return cell.settings
    return next((one.settings for one in reachable([cell]).values() if one.kind == "train"), None)
