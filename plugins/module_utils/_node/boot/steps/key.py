# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step key: fetches the munge key from the cluster's key vault, if that is the key's source."""

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
"""Length of a munge key in bytes: the least and the most that munged accepts."""
MARGIN_S = 5.0
"""Seconds of the step's timeout that are reserved after waiting for the vault."""

Fetch = Callable[[KeySource, float], bytes]


class _NoKey(Exception):
    """The key cannot be fetched from its source.

    :ivar action: what to do.
    """

    def __init__(self, message: str, action: str) -> None:
        super().__init__(message)
        self.action = action


def perform(context: Context, fetch: Fetch | None = None) -> Outcome:
    """Fetch and install the key, if the machine has to fetch it.

    No part of the key is in any return value, error or command.

    :param fetch: fetches it within a timeout in seconds; ``fetch_from_vault`` by default.
    :raises ConfigError: the cluster's settings cannot be used.
    :raises StepFailed: munge is not installed.
    :raises OSError: the key cannot be written; the old key is unchanged.
    """
    cluster = cluster_of(context.root)
    if cluster is None:
        return Outcome(SKIP, "this machine belongs to no cluster")
    present = _present(context.root)
    if cluster.key.source != KEY_VAULT:
        if present:
            return Outcome(PASS, "the munge key is installed (by site.yml)")
        return Outcome(FAIL, "there is no munge key: this node waits for site.yml, which installs it", "Run site.yml")
    return _from_vault(context, cluster, present, fetch or fetch_from_vault)


def _from_vault(context: Context, cluster: ClusterSettings, present: bytes | None, fetch: Fetch) -> Outcome:
    owner = _owner(context.root)
    source = f"secret {cluster.key.secret} of {cluster.key.vault}"
    try:
        key = fetch(cluster.key, max(1.0, context.seconds - MARGIN_S))
        if not SHORTEST <= len(key) <= LONGEST:
            raise _NoKey(
                f"{source} has {len(key)} bytes, but a munge key has {SHORTEST} to {LONGEST}",
                "Store a valid key, see guide_joining",
            )
    except _NoKey as error:
        if present is None:
            return Outcome(FAIL, f"no munge key: {error}", error.action)
        return Outcome(WARN, f"the previous munge key is kept: {error}", error.action)
    changes = []
    if key != present:
        changes.append(f"wrote {KEY_FILE} from {source}")
    elif _owner_and_mode(context.root) != (*owner, MODE):
        changes.append(f"set owner {USER} and mode 0400 on {KEY_FILE}")
    if changes and not context.check:
        _write(context, key, owner)
    return Outcome(PASS, f"the munge key is up to date with {source}", changes=tuple(changes))


def fetch_from_vault(source: KeySource, limit_s: float) -> bytes:
    """Return the key in the vault, using the machine's identity.

    :param limit_s: timeout in seconds for the token and the secret together.
    """
    # Imported here, because importing the HTTP modules takes longer than most callers run.
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
            "Give the scale set an identity (az vmss identity assign), and set hpcai_identity_client_id if it has "
            "several",
        ) from None
    except imds.ImdsError as error:
        raise _NoKey(str(error).rstrip("."), "Wait until it answers, then run: systemctl start slurmd") from None
    except key_vault.VaultError as error:
        raise _NoKey(str(error), error.action) from None


def _present(root: Root) -> bytes | None:
    """Return the installed key; None if there is none, or if munged would not accept it."""
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
    # Remove temporary copies of the key that an interrupted run left, because nothing else removes them.
    for entry in context.root.entries(folder):
        if entry.startswith(f".{name}."):
            remove_file(context.root.at(f"{folder}/{entry}"))
    write_file(context.root.at(KEY_FILE), key.decode("utf-8", "surrogateescape"), MODE, owner)
    # At boot munge has not started yet, and this does nothing. With --no-block, because munge starts after this step's
    # unit, so waiting for it would be a deadlock.
    context.run(("systemctl", "--no-block", "try-restart", "munge.service"))


STEP = Step(
    name="key",
    title="Fetch the cluster's munge key",
    blocking=True,
    limit_s=60.0,
    perform=perform,
)
