# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bandwidth and latency of the adapters, and what perftest prints."""

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
    CannotMeasure,
    Context,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks import ib_perftest
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_perftest import (
    IB_LATENCY,
    IB_WRITE_BANDWIDTH,
    bandwidth_gbps,
    latency_us,
)

from ..deep_playing import Output, Tool, machine, recorded, set_compute_processes
from ..playing import ND_A100, context


def test_bandwidth_in_gigabits_and_in_mebibytes() -> None:
    text = recorded("ib_write_bw.txt")
    assert bandwidth_gbps(text, 8388608) == 196.57
    mebibytes = text.replace("Gb/sec", "MiB/sec").replace("196.57", "23433.21")
    assert bandwidth_gbps(mebibytes, 8388608) == pytest.approx(196.57, abs=0.01)


def test_latency_is_the_typical_value() -> None:
    assert latency_us(recorded("ib_write_lat.txt")) == 1.56


def test_an_output_without_the_row_of_the_size_has_no_value() -> None:
    text = recorded("ib_write_bw.txt")
    assert bandwidth_gbps(text, 65536) is None
    assert bandwidth_gbps(text.split(" 8388608 ")[0], 8388608) is None
    assert bandwidth_gbps("", 8388608) is None
    assert bandwidth_gbps(text.replace("196.57", "0.00  "), 8388608) is None
    assert latency_us("") is None
    assert latency_us(recorded("ib_write_lat.txt").split(" 2  ")[0]) is None


def test_a_row_that_is_cut_off_is_ignored() -> None:
    text = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]\n 8388608    5000    196.60"
    assert bandwidth_gbps(text, 8388608) is None
    assert bandwidth_gbps(f"{text}    196.57\n", 8388608) == 196.57
    assert latency_us("t_typical[usec]\n 2 1000 1.53 5.31") is None


@pytest.mark.parametrize(
    ("output", "value"), [("1.56", 1.56), ("0.00", None), ("nan", None), ("inf", None), ("-1", None)]
)
def test_a_value_is_a_number_above_zero(output: str, value: float | None) -> None:
    assert latency_us(f"t_typical[usec]\n 2 1000 1.53 5.31 {output}\n") == value
    assert bandwidth_gbps(f"BW average[Gb/sec]\n 2 1000 1.6 {output}\n", 2) == value


IB_WRITE_BANDWIDTH_PROGRAM = "usr/bin/ib_write_bw"
IB_WRITE_BANDWIDTH_OUTPUT = recorded("ib_write_bw.txt")
DEVICES = [f"mlx5_ib{number}" for number in range(8)]


@pytest.fixture(autouse=True)
def _idle_ib_write_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    set_compute_processes(monkeypatch)
    monkeypatch.setattr(ib_perftest, "_PAUSE_S", 0.001)


class Perftest(Tool):
    """Servers and clients: those of one adapter give the answers of a test, all others good ones."""

    def __init__(
        self,
        device: str = "",
        server: str | Output = IB_WRITE_BANDWIDTH_OUTPUT,
        client: str | Output = IB_WRITE_BANDWIDTH_OUTPUT,
    ) -> None:
        super().__init__(self.respond)
        self.device, self.server, self.client = device, server, client

    def respond(self, words: list[str]) -> str | Output:
        """Answer as server or client."""
        mine = not self.device or words[words.index("-d") + 1] == self.device
        if not mine:
            return IB_WRITE_BANDWIDTH_OUTPUT
        return self.client if words[-1] == "127.0.0.1" else self.server


def context_with(path: pathlib.Path, tool: Tool, size: str = ND_A100, **settings: object) -> Context:
    """Return the context of a machine with all adapters up."""
    tree = machine(path, size, IB_WRITE_BANDWIDTH_PROGRAM)
    put_ports_of(path, size)
    return context(tree, tool, size=size, **settings)  # type: ignore[arg-type]


def test_ib_write_bandwidth_passes_with_each_adapter_and_its_gpu(tmp_path: pathlib.Path) -> None:
    tool = Perftest()
    answer = IB_WRITE_BANDWIDTH.measure(context_with(tmp_path, tool))
    assert answer.findings == ()
    assert [(one.name, one.device, one.value, one.limit) for one in answer.readings] == [
        ("ib_gdr_write_bandwidth", device, 196.57, 180) for device in DEVICES
    ]
    assert answer.good == "8 adapters, the slowest with 196.6 Gb/s, in GPU memory"
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
def test_ib_write_bandwidth_host_memory_is_measured_as_for_its_limit(
    tmp_path: pathlib.Path, size: str, bytes_: str, limit: int
) -> None:
    tool = Perftest(
        server=IB_WRITE_BANDWIDTH_OUTPUT.replace("8388608", bytes_),
        client=IB_WRITE_BANDWIDTH_OUTPUT.replace("8388608", bytes_),
    )
    # The addresses of an MI300X's adapters are not known, so it gets those of another size.
    tree = machine(tmp_path, ND_A100, IB_WRITE_BANDWIDTH_PROGRAM)
    put_port(tmp_path, "mlx5_ib0")
    answer = IB_WRITE_BANDWIDTH.measure(context(tree, tool, size=size))
    assert tool.commands
    for words in tool.commands:
        assert words[words.index("-s") + 1] == bytes_
        assert words[words.index("-q") + 1] == "2"
    assert {one.limit for one in answer.readings} == {limit}


def test_ib_write_bandwidth_fails_for_the_one_adapter_below_the_limit(tmp_path: pathlib.Path) -> None:
    answer = IB_WRITE_BANDWIDTH.measure(
        context_with(tmp_path, Perftest("mlx5_ib3", client=IB_WRITE_BANDWIDTH_OUTPUT.replace("196.57", "94.10")))
    )
    assert [(one.verdict, one.device, one.summary) for one in answer.findings] == [
        (FAIL, "mlx5_ib3", "the write bandwidth of mlx5_ib3 is 94.1 Gb/s, but should be at least 180")
    ]
    assert len(answer.readings) == 8


def test_ib_write_bandwidth_fails_if_only_the_server_fails(tmp_path: pathlib.Path) -> None:
    tool = Perftest("mlx5_ib0", server=(1, "", " Completion with error at server\n Failed to complete run_iter_bw\n"))
    answer = IB_WRITE_BANDWIDTH.measure(context_with(tmp_path, tool))
    assert [(one.verdict, one.device) for one in answer.findings] == [(FAIL, "mlx5_ib0")]
    assert "the server of ib_write_bw on mlx5_ib0 failed (exit status 1)" in answer.findings[0].summary
    assert [one.device for one in answer.readings] == DEVICES[1:]


def test_ib_write_bandwidth_fails_if_the_client_crashes_after_its_output(tmp_path: pathlib.Path) -> None:
    answer = IB_WRITE_BANDWIDTH.measure(
        context_with(tmp_path, Perftest("mlx5_ib7", client=(139, IB_WRITE_BANDWIDTH_OUTPUT, "Segmentation fault\n")))
    )
    assert [(one.verdict, one.device) for one in answer.findings] == [(FAIL, "mlx5_ib7")]
    assert [one.device for one in answer.readings] == DEVICES[:7]


@pytest.mark.parametrize(
    "text", ["", IB_WRITE_BANDWIDTH_OUTPUT.split(" 8388608")[0], IB_WRITE_BANDWIDTH_OUTPUT.replace("8388608", "65536")]
)
def test_ib_write_bandwidth_cannot_measure_without_a_value(tmp_path: pathlib.Path, text: str) -> None:
    answer = IB_WRITE_BANDWIDTH.measure(context_with(tmp_path, Perftest("mlx5_ib2", client=text)))
    assert [(one.verdict, one.device) for one in answer.findings] == [(UNKNOWN, "mlx5_ib2")]
    assert "printed no bandwidth" in answer.findings[0].summary


@pytest.mark.parametrize("words", ["Couldn't listen to port 18515", "bind: Address already in use"])
def test_ib_write_bandwidth_cannot_measure_if_the_port_is_in_use(tmp_path: pathlib.Path, words: str) -> None:
    answer = IB_WRITE_BANDWIDTH.measure(context_with(tmp_path, Perftest("mlx5_ib4", server=(1, "", f"{words}\n"))))
    assert [(one.verdict, one.device) for one in answer.findings] == [(UNKNOWN, "mlx5_ib4")]
    assert "is in use" in answer.findings[0].summary
    assert [one.device for one in answer.readings] == DEVICES[:4] + DEVICES[5:], "another server may have answered"


def test_ib_write_bandwidth_waits_for_a_server_that_is_slow_to_listen(tmp_path: pathlib.Path) -> None:
    tried: list[str] = []

    def respond(words: list[str]) -> str | Output:
        if words[-1] != "127.0.0.1":
            while len(tried) < 4:
                time.sleep(0.001)
            return IB_WRITE_BANDWIDTH_OUTPUT
        tried.append(words[2])
        return IB_WRITE_BANDWIDTH_OUTPUT if len(tried) > 3 else (1, "", "Couldn't connect to 127.0.0.1:4711\n")

    given = context_with(tmp_path, Tool(respond))
    for device in DEVICES[1:]:
        put_port(tmp_path, device, state="DOWN")
    answer = IB_WRITE_BANDWIDTH.measure(given)
    assert answer.findings == ()
    assert len(tried) == 4


@pytest.mark.parametrize(
    ("server", "verdict", "words"),
    [
        (
            IB_WRITE_BANDWIDTH_OUTPUT,
            UNKNOWN,
            "ib_write_bw could not connect to its own server for mlx5_ib5: Couldn't connect to 127.0.0.1:4711",
        ),
        ((1, "", "bad\n"), FAIL, "the server of ib_write_bw on mlx5_ib5 failed (exit status 1): bad"),
    ],
)
def test_ib_write_bandwidth_fails_only_if_the_unreachable_server_failed(
    tmp_path: pathlib.Path, server: str | Output, verdict: str, words: str
) -> None:
    tool = Perftest("mlx5_ib5", server, (1, "", "Couldn't connect to 127.0.0.1:4711\n"))
    (finding,) = IB_WRITE_BANDWIDTH.measure(context_with(tmp_path, tool)).findings
    assert (finding.verdict, finding.summary) == (verdict, words)


def test_ib_write_bandwidth_a_failure_wins_over_one_that_cannot_start(tmp_path: pathlib.Path) -> None:
    cannot = (1, "", "error while loading shared libraries: libibverbs.so.1\n")
    for server, client in ((cannot, (1, "", "bad\n")), ((1, "", "bad\n"), cannot)):
        (finding,) = IB_WRITE_BANDWIDTH.measure(context_with(tmp_path, Perftest("mlx5_ib5", server, client))).findings
        assert (finding.verdict, finding.summary.endswith("failed (exit status 1): bad")) == (FAIL, True)


def test_ib_write_bandwidth_gpu_and_adapter_are_paired_by_order(
    tmp_path: pathlib.Path,
) -> None:
    given = context_with(tmp_path, Perftest())
    near = [ib_perftest.gpu_near(given, port) for port in ib_perftest.active_ports(given)]
    assert near == list(range(8))
    tree = SizedMachine(tmp_path)
    # An NVSwitch and an AMD GPU do not count as NVIDIA GPUs, nor a disk as an adapter.
    tree.device("0000:00:01.0", 0x068000, 0x10DE, 1)
    tree.device("0000:00:02.0", 0x030200, 0x1002, 1)
    tree.device("0000:00:03.0", 0x010802, 0x1414, 1)
    assert [ib_perftest.gpu_near(given, port) for port in ib_perftest.active_ports(given)] == near


def test_ib_write_bandwidth_cannot_measure_an_adapter_without_a_near_gpu(tmp_path: pathlib.Path) -> None:
    given = context_with(tmp_path, Perftest())
    tree = SizedMachine(tmp_path)
    busids = {port.device: port.busid or "" for port in ib_perftest.active_ports(given)}
    tree.on_numa_node(busids["mlx5_ib0"], 9)
    tree.device(busids["mlx5_ib1"], 0x020000, 0x15B3, 1)
    answer = IB_WRITE_BANDWIDTH.measure(given)
    assert [(one.verdict, one.summary) for one in answer.findings] == [
        (UNKNOWN, f"no GPU is near mlx5_ib{number}, so it was not measured") for number in (0, 1)
    ]
    assert len(answer.readings) == 6


def test_ib_write_bandwidth_without_cuda_host_memory_is_measured(
    tmp_path: pathlib.Path,
) -> None:
    def respond(words: list[str]) -> str | Output:
        return (
            (1, " Unsupported memory type\n", "")
            if any("cuda" in word for word in words)
            else IB_WRITE_BANDWIDTH_OUTPUT
        )

    answer = IB_WRITE_BANDWIDTH.measure(context_with(tmp_path, Tool(respond)))
    assert [one.verdict for one in answer.findings] == [WARN]
    assert "was built without CUDA" in answer.findings[0].summary
    assert {(one.name, one.limit) for one in answer.readings} == {("ib_write_bandwidth", None)}
    assert answer.good == "8 adapters, the slowest with 196.6 Gb/s, in host memory"


def test_ib_write_bandwidth_the_host_memory_limit_has_its_message_size(
    tmp_path: pathlib.Path,
) -> None:
    size = "Standard_ND40rs_v2"
    tree = machine(tmp_path, size, IB_WRITE_BANDWIDTH_PROGRAM)
    put_port(tmp_path, "mlx5_ib0", gbps=100)
    tool = Tool(IB_WRITE_BANDWIDTH_OUTPUT.replace("8388608", "65536").replace("196.57", "77.90"))
    (finding,) = IB_WRITE_BANDWIDTH.measure(context(tree, tool, size=size)).findings
    assert (finding.verdict, "should be at least 78" in finding.summary) == (FAIL, True)
    assert tool.commands[0][tool.commands[0].index("-s") + 1] == "65536"


def test_ib_write_bandwidth_cannot_measure_without_active_port_or_program(tmp_path: pathlib.Path) -> None:
    given = context_with(tmp_path, Perftest())
    for device in DEVICES:
        put_port(tmp_path, device, state="INIT")
    with pytest.raises(CannotMeasure, match="none of 8 InfiniBand ports is active"):
        IB_WRITE_BANDWIDTH.measure(given)
    put_ports_of(tmp_path, ND_A100)
    (tmp_path / IB_WRITE_BANDWIDTH_PROGRAM).unlink()
    with pytest.raises(CannotMeasure, match="ib_write_bw"):
        IB_WRITE_BANDWIDTH.measure(given)


def test_ib_write_bandwidth_a_run_that_hangs_twice_in_a_row_fails(
    tmp_path: pathlib.Path,
) -> None:
    given = context_with(tmp_path, Perftest("mlx5_ib1", server=(124, "", ""), client=(124, "", "")))
    assert [one.verdict for one in IB_WRITE_BANDWIDTH.measure(given).findings] == [UNKNOWN]
    assert [one.verdict for one in IB_WRITE_BANDWIDTH.measure(given).findings] == [FAIL]


def test_ib_write_bandwidth_a_free_port_is_not_privileged() -> None:
    assert 1024 < ib_perftest.free_port() < 65536


IB_LATENCY_PROGRAM = "usr/bin/ib_write_lat"
IB_LATENCY_OUTPUT = recorded("ib_write_lat.txt")
H100 = "Standard_ND96isr_H100_v5"


@pytest.fixture(autouse=True)
def _idle_ib_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    set_compute_processes(monkeypatch)


def slow_tool(figure: str) -> Tool:
    """Return a tool with good values for all adapters except mlx5_ib5."""
    return Tool(lambda words: IB_LATENCY_OUTPUT.replace("1.56 ", figure) if "mlx5_ib5" in words else IB_LATENCY_OUTPUT)


def test_ib_latency_passes_below_the_limit(tmp_path: pathlib.Path) -> None:
    put_ports_of(tmp_path, ND_A100)
    answer = IB_LATENCY.measure(context(machine(tmp_path, ND_A100, IB_LATENCY_PROGRAM), Tool(IB_LATENCY_OUTPUT)))
    assert answer.findings == ()
    assert {(one.name, one.value, one.limit, one.at_most) for one in answer.readings} == {
        ("ib_latency_local", 1.56, 2, True)
    }
    assert len(answer.readings) == 8


def test_ib_latency_fails_above_the_limit(tmp_path: pathlib.Path) -> None:
    put_ports_of(tmp_path, ND_A100)
    answer = IB_LATENCY.measure(context(machine(tmp_path, ND_A100, IB_LATENCY_PROGRAM), slow_tool("2.01 ")))
    assert [(one.verdict, one.device) for one in answer.findings] == [(FAIL, "mlx5_ib5")]


def test_ib_latency_warns_of_the_slowest_if_the_size_has_no_limit(tmp_path: pathlib.Path) -> None:
    put_ports_of(tmp_path, H100)
    answer = IB_LATENCY.measure(context(machine(tmp_path, H100, IB_LATENCY_PROGRAM), slow_tool("1.75 "), size=H100))
    assert [(one.verdict, one.device) for one in answer.findings] == [(WARN, "mlx5_ib5")]


def test_ib_latency_cannot_measure_with_an_empty_output(tmp_path: pathlib.Path) -> None:
    put_ports_of(tmp_path, ND_A100)
    answer = IB_LATENCY.measure(context(machine(tmp_path, ND_A100, IB_LATENCY_PROGRAM), Tool("")))
    assert [one.verdict for one in answer.findings] == [UNKNOWN] * 8
    assert answer.readings == ()
