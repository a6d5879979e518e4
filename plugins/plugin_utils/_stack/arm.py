# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to Azure Resource Manager about resources of any type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from .._azure.clients import Clients
from .._azure.concurrency import Deadline, Job, WorkQueue
from .._azure.errors import Asking, InventoryError, UnreadableAnswer, explain
from .resource import EXPAND, label_of, url_of

_AT_ONCE = 8
"""Reads at the same time; Azure allows thousands of reads in a minute, and each takes about 0.2 seconds."""
_POLL_S = 5


class Refused(InventoryError):
    """A resource could not be made, changed or deleted.

    :ivar code: Azure's error code; empty if Azure gave none.
    """

    def __init__(self, words: str, error: BaseException) -> None:
        super().__init__(words)
        self.code = _code(error)


class Arm:
    """Reads, changes and deletes resources by their ids.

    :ivar reads: number of reads so far, without polls.
    :ivar writes: number of requests so far that change something.
    """

    def __init__(self, clients: Clients, deadline: Deadline) -> None:
        self.clients = clients
        self.deadline = deadline
        self.reads = 0
        self.writes = 0

    def read(self, wanted: Iterable[tuple[str, str]], *, if_allowed: bool = False) -> dict[str, dict[str, Any] | None]:
        """Read resources, several at a time.

        :param wanted: ids and types.
        :param if_allowed: a resource that the identity may not read is like one that does not exist.
        :returns: the answers by lower-case id; None for a resource that does not exist.
        :raises InventoryError: some could not be read. The message names all reasons.
        """
        found: dict[str, dict[str, Any] | None] = {}
        errors: list[str] = []
        queue = WorkQueue(_AT_ONCE, self.deadline)
        # Created here, because creating a client is not safe for threads.
        self.clients.resource_manager()
        try:
            for resource_id, kind in wanted:
                queue.add(self._job(resource_id, kind, found, errors, if_allowed))
            queue.drain()
        finally:
            queue.close()
        if errors:
            raise InventoryError(" ".join(sorted(set(errors))))
        return found

    def get(self, resource_id: str, kind: str, *, if_allowed: bool = False) -> dict[str, Any] | None:
        """Read one resource; None if it does not exist, or with ``if_allowed``, if the identity may not read it."""
        return self.read([(resource_id, kind)], if_allowed=if_allowed)[resource_id.lower()]

    def read_list(self, path: str, what: str, permission: str) -> list[dict[str, Any]]:
        """Read all pages of a list.

        :param path: path and query.
        :param what: what it is, for errors.
        """
        asking = Asking(f"list {what}", permission)
        items: list[dict[str, Any]] = []
        url = self.clients.resource_manager().format_url(path)
        host = urlsplit(url).hostname
        followed: set[str] = set()
        while url:
            followed.add(url)
            self.reads += 1
            try:
                answer = self._json(self._send("GET", url))
            except Exception as error:
                raise InventoryError(explain(error, asking)) from None
            if not isinstance(answer.get("value"), list):
                raise InventoryError(explain(UnreadableAnswer("the answer is not a list."), asking))
            items += answer["value"]
            url = answer.get("nextLink") or ""
            # The token is sent there.
            if url in followed or (url and not (self.clients.may_read(url) and urlsplit(url).hostname == host)):
                raise InventoryError(explain(UnreadableAnswer("its pages form a loop or leave Azure."), asking))
        return items

    def begin(
        self, method: str, resource_id: str, kind: str, body: Mapping[str, Any] | None = None
    ) -> Callable[[], None]:
        """Start to make, change or delete a resource. Returns a function that waits until Azure is done.

        :param method: PUT, PATCH, DELETE, or POST for an action.
        :raises Refused: it failed; the function raises it too.
        """
        action = {"DELETE": "delete", "POST": "action"}.get(method, "write")
        asking = Asking(f"{_VERBS[method]} {label_of(resource_id)}", f"{kind}/{action}")
        self.writes += 1
        try:
            poller = self._begin(method, url_of(resource_id, kind), body)
        except Exception as error:
            if method == "DELETE" and does_not_exist(error):
                return lambda: None
            raise Refused(explain(error, asking), error) from None

        def wait() -> None:
            try:
                while not poller.done():
                    poller.wait(self.deadline.remaining() or 0.001)
                    if self.deadline.remaining() <= 0 and not poller.done():
                        raise InventoryError(
                            f"Azure is still working on it after the {self.deadline.seconds:g} seconds of `timeout`."
                        )
                poller.result()
            except Exception as error:
                raise Refused(explain(error, asking), error) from None

        return wait

    def _job(
        self,
        resource_id: str,
        kind: str,
        found: dict[str, dict[str, Any] | None],
        errors: list[str],
        if_allowed: bool,
    ) -> Job:
        asking = Asking(f"read {label_of(resource_id)}", f"{kind}/read")

        def work() -> dict[str, Any] | None:
            url = url_of(resource_id, kind) + (f"&$expand={EXPAND[kind]}" if kind in EXPAND else "")
            try:
                return self._json(self._send("GET", self.clients.resource_manager().format_url(url)))
            except Exception as error:
                if does_not_exist(error) or (if_allowed and getattr(error, "status_code", None) == 403):
                    return None
                raise

        def done(answer: dict[str, Any] | None) -> None:
            found[resource_id.lower()] = answer

        self.reads += 1
        return Job(asking, work, done, lambda error: errors.append(explain(error, asking)))

    def _send(self, method: str, url: str) -> Any:
        from azure.core.rest import HttpRequest

        response = self.clients.resource_manager().send_request(HttpRequest(method, url))
        response.raise_for_status()
        return response

    def _json(self, response: Any) -> dict[str, Any]:
        try:
            answer = response.json()
        except ValueError:
            raise UnreadableAnswer("the answer is not JSON, so it may not come from Azure.") from None
        if not isinstance(answer, dict):
            raise UnreadableAnswer("the answer is not a resource, so it may not come from Azure.")
        return answer

    def _begin(self, method: str, url: str, body: Mapping[str, Any] | None) -> Any:
        from azure.core.exceptions import HttpResponseError
        from azure.core.polling import LROPoller
        from azure.core.rest import HttpRequest
        from azure.mgmt.core.polling.arm_polling import ARMPolling

        client = self.clients.resource_manager()
        request = HttpRequest(method, client.format_url(url), json=body)
        # The poller needs the answer of the pipeline, not only the response.
        answer = client._pipeline.run(request, stream=False)
        if answer.http_response.status_code >= 400:
            raise HttpResponseError(response=answer.http_response)
        return LROPoller(client, answer, lambda result: result, ARMPolling(_POLL_S))


_VERBS = {"PUT": "make", "PATCH": "change", "DELETE": "delete", "POST": "finish"}


def _code(error: BaseException) -> str:
    return str(getattr(getattr(error, "error", None), "code", None) or "")


def does_not_exist(error: BaseException) -> bool:
    """Say whether Azure itself answered that the resource does not exist; a proxy's 404 has no code of Azure."""
    code = _code(error).lower()
    # Roles answer with RoleDefinitionDoesNotExist.
    return getattr(error, "status_code", None) == 404 and code.endswith(("notfound", "doesnotexist"))
