# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How many disks the scratch is to have: what the settings say, else what the VM size has."""

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
    """How many local NVMe disks there must be.

    :ivar count: the number.
    :ivar origin: what says so, as words of a sentence.
    """

    count: int
    origin: str


def stated_count(
    options: ScratchOptions, nvme_count: int | None = None, origin: str = "the VM size"
) -> DiskCount | None:
    """Return the number by ``expected_count``, else ``devices``, else the VM size; None where none of them says. Pure.

    :param nvme_count: the VM size's number; None where it is not known.
    :param origin: what says that one.
    """
    if options.expected_count is not None:
        return DiskCount(options.expected_count, "expected_count")
    if options.devices:
        return DiskCount(len(options.devices), "devices")
    return None if nvme_count is None else DiskCount(nvme_count, origin)


def expected_disks(
    options: ScratchOptions, root: Root, nvme_count: int | None = None, ask: AskImds | None = None
) -> DiskCount:
    """Return how many disks the scratch is to have.

    Where neither the options nor ``nvme_count`` say, the facts of the VM size do.

    :param nvme_count: the VM size's number, where the caller knows it already.
    :raises UnknownVmSize: the size is neither in the table nor described.
    :raises ConfigError: nothing says which size it is.
    """
    stated = stated_count(options, nvme_count)
    if stated:
        return stated
    size, _name = size_facts(root, ask=ask)
    if size.nvme_count is None:
        # Who describes a size for Slurm need not know its disks.
        origin = f"as many as there are: hpcai_vm_sizes leaves nvme_count of {size.name} out"
        return DiskCount(count_selected(options, root), origin)
    return DiskCount(size.nvme_count, f"VM size {size.name}")


def with_count(options: ScratchOptions, disks: DiskCount) -> ScratchOptions:
    """Return the options with this number of disks as the expected one."""
    return dataclasses.replace(options, expected_count=disks.count)


def wait_for_disks(options: ScratchOptions, root: Root, run: Run, seconds: float) -> None:
    """Wait at most so many seconds until as many disks are there as are expected.

    A boot is early: controllers may still be coming up. Too few disks, and an array of ours would look broken.
    """
    run(["udevadm", "settle", f"--timeout={min(_SETTLE_S, max(1, int(seconds)))}"])
    stated = stated_count(options)
    wait_until(lambda: count_selected(options, root) >= (stated.count if stated else 0), seconds)
