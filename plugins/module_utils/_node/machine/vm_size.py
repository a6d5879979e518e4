# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which machine this is: its VM size (given, asked or remembered), its identity, its physical host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from ..sku import VmSize, canonical_size, find_size
from .atomic import write_file
from .config import ConfigError, as_config, read_config
from .root import Root

INSTANCE_FILE = "/var/lib/hpcai/instance.json"
"""What the metadata service said last."""
_FIRMWARE_ID = "/sys/class/dmi/id/product_uuid"
_MACHINE_ID = "/etc/machine-id"

GIVEN, NODE_SETTINGS, METADATA, REMEMBERED = "given", "node.json", "imds", "remembered"
"""Where a name came from, the first wins."""

AskImds = Callable[[], "dict[str, Any]"]


class VmSizeUndetermined(ConfigError):
    """Nobody says which VM size this machine has; the message tells where it may be said."""


@dataclass(frozen=True)
class VmSizeName:
    """The name of this machine's VM size.

    :ivar name: canonical name.
    :ivar origin: who said it: GIVEN, NODE_SETTINGS, METADATA or REMEMBERED.
    :ivar compute: the metadata service's answer, for ``remember``; None where it was not asked.
    """

    name: str
    origin: str
    compute: Mapping[str, Any] | None = None


def vm_size_of(
    root: Root, given: str | None = None, ask: AskImds | None = None, remembered_first: bool = False
) -> VmSizeName:
    """Return the VM size of the machine below ``root``.

    The first of these that knows it: ``given``, ``vm_size`` of /etc/hpcai/node.json, the metadata service (only for the
    running machine), what that service said last (/var/lib/hpcai/instance.json).

    :param ask: what asks the metadata service, ``imds.read_compute`` by default.
    :param remembered_first: whether the service is asked only if its last answer is not known, for those who cannot
        wait for it: a machine's size does not change while it runs.
    :raises VmSizeUndetermined: none of them knows.
    :raises ConfigError: node.json cannot be used.
    """
    if given:
        return VmSizeName(canonical_size(given), GIVEN)
    configured = (read_config(root, "node") or {}).get("vm_size")
    if configured:
        return VmSizeName(canonical_size(str(configured)), NODE_SETTINGS)
    remembered = _remembered(root)
    if remembered and remembered_first:
        return VmSizeName(canonical_size(remembered), REMEMBERED)
    problem = f"{root.path} is not the running machine, so the metadata service was not asked"
    if root.is_this_machine:
        # Not above: to import what speaks HTTP takes longer than all that most callers do.
        from . import imds

        try:
            compute = (ask or imds.read_compute)()
            return VmSizeName(canonical_size(compute["vmSize"]), METADATA, compute)
        except imds.ImdsError as error:
            problem = str(error)
    if remembered:
        return VmSizeName(canonical_size(remembered), REMEMBERED)
    raise VmSizeUndetermined(
        f"The VM size of this machine is not known: {problem.rstrip('.')}. "
        f"Give vm_size, or set it in {root.at('/etc/hpcai/node.json')} (role hpcai.azure.node_tools)."
    )


def size_facts(
    root: Root,
    given: str | None = None,
    described: Mapping[str, Mapping[str, Any]] | None = None,
    ask: AskImds | None = None,
    remembered_first: bool = False,
) -> tuple[VmSize, VmSizeName]:
    """Return the facts of this machine's VM size, and how its name was found.

    :param described: sizes described by hand; they win over those in node.json.
    :param remembered_first: see ``vm_size_of``.
    :raises UnknownVmSize: the size is neither in the table nor described.
    :raises ConfigError: see ``vm_size_of``.
    """
    name = vm_size_of(root, given, ask, remembered_first)
    by_hand = (read_config(root, "node") or {}).get("vm_sizes") or {}
    return find_size(name.name, described={**by_hand, **(described or {})}), name


def remember(root: Root, compute: Mapping[str, Any]) -> None:
    """Write down what the metadata service said, for a boot at which it does not answer. Not for check mode.

    :raises OSError: it cannot be written.
    """
    facts = {
        "vm_size": compute.get("vmSize"),
        "vm_id": compute.get("vmId"),
        "name": compute.get("name"),
        "admin": (compute.get("osProfile") or {}).get("adminUsername"),
        **identity_of(root),
    }
    text = as_config({key: value for key, value in facts.items() if value})
    if root.text(INSTANCE_FILE) != text.strip():
        write_file(root.at(INSTANCE_FILE), text)


def remembered_instance(root: Root) -> dict[str, Any]:
    """Return what was written down last, whichever machine it was; empty where that cannot be read."""
    try:
        facts = json.loads(root.text(INSTANCE_FILE) or "{}")
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def remembered_admin(root: Root) -> str | None:
    """Return the user who was given to the machine as its admin (``osProfile.adminUsername``); None if not known."""
    facts = remembered_instance(root)
    return str(facts["admin"]) if facts.get("admin") and is_same_machine(root, facts) else None


def _remembered(root: Root) -> str | None:
    """The size of the last answer, unless another machine got it: an image carries its first machine's files along."""
    facts = remembered_instance(root)
    if not isinstance(facts.get("vm_size"), str):
        return None
    return str(facts["vm_size"]) if is_same_machine(root, facts) else None


def identity_of(root: Root) -> dict[str, str | None]:
    """Return what tells this machine from others even where the metadata service is silent."""
    return {"firmware_id": root.text(_FIRMWARE_ID), "machine_id": root.text(_MACHINE_ID)}


def is_same_machine(root: Root, facts: Mapping[str, Any]) -> bool:
    """Whether ``facts``, written down with ``identity_of``, are this machine's own.

    What only one side knows tells nothing. The firmware's id decides where both know it: systemd makes a machine id
    from it on some machines, and keeps the old one in a captured image on others.
    """
    for name, here in identity_of(root).items():
        if here and facts.get(name):
            return here.lower() == str(facts[name]).lower()
    return True


KVP_POOL = "/var/lib/hyperv/.kvp_pool_3"
"""The pool of what the host itself says (linux, tools/hv/hv_kvp_daemon.c)."""
_KVP_KEY, _KVP_VALUE = 512, 2048
"""Bytes of a record's key and value (linux, include/uapi/linux/hyperv.h: HV_KVP_EXCHANGE_MAX_KEY_SIZE, _VALUE_SIZE)."""
_KVP_HOST = ("PhysicalHostNameFullyQualified", "PhysicalHostName")


def physical_host(root: Root) -> str:
    """Return the name of the physical host that the machine runs on; nothing where that is not told."""
    pairs = read_kvp(root)
    return next((pairs[key] for key in _KVP_HOST if pairs.get(key)), "")


def read_kvp(root: Root) -> dict[str, str]:
    """Return what the host says by key; empty where the file cannot be read."""
    try:
        with open(root.at(KVP_POOL), "rb") as file:
            return parse_kvp(file.read())
    except OSError:
        return {}


def parse_kvp(raw: bytes) -> dict[str, str]:
    """Return the pairs in a pool: records of fixed length, texts that end with a zero. Half a record is left out."""
    pairs = {}
    for start in range(0, len(raw) - _KVP_KEY - _KVP_VALUE + 1, _KVP_KEY + _KVP_VALUE):
        key, value = raw[start : start + _KVP_KEY], raw[start + _KVP_KEY : start + _KVP_KEY + _KVP_VALUE]
        pairs[_kvp_text(key)] = _kvp_text(value)
    return {key: value for key, value in pairs.items() if key}


def _kvp_text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace").strip()
