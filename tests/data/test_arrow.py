"""Tables of strangers: what would fill the memory is refused before it does, and damage has a message."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.data import encode, save_to_disk, table_of, toy
from sfra.core import files
from sfra.core.errors import InputError, UnsafeFileError
from sfra.data import load_data
from sfra.data.arrow import decompressed_bytes, read_column

IMAGES, LABELS = toy(3, 4, size=6)
SMALL = table_of({"image": [encode(image) for image in IMAGES]}, {"label": LABELS.tolist()}, {})
ZEROS = pa.table({"image": [bytes(100_000)] * 100, "label": [0] * 100})
PADDING = 64 * 8


def stream(table: pa.Table, compression: str | None, rows: int | None = None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def sizes(content: bytes) -> list[int]:
    return [decompressed_bytes(message) for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(content))]


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_the_declared_size_is_what_a_batch_takes_in_memory(codec: str) -> None:
    for table in (ZEROS, SMALL):
        (schema, *batches) = sizes(stream(table, codec, rows=7))
        reader = pa.ipc.open_stream(stream(table, codec, rows=7))
        kept: list[pa.RecordBatch] = []
        assert schema == 0
        for size in batches:
            before = pa.total_allocated_bytes()
            kept.append(reader.read_next_batch())
            assert 0 <= pa.total_allocated_bytes() - before <= size + PADDING
            assert size <= kept[-1].nbytes + PADDING
    assert sum(sizes(stream(ZEROS, codec))) > 100 * len(stream(ZEROS, codec))


def test_a_compressed_dictionary_counts_and_what_is_not_compressed_does_not() -> None:
    dictionary = pa.table({"image": pa.array([bytes(1_000_000)] * 3).dictionary_encode(), "label": [0, 1, 2]})
    assert sizes(stream(dictionary, "zstd"))[1] > 1_000_000
    assert sizes(stream(ZEROS, None)) == [0, 0]


@pytest.mark.parametrize("encoded", [False, True], ids=["batch", "dictionary"])
def test_a_column_that_nobody_asks_for_is_not_decompressed_to_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoded: bool
) -> None:
    zeros = pa.array([bytes(500_000)] * len(IMAGES))
    table = SMALL.append_column("zeros", zeros.dictionary_encode() if encoded else zeros)
    save_to_disk(tmp_path / "saved", SMALL)
    (tmp_path / "saved" / "data-00000-of-00001.arrow").write_bytes(stream(table, "zstd"))
    address = f"{tmp_path / 'saved'}?image=image"
    assert load_data(address, split="test").labels.tolist() == LABELS.tolist()  # a few MB hurt nobody
    monkeypatch.setattr(files, "SUSPICIOUS_BYTES", 2**18)
    monkeypatch.setattr(files, "SUSPICIOUS_RATIO", 20)
    with pytest.raises(UnsafeFileError, match=r"\.arrow would grow to 0\.0 GiB, and was not opened"):
        load_data(address, split="test")


def test_damaged_streams_are_refused_with_a_message_wherever_they_are_damaged(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "saved", ZEROS)
    whole = stream(SMALL, "zstd")
    file = tmp_path / "saved" / "data-00000-of-00001.arrow"
    refused = 0
    for place in range(0, len(whole), 5):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            load_data(tmp_path / "saved", split="test")
        except (InputError, UnsafeFileError):
            refused += 1
    assert refused > 20


def test_a_column_of_very_many_equal_labels_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(
        pa.table({"image": [b""] * 10**5, "label": pa.array([0] * 10**5, pa.int8())}), tmp_path / "t.parquet"
    )
    monkeypatch.setattr(files, "SUSPICIOUS_BYTES", 5 * 10**5)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    with pytest.raises(UnsafeFileError, match=r"t\.parquet would grow to"):
        read_column(tmp_path / "t.parquet", "label")


def test_a_table_that_would_fill_the_memory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"image": [encode(IMAGES[0])] * 20_000, "label": [0] * 20_000})
    pq.write_table(table, tmp_path / "test.parquet")
    assert table.nbytes > 200 * (tmp_path / "test.parquet").stat().st_size
    assert len(load_data(tmp_path)) == 20_000  # a few MB hurt nobody
    monkeypatch.setattr(files, "SUSPICIOUS_BYTES", 2**20)
    with pytest.raises(UnsafeFileError, match=r"test\.parquet would grow to"):
        load_data(tmp_path)


def test_labels_that_are_no_text_are_refused_with_a_message(tmp_path: Path) -> None:
    offsets, letters = np.arange(13, dtype=np.int32).tobytes(), b"abc\xff" * 3
    labels = pa.Array.from_buffers(pa.string(), 12, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])
    pq.write_table(pa.table({"image": [encode(image) for image in IMAGES], "label": labels}), tmp_path / "test.parquet")
    with pytest.raises(InputError, match=r"test\.parquet cannot be read\n  expected: a complete table\n.*Unicode"):
        load_data(tmp_path)
