# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two nodes without containers: namespaces of this host, a virtual cable, and the packages' files.

The host sees nothing of them, and everything ends with the first process of each node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from .program.settings import FOREIGN

ADDRESSES = {"n1": "10.99.0.1", "n2": "10.99.0.2"}
PATIENCE_S = 10.0
# The first process of a node. While dash waits it reaps orphans, as an init process must. It exits when its standard
# input closes, that is when the test process ends.
_FIRST = """
hostname "$0"
mount --make-rprivate /
mount -t tmpfs none /run
mount -t tmpfs none /var/log
mkdir /run/etc /run/work /run/job
mount -t overlay none -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/work /etc
mount -t overlay none -o lowerdir="$1/sbin:$1/usr/sbin:/usr/sbin" /usr/sbin
mount -t overlay none -o lowerdir="$1/usr/bin:/usr/bin" /usr/bin
mount -t tmpfs none /opt
mkdir /opt/beegfs
mount --bind "$1/opt/beegfs" /opt/beegfs
mkdir -p /etc/beegfs
ip link set lo up
echo ready
exec 3<&0
cat <&3 > /dev/null &
wait $!
"""


def unable() -> str:
    """Return why this host cannot run such nodes, or an empty string if it can."""
    if os.geteuid() != 0:
        return "nodes need root"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    for program in ("dpkg-deb", "unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"no namespaces: {tried.stderr.decode().strip()}"


class Node:
    """One node, in which commands run."""

    def __init__(self, name: str, installed: Path) -> None:
        self.name, self.address = name, ADDRESSES[name]
        spaces = ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._process = subprocess.Popen(
            ["unshare", *spaces, "sh", "-ec", _FIRST, name, str(installed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._process.stdout is None or self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{name} does not start")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self.first = children.read_text(encoding="ascii").split()[0]
        self._enter = ["nsenter", f"--target={self.first}", "--net", "--uts", "--mount", "--pid", "--"]

    def run(self, *argv: str, check: bool = True, timeout: float = 20, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run a command and wait for its end."""
        done = subprocess.run(
            [*self._enter, *argv], capture_output=True, text=True, check=False, timeout=timeout, **more
        )
        if check and done.returncode:
            raise AssertionError(f"{self.name}: {argv} exits {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def start(self, *argv: str) -> str:
        """Start a command in the background and return its process ID in the node. Its output is in /run/job/said."""
        return self.run("sh", "-c", '"$@" >> /run/job/said 2>&1 < /dev/null & echo $!', "sh", *argv).stdout.strip()

    def runs(self, pid: str) -> bool:
        """Return whether a started process still runs."""
        return self.run("sh", "-c", f"grep -q '^State:.[^Z]' /proc/{pid}/status", check=False).returncode == 0

    def write(self, path: str, text: str) -> None:
        """Write a file on the node."""
        self.run("sh", "-c", 'mkdir -p "${0%/*}" && umask 077 && cat > "$0"', path, input=text)

    def read(self, path: str) -> str:
        """Read a file on the node."""
        return self.run("cat", path).stdout

    def faults(self, *lines: str) -> None:
        """Set the failures on this node from now on."""
        self.write("/etc/beegfs/stand-in-faults", "".join(f"{line}\n" for line in lines))

    def end(self) -> None:
        """End the node with all its processes."""
        self._process.kill()
        self._process.wait()


def two_nodes(packages: list[Path], installed: Path) -> tuple[Node, Node]:
    """Start two connected nodes with the packages' files."""
    for package in packages:
        subprocess.run(["dpkg-deb", "-x", str(package), str(installed)], check=True)
    nodes = Node("n1", installed), Node("n2", installed)
    # Both ends are created inside the nodes, so the host's network never shows them.
    ends = [["name", "eth0", "netns", node.first] for node in nodes]
    subprocess.run(["ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1]], check=True)
    for node in nodes:
        node.run("ip", "address", "add", f"{node.address}/24", "dev", "eth0")
        node.run("ip", "link", "set", "eth0", "up")
    return nodes


class FileSystem:
    """A BeeGFS on two nodes, with management and metadata on the first. ``shift`` (of ports) separates file systems.

    The same ``shift`` with another ``name`` is a second mount of the same file system with other settings.
    """

    def __init__(self, nodes: tuple[Node, Node], shift: int, *, name: str = "", **settings: object) -> None:
        self.nodes, self._place = nodes, f"/run/job/{name or shift}"
        self.mountpoint = f"{self._place}/mount"
        self.running: dict[tuple[str, str], str] = {}
        common = {
            "connAuthFile": f"{self._place}/auth",
            "connPortShift": shift,
            "runDaemonized": "false",
            "storeAllowFirstRunInit": "true",
            "sysMgmtdHost": nodes[0].address,
            **settings,
        }
        for node in nodes:
            node.write(f"{self._place}/auth", "a secret of this job")
            node.run("mkdir", "-p", self.mountpoint)
            for kind in ("mgmtd", "meta", "storage", "helperd", "client"):
                directory = {"mgmtd": "Mgmtd", "meta": "Meta", "storage": "Storage"}.get(kind)
                special = {f"store{directory}Directory": self.folder(kind)} if directory else {}
                special |= {} if kind == "client" else {"logStdFile": f"{self._place}/{kind}.log"}
                foreign = FOREIGN.get(kind, set())
                stated = {key: value for key, value in common.items() if key not in foreign}
                lines = [f"{key} = {value}\n" for key, value in {**stated, **special}.items()]
                node.write(self.configuration(kind), "".join(lines))

    def folder(self, kind: str) -> str:
        """Return a daemon's storage folder."""
        return f"{self._place}/{kind}"

    def configuration(self, kind: str) -> str:
        """Return the configuration file of a daemon or of the client."""
        return f"{self._place}/{kind}.conf"

    def log(self, node: Node, kind: str) -> str:
        """Return a daemon's log."""
        return node.run("cat", f"{self._place}/{kind}.log", check=False).stdout

    def start(self, node: Node, *kinds: str) -> None:
        """Start daemons on a node."""
        for kind in kinds:
            command = [f"/opt/beegfs/sbin/beegfs-{kind}", f"cfgFile={self.configuration(kind)}"]
            self.running[node.name, kind] = node.start(*command)

    def start_all(self) -> None:
        """Start all daemons and wait until they are registered."""
        first, second = self.nodes
        self.start(first, "mgmtd", "meta", "storage", "helperd")
        # Start the nodes in turn: IDs are assigned in the order of registration.
        wait(lambda: "Online" in self.targets(first))
        self.start(second, "storage", "helperd")
        wait(lambda: self.targets(first).count("Online") == 2 and "n1" in self.ctl(first, "--nodetype=meta").stdout)

    def ctl(self, node: Node, *options: str, mode: str = "--listnodes") -> subprocess.CompletedProcess[str]:
        """Run ``beegfs-ctl`` on a node."""
        return node.run("beegfs-ctl", f"--cfgFile={self.configuration('client')}", mode, *options, check=False)

    def targets(self, node: Node) -> str:
        """Return the list of storage targets."""
        return self.ctl(node, "--nodetype=storage", "--state", mode="--listtargets").stdout

    def mount_command(self) -> list[str]:
        """Return the command that mounts the file system."""
        options = f"cfgFile={self.configuration('client')},_netdev,nosuid,nodev"
        return ["mount", "-t", "beegfs", "beegfs_nodev", self.mountpoint, "-o", options]

    def mount(self, *nodes: Node) -> None:
        """Mount the file system on nodes."""
        for node in nodes:
            node.run(*self.mount_command())


def wait(true: Any, patience_s: float = PATIENCE_S) -> None:
    """Wait until ``true()`` is true; raise AssertionError if that takes too long."""
    until = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > until:
            raise AssertionError(f"the condition is still false after {patience_s} s")
        time.sleep(0.1)
