# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is removed from a machine before it becomes an image, and what must be kept."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.mounts import Mount
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image import generalise, identity
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image.generalise import ImageMounts
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image.identity import ITEMS


def mount(path: pathlib.Path, filesystem: str = "ext4", root: str = "/") -> Mount:
    """A mount."""
    return Mount("8:1", root, str(path), filesystem, "/dev/sda1", ())


def plan(
    tree: pathlib.Path,
    mounts: Sequence[Mount] = (),
    keep: Sequence[str] = (),
    extra: Sequence[str] = (),
    spared: Sequence[str] = (),
) -> generalise.GeneralisePlan:
    """Plan the changes of the tree."""
    root = Root(str(tree))
    return generalise.plan(root, ImageMounts(root, mounts), keep, extra, spared)


def clean(tree: pathlib.Path, **options: Sequence[str]) -> generalise.GeneralisePlan:
    """Generalise the tree."""
    made = plan(tree, **options)  # type: ignore[arg-type]
    generalise.apply(Root(str(tree)), made)
    return made


def files(tree: pathlib.Path) -> set[str]:
    """All files that are not empty."""
    return {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file() and path.stat().st_size}


STAYS = {
    "etc/passwd",
    "etc/shadow",
    "etc/ssh/sshd_config",
    "etc/hpcai/clocks.json",
    "root/.profile",
    "home/azureuser/work.txt",
    "tmp/systemd-private-1-chrony/tmp/x",
    "var/lib/cloud/seed/nocloud/meta-data",
    "usr/bin/hpcnode",
}


def test_the_machines_own_data_is_removed_and_all_else_is_kept(tree: pathlib.Path) -> None:
    clean(tree)
    assert files(tree) == STAYS


def test_files_in_a_removed_folder_are_not_listed_again(tree: pathlib.Path) -> None:
    paths = [action.path for action in plan(tree).actions]
    assert "/var/log/journal/0123" in paths
    assert not [path for path in paths if path.startswith("/var/log/journal/0123/")]


def test_a_second_run_finds_nothing(tree: pathlib.Path) -> None:
    assert clean(tree).changes
    again = plan(tree)
    assert not again.changes
    assert (again.actions, generalise.as_diff(again)) == ((), {"before": "", "after": ""})


def test_folders_of_services_are_kept(tree: pathlib.Path) -> None:
    clean(tree)
    for name in ("var/log/chrony", "var/lib/apt/lists/partial", "var/lib/waagent", "var/lib/hpcai", "tmp", "var/tmp"):
        assert (tree / name).is_dir(), name


def test_the_machine_id_is_emptied_and_logs_keep_their_modes(tree: pathlib.Path) -> None:
    (tree / "var/log/syslog").chmod(0o640)
    inode = (tree / "var/log/syslog").stat().st_ino
    clean(tree)
    assert (tree / "etc/machine-id").read_bytes() == b""
    assert not (tree / "var/lib/dbus/machine-id").is_symlink()
    log = (tree / "var/log/syslog").stat()
    assert (log.st_ino, log.st_mode & 0o777, log.st_size) == (inode, 0o640, 0)
    assert not (tree / "var/log/syslog.1").exists()
    assert list((tree / "var/log/journal").iterdir()) == []


def test_passwords_are_removed_and_the_file_keeps_its_permissions(tree: pathlib.Path) -> None:
    made = clean(tree)
    assert made.locked == ("azureuser",)
    lines = (tree / "etc/shadow").read_text().splitlines()
    assert lines[2] == "azureuser:*:19000:0:99999:7:::"
    assert lines[:2] == ["root:*:19000:0:99999:7:::", "daemon:*:19000:0:99999:7:::"]
    assert (tree / "etc/shadow").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in (tree / "etc").glob("shadow*")) == ["shadow"]


@pytest.mark.parametrize(
    ("item", "kept"),
    [
        ("host_keys", "etc/ssh/ssh_host_ed25519_key"),
        ("users_keys", "home/azureuser/.ssh/id_ed25519"),
        ("logs", "var/log/syslog.1"),
        ("machine_id", "etc/machine-id"),
        ("cloud_init", "var/lib/cloud/instances/i/user-data.txt"),
    ],
)
def test_each_kind_of_data_can_be_kept(tree: pathlib.Path, item: str, kept: str) -> None:
    clean(tree, keep=[item])
    assert kept in files(tree)


def test_passwords_can_be_kept(tree: pathlib.Path) -> None:
    clean(tree, keep=["passwords"])
    assert "$6$salt$hash" in (tree / "etc/shadow").read_text()


def test_further_paths_are_removed_on_request(tree: pathlib.Path) -> None:
    clean(tree, extra=["~/work.*", "/etc/hpcai/clocks.json"])
    assert files(tree) == STAYS - {"home/azureuser/work.txt", "etc/hpcai/clocks.json"}


def test_bind_mounts_and_remote_mounts_are_left_alone(tree: pathlib.Path) -> None:
    mounts = [
        mount(tree),
        mount(tree / "var/cache/apt", root="/var/cache/apt"),
        mount(tree / "etc/resolv.conf", root="/run/resolv.conf"),
        mount(tree / "home", filesystem="nfs4"),
    ]
    made = plan(tree, mounts)
    generalise.apply(Root(str(tree)), made)
    assert files(tree) >= STAYS | {
        "var/cache/apt/archives/jq.deb",
        "etc/resolv.conf",
        "home/azureuser/.ssh/authorized_keys",
    }
    reasons = dict(made.left_alone)
    assert reasons["/var/cache/apt"] == f"{tree}/var/cache/apt is a bind mount"
    assert "nfs4 is mounted" in reasons["/home/azureuser/.ssh"]


def test_a_folder_that_contains_a_mount_is_left_alone(tree: pathlib.Path) -> None:
    made = plan(tree, [mount(tree / "tmp/left/below", root="/data")])
    assert dict(made.left_alone) == {"/tmp/left": "something is mounted in it"}
    assert "/tmp/left" not in [action.path for action in made.actions]


def test_the_images_own_log_file_system_is_emptied(tree: pathlib.Path) -> None:
    made = plan(tree, [mount(tree / "var/log", filesystem="xfs")])
    assert "/var/log/syslog" in [action.path for action in made.actions]
    assert made.left_alone == ()


def test_a_file_system_in_memory_is_skipped_without_a_message(tree: pathlib.Path) -> None:
    made = plan(tree, [mount(tree / "tmp", filesystem="tmpfs")])
    assert not [action for action in made.actions if action.path.startswith("/tmp")]
    assert made.left_alone == ()


def test_a_link_that_leads_out_of_the_image_is_not_followed(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    outside = tmp_path / "outside"
    (outside / ".ssh").mkdir(parents=True)
    (outside / ".ssh/authorized_keys").write_text("host\n")
    (outside / "syslog").write_text("host\n")
    (tree / "home/azureuser").rename(tree / "home/moved")
    (tree / "home/azureuser").symlink_to(outside)
    (tree / "var/log").rename(tree / "var/oldlog")
    (tree / "var/log").symlink_to(outside)
    made = plan(tree)
    generalise.apply(Root(str(tree)), made)
    assert (outside / ".ssh/authorized_keys").exists()
    assert (outside / "syslog").read_text() == "host\n"
    assert "/home/azureuser/.ssh" in dict(made.left_alone)


def test_logs_are_emptied_through_a_link_within_the_image(tree: pathlib.Path) -> None:
    (tree / "var/log").rename(tree / "data")
    (tree / "var/log").symlink_to("../data")
    clean(tree)
    assert (tree / "data/syslog").read_bytes() == b""


def test_files_of_the_running_module_are_kept_and_all_others_removed(tree: pathlib.Path) -> None:
    archive = tree / "tmp/ansible_payload/archive.zip"
    archive.parent.mkdir()
    archive.write_text("x")
    (archive.parent / "beside").write_text("x")
    clean(tree, spared=[str(archive)])
    assert archive.exists()
    assert not (archive.parent / "beside").exists()
    assert not (tree / "tmp/left").exists()


def test_the_vm_size_is_removed_and_described_sizes_are_kept(tree: pathlib.Path) -> None:
    node = tree / "etc/hpcai/node.json"
    node.write_text('{"schema": 1, "vm_size": "Standard_X8", "vm_sizes": {"Standard_X8": {"vcpus": 8}}}')
    assert not clean(tree, keep=["cluster"]).left_alone
    assert "vm_size" in json.loads(node.read_text())
    clean(tree)
    assert json.loads(node.read_text()) == {"schema": 1, "vm_sizes": {"Standard_X8": {"vcpus": 8}}}
    assert not plan(tree).changes
    node.write_text("no json")
    assert not plan(tree).changes


def test_the_root_folder_does_not_count_as_a_home(tree: pathlib.Path) -> None:
    passwd = tree / "etc/passwd"
    passwd.write_text(passwd.read_text() + "odd:x:1001:1001::/:/bin/sh\n")
    (tree / ".cache").mkdir()
    (tree / ".cache/x").write_text("x")
    clean(tree)
    assert (tree / ".cache/x").exists()


def test_remaining_private_keys_are_found(tree: pathlib.Path) -> None:
    forgotten = tree / "opt/tool/deploy.pem"
    forgotten.parent.mkdir(parents=True)
    forgotten.write_text("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n")
    before = identity.find_private_keys(Root(str(tree)))
    assert "/home/azureuser/.ssh/id_ed25519" in before
    made = plan(tree)
    would = identity.find_private_keys(Root(str(tree)), [action.path for action in made.actions])
    generalise.apply(Root(str(tree)), made)
    assert would == identity.find_private_keys(Root(str(tree))) == ("/opt/tool/deploy.pem",)


def test_every_item_has_a_title_and_safe_paths() -> None:
    assert len({item.name for item in ITEMS}) == len(ITEMS)
    for item in ITEMS:
        assert item.title
        paths = (*item.remove, *item.clear, *item.files, *item.empty, *item.logs)
        assert paths
        assert all(path.startswith(("/", "~/")) and ".." not in path and len(path) > 3 for path in paths)


class Systemd:
    """A fake systemctl."""

    def __init__(self, *active: str) -> None:
        self.active = active
        self.commands: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> Result:
        self.commands.append(list(command))
        states = ["active" if unit in self.active else "inactive" for unit in command[2:]]
        return Result(tuple(command), 0, "\n".join(states), "")


def test_services_that_would_write_again_are_stopped_if_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generalise, "_is_running", lambda _root: True)
    systemd = Systemd("walinuxagent.service", "rsyslog.service", "systemd-random-seed.service")
    units = generalise.writers(Root("/"), (), systemd)
    assert units == ("walinuxagent.service", "systemd-random-seed.service", "rsyslog.service")
    assert generalise.writers(Root("/"), ("logs", "agent"), systemd) == ("systemd-random-seed.service",)
    generalise.stop_writers(Root("/"), units, (), systemd)
    assert systemd.commands[-2:] == [["systemctl", "stop", *units], ["journalctl", "--relinquish-var"]]


def test_for_an_image_at_rest_no_service_is_touched(tree: pathlib.Path) -> None:
    systemd = Systemd("rsyslog.service")
    (tree / "run/systemd/system").mkdir(parents=True)
    assert generalise.writers(Root(str(tree)), (), systemd) == ()
    generalise.stop_writers(Root(str(tree)), (), (), systemd)
    assert systemd.commands == []


def test_the_owner_of_the_password_file_is_kept(tree: pathlib.Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can change the owner of a file")
    os.chown(tree / "etc/shadow", 0, 42)
    clean(tree)
    assert (tree / "etc/shadow").stat().st_gid == 42
