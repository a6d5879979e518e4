# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containers backend: every instance of the simulated subscription is a systemd container on this host."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from simulator.backends import BackendError, NetworkSpec, NodeNotReady, NodeSpec
from simulator.backends.containers import abilities, images, machine, network
from simulator.backends.containers.places import LABEL_NAME, LABEL_STATE, locked, run_dir, tag_of
from simulator.backends.containers.podman import Podman
from simulator.backends.containers.privilege import give_to_caller
from simulator.backends.containers.reboots import RebootWatch


class ContainersBackend:
    """Machines of one simulator. Calls for different machines may be concurrent."""

    def __init__(self) -> None:
        self._podman = Podman()
        self._specs: dict[str, NodeSpec] = {}
        self._reaches: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self._reboots = RebootWatch(self._podman, self._rebooted)
        self._network: network.Network
        self._spec: NetworkSpec
        self._state_dir: Path
        self._image = ""

    def open(self, network: NetworkSpec, state_dir: Path) -> None:
        """Make the network, after removing what a dead simulator of the same name left behind."""
        cleanup(network.name, state_dir)
        self._image = images.present()
        self._spec, self._state_dir = network, state_dir.resolve()
        self._network = _network_of(network, state_dir)
        if network.admin_private_key:
            key = Path(network.admin_private_key)
            give_to_caller(self._state_dir, key, key.with_name(key.name + ".pub"))
        with locked(run_dir() / "network.lock"):
            self._network.open()
        abilities.write(abilities.probe(), self._state_dir)

    def create(self, spec: NodeSpec) -> None:
        """Make a machine from the baked image and start it."""
        addresses = [spec.private_ipv4, *([spec.public_ipv4] if spec.public_ipv4 else [])]
        with self._lock:
            self._specs[spec.vm_id] = spec
        try:
            self._network.connect(spec.name, addresses)
            self._make(spec)
            self._boot(spec)
        except BackendError as error:
            self.delete(spec.vm_id)
            raise BackendError(f"cannot make machine {spec.name} ({spec.computer_name}): {error}") from error

    def start(self, vm_id: str) -> None:
        """Start a stopped machine."""
        self._boot(self._known(vm_id))

    def stop(self, vm_id: str) -> None:
        """Shut a machine down. Its address no longer answers."""
        spec = self._known(vm_id)
        self._reboots.forget(self._container(spec))
        machine.stop(self._podman, self._container(spec))
        self._network.plug(spec.name, up=False)

    def restart(self, vm_id: str) -> None:
        """Shut a machine down and start it."""
        self.stop(vm_id)
        self.start(vm_id)

    def blank_disks(self, vm_id: str) -> None:
        """Empty the local disk."""
        disk = self._local_disk(self._known(vm_id))
        if disk is not None:
            shutil.rmtree(disk)
            disk.mkdir()

    def replace(self, spec: NodeSpec) -> None:
        """Replace the machine by a new copy of the image with the same name and addresses. The local disk stays."""
        old = self._known(spec.vm_id)
        self._remove_container(old)
        with self._lock:
            self._specs[spec.vm_id] = spec
        self._make(spec)
        self._boot(spec)

    def delete(self, vm_id: str) -> None:
        """Remove a machine, its addresses and its disks."""
        with self._lock:
            spec = self._specs.get(vm_id)
        if spec is None:
            return
        self._remove_container(spec)
        self._network.disconnect(spec.name)
        shutil.rmtree(self._folder(spec), ignore_errors=True)
        with self._lock:
            self._specs.pop(vm_id, None)
            self._reaches.pop(vm_id, None)

    def reach(self, vm_id: str, service: str, how: str) -> None:
        """Block or allow a machine's access to a service. This persists over reboots."""
        spec = self._known(vm_id)
        with self._lock:
            self._reaches.setdefault(vm_id, {})[service] = how
        self._redirect(spec)

    def wait_ready(self, vm_id: str, timeout: float) -> None:
        """Return once the admin user can log in over ssh."""
        spec = self._known(vm_id)
        container = self._container(spec)
        login = machine.ssh_argv(spec.private_ipv4, spec.admin_username, self._spec.admin_private_key)

        def failed() -> NodeNotReady:
            return NodeNotReady(
                f"machine {spec.name} ({spec.private_ipv4}) does not let {spec.admin_username} in over ssh after "
                f"{timeout:.0f} s; the end of its journal: {machine.last_words(self._podman, container)}"
            )

        def answers() -> bool:
            if (status := self._reboots.exit_status(container)) is not None:
                raise NodeNotReady(
                    f"the container of machine {spec.name} ended with status {status} before ssh answered; "
                    f"the last lines of its process 1: {machine.console(self._podman, container)}"
                )
            if not spec.own_login:
                # Only the client has the private key: the machine is ready when it has that key and sshd answers.
                return machine.provisioned(self._podman, container, vm_id) and machine.greets(spec.private_ipv4)
            return machine.answers([*login, "true"])

        machine.wait_until(answers, timeout, failed)

    def host_keys(self, vm_id: str) -> tuple[str, ...]:
        """The public halves of its sshd's keys."""
        return machine.host_keys(self._podman, self._container(self._known(vm_id)))

    def close(self) -> None:
        """Remove every machine and the network."""
        self._reboots.close()
        cleanup(self._spec.name, self._state_dir)

    def _known(self, vm_id: str) -> NodeSpec:
        with self._lock:
            spec = self._specs.get(vm_id)
        if spec is None:
            raise BackendError(f"no machine has the vmId {vm_id}: it was never created, or has been deleted")
        return spec

    def _container(self, spec: NodeSpec) -> str:
        return f"{self._network.tag}-{spec.name}"

    def _folder(self, spec: NodeSpec) -> Path:
        return machines_folder(self._state_dir) / spec.name

    def _local_disk(self, spec: NodeSpec) -> Path | None:
        return self._folder(spec) / "local-disk" if spec.local_disks else None

    def _make(self, spec: NodeSpec) -> None:
        disk = self._local_disk(spec)
        if disk is not None:
            disk.mkdir(parents=True, exist_ok=True)
        machine.create(
            self._podman,
            name=self._container(spec),
            image=self._image,
            namespace=self._network.namespace(spec.name),
            labels={LABEL_NAME: self._spec.name, LABEL_STATE: str(self._state_dir), "hpcai.vm-id": spec.vm_id},
            local_disk=disk,
            hosts=dict.fromkeys(spec.tls_names, self._spec.gateway),
        )

    def _boot(self, spec: NodeSpec) -> None:
        self._redirect(spec)
        self._network.plug(spec.name, up=True)
        machine.start(self._podman, self._container(spec))
        self._reboots.watch(self._container(spec), spec.vm_id)

    def _redirect(self, spec: NodeSpec) -> None:
        with self._lock:
            reaches = dict(self._reaches.get(spec.vm_id, {}))
        self._network.redirect(spec.name, self._spec.imds_port, self._spec.tls_port, reaches)

    def _rebooted(self, vm_id: str) -> None:
        """Start a machine that rebooted itself from inside, as a hypervisor does."""
        self._boot(self._known(vm_id))

    def _remove_container(self, spec: NodeSpec) -> None:
        self._reboots.forget(self._container(spec))
        self._podman.remove_containers([self._container(spec)])


def machines_folder(state_dir: Path) -> Path:
    """The folder of the machines' local disks."""
    return state_dir.resolve() / "machines"


def _network_of(spec: NetworkSpec, state_dir: Path) -> network.Network:
    owner = f"hpcai simulator {spec.name} in {state_dir.resolve()}"
    return network.Network(tag=tag_of(spec.name, state_dir), cidr=spec.cidr, gateway=spec.gateway, owner=owner)


def cleanup(name: str, state_dir: Path) -> None:
    """Remove the containers, namespaces, bridge, rules and disks of one simulator, dead or alive, and nothing else.

    It needs only the name and the folder, so it also works after all processes of the simulator were killed.
    """
    podman = Podman()
    left = podman.containers({LABEL_NAME: name, LABEL_STATE: str(state_dir.resolve())})
    podman.remove_containers([str(container["Id"]) for container in left])
    with locked(run_dir() / "network.lock"):
        network.remove(tag_of(name, state_dir))
    shutil.rmtree(machines_folder(state_dir), ignore_errors=True)
