# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Defaults for Blob storage in /etc/hpcai/blob.json, which the role blob_staging writes, and limits of an azcopy."""

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
    """Defaults; they contain no secret.

    :ivar azcopy: the program.
    :ivar credential: one of azcopy.credential.KINDS.
    :ivar client_id: which of the machine's identities; empty if there is only one.
    :ivar account_gbps: the bandwidth limit of the account, which all nodes of a job share; 0 for no cap.
    :ivar processes: how many azcopies a node runs.
    :ivar connections: how many connections each azcopy uses; 0 lets azcopy decide.
    :ivar work_folder: the folder for logs and plans; empty for the folder for temporary files.
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
    """Return this node's settings; the defaults if there is no file.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, NAME, FORM) or BlobSettings()


HEADROOM = 0.92
"""The planned share of an account's limit: 8 times 2,300 Mbps under 20 Gbps, the figures of Azure's NDv4 guide."""

# A capped download fails if a block takes more than one second at the cap (measured with azcopy 10.32.2).
_BLOCK_MIB_PER_MBPS = 0.119
_ROUND_MBPS = 10
_LARGEST_BLOCK_MIB = 8.0
_SMALLEST_BLOCK_MIB = 0.03125
_SMALLEST_CAP_MBPS = 1.0


@dataclass(frozen=True)
class Limits:
    """The limits of one azcopy.

    :ivar cap_mbps: bandwidth in megabits per second; 0 for no cap.
    :ivar connections: how many at a time; 0 lets azcopy decide.
    :ivar total_s: timeout of the run.
    :ivar stall_s: timeout without any progress: azcopy itself retries for hours.
    """

    cap_mbps: float = 0.0
    connections: int = 0
    total_s: float = 86400.0
    stall_s: float = 300.0

    @property
    def block_mib(self) -> float:
        """The block size that works with the cap; 0 lets azcopy decide."""
        return block_mib(self.cap_mbps)


def block_mib(cap_mbps: float) -> float:
    """Return the largest block size, a power of two in MiB, that works with the cap; 0 if there is no cap.

    :raises ValueError: the cap is too small for any block size.
    """
    if cap_mbps <= 0:
        return 0.0
    if cap_mbps < _SMALLEST_CAP_MBPS:
        raise ValueError(
            f"a cap of {cap_mbps:g} Mbps is too small for azcopy: it must be at least {_SMALLEST_CAP_MBPS:g}."
        )
    most = min(cap_mbps * _BLOCK_MIB_PER_MBPS, _LARGEST_BLOCK_MIB)
    return max(_SMALLEST_BLOCK_MIB, 2.0 ** math.floor(math.log2(most)))


def cap_of(asked_mbps: float | None, account_gbps: float, processes: int) -> float:
    """Return the cap in Mbps of each of ``processes`` azcopies; 0 for no cap.

    :param asked_mbps: the caller's cap, which replaces the share of the account's limit.
    :param account_gbps: the account's limit; 0 for no limit.
    :raises ValueError: a value is invalid, or the cap is too small for azcopy.
    """
    for what, given in (("a cap", asked_mbps or 0.0), ("an account's limit", account_gbps)):
        if not 0 <= given < math.inf:
            raise ValueError(f"{what} of {given:g} is invalid: it must be a finite number, 0 (no limit) or more.")
    if asked_mbps is None:
        cap_mbps = share_of_account(account_gbps, processes) if account_gbps else 0.0
    else:
        cap_mbps = asked_mbps
    # Fail before anything is listed if the cap is too small for any block size.
    block_mib(cap_mbps)
    return cap_mbps


def share_of_account(account_gbps: float, processes: int) -> float:
    """Return the cap in Mbps for each of ``processes`` azcopies that share an account's limit.

    Eight azcopies that share 20 Gbps get 2,300 Mbps each, 18,400 together, so that the account does not throttle.

    :raises ValueError: the share is too small, or a value is invalid.
    """
    if account_gbps <= 0 or processes < 1:
        raise ValueError("an account's limit must be more than 0 Gbps, and at least one process must share it.")
    exact = account_gbps * 1000 * HEADROOM / processes
    share = math.floor(exact / _ROUND_MBPS + 1e-9) * _ROUND_MBPS if exact >= _ROUND_MBPS else math.floor(exact)
    if share < _SMALLEST_CAP_MBPS:
        raise ValueError(
            f"{account_gbps:g} Gbps shared by {processes} processes is less than {_SMALLEST_CAP_MBPS:g} Mbps each: "
            "use fewer processes."
        )
    return float(share)
