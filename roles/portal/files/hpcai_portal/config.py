# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JupyterHub's configuration, from the settings that the role writes.

Classes are named by their paths, so this module needs neither JupyterHub nor batchspawner.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .users import Rules

SETTINGS = "/etc/hpcai/portal/portal.json"
PAGE_STARTS_S = 300
"""Seconds for the server of a page to start. The hub ends if one takes longer; its default, 30 s, is too short on a
machine that is busy or has just booted."""
NOTEBOOK_STARTS_S = 300
"""Seconds for a notebook's server to start, after the time in the queue. JupyterHub then shows only "Timeout"."""
POLL_S = 10
"""How often the hub looks whether a notebook's job runs. When the job has ended, another user of the node can listen at
its port, to which the proxy forwards until then. Each look is one squeue per notebook; JupyterHub's default is 30 s."""
ADMIN_SCOPES = ("admin-ui", "list:users", "read:users", "read:servers", "delete:servers")
"""What members of ``portal_admin_groups`` may do. JupyterHub's own role "admin" may act as every user."""
_LIBRARY = str(Path(__file__).resolve().parents[1])


def read(path: str = SETTINGS) -> dict[str, Any]:
    """Read the settings."""
    settings: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    if settings.get("schema") != 1:
        raise SystemExit(f"{path} has the schema {settings.get('schema')!r}, and this portal knows 1. Run site.yml.")
    return {**settings, "file": path}


def apply(c: Any, settings: Mapping[str, Any], env: Mapping[str, str]) -> None:
    """Set JupyterHub's options.

    :param c: JupyterHub's configuration object.
    :param env: the hub's environment, in which systemd puts the secrets.
    """
    address, state = settings["address"], settings["state"]
    hub = c.JupyterHub
    hub.hub_bind_url = f"http://{address}:{settings['hub_port']}"
    hub.bind_url = f"http://:{settings['port']}"
    hub.db_url = f"sqlite:///{state}/jupyterhub.sqlite"
    hub.cookie_secret_file = f"{state}/cookie_secret"
    if settings["domain"]:
        _own_origins(hub, settings["domain"], settings["port"])
    # A restart of the hub or of the proxy must not end notebooks.
    hub.cleanup_servers = False
    hub.cleanup_proxy = False
    hub.spawner_class = "hpcai_portal.spawner.SlurmNotebook"
    # It makes a copy of the database first.
    hub.upgrade_db = True
    # Also how often the hub adds missing routes to the proxy, after a restart of the proxy.
    hub.last_activity_interval = 15
    hub.template_vars = {"announcement_login": settings["announcement"]} if settings["announcement"] else {}
    c.ConfigurableHTTPProxy.should_start = False
    c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{settings['proxy_api_port']}"
    c.ConfigurableHTTPProxy.auth_token = env["CONFIGPROXY_AUTH_TOKEN"]
    _logins(c, settings, env)
    _notebooks(c, settings)
    _pages(c, settings, env)


def _own_origins(hub: Any, domain: str, port: int) -> None:
    """Give each user's notebook, and each page, a name of its own below the portal's: an origin of its own."""
    hub.subdomain_host = f"https://{domain}" + (f":{port}" if port != 443 else "")
    # A user's page may set cookies for the portal's name. A browser accepts cookies with the prefix __Host- only from
    # the name that they are for.
    hub.cookie_host_prefix_enabled = True


def _logins(c: Any, settings: Mapping[str, Any], env: Mapping[str, str]) -> None:
    c.Authenticator.allow_all = True
    c.Authenticator.manage_groups = True
    c.Authenticator.auth_refresh_age = 300
    c.Authenticator.refresh_pre_spawn = True
    given: dict[str, Any] = {name: tuple(value) for name, value in settings["rules"].items()}
    rules = Rules(**given)
    openid = settings["openid"]
    if not openid:
        c.JupyterHub.authenticator_class = "hpcai_portal.logins.PamUsers"
        c.PamUsers.rules = rules
        c.PamUsers.service = "hpcai-portal"
        # The hub is not root, and its sessions are not the user's.
        c.PamUsers.open_sessions = False
        return
    c.JupyterHub.authenticator_class = "hpcai_portal.logins.OpenIdUsers"
    for name, value in openid.items():
        setattr(c.OpenIdUsers, name, value)
    c.OpenIdUsers.rules = rules
    c.OpenIdUsers.client_secret = env["PORTAL_OPENID_SECRET"]


def _notebooks(c: Any, settings: Mapping[str, Any]) -> None:
    notebooks = settings["notebooks"]
    c.Spawner.start_timeout = notebooks["wait_minutes"] * 60 + NOTEBOOK_STARTS_S
    c.Spawner.http_timeout = 60
    c.Spawner.poll_interval = POLL_S
    c.Spawner.default_url = "/lab"
    c.Spawner.env_keep = []
    # The command is the role's own, and users cannot add environment variables.
    # The spawner reads them itself.
    c.SlurmNotebook.apply_user_options = _leave_options
    c.SlurmNotebook.only_partitions = notebooks["partitions"]
    c.SlurmNotebook.wait_minutes = notebooks["wait_minutes"]
    c.SlurmNotebook.longest_hours = notebooks["hours"]
    c.SlurmNotebook.containers = notebooks["containers"]
    c.SlurmNotebook.own_containers = notebooks["own_containers"]
    c.SlurmNotebook.ports = notebooks["ports"]
    c.SlurmNotebook.notebook_arguments = [f"--idle-minutes={notebooks['idle_minutes']}"]


def _leave_options(_spawner: Any, _options: Any) -> None:
    pass


def _pages(c: Any, settings: Mapping[str, Any], env: Mapping[str, str]) -> None:
    services, roles = [], [{"name": "user", "scopes": ["self"]}]
    for number, page in enumerate(settings["pages"]):
        login = {"PORTAL_PAGE_LOGIN": env["PORTAL_MONITORING_LOGIN"]} if page["login"] else {}
        services.append(
            {
                "name": page["name"],
                "url": f"http://127.0.0.1:{settings['pages_port'] + number}",
                "command": [settings["python"], "-m", "hpcai_portal.pages", page["name"], settings["file"]],
                "environment": {"PYTHONPATH": _LIBRARY, **login},
                "oauth_no_confirm": True,
                "timeout": PAGE_STARTS_S,
            }
        )
        scopes = [f"access:services!service={page['name']}"]
        if page["groups"]:
            roles.append({"name": f"page-{page['name']}", "scopes": scopes, "groups": list(page["groups"])})
        else:
            roles[0]["scopes"] = [*roles[0]["scopes"], *scopes]
    admins = list(settings["rules"]["admin_groups"])
    if admins:
        roles.append({"name": "portal-admin", "scopes": list(ADMIN_SCOPES), "groups": admins})
    c.JupyterHub.services = services
    c.JupyterHub.load_roles = roles
