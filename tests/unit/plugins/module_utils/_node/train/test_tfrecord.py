# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The TFRecord files of the recipe cosmoflow: written, read, and refused when they are damaged."""

from __future__ import annotations

import gzip
import importlib.util
import pathlib
import struct
import types

import pytest

FILE = pathlib.Path(__file__).resolve().parents[6] / "roles/training/files/trainers/tfrecord.py"


@pytest.fixture(scope="module")
def tfrecord() -> types.ModuleType:
    """The module of the trainers."""
    spec = importlib.util.spec_from_file_location("tfrecord", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_checksum_is_crc_32c(tfrecord: types.ModuleType) -> None:
    # RFC 3720, appendix B.4: 32 bytes of zeros; and the usual check value of CRC-32C.
    for data, crc in ((b"\0" * 32, 0x8A9136AA), (b"123456789", 0xE3069283)):
        masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        assert tfrecord.masked_crc(data) == masked


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_a_sample_survives_writing_and_reading(tfrecord: types.ModuleType, tmp_path: pathlib.Path, name: str) -> None:
    cube = bytes(range(256)) * 64
    data = tfrecord.example({"x": cube, "y": [0.5, -1.0, 0.25, 2.0]})
    path = str(tmp_path / name)
    tfrecord.write_records(path, iter([data, data]))
    read = list(tfrecord.records(path, check_data=True))
    assert len(read) == 2
    assert tfrecord.features_of(read[0]) == {"x": cube, "y": [0.5, -1.0, 0.25, 2.0]}


def test_floats_that_are_not_packed_are_read_too(tfrecord: types.ModuleType) -> None:
    listed = b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.0, 2.0))
    feature = b"\x12" + bytes([len(listed)]) + listed
    entry = b"\x0a\x01y\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    assert tfrecord.features_of(b"\x0a" + bytes([len(features)]) + features) == {"y": [1.0, 2.0]}


@pytest.mark.parametrize("position", [0, 9, 20, -2])
def test_a_changed_byte_is_found(tfrecord: types.ModuleType, tmp_path: pathlib.Path, position: int) -> None:
    path = tmp_path / "a.tfrecord"
    tfrecord.write_records(str(path), iter([tfrecord.example({"x": b"cells", "y": [1.0]})]))
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(tfrecord.DamagedRecord, match=r"a\.tfrecord"):
        list(tfrecord.records(str(path), check_data=True))


def test_a_file_that_ends_too_early_is_found(tfrecord: types.ModuleType, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.tfrecord"
    tfrecord.write_records(str(path), iter([tfrecord.example({"x": b"cells", "y": [1.0]})]))
    for length in (5, 14, path.stat().st_size - 1):
        short = tmp_path / f"{length}.tfrecord"
        short.write_bytes(path.read_bytes()[:length])
        with pytest.raises(tfrecord.DamagedRecord, match="ends within a record"):
            list(tfrecord.records(str(short)))


def test_a_compressed_file_is_decompressed(tfrecord: types.ModuleType, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.tfrecord.gz"
    tfrecord.write_records(str(path), iter([b"data"]))
    assert gzip.decompress(path.read_bytes())[12:16] == b"data"
