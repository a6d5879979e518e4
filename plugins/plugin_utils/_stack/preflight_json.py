# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests with JSON answers: to Resource ResourceManager, where no SDK package is required, and to the price API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from .._azure.clients import Clients
from .._azure.errors import UnreadableAnswer

_MOST_PAGES = 100


class ResourceManager:
    """GET and POST requests to Resource ResourceManager."""

    def __init__(self, clients: Clients) -> None:
        self._client = clients.resource_manager()

    def get(self, path: str, version: str) -> dict[str, Any]:
        """Return the resource at a path."""
        return send(self._client, "GET", self._client.format_url(path), {"api-version": version})

    def post(self, path: str, version: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question that Azure expects as POST."""
        return send(self._client, "POST", self._client.format_url(path), {"api-version": version}, body)

    def list(self, path: str, version: str, **parameters: str) -> list[dict[str, Any]]:
        """Return the items of all pages."""
        url = self._client.format_url(path)
        return all_pages(self._client, url, {"api-version": version, **parameters}, "value", "nextLink")


def all_pages(
    client: Any, url: str, parameters: Mapping[str, str], items_key: str, link_key: str
) -> list[dict[str, Any]]:
    """Return the items of all pages of a list.

    :raises UnreadableAnswer: a page is not one, its next page is on another host, or there are too many.
    """
    items: list[dict[str, Any]] = []
    link: str | None = url
    for _page in range(_MOST_PAGES):
        answer = send(client, "GET", str(link), parameters if link is url else {})
        found = answer.get(items_key)
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise UnreadableAnswer("the answer is not a list, so it may not come from Azure.")
        items += found
        link = answer.get(link_key)
        if not link:
            return items
        if _host(link) != _host(url):
            # A token is for one host only.
            raise UnreadableAnswer(f"its next page is on another host ({urlsplit(link).hostname}).")
    raise UnreadableAnswer(f"it has more than {_MOST_PAGES} pages.")


def _host(url: str) -> tuple[str, str | None, int | None]:
    split = urlsplit(url)
    # Links of the price API contain the default port.
    return split.scheme, split.hostname, split.port or {"https": 443, "http": 80}.get(split.scheme)


def send(client: Any, method: str, url: str, parameters: Mapping[str, str], body: Any = None) -> dict[str, Any]:
    """Return the JSON object that a request returns.

    :param client: a pipeline client of the SDK.
    :raises HttpResponseError: the answer is an error.
    :raises UnreadableAnswer: the answer is not a JSON object.
    """
    from azure.core.rest import HttpRequest

    more = {} if body is None else {"json": body}
    response = client.send_request(HttpRequest(method, url, params=dict(parameters), **more))
    response.raise_for_status()
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UnreadableAnswer("the answer is not a JSON object, so it may not come from Azure.")
    return answer
