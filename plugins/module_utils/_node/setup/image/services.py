# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Services of the image: the Azure agent, package updates, the clock, and the network."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...machine.root import Root
from ..managed_file import change_of, read_file, with_block, without_block
from .changes import ImageChanges, file_of, present
from .facts import is_azure, is_running

WAAGENT = "/etc/waagent.conf"
MOUNT_POINT = "ResourceDisk.MountPoint"
_OTHER_MOUNT_POINT = "/mnt/resource"


def plan_agent(root: Root, requested: Mapping[str, object], scratch: str) -> ImageChanges:
    """Return the change of the agent's settings, if the agent is installed.

    :param requested: values by key; None to leave the setting unchanged.
    :param scratch: the scratch's mountpoint, over which the agent must not mount its disk.
    """
    text, mode = read_file(root.at(WAAGENT))
    if text is None:
        return ImageChanges(remarks=("the Azure agent is not installed (no /etc/waagent.conf)",))
    values = {key: _agent_text(value) for key, value in requested.items() if value is not None}
    remarks = []
    if _agent_values(text).get(MOUNT_POINT, "").rstrip("/") == scratch.rstrip("/") and MOUNT_POINT not in values:
        values[MOUNT_POINT] = _OTHER_MOUNT_POINT
        remarks.append(f"the agent mounted its temporary disk at {scratch}; this was changed to {_OTHER_MOUNT_POINT}")
    after = with_values(text, values)
    return ImageChanges(files=(change_of(root.at(WAAGENT), after, mode or 0o644),), remarks=tuple(remarks))


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return the text with these values: in place if the key has a line, else at the end."""
    for key, value in values.items():
        pattern = re.compile(rf"^[ \t]*{re.escape(key)}[ \t]*=.*$", re.MULTILINE)
        line = f"{key}={value}"
        if pattern.search(text):
            # If a key has two lines, both get the value, so that it does not matter which line is used.
            text = pattern.sub(lambda _found, line=line: line, text)  # type: ignore[misc]
        else:
            text += ("" if not text or text.endswith("\n") else "\n") + line + "\n"
    return text


def _agent_values(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _equals, value in pairs}


def _agent_text(value: object) -> str:
    if isinstance(value, bool):
        return "y" if value else "n"
    return str(value)


# Automatic package updates: none, or security updates without drivers and kernels.

UPDATES_OFF, UPDATES_SECURITY, UPDATES_LEAVE = "off", "security", "leave"
UPDATE_MODES = (UPDATES_OFF, UPDATES_SECURITY, UPDATES_LEAVE)

APT = "/etc/apt/apt.conf.d/99hpcai-updates"
DNF = "/etc/dnf/automatic.conf"
_MASKED_UPGRADES = "/etc/systemd/system/unattended-upgrades.service"
_HELD_PACKAGES = (
    "linux-",
    "nvidia-",
    "libnvidia-",
    "cuda-",
    "datacenter-gpu-manager",
    "doca-",
    "mlnx-",
    "slurm",
    "munge",
)
"""A driver that changes while jobs run, or a new kernel without a driver, makes the node unusable."""
_DNF_TIMERS = tuple(
    f"/etc/systemd/system/timers.target.wants/{name}.timer"
    for name in ("dnf-automatic", "dnf-automatic-install", "dnf-automatic-download", "dnf-automatic-notifyonly")
)


def plan_updates(root: Root, mode: str) -> ImageChanges:
    """Return the changes that set automatic updates to ``mode``."""
    if root.exists("/etc/apt"):
        return _apt(root, mode)
    if root.exists("/etc/dnf"):
        return _dnf(root, mode)
    return ImageChanges()


def _apt(root: Root, mode: str) -> ImageChanges:
    if mode == UPDATES_OFF and root.link_name(_MASKED_UPGRADES) == "null":
        kept = ("unattended-upgrades is masked already",)
        return ImageChanges(files=(file_of(root, APT, ()),), left_alone=kept)
    on = int(mode == UPDATES_SECURITY)
    lines = [
        # No comment in the file: apt treats // and # as the start of one.
        f'APT::Periodic::Enable "{on}";',
        f'APT::Periodic::Update-Package-Lists "{on}";',
        f'APT::Periodic::Unattended-Upgrade "{on}";',
    ]
    if on:
        # The distribution's 50unattended-upgrades lists the allowed origins: security only.
        lines += [f'Unattended-Upgrade::Package-Blacklist {{ "^{name}"; }};' for name in _HELD_PACKAGES]
        lines += ['Unattended-Upgrade::Automatic-Reboot "false";']
    return ImageChanges(files=(file_of(root, APT, [] if mode == UPDATES_LEAVE else lines),))


def _dnf(root: Root, mode: str) -> ImageChanges:
    if mode == UPDATES_OFF:
        return ImageChanges(unlink=present(root, _DNF_TIMERS))
    text, permissions = read_file(root.at(DNF))
    if mode == UPDATES_LEAVE or text is None:
        return ImageChanges()
    after = _with_dnf_option(text, "upgrade_type", "security")
    remarks = ("dnf-automatic installs only security updates, and only if one of its timers is enabled",)
    return ImageChanges(files=(change_of(root.at(DNF), after, permissions or 0o644),), remarks=remarks)


def _with_dnf_option(text: str, name: str, value: str) -> str:
    pattern = re.compile(rf"^{name}[ \t]*=.*$", re.MULTILINE)
    if pattern.search(text):
        return pattern.sub(f"{name} = {value}", text, count=1)
    head, found, tail = text.partition("[commands]\n")
    return f"{head}[commands]\n{name} = {value}\n{tail}" if found else f"{text}\n[commands]\n{name} = {value}\n"


# Time: chrony uses the clock of the Azure host, which needs no network.

TIME_AUTO, TIME_AZURE, TIME_LEAVE = "auto", "azure", "leave"
TIME_MODES = (TIME_AUTO, TIME_AZURE, TIME_LEAVE)
CHRONY_DEBIAN, CHRONY_EL = "/etc/chrony/chrony.conf", "/etc/chrony.conf"
CHRONY_DROP_IN = "/etc/chrony/conf.d/hpcai-azure.conf"
_CHRONY_BLOCK = "hpcai.azure image"
# https://learn.microsoft.com/azure/virtual-machines/linux/time-sync
CHRONY_LINES = (
    "refclock PHC /dev/ptp_hyperv poll 3 dpoll -2 offset 0 stratum 2",
    "# After a move or a pause, step the clock at once, however long the machine has been up.",
    "makestep 1.0 -1",
)


def plan_clock(root: Root, mode: str) -> ImageChanges:
    """Return chrony's settings.

    :param mode: AUTO sets them only on a running Azure machine. Elsewhere chronyd would not start without the device.
    """
    if mode == TIME_LEAVE:
        return _without_clock(root)
    if mode == TIME_AUTO and not is_azure(root):
        return ImageChanges(
            remarks=(
                "chrony is left unchanged, because this is not a running Azure machine (time: azure sets it anyway)",
            )
        )
    # Also if the package is not installed yet: chrony of Debian and Ubuntu reads this folder.
    main = CHRONY_EL if root.exists(CHRONY_EL) else CHRONY_DEBIAN
    stated = _stated_clock(root, main)
    if stated:
        return ImageChanges(left_alone=(f"chrony has {stated!r}",))
    text, mode_before = read_file(root.at(main))
    if main == CHRONY_DEBIAN and (text is None or _chrony_reads_folder(text)):
        return ImageChanges(files=(file_of(root, CHRONY_DROP_IN, CHRONY_LINES),))
    return ImageChanges(
        files=(change_of(root.at(main), with_block(text or "", _CHRONY_BLOCK, CHRONY_LINES), mode_before or 0o644),)
    )


def _without_clock(root: Root) -> ImageChanges:
    files = [file_of(root, CHRONY_DROP_IN, ())]
    for path in (CHRONY_DEBIAN, CHRONY_EL):
        text, mode = read_file(root.at(path))
        if text is not None:
            files.append(change_of(root.at(path), without_block(text, _CHRONY_BLOCK), mode or 0o644))
    return ImageChanges(files=tuple(files))


def _chrony_reads_folder(text: str) -> bool:
    return any(line.split() == ["confdir", "/etc/chrony/conf.d"] for line in text.splitlines())


def _stated_clock(root: Root, main: str) -> str | None:
    folder = "/etc/chrony/conf.d"
    paths = [main, *(f"{folder}/{name}" for name in root.entries(folder))]
    for path in paths:
        text = root.text(path) or ""
        if path == CHRONY_DROP_IN or f"# BEGIN {_CHRONY_BLOCK}" in text:
            continue
        for line in text.splitlines():
            if line.split()[:2] == ["refclock", "PHC"]:
                return line.strip()
    return None


# Network: remove rules with another machine's card names, and report whether this one's card is accelerated.

_NET_RULES = (
    "/etc/udev/rules.d/70-persistent-net.rules",
    "/etc/udev/rules.d/75-persistent-net-generator.rules",
    "/etc/udev/rules.d/z25_persistent-net.rules",
)
_SYNTHETIC_DRIVER = "hv_netvsc"
_ACCELERATED_DRIVERS = ("mlx4_core", "mlx5_core", "mana")
"""Drivers of the functions that Azure adds for accelerated networking; the synthetic card is their master."""


def plan_network(root: Root) -> ImageChanges:
    """Return which old rules are removed, and what was found about accelerated networking."""
    return ImageChanges(unlink=present(root, _NET_RULES), remarks=_accelerated(root))


def _accelerated(root: Root) -> tuple[str, ...]:
    if not is_running(root):
        return ()
    folder = "/sys/class/net"
    drivers = {name: root.link_name(f"{folder}/{name}/device/driver") for name in root.entries(folder)}
    masters = {name: root.link_name(f"{folder}/{name}/master") for name in drivers}
    remarks = []
    for card in sorted(name for name, driver in drivers.items() if driver == _SYNTHETIC_DRIVER):
        below = [name for name, master in masters.items() if master == card and drivers[name] in _ACCELERATED_DRIVERS]
        if below:
            functions = ", ".join(f"{name} ({drivers[name]})" for name in sorted(below))
            remarks.append(f"accelerated networking: {card} uses {functions}")
        else:
            remarks.append(
                f"no accelerated networking: {card} has no mlx5 or MANA function. If the VM size supports it, enable "
                "it on the network interface in Azure"
            )
    return tuple(remarks)
