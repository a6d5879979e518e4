# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node exporter's command line, and the address on which it listens."""

from __future__ import annotations

import re
import socket
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import exporter
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.settings import Exporter, Settings


def test_the_exporter_publishes_nothing_that_users_name() -> None:
    words = exporter.command(Settings(), "10.0.0.7")
    assert "--web.systemd-socket" in words
    assert "--collector.disable-defaults" in words
    (types,) = [word for word in words if word.startswith("--collector.filesystem.fs-types-exclude=")]
    excluded = re.compile(types.partition("=")[2])
    assert all(excluded.search(kind) for kind in ("fuse.sshfs", "fuse", "overlay", "tmpfs", "nfs4", "beegfs", "lustre"))
    assert not any(excluded.search(kind) for kind in ("ext4", "xfs"))


def test_an_old_exporter_gets_the_options_that_it_knows() -> None:
    option = "--collector.diskstats.{}=^(loop|ram|sr|fd)\\d+$"
    old = Settings(exporter=Exporter(old_options=True))
    assert option.format("ignored-devices") in exporter.command(old, "10.0.0.7")
    assert "--web.listen-address=10.0.0.7:9100" in exporter.command(old, "10.0.0.7")
    assert "--web.listen-address=[fd00::7]:9100" in exporter.command(old, "fd00::7")
    assert "--web.systemd-socket" not in exporter.command(old, "10.0.0.7")
    assert option.format("device-exclude") in exporter.command(Settings(), "10.0.0.7")
    assert not any("device-exclude" in word for word in exporter.command(old, "10.0.0.7") if "diskstats" in word)


def test_the_own_address_is_that_of_the_route_to_a_controller() -> None:
    assert exporter.own_address(["no.such.host.invalid", "127.0.0.1"]) == "127.0.0.1"
    assert exporter.own_address(["127.0.0.1:6817"]) == "127.0.0.1"
    with pytest.raises(ConfigError, match="no route"):
        exporter.own_address([])


NAMES = {"ctl": "127.0.1.1", "ctl2": "10.0.0.5", "localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1"}
"""Debian's /etc/hosts on the controller ctl."""
DEFAULT_ROUTE = "192.0.2.1"


@pytest.mark.parametrize(
    ("controllers", "routed", "expected"),
    [
        (["ctl"], True, "10.1.0.4"),
        (["ctl", "ctl2"], True, "10.0.0.4"),
        (["ctl"], False, "127.0.0.1"),
        # The inventory says so.
        (["127.0.0.1:6817"], True, "127.0.0.1"),
        (["localhost"], True, "127.0.0.1"),
    ],
    ids=["own name", "another controller", "no default route", "address", "localhost"],
)
def test_a_controller_does_not_listen_on_loopback_because_of_its_own_name(
    monkeypatch: pytest.MonkeyPatch, controllers: list[str], routed: bool, expected: str
) -> None:
    """The monitor could not reach it, and all metrics of Slurm would be missing."""

    def lookup(host: str, port: int, **_more: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", (NAMES[host], port))]

    class Routed:
        """A socket that knows the routes of this machine, whose addresses are 10.0.0.4 and 10.1.0.4."""

        def __init__(self, family: int, *_more: int) -> None:
            self.family, self.own = family, ""

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_error: object) -> None:
            """Nothing is open."""

        def connect(self, where: tuple[str, int]) -> None:
            if self.family != socket.AF_INET or (where[0] == DEFAULT_ROUTE and not routed):
                raise OSError("Network is unreachable")
            routes = {DEFAULT_ROUTE: "10.1.0.4", "10.0.0.5": "10.0.0.4"}
            self.own = routes.get(where[0], "127.0.0.1")

        def getsockname(self) -> tuple[str, int]:
            return self.own, 0

    monkeypatch.setattr("socket.getaddrinfo", lookup)
    monkeypatch.setattr("socket.socket", Routed)
    assert exporter.own_address(controllers) == expected
