# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of the inventory, and messages that explain errors of Azure's SDK."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Longest message in characters. Azure's messages contain long ids, and the useful part is at the beginning.
_LONGEST = 300
# Longest message of one method to sign in, if several were tried.
_LONGEST_ATTEMPT = 400
# Text that azure-identity adds before and after each cause.
_FILLER = re.compile(
    r"(To mitigate this issue, please|Please|Visit) (refer to the troubleshooting guidelines here at )?"
    r"https://aka\.ms/\S+( to troubleshoot this issue\.?)?|Attempted credentials:"
)


class InventoryError(Exception):
    """An error that makes a source, or one list call of it, fail. Its text is one line for the user."""


class DeadlineExceeded(InventoryError):
    """The timeout of the source has expired."""


class Throttled(InventoryError):
    """Azure throttles requests for longer than the remaining time."""


class UnreadableAnswer(InventoryError):
    """The answer is not valid, so it may come from a proxy instead of Azure."""


@dataclass(frozen=True)
class Asking:
    """Description of a request to Azure, for errors.

    :ivar what: continues "could not ...".
    :ivar permission: the action that the identity needs for it.
    :ivar otherwise: what to do instead of granting that permission.
    """

    what: str
    permission: str
    otherwise: str = ""


def explain(error: BaseException, asking: Asking) -> str:
    """Return one line that says what failed, why, and what to do."""
    return f"could not {asking.what}: {_reason(error, asking)}"


def missing_package(package: str) -> InventoryError:
    """Return the error for a Python package that is not installed."""
    return InventoryError(
        f"the Python package {package} is missing on the control node; install what the collection's requirements.txt "
        "lists."
    )


def listed(items: Sequence[str], most: int = 5) -> str:
    """Return the first few items, and the number of further ones."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")


def printable(text: Any) -> str:
    """Return the text as one line without terminal control characters, because nodes can send any text."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(str(text or "").split()))


def is_gone(error: BaseException) -> bool:
    """Say whether Azure answered that the resource itself does not exist."""
    return getattr(error, "status_code", None) == 404 and _code(error).lower() in (
        "resourcenotfound",
        "parentresourcenotfound",
        "notfound",
    )


def throttle_summary(response: Any) -> str:
    """Return which of Azure's budgets is used up, if the answer names it."""
    header = (response.headers.get("x-ms-ratelimit-remaining-resource") or "").strip()
    # "Microsoft.Compute/HighCostGet3Min;0,Microsoft.Compute/HighCostGet30Min;412"
    budgets = [item.strip() for item in header.split(",") if item.strip()]
    empty = [budget.rsplit(";", 1)[0] for budget in budgets if budget.endswith(";0")]
    named = empty or budgets
    return f" (budget used up: {', '.join(named)})" if named else ""


def _reason(error: BaseException, asking: Asking) -> str:
    if isinstance(error, InventoryError):
        return str(error)
    status = getattr(error, "status_code", None)
    if status == 429:
        return f"Azure keeps throttling it{throttle_summary(error.response)}; run less often or use the cache."  # type: ignore[attr-defined]
    if status == 403:
        otherwise = f" or {asking.otherwise}" if asking.otherwise else ""
        return f"{_answer(error)} Give the identity the action {asking.permission}{otherwise}."
    if status == 401:
        return f"{_answer(error)} Azure refused the token; sign in again, or check auth_source and cloud."
    if status is not None:
        return _answer(error)
    if "ClientAuthenticationError" in (name.__name__ for name in type(error).__mro__):
        return _sign_in(str(error))
    return _one_line(f"{_kind(error)}: {error}")


def _sign_in(text: str) -> str:
    """Return the message of each method to sign in. All are shown, because the expected method may be the last."""
    attempts = [" ".join(_FILLER.sub("", line).split()) for line in text.splitlines()]
    return "; ".join(_cut(attempt.rstrip(".;"), _LONGEST_ATTEMPT) for attempt in attempts if attempt) + "."


def _answer(error: BaseException) -> str:
    status = getattr(error, "status_code", None)
    code = _code(error)
    model = getattr(error, "error", None)
    message = getattr(model, "message", None) or getattr(error, "reason", None) or str(error)
    return _one_line(f"{status} {code}{': ' if code else ''}{message}").rstrip(".") + "."


def _code(error: BaseException) -> str:
    return str(getattr(getattr(error, "error", None), "code", None) or "")


def _kind(error: BaseException) -> str:
    # By class names, to avoid an import of the SDK.
    names = {kind.__name__ for kind in type(error).__mro__}
    if "ServiceRequestError" in names:
        return "no connection to Azure"
    if names & {"IncompleteReadError", "ServiceResponseError"}:
        return "the connection was lost before the answer was complete"
    if names & {"DecodeError", "DeserializationError", "JSONDecodeError"}:
        return "the answer cannot be read"
    return type(error).__name__


def _one_line(text: str) -> str:
    return _cut(" ".join(text.split()), _LONGEST)


def _cut(line: str, longest: int) -> str:
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"
