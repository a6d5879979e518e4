# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine as a container: create, start and stop it, and find out why it does not start."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from simulator.backends import NodeNotReady
from simulator.backends.containers.command import run
from simulator.backends.containers.network import NAMESPACES
from simulator.backends.containers.podman import Podman

FIRST_PROCESS = "/usr/local/sbin/simulator-init"
SEEDED = "/var/lib/simulator-provision/vm-id"
"""Where images/provision.py writes the vmId for which it has finished."""
STOP_PATIENCE_S = 20
JOURNAL_LINES = 15
CONSOLE_LINES = 5


def create(
    podman: Podman,
    *,
    name: str,
    image: str,
    namespace: str,
    labels: Mapping[str, str],
    local_disk: Path | None,
    hosts: Mapping[str, str] | None = None,
) -> None:
    """Make a machine's container in its network namespace. Provisioning sets the host name from inside.

    ``hosts`` are names and addresses for its /etc/hosts (see images/init.sh).
    """
    argv = [
        "create",
        "--pull=never",
        f"--name={name}",
        f"--network=ns:{NAMESPACES / namespace}",
        "--no-hosts",
        "--hostname=localhost",
        "--privileged",
        "--systemd=always",
        # For ``console``.
        "--log-driver=k8s-file",
        "--log-opt=max-size=64kb",
        *(f"--label={key}={value}" for key, value in labels.items()),
    ]
    if hosts:
        argv.append(f"--env=SIMULATOR_HOSTS={' '.join(f'{name}={address}' for name, address in hosts.items())}")
    if local_disk is not None:
        argv.append(f"--volume={local_disk}:/mnt")
    podman.run(*argv, image, FIRST_PROCESS)


def start(podman: Podman, name: str) -> None:
    """Start a machine, without waiting for anything inside."""
    podman.run("start", name)


def stop(podman: Podman, name: str) -> None:
    """Shut a machine down. Kill it after STOP_PATIENCE_S."""
    podman.run("stop", f"--time={STOP_PATIENCE_S}", name, timeout=STOP_PATIENCE_S + 30)


def last_words(podman: Podman, name: str) -> str:
    """The output of its provisioning and the end of its journal, on one line."""
    provisioning = _journal(podman, name, "--unit=simulator-provision.service", "--lines=3")
    # Without the lines about login attempts: whoever waits for the machine makes many of them.
    journal = _journal(podman, name, "--lines=400")
    rest = [line for line in journal if "[preauth]" not in line and line not in provisioning]
    return " | ".join(provisioning + rest[-JOURNAL_LINES:]) or "no journal: the container is not running"


def console(podman: Podman, name: str) -> str:
    """Return the last lines that its process 1 printed, joined. systemd reports only there why it stopped."""
    file = Path(podman.run("inspect", "--format={{.HostConfig.LogConfig.Path}}", name).strip())
    # Each line starts with a time, the stream, and F (a full line) or P (a part of a line).
    lines = [line.split(" ", 3)[-1].strip() for line in file.read_text(errors="replace").splitlines()]
    return " | ".join([line for line in lines if line][-CONSOLE_LINES:]) or "it printed nothing"


def _journal(podman: Podman, name: str, *options: str) -> list[str]:
    text = podman.run("exec", name, "journalctl", "--no-pager", "--quiet", "--output=cat", *options, check=False)
    return [line.strip() for line in text.splitlines() if line.strip()]


def ssh_argv(address: str, user: str, key: str) -> list[str]:
    """The ssh command for a machine whose host key is not known yet."""
    return [
        "ssh",
        *("-F", "none", "-i", key, "-l", user),
        *("-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no"),
        *("-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=3"),
        address,
    ]


def host_keys(podman: Podman, name: str) -> tuple[str, ...]:
    """The public host keys of a running machine."""
    text = podman.run("exec", name, "sh", "-c", "cat /etc/ssh/ssh_host_*_key.pub")
    return tuple(line for line in text.splitlines() if line)


def wait_until(answers: Callable[[], bool], timeout: float, failed: Callable[[], NodeNotReady]) -> None:
    """Repeat ``answers`` until it returns True. After the timeout, raise the exception from ``failed``."""
    began = time.monotonic()
    while not answers():
        waited = time.monotonic() - began
        if waited >= timeout:
            raise failed()
        # Poll often at first, then less often, to leave the CPUs to the machines.
        time.sleep(min(2.0, 0.2 + waited / 10))


def answers(argv: Sequence[str], timeout: float = 10) -> bool:
    """Whether a command succeeds."""
    try:
        done = subprocess.run(list(argv), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def provisioned(podman: Podman, name: str, vm_id: str) -> bool:
    """Whether a machine has taken its host name, administrator and keys from its metadata."""
    return podman.run("exec", name, "cat", SEEDED, check=False).strip() == vm_id


def greets(address: str, timeout: float = 3) -> bool:
    """Whether an ssh server sends its version."""
    try:
        with socket.create_connection((address, 22), timeout) as connection:
            connection.settimeout(timeout)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def root_folder(podman: Podman, name: str) -> Path:
    """Mount a stopped container's root file system on the host until ``release``, and return the path."""
    return Path(podman.run("mount", name).strip())


def release(podman: Podman, name: str) -> None:
    """Unmount the root file system."""
    podman.run("unmount", name, check=False)


def make_key(path: Path) -> str:
    """Make a key pair without a passphrase, and return the public key."""
    run(["ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-C", "simulator", "-f", str(path)])
    return path.with_name(path.name + ".pub").read_text(encoding="ascii").strip()
