# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The notebook's program: runs in the Slurm job, as its user, with the standard library only.

It starts JupyterHub's single-user server, waits until that server itself listens, and only then reports the port to the
hub. If the port were reported first, another user of the node could take it in between, and would get the requests.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

REPORT = "/hpcai/notebook"
"""Below JUPYTERHUB_API_URL; see ``spawner``."""
PREFIX = "hpcai-notebook-"
LISTEN_S, REPORT_S, END_S = 120.0, 60.0, 10.0
LOG = ".hpcai-notebook.log"
_TRIES = 5
_LISTENS = "0A"


class CannotStart(RuntimeError):
    """The notebook does not start; the message says why."""


class PortsTaken(CannotStart):
    """No port is free.

    :ivar uid: the user who listens at most of them; None if nobody listens.
    """

    def __init__(self, first: int, last: int, uid: int | None) -> None:
        owner = "programs that do not listen there" if uid is None else f"the user id {uid}"
        super().__init__(f"All ports from {first} to {last} of this node are taken, most by {owner}.")
        self.uid = uid


def listeners(tables: Sequence[str]) -> dict[int, int]:
    """Return the uids of the processes that listen on TCP ports, by port.

    :param tables: the texts of ``/proc/net/tcp`` and ``/proc/net/tcp6``.
    """
    found: dict[int, int] = {}
    for table in tables:
        for line in table.splitlines()[1:]:
            words = line.split()
            if len(words) > 7 and words[3] == _LISTENS:
                found.setdefault(int(words[1].rpartition(":")[2], 16), int(words[7]))
    return found


def _tables() -> list[str]:
    return [Path(f"/proc/net/{name}").read_text(encoding="ascii") for name in ("tcp", "tcp6")]


def free_port(first: int, last: int) -> int:
    """Return a random free port. Another user of the node must not be able to guess it.

    :raises PortsTaken: none is free.
    """
    ports = list(range(first, last + 1))
    secrets.SystemRandom().shuffle(ports)
    for port in ports:
        with socket.socket() as probe, contextlib.suppress(OSError):
            # As tornado binds it. Ports that are bound by a socket that does not listen are in no table.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("0.0.0.0", port))
            probe.listen()
            return port
    owners = Counter(uid for port, uid in listeners(_tables()).items() if first <= port <= last)
    raise PortsTaken(first, last, owners.most_common(1)[0][0] if owners else None)


def kernel(image: str, folder: str, home: str, cpus: str) -> dict[str, object]:
    """Return the Jupyter kernel that runs in a container of the same job. The image must have ipykernel."""
    mounts = ",".join(f"{path}:{path}" for path in (home, folder) if not re.search(r"[:,\s]", path))
    # The token would enter the container, whose programs do not need it.
    argv = ["/usr/bin/env", "--unset=JUPYTERHUB_API_TOKEN"]
    argv += ["/usr/bin/srun", "--overlap", "--ntasks=1", f"--cpus-per-task={cpus}", f"--container-image={image}"]
    # With the name, a second kernel uses the unpacked image of the first one.
    argv += ["--container-name=notebook", f"--container-mounts={mounts}", f"--container-workdir={home}"]
    argv += ["python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    # srun does not pass on a single SIGINT, and a second one ends the step.
    more = {"interrupt_mode": "message", "language": "python"}
    return {"argv": argv, "display_name": f"Container {image}", **more}


def environment(given: Mapping[str, str], account: pwd.struct_passwd, folder: str, port: int) -> dict[str, str]:
    """Return the server's environment."""
    prefix = given.get("JUPYTERHUB_SERVICE_PREFIX", "/")
    own = {
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell or "/bin/sh",
        # Connection files have the keys of kernels. Only their owner can read this folder.
        "JUPYTER_RUNTIME_DIR": f"{folder}/runtime",
        "JUPYTER_PATH": f"{folder}/jupyter",
        "JUPYTERHUB_SERVICE_URL": f"http://0.0.0.0:{port}{prefix}",
    }
    path = given.get("PATH") or "/usr/local/bin:/usr/bin:/bin"
    # sbatch sets SLURM_EXPORT_ENV to the names of its --export, and srun would pass on only these variables.
    kept = {name: value for name, value in given.items() if name != "SLURM_EXPORT_ENV"}
    return {**kept, **own, "PATH": path}


@contextlib.contextmanager
def own_folder(parent: str) -> Iterator[str]:
    """A folder that only the user can read, and that is removed at the end.

    Also removes those of the user's earlier notebooks that were killed.
    """
    for entry in Path(parent).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = entry.lstat()
            if status.st_uid == os.getuid() and entry.is_dir() and not entry.is_symlink() and not _is_locked(entry):
                shutil.rmtree(entry, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    with open(f"{folder}/lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _is_locked(folder: Path) -> bool:
    with open(folder / "lock", "r+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def report(api: str, token: str, said: Mapping[str, object]) -> None:
    """Tell the hub the port, or why there is none.

    :raises CannotStart: the hub refuses it, or does not answer.
    """
    request = urllib.request.Request(
        api.rstrip("/") + REPORT,
        data=json.dumps(said).encode(),
        headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
        method="POST",
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline, why = time.monotonic() + REPORT_S, ""
    while time.monotonic() < deadline:
        try:
            with opener.open(request, timeout=10):
                return
        except urllib.error.HTTPError as error:
            why = f"the hub answered {error.code}"
            if error.code < 500:
                break
        except OSError as error:
            why = str(error)
        time.sleep(2)
    raise CannotStart(f"Cannot report to {api}: {why}")


class Server:
    """The single-user server as a child process."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: str) -> None:
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                list(command), env=dict(env), cwd=env["HOME"], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def wait_until_it_listens(self, port: int) -> bool:
        """Wait for the port; False if the server ended or another user has the port."""
        deadline = time.monotonic() + LISTEN_S
        while time.monotonic() < deadline and self.process.poll() is None:
            uid = listeners(_tables()).get(port)
            if uid is not None:
                # Another process of this user is not an attack, and the server then ends.
                return uid == os.getuid()
            time.sleep(0.2)
        return False

    def end(self) -> None:
        """Stop the server, which stops its kernels."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def command_of(asked: argparse.Namespace, folder: str) -> list[str]:
    """Return the server's command line."""
    # -P, because the program's folder has modules with common names, such as config.
    command = [sys.executable, "-P", str(Path(__file__).with_name("singleuser.py")), "--ServerApp.port_retries=0"]
    # Kernels then listen at sockets in the user's own folder, and not at ports, which other users of the node could
    # read. The path of a socket has at most 107 characters, and Jupyter adds some 60.
    if len(folder) <= 40:
        command.append("--KernelManager.transport=ipc")
    if asked.idle_minutes:
        seconds = asked.idle_minutes * 60
        command += [
            f"--ServerApp.shutdown_no_activity_timeout={seconds}",
            f"--MappingKernelManager.cull_idle_timeout={seconds}",
            "--MappingKernelManager.cull_interval=60",
            # Also those that a browser shows (see also ``singleuser``). A kernel that computes is not idle.
            "--MappingKernelManager.cull_connected=True",
            # A server with a terminal does not end.
            f"--TerminalManager.cull_inactive_timeout={seconds}",
            "--TerminalManager.cull_interval=60",
        ]
    if asked.image:
        command.append("--MultiKernelManager.default_kernel_name=container")
    return command


def serve(asked: argparse.Namespace, given: Mapping[str, str], account: pwd.struct_passwd, folder: str) -> int:
    """Run the server until it ends; returns its exit status.

    :raises CannotStart: it did not start at any port.
    """
    api, token = given["JUPYTERHUB_API_URL"], given["JUPYTERHUB_API_TOKEN"]
    log = os.path.join(account.pw_dir if os.access(account.pw_dir, os.W_OK) else folder, LOG)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(log)
    os.makedirs(f"{folder}/runtime", mode=0o700)
    if asked.image:
        os.makedirs(f"{folder}/jupyter/kernels/container")
        text = json.dumps(kernel(asked.image, folder, account.pw_dir, given.get("SLURM_CPUS_PER_TASK", "1")))
        Path(folder, "jupyter/kernels/container/kernel.json").write_text(text, encoding="utf-8")
    first, last = (int(number) for number in asked.ports.split("-"))
    for _try in range(_TRIES):
        try:
            port = free_port(first, last)
        except PortsTaken as problem:
            with contextlib.suppress(CannotStart):
                report(api, token, {"taken_by": problem.uid, "node": given.get("SLURMD_NODENAME", "")})
            raise
        server = Server(command_of(asked, folder), environment(given, account, folder, port), log)
        try:
            if server.wait_until_it_listens(port):
                report(api, token, {"port": port})
                return server.process.wait()
        finally:
            server.end()
    raise CannotStart(f"The notebook's server did not start. See {log}.")


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the notebook."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ports", default="21000-21999")
    parser.add_argument("--idle-minutes", type=int, default=0)
    parser.add_argument("--image", default="")
    asked = parser.parse_args(arguments)
    os.umask(0o077)
    # The end of a job. The folder is removed and the kernels are stopped on the way out.
    signal.signal(signal.SIGTERM, _end)
    account = pwd.getpwuid(os.getuid())
    if not os.path.isdir(account.pw_dir):
        raise SystemExit(f"{account.pw_dir} of {account.pw_name} does not exist on this node, so no notebook starts.")
    try:
        with own_folder(tempfile.gettempdir()) as folder:
            return serve(asked, os.environ, account, folder)
    except CannotStart as problem:
        raise SystemExit(str(problem)) from None
