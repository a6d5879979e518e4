# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host's key-value pairs, as hv_kvp_daemon stores them."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.hyperv import physical_host
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root


def record(key: str, value: str) -> bytes:
    """A record as the daemon writes it."""
    return key.encode().ljust(512, b"\0") + value.encode().ljust(2048, b"\0")


def host(folder: pathlib.Path, raw: bytes) -> str:
    """Return the host that a pool contains."""
    pool = folder / "var/lib/hyperv/.kvp_pool_3"
    pool.parent.mkdir(parents=True)
    pool.write_bytes(raw)
    return physical_host(Root(str(folder)))


POOL = record("HostName", "SN1PPF2B0E1234") + record("HostingSystemEditionId", "168")


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (POOL + record("PhysicalHostNameFullyQualified", "SN1PPF2B0E1234"), "SN1PPF2B0E1234"),
        (POOL + record("PhysicalHostName", "B"), "B"),
        (record("PhysicalHostName", "B") + record("PhysicalHostNameFullyQualified", "b.example"), "b.example"),
        (record("PhysicalHostNameFullyQualified", "") + record("PhysicalHostName", "B"), "B"),
        (POOL, ""),
        (b"", ""),
        (record("PhysicalHostName", "B")[:2559], ""),
        (POOL + record("PhysicalHostName", "B") + b"half", "B"),
        (record("PhysicalHostName", "B").replace(b"B" + b"\0" * 8, b"B\0garbage"), "B"),
    ],
)
def test_the_host_is_read_from_the_pool(tmp_path: pathlib.Path, raw: bytes, name: str) -> None:
    assert host(tmp_path, raw) == name


def test_without_the_daemon_the_host_is_unknown(tmp_path: pathlib.Path) -> None:
    assert physical_host(Root(str(tmp_path))) == ""
