# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Reads the node's settings in /etc/hpcai, which Ansible writes. It needs no network, so it works at boot."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from ..forms import ConfigError, Form
from .root import Root

__all__ = ["FOLDER", "SCHEMA", "ConfigError", "as_config", "read_checked", "read_config"]

_T = TypeVar("_T")

FOLDER = "/etc/hpcai"
SCHEMA = 1
"""The schema version that this code writes, and the newest that it reads."""


def read_config(root: Root, name: str) -> dict[str, Any] | None:
    """Return the settings of ``/etc/hpcai/<name>.json`` without the schema version; None if there is no file.

    :raises ConfigError: it cannot be read, is not a JSON object, or has a newer schema.
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
        raise ConfigError(
            f"{root.at(path)} is not valid JSON ({error}): run the playbook again, which writes it."
        ) from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{root.at(path)} is not a JSON object: run the playbook again, which writes it.")
    schema = settings.pop("schema", None)
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ConfigError(f"{root.at(path)} has no schema version: run the playbook again, which writes it.")
    if schema > SCHEMA:
        raise ConfigError(
            f"{root.at(path)} has schema {schema}, but this hpcnode supports at most {SCHEMA}: "
            f"install the hpcnode of the collection that wrote it (role hpcai.azure.node_tools)."
        )
    return settings


def read_checked(root: Root, name: str, form: Form[_T]) -> _T | None:
    """Return the checked settings of ``/etc/hpcai/<name>.json``; None if there is no file.

    :raises ConfigError: they cannot be read or are invalid.
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
