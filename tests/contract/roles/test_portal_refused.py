# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings that the role portal refuses, before it changes the machine."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from .conftest import LOCAL, Evaluate

ROLE = pathlib.Path(__file__).resolve().parents[3] / "roles/portal"
OPENID = {"issuer": "https://idp", "client_id": "c"}
REFUSE = "Refuse settings with which the portal would not work"


def problems(evaluate: Evaluate, **given: Any) -> str:
    """The messages of the hub's host."""
    tasks = yaml.safe_load((ROLE / "tasks/hub.yml").read_text(encoding="utf-8"))
    (task,) = [one for one in tasks if one["name"] == REFUSE]
    facts = {"hostname": "login", "os_family": "Debian", "distribution": "Debian", "distribution_major_version": "13"}
    inventory = {
        "all": {
            "vars": {**LOCAL, "portal_address": "10.0.0.5", "portal_host": "login", **given},
            "hosts": {"login": {}},
        }
    }
    expressions = {"problems": "{{ __portal_problems | join(' ') }}"}
    (found,) = evaluate("hpcai.azure.portal", inventory, expressions, ansible_facts=facts, **task["vars"]).values()
    return str(found["problems"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, ""),
        ({"portal_address": "fd00::5"}, ""),
        ({"portal_address": "login.example.org"}, "Set portal_address to the IP address"),
        ({"portal_address": ""}, "Set portal_address to the IP address"),
        ({"portal_pages": [{"name": "news", "path": "/x"}, {"name": "a-1", "path": "/x"}]}, ""),
        ({"portal_pages": [{"name": "Grafana", "path": "/x"}]}, "can only have the characters a-z"),
        ({"portal_pages": [{"name": "a/b", "path": "/x"}]}, "can only have the characters a-z"),
        ({"portal_pages": [{"name": "a", "path": "/x"}] * 2}, "two pages with the name a"),
        (
            {"portal_pages": [{"name": "health", "path": "/x"}], "portal_operators": ["x"]},
            "two pages with the name health",
        ),
        ({"portal_domain": "portal.example.org"}, ""),
        *(
            ({"portal_domain": name}, "must be a DNS name")
            for name in ("portal", "https://a.b", "A.b", "a.b:443", "10.0.0.5")
        ),
        (
            {"portal_domain": "a.b", "portal_openid": {**OPENID, "oauth_callback_url": "https://x/hub/oauth_callback"}},
            "must be https://a.b/hub/oauth_callback.",
        ),
        (
            {
                "portal_domain": "a.b",
                "portal_port": 8443,
                "portal_openid": {**OPENID, "oauth_callback_url": "https://a.b:8443/hub/oauth_callback"},
                "portal_openid_secret": "x",
            },
            "",
        ),
        ({"portal_hub_port": 8081}, "portal_hub_port must be below 1024"),
        ({"portal_certificate": "/x"}, "Set both portal_certificate and portal_certificate_key"),
        ({"portal_openid": {"issuer": "https://x"}}, "portal_openid needs issuer, client_id"),
        ({"portal_monitoring_url": "http://x"}, "portal_monitoring_url needs portal_operators"),
    ],
)
def test_what_would_not_work_is_refused(evaluate: Evaluate, given: dict[str, Any], message: str) -> None:
    found = problems(evaluate, **given)
    assert bool(found) is bool(message)
    assert message in found


def test_compute_nodes_and_images_need_the_address_too() -> None:
    first = yaml.safe_load((ROLE / "tasks/notebooks.yml").read_text(encoding="utf-8"))[0]
    assert first["ansible.builtin.assert"]["that"] == "__portal_address_problems | length == 0"
