# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode metadata: the kernel's filter of connections to Azure's metadata service."""

from __future__ import annotations

import argparse

from ..machine.bpf import BpfError
from ..machine.root import Root
from ..setup.metadata import connect
from ..setup.metadata.options import MetadataProblem, read_guard, read_users
from .command import BAD, GOOD, UNKNOWN, Answer, Command, UsageError

_DESCRIPTION = """\
Only root and listed users reach Azure's metadata service. nftables sees who opened a socket. A filter in the kernel
also sees who connects it, so that a job that inherits a socket from root cannot use it.

  status  (the default) shows whether the filter is attached. Changes nothing.
  attach  attaches it, and detaches that of earlier settings. hpcai-metadata.service calls it at boot and at a reload.
  detach  detaches it.

Reads /etc/hpcai/metadata.json (written by the Ansible module hpcai.azure.metadata_access). Needs root and a mounted
cgroup v2, which systemd also mounts beside version 1. Containers are not allowed to attach it. Works on the running
machine only.

Exit status: 0 the filter is attached, or it is switched off and not attached, 1 it is not as the file wants it, 2 the
kernel does not say or refuses, 3 wrong usage.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", nargs="?", choices=("status", "attach", "detach"), default="status", help="what to do"
    )


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if not root.is_this_machine:
        if args.action != "status":
            raise UsageError(f"metadata {args.action} works on the running machine only: leave out --root")
        words = f"there is no kernel below {root.path} to ask"
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


COMMAND = Command("metadata", "who connects to the metadata service", _DESCRIPTION, _add_arguments, _execute)
