# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of what is in storage accounts: containers and blobs in XML, queues and tables from Resource Manager.

A test puts dicts into ``model.blobs``: ``{"account", "container", "name", "state"}``. Without a state, it is a current
blob; the others are the values of ``STATES``, and ``container`` (a deleted one), ``queue``, ``table``.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from flask import Blueprint, Response, request

from simulator import TOKEN, roles
from simulator.arm.context import context, many
from simulator.arm.documents import encode
from simulator.resources import Document

blueprint = Blueprint("storage", __name__)
DATA = "/storage/"
ACCOUNT = "/subscriptions/<subscription>/resourcegroups/<group>/providers/microsoft.storage/storageaccounts/<account>"
CONTAINERS = "Microsoft.Storage/storageAccounts/blobServices/containers"
READ = f"{CONTAINERS}/blobs/read"
STATES = {
    "deleted": ("deleted", "<Deleted>true</Deleted>"),
    "version": ("versions", "<VersionId>2026-01-01T00:00:00.0000000Z</VersionId>"),
    "snapshot": ("snapshots", "<Snapshot>2026-01-01T00:00:00.0000000Z</Snapshot>"),
    "uncommitted": ("uncommittedblobs", ""),
}
"""What a request must include to get a blob in this state, and how Azure marks it."""


@blueprint.get(f"{ACCOUNT}/<any(queueservices, tableservices):service>/default/<kind>")
def list_others(subscription: str, group: str, account: str, service: str, kind: str) -> Response:
    """The queues or tables of an account."""
    word = kind.rstrip("s")
    found = [item["name"] for item in _inside(account) if item.get("state") == word]
    return many(
        [encode({"name": name, "type": f"Microsoft.Storage/storageAccounts/{service}/{kind}"}) for name in found], None
    )


@blueprint.get(f"{DATA}<account>/blob")
def list_containers(account: str) -> Response:
    """The containers, in XML."""
    refused = _refused(account)
    if refused is not None:
        return refused
    prefix = f"/storageaccounts/{account}/blobservices/"
    names = [item.name for item in context().model.documents.of(CONTAINERS) if prefix in item.id.lower()]
    entries = [f"<Container><Name>{escape(name)}</Name></Container>" for name in names]
    if "deleted" in _included():
        gone = [item["name"] for item in _inside(account) if item.get("state") == "container"]
        entries += [f"<Container><Name>{escape(name)}</Name><Deleted>true</Deleted></Container>" for name in gone]
    return _page("Containers", entries)


@blueprint.get(f"{DATA}<account>/blob/<container>")
def list_blobs(account: str, container: str) -> Response:
    """The blobs of a container, in XML."""
    refused = _refused(account)
    if refused is not None:
        return refused
    entries = []
    for item in _inside(account):
        wanted, mark = STATES.get(item.get("state", ""), ("", "<IsCurrentVersion>true</IsCurrentVersion>"))
        if item.get("container", "").lower() == container and (not wanted or wanted in _included()):
            entries.append(f"<Blob><Name>{escape(item['name'])}</Name>{mark}</Blob>")
    return _page("Blobs", entries)


def _page(kind: str, entries: list[str]) -> Response:
    """A page. The first one is empty: Azure may end a page at any place."""
    first = "marker" not in request.args
    text = "".join([] if first else entries)
    marker = "<NextMarker>2</NextMarker>" if first else "<NextMarker />"
    body = f"<EnumerationResults><{kind}>{text}</{kind}>{marker}</EnumerationResults>"
    return Response(f'<?xml version="1.0" encoding="utf-8"?>{body}', content_type="application/xml")


def _refused(account: str) -> Response | None:
    """The answer if the account does not exist, if its firewall refuses the client, or if this may not read blobs."""
    model = context().model
    found = next((one for one in _accounts() if one.name.lower() == account), None)
    if found is None:
        return _error(404, "ResourceNotFound")
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        return _error(401, "InvalidAuthenticationInfo")
    rules = found.properties["networkAcls"]
    allowed = [rule["value"].partition("/")[0] for rule in rules["ipRules"]]
    closed = found.properties.get("publicNetworkAccess") == "Disabled"
    if closed or (rules["defaultAction"] == "Deny" and model.limits.caller_address not in allowed):
        return _error(403, "AuthorizationFailure")
    if not roles.allows(roles.permissions_at(model, found.id), READ, "dataActions"):
        return _error(403, "AuthorizationPermissionMismatch")
    return None


def _accounts() -> list[Document]:
    return list(context().model.documents.of("Microsoft.Storage/storageAccounts"))


def _inside(account: str) -> list[dict[str, str]]:
    return [item for item in context().model.blobs if item["account"].lower() == account]


def _included() -> list[str]:
    return request.args.get("include", "").split(",")


def _error(status: int, code: str) -> Response:
    body = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return Response(body, status, {"x-ms-error-code": code}, content_type="application/xml")
