# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One emulated machine: start, reboot, power cut, commands, and changes of its disks through QEMU."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

from hardware import qemu
from hardware.image import Image
from hardware.monitor import Monitor
from hardware.qemu import EmulatorError
from simulator.backends.containers.places import cache_dir

BOOT_TIMEOUT_S = 300.0
ANSWER_TIMEOUT_S = 180.0
"""Until ssh answers, which is longer than any boot takes on a busy host. The complete boot has BOOT_TIMEOUT_S."""
ASK_S = 120.0
"""For one query whether the boot has finished; afterwards it is repeated."""
COMMAND_LIMIT_S = 180.0
HOST = "hardware"
ZEROS = bytes(1 << 16)
ALL = tuple(range(qemu.DISKS))
NO_ANSWER, NO_CONNECTION = 124, 255
"""Exit codes of a command that reached its timeout, and of a failure of ssh."""
EXIT_S = 5.0
"""Until an emulator whose connections broke has ended."""


class CommandFailed(EmulatorError):
    """A command in the machine failed."""


class EmulatorCrashed(EmulatorError):
    """QEMU crashed, or its kernel hung before any test code ran.

    QEMU before 8.1.1 without hardware acceleration sometimes crashes when its memory map changes: in the first seconds
    of a boot, and when a PCI device is added or removed. A processor then writes to a device with the old map
    (tcg_commit is not done on the processor itself; seen as memory_region_dispatch_write without a region).
    """


class Machine:
    """A machine that runs the image, with its own disks. It ends with this process, even if that is killed."""

    def __init__(self, image: Image, acceleration: tuple[str, str], console: Path, cores: int = 1) -> None:
        """Create the machine's files, without starting it.

        :param cores: CPUs on each NUMA node.
        """
        self._cores = cores
        self.image = image
        self.acceleration = acceleration
        self.console = console
        self.boots: list[float] = []
        """Duration of each boot in seconds."""
        self._process: subprocess.Popen[bytes] | None = None
        self._monitor: Monitor | None = None
        self._folder, self._lock = _own_folder()
        # In a separate folder, because the path of a socket is limited to 108 characters.
        self._sockets = Path(tempfile.mkdtemp(prefix="hw-"))
        self.disks = {number: self._folder / f"disk{number}.raw" for number in ALL}
        for number in ALL:
            self.blank(number)
        self._overlay = self._folder / "root.qcow2"
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image.root), str(self._overlay)],
            check=True,
        )
        self._port = 0
        self._known_hosts = self._folder / "known_hosts"
        self._known_hosts.write_text(f"{HOST} {image.host_key}\n", encoding="ascii")
        self.ssh_config = self._folder / "ssh_config"
        self._plugged: dict[int, Path] = {}

    # Power

    def start(self, without: Collection[int] = ()) -> None:
        """Power on with all disks except these, and wait until the boot has finished."""
        began = time.monotonic()
        self._plugged = {number: path for number, path in self.disks.items() if number not in without}
        self._power_on()
        self._wait_for_boot("", began)

    def _power_on(self) -> None:
        for _attempt in range(5):
            self._choose_port()
            if self._spawn():
                return
        raise EmulatorError("no free port on the loopback interface after five attempts")

    def _wait_for_boot(self, before: str, began: float) -> None:
        """Wait for a boot. If the emulator crashes, power on again, once."""
        try:
            self.wait_for_boot(before, began)
        except EmulatorCrashed as error:
            with self.console.open("a", encoding="utf-8") as console:
                console.write(f"\n[tests] {error}; powered on once more\n")
            self.power_cut()
            self._power_on()
            self.wait_for_boot(before, time.monotonic())

    def _spawn(self) -> bool:
        """Start QEMU; returns False if another process took the port meanwhile."""
        argv = qemu.command(
            self.image, self.acceleration, self._overlay, self._plugged, self.console, self._port, self._cores
        )
        log = self._folder / "qemu.log"
        with log.open("wb") as errors:
            # The kernel kills QEMU when the thread that started it ends, even if that was killed.
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                cwd=self._folder,
            )
        try:
            self._monitor = Monitor(self._process)
        except EmulatorError:
            self._process.wait()
            message = log.read_text(encoding="utf-8", errors="replace").strip()
            if "Could not set up host forwarding" in message:
                self._port = 0
                return False
            raise EmulatorError(f"QEMU did not start: {message or 'no message'}") from None
        return True

    def _choose_port(self) -> None:
        if not self._port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self._port = probe.getsockname()[1]
        options = {
            "HostName": "127.0.0.1",
            "Port": str(self._port),
            "User": "root",
            "IdentityFile": str(self.image.key),
            "IdentitiesOnly": "yes",
            "HostKeyAlias": HOST,
            "UserKnownHostsFile": str(self._known_hosts),
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "LogLevel": "ERROR",
            "ConnectTimeout": "20",
            "ServerAliveInterval": "15",
            "ServerAliveCountMax": "8",
            # The tests and Ansible share one connection, because a handshake takes an emulated processor seconds.
            "ControlMaster": "auto",
            "ControlPath": str(self._sockets / "ssh"),
            "ControlPersist": "600",
        }
        lines = [f"Host {HOST}", *(f"  {name} {value}" for name, value in options.items())]
        self.ssh_config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def wait_for_boot(self, before: str, began: float) -> None:
        """Wait until ssh answers from another boot than ``before`` and systemd has started all units."""
        asked = time.monotonic()
        ask = "cat /proc/sys/kernel/random/boot_id; systemctl is-system-running --wait"
        answered = False
        while True:
            answer = self._ssh(ask, ASK_S)
            lines = answer.stdout.split()
            answered = answered or bool(lines and lines[0] != before)
            if len(lines) == 2 and lines[0] != before:
                break
            if self._process is None or self._process.poll() is not None:
                raise EmulatorCrashed(self._exit_message())
            waited = time.monotonic() - asked
            if not answered and waited > ANSWER_TIMEOUT_S:
                raise EmulatorCrashed(f"no answer within {waited:.0f} s: {answer.stderr} (see {self.console})")
            if waited > BOOT_TIMEOUT_S:
                raise EmulatorError(f"did not finish booting within {waited:.0f} s: {answer.stderr} {lines}")
            time.sleep(0.5)
        self.boots.append(time.monotonic() - began)

    @property
    def pid(self) -> int:
        """Process id of the emulator.

        :raises EmulatorError: the machine is off.
        """
        if self._process is None:
            raise EmulatorError("the machine is off")
        return self._process.pid

    def boot_id(self) -> str:
        """The id of the current boot."""
        return self.run("cat /proc/sys/kernel/random/boot_id").strip()

    def reboot(self) -> None:
        """Reboot cleanly, and wait until the boot has finished."""
        before, began = self.boot_id(), time.monotonic()
        # Return before the reboot closes this connection.
        self.run("systemctl --no-block reboot")
        self._forget_connection()
        self._wait_for_boot(before, began)

    def power_cut(self) -> None:
        """Power off at once. Data that the machine had not yet written to its disks is lost."""
        self._forget_connection()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._monitor = None

    def pause(self) -> None:
        """Pause the CPUs. The clock stops, too, and is late afterwards."""
        self._forget_connection()
        self.monitor("stop")

    def resume(self) -> None:
        """Continue after ``pause``; no effect on a machine that is not paused."""
        self.monitor("cont")

    def check(self) -> None:
        """Power the machine on again if its emulator has crashed.

        :raises EmulatorCrashed: it had crashed; the machine's memory is lost, and the test must be repeated.
        """
        if self._process is None or self._process.poll() is None:
            return
        message = self._exit_message()
        with self.console.open("a", encoding="utf-8") as console:
            console.write(f"\n[tests] {message}; powered on again\n")
        without = set(ALL) - set(self._plugged)
        self.power_cut()
        self.start(without)
        raise EmulatorCrashed(f"{message}; the machine was powered on again")

    def _exit_message(self) -> str:
        output = (self._folder / "qemu.log").read_text(encoding="utf-8", errors="replace").strip()
        code = None if self._process is None else self._process.returncode
        return f"QEMU ended with {code}: {output or 'no message'}"

    def close(self) -> None:
        """Power off, and remove all files of the machine."""
        self.power_cut()
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.rmtree(self._sockets, ignore_errors=True)
        self._lock.close()

    # Commands

    def _forget_connection(self) -> None:
        if self.ssh_config.exists():
            subprocess.run(["ssh", "-F", str(self.ssh_config), "-O", "exit", HOST], capture_output=True, check=False)
        (self._sockets / "ssh").unlink(missing_ok=True)

    def _ssh(self, command: str, limit: float, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        argv = ["ssh", "-F", str(self.ssh_config), HOST, command]
        # The connection's master keeps standard error open. Reading a pipe would wait for it; reading a file does not.
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            try:
                code = subprocess.run(
                    argv,
                    input=stdin,
                    stdin=subprocess.DEVNULL if stdin is None else None,
                    stdout=output,
                    stderr=errors,
                    text=True,
                    timeout=limit,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                code = NO_ANSWER
                errors.write(f"no answer within {limit:.0f} s")
            output.seek(0)
            errors.seek(0)
            # Keep output from before the timeout: a machine that still boots has already printed its boot id.
            return subprocess.CompletedProcess(argv, code, output.read(), errors.read())

    def _do(self, command: str, limit: float, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine; the emulator must run before and after it."""
        self.check()
        done = self._ssh(command, limit, stdin)
        if done.returncode == NO_CONNECTION and self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_S)
            self.check()
        return done

    def run(self, command: str, limit: float = COMMAND_LIMIT_S, stdin: str | None = None) -> str:
        """Run a shell command as root with `set -e`, and return its output."""
        done = self._do(f"set -e; {command}", limit, stdin)
        if done.returncode:
            raise CommandFailed(f"{command}\n  ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def succeeds(self, command: str) -> bool:
        """Whether a command succeeds."""
        done = self._do(command, COMMAND_LIMIT_S)
        if done.returncode in (NO_ANSWER, NO_CONNECTION):
            raise CommandFailed(f"{command}: {done.stderr}")
        return done.returncode == 0

    def write(self, path: str, text: str, mode: str = "0644") -> None:
        """Write a file in the machine, so that it survives a power cut."""
        name = shlex.quote(path)
        self.run(f"install -D -m {mode} /dev/stdin {name}; sync -f {name}", stdin=text)

    def wait_until(self, command: str, limit: float = 60) -> None:
        """Repeat a command until it succeeds."""
        self.run(f"timeout {limit:.0f} sh -c {shlex.quote(f'until {command}; do sleep 0.5; done')}", limit + 30)

    # Disks

    def blank(self, *numbers: int) -> None:
        """Make disks blank. In a running machine, the kernel must then rescan them."""
        for number in numbers:
            path = self.disks[number]
            path.touch()
            os.truncate(path, 0)
            os.truncate(path, qemu.DISK_BYTES)

    def digest(self, number: int) -> str:
        """Checksum of a disk's content, without data that the machine's kernel has not written yet."""
        total = hashlib.sha256()
        with self.disks[number].open("rb", buffering=0) as content:
            place = _next_data(content.fileno(), 0)
            while place is not None:
                content.seek(place)
                block = content.read(len(ZEROS))
                # A hole in the file and written zeros are the same content.
                if block != ZEROS:
                    total.update(b"%d " % place + block)
                place = _next_data(content.fileno(), place + len(ZEROS))
        return total.hexdigest()

    def throttle(self, bytes_per_second: int, *numbers: int) -> None:
        """Limit the write speed of disks; 0 removes the limit."""
        zero = dict.fromkeys(("bps", "bps_rd", "iops", "iops_rd", "iops_wr"), 0)
        for number in numbers:
            self.monitor("block_set_io_throttle", id=f"nvme{number}", bps_wr=bytes_per_second, **zero)

    def monitor(self, command: str, **arguments: Any) -> Any:
        """Send a command to QEMU's monitor."""
        if self._monitor is None:
            raise EmulatorError("the machine is off")
        return self._monitor.ask(command, **arguments)


def _next_data(file: int, place: int) -> int | None:
    """Offset of the next block with data in a sparse file."""
    try:
        return os.lseek(file, place, os.SEEK_DATA) // len(ZEROS) * len(ZEROS)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise


def _own_folder() -> tuple[Path, IO[str]]:
    """A folder for a machine's files, locked while this process lives. Folders of dead processes are removed."""
    home = cache_dir() / "hardware"
    home.mkdir(parents=True, exist_ok=True)
    for folder in home.glob("machine-*"):
        try:
            with (folder / "lock").open("a") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
    folder = Path(tempfile.mkdtemp(prefix="machine-", dir=home))
    lock = (folder / "lock").open("a", encoding="ascii")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock
