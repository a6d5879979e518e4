# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's queries to slurmctld."""

from __future__ import annotations

import pathlib
import socket
from collections.abc import Iterator, Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import node_queries
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.node_queries import (
    NoController,
    prolog_addresses,
    query_addresses,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import PLACEHOLDER_ADDRESS, NodeState

LINE = (
    "NodeName=compute-17 NodeAddr=127.0.0.1 NodeHostName=compute-17 State=DOWN+CLOUD Reason=hpcai: no such instance \n"
)


class Slurmctld:
    """A fake slurmctld that gives one answer, and records the commands."""

    def __init__(self, rc: int = 0, stdout: str = "", stderr: str = "") -> None:
        self.answer = rc, stdout, stderr
        self.commands: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> Result:
        self.commands.append(list(command))
        return Result(tuple(command), *self.answer)


@pytest.fixture
def listening() -> Iterator[str]:
    """A controller on this machine, as HOST:PORT."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def closed() -> str:
    """A controller where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_the_own_address_is_the_one_that_the_controller_sees(listening: str) -> None:
    assert node_queries.find_own_address([listening]) == "127.0.0.1"


def test_the_second_controller_is_used_if_the_first_does_not_answer(listening: str) -> None:
    assert node_queries.find_own_address([closed(), listening]) == "127.0.0.1"


def test_controllers_that_do_not_answer_are_named() -> None:
    away = closed()
    with pytest.raises(NoController, match=f"^{away}: Connection refused$"):
        node_queries.find_own_address([away])
    with pytest.raises(NoController, match="no controller is known"):
        node_queries.find_own_address([])


@pytest.mark.parametrize(
    ("controller", "place"),
    [
        ("10.0.0.4", ("10.0.0.4", 6817)),
        ("ctl:7000", ("ctl", 7000)),
        ("fd00::4", ("fd00::4", 6817)),
        ("[fd00::4]", ("fd00::4", 6817)),
    ],
)
def test_the_default_port_is_slurmctlds(
    monkeypatch: pytest.MonkeyPatch, controller: str, place: tuple[str, int]
) -> None:
    asked: list[object] = []

    def refuse(address: object, timeout: float) -> socket.socket:
        asked.append((address, timeout))
        raise OSError("no")

    monkeypatch.setattr(node_queries.socket, "create_connection", refuse)
    with pytest.raises(NoController):
        node_queries.find_own_address([controller])
    assert asked == [(place, node_queries.CONNECT_S)]


def test_a_node_is_queried_without_slurm_conf_and_with_a_timeout() -> None:
    slurmctld = Slurmctld(0, LINE)
    found = node_queries.query_node("compute-17", ("10.0.0.4", "ctl2"), slurmctld)
    assert found == NodeState("compute-17", ("DOWN", "CLOUD"), "hpcai: no such instance", "127.0.0.1", "compute-17")
    assert [" ".join(command) for command in slurmctld.commands] == [
        "timeout --kill-after=1 8 env SLURM_CONF_SERVER=10.0.0.4,ctl2 scontrol --oneliner show node compute-17"
    ]


def test_an_unknown_node_is_none() -> None:
    assert node_queries.query_node("compute-17", ["ctl"], Slurmctld(1, "Node compute-17 not found\n")) is None


def test_silence_does_not_count_as_an_unknown_node() -> None:
    with pytest.raises(CommandFailed, match="slurmctld at ctl gave no answer in 8 s"):
        node_queries.query_node("compute-17", ["ctl"], Slurmctld(124))
    with pytest.raises(CommandFailed, match="authentication"):
        node_queries.query_node(
            "compute-17", ["ctl"], Slurmctld(1, "", "slurm_load_node error: Protocol authentication error\n")
        )


def test_an_update_returns_whether_the_node_is_known() -> None:
    slurmctld = Slurmctld()
    assert node_queries.update_node("compute-17", ["State=UNDRAIN"], ["ctl"], slurmctld)
    assert slurmctld.commands[0][-3:] == ["update", "NodeName=compute-17", "State=UNDRAIN"]
    unknown = Slurmctld(1, "", "slurm_update error: Invalid node name specified\n")
    assert not node_queries.update_node("compute-17", ["State=UNDRAIN"], ["ctl"], unknown)
    with pytest.raises(CommandFailed, match="Access/permission denied"):
        node_queries.update_node("a", ["b"], ["c"], Slurmctld(1, "", "slurm_update error: Access/permission denied\n"))


CONF = f"""ClusterName=demo
NodeName=gpu-[0-1] NodeAddr=10.0.0.[5-6] CPUs=96
NodeName=gpu-[2-9] NodeAddr={PLACEHOLDER_ADDRESS} State=CLOUD
NodeName=broken-[0 NodeAddr=10.0.0.9
"""


def test_addresses_from_slurmd_override_those_in_slurm_conf(tmp_path: pathlib.Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF, encoding="utf-8")
    environment = {"SLURM_CONF": "/slurm.conf", "SLURM_NODE_ALIASES": "gpu-1:10.9.9.9:vm-1,gpu-2:[fd00::7]:vm-2"}
    assert prolog_addresses(environment, Root(str(tmp_path))) == {
        "gpu-0": "10.0.0.5",
        "gpu-1": "10.9.9.9",
        "gpu-2": "fd00::7",
    }


@pytest.mark.parametrize("environment", [{}, {"SLURM_CONF": "slurm.conf"}, {"SLURM_CONF": "/nowhere"}])
def test_without_slurm_conf_no_address_is_known(tmp_path: pathlib.Path, environment: dict[str, str]) -> None:
    assert prolog_addresses(environment, Root(str(tmp_path))) == {}


def test_all_addresses_are_queried_by_one_command() -> None:
    calls = []

    def run(words: Sequence[str]) -> Result:
        calls.append(list(words))
        return Result(tuple(words), 0, f"gpu-2 10.0.0.42\ngpu-3 {PLACEHOLDER_ADDRESS}\n", "")

    assert query_addresses(["gpu-2", "gpu-3"], ["10.0.0.4"], run) == {"gpu-2": "10.0.0.42"}
    (words,) = calls
    assert "SLURM_CONF_SERVER=10.0.0.4" in words
    assert "--nodes=gpu-2,gpu-3" in words


def test_a_silent_slurmctld_is_an_error() -> None:
    with pytest.raises(CommandFailed, match="gave no answer"):
        query_addresses(["gpu-2"], ["10.0.0.4"], lambda words: Result(tuple(words), 124, "", ""))
