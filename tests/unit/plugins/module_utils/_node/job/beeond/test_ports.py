# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports that are taken: by a service that is the node's fault, by a user it is not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.job import OwnFailure, UsersFault
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.network import refuse_taken
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
# As the kernel writes them; the second has the port as its peer's.
LINES = """\
   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {uid:5} 0 6594318 1 0000000094bb738f
   1: 0100007F:2120 0100007F:{port:04X} 01 00000000:00000000 00:00000000 00000000  4009 0 552 1 00000000af16f48a
"""


@pytest.fixture(params=[("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)], ids=["tcp", "udp"])
def taken(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """A port that somebody has, with its protocol."""
    protocol, kind = request.param
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(("0.0.0.0", 0))
        if protocol == "tcp":
            holder.listen(1)
        yield protocol, holder.getsockname()[1]


def machine(folder: Path, name: str, port: int, uid: int) -> Root:
    """A machine whose kernel shows who has the port."""
    (folder / "proc/net").mkdir(parents=True)
    (folder / "proc/net" / name).write_text(f"{HEAD}\n{LINES.format(port=port, uid=uid)}")
    return Root(str(folder))


@pytest.mark.parametrize("family", ["", "6"])
def test_a_port_that_a_user_has_is_not_the_nodes_fault(tmp_path: Path, taken: tuple[str, int], family: str) -> None:
    protocol, port = taken
    with pytest.raises(UsersFault, match=f"^port {port}/{protocol} is taken by a process of user 4001$"):
        refuse_taken([taken], machine(tmp_path, f"{protocol}{family}", port, 4001))


@pytest.mark.parametrize("uid", [0, 998])
def test_a_port_that_a_service_has_is_the_nodes_fault(tmp_path: Path, taken: tuple[str, int], uid: int) -> None:
    protocol, port = taken
    with pytest.raises(OwnFailure, match=f"port {port}/{protocol} is taken, by another BeeGFS perhaps"):
        refuse_taken([taken], machine(tmp_path, protocol, port, uid))


def test_a_port_that_nobody_has_is_free(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("0.0.0.0", 0))
        port = free.getsockname()[1]
    refuse_taken([("tcp", port)], Root(str(tmp_path)))
