# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode metadata: the kernel filter for connections to Azure's metadata service."""

from __future__ import annotations

import argparse

from ..machine.bpf import BpfError
from ..machine.root import Root
from ..setup.metadata import connect
from ..setup.metadata.options import MetadataProblem, read_guard, read_users
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments

_DESCRIPTION = """\
Only root and listed users may connect to Azure's metadata service. nftables checks which user opened a socket. This
kernel filter also checks which user connects it, so that a job cannot use a socket that it inherits from root.

The Ansible module hpcai.azure.metadata_access writes the settings to /etc/hpcai/metadata.json. The command needs root
and a mounted cgroup v2, which systemd also mounts beside version 1. It works on the running machine only, and not in a
container.
"""
_STATUSES = """\
Exit status: 0 the filter is attached, or it is turned off and not attached, 1 it is not as the settings require, 2 the
kernel refuses, or the state is not known, 3 wrong usage.
"""
_STATUS = f"""\
Shows whether the filter is attached. It changes nothing.

{_STATUSES}"""
_ATTACH = f"""\
Attaches the filter, and detaches one with older settings. hpcai-metadata.service calls it at boot and reload.

{_STATUSES}"""
_DETACH = f"""\
Detaches the filter.

{_STATUSES}"""


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if not root.is_this_machine:
        if args.action != "status":
            raise UsageError(f"metadata {args.action} works on the running machine only: leave out --root")
        words = f"no kernel can be queried below {root.path}: leave out --root"
        return Answer(UNKNOWN, words, {"attached": None, "problem": words})
    try:
        return _answer(root, args.action)
    except (BpfError, MetadataProblem) as error:
        return Answer(UNKNOWN, str(error), {"attached": None, "problem": str(error)})


def _answer(root: Root, action: str) -> Answer:
    enabled = bool(read_guard(root)) and action != "detach"
    users = read_users(root)
    if action == "attach" and enabled:
        connect.attach(root, users)
    elif action != "status":
        connect.detach(root)
    if not enabled:
        attached = connect.is_attached(root)
        words = f"the filter is {'still' if attached else 'not'} attached"
        return Answer(BAD if attached else GOOD, words, {"attached": attached, "problem": ""})
    problem = connect.difference(root, users)
    return Answer(BAD if problem else GOOD, problem or "attached", {"attached": not problem, "problem": problem})


COMMAND = Command(
    "metadata",
    "the filter for the metadata service",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("status", "show whether the filter is attached", _STATUS),
        Action("attach", "attach the filter", _ATTACH),
        Action("detach", "detach the filter", _DETACH),
    ),
    default="status",
)
