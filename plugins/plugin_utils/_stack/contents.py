# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a storage account contains, asked of the account itself: Azure Resource Manager knows only the containers.

Its metric BlobCount is no proof, because Azure computes it a few times a day (Microsoft's documentation "Azure Blob
Storage monitoring data reference").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from .._azure.credentials import is_loopback
from .._azure.errors import Asking, InventoryError, explain, printable
from .arm import Arm
from .model import Stack
from .names import Names
from .resource import ACCOUNT, API_VERSIONS
from .teardown import Content

_VERSION = "2021-12-02"
_EVERYTHING = "snapshots,versions,deleted,deletedwithversions,uncommittedblobs"
"""Without these, Azure lists only the current blobs."""
_OTHERS = (
    ("fileServices", "shares", "share", "&$expand=deleted"),
    ("queueServices", "queues", "queue", ""),
    ("tableServices", "tables", "table", ""),
)
"""What else an account can have, which the stack does not make. Resource Manager lists these."""
_MOST_PAGES = 100
_RIGHT = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read"
_ADVICE = {
    "AuthorizationFailure": "its firewall refuses this machine: add your address to storage.allow_from of "
    "hpcai_stack, and run provision",
    "AuthorizationPermissionMismatch": "your identity lacks the role Storage Blob Data Reader on it",
}
"""By Azure's error codes. Source: its documentation "Troubleshoot 403 errors" of Azure Storage."""


def content_of(stack: Stack, arm: Arm, account: Mapping[str, Any]) -> Content:
    """Return what an account of the stack contains. Everything counts: old versions, snapshots, deleted blobs.

    :param account: Azure's answer about it.
    """
    try:
        return Content(found=next(_found(stack, arm, account), ""))
    except InventoryError as error:
        return Content(problem=str(error).rstrip("."))


def _found(stack: Stack, arm: Arm, account: Mapping[str, Any]) -> Iterator[str]:
    """Yield what it contains, the cheapest to find first.

    :raises InventoryError: something cannot be listed.
    """
    name = str(account.get("name"))
    if account.get("kind") != "StorageV2":
        raise InventoryError("the files of an NFS share cannot be listed")
    for service, kind, word, more in _OTHERS:
        path = f"{account['id']}/{service}/default/{kind}?api-version={API_VERSIONS[ACCOUNT]}{more}"
        for made in arm.read_list(path, f"the {kind} of {name}", f"{ACCOUNT}/{service}/{kind}/read"):
            yield f"the {word} {printable(made.get('name'))}"
    base = _address(stack, arm, account, name)
    own = {one.lower() for one in stack.storage.containers} if name.lower() == _own_account(stack) else set()
    containers = []
    for item in _list(arm, name, f"{base}?comp=list&include=deleted", "Containers/Container"):
        container = item.findtext("Name") or ""
        if item.findtext("Deleted") == "true":
            yield f"the deleted container {printable(container)}, which Azure still keeps"
        elif container.lower() not in own:
            yield f"the container {printable(container)}, which the stack did not make"
        containers.append(container)
    for container in containers:
        url = f"{base}{quote(container)}?restype=container&comp=list&maxresults=1&include={_EVERYTHING}"
        for item in _list(arm, name, url, "Blobs/*"):
            yield f"{printable(container)}/{printable(item.findtext('Name'))}{_which(item)}"


def _own_account(stack: Stack) -> str:
    return Names(stack).account.rsplit("/", 1)[-1].lower()


def _which(item: ElementTree.Element) -> str:
    if item.findtext("Deleted") == "true":
        return " (deleted, and still kept by Azure)"
    if item.findtext("Snapshot"):
        return " (a snapshot)"
    if item.findtext("VersionId") and item.findtext("IsCurrentVersion") != "true":
        return " (an old version)"
    return ""


def _address(stack: Stack, arm: Arm, account: Mapping[str, Any], name: str) -> str:
    """Return the URL of its blobs, with a slash at the end. The identity's token is sent there."""
    url = str(((account.get("properties") or {}).get("primaryEndpoints") or {}).get("blob") or "")
    host = (urlsplit(url).hostname or "").lower()
    own = host.startswith(f"{name.lower()}.") and host.endswith(
        (f".blob.{stack.suffixes.storage}", ".blob.storage.azure.net")
    )
    if not arm.clients.may_read(url) or not (own or is_loopback(host)):
        raise InventoryError(f"Azure names no address of its blobs that a token may be sent to ({printable(url)})")
    return f"{url.rstrip('/')}/"


def _list(arm: Arm, name: str, url: str, entries: str) -> Iterator[ElementTree.Element]:
    """Yield the entries of a list. A page may be empty although another one follows."""
    from azure.core.rest import HttpRequest

    marker = ""
    for _page in range(_MOST_PAGES):
        arm.reads += 1
        asked = HttpRequest(
            "GET", f"{url}&marker={quote(marker)}" if marker else url, headers={"x-ms-version": _VERSION}
        )
        try:
            response = arm.clients.storage().send_request(asked)
        except Exception as error:
            raise InventoryError(explain(error, Asking(f"list the blobs of {name}", _RIGHT))) from None
        code = response.headers.get("x-ms-error-code", "")
        if response.status_code != 200:
            reason = _ADVICE.get(code, f"it answered {response.status_code} {printable(code)}".rstrip())
            raise InventoryError(f"its blobs could not be listed: {reason}")
        try:
            answer = ElementTree.fromstring(response.content)
        except ElementTree.ParseError:
            answer = ElementTree.Element("")
        if answer.tag != "EnumerationResults":
            raise InventoryError("its blobs could not be listed: the answer is no list, so it may not come from Azure")
        yield from answer.findall(entries)
        marker = answer.findtext("NextMarker") or ""
        if not marker:
            return
    raise InventoryError(f"its blobs could not be listed: more than {_MOST_PAGES} pages without an end")
