# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Teardown looks into storage accounts: an account without any content goes, everything else stays and is named."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError

from .cloud import Azure, smallest

ADDRESS = "198.51.100.7"
READER = {"actions": ["*"], "dataActions": ["Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read"]}
OPEN = smallest(
    storage={"name": "models", "containers": ["data", "more"], "allow_from": [ADDRESS]}, shared_home={"source": "none"}
)
"""A stack whose account can be reached from where the teardown runs."""


@pytest.fixture
def made(azure: Azure) -> Azure:
    """The stack, for somebody who may read blobs."""
    azure.simulator.limits.change({"permissions": [READER]})
    azure.run(OPEN)
    return azure


def stays(azure: Azure, **options: Any) -> str:
    """Why the account stays after a teardown; empty if it is gone."""
    done = azure.run(OPEN, state="absent", **options)
    texts = [text for text in done["stays"] if text.startswith("storageAccounts/models stays: ")]
    assert bool(texts) == azure.exists(azure.names(OPEN).account)
    return texts[0].partition(" stays: ")[2] if texts else ""


def test_an_empty_account_is_deleted_without_its_name(made: Azure) -> None:
    foreseen = made.run(OPEN, check=True, state="absent")
    assert any(one.endswith("/models") for one in foreseen["deleted"])
    assert stays(made) == ""
    assert made.simulator.model.resource_groups == {}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("", "it contains more/old.pt; "),
        ("deleted", "it contains more/old.pt (deleted, and still kept by Azure); "),
        ("version", "it contains more/old.pt (an old version); "),
        ("snapshot", "it contains more/old.pt (a snapshot); "),
        ("uncommitted", "it contains more/old.pt; "),
        ("container", "it contains the deleted container old.pt, which Azure still keeps; "),
        ("queue", "it contains the queue old.pt; "),
        ("table", "it contains the table old.pt; "),
    ],
)
@pytest.mark.daily(4)
def test_an_account_with_anything_in_it_stays(made: Azure, state: str, words: str) -> None:
    made.simulator.model.blobs.append({"account": "models", "container": "more", "name": "old.pt", "state": state})
    why = stays(made)
    assert why.startswith(words)
    assert why.endswith("to delete it with its data, name it: teardown_data: [models]")
    assert stays(made, data=["models"]) == ""


def test_a_container_of_somebody_else_is_not_empty(made: Azure) -> None:
    account = made.names(OPEN).account
    made.put(f"{account}/blobServices/default/containers/theses", {"properties": {}})
    assert stays(made).startswith("it contains the container theses, which the stack did not make; ")


def test_a_share_of_somebody_else_is_not_empty(made: Azure) -> None:
    made.put(f"{made.names(OPEN).account}/fileServices/default/shares/theses", {"properties": {}})
    assert stays(made).startswith("it contains the share theses; ")


def test_an_account_that_cannot_be_listed_stays_and_says_why(azure: Azure) -> None:
    azure.run(OPEN)
    assert "because its blobs could not be listed: your identity lacks the role Storage Blob Data Reader" in stays(
        azure
    )
    azure.simulator.limits.change({"permissions": [READER], "caller_address": "203.0.113.1"})
    why = stays(azure)
    assert why.startswith("it may contain data (data, more), because ")
    assert "its firewall refuses this machine: add your address to storage.allow_from" in why


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"status": 403}, "403"),
        ({"action": "garbage"}, "the answer is no list"),
        ({"action": "drop"}, "could not list the blobs of models"),
    ],
)
def test_a_broken_answer_is_no_proof(made: Azure, fault: dict[str, Any], words: str) -> None:
    made.simulator.add_fault(r"GET /storage/models/blob/data", **fault)
    why = stays(made)
    assert why.startswith("it may contain data (data, more), because ")
    assert words in why


def test_an_account_that_got_a_blob_meanwhile_is_not_deleted(made: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = made.simulator.model.blobs
    remove = made.simulator.model.remove

    def write_and_remove(machine: Any) -> Any:
        blobs.append({"account": "models", "container": "data", "name": "last.pt"})
        return remove(machine)

    monkeypatch.setattr(made.simulator.model, "remove", write_and_remove)
    with pytest.raises(InventoryError, match=r"storageAccounts/models was empty, and contains data/last\.pt"):
        made.run(OPEN, state="absent")
    assert made.exists(made.names(OPEN).account)
    assert stays(made).startswith("it contains data/last.pt")
