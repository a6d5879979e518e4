# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SDK's clients, one of each kind per subscription, with the policies of this collection."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from .cloud import Cloud, is_loopback
from .deadline import Deadline
from .errors import InventoryError
from .policies import AllowLoopbackHttp, Bounded, OnlyLists, PatientRetry
from .sdk_models import make_safe

_USER_AGENT = "ansible-hpcai.azure"
_POLL_S = 5
"""How often a long-running operation is asked after, where Azure does not say; the SDK's own is 30 seconds."""


class Clients:
    """Makes clients when they are first wanted. For use in one thread; the clients themselves are for all.

    :param only_lists: refuse every answer that is no list or resource. Who changes something gets other ones.
    """

    def __init__(self, cloud: Cloud, credential: Any, deadline: Deadline, *, only_lists: bool = True) -> None:
        self._cloud = cloud
        self._credential = credential
        self._only_lists = only_lists
        self._bounded = Bounded(deadline)
        self._deadline = deadline
        self._clients: dict[tuple[type, str], Any] = {}

    @property
    def requests(self) -> int:
        """Number of requests that went out so far, each attempt counted."""
        return self._bounded.requests

    def compute(self, subscription_id: str) -> Any:
        """Return the client of Microsoft.Compute."""
        try:
            from azure.mgmt.compute import ComputeManagementClient
        except ImportError as error:
            raise _missing("azure-mgmt-compute") from error
        make_safe("azure.mgmt.compute")
        return self._client(ComputeManagementClient, subscription_id)

    def network(self, subscription_id: str) -> Any:
        """Return the client of Microsoft.Network."""
        try:
            from azure.mgmt.network import NetworkManagementClient
        except ImportError as error:
            raise _missing("azure-mgmt-network") from error
        make_safe("azure.mgmt.network")
        return self._client(NetworkManagementClient, subscription_id)

    def resource_manager(self) -> Any:
        """Return a client for requests that no package of the SDK has a method for.

        It does not register a resource provider by itself, as the SDK's own clients would.
        """
        from azure.core.pipeline.policies import BearerTokenCredentialPolicy

        bearer = BearerTokenCredentialPolicy(self._credential, self._cloud.scope)
        return self._plain("", [*([AllowLoopbackHttp()] if self._cloud.plain_http else []), bearer])

    def signed(self) -> Any:
        """Return a client for addresses that carry a signature of their own. It sends no token."""
        return self._plain("signed", [])

    def may_read(self, address: str) -> bool:
        """Say whether what comes from this address is protected on its way."""
        parts = urlsplit(address)
        return parts.scheme == "https" or (self._cloud.plain_http and is_loopback(parts.hostname))

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def _plain(self, name: str, authentication: list[Any]) -> Any:
        from azure.core import PipelineClient
        from azure.core.pipeline import policies

        key = PipelineClient, name
        if key not in self._clients:
            self._clients[key] = PipelineClient(
                self._cloud.endpoint,
                policies=[
                    policies.RequestIdPolicy(),
                    policies.UserAgentPolicy(_USER_AGENT),
                    PatientRetry(self._deadline),
                    *authentication,
                    self._bounded,
                ],
                use_env_settings=not self._cloud.loopback,
            )
        return self._clients[key]

    def _client(self, kind: type, subscription_id: str) -> Any:
        key = kind, subscription_id
        if key not in self._clients:
            policies: list[Any] = [OnlyLists()] if self._only_lists else []
            if self._cloud.plain_http:
                policies.append(AllowLoopbackHttp())
            self._clients[key] = kind(
                self._credential,
                subscription_id,
                base_url=self._cloud.endpoint,
                credential_scopes=[self._cloud.scope],
                per_call_policies=policies,
                per_retry_policies=[self._bounded],
                # One for each client: it holds what follows it in the client's pipeline, authentication included.
                retry_policy=PatientRetry(self._deadline),
                user_agent=_USER_AGENT,
                polling_interval=_POLL_S,
                # A proxy of the environment is for reaching Azure, not for reaching this machine.
                use_env_settings=not self._cloud.loopback,
            )
        return self._clients[key]


def _missing(package: str) -> InventoryError:
    return InventoryError(
        f"the Python package {package} is missing where Ansible runs; install what the collection's requirements.txt "
        "lists."
    )
