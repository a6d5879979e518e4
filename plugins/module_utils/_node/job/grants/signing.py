# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Signatures of checkpoints with a key of a key vault, for users who may write where the checkpoint is.

The service writes the statement itself, from what the kernel says about the caller and from what the grants allow. A
user chooses only the checkpoint's id and hashes, so a signature never attests anything else.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...machine.cluster_settings import Vault
from ...machine.key_vault import VaultError
from ...machine.vault_keys import VERSION, PublicKey, decoded, encoded, public_key, sign
from .policy import NotGranted
from .protocol import Question

PURPOSE = "hpcai checkpoint"
"""In each statement, so that a signature cannot be used for anything else that the key may sign."""
SCHEMA = 1
LIMIT_S = 20.0
_TOKEN_S = 1800.0
"""A token is valid for at least an hour (Azure: 1 to 24 hours)."""


def statement_of(asked: Question, store: str, user: str, uid: int, now: float) -> str:
    """Return the statement that is signed: one line of JSON."""
    stated = {
        "schema": SCHEMA,
        "purpose": PURPOSE,
        "store": store,
        "checkpoint": asked.checkpoint,
        "manifest": asked.manifest,
        "lineage": asked.lineage,
        "user": user,
        "uid": uid,
        "signed": int(now),
    }
    return json.dumps(stated, sort_keys=True)


class Signer:
    """Signs with the newest version of a key.

    Users can ask as often as ``server.Bounds`` allows. So tokens and public keys are kept, in memory only: the metadata
    service, which also has the scheduled events, answers a few requests per second.

    :param token: returns the node's token for a resource and a client id.
    """

    def __init__(self, token: Callable[[str, str], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._token, self._clock = token, clock
        self._tokens: dict[tuple[str, str], tuple[str, float]] = {}
        # Only what the vault has, so it does not grow with what users ask for. A version never changes.
        self._public: dict[tuple[str, str, str], PublicKey] = {}

    def sign(self, vault: Vault, name: str, statement: str, client_id: str) -> dict[str, Any]:
        """Return a signed statement as the answer to a user: the statement, the key's version, the signature.

        :raises ImdsError: there is no token.
        :raises VaultError: the vault refuses.
        """
        with self._fresh_token(vault, client_id) as token:
            version = public_key(vault, name, "", token, LIMIT_S).version
            signature = sign(vault, name, version, statement.encode(), token, LIMIT_S)
        return {"statement": statement, "key": version, "signature": encoded(signature)}

    def public(self, vault: Vault, name: str, version: str, client_id: str) -> dict[str, Any]:
        """Return the public part of a version of the key as the answer to a user.

        :raises NotGranted: this is no version of a key.
        :raises ImdsError: there is no token.
        :raises VaultError: the vault refuses.
        """
        if not VERSION.fullmatch(version):
            raise NotGranted("this is no version of a key: expected 32 hexadecimal digits")
        found = self._public.get((vault.url, name, version))
        if found is None:
            with self._fresh_token(vault, client_id) as token:
                found = public_key(vault, name, version, token, LIMIT_S)
            self._public[vault.url, name, version] = found
        size = (found.modulus.bit_length() + 7) // 8
        return {
            "key": found.version,
            "n": encoded(found.modulus.to_bytes(size, "big")),
            "e": encoded(found.exponent.to_bytes(4, "big")),
        }

    @contextlib.contextmanager
    def _fresh_token(self, vault: Vault, client_id: str) -> Iterator[str]:
        """Yield a token; after a refusal of the vault, the next one is fetched again."""
        which = vault.resource, client_id
        token, fetched = self._tokens.get(which, ("", 0.0))
        if not token or self._clock() - fetched > _TOKEN_S:
            token = self._token(*which)
            self._tokens[which] = token, self._clock()
        try:
            yield token
        except VaultError:
            self._tokens.pop(which, None)
            raise


@dataclass(frozen=True)
class SignedStatement:
    """A statement with its signature.

    :ivar statement: what was signed, as text.
    :ivar key: the version of the key.
    :ivar signature: in base64url.
    """

    statement: str
    key: str
    signature: str


def key_of(answer: dict[str, Any], version: str) -> PublicKey:
    """Return the public key in an answer of the service.

    :raises ValueError: the answer is invalid.
    """
    try:
        key = PublicKey(version, *(int.from_bytes(decoded(answer[part]), "big") for part in ("n", "e")))
    except LookupError:
        raise ValueError("no public key in the answer of hpcai-grants") from None
    if answer.get("key") != version:
        raise ValueError("hpcai-grants returned another key")
    return key
