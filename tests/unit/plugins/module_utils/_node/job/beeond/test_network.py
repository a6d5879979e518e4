# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address of the job's first node, and ports that are in use by a service or by a user."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.job import NodeFailure, UsersFault
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.network import (
    address_of,
    refuse_ports_in_use,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import PLACEHOLDER_ADDRESS

from .conftest import Node

CONF = f"""ClusterName=demo
NodeName=gpu-[0-1] NodeAddr=10.0.0.[5-6] CPUs=96 Feature=beeond
NodeName=gpu-[2-9] NodeAddr={PLACEHOLDER_ADDRESS} State=CLOUD
NodeName=odd NodeAddr=odd.internal
"""


def look_up(answers: dict[str, str], node: Node, name: str, **given: str) -> str:
    """Look up a node's address; slurmctld gives ``answers``."""
    node.file("/spool/slurm.conf", CONF)
    return address_of(name, {"SLURM_CONF": "/spool/slurm.conf", **given}, node.root, lambda one: answers.get(one, ""))


def test_slurmds_node_aliases_come_first(node: Node) -> None:
    aliases = "gpu-1:10.9.9.9:vm-1,gpu-2:[fd00::7]:vm-2"
    assert look_up({}, node, "gpu-1", SLURM_NODE_ALIASES=aliases) == "10.9.9.9"
    assert look_up({}, node, "gpu-2", SLURM_NODE_ALIASES=aliases) == "fd00::7"


def test_slurm_conf_comes_second(node: Node) -> None:
    assert look_up({"gpu-1": "10.1.1.1"}, node, "gpu-1") == "10.0.0.6"
    assert look_up({}, node, "odd") == "odd.internal"


def test_slurmctld_is_asked_for_nodes_without_an_address_in_slurm_conf(node: Node) -> None:
    assert look_up({"gpu-2": "10.0.0.42"}, node, "gpu-2") == "10.0.0.42"
    assert look_up({"gpu-3": "10.0.0.43"}, node, "gpu-3") == "10.0.0.43"


@pytest.mark.parametrize("answer", ["", PLACEHOLDER_ADDRESS])
def test_an_unknown_address_is_an_error(node: Node, answer: str) -> None:
    with pytest.raises(NodeFailure, match="has the address of the job's node gpu-3"):
        look_up({"gpu-3": answer}, node, "gpu-3")


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"


# In the kernel's format. In the second line, the port is the peer's.
LINES = """\
   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {uid:5} 0 6594318 1 0000000094bb738f
   1: 0100007F:2120 0100007F:{port:04X} 01 00000000:00000000 00:00000000 00000000  4009 0 552 1 00000000af16f48a
"""


@pytest.fixture(params=[("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)], ids=["tcp", "udp"])
def port_in_use(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """A port in use, with its protocol."""
    protocol, kind = request.param
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(("0.0.0.0", 0))
        if protocol == "tcp":
            holder.listen(1)
        yield protocol, holder.getsockname()[1]


def machine(folder: Path, name: str, port: int, uid: int) -> Root:
    """A machine whose kernel shows the port's user."""
    (folder / "proc/net").mkdir(parents=True)
    (folder / "proc/net" / name).write_text(f"{HEAD}\n{LINES.format(port=port, uid=uid)}")
    return Root(str(folder))


@pytest.mark.parametrize("family", ["", "6"])
def test_a_port_used_by_a_user_is_not_the_nodes_fault(
    tmp_path: Path, port_in_use: tuple[str, int], family: str
) -> None:
    protocol, port = port_in_use
    with pytest.raises(UsersFault, match=f"^port {port}/{protocol} is used by a process of user 4001$"):
        refuse_ports_in_use([port_in_use], machine(tmp_path, f"{protocol}{family}", port, 4001))


@pytest.mark.parametrize("uid", [0, 998])
def test_a_port_used_by_a_service_is_the_nodes_fault(tmp_path: Path, port_in_use: tuple[str, int], uid: int) -> None:
    protocol, port = port_in_use
    with pytest.raises(NodeFailure, match=f"port {port}/{protocol} is in use, perhaps by another BeeGFS"):
        refuse_ports_in_use([port_in_use], machine(tmp_path, protocol, port, uid))


@pytest.mark.parametrize("is_shown", [False, True])
def test_a_closed_connection_or_a_bound_port_is_not_the_nodes_fault(tmp_path: Path, is_shown: bool) -> None:
    """Users can cause both, and the kernel shows root as the user of one, and nothing of the other."""
    with socket.socket() as holder:
        holder.bind(("0.0.0.0", 0))
        port = holder.getsockname()[1]
        root = machine(tmp_path, "tcp", port, 0)
        path = tmp_path / "proc/net/tcp"
        path.write_text(path.read_text().replace("00000000:0000 0A", "0100007F:2120 06") if is_shown else HEAD)
        with pytest.raises(UsersFault, match=f"^port {port}/tcp is in use, but no service listens on it"):
            refuse_ports_in_use([("tcp", port)], root)


def test_a_free_port_is_accepted(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("0.0.0.0", 0))
        port = free.getsockname()[1]
    refuse_ports_in_use([("tcp", port)], Root(str(tmp_path)))
