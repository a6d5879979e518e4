# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the Hyper-V host tells the machine about itself: key-value pairs in a file that hypervkvpd keeps."""

from __future__ import annotations

from .root import Root

POOL = "/var/lib/hyperv/.kvp_pool_3"
"""The pool of what the host itself says (linux, tools/hv/hv_kvp_daemon.c)."""
_KEY, _VALUE = 512, 2048
"""Bytes of a record's key and value (linux, include/uapi/linux/hyperv.h: HV_KVP_EXCHANGE_MAX_KEY_SIZE, _VALUE_SIZE)."""
_HOST = ("PhysicalHostNameFullyQualified", "PhysicalHostName")


def physical_host(root: Root) -> str:
    """Return the name of the physical host that the machine runs on; nothing where that is not told."""
    pairs = read_pool(root)
    return next((pairs[key] for key in _HOST if pairs.get(key)), "")


def read_pool(root: Root) -> dict[str, str]:
    """Return what the host says by key; empty where the file cannot be read."""
    try:
        with open(root.at(POOL), "rb") as file:
            return parse(file.read())
    except OSError:
        return {}


def parse(raw: bytes) -> dict[str, str]:
    """Return the pairs in a pool: records of fixed length, texts that end with a zero. Half a record is left out."""
    pairs = {}
    for start in range(0, len(raw) - _KEY - _VALUE + 1, _KEY + _VALUE):
        key, value = raw[start : start + _KEY], raw[start + _KEY : start + _KEY + _VALUE]
        pairs[_text(key)] = _text(value)
    return {key: value for key, value in pairs.items() if key}


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace").strip()
