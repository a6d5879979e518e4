# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How many disks the scratch is to have: what the settings say, else what the VM size promises."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ...machine.config import ConfigError, read_config
from ...machine.root import Root
from ...machine.run import Run, wait_until
from ...machine.vm_size import AskImds, size_facts
from .ensure import SETTINGS
from .facts import count_selected
from .wanted import OptionError, Wanted, parse

_SETTLE_S = 30


@dataclass(frozen=True)
class Promise:
    """How many local NVMe disks there must be.

    :ivar count: the number.
    :ivar origin: who says so, as words of a sentence.
    """

    count: int
    origin: str


def read_wanted(root: Root) -> Wanted | None:
    """Return the settings for the boot; None where there are none.

    :raises ConfigError: they cannot be used.
    """
    settings = read_config(root, "scratch")
    if settings is None:
        return None
    try:
        return parse(settings)
    except (OptionError, TypeError, AttributeError) as error:
        raise ConfigError(f"{root.at(SETTINGS)}: {error}") from error


def promised(wanted: Wanted, root: Root, nvme_count: int | None = None, ask: AskImds | None = None) -> Promise:
    """Return how many disks the scratch is to have.

    The first of these that says something: ``expected_count``, ``devices``, ``nvme_count``, the facts of the VM size.

    :param nvme_count: the VM size's number, where somebody knows it already.
    :raises UnknownVmSize: the size is neither in the table nor described.
    :raises ConfigError: nobody says which size it is.
    """
    if wanted.expected_count is not None:
        return Promise(wanted.expected_count, "expected_count")
    if wanted.devices:
        return Promise(len(wanted.devices), "devices")
    if nvme_count is not None:
        return Promise(nvme_count, "the VM size")
    size, _name = size_facts(root, ask=ask)
    if size.nvme_count is None:
        # Who describes a size for Slurm need not know its disks.
        origin = f"as many as there are: hpcai_vm_sizes leaves nvme_count of {size.name} out"
        return Promise(count_selected(wanted, root), origin)
    return Promise(size.nvme_count, f"VM size {size.name}")


def held_to(wanted: Wanted, promise: Promise) -> Wanted:
    """Return the options with the promised number of disks as the expected one."""
    return dataclasses.replace(wanted, expected_count=promise.count)


def wait_for_disks(wanted: Wanted, root: Root, run: Run, seconds: float) -> None:
    """Wait at most so many seconds until as many disks are there as are expected.

    A boot is early: controllers may still be coming up. Too few disks, and an array of ours would look broken.
    """
    run(["udevadm", "settle", f"--timeout={min(_SETTLE_S, max(1, int(seconds)))}"])
    expected = len(wanted.devices) if wanted.expected_count is None else wanted.expected_count
    wait_until(lambda: count_selected(wanted, root) >= expected, seconds)
