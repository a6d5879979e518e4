# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step instance: finds out which machine this is, its cluster, and its node name for slurmd."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from ...health.check import FAIL, PASS, UNKNOWN, WARN
from ...machine.atomic import remove_file, write_file
from ...machine.cluster_settings import (
    FROM_USER_DATA,
    ClusterSettings,
    Joining,
    remember_joining,
    remembered,
    settings_from,
    settings_written,
)
from ...machine.config import read_config
from ...machine.root import Root
from ...machine.vm_size import (
    NODE_SETTINGS,
    VmSizeUndetermined,
    is_same_machine,
    remember,
    remembered_instance,
    size_facts,
)
from ...sku import UnknownVmSize, canonical_size
from ...slurm.slurmd_env import ENV_FILE, is_ours, own_node_name, slurmd_env
from ..step import Context, Outcome, Step, StepFailed

SETTINGS_FILE = "/etc/hpcai/cluster.json"
SET_ASIDE = "/var/lib/hpcai/cluster.json.of-another-machine"
MARGIN_S = 5.0
"""Seconds of the step's timeout that are reserved after waiting for the metadata service."""
HURRIED_S = 20.0
"""Timeout for the metadata service if all its answers are already known."""

_CURE = "Wait until it answers, then run: systemctl start slurmd"

Ask = Callable[[float], "dict[str, Any]"]


@dataclass
class _Notes:
    """Parts of the outcome, collected while the step runs."""

    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def warn(self, words: str, action: str) -> None:
        self.warnings.append(words)
        self.actions.append(action)


def perform(context: Context, ask: Ask | None = None) -> Outcome:
    """Query the metadata service, record its answer, and write the node's name for slurmd.

    :param ask: queries the service within a timeout in seconds; ``imds.read_compute`` by default.
    :raises ConfigError: the cluster's settings cannot be used.
    :raises StepFailed: nothing identifies this machine.
    """
    root, notes = context.root, _Notes()
    known = remembered_instance(root)
    compute, silence = _ask(context, ask)
    foreign = compute is not None and _is_of_another_machine(root, known, compute)
    if compute is None:
        settings, name = _without_answer(root, known, silence, notes)
    else:
        settings, name = _identify(context, compute, foreign, notes)
    outcome = _judged(root, settings, compute, notes)
    if settings and settings.is_compute:
        _write_slurmd_env(context, settings, name, foreign, notes)
    elif root.exists(ENV_FILE) and (foreign or is_ours(root)):
        notes.changes.append(f"removed {ENV_FILE}: this machine is not a compute node of a cluster")
        if not context.check:
            remove_file(root.at(ENV_FILE))
    return replace(outcome, changes=tuple(notes.changes), details=notes.details)


def _ask(context: Context, ask: Ask | None) -> tuple[dict[str, Any] | None, str]:
    """Return the metadata service's answer, or None and the reason why there is none."""
    if not context.root.is_this_machine:
        return None, f"{context.root.path} is not the running machine, so the metadata service was not queried"
    # Imported here, because importing the HTTP modules takes longer than most callers run.
    from ...machine import imds

    limit_s = max(1.0, context.seconds - MARGIN_S)
    if _all_known(context.root):
        limit_s = min(limit_s, HURRIED_S)
    try:
        return (ask or imds.read_compute)(limit_s), ""
    except imds.ImdsError as error:
        return None, str(error).rstrip(".")


def _all_known(root: Root) -> bool:
    """Return whether the playbook or an earlier boot has recorded all that the metadata service could answer."""
    settings = settings_written(root)
    if settings and (read_config(root, "node") or {}).get("vm_size"):
        return root.exists(ENV_FILE) or not settings.is_compute
    known = remembered_instance(root)
    return bool(known.get("vm_size")) and is_same_machine(root, known) and remembered(root) is not None


def _identify(
    context: Context, compute: Mapping[str, Any], foreign: bool, notes: _Notes
) -> tuple[ClusterSettings | None, str | None]:
    """Return the cluster and the node's name, and record the service's answer."""
    root = context.root
    name = own_node_name(compute)
    host_name = str((compute.get("osProfile") or {}).get("computerName") or "")
    notes.details.update({"vm_id": compute.get("vmId"), "instance": compute.get("name"), "node": name})
    if not context.check:
        remember(root, compute)
    written = settings_written(root)
    from_user_data = None
    if written is None or foreign:
        from_user_data = _settings_in_user_data(compute, notes)
    if foreign:
        notes.warn(
            "this disk belonged to another machine", "Generalise an image before you capture it (playbooks/image.yml)"
        )
        if written and from_user_data:
            notes.changes.append(f"moved {SETTINGS_FILE} of another machine aside")
            if not context.check:
                os.replace(root.at(SETTINGS_FILE), root.at(SET_ASIDE))
            written = None
    settings = written or from_user_data
    if settings and settings.elastic:
        # The step join replaces it by the slot of its lease. Its instance id may be another machine's slot.
        name = host_name or None
    if not context.check:
        remember_joining(root, str(compute.get("vmId") or ""), Joining(name or "", from_user_data))
    return settings, name


def _settings_in_user_data(compute: Mapping[str, Any], notes: _Notes) -> ClusterSettings | None:
    from ...machine.imds import settings_in

    stated, why = settings_in(str(compute.get("userData") or ""))
    if stated is None:
        notes.details["user_data"] = why
        return None
    return settings_from(stated, FROM_USER_DATA, "'hpcai' in the machine's user data")


def _is_of_another_machine(root: Root, known: Mapping[str, Any], compute: Mapping[str, Any]) -> bool:
    """Return whether this disk belonged to another machine: an image has files of its build machine."""
    if known.get("vm_id") and compute.get("vmId"):
        return str(known["vm_id"]).lower() != str(compute["vmId"]).lower()
    return not is_same_machine(root, known)


def _without_answer(
    root: Root, known: Mapping[str, Any], silence: str, notes: _Notes
) -> tuple[ClusterSettings | None, str | None]:
    """Return the cluster and the node's name from earlier records, without the metadata service."""
    if not is_same_machine(root, known):
        raise StepFailed(f"{silence}, and the records on this disk belong to another machine. {_CURE}")
    joining, written = remembered(root), settings_written(root)
    if joining is None and written is None:
        raise StepFailed(f"{silence}, and nothing else identifies this machine. {_CURE}")
    notes.warn(f"{silence}; using the recorded values", "If this persists, check the route to the metadata service")
    return written or (joining.settings if joining else None), joining.node_name if joining else None


def _judged(root: Root, settings: ClusterSettings | None, compute: Mapping[str, Any] | None, notes: _Notes) -> Outcome:
    """Return the outcome. It depends on the VM size, which all later steps need."""
    where = f"in cluster {settings.name} by {settings.origin}" if settings else "in no cluster"
    if not settings and "user_data" in notes.details:
        where += f": {notes.details['user_data']}"

    def ask() -> dict[str, Any]:
        # The metadata service was already queried.
        from ...machine.imds import ImdsError

        if compute is None:
            raise ImdsError("the metadata service does not answer")
        return dict(compute)

    try:
        size, source = size_facts(root, ask=ask)
    except (UnknownVmSize, VmSizeUndetermined) as error:
        if settings and settings.is_compute:
            verdict = UNKNOWN if isinstance(error, UnknownVmSize) else FAIL
            return Outcome(
                verdict, str(error), "Describe the size in hpcai_vm_sizes and run site.yml, or bake a new image"
            )
        return Outcome(WARN if notes.warnings else PASS, _summary(where, notes), "; ".join(notes.actions))
    notes.details["vm_size"] = size.name
    if compute and source.origin == NODE_SETTINGS and canonical_size(str(compute["vmSize"])) != size.name:
        notes.warn(
            f"node.json says {size.name}, the metadata service says {canonical_size(str(compute['vmSize']))}",
            "If the machine was resized, run site.yml",
        )
    verdict = WARN if notes.warnings else PASS
    return Outcome(verdict, _summary(f"{size.name} {where}", notes), "; ".join(notes.actions))


def _summary(where: str, notes: _Notes) -> str:
    return "; ".join([*notes.warnings, where])


def _write_slurmd_env(
    context: Context, settings: ClusterSettings, name: str | None, foreign: bool, notes: _Notes
) -> None:
    """Write slurmd's node name and controllers, unless site.yml has done so on this machine."""
    root = context.root
    if root.exists(ENV_FILE) and not is_ours(root) and not foreign:
        return
    if not name:
        if root.exists(ENV_FILE) and not foreign:
            return
        raise StepFailed(f"the metadata service did not provide this node's name, so slurmd cannot start. {_CURE}")
    text = slurmd_env(name, settings.controllers)
    if root.text(ENV_FILE) != text.strip():
        notes.changes.append(f"wrote {ENV_FILE}: node {name}, controller {settings.controllers[0]}")
        if not context.check:
            write_file(root.at(ENV_FILE), text)


STEP = Step(
    name="instance",
    title="Find out which machine this is, and which cluster it belongs to",
    blocking=True,
    # The service can be unavailable for 70 s while its host is updated (status 410 in its documentation).
    limit_s=80.0,
    perform=perform,
)
