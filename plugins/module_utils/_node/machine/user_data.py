# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A scale set's user data: what it says to this collection, among whatever else it may be."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from .config import SCHEMA, ConfigError

KEY = "hpcai"
"""The key under which the cluster's settings stand."""
LONGEST = 87384
"""Characters: 64 KiB, all that Azure takes, in base64."""

_WHERE = f"'{KEY}' in the machine's user data"


def settings_in(user_data: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return the settings for this collection without the schema's version, or None and why there are none.

    User data belongs to the site: a shell script, YAML or nothing at all is no error. JSON is, behind lines that start
    with ``#``, so that ``#cloud-config`` may stand first.

    :param user_data: base64, as the metadata service has it.
    :raises ConfigError: there are settings, but not ones that this code can read.
    """
    if not user_data.strip():
        return None, "the machine has no user data"
    if len(user_data) > LONGEST:
        return None, "the user data is longer than 64 KiB"
    try:
        text = base64.b64decode("".join(user_data.split()), validate=True).decode("utf-8-sig")
    except (binascii.Error, ValueError):
        return None, "the user data is no text in base64"
    lines = text.splitlines()
    while lines and (not lines[0].strip() or lines[0].startswith("#")):
        del lines[0]
    text = "\n".join(lines)
    if not text.startswith("{"):
        yaml = any(line.startswith(f"{KEY}:") for line in lines)
        return None, f"the user data is not JSON{f': write {KEY} as JSON, not as YAML' if yaml else ''}"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        if f'"{KEY}"' in text:
            # The position, not the text: user data may hold what is not for logs.
            place = f" (line {error.lineno} of the JSON)" if isinstance(error, json.JSONDecodeError) else ""
            raise ConfigError(f"{_WHERE} cannot be read, it is not JSON{place}: {_CURE}.") from None
        return None, "the user data is not JSON"
    if KEY not in document:
        return None, f"the user data has no '{KEY}'"
    return _settings(document[KEY]), ""


_CURE = "correct the user data of the scale set (guide_joining) and restart the machine"


def _settings(stated: Any) -> Mapping[str, Any]:
    if not isinstance(stated, dict):
        raise ConfigError(f"{_WHERE} is no JSON object: {_CURE}.")
    schema = stated.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ConfigError(f"{_WHERE} has no schema version: {_CURE}.")
    if schema > SCHEMA:
        raise ConfigError(
            f"{_WHERE} has schema {schema}, and this hpcnode knows {SCHEMA} at most: bake the image anew with the "
            f"collection that the user data was written for."
        )
    return {key: value for key, value in stated.items() if key != "schema"}
