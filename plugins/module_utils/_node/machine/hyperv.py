# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the Hyper-V host tells its guest: key-value pairs, and with them the name of the physical host."""

from __future__ import annotations

from .root import Root

KVP_POOL = "/var/lib/hyperv/.kvp_pool_3"
"""The pool of key-value pairs from the host (linux, tools/hv/hv_kvp_daemon.c)."""
_KVP_KEY, _KVP_VALUE = 512, 2048
"""Bytes of a record's key and value (linux, include/uapi/linux/hyperv.h: HV_KVP_EXCHANGE_MAX_KEY_SIZE, _VALUE_SIZE)."""
_KVP_HOST = ("PhysicalHostNameFullyQualified", "PhysicalHostName")


def physical_host(root: Root) -> str:
    """Return the name of the machine's physical host; an empty text if unknown."""
    pairs = read_kvp(root)
    return next((pairs[key] for key in _KVP_HOST if pairs.get(key)), "")


def read_kvp(root: Root) -> dict[str, str]:
    """Return the host's key-value pairs; empty if the file cannot be read."""
    try:
        with open(root.at(KVP_POOL), "rb") as file:
            return parse_kvp(file.read())
    except OSError:
        return {}


def parse_kvp(raw: bytes) -> dict[str, str]:
    """Parse a pool: records of fixed length with zero-terminated texts. An incomplete record is ignored."""
    pairs = {}
    for start in range(0, len(raw) - _KVP_KEY - _KVP_VALUE + 1, _KVP_KEY + _KVP_VALUE):
        key, value = raw[start : start + _KVP_KEY], raw[start + _KVP_KEY : start + _KVP_KEY + _KVP_VALUE]
        pairs[_kvp_text(key)] = _kvp_text(value)
    return {key: value for key, value in pairs.items() if key}


def _kvp_text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace").strip()
