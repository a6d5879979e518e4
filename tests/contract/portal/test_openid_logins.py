# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The portal with an OpenID provider, a given certificate and its pages: real JupyterHub and proxy, in Chromium.

Notebooks as Slurm jobs, and passwords, are tested by tests/cluster/test_portal.py.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from browser.report_page import Pages
from stand_ins import monitor
from stand_ins.door import SLOW_S, Door, open_door
from stand_ins.oidc import FAULTS

ACCOUNTS: dict[str, list[Any]] = {
    "alice": [4001, ["alice", "vision"]],
    "bob": [4002, ["bob", "vision", "operators"]],
    "carol": [4003, ["carol"]],
    "erin": [4005, ["vision", "helpdesk"]],
    "sudoer": [4004, ["sudo", "vision"]],
    "root": [0, ["root", "vision"]],
}
CLAIMS: dict[str, dict[str, Any]] = {
    **{name: {"preferred_username": f"{name}@example.org"} for name in (*ACCOUNTS, "dave")},
    "mallory": {"preferred_username": "alice@evil.example.org"},
    "noname": {"email": "alice@example.org"},
    "list": {"preferred_username": ["alice@example.org"]},
}
GROUPS = {"groups": ["vision"], "refused_groups": ["sudo", "wheel"], "refused_users": [], "admin_groups": ["helpdesk"]}
# "builder", with bcrypt.
MONITORING_USER = {"portal": "$2b$12$1kYxGPJCTEsirQUfEzn3QegZ1DVtMjPVnks0a3hClkEmlVtpvDHlG"}
MONITORING_LOGIN = "cG9ydGFsOmJ1aWxkZXI="

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the portal's files."""
    return tmp_path_factory.mktemp("portal")


@pytest.fixture(scope="module")
def monitoring(folder: pathlib.Path, port: int) -> Iterator[str]:
    """A real Prometheus with a login, below the portal's address."""
    with monitor.behind(folder, f"https://127.0.0.1:{port}/services/monitoring", MONITORING_USER) as url:
        yield url


@pytest.fixture(scope="module")
def port() -> int:
    """The port of the portal."""
    return monitor.free_port()


@pytest.fixture(scope="module")
def door(folder: pathlib.Path, port: int, monitoring: str) -> Iterator[Door]:
    """The portal; nobody is logged in."""
    page = {"path": "", "url": "", "groups": ["operators"], "login": False}
    pages = [
        {**page, "name": "health", "path": str(Pages(folder)[3])},
        {**page, "name": "monitoring", "url": monitoring, "login": True},
    ]
    login = {"PORTAL_MONITORING_LOGIN": MONITORING_LOGIN}
    with open_door(folder, port, ACCOUNTS, CLAIMS, login, rules=GROUPS, pages=pages) as opened:
        yield opened


# Before all other tests: afterwards the hub knows the provider.
def test_users_see_that_the_provider_is_away(door: Door) -> None:
    door.provider.away = True
    try:
        door.portal.open("/hub/oauth_login")
        door.portal.wait_for("The login provider does not answer", SLOW_S)
    finally:
        door.provider.away = False


def test_a_user_of_the_cluster_logs_in(door: Door) -> None:
    door.log_in("alice")
    door.portal.open("/hub/home")
    door.portal.wait_for("alice", SLOW_S)
    assert door.portal.at() == "/hub/home"
    door.provider.rotate()
    door.log_in("bob")
    door.portal.open("/hub/home")
    door.portal.wait_for("bob", SLOW_S)


@pytest.mark.daily(3)
@pytest.mark.parametrize(
    ("account", "message"),
    [
        ("carol", "carol is in none of the groups vision"),
        ("dave", "dave is not a user of this cluster"),
        ("mallory", "your account's preferred_username is no user name of this cluster"),
        ("sudoer", "sudoer is in the group sudo"),
        ("root", "root is a system user"),
        ("noname", "your account's preferred_username is no user name of this cluster"),
        ("list", "your account's preferred_username is no user name of this cluster"),
    ],
)
def test_an_account_that_may_not_log_in_is_refused_with_the_reason(door: Door, account: str, message: str) -> None:
    door.log_in(account)
    door.portal.wait_for(f"Login refused: {message}", SLOW_S)
    door.portal.wait_for("403")
    not_logged_in(door)


@pytest.mark.daily(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_token_with_a_fault_logs_nobody_in(door: Door, fault: str) -> None:
    door.log_in("alice", fault)
    door.portal.wait_for("the provider's answer is not valid", SLOW_S)
    not_logged_in(door)


def not_logged_in(door: Door) -> None:
    """The browser has no session."""
    door.portal.open("/hub/home")
    door.portal.page.wait("location.pathname === '/hub/login'", SLOW_S)


def test_a_code_of_somebody_elses_login_is_refused(door: Door) -> None:
    door.portal.forget()
    door.portal.open("/hub/oauth_callback?code=x&state=eyJzdGF0ZV9pZCI6ICJ4In0=")
    door.portal.wait_for("OAuth state missing from cookies", SLOW_S)


def test_pages_are_for_the_operators_only(door: Door) -> None:
    door.log_in("alice")
    for name in ("health", "monitoring"):
        door.portal.open(f"/services/{name}/")
        door.portal.wait_for("403", SLOW_S)
    door.log_in("bob")
    door.portal.open("/services/health/nothing")
    door.portal.wait_for("404: There is no such page", SLOW_S)
    door.portal.open("/services/health/")
    # The page works in the origin of its own that it gets.
    door.portal.page.wait("document.documentElement.dataset.painted !== undefined", SLOW_S)
    door.portal.wait_for("trainer")
    assert door.portal.page.run("origin") == "null"


def test_the_monitorings_pages_work_below_the_portals_address(door: Door) -> None:
    door.log_in("bob")
    door.portal.page.events.clear()
    door.portal.open("/services/monitoring/consoles/hpcai.html")
    door.portal.wait_for("GPU utilisation", SLOW_S)
    door.portal.click("a[href='hpcai-nodes.html']")
    door.portal.page.wait("location.pathname === '/services/monitoring/consoles/hpcai-nodes.html'", SLOW_S)
    assert not [words for words in door.portal.page.complaints() if "favicon" not in words]


def test_another_users_token_opens_neither_server_nor_page(door: Door) -> None:
    door.log_in("bob")
    bobs = door.portal.token()
    door.log_in("alice")
    alices = door.portal.token()
    door.log_in("erin")
    erins = door.portal.token()
    door.log_in("alice")
    door.portal.open("/hub/spawn")
    door.portal.page.wait("location.pathname.startsWith('/user/alice/')", SLOW_S)

    def status(path: str, token: str, method: str = "GET", data: bytes | None = None) -> int:
        return door.portal.status(door.certificate, path, token, method, data)

    contents = "/user/alice/api/contents"
    assert status(contents, alices) == 200
    assert [status(contents, token) for token in (bobs, erins, "x" * 32, "")] == [403, 403, 403, 403]
    assert status("/hub/api/user", bobs) == 200
    assert status("/hub/api/users/alice", bobs) in (403, 404)
    assert status("/hub/api/users/alice/server", bobs, "DELETE") in (403, 404)
    # Nor can it say that it is a notebook.
    assert status("/hub/api/hpcai/notebook", bobs, "POST", b'{"port": 21000}') == 403
    assert [status("/services/health/", token) for token in (bobs, alices, erins)] == [200, 403, 403]
    assert status(contents, alices) == 200
    # A member of portal_admin_groups sees and stops the notebook, and cannot act as its user.
    assert status("/hub/api/users/alice", erins) == 200
    assert status("/hub/api/users/alice/tokens", erins, "POST", b"{}") in (403, 404)
    assert status("/hub/api/users/alice", erins, "PATCH", b'{"admin": true}') in (403, 404)
    assert status("/hub/api/users/alice/server", erins, "DELETE") in (202, 204)
