# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Gets user-delegation keys of storage accounts with this machine's identity, and signs SAS with them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from .http_get import NoAnswer, Refused, Sleep, get

STORAGE = "https://storage.azure.com/"
"""The resource for tokens of Blob storage, in all clouds."""
VERSION = "2021-12-02"
"""The service version of the requests and of the SAS."""
ROLE = "Storage Blob Delegator"
"""The built-in Azure role with the fewest permissions that may get such a key."""
LONGEST_S = 7 * 86400
"""A user-delegation key is valid for at most 7 days."""
LIMIT_S = 10.0

_PASSING = (408, 429)
_SKEW_S = 900
# The node's token is sent only to Azure's storage accounts, and to an account at an IP address, such as Azurite's.
_HOST = re.compile(
    r"(?P<name>[a-z0-9]{3,24})(-secondary)?\.(?:z[0-9]{1,2}\.blob\.storage\.azure\.net"
    r"|blob\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net))"
)
_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_FIELDS = ("SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion", "Value")


class StorageError(RuntimeError):
    """No key was received; the message is one line, and contains no part of a token or key."""


@dataclass(frozen=True)
class Account:
    """A storage account.

    :ivar name: of the account.
    :ivar url: of its Blob service, without a slash at its end.
    """

    name: str
    url: str


@dataclass(frozen=True)
class DelegationKey:
    """A user-delegation key, as the account returned it.

    :ivar value: the secret, in base64.
    """

    oid: str
    tid: str
    start: str
    expiry: str
    service: str
    version: str
    value: str = field(repr=False)

    @property
    def ends(self) -> float:
        """When it expires, in seconds since 1970."""
        return _seconds(self.expiry)


def account_of(url: str) -> Account:
    """Return the storage account at ``url``.

    :raises ValueError: it is not the URL of a Blob service.
    """
    wrong = f"{url!r} is not the URL of a storage account: use https://ACCOUNT.blob.core.windows.net"
    try:
        split = urlsplit(url)
        host, port, path = split.hostname or "", split.port, split.path.strip("/")
    except ValueError:
        raise ValueError(wrong) from None
    found = _HOST.fullmatch(host)
    in_path = bool(_ADDRESS.fullmatch(host))
    name = path if in_path else found["name"] if found and not path else ""
    if split.scheme != "https" or split.query or split.fragment or "@" in split.netloc or not name.isalnum():
        raise ValueError(wrong)
    where = f"https://{host}{f':{port}' if port else ''}"
    return Account(name, f"{where}/{name}" if in_path else where)


def delegation_key(
    account: Account, token: str, now: float, until: float, limit_s: float = LIMIT_S, sleep: Sleep = time.sleep
) -> DelegationKey:
    """Return a user-delegation key of the account. It is a secret: never write it to logs, arguments or files.

    :param token: an access token for ``STORAGE``.
    :param until: when the key expires, in seconds since 1970, at most ``LONGEST_S`` from now.
    :raises StorageError: the account cannot be reached, or refuses.
    """
    body = (
        '<?xml version="1.0" encoding="utf-8"?>'
        f"<KeyInfo><Start>{_iso(now - _SKEW_S)}</Start><Expiry>{_iso(until)}</Expiry></KeyInfo>"
    )
    headers = {"Authorization": f"Bearer {token}", "x-ms-version": VERSION, "Content-Type": "application/xml"}
    url = f"{account.url}/?restype=service&comp=userdelegationkey"
    try:
        answer = get(url, headers, limit_s, _PASSING, sleep, body=body.encode())
    except NoAnswer as error:
        raise StorageError(
            f"{account.url} gave no answer in {limit_s:.3g} s: {error}. Check its name, route, firewall and private "
            "endpoint."
        ) from None
    except Refused as refused:
        if refused.status in (401, 403):
            raise StorageError(
                f"{account.url} refuses a user-delegation key (HTTP status {refused.status}). Assign this machine's "
                f'identity the role "{ROLE}" at the account, and the data role at each container.'
            ) from None
        raise StorageError(f"{account.url} answered with {refused}.") from None
    return _key_of(answer.decode("utf-8", "replace"), account)


def container_sas(key: DelegationKey, account: Account, container: str, permissions: str, until: float) -> str:
    """Return a SAS for one container, without a question mark. It is a secret. Pure.

    :param permissions: letters in the order that Azure requires, such as ``rl``.
    :param until: when it expires, in seconds since 1970.
    """
    expiry = _iso(until)
    # Empty fields: start, users and correlation, address, snapshot, encryption scope, 5 headers.
    signed = [permissions, "", expiry, f"/blob/{account.name}/{container}"]
    signed += [key.oid, key.tid, key.start, key.expiry, key.service, key.version, "", "", ""]
    signed += ["", "https", VERSION, "c", "", "", "", "", "", "", ""]
    digest = hmac.new(base64.b64decode(key.value), "\n".join(signed).encode(), hashlib.sha256).digest()
    return urlencode(
        {
            "sv": VERSION,
            "sr": "c",
            "sp": permissions,
            "se": expiry,
            "spr": "https",
            "skoid": key.oid,
            "sktid": key.tid,
            "skt": key.start,
            "ske": key.expiry,
            "sks": key.service,
            "skv": key.version,
            "sig": base64.b64encode(digest).decode(),
        }
    )


def _key_of(text: str, account: Account) -> DelegationKey:
    values = []
    for name in _FIELDS:
        found = re.search(rf"<{name}>([\x21-\x3b\x3d-\x7e]+)</{name}>", text)
        values.append(found[1] if found else "")
    try:
        base64.b64decode(values[-1], validate=True)
        key = DelegationKey(*values)
        complete = all(values) and key.ends > 0
    except ValueError:
        complete = False
    if not complete:
        raise StorageError(f"{account.url} is not a storage account: its answer contains no user-delegation key.")
    return key


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _seconds(text: str) -> float:
    import calendar

    return float(calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")))
