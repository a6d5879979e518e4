# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data disk of the shared home: cloud-init formats and mounts it, from the user data that provision sends.

cloud-init reads the user data from a folder (NoCloud) instead of Azure's metadata service, and a udev rule of the test
makes the link that Azure's rules make. The bootcmd, the mounts, cloud-init and the boots are real.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.desired import TenantIds, desired
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.machines import HOME
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.parse import stack_of
from hardware import qemu
from hardware.scratch import Scratch
from hardware.vm import ALL, Machine

SUBSCRIPTION = TENANT = "00000000-0000-4000-8000-000000000001"
STACK = {
    "location": "swedencentral",
    "ssh_public_keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA operator@example"],
    "scale_sets": [
        {
            "vm_size": "Standard_ND96asr_v4",
            "max": 2,
            "image": "microsoft-dsvm:ubuntu-hpc:2204:22.04.2025010101",
        }
    ],
}
LINK = "disk/azure/data/by-lun/0"
RULE = f'SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", ATTRS{{serial}}=="{qemu.serial(0)}*", SYMLINK+="{LINK}"\n'
# Other modules of cloud-init would replace the machine's host keys and users.
CONFIG = """
datasource_list: [NoCloud]
network: {config: disabled}
cloud_init_modules: [bootcmd, mounts]
cloud_config_modules: []
cloud_final_modules: []
"""
SEED = "/var/lib/cloud/seed/nocloud"
UDEV = "/etc/udev/rules.d/99-home.rules"
SETTINGS = "/etc/cloud/cloud.cfg.d/99-home.cfg"
DISABLED = "/etc/cloud/cloud-init.disabled"
BOOTCMD = "cloud-init single --name bootcmd --frequency always"

pytestmark = pytest.mark.thorough


def user_data() -> str:
    """What provision sends as the controller's user data."""
    stack = stack_of(STACK, SUBSCRIPTION)
    controller = next(
        one for one in desired(stack, TenantIds(TENANT)) if (one.kind, one.name) == (kinds.VM, "hpcai-controller")
    )
    return base64.b64decode(controller.body["properties"]["userData"]).decode()


@pytest.fixture(scope="module")
def home(started: Machine) -> Iterator[Scratch]:
    """The machine after its first boot with cloud-init, and with a blank data disk."""
    scratch = Scratch(started)
    scratch.clear()
    started.write(UDEV, RULE)
    started.write(SETTINGS, CONFIG)
    started.write(f"{SEED}/meta-data", "instance-id: home\n")
    started.write(f"{SEED}/user-data", user_data())
    started.run(f"cp -a /etc/fstab /root/fstab; rm {DISABLED}; sync")
    started.reboot()
    yield scratch
    started.run(f"umount {HOME} 2>/dev/null || true; mv /root/fstab /etc/fstab; touch {DISABLED}")
    started.run(f"rm -rf /var/lib/cloud/* /var/log/cloud-init* {UDEV} {SETTINGS} {HOME}; systemctl daemon-reload; sync")
    scratch.clear()


@pytest.fixture
def disk(home: Scratch, machine: Machine) -> Machine:
    """The machine, on which ``/dev/disk/azure/data/by-lun/0`` is the data disk."""
    assert machine is home.machine
    assert machine.run(f"readlink -f /dev/{LINK}").strip() == home.disks()[0]
    return machine


def test_a_blank_disk_becomes_the_home_at_the_first_boot(disk: Machine, home: Scratch) -> None:
    # findmnt fails if nothing is mounted, and cat without the file: the assertions below say so.
    shown = disk.run(f"findmnt -rno SOURCE,FSTYPE,LABEL -M {HOME} || true; cat /var/log/cloud-init.log").splitlines()
    assert shown[0] == f"{home.disks()[0]} ext4 hpcai-home", "\n".join(shown)
    # The other disks are local NVMe disks, which belong to the scratch. blkid fails if it finds nothing on them.
    assert disk.run(f"blkid -p {' '.join(home.disks()[1:])} || true") == ""


def test_a_later_boot_mounts_the_same_files(disk: Machine) -> None:
    disk.run(f"echo kept > {HOME}/file; sync")
    disk.reboot()
    assert disk.run(f"findmnt -rno FSTYPE -M {HOME} || true; cat {HOME}/file || true").split() == ["ext4", "kept"]


@pytest.mark.parametrize(
    "fill",
    [
        "mkfs.xfs -q -f {}",
        # blkid finds nothing on it.
        "echo data of an application | dd of={} conv=notrunc status=none",
    ],
)
def test_a_disk_with_other_content_is_not_formatted(disk: Machine, home: Scratch, fill: str) -> None:
    path = home.disks()[0]
    # Alone, or after a failed test, nothing is mounted.
    disk.run(f"umount {HOME} 2>/dev/null || true")
    disk.blank(*ALL[:1])
    disk.run(f"blockdev --flushbufs {path}; {fill.format(path)}; sync; blockdev --flushbufs {path}")
    before = disk.digest(0)
    disk.run(f"{BOOTCMD}; sync; blockdev --flushbufs {path}")
    assert disk.digest(0) == before
    # The same command formats the same disk when it is blank.
    disk.blank(*ALL[:1])
    disk.run(f"blockdev --flushbufs {path}; {BOOTCMD}; mount LABEL=hpcai-home {HOME}")
