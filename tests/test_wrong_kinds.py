"""Arguments of the wrong kind, where no annotation is checked: each ends in a message, none in words of Python."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

CALLS = """
import contextlib, json, sys
import numpy as np, torch
from torch.utils.data import DataLoader, TensorDataset
import sfra

head = sfra.Head(weight=torch.eye(6, 12))
X, y = torch.randn(120, 12, generator=torch.Generator().manual_seed(0)), torch.arange(120) % 6
loader = DataLoader(TensorDataset(X, y), 50)
probes = sfra.sample_probes(head, 2, n=200, m=20)
path = sfra.relearn(head, probes, epochs=1)

def audit(forget=2, data=(X, y), **settings):
    return sfra.audit(head, forget, data=data, **({"n": 200, "m": 20, "epochs": 1, "threads": 1} | settings)).verdict

answers = {}
for call in json.load(sys.stdin):
    try:
        answers[call] = repr(eval(call))
    except sfra.SfraError as problem:
        answers[call] = str(problem)
    except Exception as problem:
        answers[call] = f"{type(problem).__name__} of Python: {problem}"
print(json.dumps(answers))
"""

NEITHER = "a forget class is neither an index nor a name\n  expected: a whole number, a name, or several of them"
KIND = "{} is of the wrong kind\n  expected: {}\n  got:      {}"
COUNT = "a whole number of at least 1"
PAIR = "expected: a pair (images, labels) or (features, labels) of arrays or tensors, a name, or a path"
REFUSED = {
    "audit(7.0)": f"{NEITHER}\n  got:      7.0\n  do:       write 7",
    "audit(2.5)": f"{NEITHER}\n  got:      2.5",
    "audit(None)": f"{NEITHER}\n  got:      None",
    "audit(True)": f"{NEITHER}\n  got:      True",
    "audit([0, True])": f"{NEITHER}\n  got:      True",
    "audit(np.arange(6) == 2)": f"{NEITHER}\n  got:      np.False_",
    "audit(b'2')": f"{NEITHER}\n  got:      b'2'",
    "audit(n='many')": KIND.format("n", COUNT, "'many'"),
    "audit(n=None, m=True)": KIND.format("m", COUNT, "True"),
    "audit(epochs='3')": KIND.format("epochs", COUNT, "'3'"),
    "audit(batch_size=None)": KIND.format("batch_size", COUNT, "None"),
    "audit(seed='a')": KIND.format("seed", "a whole number of at least 0", "'a'"),
    "audit(learning_rate='fast')": KIND.format("learning_rate", "a number", "'fast'"),
    "audit(scale=None)": KIND.format("scale", '"native", "canonical", "sweep" or a number', "None"),
    "audit(budgets=0.1)": KIND.format("budgets", "several numbers, such as (0.01, 0.05)", "0.1"),
    "audit(reset_row='no')": KIND.format("reset_row", "True or False", "'no'"),
    "audit(device=0)": KIND.format("device", 'a name in quotes, such as "cpu" or "cuda:1"', "0"),
    "audit(proposal=3)": KIND.format("proposal", "a name in quotes", "3"),
    "audit(epoch=3)": "an audit has no setting 'epoch'\n  expected: n, m, proposal, score",
    "sfra.audit(head, 2, config={'n': 3})": "config is of the wrong kind\n  expected: an AuditConfig\n  got:      dict",
    "audit(data=loader)": f"data cannot be read from a DataLoader\n  {PAIR}\n  do:       images, labels = (torch.cat",
    "audit(data=loader.dataset)": f"data cannot be read from a TensorDataset\n  {PAIR}\n  do:       images, labels = ",
    "audit(data=[X, y])": "data cannot be read from a list",
    "audit(data={'images': X})": "data cannot be read from a dict",
    "audit(data=X)": "data cannot be read from a Tensor",
    "audit(validation=loader)": "validation cannot be read from a DataLoader",
    "sfra.relearn(head, probes, epochs='2')": "the number of epochs is none\n  expected: a whole number",
    "sfra.relearn(head, X)": "these are not probes\n  expected: what sfra.sample_probes returns\n  got:      Tensor",
    "sfra.evaluate(path, loader, y, [2])": "the features are not a tensor\n  expected: torch tensors\n  got:      Dat",
    "sfra.evaluate(path, X, y.numpy(), [2])": "the labels are not a tensor",
    "sfra.evaluate(path, X, y, 2.0)": "these cannot be the forget classes\n  expected: indices, as in [7]",
}
ENDINGS = {
    "audit(epoch=3)": "\n  do:       write epochs, if you mean that",
    "audit(data=loader)": "; then data=(images, labels)",
    "audit(data=[X, y])": "\n  do:       write a pair in round brackets: data=(samples, labels)",
    "audit(data=X)": "\n  do:       pass the labels as well: data=(samples, labels)",
}
GATHER = "(torch.cat(parts) for parts in zip(*{}))"
TAKEN = (
    "audit(2)",
    "audit(np.int64(2))",
    "audit(torch.tensor(2))",
    "audit(torch.tensor([1, 2]))",
    "audit('2')",
    "audit(learning_rate=1, scale=2, budgets=[0.1])",
    f"audit(data=tuple({GATHER.format('loader')}))",
    f"audit(data=tuple({GATHER.format('DataLoader(loader.dataset, 1000)')}))",
)
"""What is taken: numbers of any type, and what the messages above say to write."""


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """What each call answers in a fresh interpreter, where no annotation is checked."""
    calls = json.dumps([*REFUSED, *TAKEN])
    ran = subprocess.run([sys.executable, "-c", CALLS], input=calls, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("call", REFUSED)
def test_the_message_says_what_was_expected(answers: dict[str, str], call: str) -> None:
    assert answers[call].startswith(REFUSED[call])
    assert answers[call].endswith(ENDINGS.get(call, ""))


@pytest.mark.parametrize("call", TAKEN)
def test_what_means_the_same_is_taken(answers: dict[str, str], call: str) -> None:
    assert answers[call] in ("'not-recovered'", "'not-unlearned'", "'no-reference'", "'degenerate'")


@pytest.mark.parametrize("call", ["audit(data=loader)", "audit(data=loader.dataset)"])
def test_the_advice_about_a_loader_is_what_was_tried(answers: dict[str, str], call: str) -> None:
    gathered = answers[call].partition("images, labels = ")[2].partition(";")[0]
    assert gathered.replace("dataset", "loader.dataset") in " ".join(TAKEN)
