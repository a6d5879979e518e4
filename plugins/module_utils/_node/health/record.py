# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The record of a tier's last run in /run/hpcai/health/TIER.json, and the identity of its machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from ..machine.atomic import make_operators_folder, remove_file, write_file
from ..machine.cluster_settings import remembered
from ..machine.config import ConfigError
from ..machine.hyperv import physical_host
from ..machine.kernel import read_boot_id
from ..machine.root import Root
from ..machine.vm_size import is_same_machine, remembered_instance
from ..slurm import slurmd_env
from . import state
from .check import DEEP, PERIODIC

SCHEMA = 1
COMMAND = "health"
TIME = "%Y-%m-%dT%H:%M:%SZ"
"""The format of ``time`` in a document."""
IMAGE_FACT = "/etc/ansible/facts.d/hpcai_image.fact"
REPORT_REQUEST = f"{state.RUN_FOLDER}/asked/results.json"
"""While this file exists, hpcai-health-report.path starts the report, which removes it."""
_REPORTED_AT_ONCE = (PERIODIC, DEEP)
"""Other tiers' results are sent with the next periodic ones, because many short jobs would cause many reports."""


def node_of(root: Root, vm_size: str, collection: str) -> dict[str, str]:
    """Return the identity of this machine; values that are not known are empty.

    :param vm_size: name of the VM size that the checks used.
    :param collection: version of the collection.
    """
    instance = remembered_instance(root)
    return {
        "name": _node_name(root),
        "vm_id": str(instance.get("vm_id") or "") if is_same_machine(root, instance) else "",
        "vm_size": vm_size,
        "host": physical_host(root),
        "boot_id": read_boot_id(root),
        "image": _image(root),
        "collection": collection,
    }


def with_header(status: int, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the header that hpcnode adds to each answer."""
    return {"schema": SCHEMA, "command": COMMAND, "status": status, **document}


def write(root: Root, status: int, document: Mapping[str, Any]) -> None:
    """Replace the document of the tier's last run, and request a report of it.

    :raises OSError: it cannot be written.
    """
    make_operators_folder(root, state.RUN_FOLDER)
    write_file(root.at(_path(document["tier"])), json.dumps(with_header(status, document), indent=1) + "\n")
    if document["tier"] in _REPORTED_AT_ONCE:
        write_file(root.at(REPORT_REQUEST), "", mode=0o600)


def remove(root: Root, tier: str) -> None:
    """Remove the document of a tier's last run, because an old one would look like the result of the last run."""
    with contextlib.suppress(OSError):
        remove_file(root.at(_path(tier)))


def read(root: Root, tier: str) -> dict[str, Any] | None:
    """Return the document of the tier's last run in this boot; None if there is none."""
    try:
        document = json.loads(root.text(_path(tier)) or "")
        if document["schema"] != SCHEMA or document["node"]["boot_id"] != read_boot_id(root):
            return None
    except (ValueError, LookupError, TypeError):
        return None
    return dict(document)


def _path(tier: str) -> str:
    return f"{state.RUN_FOLDER}/{tier}.json"


def _node_name(root: Root) -> str:
    """Return the node name of slurmd, from its environment file, else from the record of the boot phase."""
    try:
        env = slurmd_env.read(root)
        if env:
            return env.node_name
        joining = remembered(root)
    except ConfigError:
        return ""
    return joining.node_name if joining else ""


def _image(root: Root) -> str:
    """Return the version of the collection that baked the image, as the role image recorded it."""
    try:
        fact = json.loads(root.text(IMAGE_FACT) or "{}")
    except ValueError:
        return ""
    return str(fact.get("version") or "") if isinstance(fact, dict) else ""
