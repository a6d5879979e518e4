# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings of the recovery, in /etc/hpcai/recovery.json on the controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..forms import instance_of, list_of, matching, number
from ..job.recovery import Limits
from ..machine.config import FOLDER, read_checked
from ..machine.root import Root
from .suspects import SlowChecks

CONFIG = "recovery"
FILE = f"{FOLDER}/{CONFIG}.json"


@dataclass(frozen=True)
class Settings:
    """The content of the file.

    :ivar partitions: all batch jobs of these partitions are recovered; in others only jobs that ask.
    :ivar interval_s: seconds between two passes.
    :ivar limits: how often and how soon a job is started again.
    :ivar slow: limits of the deep checks of nodes that trainings found slow.
    """

    partitions: Sequence[str] = field(default_factory=tuple)
    interval_s: float = 10.0
    limits: Limits = field(default_factory=Limits)
    slow: SlowChecks = field(default_factory=SlowChecks)


_COUNT = number(0, 1000, integral=True)
_SECONDS = number(0, 86400, integral=True)
FORM = instance_of(
    Settings,
    {
        "partitions": list_of(matching(r"[A-Za-z0-9_.-]+", "a partition's name")),
        "interval_s": number(1, 600),
        "limits": instance_of(
            Limits,
            {
                "requeues": _COUNT,
                "without_progress": number(1, 1000, integral=True),
                "first_wait_s": _SECONDS,
                "longest_wait_s": _SECONDS,
            },
            null_is_absent=True,
        ),
        "slow": instance_of(
            SlowChecks,
            {
                "per_user": _COUNT,
                "at_once": number(1, 1000, integral=True),
                "minutes": number(1, 1440, integral=True),
            },
            null_is_absent=True,
        ),
    },
    null_is_absent=True,
)


def read_settings(root: Root) -> Settings | None:
    """Return the settings; None if there is no file, so that no job is recovered here.

    :raises ConfigError: the file is invalid; the message says what to do.
    """
    return read_checked(root, CONFIG, FORM)
