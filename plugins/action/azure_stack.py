# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes, changes and deletes the Azure resources of one cluster, from one description."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils._node.machine.atomic import write_file
from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._stack import apply, remove, site
from ..plugin_utils._stack.names import Names
from ..plugin_utils._stack.plan import Plan, assignments_to_request
from ..plugin_utils._stack.resource import label_of
from ..plugin_utils._stack.session import SPEC, Session, session
from ..plugin_utils._stack.teardown import Choices, Teardown
from ..plugin_utils._stack.template import export

_SPEC: dict[str, dict[str, Any]] = {
    **SPEC,
    "state": {"type": "str", "choices": ["present", "absent", "planned"], "default": "present"},
    "export_to": {"type": "path"},
    "inventory_to": {"type": "path"},
    "data": {"type": "list", "elements": "str", "default": []},
    "purge_vault": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    """hpcai.azure.azure_stack."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Bring the stack into the wanted state."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(_SPEC)
        host = str((task_vars or {}).get("inventory_hostname", "localhost"))
        try:
            return perform(options, bool(self._task.check_mode), self._loader, host)
        except InventoryError as error:
            raise AnsibleError(str(error)) from None


def perform(options: Mapping[str, Any], check: bool, loader: Any, host: str) -> dict[str, Any]:
    """Bring the stack into the wanted state, and return the task's result.

    :param options: the checked options.
    :param check: whether nothing may be changed.
    :param loader: Ansible's data loader.
    :param host: the task's host.
    :raises InventoryError: it was not possible; the message is one line.
    """
    dry = check or options["state"] == "planned"
    with session(options, loader, host) as opened:
        if options["state"] == "absent":
            return _absent(opened, options, dry)
        return _present(opened, options, dry, check)


def _present(opened: Session, options: Mapping[str, Any], dry: bool, check: bool) -> dict[str, Any]:
    stack, arm = opened.stack, opened.arm
    azure = apply.look(stack, arm)
    if azure.at_work and not dry:
        # An earlier run was interrupted, and its deployment continues in Azure.
        opened.deployments.wait_for(Names(stack).deployment, azure.deployment)
        azure = apply.look(stack, arm)
    plan = azure.plan(stack)
    problems = [*plan.problems, *apply.why_not(stack, azure, arm)]
    if problems:
        raise InventoryError(f"Nothing was changed. {' '.join(problems)}")
    if not dry and plan.changed:
        azure = apply.Apply(stack, arm, opened.deployments, opened.say).run(azure)
    inventory, variables = site.inventory_of(stack, opened.connection), site.variables_of(stack, azure.found)
    files: dict[pathlib.Path, str] = {}
    if options["export_to"]:
        files[pathlib.Path(options["export_to"])] = f"{json.dumps(export(stack, azure.known.tenant), indent=2)}\n"
    if options["inventory_to"]:
        folder = pathlib.Path(options["inventory_to"])
        files.update({folder / name: text for name, text in site.files_of(inventory, variables).items()})
    written = _written(files, check)
    pending = plan.changed
    return {
        "changed": bool(written) or (pending and options["state"] == "present"),
        "pending": pending,
        "changes": _changes(plan),
        "notes": [*plan.notes, *(["A deployment of an earlier run is still running."] if azure.at_work else [])],
        "files": written,
        "owner": stack.owner,
        "role_assignments": assignments_to_request(stack, azure.known),
        "endpoints": site.endpoints_of(stack, azure.found),
        "inventory": inventory,
        "variables": variables,
        "requests": opened.requests,
        "diff": plan.diff(),
    }


def _absent(opened: Session, options: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    choices = Choices(frozenset(name.lower() for name in options["data"]), options["purge_vault"])
    plan = remove.look(opened.stack, opened.arm, choices)
    if plan.problems:
        raise InventoryError(f"Nothing was deleted: {' '.join(plan.problems)}")
    deleted = [*plan.delete, *([opened.stack.group_id] if plan.group else [])]
    if not dry and deleted:
        done = remove.remove(opened.stack, opened.arm, opened.deployments, plan, choices, opened.say)
        deleted, plan = list(done.deleted), done.plan
    return {
        "changed": bool(deleted),
        "deleted": deleted,
        "stays": [str(one) for one in plan.stays],
        "notes": list(plan.notes),
        "owner": opened.stack.owner,
        "controller": Names(opened.stack).controller,
        "requests": opened.requests,
        "diff": _diff(plan, deleted),
    }


def _changes(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "resource": one.resource.id,
            "label": one.resource.label,
            "action": one.how,
            "fields": [item.path for item in one.differs],
        }
        for one in plan.changes
    ]


def _diff(plan: Teardown, deleted: list[str]) -> dict[str, str]:
    kept = sorted(label_of(one.id) for one in plan.stays)
    gone = [label_of(one) for one in deleted]
    return {
        "before": "".join(f"{one}\n" for one in [*gone, *kept]),
        "after": "".join(f"{one}\n" for one in kept),
    }


def _written(files: Mapping[pathlib.Path, str], check: bool) -> list[str]:
    """Write the files whose content differs. Returns their paths."""
    written = []
    for path, text in files.items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        written.append(str(path))
        if not check:
            try:
                write_file(str(path), text)
            except OSError as error:
                raise InventoryError(f"cannot write {path}: {error.strerror or error}.") from None
    return written
