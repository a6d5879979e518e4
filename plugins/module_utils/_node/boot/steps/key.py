# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The munge key: from the key vault of this machine's cluster, where that is the source."""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import time
from typing import Callable

from ...health.check import FAIL, PASS, SKIP, WARN
from ...machine.atomic import remove_file, write_file
from ...machine.cluster_settings import KEY_VAULT, ClusterSettings, KeySource, cluster_of
from ...machine.root import Root
from ..step import Context, Outcome, Step, StepFailed

KEY_FILE = "/etc/munge/munge.key"
USER = "munge"
MODE = 0o400
SHORTEST, LONGEST = 32, 1024
"""Bytes that munged takes as a key."""
MARGIN_S = 5.0
"""What is left of the step's time when the vault has been waited for."""

Fetch = Callable[[KeySource, float], bytes]


class _NoKey(Exception):
    """The source does not give the key.

    :ivar action: what to do about it.
    """

    def __init__(self, message: str, action: str) -> None:
        super().__init__(message)
        self.action = action


def perform(context: Context, fetch: Fetch | None = None) -> Outcome:
    """Bring the key, where it is this machine that fetches it.

    Nothing that this returns, raises or runs has anything of the key in it.

    :param fetch: what fetches it within so many seconds; ``fetch_from_vault`` by default.
    :raises ConfigError: the cluster's settings cannot be used.
    :raises StepFailed: munge is not installed.
    :raises OSError: the key cannot be written; then the old one is as it was.
    """
    cluster = cluster_of(context.root)
    if cluster is None:
        return Outcome(SKIP, "this machine belongs to no cluster")
    present = _present(context.root)
    if cluster.key.source != KEY_VAULT:
        if present:
            return Outcome(PASS, "the munge key is there, brought by site.yml")
        return Outcome(FAIL, "there is no munge key: this node waits for site.yml, which brings it", "Run site.yml")
    return _from_vault(context, cluster, present, fetch or fetch_from_vault)


def _from_vault(context: Context, cluster: ClusterSettings, present: bytes | None, fetch: Fetch) -> Outcome:
    owner = _owner(context.root)
    source = f"secret {cluster.key.secret} of {cluster.key.vault}"
    try:
        key = fetch(cluster.key, max(1.0, context.seconds - MARGIN_S))
        if not SHORTEST <= len(key) <= LONGEST:
            raise _NoKey(
                f"{source} has {len(key)} bytes, and a munge key has {SHORTEST} to {LONGEST}",
                "Store a good one: guide_joining says how",
            )
    except _NoKey as error:
        if present is None:
            return Outcome(FAIL, f"no munge key: {error}", error.action)
        return Outcome(WARN, f"the munge key of before is kept: {error}", error.action)
    changes = []
    if key != present:
        changes.append(f"wrote {KEY_FILE} from {source}")
    elif _owner_and_mode(context.root) != (*owner, MODE):
        changes.append(f"gave {KEY_FILE} to {USER}, mode 0400")
    if changes and not context.check:
        _write(context, key, owner)
    return Outcome(PASS, f"the munge key is up to date with {source}", changes=tuple(changes))


def fetch_from_vault(source: KeySource, limit_s: float) -> bytes:
    """Return the key in the vault, as the machine's own identity.

    :param limit_s: seconds for the token and the secret together.
    """
    # Not above: to import what speaks HTTP takes longer than all that most callers do.
    from ...machine import imds, key_vault
    from ...machine.cluster_settings import vault_of

    vault = vault_of(source.vault or "")
    deadline = time.monotonic() + limit_s
    try:
        token = imds.read_token(vault.resource, source.client_id, limit_s / 2)
        return key_vault.read_secret(vault, source.secret, token, max(1.0, deadline - time.monotonic()))
    except imds.TokenRefused as error:
        raise _NoKey(
            str(error).rstrip("."),
            "Give the scale set an identity (az vmss identity assign), and set hpcai_identity_client_id where it has "
            "several",
        ) from None
    except imds.ImdsError as error:
        raise _NoKey(str(error).rstrip("."), "Wait until it answers, then: systemctl start slurmd") from None
    except key_vault.VaultError as error:
        raise _NoKey(str(error), error.action) from None


def _present(root: Root) -> bytes | None:
    """The key that is there, unless munged would not take it."""
    try:
        with open(root.at(KEY_FILE), "rb") as file:
            key = file.read(LONGEST + 1)
    except OSError:
        return None
    return key if SHORTEST <= len(key) <= LONGEST else None


def _owner_and_mode(root: Root) -> tuple[int, int, int]:
    status = os.stat(root.at(KEY_FILE))
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


def _owner(root: Root) -> tuple[int, int]:
    if root.is_this_machine:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(USER)
            return entry.pw_uid, entry.pw_gid
    for line in (root.text("/etc/passwd") or "").splitlines():
        name, *rest = line.split(":")
        if name == USER and len(rest) >= 3 and rest[1].isdecimal() and rest[2].isdecimal():
            return int(rest[1]), int(rest[2])
    raise StepFailed(
        f"there is no user {USER} on this machine: install munge (role hpcai.azure.slurm, or bake the image)."
    )


def _write(context: Context, key: bytes, owner: tuple[int, int]) -> None:
    folder, name = os.path.split(KEY_FILE)
    # Left by a start that was interrupted: nobody would ever remove a copy of the key.
    for entry in context.root.entries(folder):
        if entry.startswith(f".{name}."):
            remove_file(context.root.at(f"{folder}/{entry}"))
    write_file(context.root.at(KEY_FILE), key.decode("utf-8", "surrogateescape"), MODE, owner)
    # At boot munge has not started yet, and this does nothing. Not waited for: munge comes after this step's own unit,
    # and each would wait for the other.
    context.run(("systemctl", "--no-block", "try-restart", "munge.service"))


STEP = Step(
    name="key",
    title="Bring the cluster's munge key",
    blocking=True,
    limit_s=60.0,
    perform=perform,
)
