# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of Azure's errors: what failed, why, and what to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from azure.core import exceptions as sdk

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import (
    Asking,
    InventoryError,
    explain,
    is_gone,
    throttle_summary,
)

ASKING = Asking("list the things", "Microsoft.Things/read", "do without")


def refused(status: int, code: str = "", message: str = "", **headers: str) -> Any:
    error: Any = sdk.HttpResponseError(message or "refused")
    error.status_code = status
    error.response = SimpleNamespace(headers={name.replace("_", "-"): value for name, value in headers.items()})
    error.error = SimpleNamespace(code=code, message=message) if code else None
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            refused(403, "AuthorizationFailed", "No."),
            "403 AuthorizationFailed: No. Give the identity the action Microsoft.Things/read or do without.",
        ),
        (refused(401, "ExpiredToken", "Old."), "401 ExpiredToken: Old. Azure refused the token; sign in again"),
        (refused(404, "SubscriptionNotFound", "Gone"), "404 SubscriptionNotFound: Gone."),
        (
            refused(429, x_ms_ratelimit_remaining_resource="Microsoft.Compute/A;0,Microsoft.Compute/B;7"),
            "Azure keeps throttling it (budget used up: Microsoft.Compute/A); run less often or use the cache.",
        ),
        (sdk.ServiceRequestError("refused"), "no connection to Azure: refused"),
        (sdk.ServiceResponseError("reset"), "the connection was lost before the answer was complete: reset"),
        (sdk.DecodeError("bad"), "the answer cannot be read: bad"),
        (InventoryError("our own words."), "our own words."),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_an_error_says_what_failed_why_and_what_to_do(error: Exception, text: str) -> None:
    assert explain(error, ASKING).startswith(f"could not list the things: {text}")


ATTEMPTS = """DefaultAzureCredential failed to retrieve a token from the included credentials.
Attempted credentials:
\tEnvironmentCredential: EnvironmentCredential authentication unavailable. Environment variables are not set.
Visit https://aka.ms/azsdk/python/identity/environmentcredential/troubleshoot to troubleshoot this issue.
\tWorkloadIdentityCredential: WorkloadIdentityCredential authentication unavailable. The workload options are not \
fully configured. See the troubleshooting guide for more information: https://aka.ms/azsdk/python/identity/workload.
\tManagedIdentityCredential: ManagedIdentityCredential authentication unavailable, no response from the IMDS endpoint.
\tAzureCliCredential: AADSTS700082: The refresh token has expired due to inactivity. Interactive sign-in is needed.
To mitigate this issue, please refer to the troubleshooting guidelines here at \
https://aka.ms/azsdk/python/identity/defaultazurecredential/troubleshoot."""


def test_a_failed_sign_in_keeps_the_cause_and_drops_the_links() -> None:
    text = explain(sdk.ClientAuthenticationError(ATTEMPTS), ASKING)

    assert "AADSTS700082: The refresh token has expired due to inactivity. Interactive sign-in is needed." in text
    assert "no response from the IMDS endpoint" in text
    assert "mitigate" not in text
    assert "environmentcredential/troubleshoot" not in text
    assert "\n" not in text


def test_the_text_of_each_attempted_credential_is_shortened() -> None:
    text = explain(sdk.ClientAuthenticationError(f"A: {'x' * 5000}\nB: the cause"), ASKING)

    assert text.endswith("…; B: the cause.")
    assert len(text) < 600


def test_a_long_error_is_shortened_to_one_line() -> None:
    text = explain(refused(500, "Broken", "a\nb " * 500), ASKING)

    assert "\n" not in text
    assert len(text) < 400


def test_an_error_without_a_code_has_only_the_message() -> None:
    assert explain(refused(502, message="Bad Gateway"), ASKING) == "could not list the things: 502 Bad Gateway."


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (refused(404, "ResourceNotFound"), True),
        (refused(404, "NotFound"), True),
        (refused(404, "ResourceGroupNotFound"), False),
        (refused(404, "SubscriptionNotFound"), False),
        (refused(404, "InvalidResourceType"), False),
        (refused(404), False),
        (refused(410, "ResourceNotFound"), False),
        (ValueError(), False),
    ],
)
def test_only_a_missing_resource_counts_as_gone(error: Exception, gone: bool) -> None:
    assert is_gone(error) is gone


@pytest.mark.parametrize(
    ("header", "summary"),
    [
        ("", ""),
        ("Microsoft.Compute/A;5", " (budget used up: Microsoft.Compute/A;5)"),
        ("Microsoft.Compute/A;0", " (budget used up: Microsoft.Compute/A)"),
        ("A;10, B;0", " (budget used up: B)"),
    ],
)
def test_the_throttle_summary_names_the_used_up_budget(header: str, summary: str) -> None:
    headers = {"x-ms-ratelimit-remaining-resource": header} if header else {}

    assert throttle_summary(SimpleNamespace(headers=headers)) == summary
