# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containers backend alone: real machines on this host, without a simulated Resource Manager."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from simulator.backends import BackendError, NetworkSpec, NodeNotReady, NodeSpec
from simulator.backends.containers import backend, images, machine, podman
from simulator.backends.containers.command import run
from simulator.backends.containers.places import tag_of

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="machines need root"),
    pytest.mark.timeout(900),
]

NAME = "backend-test"
CIDR = "10.79.128.0/24"
GATEWAY = "10.79.128.1"
IP_FREEBIND = 15
BOOT_TIMEOUT_S = 60.0


class MetadataService(ThreadingHTTPServer):
    """Reports each machine's metadata, which it finds by the client address."""

    def __init__(self) -> None:
        self.machines: dict[str, NodeSpec] = {}
        super().__init__((GATEWAY, 0), MetadataHandler, bind_and_activate=False)
        # The address exists only after the bridge has been created.
        self.socket.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        self.server_bind()
        self.server_activate()


class MetadataHandler(BaseHTTPRequestHandler):
    server: MetadataService

    def do_GET(self) -> None:
        spec = self.server.machines.get(self.client_address[0])
        if spec is None or self.headers.get("Metadata") != "true":
            self.send_error(400)
            return
        compute = {
            "vmId": spec.vm_id,
            "name": spec.name,
            "vmSize": "Standard_D4s_v5",
            "osProfile": {"adminUsername": spec.admin_username, "computerName": spec.computer_name},
            "publicKeys": [{"keyData": key, "path": "unused"} for key in spec.ssh_public_keys],
        }
        part = self.path.startswith("/metadata/instance/compute")
        body = json.dumps(compute if part else {"compute": compute}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def host_state(*folders: Path) -> dict[str, str]:
    """State of the host that simulators with these state folders change, for a comparison before and after.

    Other simulators with other networks may start and stop during these tests.
    """
    tags = [tag_of(NAME, folder) for folder in folders]
    marks = tuple(mark for tag in tags for mark in (f"hpcai{tag}", f"hpcai-{tag}-", f"hpcai_{tag}", f"hp{tag[:5]}"))
    links = [link["ifname"] for link in json.loads(run(["ip", "-json", "link"]))]
    tables = [line.split()[-1] for line in run(["nft", "list", "tables"]).splitlines()]
    spaces = [path.name for path in Path("/run/netns").glob("*")]
    return {
        "links": " ".join(sorted(name for name in links if name.startswith(marks))),
        "namespaces": " ".join(sorted(name for name in spaces if name.startswith(marks))),
        "tables": " ".join(sorted(name for name in tables if name.startswith(marks))),
        "iptables": run(["iptables", "-S"]),
        "mounts": "\n".join(line for line in Path("/proc/mounts").read_text().splitlines() if NAME in line),
        "containers": " ".join(sorted(c["Id"] for c in podman.Podman().containers({"hpcai.simulator": NAME}))),
    }


def spec_of(number: int, key: str, **changes: object) -> NodeSpec:
    values: dict[str, object] = {
        "vm_id": f"00000000-0000-4000-8000-00000000010{number}",
        "azure_id": f"/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/m{number}",
        "name": f"m{number}",
        "computer_name": f"machine00000{number}",
        "private_ipv4": f"10.79.128.{number + 4}",
        "public_ipv4": None,
        "admin_username": "azureuser",
        "ssh_public_keys": (key,),
        "cpus": 2,
        "memory_mib": 2048,
        "local_disks": True,
    }
    return NodeSpec(**{**values, **changes})  # type: ignore[arg-type]


class TwoMachines:
    """A backend with two machines, and ssh access to them."""

    def __init__(self, folder: Path) -> None:
        self.state_dir = folder / "state"
        self.state_dir.mkdir(exist_ok=True)
        self.key = folder / "key"
        public_key = machine.make_key(self.key)
        self.specs = [spec_of(0, public_key), spec_of(1, public_key, public_ipv4="10.79.128.200")]
        self.metadata = MetadataService()
        Thread(target=self.metadata.serve_forever, daemon=True).start()
        self.backend = backend.ContainersBackend()
        self.network = NetworkSpec(NAME, CIDR, GATEWAY, self.metadata.server_address[1], str(self.key))

    def up(self) -> None:
        self.backend.open(self.network, self.state_dir)
        for spec in self.specs:
            self.metadata.machines[spec.private_ipv4] = spec
            self.backend.create(spec)
        for spec in self.specs:
            self.backend.wait_ready(spec.vm_id, BOOT_TIMEOUT_S)

    def ssh(self, number: int, command: str, address: str = "") -> str:
        where = address or self.specs[number].private_ipv4
        return run([*machine.ssh_argv(where, "azureuser", str(self.key)), command]).strip()

    def answers(self, number: int) -> bool:
        return machine.answers([*machine.ssh_argv(self.specs[number].private_ipv4, "azureuser", str(self.key)), "true"])

    def host_key(self, number: int) -> str:
        return self.ssh(number, "cat /etc/ssh/ssh_host_ed25519_key.pub")

    def down(self) -> None:
        self.metadata.shutdown()
        self.metadata.server_close()
        backend.cleanup(NAME, self.state_dir)


@pytest.fixture(scope="module")
def image() -> None:
    images.prepare(lambda line: print(line, flush=True))


@pytest.fixture(scope="module")
def lab(image: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoMachines]:
    made = TwoMachines(tmp_path_factory.mktemp("lab"))
    before = host_state(made.state_dir)
    try:
        made.up()
        assert all(host_state(made.state_dir)[what] for what in ("links", "namespaces", "tables"))
        yield made
    finally:
        made.down()
    assert host_state(made.state_dir) == before


def test_machine_is_provisioned_from_its_metadata(lab: TwoMachines) -> None:
    assert [lab.ssh(number, "hostname") for number in (0, 1)] == ["machine000000", "machine000001"]
    assert lab.ssh(0, "getent hosts machine000000").split() == ["127.0.1.1", "machine000000"]
    assert lab.ssh(0, "sudo -n id -u") == "0"


def test_each_machine_has_its_own_identity(lab: TwoMachines) -> None:
    assert lab.ssh(0, "cat /etc/machine-id") != lab.ssh(1, "cat /etc/machine-id")
    assert lab.host_key(0) != lab.host_key(1)


def test_systemd_starts_without_a_failed_unit(lab: TwoMachines) -> None:
    assert lab.ssh(0, "systemctl is-system-running --wait || systemctl --failed") == "running"


def test_the_metadata_service_answers_only_inside_machines(lab: TwoMachines) -> None:
    # The image's own rules keep the service for root.
    ask = (
        'sudo python3 -c "import urllib.request as u; print(u.urlopen(u.Request('
        "'http://169.254.169.254/metadata/instance?api-version=2021-02-01', headers={'Metadata': 'true'})"
        ').read().decode())"'
    )
    assert json.loads(lab.ssh(1, ask))["compute"]["vmId"] == lab.specs[1].vm_id
    assert "169.254.169.254" not in run(["ip", "address"])


def test_public_address_reaches_the_same_machine(lab: TwoMachines) -> None:
    assert lab.ssh(1, "hostname", address="10.79.128.200") == "machine000001"
    assert lab.ssh(1, "ip route get 10.79.128.4").split()[4] == lab.specs[1].private_ipv4


def test_machines_reach_each_other(lab: TwoMachines) -> None:
    assert "1 received" in lab.ssh(0, f"sudo ping -c 1 -W 2 {lab.specs[1].private_ipv4}")


def test_tools_can_replace_files_such_as_resolv_conf(lab: TwoMachines) -> None:
    lab.ssh(0, "sudo hostnamectl set-hostname other && sudo hostnamectl set-hostname machine000000")
    lab.ssh(0, "sudo sh -c 'cp /etc/resolv.conf /etc/x && mv /etc/x /etc/resolv.conf'")


def test_a_stopped_machine_does_not_answer_and_keeps_its_system_disk(lab: TwoMachines) -> None:
    vm_id = lab.specs[0].vm_id
    lab.ssh(0, "sudo touch /root/kept /mnt/lost")
    identity = lab.ssh(0, "cat /etc/machine-id"), lab.host_key(0)
    lab.backend.stop(vm_id)
    # A timeout or "no route", but no refusal, because a stopped machine cannot refuse.
    with pytest.raises(OSError, match=r"timed out|No route") as silence:
        socket.create_connection((lab.specs[0].private_ipv4, 22), timeout=2)
    assert not isinstance(silence.value, ConnectionRefusedError)
    lab.backend.blank_disks(vm_id)
    lab.backend.start(vm_id)
    lab.backend.wait_ready(vm_id, BOOT_TIMEOUT_S)
    assert lab.ssh(0, "sudo ls /root/kept /mnt") == "/root/kept\n\n/mnt:"
    assert (lab.ssh(0, "cat /etc/machine-id"), lab.host_key(0)) == identity


def test_local_disk_survives_a_restart(lab: TwoMachines) -> None:
    lab.ssh(0, "sudo touch /mnt/scratch-file")
    lab.backend.restart(lab.specs[0].vm_id)
    lab.backend.wait_ready(lab.specs[0].vm_id, BOOT_TIMEOUT_S)
    assert lab.ssh(0, "ls /mnt") == "scratch-file"


def test_a_machine_returns_after_a_reboot_from_inside(lab: TwoMachines) -> None:
    boot = "systemctl show --property=UserspaceTimestampMonotonic --value"
    before = lab.ssh(0, boot)
    subprocess.run(
        [*machine.ssh_argv(lab.specs[0].private_ipv4, "azureuser", str(lab.key)), "sudo systemctl reboot"], check=False
    )
    deadline = time.monotonic() + BOOT_TIMEOUT_S
    while not (lab.answers(0) and lab.ssh(0, boot) != before):
        assert time.monotonic() < deadline, "did not come back"
        time.sleep(0.5)


def test_replaced_machine_has_a_new_identity_at_the_same_address(lab: TwoMachines) -> None:
    old = lab.ssh(1, "cat /etc/machine-id"), lab.host_key(1)
    lab.ssh(1, "sudo touch /root/gone")
    lab.backend.replace(lab.specs[1])
    lab.backend.wait_ready(lab.specs[1].vm_id, BOOT_TIMEOUT_S)
    new = lab.ssh(1, "cat /etc/machine-id"), lab.host_key(1)
    assert new[0] != old[0]
    assert new[1] != old[1]
    assert lab.ssh(1, "sudo ls /root") == ""
    assert lab.ssh(1, "hostname", address="10.79.128.200") == "machine000001"


def test_a_machine_without_login_is_an_error_with_its_journal(lab: TwoMachines) -> None:
    stranger = spec_of(2, "ssh-ed25519 AAAA nobody")
    lab.metadata.machines[stranger.private_ipv4] = stranger
    lab.backend.create(stranger)
    with pytest.raises(NodeNotReady, match=r"m2 \(10\.79\.128\.6\).*provisioned machine000002"):
        lab.backend.wait_ready(stranger.vm_id, 20)
    lab.backend.delete(stranger.vm_id)
    assert "m2" not in host_state(lab.state_dir)["namespaces"]
    assert not (backend.machines_folder(lab.state_dir) / "m2").exists()
    lab.backend.delete(stranger.vm_id)


def test_a_container_that_ends_while_it_boots_is_an_immediate_error(lab: TwoMachines) -> None:
    doomed = spec_of(2, "ssh-ed25519 AAAA nobody")
    lab.metadata.machines[doomed.private_ipv4] = doomed
    lab.backend.create(doomed)
    podman.Podman().run("kill", f"{tag_of(NAME, lab.state_dir)}-m2")
    with pytest.raises(NodeNotReady, match=r"the container of machine m2 ended with status 137"):
        lab.backend.wait_ready(doomed.vm_id, BOOT_TIMEOUT_S)
    lab.backend.delete(doomed.vm_id)


def test_the_error_contains_the_output_of_the_first_process(lab: TwoMachines) -> None:
    """For example, if systemd gets no inotify instance."""
    doomed = spec_of(2, "ssh-ed25519 AAAA nobody")
    lab.metadata.machines[doomed.private_ipv4] = doomed
    lab.backend.create(doomed)
    script = "#!/bin/sh\necho Starting; echo Failed to allocate manager object >&2; exit 255\n"
    container = f"{tag_of(NAME, lab.state_dir)}-m2"
    podman.Podman().run("exec", container, "sh", "-c", f"printf '{script}' > /usr/local/sbin/simulator-init")
    lab.backend.restart(doomed.vm_id)
    with pytest.raises(NodeNotReady, match=r"ended with status 255 .*Failed to allocate manager object"):
        lab.backend.wait_ready(doomed.vm_id, BOOT_TIMEOUT_S)
    lab.backend.delete(doomed.vm_id)


def test_an_address_range_in_use_is_refused_and_its_user_named(lab: TwoMachines, tmp_path: Path) -> None:
    other = backend.ContainersBackend()
    with pytest.raises(BackendError, match=rf"{CIDR} overlaps {CIDR} on hpcai\w+ \(hpcai simulator {NAME} in "):
        other.open(NetworkSpec("backend-test-2", CIDR, GATEWAY, 1), tmp_path)
    assert lab.answers(0)


@pytest.mark.usefixtures("image")
def test_cleanup_after_a_kill_removes_everything_but_foreign_containers(tmp_path: Path) -> None:
    foreign_state, state_dir = tmp_path / "foreign", tmp_path / "state"
    earlier = host_state(state_dir, foreign_state)
    store = podman.Podman()
    store.run(
        "create", "--pull=never", "--name=foreign", "--network=none", f"--label=hpcai.simulator={NAME}",
        f"--label=hpcai.simulator.state={foreign_state}", images.present(), "true",
    )  # fmt: skip
    state_dir.mkdir()
    script = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from simulator.backends import NetworkSpec, NodeSpec
        from simulator.backends.containers import backend
        made = backend.ContainersBackend()
        made.open(NetworkSpec({NAME!r}, "10.79.129.0/24", "10.79.129.1", 1), Path({str(state_dir)!r}))
        made.create(NodeSpec("v", "/a", "m0", "machine", "10.79.129.4", None, "azureuser", ("k",), 1, 512, True))
        print("up", flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGKILL)
    try:
        left = host_state(state_dir, foreign_state)
        assert f"hpcai{tag_of(NAME, state_dir)}" in left["links"]
        assert (state_dir / "machines" / "m0").is_dir()
        backend.cleanup(NAME, state_dir)
        assert store.containers({"hpcai.simulator.state": str(state_dir)}) == []
        assert [c["Names"][0] for c in store.containers({"hpcai.simulator.state": str(foreign_state)})] == ["foreign"]
    finally:
        backend.cleanup(NAME, state_dir)
        store.remove_containers(["foreign"])
    assert host_state(state_dir, foreign_state) == earlier
    assert not (state_dir / "machines").exists()
    backend.cleanup(NAME, state_dir)
