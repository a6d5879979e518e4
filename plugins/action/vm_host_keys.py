# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the host keys of virtual machines, read from Azure, to SSH's known hosts file on the control node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils._node.machine.atomic import write_file
from ..plugin_utils._azure import host_keys
from ..plugin_utils._azure.concurrency import Deadline
from ..plugin_utils._azure.connection import CONNECTION, connect, connections_for
from ..plugin_utils._azure.console import Console, read_console, read_logs, wait_for_keys
from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._azure.host_keys import Machine, Outcome, compare_keys, machines_of_hosts
from ..plugin_utils._azure.targets import Target, find_targets, make_target
from ..plugin_utils._progress import Progress, count, in_words

_SPEC: dict[str, dict[str, Any]] = {
    **CONNECTION,
    "machines": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str"},
            "azure_id": {"type": "str", "required": True},
            "vm_id": {"type": "str", "required": True},
        },
    },
    "hosts": {"type": "list", "elements": "str"},
    "path": {"type": "path"},
    "known": {"type": "str", "choices": ["compare", "skip", "replace"], "default": "compare"},
    "previous": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str"},
            "vm_id": {"type": "str", "required": True},
            "keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
        },
    },
    "wait": {"type": "int", "default": 0},
    "required": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 300},
}


class ActionModule(ActionBase):
    """hpcai.azure.vm_host_keys."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read the keys on the machines' consoles, and write them if they contradict no known key."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            _SPEC, required_by={"machines": ["path"]}, required_one_of=[["machines", "hosts"]]
        )
        try:
            machines = [
                Machine(
                    item["name"] or item["azure_id"],
                    make_target(item["azure_id"], item["vm_id"]),
                    Path(options["path"]),
                )
                for item in options["machines"] or []
            ]
            hosts = map(str, options["hosts"] or [])
            of_hosts, left_out = machines_of_hosts(hosts, (task_vars or {}).get("hostvars") or {}, options["path"])
            progress = Progress(str((task_vars or {}).get("inventory_hostname", "localhost")))
            return self._work(options, [*machines, *of_hosts], left_out, progress)
        except InventoryError as error:
            raise AnsibleError(str(error)) from None
        except OSError as error:
            raise AnsibleError(f"{error.filename}: {error.strerror or error}") from None

    def _work(
        self, options: Mapping[str, Any], machines: list[Machine], left_out: list[str], progress: Progress
    ) -> dict[str, Any]:
        before = {machine.path: host_keys.read_known_hosts(machine.path) for machine in machines}
        known = {machine: host_keys.known_keys(before[machine.path], machine.target.vm_id) for machine in machines}
        to_read = [machine for machine in machines if options["known"] != "skip" or not known[machine]]
        consoles = wait_for_keys(
            lambda targets: self._consoles(options, targets),
            {machine.target for machine in to_read},
            Deadline(options["wait"]),
            lambda number, left: progress.say(
                f"waiting for the host keys on {count(number, 'console')}", f"{in_words(left)} left"
            ),
        )
        kept = dict(before)
        if options["known"] == "replace":
            for machine in machines:
                if set(known[machine]) - set(consoles[machine.target].keys):
                    known[machine] = ()
                    kept[machine.path] = host_keys.without_keys(kept[machine.path], machine.target.vm_id)
        outcome = compare_keys(known, consoles)
        problems = [*outcome.contradictions, *(outcome.refusals(left_out) if options["required"] else [])]
        if problems:
            raise InventoryError(" ".join(["No host key was written.", *problems]))
        lines = outcome.lines()
        after = {path: host_keys.with_lines(text, lines.get(path, "")) for path, text in kept.items()}
        if not self._task.check_mode:
            for path, text in after.items():
                if kept[path] != before[path]:
                    write_file(str(path), text, 0o600)
                elif text != before[path]:
                    host_keys.append_lines(path, before[path], lines[path])
        return _result(outcome, left_out, before, after)

    def _consoles(self, options: Mapping[str, Any], targets: set[Target]) -> dict[Target, Console]:
        """Return the console of each machine. If it cannot be read, the console has a problem and no keys."""
        found: dict[Target, Console] = {}
        deadline = Deadline(options["timeout"])
        for subscription in sorted({target.subscription.lower() for target in targets}):
            members = sorted(
                (target for target in targets if target.subscription.lower() == subscription),
                key=lambda target: target.azure_id,
            )
            try:
                found |= self._of_subscription(options, subscription, members, deadline)
            except InventoryError as error:
                found |= {target: Console(problem=str(error), was_read=False) for target in members}
        return found

    def _of_subscription(
        self, options: Mapping[str, Any], subscription: str, members: list[Target], deadline: Deadline
    ) -> dict[Target, Console]:
        ((get, _subscriptions),) = connections_for(options, {subscription}, self._loader)
        with connect(get, deadline, only_lists=False) as clients:
            logs = read_logs(clients, members, deadline)
        # Check the vmId after reading: if it matches now, it matched before, because Azure never reuses a vmId.
        with connect(get, deadline, only_lists=True) as clients:
            present = set(find_targets(clients, members).present)
        previous = {item["vm_id"].lower(): item["keys"] for item in options["previous"] or []}
        return {
            target: Console(problem="the machine no longer exists in Azure.", was_read=False)
            if target not in present
            else Console(problem=str(log), was_read=False)
            if isinstance(log, InventoryError)
            else read_console(log, previous.get(target.vm_id.lower(), ()))
            for target, log in logs.items()
        }


def _result(
    outcome: Outcome, left_out: list[str], before: Mapping[Path, str], after: Mapping[Path, str]
) -> dict[str, Any]:
    return {
        "changed": after != before,
        "verified": [
            {"name": machine.name, "vm_id": machine.target.vm_id, "keys": [key.fingerprint for key in keys]}
            for machine, keys in outcome.shown.items()
        ],
        "known": [machine.name for machine in outcome.known],
        "unverified": [{"name": machine.name, "reason": reason} for machine, reason in outcome.unverified.items()],
        "left_out": left_out,
        "warnings": outcome.warnings(),
        "diff": [
            {"before_header": str(path), "after_header": str(path)} | {"before": before[path], "after": text}
            for path, text in after.items()
            if text != before[path]
        ],
    }
