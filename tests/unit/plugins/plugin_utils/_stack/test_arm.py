# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists of Resource Manager, whose next pages must be at the same host, because the token is sent there."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.concurrency import Deadline
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.arm import Arm

HOME = "https://management.azure.com"


class Page:
    """An answer."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body

    def raise_for_status(self) -> None:
        """It is a good one."""

    def json(self) -> dict[str, Any]:
        return self.body


class Clients:
    """Azure with two pages, of which the first links to the second."""

    def __init__(self, link: str) -> None:
        self.link = link
        self.asked: list[str] = []

    def resource_manager(self) -> Clients:
        return self

    def format_url(self, path: str) -> str:
        return f"{HOME}{path}"

    def may_read(self, address: str) -> bool:
        return address.startswith("https://")

    def send_request(self, request: Any) -> Page:
        self.asked.append(request.url)
        if len(self.asked) == 1:
            return Page({"value": [{"id": "1"}], "nextLink": self.link})
        return Page({"value": [{"id": "2"}]})


@pytest.mark.parametrize("host", [HOME, f"{HOME}:443"])
def test_next_page_is_read(host: str) -> None:
    clients: Any = Clients(f"{host}/resources?page=2")

    found = Arm(clients, Deadline(60)).read_list("/resources", "the resources", "read")
    assert [item["id"] for item in found] == ["1", "2"]


@pytest.mark.parametrize("link", ["https://elsewhere.example/resources", "http://management.azure.com/resources"])
def test_token_is_not_sent_elsewhere(link: str) -> None:
    clients: Any = Clients(link)

    with pytest.raises(InventoryError, match="its pages form a loop or leave Azure"):
        Arm(clients, Deadline(60)).read_list("/resources", "the resources", "read")
    assert len(clients.asked) == 1
