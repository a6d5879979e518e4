# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Who updates packages behind the administrator's back: nobody, or security alone, without drivers and kernels."""

from __future__ import annotations

import re

from ...machine.root import Root
from ..managed_file import change_of, read_file
from .part import Part, own_file, present

OFF, SECURITY, LEAVE = "off", "security", "leave"
MODES = (OFF, SECURITY, LEAVE)

APT = "/etc/apt/apt.conf.d/99hpcai-updates"
DNF = "/etc/dnf/automatic.conf"
_MASKED = "/etc/systemd/system/unattended-upgrades.service"
_HELD = ("linux-", "nvidia-", "libnvidia-", "cuda-", "datacenter-gpu-manager", "doca-", "mlnx-", "slurm", "munge")
"""A driver that changes under running jobs, or a kernel without one, costs the node."""
_TIMERS = tuple(
    f"/etc/systemd/system/timers.target.wants/{name}.timer"
    for name in ("dnf-automatic", "dnf-automatic-install", "dnf-automatic-download", "dnf-automatic-notifyonly")
)


def plan(root: Root, mode: str) -> Part:
    """Return what makes updates come as ``mode`` says."""
    if root.exists("/etc/apt"):
        return _apt(root, mode)
    if root.exists("/etc/dnf"):
        return _dnf(root, mode)
    return Part()


def _apt(root: Root, mode: str) -> Part:
    if mode == OFF and root.link_name(_MASKED) == "null":
        kept = ("unattended-upgrades is masked already",)
        return Part(files=(own_file(root, APT, ()),), left_alone=kept)
    on = int(mode == SECURITY)
    lines = [
        # apt takes // for a comment, and # too.
        f'APT::Periodic::Enable "{on}";',
        f'APT::Periodic::Update-Package-Lists "{on}";',
        f'APT::Periodic::Unattended-Upgrade "{on}";',
    ]
    if on:
        # Which origins count stands in the distribution's 50unattended-upgrades: security alone.
        lines += [f'Unattended-Upgrade::Package-Blacklist {{ "^{name}"; }};' for name in _HELD]
        lines += ['Unattended-Upgrade::Automatic-Reboot "false";']
    return Part(files=(own_file(root, APT, [] if mode == LEAVE else lines),))


def _dnf(root: Root, mode: str) -> Part:
    if mode == OFF:
        return Part(unlink=present(root, _TIMERS))
    text, permissions = read_file(root.at(DNF))
    if mode == LEAVE or text is None:
        return Part()
    after = _with_option(text, "upgrade_type", "security")
    remarks = ("dnf-automatic installs security updates only, as far as one of its timers is enabled",)
    return Part(files=(change_of(root.at(DNF), after, permissions or 0o644),), remarks=remarks)


def _with_option(text: str, name: str, value: str) -> str:
    pattern = re.compile(rf"^{name}[ \t]*=.*$", re.MULTILINE)
    if pattern.search(text):
        return pattern.sub(f"{name} = {value}", text, count=1)
    head, found, tail = text.partition("[commands]\n")
    return f"{head}[commands]\n{name} = {value}\n{tail}" if found else f"{text}\n[commands]\n{name} = {value}\n"
