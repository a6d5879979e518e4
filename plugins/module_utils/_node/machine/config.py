# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The node's settings below /etc/hpcai, written by Ansible and read at boot, when there is no network."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from ..forms import ConfigError, Form
from .root import Root

__all__ = ["FOLDER", "SCHEMA", "ConfigError", "as_config", "read_checked", "read_config"]

_T = TypeVar("_T")

FOLDER = "/etc/hpcai"
SCHEMA = 1
"""Version of the files' schema that this code writes, and the newest that it reads."""


def read_config(root: Root, name: str) -> dict[str, Any] | None:
    """Return the settings of ``/etc/hpcai/<name>.json`` without the schema's version; None if the file is not there.

    :raises ConfigError: it is not readable, no JSON object, or of a newer schema.
    """
    path = f"{FOLDER}/{name}.json"
    if not root.exists(path):
        return None
    text = root.text(path)
    if text is None:
        raise ConfigError(f"{root.at(path)} cannot be read: run as root.")
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{root.at(path)} is no JSON ({error}): run the playbook again, which writes it.") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{root.at(path)} holds no JSON object: run the playbook again, which writes it.")
    schema = settings.pop("schema", None)
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ConfigError(f"{root.at(path)} has no schema version: run the playbook again, which writes it.")
    if schema > SCHEMA:
        raise ConfigError(
            f"{root.at(path)} has schema {schema}, and this hpcnode knows {SCHEMA} at most: "
            f"install the hpcnode of the collection that wrote it (role hpcai.azure.node_tools)."
        )
    return settings


def read_checked(root: Root, name: str, form: Form[_T]) -> _T | None:
    """Return the settings of ``/etc/hpcai/<name>.json`` in their form; None if the file is not there.

    :raises ConfigError: they cannot be read or have another form.
    """
    settings = read_config(root, name)
    try:
        return None if settings is None else form("", settings)
    except ConfigError as error:
        path = root.at(f"{FOLDER}/{name}.json")
        raise ConfigError(
            f"{path}: {error} Correct the inventory and run the playbook again, which writes it."
        ) from None


def as_config(settings: dict[str, Any]) -> str:
    """Return the text of a settings file."""
    return json.dumps({"schema": SCHEMA, **settings}, indent=2, sort_keys=True) + "\n"
