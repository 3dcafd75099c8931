import time
from itertools import count

import pytest

from sfra.attack.probes.tiles import in_order


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_order_even_if_later_tiles_finish_first(threads: int) -> None:
    def work(index: int) -> int:
        time.sleep(0.02 if index % 3 == 0 else 0.0)
        return index

    assert list(in_order(work, range(10), threads)) == list(range(10))


def test_the_caller_may_stop_an_endless_run() -> None:
    taken = []
    for result in in_order(lambda index: index, count(), 2):
        taken.append(result)
        if result == 4:
            break
    assert taken == [0, 1, 2, 3, 4]


def test_an_error_of_a_tile_reaches_the_caller() -> None:
    def work(index: int) -> int:
        raise ValueError(f"tile {index}")

    with pytest.raises(ValueError, match="tile 0"):
        list(in_order(work, range(3), 2))
