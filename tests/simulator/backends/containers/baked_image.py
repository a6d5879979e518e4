# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The baked image: a machine of the base image after `playbooks/image.yml`, captured as in Azure."""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from simulator.backends import BackendError, NodeNotReady
from simulator.backends.containers import base_image, machine, network
from simulator.backends.containers.bake_inputs import VARIABLES, bake_inputs, provided_files
from simulator.backends.containers.places import LABEL_NAME, LABEL_STATE, REPOSITORY, cache_dir, run_dir, tag_of
from simulator.backends.containers.podman import Podman
from simulator.scan import scan

REPOSITORY_NAME = "localhost/hpcai-simulator/baked"
OWNER = "image-build"
"""The label of the builder's own container and network. A machine's have the simulator's name instead."""
TIMEOUT_S = 1800.0
HEARTBEAT_S = 10.0
MARKER = "etc/simulator-bake"
TASK = re.compile(r"^(?:TASK|RUNNING HANDLER) \[(?:[\w.]+ : )?(.+?)\] \**$")


def key() -> str:
    """Content hash of all inputs of the baked image."""
    version = re.search(r"^version:.*$", (REPOSITORY / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    parts = [base_image.key().encode(), (version[0] if version else "").encode()]
    for path in bake_inputs(REPOSITORY):
        parts += [str(path.relative_to(REPOSITORY)).encode(), path.read_bytes()]
    for path in provided_files():
        parts += [path.name.encode(), path.read_bytes()]
    return base_image.digest(parts)


def reference() -> str:
    """Name and tag of the baked image for the current inputs."""
    return f"{REPOSITORY_NAME}:{key()}"


def clean_up(podman: Podman) -> None:
    """Remove what an earlier build left behind. The caller holds the image lock."""
    left = podman.containers({LABEL_NAME: OWNER, LABEL_STATE: str(run_dir())})
    podman.remove_containers([str(container["Id"]) for container in left])
    network.remove(tag_of(OWNER, run_dir()))


def build(podman: Podman, base: str, report: Callable[[str], None]) -> str:
    """Bake the image unless the store has it, and return its reference. The caller holds the image lock."""
    wanted = reference()
    if podman.image_exists(wanted):
        return wanted
    began = time.monotonic()

    def progress(text: str) -> None:
        report(f"node image: {time.monotonic() - began:3.0f} s: {text}")

    report("node image: running playbooks/image.yml on a machine of the base image (about two minutes)")
    clean_up(podman)
    try:
        _bake(podman, base, wanted, progress)
    finally:
        clean_up(podman)
    report(f"node image: ready after {time.monotonic() - began:.0f} s")
    if reference() != wanted:
        report("node image: its inputs changed during the build: this run uses it, and the next run bakes it again")
        podman.run("tag", wanted, f"{wanted}-mixed")
        podman.run("untag", wanted, wanted)
        return f"{wanted}-mixed"
    return wanted


def _bake(podman: Podman, base: str, wanted: str, progress: Callable[[str], None]) -> None:
    net, address = network.free_network(tag_of(OWNER, run_dir()), OWNER)
    net.open()
    net.connect(OWNER, [address])
    with tempfile.TemporaryDirectory(prefix="hpcai-bake-") as name:
        folder = Path(name)
        public_key = machine.make_key(folder / "key")
        machine.create(
            podman,
            name=OWNER,
            image=base,
            namespace=net.namespace(OWNER),
            labels={LABEL_NAME: OWNER, LABEL_STATE: str(run_dir())},
            local_disk=None,
        )
        _allow_root_login(machine.root_folder(podman, OWNER), public_key)
        machine.release(podman, OWNER)
        machine.start(podman, OWNER)
        ssh = machine.ssh_argv(address, "root", str(folder / "key"))
        machine.wait_until(
            lambda: machine.answers([*ssh, "true"]),
            60,
            lambda: NodeNotReady(f"node image: no ssh within 60 s: {machine.last_words(podman, OWNER)}"),
        )
        progress("the machine answers")
        _run_playbook(folder, address, progress)
    progress("shutting down, checking for files that must not be in an image, capturing")
    machine.stop(podman, OWNER)
    _check(machine.root_folder(podman, OWNER))
    machine.release(podman, OWNER)
    podman.run("commit", "--quiet", OWNER, wanted, timeout=300)


def _allow_root_login(root: Path, public_key: str) -> None:
    """Prepare the machine, because nothing provisions it: a marker, our key for root, and a host key."""
    (root / MARKER).touch()
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    (root / "root/.ssh/authorized_keys").write_text(public_key + "\n", encoding="ascii")
    machine.make_key(root / "etc/ssh/ssh_host_ed25519_key")


def _run_playbook(folder: Path, address: str, progress: Callable[[str], None]) -> None:
    inventory = folder / "hosts.ini"
    inventory.write_text(
        "[hpcai_image]\n"
        f"image ansible_host={address} ansible_user=root ansible_ssh_private_key_file={folder / 'key'} "
        "ansible_python_interpreter=/usr/bin/python3 ansible_host_key_checking=false "
        'ansible_ssh_common_args="-F none -o IdentitiesOnly=yes -o StrictHostKeyChecking=no '
        '-o UserKnownHostsFile=/dev/null"\n',
        encoding="utf-8",
    )
    beside = Path(sys.executable).with_name("ansible-playbook")
    playbook = str(beside) if beside.exists() else shutil.which("ansible-playbook")
    if playbook is None:
        raise BackendError("ansible-playbook is not installed with this Python: run make setup")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".collections"),
        "ANSIBLE_NOCOLOR": "1",
        # Otherwise Ansible prints a task's name only with its first result, so the progress would be a task behind.
        "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "1",
        "ANSIBLE_DISPLAY_OK_HOSTS": "1",
        "ANSIBLE_PIPELINING": "1",
        # Do not share connections with the next build: it may have another host at the same address.
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=5s",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
        "PYTHONUNBUFFERED": "1",
        "LC_ALL": "C.UTF-8",
        "PATH": f"{Path(playbook).parent}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}",
    }
    log_path = cache_dir() / "node-image.log"
    process = subprocess.Popen(
        [
            *(playbook, "-i", str(inventory), "-e", f"@{REPOSITORY / VARIABLES}", "-e", "image_generalise=true"),
            str(REPOSITORY / "playbooks/image.yml"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=REPOSITORY,
        text=True,
        errors="replace",
    )
    deadline = time.monotonic() + TIMEOUT_S
    doing = "starting ansible-playbook"
    try:
        with log_path.open("w", encoding="utf-8") as log:
            for line in _lines(process):
                if line is None:
                    progress(f"still at: {doing}")
                    if time.monotonic() > deadline:
                        raise BackendError(f"node image: {doing}: not done within {TIMEOUT_S:.0f} s (see {log_path})")
                    continue
                log.write(line)
                if match := TASK.match(line.rstrip()):
                    doing = match[1]
                    progress(doing)
        if process.wait():
            raise BackendError(f"node image: playbooks/image.yml failed: {_failure(log_path)} (all of it: {log_path})")
    finally:
        process.kill()
        process.wait()


def _lines(process: subprocess.Popen[str]) -> Iterator[str | None]:
    """Yield each line as it arrives, and None after every HEARTBEAT_S without one."""
    assert process.stdout is not None
    stream = process.stdout
    lines: queue.Queue[str | None] = queue.Queue()

    def pump() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    pumping = threading.Thread(target=pump, daemon=True)
    pumping.start()
    while True:
        try:
            line = lines.get(timeout=HEARTBEAT_S)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        yield line


def _failure(log_path: Path) -> str:
    lines = [line.strip() for line in log_path.read_text(encoding="utf-8").splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "ERROR", "[ERROR]"))]
    return (fatal or lines or ["no output"])[-1][:600]


def _check(root: Path) -> None:
    """Refuse to capture a machine if the playbook left data of this machine or a key."""
    (root / MARKER).unlink(missing_ok=True)
    found = scan(root)
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise BackendError(
            f"node image: {'; '.join(found[:3])}{more}: the last step of playbooks/image.yml must remove it"
        )
