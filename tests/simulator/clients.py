# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of the real Azure SDK for a simulator."""

from __future__ import annotations

import time
from typing import Any

from azure.core.credentials import AccessToken
from azure.core.pipeline import PipelineRequest
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.network import NetworkManagementClient
from azure.mgmt.resource.deployments import DeploymentsMgmtClient

from simulator import TOKEN
from simulator.scenario import SUBSCRIPTION


class AllowHttp(SansIOHTTPPolicy[Any, Any]):
    """Allows the SDK to send tokens over plain HTTP, because the simulator is on loopback."""

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Set the option before each request."""
        request.context.options.setdefault("enforce_https", False)


class StaticToken:
    """A credential that always returns the same token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """The token, valid for a day."""
        return AccessToken(self._token, int(time.time()) + 86400)


def _arguments(endpoint: str, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "base_url": endpoint,
        "credential_scopes": [f"{endpoint}/.default"],
        "per_call_policies": [AllowHttp()],
        **options,
    }


def compute(
    endpoint: str, subscription: str = SUBSCRIPTION, token: str = TOKEN, **options: Any
) -> ComputeManagementClient:
    """A client of azure-mgmt-compute."""
    return ComputeManagementClient(StaticToken(token), subscription, **_arguments(endpoint, options))


def network(
    endpoint: str, subscription: str = SUBSCRIPTION, token: str = TOKEN, **options: Any
) -> NetworkManagementClient:
    """A client of azure-mgmt-network."""
    return NetworkManagementClient(StaticToken(token), subscription, **_arguments(endpoint, options))


def deployments(
    endpoint: str, subscription: str = SUBSCRIPTION, token: str = TOKEN, **options: Any
) -> DeploymentsMgmtClient:
    """A client of azure-mgmt-resource-deployments."""
    return DeploymentsMgmtClient(StaticToken(token), subscription, **_arguments(endpoint, options))
