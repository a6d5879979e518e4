# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks requests and answers against the fields of Azure's published schemas.

schema_fields.py makes ``schema_fields.json``. Like Azure, the check of a request ignores the case of enumerations and
drops fields that only answers have.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

from simulator.arm.errors import ArmError

FILE = Path(__file__).parents[2] / "schema_fields.json"
SCALARS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}
ENVELOPE = ("id", "name", "type", "location", "tags", "etag", "systemData")


@cache
def document() -> dict[str, Any]:
    """The published fields."""
    return cast(dict[str, Any], json.loads(FILE.read_text(encoding="utf-8")))


def cleaned(kind: str, body: Any) -> dict[str, Any]:
    """A copy of a body without null and read-only fields. Raises ArmError for a field that the schema does not have."""
    if not isinstance(body, dict):
        raise ArmError(400, "InvalidRequestContent", "The request content was invalid and could not be deserialized.")
    return cast(dict[str, Any], _clean(document()["bodies"][kind], body, ""))


def writable(kind: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The part of an answer that a request may contain."""
    found: dict[str, Any] = _kept(document()["bodies"][kind], answer, read_only=False)
    return found


def published(kind: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The part of an answer that the schema knows."""
    found: dict[str, Any] = _kept(document()["answers"][kind], answer, read_only=True)
    return found


def _kept(form: Any, value: Any, *, read_only: bool) -> Any:
    if isinstance(form, dict) and "read-only" in form:
        form = form["read-only"]
    if isinstance(form, list) and isinstance(value, list):
        return [_kept(form[0], item, read_only=read_only) for item in value]
    if isinstance(form, dict) and isinstance(value, dict):
        return {key: _kept(form["*"], item, read_only=read_only) for key, item in value.items()}
    fields = document()["models"].get(form) if isinstance(form, str) else None
    if fields is None or not isinstance(value, dict):
        return value
    known = {key: item for key, item in value.items() if key in fields and (read_only or not _read_only(fields[key]))}
    found = {key: _kept(fields[key], item, read_only=read_only) for key, item in known.items()}
    return {key: item for key, item in found.items() if item or not known[key]}


def _read_only(form: Any) -> bool:
    return isinstance(form, dict) and "read-only" in form


def _clean(form: Any, value: Any, path: str) -> Any:
    if form == "any" or _read_only(form):
        return value
    if isinstance(form, list):
        if not isinstance(value, list):
            raise _wrong(path, "an array", value)
        return [_clean(form[0], item, f"{path}[{number}]") for number, item in enumerate(value)]
    if isinstance(form, dict):
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        return {key: _clean(form["*"], item, f"{path}.{key}") for key, item in value.items() if item is not None}
    if form in SCALARS:
        if not isinstance(value, SCALARS[form]) or (form in ("int", "float") and isinstance(value, bool)):
            raise _wrong(path, form, value)
        return value
    if "." not in form or "|" in form:
        return _choice(form.split("|"), value, path)
    return _model(form, value, path)


def _model(form: str, value: Any, path: str) -> dict[str, Any]:
    fields = document()["models"][form]
    if not isinstance(value, dict):
        raise _wrong(path, "an object", value)
    cleaned: dict[str, Any] = {}
    for key, item in value.items():
        found = next((name for name in fields if name.lower() == key.lower()), None)
        if found is None:
            where = f" at '{path.lstrip('.')}'" if path else ""
            raise ArmError(
                400,
                "InvalidRequestContent",
                f"The request content was invalid and could not be deserialized: 'Could not find member '{key}' on "
                f"object of type '{form.rpartition('.')[2]}'{where}.'",
            )
        if item is not None and (not _read_only(fields[found]) or found in ENVELOPE):
            cleaned[found] = _clean(fields[found], item, f"{path}.{found}")
    return cleaned


def _choice(choices: list[str], value: Any, path: str) -> Any:
    found = next((choice for choice in choices if isinstance(value, str) and choice.lower() == value.lower()), None)
    if found is None:
        raise _wrong(path, f"one of {', '.join(choices)}", value)
    return found


def _wrong(path: str, wanted: str, value: Any) -> ArmError:
    return ArmError(
        400,
        "InvalidRequestFormat",
        f"Cannot parse the request: the value of '{path.lstrip('.')}' must be {wanted}, not {json.dumps(value)[:80]}.",
    )
