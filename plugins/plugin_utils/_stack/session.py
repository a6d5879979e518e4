# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A task about a stack: its options, its connection to Azure, and its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...module_utils._node.forms import Malformed
from .._azure.concurrency import Deadline
from .._azure.connection import CONNECTION, connect, connections_for
from .._azure.errors import InventoryError, missing_package
from .._progress import Progress
from .arm import Arm
from .deployments import Deployments
from .model import Stack
from .parse import stack_of

SPEC: dict[str, dict[str, Any]] = {
    **CONNECTION,
    "subscription_id": {"type": "str", "required": True},
    "stack": {"type": "dict", "required": True},
    "timeout": {"type": "int", "default": 3600},
}
"""Argument spec that all tasks about a stack share."""
NOT_SECRET = ("cloud", "endpoint", "auth_source", "tenant_id", "client_id", "certificate_path")
"""Connection options that may be written to an inventory."""
_DEFAULTS = {"cloud": "AzureCloud", "auth_source": "auto"}


@dataclass(frozen=True)
class Session:
    """A task's connection.

    :ivar deployments: the deployments in the stack's group.
    :ivar say: shows how far the task is.
    :ivar connection: options of the connection without secrets, if they differ from the defaults.
    """

    stack: Stack
    arm: Arm
    deployments: Deployments
    say: Callable[[str], None]
    connection: Mapping[str, Any]

    @property
    def requests(self) -> dict[str, int]:
        """The requests so far, without polls."""
        return {"reads": self.arm.reads, "writes": self.arm.writes + self.deployments.writes}


@contextmanager
def session(options: Mapping[str, Any], loader: Any, host: str) -> Iterator[Session]:
    """Connect, and close the connection afterwards.

    :param options: the options of the task.
    :param loader: Ansible's data loader.
    :param host: the task's host, which begins each line of the progress.
    :raises InventoryError: an option is wrong, a package is missing, or sign-in is not possible.
    """
    try:
        stack = stack_of(options["stack"], options["subscription_id"], options["cloud"])
    except Malformed as error:
        raise InventoryError(str(error)) from None
    deadline = Deadline(options["timeout"])
    progress = Progress(host)
    (get, _subscriptions), *_more = connections_for(options, {stack.subscription}, loader)
    try:
        with connect(get, deadline, only_lists=False) as clients:
            yield Session(
                stack,
                Arm(clients, deadline),
                Deployments(clients, stack.subscription, stack.group.name, deadline, progress.say),
                progress.say,
                {
                    name: value
                    for name in NOT_SECRET
                    if (value := get(name)) is not None and value != _DEFAULTS.get(name)
                },
            )
    except ImportError as error:
        raise missing_package(str(error.name or "azure-core").replace(".", "-")) from error
