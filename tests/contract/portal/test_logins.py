# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The authenticators within the real JupyterHub, without a hub that runs. test_openid_logins.py has a browser."""

from __future__ import annotations

from stand_ins import portal as stand_in

LOGINS = """
import asyncio, json
from hpcai_portal import logins, openid, users

ACCOUNTS = {"Alice": users.Account("Alice", 4001, ("ops",)), "alice": users.Account("alice", 4002)}
users.account_of = ACCOUNTS.get
"""
KEYS = """
made = logins.OpenIdUsers(client_id="portal", issuer="https://idp.example.org")
asked, answers = [], ["old"]

async def discover():
    made._keys_url = "https://idp.example.org/keys"

async def ask(address):
    asked.append(address)
    await asyncio.sleep(0.1)
    if not answers:
        raise openid.ProviderProblem("away")
    return answers[0]

def claims_of(token, keys, issuer, client):
    if token != keys:
        raise openid.UnknownKey("unknown key")
    return {"token": token}

made.discover, made._ask, openid.claims_of = discover, ask, claims_of

async def login(token):
    try:
        return (await made.token_to_user({"id_token": token}))["token"]
    except logins.web.HTTPError as error:
        return error.status_code

async def logins_of(*tokens):
    return await asyncio.gather(*(login(token) for token in tokens))
"""


def test_names_that_differ_in_case_are_different_users() -> None:
    """JupyterHub makes names lower case, and the hub would then submit jobs as another user."""
    program = """
async def login(name):
    made = logins.PamUsers()
    async def check(handler, data):
        return made.model_of(data["username"])
    made.authenticate = check
    return await made.get_authenticated_user(None, {"username": name, "password": "x"})
found = [asyncio.run(login(name)) for name in ("Alice", "alice")]
print(json.dumps([[one["name"], one["groups"]] for one in found]))
"""
    assert stand_in.in_hub(LOGINS + program.replace("PamUsers()", "PamUsers(allow_all=True)")) == [
        ["Alice", ["ops"]],
        ["alice", []],
    ]


def test_nobody_is_an_admin_who_may_act_as_others() -> None:
    program = """
made = logins.PamUsers(rules=users.Rules(admin_groups=("ops",)))
print(json.dumps([made.model_of(name)["admin"] for name in ACCOUNTS]))
"""
    assert stand_in.in_hub(LOGINS + program) == [False, False]


def test_logins_at_the_same_time_wait_for_the_same_keys() -> None:
    program = "print(json.dumps([asyncio.run(logins_of('old', 'old', 'old')), len(asked)]))"
    assert stand_in.in_hub(LOGINS + KEYS + program) == [["old", "old", "old"], 1]


def test_keys_are_asked_for_again_if_the_provider_did_not_answer() -> None:
    program = """
async def main():
    answers.clear()
    first = await login("old")
    second = await login("old")
    answers.append("old")
    return [first, second, await login("old")]
print(json.dumps(asyncio.run(main())))
"""
    assert stand_in.in_hub(LOGINS + KEYS + program) == [503, 503, "old"]


def test_an_unknown_key_is_asked_for_once_a_minute() -> None:
    program = """
async def main():
    found = [await login("old"), await login("new"), await login("new")]
    made._keys_asked -= logins.KEYS_AGE_S
    answers[:] = ["new"]
    return [found, await logins_of("new", "new"), len(asked)]
print(json.dumps(asyncio.run(main())))
"""
    assert stand_in.in_hub(LOGINS + KEYS + program) == [["old", 403, 403], ["new", "new"], 2]
