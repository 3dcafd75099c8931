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

REFUSED = {
    "audit(7.0)": "do:       write 7",
    "audit(None)": "None",
    "audit([0, True])": "True",
    "audit(n='many')": "got:      'many'",
    "audit(scale=None)": "scale",
    "audit(budgets=0.1)": "budgets",
    "audit(epoch=3)": "do:       write epochs, if you mean that",
    "sfra.audit(head, 2, config={'n': 3})": "expected: an AuditConfig",
    "audit(data=loader)": "; then data=(images, labels)",
    "audit(data=loader.dataset)": "data cannot be read from a TensorDataset",
    "audit(data=[X, y])": "do:       write a pair in round brackets: data=(samples, labels)",
    "audit(data=X)": "do:       pass the labels as well: data=(samples, labels)",
    "audit(validation=loader)": "validation cannot be read from a DataLoader",
    "sfra.relearn(head, probes, epochs='2')": "epochs",
    "sfra.relearn(head, X)": "expected: what sfra.sample_probes returns",
    "sfra.evaluate(path, loader, y, [2])": "features",
    "sfra.evaluate(path, X, y.numpy(), [2])": "labels",
    "sfra.evaluate(path, X, y, 2.0)": "forget classes",
}
"""Calls, and what their message must say."""

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
def test_wrong_kind_is_refused_with_a_message(answers: dict[str, str], call: str) -> None:
    assert REFUSED[call] in answers[call]
    assert " of Python: " not in answers[call]


@pytest.mark.parametrize("call", TAKEN)
def test_what_means_the_same_is_taken(answers: dict[str, str], call: str) -> None:
    assert answers[call] == "'unusable'"  # a head and data made of noise


@pytest.mark.parametrize("call", ["audit(data=loader)", "audit(data=loader.dataset)"])
def test_the_advice_about_a_loader_is_what_was_tried(answers: dict[str, str], call: str) -> None:
    gathered = answers[call].partition("images, labels = ")[2].partition(";")[0]
    assert gathered.replace("dataset", "loader.dataset") in " ".join(TAKEN)
