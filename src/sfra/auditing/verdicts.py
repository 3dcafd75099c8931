"""What an audit can conclude. Nothing slow is imported, so that a verdict is explained at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["back", "clear", "blind", "open", "unusable"]


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a kind of verdict says, and its colours, which say nothing that the words do not."""

    words: str
    terminal: str
    """Style of the code on a terminal."""
    light: str
    """Colour on a light ground."""
    dark: str
    """Colour on a dark ground."""


KINDS: dict[Kind, Look] = {
    "back": Look(words="the class cannot be called forgotten", terminal="bold red", light="#9a2c06", dark="#ffab85"),
    "clear": Look(
        words="no memory of the class is found, and this audit would have found it",
        terminal="bold cyan",
        light="#1a5c94",
        dark="#8cc4ff",
    ),
    "blind": Look(
        words="no memory of the class is found, and nothing shows that it would have been",
        terminal="bold magenta",
        light="#5b3a8c",
        dark="#cbb2f5",
    ),
    "open": Look(words="the audit cannot decide", terminal="bold yellow", light="#7a4d00", dark="#f0c36a"),
    "unusable": Look(words="there is no usable measurement", terminal="reverse", light="#333333", dark="#dddddd"),
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an audit can conclude."""

    kind: Kind
    sentence: str
    """In words; ``{amount}`` stands for how much of the class comes back."""
    do: str
    """What to do next."""

    @property
    def look(self) -> Look:
        """What its kind says, and its colours."""
        return KINDS[self.kind]

    @property
    def meaning(self) -> str:
        """The sentence where no amount is known."""
        return self.sentence.format(amount="Part")


VERDICTS: dict[str, Verdict] = {
    "unusable": Verdict(
        kind="unusable",
        sentence="This measurement cannot carry a verdict: something about the set-up is wrong.",
        do="Fix what the critical finding names; it says how. Then audit again.",
    ),
    "not-unlearned": Verdict(
        kind="back",
        sentence="The released model still recognises the class: it was not unlearned in the first place.",
        do="Check that this is the unlearned model and the right class. If so, unlearn the class first.",
    ),
    "recovered": Verdict(
        kind="back",
        sentence="{amount} of the forgotten class comes back, and clearly more than in a model that never saw it.",
        do="Do not call the class forgotten. Unlearn in another way, or retrain without the class.",
    ),
    "recovered-after-reset": Verdict(
        kind="back",
        sentence="{amount} of the class comes back once its odd output row is reset: it was hidden at the head. RS and "
        "ΔRS of the row as released do not show it.",
        do="Do not call the class forgotten: a fresh row brings it back. Unlearn in another way, or retrain without "
        "the class.",
    ),
    "like-hidden": Verdict(
        kind="back",
        sentence="{amount} of the forgotten class comes back, as readily as classes of this model that are only "
        "hidden. A retrained reference would settle it.",
        do="Do not call the class forgotten. A model that was trained without it (--reference) settles it.",
    ),
    "inconclusive": Verdict(
        kind="open",
        sentence="{amount} of the class comes back, perhaps more than in a model that never saw it: this audit cannot "
        "tell.",
        do="Pass more references (--reference may be repeated), more seeds (--seeds) and more test samples.",
    ),
    "no-reference": Verdict(
        kind="open",
        sentence="{amount} of the class comes back, but without a retrained reference that alone is not evidence.",
        do="Train a model without the class, with the recipe of the original, and pass it as --reference.",
    ),
    "degenerate": Verdict(
        kind="open",
        sentence="Relearning broke the retain classes: this score shows no recovery, read RS at a retain budget.",
        do="Read RS at a retain budget (RS@ε), and let the audit find a size of the head that fits this network "
        "(--scale calibrated).",
    ),
    "blind": Verdict(
        kind="blind",
        sentence="This audit finds no memory of the class, but nothing shows that it would have found any. This is no "
        "all-clear.",
        do="Pass the original as --control, let the audit find its scale (--scale calibrated), or relearn longer "
        "(--epochs); do not pass --no-reset-row. Until then, claim nothing.",
    ),
    "generic": Verdict(
        kind="clear",
        sentence="The class comes back no more than in a model that never saw it, and this audit would have seen it: "
        "classes that are only hidden come back further. No evidence of residual memory.",
        do="Quote ΔRS with its interval, the references and the settings. Another attack may still find more.",
    ),
    "not-recovered": Verdict(
        kind="clear",
        sentence="The class does not come back, and this audit would have seen it: classes that are only hidden do "
        "come back. That is no proof of erasure.",
        do="Quote RS with its interval and the settings. More seeds (--seeds) and a reference make it more certain.",
    ),
    "not-measured": Verdict(
        kind="unusable",
        sentence="The head was relearned, but without evaluation data nothing was measured.",
        do="Pass labelled test data, of the forgotten and of other classes, as --data.",
    ),
}
"""Every verdict, gravest first."""
