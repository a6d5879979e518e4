# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Answers one request of one user: the socket identifies the user, and root's files define the grants.

The service itself needs user-delegation keys; it keeps them in memory only.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...machine.azure import LONGEST_S, STORAGE, Account, DelegationKey, StorageError, container_sas, delegation_key
from ...machine.config import ConfigError
from ...machine.imds import ImdsError, read_token
from ...machine.key_vault import VaultError
from ...machine.registry import RegistryError, registry_password
from ...machine.root import Root
from ...setup.containers.options import SETTINGS as CONTAINERS
from ...setup.containers.options import read_options
from .policy import (
    GrantSettings,
    NotGranted,
    decide,
    decide_registry,
    decide_signature,
    granted,
    groups_in,
    groups_of,
    read_settings,
    user_of,
)
from .protocol import BLOB, KEY, PERMISSIONS, REGISTRY, SIGN, Malformed, Question, question_of
from .signing import Signer, statement_of

Answer = dict[str, Any]


def _log(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Broker:
    """Gives users access to what the cluster's definition grants them.

    :param root: the settings below it are read at each request, so an administrator's change needs no restart.
    :param keys: of storage accounts.
    :param password: returns a registry's password, given its name and the client id.
    :param signer: signs statements about checkpoints.
    :param log: writes a line to the journal; no line contains a secret.
    """

    def __init__(
        self,
        root: Root,
        keys: Keys,
        password: Callable[[str, str], str] = lambda name, client_id: registry_password(name, client_id or None),
        log: Callable[[str], None] = _log,
        clock: Callable[[], float] = time.time,
        signer: Signer | None = None,
    ) -> None:
        self._root, self._keys, self._password, self._log, self._clock = root, keys, password, log, clock
        self._signer = signer or Signer(node_token)

    def answer(self, uid: int, line: bytes) -> Answer:
        """Return the answer to a line; it has the key ``error`` if the request fails. Never raises."""
        try:
            return self._answer(uid, line)
        except Malformed as error:
            self._log(f"uid {uid}: malformed request refused")
            return {"error": f"{error}."}
        except NotGranted as error:
            self._log(f"uid {uid}: refused: {error}")
            return {"error": f"{error}."}
        except (Unavailable, ImdsError, RegistryError, VaultError) as error:
            self._log(f"uid {uid}: cannot be served: {error}")
            return {"error": f"Azure did not provide the access that you were granted: {error}"}
        except ConfigError as error:
            self._log(f"the settings are invalid, so nothing is granted: {error}")
            return {"error": "the grants of this node cannot be read. Ask an administrator to read its journal."}
        except Exception as error:
            # Its text may contain a secret.
            self._log(f"uid {uid}: defect: {type(error).__name__}")
            return {"error": "the service failed. Ask an administrator to read the journal of hpcai-grants."}

    def _answer(self, uid: int, line: bytes) -> Answer:
        user = user_of(uid)
        asked = question_of(line)
        if asked.kind == REGISTRY:
            return self._registry(user, asked)
        settings = read_settings(self._root)
        groups = groups_of(user, groups_in(settings.grants))
        if asked.kind in (SIGN, KEY):
            return self._signature(user, groups, settings, asked)
        if asked.kind != BLOB:
            grants = granted(settings.grants, groups)
            return {"user": user.pw_name, "grants": [{"container": one.url, "rights": one.rights} for one in grants]}
        grant = decide(settings.grants, groups, asked.what, asked.need)
        key = self._keys.key(grant.account, settings.client_id, settings.life_s)
        until = self._clock() + settings.life_s
        sas = container_sas(key, grant.account, grant.container, PERMISSIONS[asked.need], until)
        self._log(f"{user.pw_name} (uid {uid}): {asked.need} of {grant.url} for {settings.life_s} s")
        return {"sas": sas, "seconds": settings.life_s}

    def _signature(self, user: Any, groups: frozenset[str], settings: GrantSettings, asked: Question) -> Answer:
        vault, name = settings.signing_vault, settings.signing_key
        if vault is None:
            raise NotGranted("this cluster signs no checkpoints: an administrator sets blob_staging_signing_vault")
        if asked.kind == KEY:
            # A public key is no secret, and without it a user could not verify.
            return self._signer.public(vault, name, asked.what, settings.client_id)
        store = decide_signature(settings.grants, groups, asked.what)
        statement = statement_of(asked, store, user.pw_name, user.pw_uid, self._clock())
        self._log(f"{user.pw_name} (uid {user.pw_uid}): signature of {asked.checkpoint} in {store}")
        return self._signer.sign(vault, name, statement, settings.client_id)

    def _registry(self, user: Any, asked: Question) -> Answer:
        options = read_options(self._root)
        if options is None:
            raise NotGranted(f"this node has no {CONTAINERS}, so it grants no registry")
        groups = groups_of(user, {name for names in options.acr_groups.values() for name in names})
        name = decide_registry(options.acr_registries, options.acr_groups, groups, asked.what)
        password = self._password(name, options.acr_client_id)
        self._log(f"{user.pw_name} (uid {user.pw_uid}): password of {name}")
        return {"password": password}


TOKEN_LIMIT_S = 10.0
_REPEATED_S = 5.0
"""A failure is the answer to all requests of the next seconds, so that an account that fails is not asked each time."""


class Unavailable(RuntimeError):
    """Azure did not return a key; the message is one line without any secret."""


@dataclass
class _AccountKey:
    key: DelegationKey | None = None
    failure: str = ""
    failed_at: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)


def node_token(resource: str, client_id: str) -> str:
    """Return a token of the node's own identity. This process sends it to Azure's services only."""
    return read_token(resource, client_id or None, TOKEN_LIMIT_S)


class Keys:
    """User-delegation keys by account; each is fetched once and signs many SAS.

    :param token: returns the node's token for a resource and a client id.
    """

    def __init__(self, token: Callable[[str, str], str] = node_token, clock: Callable[[], float] = time.time) -> None:
        self._token, self._clock = token, clock
        self._kept: dict[tuple[str, str], _AccountKey] = {}
        self._lock = threading.Lock()

    def key(self, account: Account, client_id: str, life_s: int) -> DelegationKey:
        """Return a key of the account that is valid for at least ``life_s``.

        :raises Unavailable: Azure returns no key.
        """
        with self._lock:
            kept = self._kept.setdefault((account.url, client_id), _AccountKey())
        with kept.lock:
            now = self._clock()
            if kept.key and kept.key.ends >= now + life_s:
                return kept.key
            if 0 <= now - kept.failed_at < _REPEATED_S:
                raise Unavailable(kept.failure)
            try:
                token = self._token(STORAGE, client_id)
                kept.key = delegation_key(account, token, now, now + min(2 * life_s, LONGEST_S))
            except (ImdsError, StorageError) as error:
                kept.failure, kept.failed_at = str(error), self._clock()
                raise Unavailable(kept.failure) from None
            return kept.key
