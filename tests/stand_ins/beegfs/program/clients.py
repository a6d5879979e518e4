# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of this node's mounts: a folder for each, where the real client has one below /proc/fs/beegfs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from .faults import faults
from .settings import Settings

FOLDER = Path("/run/beegfs-stand-in")
INFINIBAND = Path("/sys/class/infiniband")
KERNEL_LOG = Path("/var/log/beegfs-stand-in-kernel.log")


def printk(text: str) -> None:
    """What the real client leaves in the kernel's log."""
    with KERNEL_LOG.open("a", encoding="utf-8") as log:
        log.write(f"beegfs: {text}\n")


class Client:
    """One mount of this node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def make(name: str, mountpoint: str) -> Client:
        """A new one, of this process."""
        made = Client(FOLDER / name)
        made.folder.mkdir(parents=True)
        made.write("pid", str(os.getpid()))
        made.write("mountpoint", mountpoint)
        return made

    @staticmethod
    def all() -> list[Client]:
        """Those that live; what a killed one left is cleared away."""
        found = []
        for folder in sorted(FOLDER.iterdir()) if FOLDER.exists() else []:
            client = Client(folder)
            if client.alive():
                found.append(client)
            else:
                client.remove()
        return found

    def write(self, name: str, text: str) -> None:
        """Replace one of its files, so that nobody reads half of it."""
        fresh = self.folder / f".{name}"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.folder / name)

    def read(self, name: str) -> str:
        """One of its files, nothing where it is missing."""
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except OSError:
            return ""

    def alive(self) -> bool:
        """Whether its process runs."""
        return Path(f"/proc/{self.read('pid') or 'none'}").exists()

    def remove(self) -> None:
        """It is no more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def show(self, found: dict[str, Any], settings: Settings) -> None:
        """Its connections, as beegfs-net prints them."""
        for kind in ("mgmt", "meta", "storage"):
            nodes = found.get(kind, [])
            root = min((node["number"] for node in nodes), default=0)
            text = ""
            for node in nodes:
                text += f"{node['name']} [ID: {node['number']}]\n"
                text += "   Root: <yes>\n" if kind == "meta" and node["number"] == root else ""
                text += f"   Connections: {_connections(kind, node, settings)}\n"
            self.write(f"{kind}_nodes", text)


def reaches(settings: Settings) -> str:
    """By what a client reaches metadata and storage here: RDMA, TCP, or TCP as a fallback."""
    wrong = faults("client")
    if not settings.true("connUseRDMA"):
        return "TCP"
    if "tcp-fallback" in wrong:
        return "fallback"
    # Without a device TCP is the first choice, and no fallback.
    return "RDMA" if "rdma" in wrong or (INFINIBAND.is_dir() and any(INFINIBAND.iterdir())) else "TCP"


def _connections(kind: str, node: dict[str, Any], settings: Settings) -> str:
    peer = f"{node['address']}:{node['port']}"
    # The real management knows no RDMA.
    by = "TCP" if kind == "mgmt" else reaches(settings)
    return f"TCP: 1 ({peer} [fallback route]); " if by == "fallback" else f"{by}: 1 ({peer}); "
