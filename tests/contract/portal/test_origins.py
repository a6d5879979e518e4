# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A link to the program of another user, at the real JupyterHub and proxy, in Chromium."""

from __future__ import annotations

import json
import pathlib
import urllib.request
from typing import Any

import pytest
from browser.report_page import Pages
from stand_ins import http_service
from stand_ins import portal as stand_in
from stand_ins.door import SLOW_S, Door, open_door
from stand_ins.monitor import free_port

ACCOUNTS: dict[str, list[Any]] = {"alice": [4001, ["alice"]], "mallory": [4002, ["mallory"]]}
CLAIMS = {name: {"preferred_username": f"{name}@example.org"} for name in ACCOUNTS}
RULES: dict[str, list[str]] = {"groups": [], "refused_groups": [], "refused_users": [], "admin_groups": []}
# Browsers resolve all names below localhost to this machine (RFC 6761).
DOMAIN = "portal.localhost"
# The hub's page contains the XSRF token with which its scripts change something.
TAKE_A_TOKEN = """
(async () => {
    try {
        const page = await (await fetch(HUB + '/hub/token', {mode: 'no-cors', credentials: 'include'})).text()
        const xsrf = (page.match(/xsrf_token: "([^"]+)"/) || [])[1] || ''
        const headers = {'X-XSRFToken': xsrf, 'Content-Type': 'application/json'}
        const options = {method: 'POST', credentials: 'include', headers, body: '{}'}
        const answer = await fetch(HUB + '/hub/api/users/alice/tokens', options)
        return `${answer.status} ${(await answer.text())}`
    } catch (error) { return `refused: ${error.name}` }
})()
"""

pytestmark = pytest.mark.timeout(1800)


def route(api_port: int, path: str = "", target: str = "") -> Any:
    """The proxy's routes, or add one, as the hub does when a notebook has reported its port."""
    data = json.dumps({"target": target}).encode() if path else None
    headers = {"Authorization": f"token {stand_in.SECRETS['CONFIGPROXY_AUTH_TOKEN']}"}
    request = urllib.request.Request(f"http://127.0.0.1:{api_port}/api/routes{path}", data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"{}")


def visit_mallory(door: Door, api_port: int) -> None:
    """alice starts her notebook, and opens a link to the program that mallory runs in place of a notebook."""
    door.log_in("alice")
    door.portal.open("/hub/spawn")
    door.portal.page.wait("location.pathname.startsWith('/user/alice/')", SLOW_S)
    (alices,) = [path for path in route(api_port) if "alice" in path]
    html: http_service.Answer = (200, {"Content-Type": "text/html"}, b"<title>mallory</title>")
    program = http_service.Service(html)
    try:
        route(api_port, alices.replace("alice", "mallory"), program.endpoint)
        link = door.portal.page.run("location.origin").replace("alice", "mallory") + "/user/mallory/x"
        door.portal.page.open(link)
        door.portal.page.wait("document.title === 'mallory'", SLOW_S)
    finally:
        program.stop()


@pytest.mark.parametrize(
    ("domain", "answer"), [pytest.param("", "201", marks=pytest.mark.thorough), (DOMAIN, "refused")], ids=["one", "own"]
)
def test_only_in_one_origin_for_all_another_users_page_gets_a_token(
    tmp_path: pathlib.Path, domain: str, answer: str
) -> None:
    """Without a domain, as the guide warns, the attack works: so this test would notice it."""
    page = {"name": "health", "path": str(Pages(tmp_path)[3]), "url": "", "groups": [], "login": False}
    port, api_port = free_port(), free_port()
    given: dict[str, Any] = {"domain": domain, "proxy_api_port": api_port, "rules": RULES, "pages": [page]}
    with open_door(tmp_path, port, ACCOUNTS, CLAIMS, {}, **given) as door:
        visit_mallory(door, api_port)
        own = f"https://mallory.{DOMAIN}:{port}" if domain else door.portal.url
        assert door.portal.page.run("location.origin") == own
        taken = str(door.portal.page.run(TAKE_A_TOKEN.replace("HUB", json.dumps(door.portal.url))))
        assert taken.startswith(answer), taken
        if domain:
            # alice's session at the hub, the pages and her own notebook still work.
            door.portal.page.open(f"https://health--service.{DOMAIN}:{port}/services/health/")
            door.portal.page.wait("document.documentElement.dataset.painted !== undefined", SLOW_S)
            door.portal.page.open(f"https://alice.{DOMAIN}:{port}/user/alice/api/status")
            door.portal.wait_for('"started"', SLOW_S)
            # Cookies that mallory's page could set for the portal's name are not those of a session.
            names = [one["name"] for one in door.portal.page.send("Network.getCookies")["cookies"]]
            assert "__Host-jupyterhub-user-alice" in names
        # A hub does not end notebooks when it ends.
        door.portal.stop()
