# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode grants: the service that gives users short-lived access to Blob storage and registries."""

from __future__ import annotations

import argparse
import os
import pwd
import socket

from ..machine.root import Root
from ..setup.tools.layout import TOOL
from .command import GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments

_DESCRIPTION = """\
Only root can use this machine's managed identity. A service that runs as root gives users' processes short-lived access
instead: a SAS for a container, or a password for a registry. The access is limited to what the cluster's definition
grants to the user's groups (/etc/hpcai/grants.json, written by the role hpcai.azure.blob_staging). 'hpcnode stage',
'hpcnode checkpoint' and enroot request access from the service when they need it.

Exit status: 0 good, 2 the service cannot be reached, or refuses.
"""
_STATUS = """\
Shows the containers that your groups may use.

Exit status: 0 good, 2 the service cannot be reached, or refuses.
"""
_SERVE = """\
Answers requests on the socket that systemd passes to it (hpcai-grants.socket). It exits after one minute without a
request.
"""
_IDLE_S = 60.0
_FIRST_HANDLE = 3


def _execute(args: argparse.Namespace) -> Answer:
    return _status() if args.action == "status" else _serve(Root(args.root))


def _status() -> Answer:
    from ..job.grants.client import GrantsError, ask
    from ..job.grants.protocol import LIST

    try:
        answer = ask({"ask": LIST})
    except GrantsError as error:
        return Answer(UNKNOWN, str(error), {"reason": str(error)})
    grants = answer.get("grants", [])
    lines = [f"{one['rights']:6}  {one['container']}" for one in grants]
    return Answer(GOOD, "\n".join(lines) or "your groups are granted no container", {"grants": grants})


def _serve(root: Root) -> Answer:
    from ..job.grants.broker import Broker, Keys
    from ..job.grants.server import Server

    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        raise UsageError("serve is called by systemd: 'systemctl start hpcai-grants.socket'")
    version = os.path.realpath(TOOL)
    with socket.socket(fileno=_FIRST_HANDLE) as listener:
        server = Server(listener, Broker(root, Keys()).answer, _has_account)
        # After an upgrade of hpcnode the service exits, and systemd starts the new version for the next request.
        server.serve(_IDLE_S, lambda: os.path.realpath(TOOL) != version)
    return Answer(GOOD, "")


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


COMMAND = Command(
    "grants",
    "what your groups may access in Blob storage",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("status", "show the containers that your groups may use", _STATUS),
        Action("serve", "answer requests, as a service", _SERVE),
    ),
    default="status",
)
