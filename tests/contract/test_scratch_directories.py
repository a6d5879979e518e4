# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role scratch and the boot steps on a machine without NVMe disks, with real mounts, users and a full disk.

The machine is this host in a separate mount namespace with an overlay, so that changes do not affect the host.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SETUP = """\
set -e
mount -t tmpfs -o mode=755 hpcai-test {folder}
mkdir {folder}/upper {folder}/work {folder}/root
mount -t overlay -o lowerdir=/,upperdir={folder}/upper,workdir={folder}/work overlay {folder}/root
mount -t proc proc {folder}/root/proc
mount -t tmpfs -o mode=755 dev {folder}/root/dev
for device in null:3 zero:5 random:8 urandom:9; do
    mknod -m 666 {folder}/root/dev/${{device%:*}} c 1 ${{device#*:}}
done
ln -s /proc/self/fd {folder}/root/dev/fd
mkdir -m 1777 {folder}/root/dev/shm
# Remove state of this host.
rm -rf {folder}/root/etc/hpcai {folder}/root/etc/fstab {folder}/root/etc/waagent.conf {folder}/root/scratch
rm -rf {folder}/root/mnt {folder}/root/run
mkdir -p {folder}/root/mnt {folder}/root/run/lock {folder}/root/etc/hpcai {folder}/root/srv/temporary
mkdir -p {folder}/root/etc/ansible/facts.d
echo ready
exec sleep infinity
"""
PLAY = """\
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.setup:
        gather_subset: [min]
    - ansible.builtin.import_role:
        name: hpcai.azure.scratch
        tasks_from: {tasks_from}
"""
HPCNODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from _node.cli.main import main; raise SystemExit(main())"
SIZES = {"vm_size": "Mine", "vm_sizes": {"Mine": {"vcpus": 4, "memory_mib": 16384, "nvme_count": 0}}}
JOBS: dict[str, Any] = {"path": "jobs", "mode": "1777"}
DATA: dict[str, Any] = {"path": "data/all", "owner": "daemon", "group": "games", "mode": "2750"}
SETTINGS = ("scratch.json", "directories.json")


class Machine:
    """The machine of the tests."""

    def __init__(self, pid: int, folder: pathlib.Path) -> None:
        """Enter the namespace of the process, with the root file system in the folder."""
        self.enter = ["nsenter", f"--target={pid}", "--mount", "chroot", f"{folder}/root"]

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command on the machine."""
        env = {
            "PATH": f"{pathlib.Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".collections"),
            "ANSIBLE_HOME": "/run/ansible",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
            "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        }
        done = subprocess.run(
            [*self.enter, *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0 or not check, f"{words}\n{done.stdout}\n{done.stderr}"
        return done

    def sh(self, script: str) -> str:
        """Run a shell script on the machine, and return its output."""
        return self.run("sh", "-ec", script).stdout.strip()

    def write(self, path: str, text: str) -> None:
        """Write a file on the machine."""
        subprocess.run([*self.enter, "tee", path], input=text, text=True, check=True, stdout=subprocess.DEVNULL)

    def play(self, tasks_from: str = "main", *options: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run the role on the machine."""
        self.write("/run/play.yml", PLAY.format(tasks_from=tasks_from))
        given = {"scratch_nvme_count": 0, "scratch_folders": [JOBS, DATA], **variables}
        return self.run(
            "ansible-playbook",
            "--inventory=localhost,",
            "/run/play.yml",
            f"--extra-vars={json.dumps(given)}",
            *options,
            check=False,
        )

    def boot(self, *steps: str) -> tuple[int, list[dict[str, Any]]]:
        """Run steps of the boot phase; returns the exit status and the results."""
        core = str(REPOSITORY / "plugins/module_utils")
        done = self.run("/usr/bin/python3", "-I", "-c", HPCNODE, core, "boot", "run", *steps, "--json", check=False)
        results: list[dict[str, Any]] = json.loads(done.stdout)["steps"]
        return done.returncode, results

    def settings(self) -> dict[str, str]:
        """The settings files for the boot."""
        return {name: self.sh(f"cat /etc/hpcai/{name}") for name in SETTINGS}

    def mount_temporary_disk(self) -> None:
        """Mount a temporary disk, as the simulator does."""
        self.sh("mount --bind /srv/temporary /mnt")


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Iterator[Machine]:
    """A machine without a temporary disk, with a VM size without local disks."""
    if os.getuid() != 0 or not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("needs root, unshare and nsenter")
    folder = tmp_path / "machine"
    folder.mkdir()
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation=private", "bash", "-c", SETUP.format(folder=folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline().strip() != "ready":
            pytest.skip(f"no overlay in a mount namespace here: {holder.stderr.read().strip()}")
        machine = Machine(holder.pid, folder)
        machine.write("/etc/hpcai/node.json", json.dumps({"schema": 1, **SIZES}))
        machine.write("/etc/ansible/facts.d/hpcai_scratch.fact", '{"packages": ["mdadm", "xfsprogs"]}')
        yield machine
    finally:
        holder.kill()
        holder.communicate(timeout=10)


def is_unchanged(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a run succeeded and changed nothing."""
    return done.returncode == 0 and "changed=0" in done.stdout


@pytest.mark.thorough
def test_bake_then_configure_then_boot_on_the_temporary_disk(machine: Machine) -> None:
    baked = machine.play("install")
    assert baked.returncode == 0, baked.stdout
    assert is_unchanged(machine.play("install"))
    image = machine.settings()
    assert machine.sh("ls -d /scratch 2>&1 || true").endswith("No such file or directory")

    machine.mount_temporary_disk()
    predicted = machine.play("main", "--check")
    assert predicted.returncode == 0, predicted.stdout
    assert "changed=1" in predicted.stdout
    assert machine.sh("ls -A /mnt; ls -d /scratch 2>&1 || true").endswith("No such file or directory")
    done = machine.play()
    assert done.returncode == 0, done.stdout
    assert "changed=1" in done.stdout
    assert "/scratch is not on NVMe disks" in " ".join((done.stdout + done.stderr).split())
    assert machine.settings() == image
    assert machine.sh("findmnt -rno FSROOT /scratch") == machine.sh("findmnt -rno FSROOT /mnt") + "/hpcai-scratch"
    assert machine.sh("stat -c '%U:%G %a' /scratch /scratch/jobs /scratch/data /scratch/data/all").splitlines() == [
        "root:root 1777",
        "root:root 1777",
        "root:root 755",
        "daemon:games 2750",
    ]
    assert is_unchanged(machine.play())
    assert is_unchanged(machine.play("main", "--check"))

    # A boot: the mount is gone, and after a redeployment the temporary disk is blank.
    machine.sh("umount /scratch; rm -r /mnt/hpcai-scratch")
    status, [scratch, directories] = machine.boot("scratch", "directories")
    assert (status, scratch["verdict"], directories["verdict"]) == (0, "skip", "warn")
    assert directories["details"]["kind"] == "temporary_disk"
    assert "there are no local NVMe disks here (VM size Standard_Mine: 0)" in directories["summary"]
    assert machine.sh("stat -c '%U:%G %a' /scratch/data/all") == "daemon:games 2750"
    status, [directories] = machine.boot("directories")
    assert (status, directories["changes"]) == (0, [])

    machine.sh("touch /scratch/jobs/kept")
    undone = machine.play("undo")
    assert undone.returncode == 0, undone.stdout
    assert machine.sh("ls /etc/hpcai; findmnt -rno SOURCE /scratch || true") == "node.json"
    assert machine.sh("ls /mnt/hpcai-scratch/jobs") == "kept"
    assert is_unchanged(machine.play("undo"))


@pytest.mark.thorough
def test_without_a_temporary_disk_mnt_is_not_changed(machine: Machine) -> None:
    done = machine.play()
    assert done.returncode == 0, done.stdout
    assert "operating system's disk" in " ".join((done.stdout + done.stderr).split())
    assert machine.sh("ls -A /mnt") == ""
    assert machine.sh("stat -c '%U:%G %a' /scratch /scratch/jobs").splitlines() == ["root:root 1777"] * 2
    assert is_unchanged(machine.play())
    refused = machine.play(scratch_fallback=["temporary_disk"])
    assert refused.returncode == 2
    assert "the only allowed fallback is temporary_disk; there is no temporary disk" in " ".join(refused.stdout.split())


@pytest.mark.thorough
def test_missing_expected_disks_get_no_fallback(machine: Machine) -> None:
    machine.mount_temporary_disk()
    done = machine.play("install", scratch_expected_count=8)
    assert done.returncode == 0, done.stdout
    status, [scratch, directories] = machine.boot("scratch", "directories")
    assert (status, scratch["verdict"], directories["verdict"]) == (1, "fail", "fail")
    assert "8 local NVMe disks are expected, and no disk has one of the models" in scratch["summary"]
    assert "/scratch is not mounted, although 8 local NVMe disks are expected" in directories["summary"]
    assert machine.sh("ls -A /mnt; ls -d /scratch 2>&1 || true").endswith("No such file or directory")


@pytest.mark.thorough
def test_the_node_finds_the_number_of_disks_if_the_inventory_lacks_it(machine: Machine) -> None:
    refused = machine.play(scratch_nvme_count=8)
    assert refused.returncode == 2
    assert "8 local NVMe disks are expected, and no disk has one of the models" in " ".join(refused.stdout.split())
    assert machine.sh("ls -d /scratch 2>&1 || true").endswith("No such file or directory")
    # hpcnode on the node answers that the VM size has no local disks.
    done = machine.play(scratch_nvme_count=None)
    assert done.returncode == 0, done.stdout
    assert "Let the node find out" in done.stdout
    assert "a slow folder on the operating system's disk" in " ".join((done.stdout + done.stderr).split())
    assert is_unchanged(machine.play(scratch_nvme_count=None))


@pytest.mark.thorough
def test_a_full_disk_is_reported_by_name(machine: Machine) -> None:
    machine.sh("mkdir /scratch; mount -t tmpfs -o size=64k,nr_inodes=2 full /scratch")
    done = machine.play("install")
    assert done.returncode == 0, done.stdout
    status, [directories] = machine.boot("directories")
    assert (status, directories["verdict"]) == (1, "fail")
    assert "the file system (tmpfs of full) is full, 65536 bytes and 0 inodes are free" in directories["summary"]
    # When space is free again, the next attempt creates the directories.
    machine.sh("mount -o remount,size=1m,nr_inodes=100 /scratch")
    assert machine.boot("directories")[1][0]["verdict"] == "pass"


@pytest.mark.parametrize(
    ("planted", "warning"),
    [
        ("ln -s /etc jobs", "/scratch/jobs was a symbolic link of user 65534: it was removed"),
        ("mkdir jobs", "/scratch/jobs was a folder of user 65534: it was removed"),
        ("mkdir -p jobs/full", "/scratch/jobs was a folder of user 65534: it was moved to /scratch/jobs.aside-"),
    ],
)
def test_a_link_or_folder_of_a_user_is_not_followed(machine: Machine, planted: str, warning: str) -> None:
    machine.sh("mkdir /scratch; mount -t tmpfs -o mode=1777 fast /scratch")
    before = machine.sh("stat -c '%U %a' /etc")
    machine.sh(f"cd /scratch; setpriv --reuid=65534 --regid=65534 --clear-groups {planted}")
    done = machine.play()
    assert done.returncode == 0, done.stdout
    assert warning in " ".join((done.stdout + done.stderr).split())
    assert machine.sh("stat -c '%U %a' /etc") == before
    assert machine.sh("stat -c '%F %U' /scratch/jobs") == "directory root"
    # The other directories are created nevertheless.
    assert machine.sh("stat -c %a /scratch/data/all") == "2750"


@pytest.mark.thorough
def test_an_unknown_user_fails_the_boot_step_and_is_named(machine: Machine) -> None:
    machine.sh("mkdir /scratch; mount -t tmpfs -o mode=1777 fast /scratch")
    machine.play("install", scratch_folders=[{**DATA, "owner": "nobody-here"}, JOBS])
    status, [directories] = machine.boot("directories")
    assert (status, directories["verdict"]) == (1, "fail")
    assert "/scratch/data/all: owner: there is no user 'nobody-here'" in directories["summary"]
    assert machine.sh("ls /scratch") == "jobs"


@pytest.mark.thorough
def test_invalid_settings_are_unknown_and_the_role_repairs_them(machine: Machine) -> None:
    machine.sh("mkdir /scratch; mount -t tmpfs -o mode=1777 fast /scratch")
    machine.play("install")
    for name in SETTINGS:
        machine.write(f"/etc/hpcai/{name}", '{"schema": 1,')
    status, results = machine.boot("scratch", "directories")
    assert status != 0
    assert [step["verdict"] for step in results] == ["unknown", "unknown"]
    assert all(name in step["summary"] for name, step in zip(SETTINGS, results, strict=True))
    assert machine.play().returncode == 0
    assert [step["verdict"] for step in machine.boot("scratch", "directories")[1]] == ["skip", "pass"]
