"""One estimate over all work: paces that were seen, times that were foretold, and a share that follows them."""

from __future__ import annotations

import pytest
import torch

from sfra.attack.outlook import Outlook, product_speed
from sfra.core.progress import PARTS


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Told:
    """An outlook on a clock, and the seconds left as whoever hears the share knows them."""

    def __init__(self) -> None:
        self.clock, self.stages = Clock(), list[str]()
        self.shares: list[int] = []
        self.outlook = Outlook(self.hear, clock=self.clock)

    def hear(self, stage: str, done: int, total: int) -> None:
        assert total == PARTS
        self.stages.append(stage)
        self.shares.append(done)

    @property
    def left(self) -> float:
        return self.clock.now * (PARTS / self.shares[-1] - 1)


def test_draws_to_come_take_as_long_as_the_one_that_runs_and_relearning_as_foretold() -> None:
    told = Told()
    told.outlook.expect("drawing", 4, steps=4)
    told.outlook.expect("relearning", 1e12, seconds=100.0)
    with told.outlook.step("drawing", 1) as tell:
        told.clock.now = 5.0  # a pilot
        tell("drawing (no class full)", 0, 4)
        told.clock.now = 15.0
        tell("drawing (2 of 9 classes full)", 1, 4)
        assert told.left == pytest.approx(30 + 3 * 45 + 100, rel=0.01)
    assert told.shares[:2] == [0, 0]
    assert told.stages[-1] == "auditing (drawing 1 of 4, 2 of 9 classes full)"


def test_the_pace_that_was_seen_replaces_what_was_foretold() -> None:
    told = Told()
    told.outlook.expect("drawing", 2, steps=2)
    told.outlook.expect("relearning", 600.0, seconds=6.0)
    for seconds in (20.0, 10.0):
        with told.outlook.step("drawing", 1):
            told.clock.now += seconds
    with told.outlook.step("relearning", 200.0, "epochs") as tell:
        assert told.left == pytest.approx(6.0, rel=0.01)
        told.clock.now += 5.0
        tell("step", 1, 2)
        assert told.left == pytest.approx(25.0, rel=0.01)
    assert told.stages[-1] == "auditing (relearning, 1 of 2 epochs)"


def test_a_share_falls_where_the_work_turns_out_to_be_longer() -> None:
    told = Told()
    told.outlook.expect("drawing", 1)
    with told.outlook.step("drawing", 1) as tell:
        for told.clock.now, done in ((0.0, 0), (1.0, 50), (30.0, 25)):
            tell("drawing", done, 100)
    assert told.shares == [0, 0, PARTS // 2, PARTS // 4]


def test_without_a_listener_nothing_is_told_and_work_that_nobody_expected_is_counted() -> None:
    outlook = Outlook()
    outlook.announce("a draw")
    with outlook.step("drawing", 3) as tell:
        tell("drawing", 1, 2)
    assert outlook.kinds["drawing"].done == 3


def test_the_speed_is_that_of_the_quickest_product_on_every_thread() -> None:
    times = iter([0.0, 0.003, 0.004, 0.007])
    speed = product_speed(10, 20, rows=8, clock=times.__next__)
    assert speed == pytest.approx(torch.get_num_threads() * 2 * 8 * 10 * 20 / 0.001)
