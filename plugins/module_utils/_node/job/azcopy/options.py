# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Defaults for Blob storage, /etc/hpcai/blob.json, written by role blob_staging, and the limits of one azcopy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...forms import absolute_path, choice, instance_of, number, or_empty, string
from ...machine.config import read_checked
from ...machine.root import Root
from .credential import IDENTITY, KINDS

NAME = "blob"
SETTINGS = "/etc/hpcai/blob.json"


@dataclass(frozen=True)
class BlobSettings:
    """Defaults; there is no secret in them.

    :ivar azcopy: the program.
    :ivar credential: one of azcopy.credential.KINDS.
    :ivar client_id: which of the machine's identities; empty where there is but one.
    :ivar account_gbps: what an account may carry, which all nodes of a job share; 0 for no cap.
    :ivar processes: how many azcopies a node runs.
    :ivar connections: how many connections each of these has; 0 leaves it to azcopy.
    :ivar work_folder: where logs and plans are; empty for the folder for temporary files.
    """

    azcopy: str = "azcopy"
    credential: str = IDENTITY
    client_id: str = ""
    account_gbps: float = 0.0
    processes: int = 1
    connections: int = 0
    work_folder: str = ""


FORM = instance_of(
    BlobSettings,
    {
        "azcopy": string,
        "credential": choice(*KINDS),
        "client_id": string,
        "account_gbps": number(),
        "processes": number(1, 64, integral=True),
        "connections": number(integral=True),
        "work_folder": or_empty(absolute_path),
    },
)


def read_settings(root: Root) -> BlobSettings:
    """Return this node's settings; the defaults where there is no file.

    :raises ConfigError: there is one that cannot be used.
    """
    return read_checked(root, NAME, FORM) or BlobSettings()


HEADROOM = 0.92
"""What of an account's limit is planned with: 8 times 2,300 Mbps under 20 Gbps, the figures of Azure's NDv4 guide."""

# A capped download fails where a block is more than a second's worth of the cap (measured with azcopy 10.32.2).
_BLOCK_MIB_PER_MBPS = 0.119
_ROUND_MBPS = 10
_LARGEST_BLOCK_MIB = 8.0
_SMALLEST_BLOCK_MIB = 0.03125
_SMALLEST_CAP_MBPS = 1.0


@dataclass(frozen=True)
class Limits:
    """What one azcopy may take.

    :ivar cap_mbps: megabits a second; 0 for no cap.
    :ivar connections: how many at a time; 0 leaves it to azcopy.
    :ivar total_s: how long it may run.
    :ivar stall_s: how long it may run without any progress: azcopy itself tries again for hours.
    """

    cap_mbps: float = 0.0
    connections: int = 0
    total_s: float = 86400.0
    stall_s: float = 300.0

    @property
    def block_mib(self) -> float:
        """The size of a block that fits under the cap; 0 leaves it to azcopy."""
        return block_mib(self.cap_mbps)


def block_mib(cap_mbps: float) -> float:
    """Return the largest block, a power of two in MiB, that a capped download can do with; 0 where nothing is capped.

    :raises ValueError: the cap is too small for any.
    """
    if cap_mbps <= 0:
        return 0.0
    if cap_mbps < _SMALLEST_CAP_MBPS:
        raise ValueError(
            f"a cap of {cap_mbps:g} Mbps is too small for azcopy: it must be {_SMALLEST_CAP_MBPS:g} at least."
        )
    most = min(cap_mbps * _BLOCK_MIB_PER_MBPS, _LARGEST_BLOCK_MIB)
    return max(_SMALLEST_BLOCK_MIB, 2.0 ** math.floor(math.log2(most)))


def cap_of(asked_mbps: float | None, account_gbps: float, processes: int) -> float:
    """Return the cap in Mbps of each of ``processes`` azcopies; 0 where there is none.

    :param asked_mbps: the caller's own, in place of a share of the account's limit.
    :param account_gbps: 0 where it has none that matters.
    :raises ValueError: it is none, or too small for azcopy.
    """
    for what, given in (("a cap", asked_mbps or 0.0), ("an account's limit", account_gbps)):
        if not 0 <= given < math.inf:
            raise ValueError(f"{what} of {given:g} makes no sense: it is a number from 0 on, and 0 is none.")
    if asked_mbps is None:
        cap_mbps = share_of_account(account_gbps, processes) if account_gbps else 0.0
    else:
        cap_mbps = asked_mbps
    # No block fits under one that is too small, which is better known before anything is listed.
    block_mib(cap_mbps)
    return cap_mbps


def share_of_account(account_gbps: float, processes: int) -> float:
    """Return the cap in Mbps for each of ``processes`` azcopies that share an account's limit.

    Eight under 20 Gbps get 2,300 each: 18,400 together, so that the account does not throttle.

    :raises ValueError: no share is left to cap with.
    """
    if account_gbps <= 0 or processes < 1:
        raise ValueError("an account's limit is more than 0 Gbps, and is shared by one process at least.")
    exact = account_gbps * 1000 * HEADROOM / processes
    share = math.floor(exact / _ROUND_MBPS + 1e-9) * _ROUND_MBPS if exact >= _ROUND_MBPS else math.floor(exact)
    if share < _SMALLEST_CAP_MBPS:
        raise ValueError(
            f"{account_gbps:g} Gbps shared by {processes} processes is less than {_SMALLEST_CAP_MBPS:g} Mbps each: "
            "use fewer."
        )
    return float(share)
