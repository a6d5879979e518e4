# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of the inventory, and what an error of Azure's SDK means to the person who reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# A refused listing repeats the whole resource id and a correlation id; what helps stands in the beginning.
_LONGEST = 300


class InventoryError(Exception):
    """Something that ends a source, or one list of it. Its text is one line for the user."""


class DeadlineExceeded(InventoryError):
    """The time of the whole source is used up."""


class Throttled(InventoryError):
    """Azure refuses to answer for longer than there is time."""


class UnreadableAnswer(InventoryError):
    """Azure, or something between, answered with something that is no list."""


@dataclass(frozen=True)
class Asking:
    """What is being asked of Azure, in words that stand in an error.

    :ivar what: continues "could not ...".
    :ivar permission: the action that the identity needs for it.
    :ivar otherwise: what to do where that permission cannot be had.
    """

    what: str
    permission: str
    otherwise: str = ""


def explain(error: BaseException, asking: Asking) -> str:
    """Return one line that says what failed, why, and what to do."""
    return f"could not {asking.what}: {_reason(error, asking)}"


def is_gone(error: BaseException) -> bool:
    """Say whether Azure answered that the resource itself does not exist."""
    return getattr(error, "status_code", None) == 404 and _code(error).lower() in (
        "resourcenotfound",
        "parentresourcenotfound",
        "notfound",
    )


def throttle_summary(response: Any) -> str:
    """Say which of Azure's budgets is used up, where the answer says so."""
    header = (response.headers.get("x-ms-ratelimit-remaining-resource") or "").strip()
    # "Microsoft.Compute/HighCostGet3Min;0,Microsoft.Compute/HighCostGet30Min;412"
    budgets = [part.strip() for part in header.split(",") if part.strip()]
    empty = [budget.rsplit(";", 1)[0] for budget in budgets if budget.endswith(";0")]
    named = empty or budgets
    return f" (budget used up: {', '.join(named)})" if named else ""


def _reason(error: BaseException, asking: Asking) -> str:
    if isinstance(error, InventoryError):
        return str(error)
    status = getattr(error, "status_code", None)
    if status == 429:
        return f"Azure keeps throttling it{throttle_summary(error.response)}; ask less often or use the cache."  # type: ignore[attr-defined]
    if status == 403:
        otherwise = f" or {asking.otherwise}" if asking.otherwise else ""
        return f"{_answer(error)} Give the identity the action {asking.permission}{otherwise}."
    if status == 401:
        return f"{_answer(error)} Azure refused the token; sign in again, or check auth_source and cloud."
    if status is not None:
        return _answer(error)
    return _one_line(f"{_kind(error)}: {error}")


def _answer(error: BaseException) -> str:
    status = getattr(error, "status_code", None)
    code = _code(error)
    model = getattr(error, "error", None)
    message = getattr(model, "message", None) or getattr(error, "reason", None) or str(error)
    return _one_line(f"{status} {code}{': ' if code else ''}{message}").rstrip(".") + "."


def _code(error: BaseException) -> str:
    return str(getattr(getattr(error, "error", None), "code", None) or "")


def _kind(error: BaseException) -> str:
    # The SDK's own names, so that this needs no import of it.
    names = {kind.__name__ for kind in type(error).__mro__}
    if "ServiceRequestError" in names:
        return "no connection to Azure"
    if names & {"IncompleteReadError", "ServiceResponseError"}:
        return "the connection broke off before the answer was complete"
    if names & {"DecodeError", "DeserializationError", "JSONDecodeError"}:
        return "the answer cannot be read"
    return type(error).__name__


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"
