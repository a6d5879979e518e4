# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How many disks the scratch must have: the number from the settings, else from the VM size."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ...machine.root import Root
from ...machine.run import Run, wait_until
from ...machine.vm_size import AskImds, size_facts
from .facts import count_selected
from .options import ScratchOptions

_SETTLE_S = 30


@dataclass(frozen=True)
class DiskCount:
    """How many local NVMe disks the node must have.

    :ivar count: the number.
    :ivar origin: where the number comes from, as part of a message.
    :ivar stated: whether that states it; otherwise it is the number of disks that were found.
    """

    count: int
    origin: str
    stated: bool = True


def stated_count(
    options: ScratchOptions, nvme_count: int | None = None, origin: str = "the VM size"
) -> DiskCount | None:
    """Return the number from ``expected_count``, else ``devices``, else the VM size; None if none of them has it. Pure.

    :param nvme_count: the VM size's number; None if it is not known.
    :param origin: where the VM size's number comes from, as part of a message.
    """
    if options.expected_count is not None:
        return DiskCount(options.expected_count, "expected_count")
    if options.devices:
        return DiskCount(len(options.devices), "devices")
    return None if nvme_count is None else DiskCount(nvme_count, origin)


def expected_disks(
    options: ScratchOptions, root: Root, nvme_count: int | None = None, ask: AskImds | None = None
) -> DiskCount:
    """Return how many disks the scratch must have.

    If neither the options nor ``nvme_count`` have the number, it comes from the facts of the VM size.

    :param nvme_count: the VM size's number, if the caller knows it already.
    :raises UnknownVmSize: the size is neither in the table nor described in hpcai_vm_sizes.
    :raises ConfigError: the VM size is not known.
    """
    stated = stated_count(options, nvme_count)
    if stated:
        return stated
    size, _name = size_facts(root, ask=ask)
    if size.nvme_count is None:
        # A size that is described only for Slurm does not need a number of disks.
        origin = f"the disks found, because hpcai_vm_sizes has no nvme_count for {size.name}"
        return DiskCount(count_selected(options, root), origin, stated=False)
    return DiskCount(size.nvme_count, f"VM size {size.name}")


def with_count(options: ScratchOptions, disks: DiskCount) -> ScratchOptions:
    """Return the options with this number of disks as ``expected_count``.

    A number that was only found is not expected, unless it is 0: if disks of our array are missing, all its disks are.
    """
    known = disks.stated or not disks.count
    return dataclasses.replace(options, expected_count=disks.count) if known else options


def wait_for_disks(options: ScratchOptions, root: Root, run: Run, seconds: float) -> None:
    """Wait up to ``seconds`` until the expected number of disks is there.

    Early in a boot, NVMe controllers may still be starting. With too few disks, our array would look broken.
    """
    run(["udevadm", "settle", f"--timeout={min(_SETTLE_S, max(1, int(seconds)))}"])
    stated = stated_count(options)
    wait_until(lambda: count_selected(options, root) >= (stated.count if stated else 0), seconds)
