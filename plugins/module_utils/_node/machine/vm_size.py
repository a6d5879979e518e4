# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's VM size (given, queried or remembered), and its identity."""

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
"""The metadata service's last answer."""
_FIRMWARE_ID = "/sys/class/dmi/id/product_uuid"
_MACHINE_ID = "/etc/machine-id"

GIVEN, NODE_SETTINGS, METADATA, REMEMBERED = "given", "node.json", "imds", "remembered"
"""The sources of the name; the first one with a name wins."""

AskImds = Callable[[], "dict[str, Any]"]


class VmSizeUndetermined(ConfigError):
    """The VM size of this machine is unknown; the message says where to set it."""


@dataclass(frozen=True)
class VmSizeName:
    """The name of this machine's VM size.

    :ivar name: canonical name.
    :ivar origin: its source: GIVEN, NODE_SETTINGS, METADATA or REMEMBERED.
    :ivar compute: the metadata service's answer, for ``remember``; None if it was not queried.
    """

    name: str
    origin: str
    compute: Mapping[str, Any] | None = None


def vm_size_of(
    root: Root, given: str | None = None, ask: AskImds | None = None, remembered_first: bool = False
) -> VmSizeName:
    """Return the VM size of the machine below ``root``.

    The sources, in this order: ``given``, ``vm_size`` in /etc/hpcai/node.json, the metadata service (only for the
    running machine), that service's last answer (/var/lib/hpcai/instance.json).

    :param ask: queries the metadata service, ``imds.read_compute`` by default.
    :param remembered_first: prefer the service's last answer, for callers that cannot wait for the service: a machine's
        size does not change while it runs.
    :raises VmSizeUndetermined: no source has it.
    :raises ConfigError: node.json is invalid.
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
        # Imported here, because importing the HTTP modules takes longer than everything that most callers do.
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
        f"Set vm_size, as an option or in {root.at('/etc/hpcai/node.json')} (role hpcai.azure.node_tools)."
    )


def size_facts(
    root: Root,
    given: str | None = None,
    described: Mapping[str, Mapping[str, Any]] | None = None,
    ask: AskImds | None = None,
    remembered_first: bool = False,
) -> tuple[VmSize, VmSizeName]:
    """Return the facts of this machine's VM size, and the source of its name.

    :param described: sizes described by hand; they override those in node.json.
    :param remembered_first: see ``vm_size_of``.
    :raises UnknownVmSize: the size is neither in the table nor described.
    :raises ConfigError: see ``vm_size_of``.
    """
    name = vm_size_of(root, given, ask, remembered_first)
    by_hand = (read_config(root, "node") or {}).get("vm_sizes") or {}
    return find_size(name.name, described={**by_hand, **(described or {})}), name


def remember(root: Root, compute: Mapping[str, Any]) -> None:
    """Write down the metadata service's answer, for a boot at which it does not answer. Do not call it in check mode.

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
    """Return the last written answer, of this or another machine; empty if it cannot be read."""
    try:
        facts = json.loads(root.text(INSTANCE_FILE) or "{}")
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def remembered_admin(root: Root) -> str | None:
    """Return the machine's admin user (``osProfile.adminUsername``); None if unknown."""
    facts = remembered_instance(root)
    return str(facts["admin"]) if facts.get("admin") and is_same_machine(root, facts) else None


def _remembered(root: Root) -> str | None:
    """Return the size in the last answer, unless another machine wrote it: an image has its first machine's files."""
    facts = remembered_instance(root)
    if not isinstance(facts.get("vm_size"), str):
        return None
    return str(facts["vm_size"]) if is_same_machine(root, facts) else None


def identity_of(root: Root) -> dict[str, str | None]:
    """Return ids of this machine that are available without the metadata service."""
    return {"firmware_id": root.text(_FIRMWARE_ID), "machine_id": root.text(_MACHINE_ID)}


def is_same_machine(root: Root, facts: Mapping[str, Any]) -> bool:
    """Whether ``facts``, which contain the ids of ``identity_of``, are this machine's own.

    An id that only one side has is ignored. The firmware's id decides if both have it: systemd derives the machine id
    from it on some machines, and keeps the old one of a captured image on others.
    """
    for name, here in identity_of(root).items():
        if here and facts.get(name):
            return here.lower() == str(facts[name]).lower()
    return True
