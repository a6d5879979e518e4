# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What user data says to this collection, whatever else it may be."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.user_data import settings_in

SETTINGS = {"schema": 1, "cluster": "training", "functions": ["compute"], "controllers": ["10.0.0.4"]}
STATED = {key: value for key, value in SETTINGS.items() if key != "schema"}
GOOD = json.dumps({"hpcai": SETTINGS})


def encoded(text: str | bytes) -> str:
    """As the metadata service has it."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"#cloud-config\n{GOOD}\n",
        f"#cloud-config\n\n  \n# the cluster\n{GOOD}",
        f"\ufeff{GOOD}",
        json.dumps({"runcmd": [], "hpcai": SETTINGS}, indent=2),
        GOOD.replace(", ", ",\r\n"),
    ],
)
def test_settings_are_found_in_json(text: str) -> None:
    assert settings_in(encoded(text)) == (STATED, "")


def test_base64_may_be_broken_into_lines() -> None:
    text = encoded(GOOD)
    assert settings_in(f"{text[:40]}\n{text[40:]}\n")[0] == STATED


@pytest.mark.parametrize(
    ("user_data", "why"),
    [
        ("", "no user data"),
        (encoded(" \n"), "not JSON"),
        (encoded("#!/bin/sh\necho hello\n"), "not JSON"),
        (encoded("#cloud-config\nruncmd:\n  - [ls]\n"), "not JSON"),
        (encoded("#cloud-config\nhpcai:\n  cluster: training\n"), "write hpcai as JSON, not as YAML"),
        (encoded("{broken"), "not JSON"),
        (encoded('["hpcai"]'), "not JSON"),
        (encoded('{"a": 1}'), "has no 'hpcai'"),
        (encoded("[" * 60000), "not JSON"),
        (encoded('{"a":' * 10000), "not JSON"),
        (encoded(b"\xff\xfe\x00"), "no text in base64"),
        (encoded(gzip.compress(GOOD.encode())), "no text in base64"),
        ("!!!!", "no text in base64"),
        ("ü", "no text in base64"),
        (GOOD, "no text in base64"),
        (encoded(" " * 70000 + GOOD), "longer than 64 KiB"),
    ],
)
def test_anything_else_is_no_error_but_said(user_data: str, why: str) -> None:
    stated, said = settings_in(user_data)
    assert stated is None
    assert why in said


@pytest.mark.parametrize(
    ("hpcai", "why"),
    [
        ("compute", "is no JSON object"),
        (None, "is no JSON object"),
        ([], "is no JSON object"),
        ({}, "has no schema version"),
        ({"schema": "1"}, "has no schema version"),
        ({"schema": True}, "has no schema version"),
        ({"schema": 0}, "has no schema version"),
        ({"schema": 2}, "has schema 2, and this hpcnode knows 1 at most"),
    ],
)
def test_settings_that_cannot_be_read_are_one_error(hpcai: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        settings_in(encoded(json.dumps({"hpcai": hpcai})))
    assert "\n" not in str(caught.value)


def test_a_slip_in_json_that_means_us_is_an_error_without_the_text() -> None:
    with pytest.raises(ConfigError, match=r"it is not JSON \(line 2 of the JSON\)") as caught:
        settings_in(encoded('#cloud-config\n{"password": "hush",\n "hpcai": {,}}'))
    assert "hush" not in str(caught.value)
