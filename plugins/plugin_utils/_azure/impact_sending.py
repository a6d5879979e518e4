# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sending reports of hardware faults to Azure, each once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .clients import Clients
from .errors import Asking, InventoryError, UnreadableAnswer, explain, is_gone
from .impacts import API_VERSION, Impact

_ROLE = "the role Azure Impact Reporter"
_NOT_REGISTERED = "MissingSubscriptionRegistration"
_ONBOARDING = (
    "Register the resource provider Microsoft.Impact there, and have the subscription admitted to Guest Health "
    "Reporting by Azure."
)


@dataclass(frozen=True)
class Looked:
    """What Azure has of the reports.

    :ivar known: names of those that it has.
    :ivar new: those that it does not have.
    """

    known: list[str] = field(default_factory=list)
    new: list[Impact] = field(default_factory=list)


def look(clients: Clients, impacts: Iterable[Impact]) -> Looked:
    """Return which reports Azure has already.

    :raises InventoryError: it could not be asked.
    """
    looked = Looked()
    for impact in impacts:
        asking = Asking(f"look for the report {impact.name}", "Microsoft.Impact/workloadImpacts/read", _ROLE)
        try:
            there = _is_there(clients, impact)
        except Exception as error:
            raise InventoryError(_explain(error, asking)) from None
        if there:
            looked.known.append(impact.name)
        else:
            looked.new.append(impact)
    return looked


def send(clients: Clients, impacts: Iterable[Impact]) -> list[str]:
    """Send reports and return their names. One that fails does not keep the others from it.

    :raises InventoryError: it names all that could not be sent.
    """
    sent: list[str] = []
    errors: list[str] = []
    for impact in impacts:
        asking = Asking(f"report {impact.name}", "Microsoft.Impact/workloadImpacts/write", _ROLE)
        try:
            _put(clients, impact)
            sent.append(impact.name)
        except Exception as error:
            errors.append(_explain(error, asking))
    if errors:
        raise InventoryError(" ".join([*errors, f"Sent: {', '.join(sent) or 'none'}."]))
    return sent


def _is_there(clients: Clients, impact: Impact) -> bool:
    from azure.core.exceptions import HttpResponseError

    try:
        return _ask(clients, "GET", impact) == impact.name.lower()
    except HttpResponseError as error:
        if is_gone(error):
            return False
        raise


def _put(clients: Clients, impact: Impact) -> None:
    try:
        if _ask(clients, "PUT", impact, impact.body) != impact.name.lower():
            raise UnreadableAnswer("the answer is of another report.")
    except Exception:
        # Azure takes a name once: the report may have arrived by an attempt whose answer was lost.
        if not _came_anyway(clients, impact):
            raise


def _came_anyway(clients: Clients, impact: Impact) -> bool:
    with contextlib.suppress(Exception):
        return _is_there(clients, impact)
    return False


def _ask(clients: Clients, method: str, impact: Impact, body: Any = None) -> str:
    """Return the name of the report that Azure answers with."""
    from azure.core.rest import HttpRequest

    manager = clients.resource_manager()
    more = {} if body is None else {"json": body}
    url = manager.format_url(impact.path)
    response = manager.send_request(HttpRequest(method, url, params={"api-version": API_VERSION}, **more))
    response.raise_for_status()
    return _named(response)


def _named(response: Any) -> str:
    try:
        return str(response.json()["name"]).lower()
    except (ValueError, LookupError, TypeError):
        raise UnreadableAnswer("the answer is no report, so something else than Azure may have given it.") from None


def _explain(error: BaseException, asking: Asking) -> str:
    words = explain(error, asking)
    code = str(getattr(getattr(error, "error", None), "code", None) or "")
    return f"{words} {_ONBOARDING}" if code in (_NOT_REGISTERED, "InvalidResourceType") else words
