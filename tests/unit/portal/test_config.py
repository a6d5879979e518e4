# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JupyterHub's configuration, from the settings that the role writes."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from hpcai_portal import config
from hpcai_portal.users import Rules

ENV = {
    "CONFIGPROXY_AUTH_TOKEN": "proxy-secret",
    "PORTAL_OPENID_SECRET": "client-secret",
    "PORTAL_MONITORING_LOGIN": "bG9naW4=",
}


class Options:
    """Any attribute can be set."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def settings(**changes: Any) -> dict[str, Any]:
    """The settings of a portal with the role's defaults."""
    notebooks = {
        "partitions": [],
        "hours": 8,
        "idle_minutes": 120,
        "wait_minutes": 30,
        "containers": {},
        "own_containers": False,
        "ports": [21000, 21999],
    }
    return {
        "schema": 1,
        "address": "10.0.0.5",
        "domain": "",
        "port": 443,
        "hub_port": 289,
        "proxy_api_port": 288,
        "pages_port": 290,
        "state": "/var/lib/hpcai/portal",
        "python": "/opt/hpcai/portal/venv/bin/python",
        "announcement": "",
        "rules": {"groups": ["vision"], "refused_groups": ["sudo"], "refused_users": ["azureuser"], "admin_groups": []},
        "openid": {},
        "notebooks": notebooks,
        "pages": [],
        "file": "/etc/hpcai/portal/portal.json",
        **changes,
    }


def applied(**changes: Any) -> dict[str, Any]:
    """The options by class that the settings lead to."""
    found: dict[str, Any] = defaultdict(Options)

    class Root:
        def __getattr__(self, name: str) -> Any:
            return found[name]

    config.apply(Root(), settings(**changes), ENV)
    return {name: vars(options) for name, options in found.items()}


def test_with_passwords_pam_decides_and_the_rules_apply() -> None:
    made = applied()
    assert made["JupyterHub"]["authenticator_class"] == "hpcai_portal.logins.PamUsers"
    assert made["PamUsers"] == {
        "rules": Rules(("vision",), ("sudo",), ("azureuser",), ()),
        "service": "hpcai-portal",
        "open_sessions": False,
    }
    assert "OpenIdUsers" not in made


def test_with_openid_the_provider_decides_and_the_rules_still_apply() -> None:
    made = applied(openid={"client_id": "c", "issuer": "https://idp", "domain": "example.org"})
    assert made["JupyterHub"]["authenticator_class"] == "hpcai_portal.logins.OpenIdUsers"
    assert made["OpenIdUsers"]["rules"].groups == ("vision",)
    assert made["OpenIdUsers"]["client_secret"] == "client-secret"
    assert made["OpenIdUsers"]["domain"] == "example.org"


def test_the_login_page_shows_the_announcement() -> None:
    assert applied()["JupyterHub"]["template_vars"] == {}
    # The name of JupyterHub's login page for it.
    assert applied(announcement="Friday")["JupyterHub"]["template_vars"] == {"announcement_login": "Friday"}


def test_only_the_chosen_partitions_are_offered() -> None:
    assert applied()["SlurmNotebook"]["only_partitions"] == []
    notebooks = {**settings()["notebooks"], "partitions": ["gpu"]}
    assert applied(notebooks=notebooks)["SlurmNotebook"]["only_partitions"] == ["gpu"]


def test_neither_hub_nor_proxy_end_notebooks_when_they_stop() -> None:
    made = applied()
    assert made["JupyterHub"]["cleanup_servers"] is False
    assert made["ConfigurableHTTPProxy"] == {
        "should_start": False,
        "api_url": "http://127.0.0.1:288",
        "auth_token": "proxy-secret",
    }


def test_with_a_domain_notebooks_have_names_below_it() -> None:
    assert "subdomain_host" not in applied()["JupyterHub"]
    made = applied(domain="portal.example.org")["JupyterHub"]
    assert made.get("subdomain_host") == "https://portal.example.org"
    assert made["cookie_host_prefix_enabled"] is True
    assert applied(domain="p.example.org", port=8443)["JupyterHub"]["subdomain_host"] == "https://p.example.org:8443"


def test_the_hub_listens_only_at_its_private_address() -> None:
    assert applied()["JupyterHub"]["hub_bind_url"] == "http://10.0.0.5:289"


def test_notebooks_get_the_settings_and_nothing_of_the_hubs_environment() -> None:
    made = applied()
    assert made["Spawner"]["env_keep"] == []
    # The spawner itself ends the wait in the queue, with a message.
    assert made["SlurmNotebook"]["wait_minutes"] == 30
    assert made["Spawner"]["start_timeout"] > 30 * 60
    assert made["SlurmNotebook"]["ports"] == [21000, 21999]
    # Until the hub knows that a job has ended, the proxy forwards to its port.
    assert made["Spawner"]["poll_interval"] <= 10
    assert made["SlurmNotebook"]["notebook_arguments"] == ["--idle-minutes=120"]


def test_a_page_is_for_its_groups_or_for_all() -> None:
    pages = [
        {"name": "health", "path": "/x", "url": "", "groups": ["operators"], "login": False},
        {"name": "news", "path": "/y", "url": "", "groups": [], "login": False},
    ]
    made = applied(pages=pages)["JupyterHub"]
    assert [(one["name"], one["url"]) for one in made["services"]] == [
        ("health", "http://127.0.0.1:290"),
        ("news", "http://127.0.0.1:291"),
    ]
    assert made["load_roles"] == [
        {"name": "user", "scopes": ["self", "access:services!service=news"]},
        {"name": "page-health", "scopes": ["access:services!service=health"], "groups": ["operators"]},
    ]


def test_admins_see_and_stop_notebooks_and_cannot_open_them() -> None:
    rules = {"groups": [], "refused_groups": [], "refused_users": [], "admin_groups": ["helpdesk"]}
    (_user, role) = applied(rules=rules)["JupyterHub"]["load_roles"]
    assert role == {
        "name": "portal-admin",
        "scopes": ["admin-ui", "list:users", "read:users", "read:servers", "delete:servers"],
        "groups": ["helpdesk"],
    }
    assert [one["name"] for one in applied()["JupyterHub"]["load_roles"]] == ["user"]


def test_a_new_jupyterhub_upgrades_its_database() -> None:
    assert applied()["JupyterHub"]["upgrade_db"] is True


def test_only_the_page_of_the_monitoring_gets_its_login() -> None:
    page = {"path": "", "url": "http://10.0.0.4:9090", "groups": ["operators"], "login": True}
    made = applied(pages=[{**page, "name": "monitoring"}, {**page, "name": "other", "login": False}])
    shown = [service["environment"].get("PORTAL_PAGE_LOGIN") for service in made["JupyterHub"]["services"]]
    assert shown == [ENV["PORTAL_MONITORING_LOGIN"], None]


def test_settings_of_another_schema_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "portal.json"
    file.write_text(json.dumps({**settings(), "schema": 2}), encoding="utf-8")
    with pytest.raises(SystemExit, match="schema 2"):
        config.read(str(file))
    file.write_text(json.dumps(settings()), encoding="utf-8")
    assert config.read(str(file))["port"] == 443
