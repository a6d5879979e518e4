# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of an image: what is written, what the base already has, and what is set in the running kernel."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image import kernel, services, settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image.changes import MARK, ImageChanges
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image.facts import AZURE_ASSET_TAG, read_base


class Machine:
    """A machine's tree."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.root = Root(str(folder))

    def has(self, path: str, text: str = "") -> None:
        """Create a file."""
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def links(self, path: str, destination: str) -> None:
        """Create a link."""
        link = self.folder / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(destination)

    def read(self, path: str) -> str | None:
        """The content of a file; None if it does not exist."""
        target = self.folder / path.lstrip("/")
        return target.read_text() if target.exists() else None

    def boots(self) -> None:
        """Let the machine run systemd."""
        (self.folder / "run/systemd/system").mkdir(parents=True)

    def lines(self, made: ImageChanges, path: str) -> list[str] | None:
        """The lines that would be written to a file; None if it should not exist."""
        [change] = [change for change in made.files if change.path == self.root.at(path)]
        if change.after is None:
            return None
        first, *rest = change.after.splitlines()
        assert first == MARK
        return rest


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """An empty machine."""
    folder = tmp_path / "machine"
    folder.mkdir()
    return Machine(folder)


def test_limits_apply_to_root_and_services_too(machine: Machine) -> None:
    made = kernel.plan_limits(machine.root, {"memlock": "unlimited", "stack": "unlimited", "nofile": 1048576}, ())
    logins = machine.lines(made, kernel.LOGINS)
    assert logins is not None
    assert "* hard memlock unlimited" in logins
    assert "root soft nofile 1048576" in logins
    assert len(logins) == 12
    services = ["[Manager]", "DefaultLimitMEMLOCK=infinity", "DefaultLimitNOFILE=1024:1048576"]
    assert machine.lines(made, kernel.SERVICES) == services


def test_a_limit_that_is_null_is_not_written(machine: Machine) -> None:
    made = kernel.plan_limits(machine.root, {"memlock": None, "nofile": 512}, ())
    assert machine.lines(made, kernel.SERVICES) == ["[Manager]", "DefaultLimitNOFILE=512"]
    assert machine.lines(kernel.plan_limits(machine.root, {"memlock": 64}, ()), kernel.SERVICES) == [
        "[Manager]",
        "DefaultLimitMEMLOCK=64K",
    ]
    assert machine.lines(kernel.plan_limits(machine.root, {}, ()), kernel.LOGINS) is None


def test_limits_of_an_hpc_image_are_left_alone_unless_named(machine: Machine) -> None:
    machine.has(
        "/etc/security/limits.conf",
        "# text\n*  hard    memlock   unlimited\n* soft memlock unlimited\n* - nofile 65536\n* soft stack 1\n",
    )
    machine.has("/etc/systemd/system.conf", "#DefaultLimitNOFILE=\nDefaultLimitMEMLOCK=infinity\n")
    limits = {"memlock": "unlimited", "stack": "unlimited", "nofile": 1048576}
    made = kernel.plan_limits(machine.root, limits, ())
    assert machine.lines(made, kernel.LOGINS) == [
        f"{who} {kind} stack unlimited" for who in ("*", "root") for kind in ("soft", "hard")
    ]
    assert "nofile is 65536, 65536 (limits.conf)" in made.left_alone
    assert "DefaultLimitMEMLOCK is infinity (systemd)" in made.left_alone
    named = machine.lines(kernel.plan_limits(machine.root, limits, ["nofile", "memlock"]), kernel.LOGINS)
    assert named is not None
    assert "* hard nofile 1048576" in named
    assert not [line for line in named if "memlock" in line]


def test_kernel_settings_go_to_a_file_and_to_the_running_kernel(machine: Machine) -> None:
    machine.has("/proc/sys/vm/zone_reclaim_mode", "0\n")
    machine.has("/proc/sys/net/ipv4/tcp_rmem", "4096\t1\t2\n")
    sysctl = {"vm.zone_reclaim_mode": 1, "net.ipv4.tcp_rmem": "4096 1 2", "not.there": 1, "off.by.null": None}
    made = kernel.plan_sysctl(machine.root, sysctl, (), live=True)
    assert machine.lines(made, kernel.SYSCTL) == [
        "net.ipv4.tcp_rmem = 4096 1 2",
        "not.there = 1",
        "vm.zone_reclaim_mode = 1",
    ]
    assert made.live == {"vm/zone_reclaim_mode": "1"}
    assert kernel.plan_sysctl(machine.root, sysctl, (), live=False).live == {}


def test_kernel_settings_of_the_base_are_left_alone_unless_named(machine: Machine) -> None:
    machine.has("/etc/sysctl.conf", "# vm.overcommit_memory = 2\nvm.zone_reclaim_mode = 1\n")
    machine.has("/etc/sysctl.d/60-site.conf", "net/ipv4/neigh/default/gc_thresh1=1024\n")
    sysctl = {"vm.zone_reclaim_mode": 0, "net.ipv4.neigh.default.gc_thresh1": 4096, "vm.overcommit_memory": 1}
    made = kernel.plan_sysctl(machine.root, sysctl, (), live=False)
    assert machine.lines(made, kernel.SYSCTL) == ["vm.overcommit_memory = 1"]
    assert made.left_alone == (
        "net.ipv4.neigh.default.gc_thresh1 is 1024 (sysctl)",
        "vm.zone_reclaim_mode is 1 (sysctl)",
    )
    named = kernel.plan_sysctl(machine.root, sysctl, ["vm.zone_reclaim_mode"], live=False)
    assert "vm.zone_reclaim_mode = 0" in (machine.lines(named, kernel.SYSCTL) or [])


def test_our_own_files_do_not_count_as_the_bases(machine: Machine) -> None:
    machine.has(kernel.SYSCTL, "vm.zone_reclaim_mode = 1\n")
    machine.has(kernel.LOGINS, "* soft memlock 1\n* hard memlock 1\n")
    assert kernel.plan_sysctl(machine.root, {"vm.zone_reclaim_mode": 1}, (), live=False).left_alone == ()
    assert kernel.plan_limits(machine.root, {"memlock": 2}, ()).left_alone == ()


@pytest.mark.parametrize(
    ("name", "path"),
    [("net.ipv4.conf.eth0/1.x", "net/ipv4/conf/eth0.1/x"), ("net/ipv4/conf/eth0.1/x", "net/ipv4/conf/eth0.1/x")],
)
def test_names_that_contain_dots_give_the_right_path(name: str, path: str) -> None:
    assert kernel.path_of(name) == path


def test_modules_that_no_kernel_has_are_not_requested(machine: Machine) -> None:
    machine.has("/lib/modules/6.1.0/modules.dep", "kernel/drivers/infiniband/core/ib_umad.ko.xz: kernel/x.ko\n")
    machine.has("/lib/modules/6.1.0/modules.builtin", "kernel/net/rdma-ucm.ko\n")
    made = kernel.plan_modules(
        machine.root, ["ib_umad", "rdma_ucm", "ib_uverbs"], {"sunrpc": {"slots": 128, "x": None}}
    )
    assert machine.lines(made, kernel.MODULES) == ["ib_umad", "rdma_ucm"]
    assert machine.lines(made, kernel.MODULE_OPTIONS) == ["options sunrpc slots=128"]
    assert "ib_uverbs" in made.remarks[0]


def test_an_option_that_the_base_sets_by_sysctl_is_left_alone(machine: Machine) -> None:
    machine.has("/etc/sysctl.conf", "sunrpc.tcp_max_slot_table_entries = 64\n")
    made = kernel.plan_modules(machine.root, (), {"sunrpc": {"tcp_max_slot_table_entries": 128}})
    assert machine.lines(made, kernel.MODULE_OPTIONS) is None
    assert made.left_alone == ("sunrpc.tcp_max_slot_table_entries is 64 (sysctl)",)


WAAGENT = """\
# Microsoft Azure Linux Agent
Provisioning.Agent=auto

# Extensions.GoalStatePeriod=6 was the default
Extensions.GoalStatePeriod=6
ResourceDisk.Format=y
ResourceDisk.MountPoint=/mnt/resource
ResourceDisk.EnableSwap=y"""


def test_the_agents_other_settings_and_comments_are_kept(machine: Machine) -> None:
    machine.has(services.WAAGENT, WAAGENT)
    agent = {
        "Extensions.GoalStatePeriod": 300,
        "ResourceDisk.EnableSwap": False,
        "OS.EnableRDMA": "y",
        "Not.This": None,
    }
    [change] = services.plan_agent(machine.root, agent, "/scratch").files
    expected = WAAGENT.replace("\nExtensions.GoalStatePeriod=6", "\nExtensions.GoalStatePeriod=300")
    assert change.after == expected.replace("EnableSwap=y", "EnableSwap=n") + "\nOS.EnableRDMA=y\n"
    assert services.with_values(change.after, {"OS.EnableRDMA": "y"}) == change.after


def test_the_agents_disk_is_not_mounted_on_the_scratch(machine: Machine) -> None:
    machine.has(services.WAAGENT, WAAGENT.replace("/mnt/resource", "/scratch"))
    made = services.plan_agent(machine.root, {"OS.EnableRDMA": "y"}, "/scratch/")
    assert "ResourceDisk.MountPoint=/mnt/resource\n" in (made.files[0].after or "")
    assert "/scratch" in made.remarks[0]


def test_without_an_agent_nothing_is_written(machine: Machine) -> None:
    assert services.plan_agent(machine.root, {"OS.EnableRDMA": "y"}, "/scratch").files == ()


def test_apt_installs_no_updates_automatically(machine: Machine) -> None:
    machine.has("/etc/apt/apt.conf")
    off = machine.lines(services.plan_updates(machine.root, services.UPDATES_OFF), services.APT)
    assert off == [f'APT::Periodic::{name} "0";' for name in ("Enable", "Update-Package-Lists", "Unattended-Upgrade")]
    security = machine.lines(services.plan_updates(machine.root, services.UPDATES_SECURITY), services.APT) or []
    assert 'APT::Periodic::Unattended-Upgrade "1";' in security
    assert 'Unattended-Upgrade::Package-Blacklist { "^linux-"; };' in security
    assert machine.lines(services.plan_updates(machine.root, services.UPDATES_LEAVE), services.APT) is None


def test_updates_that_the_base_has_masked_are_left_alone(machine: Machine) -> None:
    machine.has("/etc/apt/apt.conf")
    machine.links("/etc/systemd/system/unattended-upgrades.service", "/dev/null")
    made = services.plan_updates(machine.root, services.UPDATES_OFF)
    assert machine.lines(made, services.APT) is None
    assert made.left_alone == ("unattended-upgrades is masked already",)


def test_dnf_installs_no_updates_or_security_updates_only(machine: Machine) -> None:
    machine.has(services.DNF, "[commands]\nupgrade_type = default\nrandom_sleep = 0\n")
    timer = "/etc/systemd/system/timers.target.wants/dnf-automatic-install.timer"
    machine.links(timer, "/usr/lib/systemd/system/dnf-automatic-install.timer")
    assert services.plan_updates(machine.root, services.UPDATES_OFF).unlink == (timer,)
    [change] = services.plan_updates(machine.root, services.UPDATES_SECURITY).files
    assert change.after == "[commands]\nupgrade_type = security\nrandom_sleep = 0\n"


def test_chrony_follows_the_host_on_azure_only(machine: Machine) -> None:
    machine.has("/etc/chrony/chrony.conf", "pool x\nconfdir /etc/chrony/conf.d\n")
    assert services.plan_clock(machine.root, services.TIME_AUTO).files == ()
    assert machine.lines(services.plan_clock(machine.root, services.TIME_AZURE), services.CHRONY_DROP_IN) == list(
        services.CHRONY_LINES
    )
    machine.boots()
    machine.has("/sys/class/dmi/id/chassis_asset_tag", f"{AZURE_ASSET_TAG}\n")
    assert machine.lines(services.plan_clock(machine.root, services.TIME_AUTO), services.CHRONY_DROP_IN) == list(
        services.CHRONY_LINES
    )


def test_chrony_without_a_folder_for_settings_gets_a_block(machine: Machine) -> None:
    machine.has("/etc/chrony.conf", "pool x\n")
    [change] = services.plan_clock(machine.root, services.TIME_AZURE).files
    assert (change.after or "").startswith("# BEGIN hpcai.azure image\nrefclock PHC /dev/ptp_hyperv")
    change.apply()
    assert not any(change.changes for change in services.plan_clock(machine.root, services.TIME_AZURE).files)
    for change in services.plan_clock(machine.root, services.TIME_LEAVE).files:
        change.apply()
    assert machine.read("/etc/chrony.conf") == "pool x\n"


def test_a_base_that_follows_the_host_already_is_left_alone(machine: Machine) -> None:
    line = "refclock PHC /dev/ptp_hyperv poll 3 dpoll -2 offset 0"
    machine.has("/etc/chrony/chrony.conf", f"{line}\nconfdir /etc/chrony/conf.d\n")
    made = services.plan_clock(machine.root, services.TIME_AZURE)
    assert (made.files, made.left_alone) == ((), (f"chrony has {line!r}",))


def card(machine: Machine, name: str, driver: str, master: str = "") -> None:
    """A network card."""
    machine.links(f"/sys/class/net/{name}/device/driver", f"/sys/bus/x/drivers/{driver}")
    if master:
        machine.links(f"/sys/class/net/{name}/master", f"../{master}")


def test_it_reports_whether_the_network_is_accelerated(machine: Machine) -> None:
    machine.has("/etc/udev/rules.d/70-persistent-net.rules")
    card(machine, "eth0", "hv_netvsc")
    card(machine, "tap0", "tun", "eth0")
    assert services.plan_network(machine.root) == ImageChanges(unlink=("/etc/udev/rules.d/70-persistent-net.rules",))
    machine.boots()
    [without] = services.plan_network(machine.root).remarks
    assert without.startswith("no accelerated networking: eth0")
    card(machine, "enP1s1", "mlx5_core", "eth0")
    assert services.plan_network(machine.root).remarks == ("accelerated networking: eth0 uses enP1s1 (mlx5_core)",)
    card(machine, "eth1", "hv_netvsc")
    assert services.plan_network(machine.root).remarks[1].startswith("no accelerated networking: eth1")


def test_an_hpc_image_and_its_components_are_recognised(machine: Machine) -> None:
    machine.has("/etc/os-release", 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="22.04"\n# text\n')
    machine.has("/opt/azurehpc/component_versions.txt", '{"NVIDIA": "580.126.16", "DCGM": "4.5.2"}')
    for name in ("nvidia-smi", "dcgmi", "ofed_info"):
        machine.has(f"/usr/bin/{name}")
    machine.has("/sys/bus/pci/devices/0001:00:00.0/vendor", "0x10de\n")
    machine.has("/sys/bus/pci/devices/0001:00:00.0/class", "0x030200\n")
    machine.has("/sys/bus/pci/devices/0002:00:00.0/vendor", "0x10de\n")
    machine.has("/sys/bus/pci/devices/0002:00:00.0/class", "0x068000\n")
    base = read_base(machine.root)
    assert (base.os, base.hpc_image, base.present) == ("ubuntu-22.04", True, ("dcgm", "driver", "rdma"))
    assert base.versions == {"NVIDIA": "580.126.16", "DCGM": "4.5.2"}
    assert (base.gpus, base.booted) == (0, False)
    machine.boots()
    assert (read_base(machine.root).gpus, read_base(machine.root).booted) == (1, True)
    machine.has("/run/systemd/container", "podman")
    assert (read_base(machine.root).container, read_base(machine.root).booted) == (True, False)


def test_secure_boot_is_that_of_the_running_machine(machine: Machine) -> None:
    machine.has("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", "\x06\0\0\0\x01")
    assert read_base(machine.root).secure_boot is False
    machine.boots()
    assert read_base(machine.root).secure_boot is True
    machine.has("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", "\x06\0\0\0\0")
    assert read_base(machine.root).secure_boot is False


def test_a_plain_base_has_no_components(machine: Machine) -> None:
    machine.has("/opt/azurehpc/component_versions.txt", "no json")
    base = read_base(machine.root)
    assert (base.os, base.present, base.versions) == ("unknown-unknown", (), {})


OPTIONS: Mapping[str, object] = {
    "limits": {"memlock": "unlimited"},
    "sysctl": {"vm.zone_reclaim_mode": 1},
    "time": "azure",
    "network": True,
}


def no_output(command: Sequence[str]) -> Result:
    """Run nothing."""
    return Result(tuple(command), 0, "", "")


def test_a_container_keeps_its_hosts_limits_clock_and_kernel(machine: Machine) -> None:
    machine.boots()
    machine.has("/proc/sys/vm/zone_reclaim_mode", "0")
    machine.has("/run/systemd/container", "podman")
    machine.has(kernel.LOGINS, "* hard nofile 1\n")
    settings.apply(machine.root, settings.plan(machine.root, settings.ImageOptions(**OPTIONS)), no_output)  # type: ignore[arg-type]
    assert machine.read(kernel.LOGINS) is None
    assert machine.read(services.CHRONY_DROP_IN) is None
    assert machine.read("/proc/sys/vm/zone_reclaim_mode") == "0"
    assert machine.read(kernel.SYSCTL) is not None


def test_a_booted_machine_gets_all_settings_and_then_no_change(machine: Machine) -> None:
    machine.boots()
    machine.has("/proc/sys/vm/zone_reclaim_mode", "0")
    options = settings.ImageOptions(**OPTIONS)  # type: ignore[arg-type]
    planned = settings.plan(machine.root, options)
    assert len(settings.as_diff(planned)) == len(settings.changes(planned)) == 5
    settings.apply(machine.root, planned, no_output)
    assert machine.read("/proc/sys/vm/zone_reclaim_mode") == "1"
    assert settings.changes(settings.plan(machine.root, options)) == []


def test_settings_that_are_no_longer_wanted_are_removed(machine: Machine) -> None:
    settings.apply(machine.root, settings.plan(machine.root, settings.ImageOptions(**OPTIONS)), no_output)  # type: ignore[arg-type]
    settings.apply(machine.root, settings.plan(machine.root, settings.ImageOptions()), no_output)
    files = (kernel.LOGINS, kernel.SERVICES, kernel.SYSCTL, services.CHRONY_DROP_IN)
    assert not [path for path in files if machine.read(path) is not None]
