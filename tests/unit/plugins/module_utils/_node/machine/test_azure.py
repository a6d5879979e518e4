# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""User-delegation keys, and SAS that are signed with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import parse_qs

import pytest
from stand_ins.http_service import Answer, Service

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.azure import (
    Account,
    DelegationKey,
    StorageError,
    account_of,
    container_sas,
    delegation_key,
)

TOKEN, VALUE = "eyJ0.token-of-the-node", "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3JldA=="
KEY = DelegationKey(
    "11111111-2222-3333-4444-555555555555",
    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "2026-11-24T10:45:00Z",
    "2026-11-24T13:00:00Z",
    "b",
    "2021-12-02",
    VALUE,
)
NOON = 1795521600.0
GIVEN = (
    f'<?xml version="1.0" encoding="utf-8"?><UserDelegationKey><SignedOid>{KEY.oid}</SignedOid><SignedTid>{KEY.tid}'
    f"</SignedTid><SignedStart>{KEY.start}</SignedStart><SignedExpiry>{KEY.expiry}</SignedExpiry><SignedService>b"
    f"</SignedService><SignedVersion>{KEY.version}</SignedVersion><Value>{VALUE}</Value></UserDelegationKey>"
)

Serve = Callable[..., tuple[Service, Account]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A function that starts an account with these answers."""
    started: list[Service] = []

    def start(*answers: Answer) -> tuple[Service, Account]:
        started.append(Service(*answers))
        return started[-1], Account("training", started[-1].endpoint)

    yield start
    for service in started:
        service.stop()


# Signed by azure-storage-blob 12.19.1 (generate_container_sas) with this key, for version 2021-12-02.
@pytest.mark.parametrize(
    ("permissions", "signature"),
    [
        ("rl", "VAPJgxsB5BROBPcTx+VpIGVwb9DdaNKnT9f8YZ8/wo0="),
        ("rcwl", "dPfZ6MUZBeBLLiQyx0Babh7iLlnEvh3QbW7N/V6uY+A="),
        ("rcwdl", "Nu5kM7unWZUavYqzg3nokwv4Mc1U1r3+Rw8+lBzxWGc="),
    ],
)
def test_a_sas_is_signed_as_the_sdk_signs_it(permissions: str, signature: str) -> None:
    account = account_of("https://training.blob.core.windows.net")
    sas = parse_qs(container_sas(KEY, account, "data", permissions, NOON))
    assert sas == {
        "sv": ["2021-12-02"],
        "sr": ["c"],
        "sp": [permissions],
        "se": ["2026-11-24T12:00:00Z"],
        "spr": ["https"],
        "skoid": [KEY.oid],
        "sktid": [KEY.tid],
        "skt": [KEY.start],
        "ske": [KEY.expiry],
        "sks": ["b"],
        "skv": [KEY.version],
        "sig": [signature],
    }


def test_a_key_does_not_display_its_secret() -> None:
    assert VALUE not in repr(KEY)
    assert KEY.ends == NOON + 3600


@pytest.mark.parametrize(
    ("url", "name", "base"),
    [
        ("https://training.blob.core.windows.net/", "training", "https://training.blob.core.windows.net"),
        ("https://t42.blob.core.usgovcloudapi.net", "t42", "https://t42.blob.core.usgovcloudapi.net"),
        ("https://training.z12.blob.storage.azure.net", "training", "https://training.z12.blob.storage.azure.net"),
        ("https://127.0.0.1:10000/devstoreaccount1", "devstoreaccount1", "https://127.0.0.1:10000/devstoreaccount1"),
    ],
)
def test_an_account_is_read_from_its_url(url: str, name: str, base: str) -> None:
    assert account_of(url) == Account(name, base)


@pytest.mark.parametrize(
    "url",
    [
        "http://training.blob.core.windows.net",
        "https://training.blob.core.windows.net.example.com",
        "https://example.com/training",
        "https://x@training.blob.core.windows.net",
        "https://training.blob.core.windows.net/data",
        "https://training.blob.core.windows.net?comp=list",
        "https://127.0.0.1:10000",
        "https://127.0.0.1:99999/a",
        "",
    ],
)
def test_urls_that_are_not_storage_accounts_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not the URL of a storage account"):
        account_of(url)


def test_the_key_is_requested_with_the_nodes_token(serve: Serve) -> None:
    service, account = serve((503, {}, b""), (200, {}, GIVEN.encode()))
    assert delegation_key(account, TOKEN, NOON, NOON + 7200, 5, sleep=lambda _seconds: None) == KEY
    path, headers = service.requests[-1]
    assert path == "/?restype=service&comp=userdelegationkey"
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert b"<Start>2026-11-24T11:45:00Z</Start><Expiry>2026-11-24T14:00:00Z</Expiry>" in service.posted[-1]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((403, {}, b"<Error/>"), 'Assign this machine\'s identity the role "Storage Blob Delegator"'),
        ((400, {}, b""), "answered with HTTP status 400"),
        ((200, {}, b""), "is not a storage account"),
        ((200, {}, GIVEN.replace(VALUE, "not base64!").encode()), "is not a storage account"),
        ((200, {}, GIVEN.replace(KEY.expiry, "tomorrow").encode()), "is not a storage account"),
        ((200, {}, b"\xff" * 100), "is not a storage account"),
    ],
)
def test_an_error_states_the_cause_and_no_secret(serve: Serve, answer: Answer, message: str) -> None:
    _service, account = serve(answer)
    with pytest.raises(StorageError) as caught:
        delegation_key(account, TOKEN, NOON, NOON + 7200, 5, sleep=lambda _seconds: None)
    assert message in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert VALUE not in str(caught.value)
