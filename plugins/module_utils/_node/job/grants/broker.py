# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Answers one question of one user: who asks is known by the socket, what is granted by root's files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from ...machine.azure import container_sas
from ...machine.config import ConfigError
from ...machine.imds import ImdsError
from ...machine.registry import RegistryError, registry_password
from ...machine.root import Root
from ...setup.containers.options import SETTINGS as CONTAINERS
from ...setup.containers.options import read_options
from .keys import Keys, Unavailable
from .policy import NotGranted, decide, decide_registry, granted, groups_of, mentioned, user_of
from .protocol import BLOB, PERMISSIONS, REGISTRY, Malformed, Question, question_of
from .settings import read_settings

Answer = dict[str, Any]


def _log(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Broker:
    """Gives users what the cluster's definition grants them.

    :param root: whose settings are read, for each question: an administrator's change holds from the next one on.
    :param keys: of storage accounts.
    :param password: gives a registry's password, by its name and the client id.
    :param log: takes a line for the journal; no line contains a secret.
    """

    def __init__(
        self,
        root: Root,
        keys: Keys,
        password: Callable[[str, str], str] = lambda name, client_id: registry_password(name, client_id or None),
        log: Callable[[str], None] = _log,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root, self._keys, self._password, self._log, self._clock = root, keys, password, log, clock

    def answer(self, uid: int, line: bytes) -> Answer:
        """Return the answer to a line: with ``error`` where there is nothing to give. Never raises."""
        try:
            return self._answer(uid, line)
        except Malformed as error:
            self._log(f"uid {uid}: malformed request refused")
            return {"error": f"{error}."}
        except NotGranted as error:
            self._log(f"uid {uid}: refused: {error}")
            return {"error": f"{error}."}
        except (Unavailable, ImdsError, RegistryError) as error:
            self._log(f"uid {uid}: cannot be served: {error}")
            return {"error": f"Azure does not give what is granted to you: {error}"}
        except ConfigError as error:
            self._log(f"the settings cannot be used, and nothing is granted: {error}")
            return {"error": "the grants of this node cannot be read. Ask an administrator to see its journal."}
        except Exception as error:
            # Its text may contain anything.
            self._log(f"uid {uid}: defect: {type(error).__name__}")
            return {"error": "the service failed. Ask an administrator to see the journal of hpcai-grants."}

    def _answer(self, uid: int, line: bytes) -> Answer:
        user = user_of(uid)
        asked = question_of(line)
        if asked.kind == REGISTRY:
            return self._registry(user, asked)
        settings = read_settings(self._root)
        groups = groups_of(user, mentioned(settings.grants))
        if asked.kind != BLOB:
            own = granted(settings.grants, groups)
            return {"user": user.pw_name, "grants": [{"container": one.url, "rights": one.rights} for one in own]}
        grant = decide(settings.grants, groups, asked.what, asked.need)
        key = self._keys.key(grant.account, settings.client_id, settings.life_s)
        until = self._clock() + settings.life_s
        sas = container_sas(key, grant.account, grant.container, PERMISSIONS[asked.need], until)
        self._log(f"{user.pw_name} (uid {uid}): {asked.need} of {grant.url} for {settings.life_s} s")
        return {"sas": sas, "seconds": settings.life_s}

    def _registry(self, user: Any, asked: Question) -> Answer:
        options = read_options(self._root)
        if options is None:
            raise NotGranted(f"this node has no {CONTAINERS}, so no registry is granted")
        groups = groups_of(user, {name for names in options.acr_groups.values() for name in names})
        name = decide_registry(options.acr_registries, options.acr_groups, groups, asked.what)
        password = self._password(name, options.acr_client_id)
        self._log(f"{user.pw_name} (uid {user.pw_uid}): password of {name}")
        return {"password": password}
