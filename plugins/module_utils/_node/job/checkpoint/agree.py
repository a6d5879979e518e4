# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which checkpoint the nodes of a job restore: node 0 chooses, the others are told, through the store.

Each would find the newest by itself, but not each the same: one may look before something is published or pruned, and
another after. The choice is kept under what one call of srun has alone, so that it is never an earlier one's. Within
that call it is made once: of two restores in one srun, a node in its first and another in its second come to the same.
"""

from __future__ import annotations

import json
from typing import Callable

from ...machine.run import CommandFailed, wait_until
from .member import Member
from .names import CHOICES, Id, id_of
from .store import Store, read_texts, write_text

_PAUSE_S = 2.0


def agree(
    store: Store, member: Member, choose: Callable[[], Id | None], wait_s: float, pause_s: float = _PAUSE_S
) -> Id | None:
    """Return what node 0 has chosen; None where there is nothing to restore.

    :raises CommandFailed: node 0 has not chosen in time.
    """
    name = f"{member.call}.json"
    told: list[Id | None] = []
    if member.rank == 0:
        if _told(store, name, told):
            return told[0]
        chosen = choose()
        write_text(store, f"{CHOICES}{name}", json.dumps({"schema": 1, "id": chosen.text if chosen else None}) + "\n")
        return chosen
    if not wait_until(lambda: _told(store, name, told), wait_s, pause_s):
        raise CommandFailed(
            f"node 0 has not said within {wait_s:g} s which checkpoint is restored: call it on all nodes by one srun, "
            "or name one (--id)."
        )
    return told[0]


def _told(store: Store, name: str, told: list[Id | None]) -> bool:
    """Whether node 0 has chosen; what, is put into ``told``."""
    if not any(blob.name == f"{CHOICES}{name}" for blob in store.list(CHOICES)):
        return False
    try:
        given = json.loads(read_texts(store, CHOICES, [name])[name])["id"]
    except (ValueError, LookupError, TypeError):
        return False
    id_ = id_of(given) if isinstance(given, str) else None
    if id_ is None and given is not None:
        return False
    told.append(id_)
    return True
