# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gives nodes the image of their scale set as they become free, a few at a time, and stops at the first failure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from ..plugin_utils._azure.clients import Clients
from ..plugin_utils._azure.concurrency import Deadline
from ..plugin_utils._azure.connection import CONNECTION, Get, connect, connections_for
from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._azure.fleet import Fleet
from ..plugin_utils._azure.images import make_set_name
from ..plugin_utils._azure.targets import make_target
from ..plugin_utils._progress import Progress, in_words
from ..plugin_utils._slurm import roll
from ..plugin_utils._slurm.roll import Node, Step

EVERY_S = 5.0
_REQUESTS_S = 300
"""Timeout of one list of Azure."""
_SPEC: dict[str, dict[str, Any]] = {
    **CONNECTION,
    "nodes": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "node": {"type": "str", "required": True},
            "azure_id": {"type": "str", "required": True},
            "vm_id": {"type": "str", "required": True},
            "host": {"type": "str"},
        },
    },
    "image": {"type": "str", "required": True},
    "images": {"type": "dict", "default": {}},
    "at_most": {"type": "int", "default": 1},
    "canary": {"type": "bool", "default": False},
    "boot_timeout": {"type": "int", "default": 1800},
    "timeout": {"type": "int", "default": 86400},
}


class ActionModule(ActionBase):
    """hpcai.azure.slurm_roll."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Roll until all nodes have the image, or a failure stops it."""
        super().run(tmp, task_vars)
        _valid, options = self.validate_argument_spec(_SPEC)
        return self.work(options, task_vars or {})

    def work(self, options: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Roll with these options."""
        if options["at_most"] < 1:
            raise AnsibleError("at_most must be 1 or more.")
        targets = {item["node"]: make_target(item["azure_id"], item["vm_id"]) for item in options["nodes"]}
        try:
            doors = _Doors(
                connections_for(options, {target.subscription for target in targets.values()}, self._loader),
                options["boot_timeout"],
            )
            wanted = {make_set_name(azure_id): str(image) for azure_id, image in options["images"].items()}
            fleet = Fleet(targets, doors.open, wanted, foresee=self._task.check_mode)
            fleet.read()
        except InventoryError as error:
            raise AnsibleError(str(error)) from None
        rollout = _Rollout(self, options, variables, fleet, list(targets))
        return rollout.foresee() if self._task.check_mode else rollout.perform()

    def look(self, variables: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """Run the module on the controller."""
        found: dict[str, Any] = self._execute_module(
            module_name="hpcai.azure.slurm_roll_nodes", module_args=arguments, task_vars=variables
        )
        return found

    @property
    def host(self) -> str:
        """The controller's name, for progress."""
        return str(self._task.delegate_to or "")


class _Doors:
    """Opens clients. A list has a short timeout, an update as long as a node may boot."""

    def __init__(self, doors: list[tuple[Get, set[str]]], boot_s: int) -> None:
        self._doors, self._boot_s = doors, boot_s

    def open(self, subscription: str, only_lists: bool) -> AbstractContextManager[Clients]:
        """Return clients for a subscription."""
        return self._open(subscription, only_lists)

    @contextmanager
    def _open(self, subscription: str, only_lists: bool) -> Iterator[Clients]:
        [get, *_others] = [get for get, members in self._doors if subscription.lower() in members]
        seconds = _REQUESTS_S if only_lists else max(_REQUESTS_S, self._boot_s)
        with connect(get, Deadline(seconds), only_lists=only_lists) as clients:
            yield clients


class _Rollout:
    """One run."""

    def __init__(
        self,
        action: ActionModule,
        options: Mapping[str, Any],
        variables: dict[str, Any],
        fleet: Fleet,
        names: list[str],
    ) -> None:
        self._action, self._options, self._variables = action, options, variables
        self._fleet, self._names = fleet, names
        self._ends = time.monotonic() + options["timeout"]
        self._boots: dict[str, float] = {}
        self._lost: list[str] = []
        self._resumed: list[str] = []
        self._changed = False
        self.stopped, self._stopped_at = "", 0.0

    def foresee(self) -> dict[str, Any]:
        """Return what would be done."""
        found = self._look(Step())
        if found.get("failed"):
            return found
        step = self._decide(found["found"])
        awaited = step.all_in(roll.CANDIDATE, roll.WAITING, roll.FREE, roll.CHANGING, roll.BOOTING, roll.BACK)
        return self._result(step, found["found"], bool(awaited))

    def perform(self) -> dict[str, Any]:
        """Decide and act until nothing is left to do."""
        progress = Progress(self._action.host or str(self._variables["inventory_hostname"]))
        step = Step()
        while True:
            found = self._look(step)
            if found.get("failed"):
                # slurmctld may be restarted meanwhile. Orders are derived again from the states.
                if time.monotonic() >= self._ends:
                    return {**found, "changed": self._changed}
                step = Step()
                progress.say(f"no answer ({str(found.get('msg', 'no reason given')).splitlines()[0]})")
                time.sleep(EVERY_S)
                continue
            self._fleet.start(found["marked"])
            self._stop_if(self._fleet.refresh())
            step = self._decide(found["found"])
            self._watch_boots(step)
            if self.stopped:
                step = self._decide(found["found"])
            if roll.is_over(step, canary=self._options["canary"], stopping=bool(self.stopped), lost=self._lost):
                return self._result(step, found["found"], self._changed)
            if not step.acts:
                left = in_words(self._ends - time.monotonic())
                progress.say(roll.words_of(step), f"stopping: {self.stopped}" if self.stopped else f"{left} left")
                time.sleep(EVERY_S)

    def _look(self, step: Step) -> dict[str, Any]:
        """Give the orders of this step, and return the state of the nodes afterwards."""
        orders = {"drain": list(step.drain), "mark": list(step.mark), "resume": list(step.resume)}
        arguments = {"nodes": self._names, "image": self._options["image"], **orders}
        try:
            found = self._action.look(self._variables, arguments)
        except AnsibleConnectionFailure as error:
            found = {"failed": True, "msg": str(error)}
        if not found.get("failed"):
            self._changed = self._changed or bool(found["changed"])
            self._resumed += [name for name in found["resumed"] if name not in self._resumed]
        return found

    def _decide(self, found: Mapping[str, Any]) -> Step:
        states = {name: self._fleet.state(name) for name in self._names}
        listed = [
            Node(name, self._fleet.set_of(name), states[name].outdated, states[name].changing, found.get(name))
            for name in self._names
        ]
        return roll.decide(
            listed,
            at_most=self._options["at_most"],
            canary=self._options["canary"],
            stopping=bool(self.stopped),
            lost=self._lost,
        )

    def _watch_boots(self, step: Step) -> None:
        """Stop if a node does not come back in time, or if jobs take too long."""
        now = time.monotonic()
        booting = step.all_in(roll.BOOTING)
        self._boots = {name: self._boots.get(name, now) for name in booting}
        limit = self._options["boot_timeout"]
        for name in booting:
            if now - self._boots[name] >= limit and name not in self._lost:
                self._lost.append(name)
                self._stop_if(
                    f"{name} has the image, but its slurmd did not answer within {limit} s. On the node, 'hpcnode boot "
                    "status' shows why, and 'systemctl start slurmd' runs the failed steps again."
                )
        # An update ends without help, but a node that somebody else changes may not, and Azure may not answer.
        if self.stopped and now - self._stopped_at >= limit + _REQUESTS_S:
            self._lost += [name for name in step.all_in(roll.CHANGING) if name not in self._lost]
        waiting = step.all_in(roll.WAITING)
        if now >= self._ends and not self.stopped:
            jobs = f" Jobs still run on {', '.join(waiting)}. Nothing was killed." if waiting else ""
            self._stop_if(f"the time is over ({self._options['timeout']} s).{jobs}")

    def _stop_if(self, problem: str) -> None:
        if problem and not self.stopped:
            self.stopped, self._stopped_at = problem, time.monotonic()

    def _result(self, step: Step, found: Mapping[str, Any], changed: bool) -> dict[str, Any]:
        in_work = step.all_in(roll.WAITING, roll.FREE, roll.CHANGING)
        candidates = sorted(step.all_in(roll.CANDIDATE), key=lambda name: found.get(name, {}).get("jobs") is not None)
        to_do = [*in_work, *candidates]
        return {
            "changed": changed,
            "to_do": to_do,
            "reimaged": list(self._fleet.updated),
            "resumed": [name for name in self._names if name in self._resumed],
            "back": step.all_in(roll.BACK) if self._options["canary"] else [],
            "current": step.all_in(roll.DONE),
            "left_out": dict(step.left),
            "drained": [name for name, facts in found.items() if facts["ours"]],
            "jobs": {name: found[name]["jobs"] for name in step.all_in(roll.WAITING)},
            "lost": list(self._lost),
            "stopped": self.stopped,
            "diff": {"before": "", "after": "".join(f"{name}: {self._options['image']}\n" for name in to_do)},
        }
