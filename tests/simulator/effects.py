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
redeploy,      a new copy of the image, local disks blank        same id, name, address; new host key
ephemeral
reimage        a new copy of the image, local disks blank        same id, name, address; new host key
delete         removed                                           address free for the next instance
grow           a new copy of the image                           new id, name, vmId and host key
=============  ================================================  ======================================

Fault rules of the service ``scale`` change what becomes of an accepted change. ``hang`` lasts until the rules are
cleared, or for ``delay_s``; ``status`` ends the operation with the rule's code, after ``delay_s``:

=================  =================================================================================================
``GROW set``       status, slow, hang: no instance is made, the operation fails, and the capacity stays; revert: so
                   too, but the capacity goes back
``CREATE set``     for each new instance. status: it is ``Failed``, and counts; omit: it is not made, but its capacity
                   stays; slow, hang: it is made later; hide: lists do not show it until the rules are cleared;
                   reuse: it gets the lowest id of a deleted instance; dead: it is ``Succeeded`` and running, but
                   never boots
``DELETE member``  status: the operation fails, and it comes back; omit: so too, but the operation succeeds;
                   slow, hang: it is deleted later
=================  =================================================================================================
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from simulator.addresses import AddressesExhausted
from simulator.authority import MANAGEMENT_HOST
from simulator.backends import Backend, BackendError, NodeNotReady, NodeSpec
from simulator.faults import SCALE, Fault, Faults
from simulator.model import Model
from simulator.operations import OperationFailed
from simulator.resources import Instance, ScaleSet

Work = Callable[[], None]
AT_ONCE = 4
"""How many machines are changed at the same time, because they all boot on one host."""


class Effects:
    """Changes of one model through one backend."""

    def __init__(
        self,
        model: Model,
        backend: Backend,
        boot_timeout: float,
        report: Callable[[str], None],
        faults: Faults,
    ) -> None:
        self._model = model
        self._faults = faults
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
            alive = scale_set.alive
            surplus = alive[capacity:]
            before, more = scale_set.capacity, max(0, capacity - len(alive))
            scale_set.capacity = capacity
            growth = self._faults.applying(f"GROW {scale_set.id}", SCALE) if more else None
            if growth is not None:
                return self._on_set(scale_set, self._fail_growth(scale_set, growth, capacity - before))
            added: list[tuple[Instance, Fault | None]] = []
            omitted: Fault | None = None
            try:
                for _number in range(more):
                    fault = self._faults.applying(f"CREATE {scale_set.id}", SCALE)
                    if fault is not None and fault.action == "omit":
                        omitted = fault
                        continue
                    instance = self._model.add_instance(scale_set, fault is not None and fault.action == "reuse")
                    if fault is not None and fault.action == "hide":
                        instance.hidden = self._faults.released
                    added.append((instance, fault))
            except AddressesExhausted:
                scale_set.capacity = before
                for instance, _fault in added:
                    self._model.remove(instance)
                raise
            removal = self._remove(surplus)
            faults, released = {id(instance): fault for instance, fault in added}, self._faults.released

        def create(instance: Instance) -> None:
            fault = faults[id(instance)]
            if fault is not None:
                fault.wait(released)
            self._create_despite(instance, fault)

        def work() -> None:
            removal()
            self._each([instance for instance, _fault in added], create)
            if omitted is not None:
                omitted.wait(released)
                raise _failed(omitted)

        return self._on_set(scale_set, work)

    def _fail_growth(self, scale_set: ScaleSet, fault: Fault, more: int) -> Work:
        released = self._faults.released

        def work() -> None:
            fault.wait(released)
            if fault.action == "revert":
                with self._model.lock:
                    scale_set.capacity -= more
            raise _failed(fault)

        return work

    def delete(self, instances: list[Instance]) -> Work:
        """Delete machines, and reduce the capacity of their scale set."""
        with self._model.lock:
            for instance in instances:
                if instance.scale_set is not None and instance.provisioning_state != "Deleting":
                    instance.scale_set.capacity -= 1
            removal = self._remove(instances)
        scale_set = instances[0].scale_set if instances else None
        return removal if scale_set is None else self._on_set(scale_set, removal)

    def evict(self, instance: Instance, event_id: str, seconds: float) -> Work:
        """Delete a spot machine after a time, or as soon as it has acknowledged the event that announces this."""

        def work() -> None:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not _is_started(instance, event_id):
                time.sleep(0.1)
            if not instance.deleted and instance.provisioning_state != "Deleting":
                self.delete([instance])()

        return work

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
            tls_names=(*(vault.host for vault in self._model.vaults.values()), MANAGEMENT_HOST),
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
            outcome, failure = "Failed", ("", "")
            try:
                work()
                outcome = "Succeeded"
            except OperationFailed as error:
                failure = (error.code, str(error))
                raise
            finally:
                with self._model.lock:
                    scale_set.busy -= 1
                    if not scale_set.busy or outcome == "Failed":
                        scale_set.provisioning_state, scale_set.failure = outcome, failure

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

    def _create_despite(self, instance: Instance, fault: Fault | None) -> None:
        if fault is not None and fault.action == "status":
            _settle(instance, "Failed")
            raise _failed(fault)
        if fault is not None and fault.action == "dead":
            instance.dead = True
            _settle(instance, "Succeeded", "running")
            self._report(f"{instance.name}: never boots")
            return
        self._create(instance)

    def _create(self, instance: Instance) -> None:
        self._backend.create(self.node_spec(instance))
        self._wait(instance)
        instance.host_keys = self._backend.host_keys(instance.vm_id)
        _settle(instance, "Succeeded", "running")
        self._report(f"{instance.name}: running at {instance.private_ipv4}")

    def _remove(self, instances: list[Instance]) -> Work:
        released = self._faults.released
        faults: dict[int, Fault | None] = {}
        for instance in instances:
            faults[id(instance)] = self._faults.applying(f"DELETE {instance.id}", SCALE)
            instance.show("Deleting", "stopping")

        def remove(instance: Instance) -> None:
            fault = faults[id(instance)]
            if fault is not None:
                fault.wait(released)
                if fault.action in ("status", "omit"):
                    self._bring_back(instance)
                    if fault.action == "status":
                        raise _failed(fault)
                    return
            self._backend.delete(instance.vm_id)
            self._model.remove(instance)
            self._report(f"{instance.name}: deleted")

        return lambda: self._each(instances, remove)

    def _bring_back(self, instance: Instance) -> None:
        """Show a machine again whose deletion failed. It counts as it did before."""
        with self._model.lock:
            scale_set = instance.scale_set
            instance.show("Succeeded", "running")
            if scale_set is not None:
                alive = sum(item.provisioning_state != "Deleting" for item in scale_set.members.values())
                scale_set.capacity = max(scale_set.capacity, alive)
        self._report(f"{instance.name}: came back")

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
        if instance.ephemeral:
            # azure-compute-docs, ephemeral-os-disks.md: "OS is reprovisioned".
            return self._reimage(instance)
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


def _is_started(instance: Instance, event_id: str) -> bool:
    return instance.deleted or any(
        event["EventId"] == event_id and event["EventStatus"] == "Started" for event in instance.events
    )


def _failed(fault: Fault) -> OperationFailed:
    return OperationFailed(fault.code or "AllocationFailed", fault.message or "simulated: Azure could not do it")


def _settle(instance: Instance, provisioning_state: str, power_state: str | None = None) -> None:
    """Show the result of an action, unless the machine's deletion is waiting for the end of the action."""
    if instance.provisioning_state != "Deleting" or provisioning_state == "Failed":
        instance.show(provisioning_state, power_state)
