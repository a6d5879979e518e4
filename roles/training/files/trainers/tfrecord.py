# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TFRecord files with the two features of CosmoFlow, read and written without TensorFlow. Standard library only.

A record is its length (8 bytes, little endian), a masked CRC-32C of the length, the data, and one of the data. The data
is an ``Example`` in the protocol buffers' wire format: features by name, each a list of bytes or of floats.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Mapping
from typing import IO, Any

_VARINT, _BYTES = 0, 2
_MASK = 0xA282EAD8


class DamagedRecord(ValueError):
    """A file is no TFRecord file, or it is damaged; the message says where."""


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _bit in range(8):
            # The polynomial of CRC-32C, reversed.
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    """Return the masked CRC-32C of some bytes, as TFRecord has it."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + _MASK) & 0xFFFFFFFF


def _open(path: str, mode: str) -> IO[bytes]:
    opener: Any = gzip.open if path.endswith(".gz") else open
    opened: IO[bytes] = opener(path, mode)
    return opened


def records(path: str, check_data: bool = False) -> Iterator[bytes]:
    """Yield the records of a file; one whose name ends with ``.gz`` is decompressed.

    :param check_data: also verify the checksum of the data. It is computed in Python, so it is for small files.
    :raises DamagedRecord: the file is damaged.
    """
    with _open(path, "rb") as file:
        while True:
            head = file.read(12)
            if not head:
                return
            if len(head) != 12:
                raise DamagedRecord(f"{path} ends within a record")
            length, crc = struct.unpack("<QI", head)
            if masked_crc(head[:8]) != crc:
                raise DamagedRecord(f"{path} is no TFRecord file, or is damaged: the checksum of a length is wrong")
            data, rest = file.read(length), file.read(4)
            if len(data) != length or len(rest) != 4:
                raise DamagedRecord(f"{path} ends within a record")
            if check_data and masked_crc(data) != struct.unpack("<I", rest)[0]:
                raise DamagedRecord(f"{path}: the checksum of a record is wrong")
            yield data


def write_records(path: str, contents: Iterator[bytes]) -> None:
    """Write records to a file; one whose name ends with ``.gz`` is compressed."""
    with _open(path, "wb") as file:
        for data in contents:
            length = struct.pack("<Q", len(data))
            file.write(length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data)))


def example(features: Mapping[str, bytes | list[float]]) -> bytes:
    """Return an ``Example``: bytes become a list of one string, numbers a list of floats."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            feature = _field(1, _field(1, value))
        else:
            feature = _field(2, _field(1, struct.pack(f"<{len(value)}f", *value)))
        entries += _field(1, _field(1, name.encode()) + _field(2, feature))
    return _field(1, entries)


def features_of(data: bytes) -> dict[str, bytes | list[float]]:
    """Return the features of an ``Example``.

    :raises DamagedRecord: it is not an ``Example``.
    """
    found: dict[str, bytes | list[float]] = {}
    for _number, features in _fields(data):
        for _entry, entry in _fields(features):
            parts = dict(_fields(entry))
            for kind, listed in _fields(parts.get(2, b"")):
                values = b"".join(value for _one, value in _fields(listed))
                name = parts[1].decode()
                found[name] = values if kind == 1 else list(struct.unpack(f"<{len(values) // 4}f", values))
    return found


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            _value, position = _read_varint(data, position)
            continue
        if kind == 5:
            # Floats that are not packed.
            yield tag >> 3, data[position : position + 4]
            position += 4
            continue
        if kind != _BYTES:
            raise DamagedRecord(f"a field has the wire type {kind}, which no Example has")
        length, position = _read_varint(data, position)
        if position + length > len(data):
            raise DamagedRecord("a field is longer than its record")
        yield tag >> 3, data[position : position + length]
        position += length


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise DamagedRecord("a number ends with its record")
