# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The root service: queries this machine's events, and starts an event when the machine's only user is ready."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Callable

from ...machine import imds
from ...machine.imds import ScheduledEvent, events_of
from ...machine.owners import read_owned, users_of_live_jobs
from ...machine.root import Root
from .exchange import FOLDER, READY, write_events

_ANSWER_S = 1.5
"""Less than the interval between two queries."""
_LONGEST = 200
"""Azure's ids of events have 36 characters."""
_CREDENTIALS = struct.Struct("3i")
"""The sender's pid, uid and gid, which the kernel adds (unix(7))."""


class Service:
    """One machine's service.

    :param headers: further headers for the metadata service; for the simulator, one that names the instance.
    :param jobs: returns the live jobs of this machine with the ids of the users who have processes in them.
    :param notice: gets the events after each query, and returns a line for the log; usually empty.
    """

    def __init__(
        self,
        root: Root,
        endpoint: str = imds.ENDPOINT,
        headers: Mapping[str, str] | None = None,
        jobs: Callable[[], Mapping[int, Collection[int]]] | None = None,
        notice: Callable[[Sequence[ScheduledEvent]], str] | None = None,
    ) -> None:
        self._notice = notice
        self._root, self._endpoint, self._headers = root, endpoint, headers
        self._read_jobs = jobs or (lambda: users_of_live_jobs(read_owned(root)))
        self._name = ""
        self._events: Sequence[ScheduledEvent] = ()
        self._started: set[str] = set()
        self._jobs: Mapping[int, Collection[int]] | None = None
        self._answered: set[tuple[str, int]] = set()
        self._logged: dict[tuple[str, int], str] = {}

    def look(self) -> None:
        """Query once, and write the result.

        :raises OSError: the file cannot be written.
        """
        self._jobs, problem = None, ""
        self._answered.clear()
        try:
            if not self._name:
                self._name = str(imds.read_compute(_ANSWER_S, self._endpoint, self._headers).get("name") or "")
                if not self._name:
                    raise imds.ImdsError("the metadata service does not return this machine's name.")
            document = imds.read_events(_ANSWER_S, self._endpoint, self._headers)
            self._events = events_of(document, self._name)
            ids = {event.id for event in self._events}
            self._logged = {about: words for about, words in self._logged.items() if about[0] in ids}
        except imds.ImdsError as error:
            problem = str(error)
        write_events(self._root, self._name, () if problem else self._events, problem)
        # After the file, because the watchers of the jobs have only seconds.
        line = self._notice(self._events) if self._notice and not problem else ""
        if line:
            sys.stderr.write(f"hpcnode events: {line}\n")

    def accept_ready(self, event_id: str, uid: int) -> str:
        """Start an event for a user if no other user has a job here; return why not, or an empty text if started."""
        event = next((one for one in self._events if one.id == event_id), None)
        if event is None or event.not_before is None or event_id in self._started:
            return "it is not waiting to start"
        if not event.is_for_one:
            return "it affects other machines too"
        # A job in which this user has no process is somebody else's, even if only root's processes are there: between
        # two steps of a job, each node but the first has only its extern step.
        others = [job for job, users in self._jobs_here().items() if uid not in users]
        if uid != 0 and (others or not self._jobs_here()):
            return "other users have jobs on this node" if others else "this user has no job on this node"
        try:
            imds.start_event(event_id, _ANSWER_S, self._endpoint, self._headers)
        except imds.ImdsError as error:
            return str(error)
        self._started.add(event_id)
        return ""

    def start_unused(self, ids: Collection[str]) -> str:
        """Start one of these events if no job is live here any more, and return a line for the log; usually empty.

        Azure then needs not wait until its time. An event of several machines is left alone: others may not be ready.
        """
        for event in self._events:
            if event.id in ids and not self._jobs_here() and not self.accept_ready(event.id, 0):
                return f"event {event.id} started: no job is left on this node"
        return ""

    def _jobs_here(self) -> Mapping[int, Collection[int]]:
        """Return the live jobs as of the last look: users decide how many messages and processes there are."""
        if self._jobs is None:
            self._jobs = self._read_jobs()
        return self._jobs

    def serve(self, every_s: float, ended: Callable[[], bool]) -> None:
        """Query events and read messages until ``ended`` returns true.

        :raises OSError: the file or the socket cannot be created.
        """
        with _listening(self._root) as listener:
            while not ended():
                began = time.monotonic()
                self.look()
                while select.select([listener], [], [], max(0.0, began + every_s - time.monotonic()))[0]:
                    self._take(listener)
                    if time.monotonic() >= began + every_s:
                        break

    def _take(self, listener: socket.socket) -> None:
        try:
            message, extra, _flags, _address = listener.recvmsg(_LONGEST, socket.CMSG_SPACE(_CREDENTIALS.size))
        except BlockingIOError:
            return
        uid = next((_CREDENTIALS.unpack(data)[1] for _level, kind, data in extra if kind == _SCM_CREDENTIALS), -1)
        event_id = message.decode("ascii", "replace")
        # A message is logged only if it is the id of an event: it could contain anything. Each user gets one answer per
        # event and look, because an answer may need a request to Azure.
        about = (event_id, uid)
        if uid < 0 or about in self._answered or not any(event.id == event_id for event in self._events):
            return
        self._answered.add(about)
        why = self.accept_ready(event_id, uid)
        words = f"not started for user {uid}: {why}" if why else f"started for user {uid}"
        # A watcher repeats its message until the event starts.
        if words != self._logged.get(about):
            self._logged[about] = words
            sys.stderr.write(f"hpcnode events: event {event_id} {words}\n")


_SCM_CREDENTIALS = getattr(socket, "SCM_CREDENTIALS", 2)
_SO_PASSCRED = getattr(socket, "SO_PASSCRED", 16)


@contextlib.contextmanager
def _listening(root: Root) -> Iterator[socket.socket]:
    path = root.at(READY)
    os.makedirs(root.at(FOLDER), mode=0o755, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listener:
        listener.setsockopt(socket.SOL_SOCKET, _SO_PASSCRED, 1)
        listener.bind(path)
        os.chmod(path, 0o666)
        yield listener
