# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What differs between releases of BeeGFS: how each is configured, started, asked and mounted.

All else (order, deadlines, clean-up, whose fault a failure is) is the same for all of them. To add one, write a class
with these methods and name it in ``releases.py`` and ``settings.RELEASES``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .bounded import Bounded
from .settings import Settings

SECRET = "auth"
"""Name of the file with the job's secret, in its folder in /run."""


@dataclass(frozen=True)
class Part:
    """What this node has to run.

    :ivar daemons: names, in the order in which they are started.
    :ivar management: address of the node with the management daemon.
    :ivar data: folder of the job on the scratch.
    :ivar folder: the job's folder in /run.
    :ivar rdma: whether RDMA must be used, may be, or is not: REQUIRED, ALLOWED or OFF of settings.py.
    """

    daemons: tuple[str, ...]
    management: str
    data: str
    folder: str
    rdma: str


@dataclass(frozen=True)
class Seen:
    """What the management daemon tells.

    :ivar answered: whether it told anything.
    :ivar metadata: names of registered nodes that keep metadata.
    :ivar storage: names of registered nodes that keep data.
    :ivar metadata_good: how many of the first are online and consistent.
    :ivar storage_good: likewise of the second.
    :ivar words: what it said, where it did not answer.
    """

    answered: bool
    metadata: tuple[str, ...] = ()
    storage: tuple[str, ...] = ()
    metadata_good: int = 0
    storage_good: int = 0
    words: str = ""


class Release(Protocol):
    """A release of BeeGFS."""

    def daemons(self, is_first: bool, keeps_metadata: bool) -> tuple[str, ...]:
        """Return what a node of the job runs, in the order in which it is started."""

    def ports(self, daemons: tuple[str, ...], settings: Settings) -> tuple[tuple[str, int], ...]:
        """Return the ports that these take, as (``tcp`` or ``udp``, number); the client's is one of them."""

    def storage_port(self, settings: Settings) -> int:
        """Return the port on which each node's storage server takes connections."""

    def folders(self, part: Part) -> tuple[str, ...]:
        """Return the folders of the daemons' data, which are made before they start."""

    def files(self, part: Part, settings: Settings) -> dict[str, str]:
        """Return the configuration files by name. The secret lies beside them."""

    def command(self, daemon: str, settings: Settings) -> str:
        """Return the command line of a daemon; ``%i`` is the job."""

    def reason(self, log: str) -> str:
        """Return why a daemon has ended, as its log tells; nothing where that does not."""

    def look(self, folder: str, run: Bounded) -> Seen:
        """Ask the management daemon who is there."""

    def clients(self, folder: str, run: Bounded) -> int | None:
        """Return how many clients are mounted; None where the management daemon does not answer."""

    def load(self) -> tuple[str, ...]:
        """Return the command that makes the kernel able to mount it."""

    def mount(self, mount_point: str, folder: str) -> tuple[str, ...]:
        """Return the command that mounts it, without privileges for what lies in it."""

    def fell_back(self, mount_point: str, run: Bounded) -> str:
        """Return what shows that RDMA was not used where it should be; nothing where it was."""
