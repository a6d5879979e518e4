# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Sends a request from a user's process to the grants service."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .protocol import BLOB, LONGEST_ANSWER, READ, REGISTRY, SOCKET, as_line

LIMIT_S = 90.0
"""Longer than the service itself waits for Azure."""
BUSY_S = 30.0
"""How long to retry if the service is busy."""
_PAUSE_S = 1.0
_REUSED_S = 300.0
"""A SAS is reused for azcopies that start within this time. A later one gets a new SAS, with its full lifetime."""


class GrantsError(RuntimeError):
    """The service refused or failed; the message is one line, and contains no secret."""


def ask(
    question: Mapping[str, str],
    path: str = SOCKET,
    busy_s: float = BUSY_S,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Return the answer of the service.

    :param busy_s: how long to retry if the service is busy.
    :raises GrantsError: the service cannot be reached, or refuses.
    """
    deadline = time.monotonic() + busy_s
    while True:
        answer = _ask_once(question, path)
        busy = answer.get("busy")
        if busy is None:
            break
        if time.monotonic() + _PAUSE_S >= deadline:
            raise GrantsError(f"the service hpcai-grants is busy: {busy}")
        sleep(_PAUSE_S)
    if "error" in answer:
        raise GrantsError(str(answer["error"]))
    return answer


def registry_password(registry: str, path: str = SOCKET) -> str:
    """Return a password for a registry. It is a secret.

    :raises GrantsError: the service refuses or fails.
    """
    return str(ask({"ask": REGISTRY, "what": registry}, path).get("password", ""))


@dataclass
class Granted:
    """SAS of this process's user, requested when an azcopy starts.

    :ivar path: the service's socket.
    """

    path: str = SOCKET
    clock: Callable[[], float] = time.monotonic
    _kept: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict, repr=False, compare=False)
    # Several azcopies may start at the same time: one request is enough for all.
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def sas(self, container: str, need: str = READ) -> str:
        """Return a SAS for the container with this URL.

        :param need: one of RIGHTS: no more than azcopy needs, because other users may see its arguments.
        :raises GrantsError: the service refuses or fails.
        """
        with self._lock:
            until, sas = self._kept.get((container, need), (0.0, ""))
            if not sas or self.clock() >= until:
                answer = ask({"ask": BLOB, "what": container, "need": need}, self.path)
                sas = str(answer.get("sas", ""))
                self._kept[container, need] = (self.clock() + min(_REUSED_S, float(answer.get("seconds", 0)) / 10), sas)
            return sas


def _ask_once(question: Mapping[str, str], path: str) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(LIMIT_S)
        try:
            connection.connect(path)
        except OSError as error:
            raise GrantsError(
                f"{path}: {error.strerror}. The service hpcai-grants, which the role hpcai.azure.node_tools installs, "
                "gives users access to Blob storage and registries: see 'systemctl status hpcai-grants.socket'."
            ) from None
        # If the service refused before it read the request, its answer still says why.
        with contextlib.suppress(OSError):
            connection.sendall(as_line(question))
        received = b""
        try:
            while not received.endswith(b"\n") and len(received) <= LONGEST_ANSWER:
                chunk = connection.recv(LONGEST_ANSWER)
                if not chunk:
                    break
                received += chunk
        except OSError as error:
            if not received:
                return {"busy": f"no answer ({error.strerror or 'timed out'})."}
    try:
        answer = json.loads(received)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise GrantsError("the service hpcai-grants ended without an answer: see its journal.")
    return answer
