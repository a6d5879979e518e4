# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which cluster this machine belongs to: what the playbook wrote down, else what its user data says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..forms import GUID
from .atomic import write_file
from .config import ConfigError, as_config, read_config
from .root import Root
from .vm_size import identity_of, is_same_machine

CONFIG = "cluster"
"""/etc/hpcai/cluster.json, written by role cluster."""
MEMORY_FILE = "/var/lib/hpcai/joining.json"
"""What step ``instance`` found out last: the node's name, and the settings in the user data."""

FROM_FILE, FROM_USER_DATA = "cluster.json", "user data"
PUSH, KEY_VAULT = "push", "key_vault"
CONTROLLER, LOGIN, COMPUTE = "controller", "login", "compute"

# These end up in slurmd's command line and environment file.
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_ADDRESS = re.compile(r"[A-Za-z0-9:][A-Za-z0-9_.:-]{0,252}")


@dataclass(frozen=True)
class KeySource:
    """Where the munge key comes from.

    :ivar source: PUSH or KEY_VAULT.
    :ivar vault: URL of the vault; None with PUSH.
    :ivar secret: name of the secret in it.
    :ivar client_id: which of the machine's identities may read it; None where there is but one.
    """

    source: str = PUSH
    vault: str | None = None
    secret: str = "munge-key"
    client_id: str | None = None


@dataclass(frozen=True)
class ClusterSettings:
    """The cluster that a machine belongs to.

    :ivar name: the cluster's name.
    :ivar functions: what the machine does in it: CONTROLLER, LOGIN, COMPUTE.
    :ivar controllers: addresses of slurmctld, the first one first.
    :ivar key: where the munge key comes from.
    :ivar origin: FROM_FILE or FROM_USER_DATA.
    """

    name: str
    functions: tuple[str, ...]
    controllers: tuple[str, ...]
    key: KeySource
    origin: str

    @property
    def is_compute(self) -> bool:
        """Whether the machine runs jobs."""
        return COMPUTE in self.functions


@dataclass(frozen=True)
class Joining:
    """What was found out about this machine at its last good start.

    :ivar node_name: its name in Slurm by the rule.
    :ivar settings: the cluster's settings in its user data; None where there are none.
    """

    node_name: str
    settings: ClusterSettings | None


def cluster_of(root: Root) -> ClusterSettings | None:
    """Return the cluster of the machine below ``root``; None if it belongs to none.

    /etc/hpcai/cluster.json, else what step ``instance`` found in the user data; this asks nobody.

    :raises ConfigError: there are settings, but not ones that can be used; the message names what and where.
    """
    written = settings_written(root)
    if written:
        return written
    known = remembered(root)
    return known.settings if known else None


def settings_written(root: Root) -> ClusterSettings | None:
    """Return the settings that the playbook wrote; None where it wrote none.

    :raises ConfigError: the file cannot be used.
    """
    stated = read_config(root, CONFIG)
    if stated is None:
        return None
    return settings_from(stated, FROM_FILE, root.at(f"/etc/hpcai/{CONFIG}.json"))


def settings_from(stated: Mapping[str, Any], origin: str, where: str) -> ClusterSettings:
    """Return the settings that ``stated`` holds, without the schema's version.

    :param where: how messages name the place.
    :raises ConfigError: a key is missing, unknown or of the wrong form.
    """
    _keys(stated, {"cluster", "functions", "controllers", "key"}, where)
    functions = _texts(stated, "functions", where)
    for function in functions:
        if function not in (CONTROLLER, LOGIN, COMPUTE):
            raise ConfigError(f"functions in {where} has {function!r}: it may have controller, login and compute.")
    controllers = _texts(stated, "controllers", where)
    for address in controllers:
        if not _ADDRESS.fullmatch(address):
            raise ConfigError(f"controllers in {where} has {address!r}, which is neither an address nor a name.")
    if COMPUTE in functions and not controllers:
        raise ConfigError(f"controllers in {where} is empty: a compute node needs the address of one.")
    return ClusterSettings(
        name=_text(stated, "cluster", _CLUSTER, "letters, digits, '-', '_' and '.'", where),
        functions=functions,
        controllers=controllers,
        key=_key_source(stated.get("key"), f"key in {where}"),
        origin=origin,
    )


def remembered(root: Root) -> Joining | None:
    """Return what was found out at the last good start; None if nothing was, or it was another machine's.

    :raises ConfigError: it holds settings that cannot be used.
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
    """Write down what was found out, for the steps after this and for a start without the metadata service.

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
    """Return what ``settings_from`` takes."""
    return {
        "cluster": settings.name,
        "functions": list(settings.functions),
        "controllers": list(settings.controllers),
        "key": asdict(settings.key),
    }


def _key_source(stated: Any, where: str) -> KeySource:
    if stated is None:
        return KeySource()
    if not isinstance(stated, Mapping):
        raise ConfigError(f"{where} is no mapping.")
    _keys(stated, {"source", "vault", "secret", "client_id"}, where)
    source = stated.get("source")
    if source not in (PUSH, KEY_VAULT):
        raise ConfigError(f"source of {where} is {source!r}: it may be {PUSH} or {KEY_VAULT}.")
    secret = _text({"secret": KeySource.secret, **stated}, "secret", _SECRET_NAME, "letters, digits and '-'", where)
    vault, client_id = stated.get("vault"), stated.get("client_id")
    if client_id is not None and not (isinstance(client_id, str) and GUID.fullmatch(client_id)):
        raise ConfigError(f"client_id of {where} is no client id: it has the form of a GUID, or is null.")
    if source == PUSH:
        # With this source nobody looks at the vault: it may stand there for later.
        return KeySource(PUSH, None, secret, client_id)
    if not isinstance(vault, str):
        raise ConfigError(f"vault of {where} is missing: with {KEY_VAULT} it is the vault's URL.")
    try:
        return KeySource(KEY_VAULT, vault_of(vault).url, secret, client_id)
    except ValueError as error:
        raise ConfigError(f"vault of {where}: {error}") from None


def _keys(stated: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(str(key) for key in stated if key not in known)
    if unknown:
        raise ConfigError(f"{where} has unknown keys: {', '.join(unknown)}; it may have {', '.join(sorted(known))}.")


def _text(stated: Mapping[str, Any], key: str, form: re.Pattern[str], words: str, where: str) -> str:
    value = stated.get(key)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ConfigError(f"{key} of {where} is {value!r}: it must be a text of {words}.")
    return value


def _texts(stated: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = stated.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{key} of {where} must be a list of texts, not {value!r}.")
    return tuple(value)


_SECRET_NAME = re.compile(r"[0-9A-Za-z-]{1,127}")

# One suffix for each of Azure's clouds. A token of this machine goes nowhere else.
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
    :ivar resource: what a token for it is asked for.
    """

    name: str
    url: str
    resource: str


def vault_of(url: str) -> Vault:
    """Return the vault at ``url``.

    :raises ValueError: it is no vault's URL; the message says what one looks like.
    """
    found = _VAULT.fullmatch(url)
    if not found:
        raise ValueError(
            f"{url!r} is not the URL of a key vault: it looks like https://NAME.vault.azure.net "
            "(or .vault.azure.cn, .vault.usgovcloudapi.net)."
        )
    return Vault(found["name"].lower(), url.rstrip("/").lower(), f"https://{found['suffix'].lower()}")
