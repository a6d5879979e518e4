# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the commands of the controller's services share: only one runs, and each line is printed at once."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator

from ..machine.lock import Locked, only_one
from ..machine.root import Root
from ..machine.run import CommandFailed
from .command import GOOD, Answer


@contextlib.contextmanager
def alone(root: Root, lock: str, what: str, unit: str) -> Iterator[None]:
    """Prevent a second process of a service from running at the same time.

    :param lock: path of the lock file.
    :param what: what runs, for the error.
    :param unit: the service's systemd unit, for the error.
    :raises CommandFailed: another process has the lock.
    """
    try:
        with only_one(root.at(lock), 0):
            yield
    except Locked as error:
        raise CommandFailed(f"{error} Another {what} is running: 'systemctl status {unit}'") from error


def print_lines(lines: Iterable[str]) -> Answer:
    """Print each line when it comes, and return an answer without text."""
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return Answer(GOOD, "")
