# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Time: chrony follows the clock of the Azure host, which needs no network."""

from __future__ import annotations

from ...machine.root import Root
from ..managed_block import with_block, without_block
from ..managed_file import change_of, read_file
from .base import is_azure
from .part import Part, own_file

AUTO, AZURE, LEAVE = "auto", "azure", "leave"
MODES = (AUTO, AZURE, LEAVE)
DEBIAN, EL = "/etc/chrony/chrony.conf", "/etc/chrony.conf"
DROP_IN = "/etc/chrony/conf.d/hpcai-azure.conf"
_BLOCK = "hpcai.azure image"
# https://learn.microsoft.com/azure/virtual-machines/linux/time-sync
LINES = (
    "refclock PHC /dev/ptp_hyperv poll 3 dpoll -2 offset 0 stratum 2",
    "# A machine that was moved or paused steps at once, however long it has been up.",
    "makestep 1.0 -1",
)


def plan(root: Root, mode: str) -> Part:
    """Return chrony's settings.

    :param mode: AUTO sets them on a running machine of Azure. Elsewhere chronyd would not start without the device.
    """
    if mode == LEAVE:
        return _taken_back(root)
    if mode == AUTO and not is_azure(root):
        return Part(remarks=("chrony is left as it is: no running machine of Azure (time: azure sets it anyway)",))
    # Before the package is there as well: where it comes from Debian or Ubuntu, it reads this folder.
    main = EL if root.exists(EL) else DEBIAN
    stated = _base(root, main)
    if stated:
        return Part(left_alone=(f"chrony has {stated!r}",))
    text, mode_before = read_file(root.at(main))
    if main == DEBIAN and (text is None or _reads_folder(text)):
        return Part(files=(own_file(root, DROP_IN, LINES),))
    return Part(files=(change_of(root.at(main), with_block(text or "", _BLOCK, LINES), mode_before or 0o644),))


def _taken_back(root: Root) -> Part:
    files = [own_file(root, DROP_IN, ())]
    for path in (DEBIAN, EL):
        text, mode = read_file(root.at(path))
        if text is not None:
            files.append(change_of(root.at(path), without_block(text, _BLOCK), mode or 0o644))
    return Part(files=tuple(files))


def _reads_folder(text: str) -> bool:
    return any(line.split() == ["confdir", "/etc/chrony/conf.d"] for line in text.splitlines())


def _base(root: Root, main: str) -> str | None:
    folder = "/etc/chrony/conf.d"
    paths = [main, *(f"{folder}/{name}" for name in root.entries(folder))]
    for path in paths:
        text = root.text(path) or ""
        if path == DROP_IN or f"# BEGIN {_BLOCK}" in text:
            continue
        for line in text.splitlines():
            if line.split()[:2] == ["refclock", "PHC"]:
                return line.strip()
    return None
