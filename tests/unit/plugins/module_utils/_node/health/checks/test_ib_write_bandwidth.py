# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bandwidth of each adapter: both ends of a run count, and each adapter for itself."""

from __future__ import annotations

import pathlib
import time

import pytest
from stand_ins.infiniband import put_port, put_ports_of
from stand_ins.sized_machine import SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    UNKNOWN,
    WARN,
    CannotTell,
    Context,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_write_bandwidth import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.deep import perftest

from ..deep_playing import Said, Tool, is_idle, machine, recorded
from ..playing import ND_A100, context

PROGRAM = "usr/bin/ib_write_bw"
WELL = recorded("ib_write_bw.txt")
DEVICES = [f"mlx5_ib{number}" for number in range(8)]


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    is_idle(monkeypatch)
    monkeypatch.setattr(perftest, "_PAUSE_S", 0.001)


class Perftest(Tool):
    """Servers and clients: what those of one adapter say, and all others well."""

    def __init__(self, device: str = "", server: str | Said = WELL, client: str | Said = WELL) -> None:
        super().__init__(self.say)
        self.device, self.server, self.client = device, server, client

    def say(self, words: list[str]) -> str | Said:
        """Answer as the one or the other."""
        mine = not self.device or words[words.index("-d") + 1] == self.device
        if not mine:
            return WELL
        return self.client if words[-1] == "127.0.0.1" else self.server


def played(path: pathlib.Path, tool: Tool, size: str = ND_A100, **settings: object) -> Context:
    """A machine with all adapters up."""
    tree = machine(path, size, PROGRAM)
    put_ports_of(path, size)
    return context(tree, tool, size=size, **settings)  # type: ignore[arg-type]


def test_passes_with_each_adapter_for_itself_from_the_gpu_near_it(tmp_path: pathlib.Path) -> None:
    tool = Perftest()
    answer = CHECK.measure(played(tmp_path, tool))
    assert answer.findings == ()
    assert [(one.name, one.device, one.value, one.limit) for one in answer.readings] == [
        ("ib_gdr_write_bandwidth", device, 196.57, 180) for device in DEVICES
    ]
    assert answer.good == "8 adapters, the slowest with 196.6 Gb/s, memory of the GPUs"
    assert len(tool.commands) == 16
    assert {words[words.index("-d") + 1]: words[words.index("--report_gbits") + 1] for words in tool.commands} == {
        device: f"--use_cuda={number}" for number, device in enumerate(DEVICES)
    }
    ports = {words[words.index("-p") + 1] for words in tool.commands}
    assert all(1024 < int(port) < 65536 for port in ports)


@pytest.mark.parametrize(
    ("size", "bytes_", "limit"),
    [("Standard_ND96isr_MI300X_v5", "1048576", 390), ("Standard_ND40rs_v2", "65536", 78)],
)
def test_memory_of_the_host_is_measured_as_its_limit_was(
    tmp_path: pathlib.Path, size: str, bytes_: str, limit: int
) -> None:
    tool = Perftest(server=WELL.replace("8388608", bytes_), client=WELL.replace("8388608", bytes_))
    # What hangs where in an MI300X, nobody says: any machine's adapters do.
    tree = machine(tmp_path, ND_A100, PROGRAM)
    put_port(tmp_path, "mlx5_ib0")
    answer = CHECK.measure(context(tree, tool, size=size))
    assert tool.commands
    for words in tool.commands:
        assert words[words.index("-s") + 1] == bytes_
        assert words[words.index("-q") + 1] == "2"
    assert {one.limit for one in answer.readings} == {limit}


def test_fails_for_the_one_adapter_below_the_limit(tmp_path: pathlib.Path) -> None:
    answer = CHECK.measure(played(tmp_path, Perftest("mlx5_ib3", client=WELL.replace("196.57", "94.10"))))
    assert [(one.verdict, one.device, one.summary) for one in answer.findings] == [
        (FAIL, "mlx5_ib3", "the bandwidth of writes of mlx5_ib3 is 94.1 Gb/s, and should be at least 180")
    ]
    assert len(answer.readings) == 8


def test_fails_where_the_server_fails_whatever_the_client_prints(tmp_path: pathlib.Path) -> None:
    tool = Perftest("mlx5_ib0", server=(1, "", " Completion with error at server\n Failed to complete run_iter_bw\n"))
    answer = CHECK.measure(played(tmp_path, tool))
    assert [(one.verdict, one.device) for one in answer.findings] == [(FAIL, "mlx5_ib0")]
    assert "the server of ib_write_bw on mlx5_ib0 failed (exit status 1)" in answer.findings[0].summary
    assert [one.device for one in answer.readings] == DEVICES[1:]


def test_fails_where_the_client_crashes_after_it_printed(tmp_path: pathlib.Path) -> None:
    answer = CHECK.measure(played(tmp_path, Perftest("mlx5_ib7", client=(139, WELL, "Segmentation fault\n"))))
    assert [(one.verdict, one.device) for one in answer.findings] == [(FAIL, "mlx5_ib7")]
    assert [one.device for one in answer.readings] == DEVICES[:7]


@pytest.mark.parametrize("said", ["", WELL.split(" 8388608")[0], WELL.replace("8388608", "65536")])
def test_cannot_measure_with_an_output_without_the_figure(tmp_path: pathlib.Path, said: str) -> None:
    answer = CHECK.measure(played(tmp_path, Perftest("mlx5_ib2", client=said)))
    assert [(one.verdict, one.device) for one in answer.findings] == [(UNKNOWN, "mlx5_ib2")]
    assert "printed no bandwidth" in answer.findings[0].summary


@pytest.mark.parametrize("words", ["Couldn't listen to port 18515", "bind: Address already in use"])
def test_cannot_measure_where_the_port_is_in_use(tmp_path: pathlib.Path, words: str) -> None:
    answer = CHECK.measure(played(tmp_path, Perftest("mlx5_ib4", server=(1, "", f"{words}\n"))))
    assert [(one.verdict, one.device) for one in answer.findings] == [(UNKNOWN, "mlx5_ib4")]
    assert "is in use" in answer.findings[0].summary
    assert [one.device for one in answer.readings] == DEVICES[:4] + DEVICES[5:], "another's server may have answered"


def test_a_server_that_is_slow_to_listen_is_waited_for(tmp_path: pathlib.Path) -> None:
    tried: list[str] = []

    def say(words: list[str]) -> str | Said:
        if words[-1] != "127.0.0.1":
            while len(tried) < 4:
                time.sleep(0.001)
            return WELL
        tried.append(words[2])
        return WELL if len(tried) > 3 else (1, "", "Couldn't connect to 127.0.0.1:4711\n")

    given = played(tmp_path, Tool(say))
    for device in DEVICES[1:]:
        put_port(tmp_path, device, state="DOWN")
    answer = CHECK.measure(given)
    assert answer.findings == ()
    assert len(tried) == 4


@pytest.mark.parametrize(
    ("server", "verdict", "words"),
    [
        (WELL, UNKNOWN, "ib_write_bw did not reach its own server for mlx5_ib5: Couldn't connect to 127.0.0.1:4711"),
        ((1, "", "bad\n"), FAIL, "the server of ib_write_bw on mlx5_ib5 failed (exit status 1): bad"),
    ],
)
def test_a_server_that_is_not_reached_is_unknown_unless_it_failed(
    tmp_path: pathlib.Path, server: str | Said, verdict: str, words: str
) -> None:
    tool = Perftest("mlx5_ib5", server, (1, "", "Couldn't connect to 127.0.0.1:4711\n"))
    (finding,) = CHECK.measure(played(tmp_path, tool)).findings
    assert (finding.verdict, finding.summary) == (verdict, words)


def test_a_failure_says_more_than_a_program_that_cannot_be_started(tmp_path: pathlib.Path) -> None:
    cannot = (1, "", "error while loading shared libraries: libibverbs.so.1\n")
    for server, client in ((cannot, (1, "", "bad\n")), ((1, "", "bad\n"), cannot)):
        (finding,) = CHECK.measure(played(tmp_path, Perftest("mlx5_ib5", server, client))).findings
        assert (finding.verdict, finding.summary.endswith("failed (exit status 1): bad")) == (FAIL, True)


def test_the_gpu_near_an_adapter_is_told_by_the_places_of_both_on_their_numa_node(tmp_path: pathlib.Path) -> None:
    given = played(tmp_path, Perftest())
    near = [perftest.gpu_near(given, port) for port in perftest.active_ports(given)]
    assert near == list(range(8))
    tree = SizedMachine(tmp_path)
    # A switch of NVIDIA's and a GPU of AMD's are none of its GPUs, and a disk is no adapter.
    tree.device("0000:00:01.0", 0x068000, 0x10DE, 1)
    tree.device("0000:00:02.0", 0x030200, 0x1002, 1)
    tree.device("0000:00:03.0", 0x010802, 0x1414, 1)
    assert [perftest.gpu_near(given, port) for port in perftest.active_ports(given)] == near


def test_cannot_measure_an_adapter_without_a_gpu_near_it(tmp_path: pathlib.Path) -> None:
    given = played(tmp_path, Perftest())
    tree = SizedMachine(tmp_path)
    busids = {port.device: port.busid or "" for port in perftest.active_ports(given)}
    tree.on_numa_node(busids["mlx5_ib0"], 9)
    tree.device(busids["mlx5_ib1"], 0x020000, 0x15B3, 1)
    answer = CHECK.measure(given)
    assert [(one.verdict, one.summary) for one in answer.findings] == [
        (UNKNOWN, f"no GPU is near mlx5_ib{number}, so it was not measured") for number in (0, 1)
    ]
    assert len(answer.readings) == 6


def test_a_perftest_without_cuda_measures_memory_of_the_host_and_says_so(tmp_path: pathlib.Path) -> None:
    def say(words: list[str]) -> str | Said:
        return (1, " Unsupported memory type\n", "") if any("cuda" in word for word in words) else WELL

    answer = CHECK.measure(played(tmp_path, Tool(say)))
    assert [one.verdict for one in answer.findings] == [WARN]
    assert "was built without CUDA" in answer.findings[0].summary
    assert {(one.name, one.limit) for one in answer.readings} == {("ib_write_bandwidth", None)}
    assert answer.good == "8 adapters, the slowest with 196.6 Gb/s, memory of the host"


def test_the_limit_of_memory_of_the_host_has_its_own_size_of_messages(tmp_path: pathlib.Path) -> None:
    size = "Standard_ND40rs_v2"
    tree = machine(tmp_path, size, PROGRAM)
    put_port(tmp_path, "mlx5_ib0", gbps=100)
    tool = Tool(WELL.replace("8388608", "65536").replace("196.57", "77.90"))
    (finding,) = CHECK.measure(context(tree, tool, size=size)).findings
    assert (finding.verdict, "should be at least 78" in finding.summary) == (FAIL, True)
    assert tool.commands[0][tool.commands[0].index("-s") + 1] == "65536"


def test_cannot_measure_without_an_active_port_or_the_program(tmp_path: pathlib.Path) -> None:
    given = played(tmp_path, Perftest())
    for device in DEVICES:
        put_port(tmp_path, device, state="INIT")
    with pytest.raises(CannotTell, match="none of 8 InfiniBand ports is active"):
        CHECK.measure(given)
    put_ports_of(tmp_path, ND_A100)
    (tmp_path / PROGRAM).unlink()
    with pytest.raises(CannotTell, match="ib_write_bw"):
        CHECK.measure(given)


def test_a_run_that_does_not_end_is_unknown_and_a_failure_the_second_time(tmp_path: pathlib.Path) -> None:
    given = played(tmp_path, Perftest("mlx5_ib1", server=(124, "", ""), client=(124, "", "")))
    assert [one.verdict for one in CHECK.measure(given).findings] == [UNKNOWN]
    assert [one.verdict for one in CHECK.measure(given).findings] == [FAIL]


def test_free_ports_are_free() -> None:
    assert 1024 < perftest.free_port() < 65536
