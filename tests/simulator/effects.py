# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the actions of Resource Manager change machines.

Each method immediately changes the state that Resource Manager shows (``Updating``, ``Creating``, ``Deleting``), and
returns the work that takes time, for the thread of an operation:

=============  ================================================  ======================================
action         machine                                           identity
=============  ================================================  ======================================
restart        reboots                                           stays
power off      stops, disks stay                                 stays
deallocate     stops, local disks blank                          stays
redeploy       stops, local disks blank, starts                  stays
reimage        a new copy of the image, local disks blank        same id, name, address; new host key
delete         removed                                           address free for the next instance
grow           a new copy of the image                           new id, name, vmId and host key
=============  ================================================  ======================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from simulator.addresses import AddressesExhausted
from simulator.backends import Backend, BackendError, NodeNotReady, NodeSpec
from simulator.model import Model
from simulator.operations import OperationFailed
from simulator.resources import Instance, ScaleSet

Work = Callable[[], None]
AT_ONCE = 4
"""How many machines are changed at the same time, because they all boot on one host."""


class Effects:
    """Changes of one model through one backend."""

    def __init__(self, model: Model, backend: Backend, boot_timeout: float, report: Callable[[str], None]) -> None:
        self._model = model
        self._backend = backend
        self._boot_timeout = boot_timeout
        self._report = report
        self._actions: dict[str, tuple[str, Callable[[Instance], str]]] = {
            "restart": ("running", self._restart),
            "start": ("running", self._start),
            "poweroff": ("stopping", self._power_off),
            "deallocate": ("deallocating", self._deallocate),
            "redeploy": ("stopping", self._redeploy),
            "reimage": ("stopping", self._reimage),
            "reimageall": ("stopping", self._reimage),
            "manualupgrade": ("running", self._upgrade),
        }

    @property
    def actions(self) -> Iterable[str]:
        """The actions of act(), as they are written at the end of a path."""
        return self._actions

    def boot(self, instances: list[Instance]) -> Work:
        """Make machines for instances that are already in the model."""
        return lambda: self._each(instances, self._create)

    def scale(self, scale_set: ScaleSet, capacity: int) -> Work:
        """Grow or shrink a scale set. The newest instances are deleted first, as in Azure without zones."""
        with self._model.lock:
            members = sorted(scale_set.members.values(), key=lambda item: item.serial)
            alive = [item for item in members if item.provisioning_state != "Deleting"]
            surplus = alive[capacity:]
            added: list[Instance] = []
            try:
                for _number in range(capacity - len(alive)):
                    added.append(self._model.add_instance(scale_set))
            except AddressesExhausted:
                for instance in added:
                    self._model.remove(instance)
                raise
            scale_set.capacity = capacity
            removal = self._remove(surplus)

        def work() -> None:
            removal()
            self._each(added, self._create)

        return self._on_set(scale_set, work)

    def delete(self, instances: list[Instance]) -> Work:
        """Delete machines, and reduce the capacity of their scale set."""
        with self._model.lock:
            for instance in instances:
                if instance.scale_set is not None and instance.provisioning_state != "Deleting":
                    instance.scale_set.capacity -= 1
            removal = self._remove(instances)
        scale_set = instances[0].scale_set if instances else None
        return removal if scale_set is None else self._on_set(scale_set, removal)

    def act(self, action: str, instances: list[Instance]) -> Work:
        """Run one of ``actions`` on machines."""
        power, change = self._actions[action]
        with self._model.lock:
            for instance in instances:
                instance.show("Updating", power if instance.power_state == "running" else None)
        return lambda: self._each(instances, lambda instance: self._apply(action, instance, change))

    def reach(self, instance: Instance, service: str, how: str) -> None:
        """Change a machine's access to a service immediately."""
        self._backend.reach(instance.vm_id, service, how)

    def node_spec(self, instance: Instance) -> NodeSpec:
        """The properties of the machine that the backend has to make."""
        assert instance.private_ipv4 is not None
        user, keys = self._model.login(instance)
        return NodeSpec(
            vm_id=instance.vm_id,
            azure_id=instance.id,
            name=re.sub(r"[^a-z0-9-]+", "-", instance.name.lower()),
            computer_name=instance.computer_name,
            private_ipv4=instance.private_ipv4,
            public_ipv4=instance.public_ipv4,
            admin_username=user,
            ssh_public_keys=keys,
            own_login=keys == self._model.ssh_public_keys,
            vault_names=tuple(vault.host for vault in self._model.vaults.values()),
            cpus=instance.hardware.cpus,
            memory_mib=instance.hardware.memory_mib,
            local_disks=instance.hardware.local_disks,
        )

    # Sets and many machines

    def _on_set(self, scale_set: ScaleSet, work: Callable[[], object]) -> Work:
        with self._model.lock:
            scale_set.busy += 1
            scale_set.provisioning_state = "Updating"

        def run() -> None:
            outcome = "Failed"
            try:
                work()
                outcome = "Succeeded"
            finally:
                with self._model.lock:
                    scale_set.busy -= 1
                    if not scale_set.busy or outcome == "Failed":
                        scale_set.provisioning_state = outcome

        return run

    def _each(self, instances: list[Instance], work: Callable[[Instance], None]) -> None:
        """Run ``work`` on every instance. A failure does not stop the work on the others."""
        failures: list[OperationFailed] = []

        def guarded(instance: Instance) -> None:
            try:
                with instance.lock:
                    if instance.deleted:
                        raise OperationFailed("NotFound", f"{instance.name} was deleted meanwhile")
                    work(instance)
            except OperationFailed as failure:
                failures.append(failure)
            except Exception as failure:
                late = isinstance(failure, NodeNotReady)
                _settle(instance, "Failed")
                self._report(f"{instance.name}: failed: {failure}")
                code = "OSProvisioningTimedOut" if late else "InternalExecutionError"
                kind = "" if isinstance(failure, BackendError) else f"{type(failure).__name__}: "
                failures.append(OperationFailed(code, f"{instance.name}: {kind}{failure}"))

        if len(instances) == 1:
            guarded(instances[0])
        elif instances:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(guarded, instances))
        if failures:
            raise failures[0]

    def _create(self, instance: Instance) -> None:
        self._backend.create(self.node_spec(instance))
        self._wait(instance)
        instance.host_keys = self._backend.host_keys(instance.vm_id)
        _settle(instance, "Succeeded", "running")
        self._report(f"{instance.name}: running at {instance.private_ipv4}")

    def _remove(self, instances: list[Instance]) -> Work:
        for instance in instances:
            instance.show("Deleting", "stopping")

        def remove(instance: Instance) -> None:
            self._backend.delete(instance.vm_id)
            self._model.remove(instance)
            self._report(f"{instance.name}: deleted")

        return lambda: self._each(instances, remove)

    def _wait(self, instance: Instance) -> None:
        self._backend.wait_ready(instance.vm_id, self._boot_timeout)

    # One machine

    def _apply(self, action: str, instance: Instance, change: Callable[[Instance], str]) -> None:
        try:
            power = change(instance)
        except OperationFailed:
            _settle(instance, "Succeeded")
            raise
        _settle(instance, "Succeeded", power)
        self._report(f"{instance.name}: {action} done, {power}")

    def _restart(self, instance: Instance) -> str:
        if instance.power_state in ("stopped", "deallocated"):
            raise OperationFailed("OperationNotAllowed", f"{instance.name} is not running: start it instead")
        self._backend.restart(instance.vm_id)
        self._wait(instance)
        return "running"

    def _start(self, instance: Instance) -> str:
        if instance.power_state != "running":
            instance.show("Updating", "starting")
            self._backend.start(instance.vm_id)
            self._wait(instance)
        return "running"

    def _power_off(self, instance: Instance) -> str:
        if instance.power_state in ("stopped", "deallocated"):
            return instance.power_state
        self._backend.stop(instance.vm_id)
        return "stopped"

    def _deallocate(self, instance: Instance) -> str:
        if instance.power_state != "deallocated":
            if instance.power_state != "stopped":
                self._backend.stop(instance.vm_id)
            self._backend.blank_disks(instance.vm_id)
        return "deallocated"

    def _redeploy(self, instance: Instance) -> str:
        self._deallocate(instance)
        instance.show("Updating", "starting")
        self._backend.start(instance.vm_id)
        self._wait(instance)
        return "running"

    def _reimage(self, instance: Instance) -> str:
        self._backend.replace(self.node_spec(instance))
        instance.show("Updating", "starting")
        self._wait(instance)
        instance.host_keys = self._backend.host_keys(instance.vm_id)
        return "running"

    def _upgrade(self, instance: Instance) -> str:
        """Update an outdated instance to its scale set's model."""
        scale_set = instance.scale_set
        if scale_set is None or instance.latest_model:
            return instance.power_state or "running"
        with self._model.lock:
            reimage, resize = instance.image != scale_set.image, instance.vm_size != scale_set.vm_size
            instance.image, instance.vm_size = scale_set.image, scale_set.vm_size
            instance.user_data = scale_set.user_data
            instance.model_version = scale_set.model_version
            instance.touch()
        if reimage:
            return self._reimage(instance)
        if resize:
            return self._redeploy(instance)
        return instance.power_state or "running"


def _settle(instance: Instance, provisioning_state: str, power_state: str | None = None) -> None:
    """Show the result of an action, unless the machine's deletion is waiting for the end of the action."""
    if instance.provisioning_state != "Deleting" or provisioning_state == "Failed":
        instance.show(provisioning_state, power_state)
