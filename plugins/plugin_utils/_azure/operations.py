# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Long-running operations: all are begun, then all are waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .errors import Asking, InventoryError, explain


class Begin(NamedTuple):
    """An operation that is to be begun.

    :ivar asking: what it does, for an error.
    :ivar begin: begins it, and returns the SDK's poller.
    """

    asking: Asking
    begin: Callable[[], Any]


def finish(operations: Iterable[Begin]) -> None:
    """Begin the operations and wait until they have ended. One that fails does not keep the others from it.

    :raises InventoryError: it names all that failed.
    """
    started: list[tuple[Asking, Any]] = []
    errors: list[str] = []
    for operation in operations:
        try:
            started.append((operation.asking, operation.begin()))
        except Exception as error:
            errors.append(explain(error, operation.asking))
    for asking, poller in started:
        try:
            poller.result()
        except Exception as error:
            errors.append(explain(error, asking))
    if errors:
        raise InventoryError(" ".join(errors))
