# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The cluster that this machine belongs to: from the file that the playbook wrote, else from the user data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..forms import Malformed, anything, boolean, checked, choice, guid, list_of, matching, optional, record
from .atomic import write_file
from .config import as_config, read_checked
from .root import Root
from .vm_size import identity_of, is_same_machine

CONFIG = "cluster"
"""/etc/hpcai/cluster.json, written by the role cluster."""
MEMORY_FILE = "/var/lib/hpcai/joining.json"
"""What the boot step ``instance`` found last: the node's name, and the settings in the user data."""

FROM_FILE, FROM_USER_DATA = "cluster.json", "user data"
PUSH, KEY_VAULT = "push", "key_vault"
CONTROLLER, LOGIN, COMPUTE = "controller", "login", "compute"


@dataclass(frozen=True)
class KeySource:
    """Where the munge key comes from.

    :ivar source: PUSH or KEY_VAULT.
    :ivar vault: URL of the vault; None with PUSH.
    :ivar secret: name of the secret in it.
    :ivar client_id: which of the machine's identities may read it; None if there is only one.
    """

    source: str = PUSH
    vault: str | None = None
    secret: str = "munge-key"
    client_id: str | None = None


@dataclass(frozen=True)
class ClusterSettings:
    """The cluster that a machine belongs to.

    :ivar name: the cluster's name.
    :ivar functions: the machine's functions: CONTROLLER, LOGIN, COMPUTE.
    :ivar controllers: addresses of slurmctld, the primary first.
    :ivar key: where the munge key comes from.
    :ivar origin: FROM_FILE or FROM_USER_DATA.
    :ivar elastic: whether the machine gets its node name by a lease from the controller.
    """

    name: str
    functions: tuple[str, ...]
    controllers: tuple[str, ...]
    key: KeySource
    origin: str
    elastic: bool = False

    @property
    def is_compute(self) -> bool:
        """Whether the machine runs jobs."""
        return COMPUTE in self.functions


@dataclass(frozen=True)
class Joining:
    """What was found about this machine at its last successful start.

    :ivar node_name: its name in Slurm, by the naming rule.
    :ivar settings: the cluster's settings in its user data; None if there are none.
    """

    node_name: str
    settings: ClusterSettings | None


def cluster_of(root: Root) -> ClusterSettings | None:
    """Return the cluster of the machine below ``root``; None if it belongs to none.

    It reads /etc/hpcai/cluster.json, else what the step ``instance`` found in the user data. It makes no request.

    :raises ConfigError: the settings are invalid; the message says what and where.
    """
    written = settings_written(root)
    if written:
        return written
    known = remembered(root)
    return known.settings if known else None


def settings_written(root: Root) -> ClusterSettings | None:
    """Return the settings that the playbook wrote; None if there is no file.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, CONFIG, lambda _path, stated: _settings_from(stated, FROM_FILE))


_KEY = record(
    {
        "source": choice(PUSH, KEY_VAULT),
        "vault": anything,
        "secret": matching(r"[0-9A-Za-z-]{1,127}", "a text of letters, digits and '-'"),
        "client_id": optional(guid),
    },
    required=("source",),
)


def _key(path: str, value: Any) -> KeySource:
    key = KeySource(**_KEY(path, value))
    if key.source == PUSH:
        # This source does not use the vault, which may be set for later.
        return replace(key, vault=None)
    if not isinstance(key.vault, str):
        raise Malformed(f"{path} lacks vault: {KEY_VAULT} requires the vault's URL.")
    try:
        return replace(key, vault=vault_of(key.vault).url)
    except ValueError as error:
        raise Malformed(f"{path}.vault: {error}") from None


# Names and addresses are written to slurmd's command line and environment file.
_FORM = record(
    {
        "cluster": matching(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", "a text of letters, digits, '-', '_' and '.'"),
        "functions": list_of(choice(CONTROLLER, LOGIN, COMPUTE)),
        "controllers": list_of(matching(r"[A-Za-z0-9:][A-Za-z0-9_.:-]{0,252}", "an address or a name")),
        "key": optional(_key, KeySource()),
        "elastic": boolean,
    },
    required=("cluster", "functions", "controllers"),
)


def settings_from(stated: Mapping[str, Any], origin: str, where: str) -> ClusterSettings:
    """Parse settings, which have no schema version.

    :param where: the place, for messages.
    :raises ConfigError: a key is missing, unknown or invalid.
    """
    return checked(lambda _path, value: _settings_from(value, origin), stated, where)


def _settings_from(stated: Mapping[str, Any], origin: str) -> ClusterSettings:
    found = _FORM("", stated)
    if COMPUTE in found["functions"] and not found["controllers"]:
        raise Malformed("controllers is empty: a compute node needs the address of a controller.")
    return ClusterSettings(
        found["cluster"],
        found["functions"],
        found["controllers"],
        found.get("key", KeySource()),
        origin,
        found.get("elastic", False),
    )


def remembered(root: Root) -> Joining | None:
    """Return what was found at the last successful start; None if there is no record, or another machine wrote it.

    :raises ConfigError: its settings are invalid.
    """
    try:
        known = json.loads(root.text(MEMORY_FILE) or "{}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(known, dict) or not isinstance(known.get("node_name"), str) or not is_same_machine(root, known):
        return None
    stated = known.get("user_data")
    settings = settings_from(stated, FROM_USER_DATA, "the user data") if isinstance(stated, dict) else None
    return Joining(known["node_name"], settings)


def remember_joining(root: Root, vm_id: str, joining: Joining) -> None:
    """Write down what was found, for later boot steps and for a start without the metadata service.

    :raises OSError: it cannot be written.
    """
    text = as_config(
        {
            **identity_of(root),
            "vm_id": vm_id,
            "node_name": joining.node_name,
            "user_data": as_stated(joining.settings) if joining.settings else None,
        }
    )
    if root.text(MEMORY_FILE) != text.strip():
        write_file(root.at(MEMORY_FILE), text)


def as_stated(settings: ClusterSettings) -> dict[str, Any]:
    """Return the settings in the form that ``settings_from`` parses."""
    return {
        "cluster": settings.name,
        "functions": list(settings.functions),
        "controllers": list(settings.controllers),
        "key": asdict(settings.key),
        # An older hpcnode does not know this key, and has no elastic sets.
        **({"elastic": True} if settings.elastic else {}),
    }


# One suffix for each of Azure's clouds. This machine's token is sent to no other host.
_VAULT = re.compile(
    r"https://(?P<name>[a-z](?:-?[a-z0-9]){2,23})\.(?P<suffix>vault\.azure\.net|vault\.azure\.cn|vault\.usgovcloudapi\.net)"
    r"(?P<port>:[0-9]{1,5})?/?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Vault:
    """A vault.

    :ivar name: its name.
    :ivar url: its URL, without a slash at the end.
    :ivar resource: the resource for tokens.
    """

    name: str
    url: str
    resource: str


def vault_of(url: str) -> Vault:
    """Return the vault at ``url``.

    :raises ValueError: the URL is invalid; the message shows a valid one.
    """
    found = _VAULT.fullmatch(url)
    if not found:
        raise ValueError(
            f"{url!r} is not the URL of a key vault: expected https://NAME.vault.azure.net "
            "(or .vault.azure.cn, .vault.usgovcloudapi.net)."
        )
    return Vault(found["name"].lower(), url.rstrip("/").lower(), f"https://{found['suffix'].lower()}")
