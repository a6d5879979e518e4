# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The protocol between a user's process and the service: a request and an answer, one line of JSON each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SOCKET = "/run/hpcai/grants.sock"
LONGEST_QUESTION = 4096
LONGEST_ANSWER = 65536

BLOB, REGISTRY, LIST, SIGN, KEY = "blob", "registry", "list", "sign", "key"
KINDS = (BLOB, REGISTRY, LIST, SIGN, KEY)
READ, WRITE, DELETE = "read", "write", "delete"
RIGHTS = (READ, WRITE, DELETE)
"""Each right includes those before it."""
PERMISSIONS: Mapping[str, str] = {READ: "rl", WRITE: "rcwl", DELETE: "rcwdl"}
"""The SAS permission letters of each right, in the order that Azure requires."""

_SIGNED = ("checkpoint", "manifest", "lineage")
_CHECKPOINT = re.compile(r"[A-Za-z0-9._-]{1,160}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_EXPECTED = 'expected one line of JSON such as {"ask": "blob", "what": "https://ACCOUNT.../CONTAINER", "need": "read"}'


class Malformed(ValueError):
    """The request is malformed; the message shows the expected form, and quotes nothing of the request."""


@dataclass(frozen=True)
class Question:
    """What a user's process requests.

    :ivar kind: one of KINDS.
    :ivar what: URL of a container; a registry; with SIGN the URL of a series of checkpoints, with KEY the version of
        the key; empty for LIST.
    :ivar need: with BLOB, one of RIGHTS.
    :ivar checkpoint: with SIGN, the checkpoint's id.
    :ivar manifest: with SIGN, the SHA-256 of its manifest.
    :ivar lineage: with SIGN, the SHA-256 of its lineage; empty if it has none.
    """

    kind: str
    what: str = ""
    need: str = READ
    checkpoint: str = ""
    manifest: str = ""
    lineage: str = ""


def question_of(line: bytes) -> Question:
    """Parse a line into a request.

    :raises Malformed: the line is not a valid request.
    """
    if len(line) > LONGEST_QUESTION:
        raise Malformed(f"the request is longer than {LONGEST_QUESTION} bytes: {_EXPECTED}")
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        raise Malformed(f"the request is not valid JSON: {_EXPECTED}") from None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise Malformed(f"the request is not a JSON object whose values are strings: {_EXPECTED}")
    signing = set(_SIGNED) if given.get("ask") == SIGN else set()
    if (
        set(given) - {"ask", "what", "need", *signing}
        or given.get("ask") not in KINDS
        or given.get("need", READ) not in RIGHTS
    ):
        raise Malformed(
            f"the request has an invalid key or value; valid are ask ({', '.join(KINDS)}), what and need "
            f"({', '.join(RIGHTS)}): {_EXPECTED}"
        )
    what = given.get("what", "")
    if (given["ask"] == LIST) == bool(what) or not what.isascii() or (what and not what.isprintable()):
        raise Malformed(f"the request names no container or registry that can be granted: {_EXPECTED}")
    if signing and not (
        _CHECKPOINT.fullmatch(given.get("checkpoint", ""))
        and _SHA256.fullmatch(given.get("manifest", ""))
        and (not given.get("lineage") or _SHA256.fullmatch(given["lineage"]))
    ):
        raise Malformed("sign needs checkpoint, an id, and manifest and lineage, which are SHA-256 in hexadecimal")
    return Question(given["ask"], what, given.get("need", READ), *(given.get(key, "") for key in _SIGNED))


def as_line(content: Mapping[str, Any]) -> bytes:
    """Encode a message as a line for the socket."""
    return json.dumps(content).encode() + b"\n"
