import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from builders.algorithm import compiled_draws
from builders.algorithm import sureness as exact_sureness
from sfra.attack.probes import codes, kernels

Floats = NDArray[Any]
SCORES = {"softmax": codes.SOFTMAX, "entropy": codes.ENTROPY, "energy": codes.ENERGY}


def philox(counter: list[Floats], key: list[int]) -> list[Floats]:
    """Philox4x32-10 once more, with Python's big integers as the judge of every overflow."""
    c, k = [[int(v) for v in word] for word in counter], list(key)
    for _ in range(10):
        for lane in range(len(c[0])):
            p0, p1 = 0xD2511F53 * c[0][lane], 0xCD9E8D57 * c[2][lane]
            c[0][lane], c[2][lane] = (p1 >> 32) ^ c[1][lane] ^ k[0], (p0 >> 32) ^ c[3][lane] ^ k[1]
            c[1][lane], c[3][lane] = p1 % 2**32, p0 % 2**32
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return [np.array(word, np.uint64) for word in c]


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_gives_the_published_known_answers(counter: str, key: str, words: str) -> None:
    numbers = [np.uint64(int(word, 16)) for word in f"{counter} {key}".split()]
    assert " ".join(f"{int(word):08x}" for word in kernels.philox(*numbers)) == words
    again = philox([np.array([n]) for n in numbers[:4]], [int(n) for n in numbers[4:]])
    assert " ".join(f"{int(word[0]):08x}" for word in again) == words


def test_the_counter_holds_index_coordinate_and_stream_and_the_key_holds_the_seed() -> None:
    seed, stream = 0x0123456789ABCDEF, 1
    indices = np.array([0, 1, 2**32 - 1, 2**32, 2**40 + 5])
    words = np.empty((4, 5), np.int32)
    for quad in (0, 3):
        kernels._random_words(indices, quad, stream, np.uint64(seed), words)
        ctr = [indices % 2**32, indices >> 32, np.full(5, quad), np.full(5, stream)]
        expected = philox(ctr, [seed % 2**32, seed >> 32])
        for row, word in enumerate(expected):
            right = (word >> np.uint64(1)).astype(np.int32) if row % 2 == 0 else word.astype(np.uint32).view(np.int32)
            np.testing.assert_array_equal(words[row], right)


def test_normals_are_the_float64_box_muller_of_the_same_words() -> None:
    indices = np.arange(2000)
    got = compiled_draws(indices, 4, seed=3)
    words = philox([indices, 0 * indices, 0 * indices, 0 * indices], [3, 0])
    for half in (0, 2):
        u = ((words[half] >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-31
        turn = 2 * math.pi * words[half + 1].astype(np.uint32).view(np.int32).astype(np.float64) * 2.0**-32
        radius = np.sqrt(-2 * np.log(u))
        bound = 3e-6 + 3e-7 / radius  # log is good to 1e-7 absolute, which the root stretches near zero
        assert np.all(np.abs(got[:, half] - radius * np.cos(turn)) < bound)
        assert np.all(np.abs(got[:, half + 1] - radius * np.sin(turn)) < bound)


def test_extreme_words_give_finite_numbers_of_the_right_size() -> None:
    words = np.array([0, 1, 2**24, 2**31 - 2, 2**31 - 1], np.int32)
    floats, out = np.empty((4, 5), np.float32), np.empty(5, np.float32)
    kernels._negative_log(words, floats, out)
    np.testing.assert_allclose(out, -np.log((words.astype(np.float64) + 0.5) * 2.0**-31), atol=2e-6)
    angles = np.array([-(2**31), -(2**30), 0, 2**30, 2**31 - 1], np.int32)
    first, second = np.empty(5, np.float32), np.empty(5, np.float32)
    kernels._box_muller(np.full(5, 0.5, np.float32), angles, first, second)
    np.testing.assert_allclose(first, [-1, 0, 1, 0, -1], atol=1e-6)
    np.testing.assert_allclose(second, [0, -1, 0, 1, 0], atol=1e-6)


@pytest.mark.parametrize("code", range(5))
def test_a_draw_is_a_function_of_its_index_alone(code: int) -> None:
    whole = compiled_draws(np.arange(1000), 9, proposal=code)
    scattered = np.random.default_rng(0).permutation(1000)[:333]
    np.testing.assert_array_equal(compiled_draws(scattered, 9, proposal=code), whole[scattered])
    np.testing.assert_array_equal(compiled_draws(np.arange(1000), 5, proposal=code), whole[:, :5])
    for width in (1, 64, 100, 512):
        tile, words, floats = (
            np.empty((9, width), np.float32),
            np.empty((4, width), np.int32),
            np.empty((4, width), np.float32),
        )
        kernels.draw_tile(np.arange(width), 0, np.uint64(7), code, words, floats, tile)
        np.testing.assert_array_equal(tile.T, whole[:width])


@pytest.mark.parametrize(
    ("classes", "r"), [(3, 1), (3, 2), (4, 4), (5, 7), (6, 1), (7, 3), (8, 12), (10, 9), (13, 6), (33, 31)]
)
@pytest.mark.parametrize("width", [1, 7, 128])
def test_affine_is_the_float64_product_for_awkward_shapes(classes: int, r: int, width: int) -> None:
    rng = np.random.default_rng(classes * r)
    A, b, tile = (rng.standard_normal(s).astype(np.float32) for s in ((classes, r), (classes,), (r, width)))
    got = np.full((classes, width), np.nan, np.float32)
    kernels.affine(A, b, tile, got)
    expected = A.astype(np.float64) @ tile.astype(np.float64) + b[:, None].astype(np.float64)
    scale = np.abs(A).astype(np.float64) @ np.abs(tile) + np.abs(b)[:, None]
    assert np.all(np.abs(got - expected) <= (r + 1) * 2.0**-23 * scale)


@pytest.mark.parametrize("classes", [5, 9, 11])
def test_equal_rows_get_bitwise_equal_logits_wherever_they_stand(classes: int) -> None:
    rng = np.random.default_rng(classes)
    A = rng.standard_normal((classes, 11)).astype(np.float32)
    A[classes - 1] = A[2] = A[0]
    b = np.zeros(classes, np.float32)
    tile = rng.standard_normal((11, 256)).astype(np.float32)
    logits = np.empty((classes, 256), np.float32)
    kernels.affine(A, b, tile, logits)
    np.testing.assert_array_equal(logits[0], logits[classes - 1])
    np.testing.assert_array_equal(logits[0], logits[2])


def best_two(logits: Floats) -> tuple[Floats, Floats, Floats]:
    first, second = (np.empty(logits.shape[1], np.float32) for _ in range(2))
    label = np.empty(logits.shape[1], np.int32)
    kernels.top_two(logits, first, second, label)
    return first, second, label


def test_top_two_is_a_sort_with_ties_to_the_lowest_index() -> None:
    rng = np.random.default_rng(0)
    for classes in (3, 4, 10):
        logits = rng.integers(-2, 3, (classes, 500)).astype(np.float32)  # ties abound
        first, second, label = best_two(logits)
        ordered = np.sort(logits, axis=0)
        np.testing.assert_array_equal(first, ordered[-1])
        np.testing.assert_array_equal(second, ordered[-2])
        np.testing.assert_array_equal(label, logits.argmax(0))


def kernel_sureness(logits: Floats, score: str) -> Floats:
    """Scores of the columns, through the kernels that the stream uses."""
    first, second, label = best_two(logits)
    width = logits.shape[1]
    floats, total, weighted = (np.empty(s, np.float32) for s in ((4, width), (width,), (width,)))
    kernels.rest_sums(logits, width, second, label, floats, total, weighted)
    parts = zip(first, second, total, weighted, strict=True)
    return np.array([kernels.sureness(SCORES[score], *part) for part in parts], np.float32)


def awkward_logits() -> Floats:
    """Columns of logits: ordinary, tiny and huge norms, narrow and wide gaps, exact ties, far losers."""
    rng = np.random.default_rng(4)
    columns = [rng.standard_normal((7, 200)) * scale for scale in (1e-6, 1e-3, 1.0, 30.0, 1e4, 1e15, 1e30)]
    gaps, far = np.meshgrid([0.0, 1e-7, 1e-3, 1.0, 50.0, 200.0, 1e6], [0.0, 1.0, 60.0, 300.0])
    columns.append(np.stack([gaps.ravel(), 0 * gaps.ravel(), *(-far.ravel() for _ in range(5))]))
    return np.concatenate(columns, axis=1).astype(np.float32)


@pytest.mark.parametrize("score", SCORES)
def test_sureness_is_the_float64_score_however_extreme_the_logits(score: str) -> None:
    logits = awkward_logits()
    got = kernel_sureness(logits, score)
    assert np.isfinite(got).all()
    with np.errstate(divide="ignore"):
        exact = exact_sureness(logits.T.astype(np.float64), score)
    known = np.isfinite(exact)  # beyond 700 nats the entropy itself underflows in float64
    assert known.mean() > 0.5
    np.testing.assert_allclose(got[known], exact[known], rtol=3e-6, atol=3e-6)


def test_bounds_enclose_the_log_odds_closely_however_extreme_the_logits() -> None:
    logits = awkward_logits()
    first, second, _ = best_two(logits)
    width = logits.shape[1]
    floats, least, most = (np.empty(s, np.float32) for s in ((4, width), (width,), (width,)))
    kernels.bound_log_odds(logits, first, second, floats, least, most)
    score = kernel_sureness(logits, "softmax")
    assert np.all((least <= score) & (score <= most))
    moderate = np.abs(score) < 100
    assert moderate.mean() > 0.5
    assert np.max((most - least)[moderate]) < 0.13


@pytest.mark.parametrize("score", SCORES)
def test_distinct_gaps_never_tie_and_never_change_places(score: str) -> None:
    gaps = np.concatenate([np.arange(1, 40) * 1e-7, np.geomspace(1e-5, 50, 200), np.linspace(51, 400, 200)])
    logits = np.stack([gaps, 0 * gaps, 0 * gaps - 90, 0 * gaps - 95]).astype(np.float32)
    assert np.all(np.diff(logits[0]) > 0)
    scores = kernel_sureness(logits, score).astype(np.float64)
    seen = {"softmax": 0.0, "energy": 1e-5, "entropy": 2e-3}[score]  # the entropy is flat around its maximum
    assert np.all(np.diff(scores[gaps >= seen]) > 0)


def small_head() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(1)
    A = np.eye(6, 5) + 0.2 * rng.standard_normal((6, 5))
    return A.astype(np.float32), (0.2 * rng.standard_normal(6)).astype(np.float32)


def scan(
    start: int, stop: int, *, width: int = 128, score: str = "softmax", limits: tuple[Floats, Floats] | None = None
) -> tuple[Floats, dict[int, tuple[int, float, int]]]:
    """Counts per class and, for each emitted index, its label, score and rank."""
    A, b = small_head()
    high, low = limits or (np.full(6, -np.inf, np.float32), np.full(6, np.inf, np.float32))
    n, counts = stop - start, np.zeros(6, np.int64)
    offset, label, rank = (np.empty(n, np.int32) for _ in range(3))
    value = np.empty(n, np.float32)
    found = kernels.scan_draws(
        start, stop, A, b, np.uint64(7), 0, SCORES[score], high, low, width, counts, offset, label, value, rank
    )
    rows = zip(offset[:found] + start, label[:found], value[:found], rank[:found], strict=True)
    return counts, {int(i): (int(k), float(q), int(t)) for i, k, q, t in rows}


def test_a_scan_labels_scores_and_ranks_every_draw_as_float64_does() -> None:
    counts, emitted = scan(0, 3000)
    A, b = small_head()
    logits = compiled_draws(np.arange(3000), 5).astype(np.float64) @ A.T.astype(np.float64) + b
    assert list(emitted) == list(range(3000))
    labels = np.array([emitted[i][0] for i in range(3000)])
    np.testing.assert_array_equal(labels, logits.argmax(1))
    np.testing.assert_array_equal(counts, np.bincount(labels, minlength=6))
    np.testing.assert_allclose([emitted[i][1] for i in range(3000)], exact_sureness(logits, "softmax"), atol=5e-6)
    assert [emitted[i][2] for i in range(3000)] == [int((labels[:i] == labels[i]).sum()) for i in range(3000)]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("width", [1, 33, 64, 512])
def test_a_draw_scores_bitwise_the_same_in_any_tile_and_chunk(score: str, width: int) -> None:
    _, whole = scan(0, 1500, score=score)
    _, head = scan(0, 701, width=width, score=score)
    _, tail = scan(701, 1500, width=width, score=score)
    assert {i: found[:2] for i, found in (head | tail).items()} == {i: found[:2] for i, found in whole.items()}


@pytest.mark.parametrize("score", SCORES)
def test_limits_hide_a_draw_exactly_when_it_lies_between_them(score: str) -> None:
    counts, whole = scan(0, 4000, score=score)
    values = [np.array([q for k, q, _ in whole.values() if k == c]) for c in range(6)]
    high = np.array([np.sort(v)[-5] for v in values], np.float32)
    low = np.array([np.sort(v)[4] for v in values], np.float32)
    again, emitted = scan(0, 4000, score=score, limits=(high, low))
    np.testing.assert_array_equal(counts, again)
    assert emitted == {
        i: found for i, found in whole.items() if found[1] >= high[found[0]] or found[1] <= low[found[0]]
    }
    assert len(emitted) == 6 * 10
