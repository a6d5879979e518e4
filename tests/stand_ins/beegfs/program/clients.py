# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of this node's mounts: a folder for each, like the real client's folders below /proc/fs/beegfs."""

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
    """Log a message that the real client writes to the kernel's log."""
    with KERNEL_LOG.open("a", encoding="utf-8") as log:
        log.write(f"beegfs: {text}\n")


class Client:
    """One mount of this node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def make(name: str, mountpoint: str) -> Client:
        """Create the folder of a mount that this process serves."""
        made = Client(FOLDER / name)
        made.folder.mkdir(parents=True)
        made.write("pid", str(os.getpid()))
        made.write("mountpoint", mountpoint)
        return made

    @staticmethod
    def all() -> list[Client]:
        """Return the mounts whose client runs, and remove the folders of killed clients."""
        found = []
        for folder in sorted(FOLDER.iterdir()) if FOLDER.exists() else []:
            client = Client(folder)
            if client.alive():
                found.append(client)
            else:
                client.remove()
        return found

    def write(self, name: str, text: str) -> None:
        """Replace one of its files atomically."""
        fresh = self.folder / f".{name}"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.folder / name)

    def read(self, name: str) -> str:
        """Return the content of one of its files, or an empty string if it is missing."""
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except OSError:
            return ""

    def alive(self) -> bool:
        """Return whether its process runs."""
        return Path(f"/proc/{self.read('pid') or 'none'}").exists()

    def remove(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def show(self, found: dict[str, Any], settings: Settings) -> None:
        """Write its connections in the format that beegfs-net prints."""
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
    """Return how a client reaches metadata and storage: "RDMA", "TCP", or "fallback" (TCP as a fallback)."""
    wrong = faults("client")
    if not settings.true("connUseRDMA"):
        return "TCP"
    if "tcp-fallback" in wrong:
        return "fallback"
    # Without an RDMA device TCP is the first choice, not a fallback.
    return "RDMA" if "rdma" in wrong or (INFINIBAND.is_dir() and any(INFINIBAND.iterdir())) else "TCP"


def _connections(kind: str, node: dict[str, Any], settings: Settings) -> str:
    peer = f"{node['address']}:{node['port']}"
    # The real management does not use RDMA.
    by = "TCP" if kind == "mgmt" else reaches(settings)
    return f"TCP: 1 ({peer} [fallback route]); " if by == "fallback" else f"{by}: 1 ({peer}); "
