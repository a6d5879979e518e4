# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One emulated machine for all of these tests. It boots once, and only tests of boots reboot it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from hardware import qemu
from hardware.image import prepare
from hardware.scratch import Scratch
from hardware.slurm import CORES, DISKS, OneNode
from hardware.vm import ALL, EmulatorCrashed, Machine

LOGS = Path(__file__).resolve().parents[2] / ".test-logs"
FAILED = pytest.StashKey[bool]()
TEST_LIMIT_S = 1200
"""A test may boot twice, and the first test waits for the image, on a host that may be busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, so that any run can exclude them."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.hardware)
            item.add_marker(pytest.mark.timeout(TEST_LIMIT_S))
            # Repeat a test only if the emulator crashed, not if the test failed.
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=EmulatorCrashed))


@pytest.fixture(scope="session")
def started(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The running machine."""
    say = _announcer(request)
    image = prepare(lambda text: say(f"image: {text}"))
    acceleration, reason = qemu.accelerator(image)
    LOGS.mkdir(exist_ok=True)
    console = LOGS / "hardware-console.log"
    console.unlink(missing_ok=True)
    say(f"QEMU {qemu.version()} with {acceleration[0].split(',', maxsplit=1)[0].upper()}: {reason}")
    machine = Machine(image, acceleration, console)
    try:
        machine.start()
        kernel = machine.run("uname -r").strip()
        say(f"kernel {kernel} booted in {machine.boots[0]:.0f} s; console log in .test-logs/{console.name}")
        yield machine
        say(f"{len(machine.boots)} boots of {sum(machine.boots) / len(machine.boots):.0f} s on average")
    finally:
        machine.close()


@pytest.fixture(scope="session")
def second(started: Machine) -> Iterator[OneNode]:
    """A second machine, as a cluster of one node. The first one has started, so image and accelerator work."""
    console = LOGS / "hardware-console-slurm.log"
    console.unlink(missing_ok=True)
    machine = Machine(started.image, started.acceleration, console, CORES)
    try:
        machine.start(without=ALL[DISKS:])
        node = OneNode(machine)
        node.configure()
        yield node
    finally:
        machine.close()


@pytest.fixture(scope="module")
def one_node(second: OneNode) -> Iterator[OneNode]:
    """That cluster. It is paused between the files that use it: eight idle CPUs use a third of a CPU of the host."""
    second.machine.resume()
    yield second
    second.machine.pause()


@pytest.fixture
def machine(started: Machine, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The machine. If a test fails, the end of the journal is saved."""
    yield started
    if request.node.stash.get(FAILED, False):
        name = re.sub(r"\W+", "-", request.node.name).strip("-")
        try:
            text = started.run("journalctl --no-pager --boot | tail -n 300; cat /proc/mdstat /proc/mounts; lsblk", 60)
        except (qemu.EmulatorError, subprocess.SubprocessError) as error:
            text = f"no journal: {error}"
        (LOGS / f"hardware-{name}.log").write_text(text, encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record for the machine's fixture whether the test failed."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture
def scratch(machine: Machine) -> Iterator[Scratch]:
    """Blank NVMe disks, nothing mounted. Preparations of a test are undone afterwards."""
    prepared = Scratch(machine)
    prepared.clear()
    yield prepared
    prepared.undo()


def _announcer(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that prints at once, although pytest captures output."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def say(text: str) -> None:
        if reporter is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.write_line(f"[hardware] {text}")

    return say
