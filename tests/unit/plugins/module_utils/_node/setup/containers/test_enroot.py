# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Enroot's settings: files, links, and what is refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers import enroot
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.options import (
    options_of,
    read_options,
)

from .conftest import Node

DATA = "/scratch/enroot/data/user-$(id -u)"


def set_up(node: Node, check: bool = False, apply: bool = True, **given: Any) -> list[str]:
    """Configure enroot; return the actions, with paths as on the node."""
    done = enroot.configure(options_of(given), node.root, node.run, check, apply)
    return [action.replace(str(node.folder), "") for action in done.actions]


def gpu(node: Node) -> None:
    """Give the node a GPU, and the tool that passes it into containers."""
    device = node.folder / "sys/bus/pci/devices/0001:00:00.0"
    device.mkdir(parents=True)
    for name, text in {"vendor": "0x10de", "device": "0x20b0", "class": "0x030200"}.items():
        (device / name).write_text(f"{text}\n")
    node.write("/usr/bin/nvidia-container-cli", "")


def test_settings_are_one_drop_in_and_a_second_run_changes_nothing(node: Node) -> None:
    settings = {"ENROOT_TEMP_PATH": "/scratch/tmp", "ENROOT_MOUNT_HOME": False, "ENROOT_MAX_PROCESSORS": 8}
    given: dict[str, Any] = {"settings": settings}
    assert "write /etc/enroot/enroot.conf.d/50-hpcai.conf" in set_up(node, **given)
    text = node.text("/etc/enroot/enroot.conf.d/50-hpcai.conf") or ""
    assert text.splitlines()[1:] == [
        "ENROOT_MAX_PROCESSORS 8",
        "ENROOT_MOUNT_HOME no",
        "ENROOT_TEMP_PATH /scratch/tmp",
    ]
    assert node.text("/etc/enroot/enroot.conf") is None
    # What systemd-tmpfiles would have created.
    (node.folder / "run/enroot/empty").mkdir(0o555, parents=True)
    (node.folder / "run/enroot").chmod(0o1777)
    before = node.files()
    assert set_up(node, **given) == []
    assert node.files() == before


def test_check_mode_reports_the_same_actions_and_changes_nothing(node: Node) -> None:
    given: dict[str, Any] = {"settings": {"ENROOT_DATA_PATH": DATA}, "hooks": ["50-slurm-pmi.sh"]}
    before = node.files()
    foreseen = set_up(node, check=True, **given)
    assert node.files() == before
    assert foreseen == set_up(node, **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"settings": {"ENROOT_DATA_PAHT": "/x"}},
            "settings has unknown keys ENROOT_DATA_PAHT; known are ",
        ),
        ({"settings": {"DATA_PATH": "/x"}}, "settings has unknown keys DATA_PATH"),
        ({"settings": {"ENROOT_DATA_PATH": "${HOME}/x"}}, "absolute path without HOME"),
        ({"settings": {"ENROOT_CACHE_PATH": "~/x"}}, "absolute path without HOME"),
        ({"settings": {"ENROOT_RUNTIME_PATH": "$XDG_RUNTIME_DIR/enroot"}}, "absolute path without HOME"),
        ({"settings": {"ENROOT_TEMP_PATH": "tmp"}}, "must be an absolute path"),
        ({"settings": {"ENROOT_SQUASH_OPTIONS": "a\nENROOT_MOUNT_HOME y"}}, "must be one line"),
        ({"hooks": ["../x.sh"]}, r"hooks\[0\] must be the name of a file, not '../x.sh'"),
        ({"local_folders": ["x"]}, r"local_folders\[0\] must be an absolute path"),
        ({"acr_registries": ["$(reboot)"]}, r"acr_registries\[0\] must be a registry such as training.azurecr.io"),
        ({"acr_client_id": "$(reboot)"}, "acr_client_id must be a GUID"),
        ({"ngc_key_file": "/key;reboot"}, "ngc_key_file must be an absolute path"),
        ({"nvidia": {"A=B\nC": "x"}}, "a key of nvidia must be capital letters, digits and '_'"),
        ({"cache_limit_gib": 0}, "cache_limit_gib must be a number above 0, not 0"),
        ({"apparmor": "on"}, "apparmor must be leave, profile or off, not 'on'"),
        ({"hook": []}, "has unknown keys hook; known are settings, "),
    ],
)
def test_invalid_settings_are_refused(node: Node, given: dict[str, Any], words: str) -> None:
    before = node.files()
    with pytest.raises(ConfigError, match=words):
        set_up(node, **given)
    assert node.files() == before


def test_hooks_are_links_and_foreign_hooks_are_kept(node: Node) -> None:
    node.write("/etc/enroot/hooks.d/10-devices.sh", "")
    (node.folder / "etc/enroot/hooks.d/90-site.sh").symlink_to("/opt/site.sh")
    set_up(node, hooks=["50-slurm-pmi.sh", "50-slurm-pytorch.sh"])
    link = node.folder / "etc/enroot/hooks.d/50-slurm-pmi.sh"
    assert os.readlink(link) == "/usr/share/enroot/hooks.d/50-slurm-pmi.sh"
    assert "unlink /etc/enroot/hooks.d/50-slurm-pmi.sh" in set_up(node, hooks=["50-slurm-pytorch.sh"])
    assert sorted(path.name for path in link.parent.iterdir()) == ["10-devices.sh", "50-slurm-pytorch.sh", "90-site.sh"]


def test_a_hook_that_enroot_does_not_have_is_an_error(node: Node) -> None:
    with pytest.raises(
        ConfigError, match=r"no hook 50-sharp.sh .*\. Hooks found: 50-slurm-pmi.sh, 50-slurm-pytorch.sh"
    ):
        set_up(node, hooks=["50-sharp.sh"])


def test_gpus_are_requested_only_if_the_node_can_provide_them(node: Node) -> None:
    given: dict[str, Any] = {
        "nvidia": {"NVIDIA_VISIBLE_DEVICES": "all"},
        "mellanox": {"MELLANOX_VISIBLE_DEVICES": "all"},
    }
    set_up(node, **given)
    assert node.text("/etc/enroot/environ.d/50-hpcai-nvidia.env") is None
    assert node.text("/etc/enroot/environ.d/50-hpcai-mellanox.env") is None
    gpu(node)
    (node.folder / "sys/class/infiniband/mlx5_ib0").mkdir(parents=True)
    # As at boot, on a machine with another size than the one that built the image.
    options = read_options(node.root)
    assert options
    assert len(enroot.at_boot(options, node.root, check=False)) == 2
    assert "NVIDIA_VISIBLE_DEVICES=all" in (node.text("/etc/enroot/environ.d/50-hpcai-nvidia.env") or "")
    (node.folder / "usr/bin/nvidia-container-cli").unlink()
    enroot.at_boot(options, node.root, check=False)
    assert node.text("/etc/enroot/environ.d/50-hpcai-nvidia.env") is None


def test_credentials_are_commands_and_no_secrets(node: Node) -> None:
    identity = "11111111-2222-3333-4444-555555555555"
    set_up(node, acr_registries=["training.azurecr.io"], acr_client_id=identity, ngc_key_file="/shared/ngc.key")
    lines = (node.text("/etc/hpcai/enroot/.credentials") or "").splitlines()[1:]
    assert lines == [
        "machine training.azurecr.io login 00000000-0000-0000-0000-000000000000 "
        f"password $(hpcnode containers token training.azurecr.io --client-id {identity})",
        "machine nvcr.io login $oauthtoken password $(cat /shared/ngc.key)",
        "machine authn.nvidia.com login $oauthtoken password $(cat /shared/ngc.key)",
    ]
    assert "ENROOT_CONFIG_PATH /etc/hpcai/enroot" in (node.text("/etc/enroot/enroot.conf.d/50-hpcai.conf") or "")
    set_up(node)
    assert node.text("/etc/hpcai/enroot/.credentials") is None


def test_parents_of_users_folders_have_the_sticky_bit(node: Node) -> None:
    set_up(node, local_folders=["/var/lib/enroot", "/var/lib/enroot/data"])
    lines = (node.text("/etc/tmpfiles.d/hpcai-containers.conf") or "").splitlines()[1:]
    assert lines == [
        *(f"d {path} 1777 root root -" for path in ("/run/enroot", "/var/lib/enroot", "/var/lib/enroot/data")),
        "d /run/enroot/empty 0555 root root -",
    ]


def test_parents_of_users_folders_are_closed_if_root_creates_the_folders(node: Node) -> None:
    folders = ["/var/lib/enroot", "/var/lib/enroot/data", "/var/lib/enroot/tmp", "/var/lib/enroot/images"]
    settings = {
        "ENROOT_RUNTIME_PATH": "/run/enroot/user-$(id -u)",
        "ENROOT_DATA_PATH": "/var/lib/enroot/data/user-$(id -u)",
        "ENROOT_TEMP_PATH": "/var/lib/enroot/tmp",
    }
    set_up(node, settings=settings, local_folders=folders, cache_path=folders[-1], root_makes_folders=True)
    lines = (node.text("/etc/tmpfiles.d/hpcai-containers.conf") or "").splitlines()[1:]
    assert [line.split()[1:3] for line in lines] == [
        ["/run/enroot", "0755"],
        ["/var/lib/enroot", "0755"],
        ["/var/lib/enroot/data", "0755"],
        ["/var/lib/enroot/tmp", "1777"],
        ["/var/lib/enroot/images", "0755"],
        ["/run/enroot/empty", "0555"],
    ]


def test_enroot_sees_an_empty_folder_if_the_users_folder_is_missing(node: Node, tmp_path: Path) -> None:
    """pyxis lists containers in the epilog even if the prolog never ran, and a failure would drain the node."""
    parent = tmp_path / "data"
    parent.mkdir()
    user = f"{parent}/user-$(id -u)"
    set_up(node, settings={"ENROOT_DATA_PATH": user, "ENROOT_TEMP_PATH": "/tmp"}, root_makes_folders=True)
    lines = (node.text("/etc/enroot/enroot.conf.d/50-hpcai.conf") or "").splitlines()[1:]
    found = dict(line.split(" ", 1) for line in lines)
    # As enroot evaluates a value: config::load of enroot 4.1.2.
    evaluate = ["bash", "-euc", 'eval echo "$1"', "enroot", found["ENROOT_DATA_PATH"]]
    assert subprocess.check_output(evaluate, text=True) == "/run/enroot/empty\n"
    (parent / f"user-{os.getuid()}").mkdir()
    assert subprocess.check_output(evaluate, text=True) == f"{parent}/user-{os.getuid()}\n"
    assert found["ENROOT_TEMP_PATH"] == "/tmp"


@pytest.mark.parametrize("other", ["link", "folder"])
def test_enroot_does_not_use_a_folder_that_another_user_made(node: Node, tmp_path: Path, other: str) -> None:
    """Where users make their folders, anybody can make the folder of a user who has none yet."""
    parent = tmp_path / "data"
    parent.mkdir()
    path = parent / f"user-{os.getuid()}"
    set_up(node, settings={"ENROOT_DATA_PATH": f"{parent}/user-$(id -u)"})
    lines = (node.text("/etc/enroot/enroot.conf.d/50-hpcai.conf") or "").splitlines()[1:]
    value = lines[0].split(" ", 1)[1]
    evaluate = ["bash", "-euo", "pipefail", "-c", 'eval echo "$1"', "enroot", value]
    assert subprocess.check_output(evaluate, text=True, stderr=subprocess.STDOUT) == f"{path}\n"
    assert path.stat().st_mode & 0o777 == 0o700
    assert subprocess.check_output(evaluate, text=True, stderr=subprocess.STDOUT) == f"{path}\n"
    path.rmdir()
    if other == "link":
        path.symlink_to(tmp_path)
    else:
        if os.getuid():
            # chown needs root; the case with a link runs for every user.
            pytest.skip("only root can give a folder to another user")
        path.mkdir(0o777)
        os.chown(path, 12345, 12345)
    assert subprocess.check_output(evaluate, text=True, stderr=subprocess.STDOUT) == "/run/enroot/empty\n"


def test_only_kernel_settings_that_are_not_active_yet_are_set(node: Node) -> None:
    node.write("/proc/sys/kernel/unprivileged_userns_clone", "0\n")
    node.write("/proc/sys/user/max_user_namespaces", "63000\n")
    sysctl = {
        "kernel.unprivileged_userns_clone": 1,
        "user.max_user_namespaces": 16384,
        "kernel.apparmor_restrict_unprivileged_userns": 0,
    }
    assert not [action for action in set_up(node, apply=False, sysctl=sysctl) if action.startswith(("set", "make"))]
    assert node.text("/proc/sys/kernel/unprivileged_userns_clone") == "0"
    assert [action for action in set_up(node, sysctl=sysctl) if action.startswith("set")] == [
        "set kernel.unprivileged_userns_clone = 1"
    ]
    assert node.text("/proc/sys/kernel/unprivileged_userns_clone") == "1"
    # The dash: a kernel without this setting boots without an error.
    assert "-user.max_user_namespaces = 16384" in (node.text("/etc/sysctl.d/60-hpcai-containers.conf") or "")


def test_the_apparmor_profile_can_be_disabled_and_enabled(node: Node) -> None:
    node.write("/etc/apparmor.d/enroot", "abi <abi/4.0>,")
    link = Path(node.root.at("/etc/apparmor.d/disable/enroot"))
    set_up(node, apparmor="off")
    assert os.readlink(link) == "/etc/apparmor.d/enroot"
    set_up(node, apparmor="profile")
    assert not link.is_symlink()


def test_the_importer_is_executable_and_the_options_are_saved(node: Node) -> None:
    set_up(node, cache_path="/scratch/enroot/images", settings={"ENROOT_DATA_PATH": DATA})
    assert os.access(node.root.at("/usr/libexec/hpcai/pyxis-importer"), os.X_OK)
    options = read_options(node.root)
    assert options
    assert (options.cache_path, options.data_folder) == ("/scratch/enroot/images", "/scratch/enroot/data")
