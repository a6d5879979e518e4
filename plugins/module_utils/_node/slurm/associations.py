# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Slurm's accounts, users and QOS, in slurmdbd and in the settings.

Only what the settings contain is compared. A limit that is set in slurmdbd but not in the settings stays, and so does
everything else that they do not contain, unless a purge is requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..machine.run import CommandFailed, Run, must
from .limits import ASSOCIATION, QOS, BadSetting, canonical, given_settings, words_to_set

_KEPT_ACCOUNT, _KEPT_USER, _KEPT_QOS = "root", "root", "normal"
"""slurmdbd creates these itself, and a cluster needs them."""
_ADMIN_LEVELS = ("None", "Operator", "Administrator")
# The effective value of a setting that is not set.
_RESTING = {"Fairshare": "1", "UsageFactor": "1", "GraceTime": "0", "PreemptMode": "cluster", "Priority": "0"}

Key = tuple[str, ...]
"""(account,) or (account, user)."""


@dataclass
class Book:
    """The accounting of one cluster: the current or the wanted state.

    :ivar qos: settings of each QOS, in the form of `limits`.
    :ivar accounts: parent of each account, parents first.
    :ivar described: description and organization of accounts, in lower case, as sacctmgr stores them.
    :ivar limits: settings of accounts, and of users in accounts.
    :ivar defaults: each user's default account.
    :ivar admins: each user's admin level.
    :ivar has_cluster: slurmdbd knows the cluster.
    """

    qos: dict[str, dict[str, str]] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)
    described: dict[str, dict[str, str]] = field(default_factory=dict)
    limits: dict[Key, dict[str, str]] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    admins: dict[str, str] = field(default_factory=dict)
    has_cluster: bool = True


@dataclass(frozen=True)
class Step:
    """One call of sacctmgr, and a description of its change."""

    words: tuple[str, ...]
    before: str
    after: str


def desired_book(accounts: Mapping[str, Any], qos: Mapping[str, Any]) -> Book:
    """Return the wanted state from the settings.

    :raises BadSetting: a setting is invalid.
    """
    book = Book()
    # sacctmgr stores all names in lower case.
    for name, given in qos.items():
        book.qos[str(name).lower()] = given_settings(f"QOS {name}", _mapping(f"QOS {name}", given), QOS)
    _add_accounts(book, accounts, _KEPT_ACCOUNT)
    return book


def _add_accounts(book: Book, accounts: Mapping[str, Any], parent: str) -> None:
    for spelled, settings in accounts.items():
        name = str(spelled).lower()
        where = f"account {name}"
        given = _by_lower(_mapping(where, settings))
        if (name,) in book.limits:
            raise BadSetting(f"{where} is in the settings twice. Account names must be unique in the cluster.")
        if name != _KEPT_ACCOUNT:
            book.accounts[name] = parent
        users = _pop(given, "users") or {}
        children = _pop(given, "accounts") or {}
        texts = ((key, _pop(given, key)) for key in ("description", "organization"))
        book.described[name] = {key: str(value).lower() for key, value in texts if value is not None}
        book.limits[(name,)] = given_settings(where, dict(given.values()), ASSOCIATION)
        if not isinstance(users, Mapping):
            users = {user: {} for user in users}
        for user, user_settings in users.items():
            _add_user(book, name, str(user).lower(), _mapping(f"user {user} of {where}", user_settings))
        _add_accounts(book, _mapping(f"accounts below {name}", children), name)


def _add_user(book: Book, account: str, user: str, settings: Mapping[str, Any]) -> None:
    where = f"user {user} of account {account}"
    given = _by_lower(settings)
    is_default, level = _pop(given, "default"), _pop(given, "adminlevel")
    if level is not None:
        named = next((one for one in _ADMIN_LEVELS if one.lower() == str(level).lower()), None)
        if named is None:
            raise BadSetting(f"{where}: AdminLevel is {level!r}, but must be one of {', '.join(_ADMIN_LEVELS)}.")
        if book.admins.setdefault(user, named) != named:
            raise BadSetting(f"{where}: AdminLevel differs from that of {user} in another account.")
    if is_default:
        if user in book.defaults:
            raise BadSetting(f"{where}: {user} already has the default account {book.defaults[user]}.")
        book.defaults[user] = account
    book.limits[(account, user)] = given_settings(where, dict(given.values()), ASSOCIATION)


def _by_lower(given: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    return {str(key).lower(): (str(key), value) for key, value in given.items()}


def _pop(given: dict[str, tuple[str, Any]], key: str) -> Any:
    return given.pop(key, ("", None))[1]


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadSetting(f"{where} must be a mapping, not {value!r}.")
    return value


def read_book(cluster: str, run: Run) -> Book:
    """Read the current state from slurmdbd, through sacctmgr.

    :raises CommandFailed: slurmdbd does not answer.
    """
    book = Book(has_cluster=bool(_rows(run, "cluster", ["Cluster"], f"cluster={cluster}")))
    for name, *values in _rows(run, "qos", ["Name", *QOS]):
        book.qos[name] = _settings(QOS, values)
    for name, description, organization in _rows(run, "account", ["Account", "Description", "Organization"]):
        book.described[name] = {"description": description.lower(), "organization": organization.lower()}
    # Without WOPLimits, sacctmgr shows the limits of a parent as the child's own.
    shown = ["Account", "User", "Partition", "ParentName", *ASSOCIATION]
    for account, user, partition, parent, *values in _rows(
        run, "association", shown, f"cluster={cluster}", "WOPLimits"
    ):
        if partition:
            continue
        if not user:
            book.accounts[account] = parent
        book.limits[(account, user) if user else (account,)] = _settings(ASSOCIATION, values)
    for user, default, level in _rows(run, "user", ["User", "DefaultAccount", "AdminLevel"], f"cluster={cluster}"):
        book.defaults[user], book.admins[user] = default, level
    return book


def _rows(run: Run, what: str, fields: Sequence[str], *more: str) -> list[list[str]]:
    words = ["sacctmgr", "--noheader", "--parsable2", "show", what, f"format={','.join(fields)}", *more]
    rows = [line.split("|") for line in must(run(words)).stdout.splitlines() if line.strip()]
    wrong = next((row for row in rows if len(row) != len(fields)), None)
    if wrong is not None:
        # A description or an organization may contain both, and the rest would be read as another field or account.
        raise CommandFailed(
            f"sacctmgr shows the {what} {'|'.join(wrong)!r}, which has {len(wrong)} fields, not {len(fields)}. "
            f"Remove '|' and line breaks from its description and organization with 'sacctmgr modify {what}'"
        )
    return rows


def _settings(known: Mapping[str, int], values: Sequence[str]) -> dict[str, str]:
    return {name: canonical(name, kind, value) for (name, kind), value in zip(known.items(), values)}


def plan(cluster: str, current: Book, desired: Book, purge: bool = False) -> tuple[Step, ...]:
    """Return what to do, in order. Pure."""
    steps: list[Step] = []
    if not current.has_cluster:
        steps.append(Step(("add", "cluster", cluster), "", f"cluster {cluster}"))
    steps += _plan_qos(current, desired)
    for name in desired.described:
        steps += _plan_account(cluster, current, desired, name)
    for key in desired.limits:
        if len(key) == 2:
            steps += _plan_user(cluster, current, desired, key)
    steps += _plan_people(cluster, current, desired, purge)
    if purge:
        steps += _plan_purge(cluster, current, desired)
    return tuple(steps)


def _plan_qos(current: Book, desired: Book) -> Iterable[Step]:
    # Create all QOS first, because one may preempt a later one.
    for name in desired.qos:
        if name not in current.qos:
            yield Step(("add", "qos", name), "", f"QOS {name}")
    for name, settings in desired.qos.items():
        words = ("modify", "qos", "where", f"name={name}", "set")
        yield from _change(f"QOS {name}", QOS, current.qos.get(name, {}), settings, words)


def _plan_account(cluster: str, current: Book, desired: Book, name: str) -> Iterable[Step]:
    words: tuple[str, ...]
    texts = desired.described[name]
    parent = desired.accounts.get(name)
    if parent is not None and name not in current.accounts:
        words = ("add", "account", name, f"cluster={cluster}", f"parent={parent}")
        yield Step((*words, *(f"{k.title()}={v}" for k, v in texts.items())), "", f"account {name} of {parent}")
    else:
        known = current.described.get(name, {})
        if parent is not None and current.accounts[name] != parent:
            words = ("modify", "account", "where", f"name={name}", f"cluster={cluster}", "set", f"parent={parent}")
            yield Step(words, f"account {name} of {current.accounts[name]}", f"account {name} of {parent}")
        for key, value in texts.items():
            if known.get(key, "") != value:
                words = ("modify", "account", "where", f"name={name}", "set", f"{key.title()}={value}")
                yield Step(words, f"account {name}: {key} {known.get(key, '')}", f"account {name}: {key} {value}")
    words = ("modify", "account", "where", f"name={name}", f"cluster={cluster}", "set")
    before = current.limits.get((name,), {})
    yield from _change(f"account {name}", ASSOCIATION, before, desired.limits[(name,)], words)


def _plan_user(cluster: str, current: Book, desired: Book, key: Key) -> Iterable[Step]:
    account, user = key
    label = f"user {user} of account {account}"
    if key not in current.limits:
        yield Step(("add", "user", user, f"account={account}", f"cluster={cluster}"), "", label)
    words = ("modify", "user", "where", f"name={user}", f"account={account}", f"cluster={cluster}", "set")
    yield from _change(label, ASSOCIATION, current.limits.get(key, {}), desired.limits[key], words)


def _change(
    label: str, known: Mapping[str, int], before: Mapping[str, str], after: Mapping[str, str], words: tuple[str, ...]
) -> Iterable[Step]:
    is_now = {name: before.get(name) or _RESTING.get(name, "") for name in after}
    shall = {name: value or _RESTING.get(name, "") for name, value in after.items()}
    names = [name for name in after if is_now[name] != shall[name]]
    if names:
        yield Step(
            (*words, *(words_to_set(name, known[name], before.get(name, ""), after[name]) for name in names)),
            "\n".join(f"{label}: {name} {is_now[name] or '-'}" for name in names),
            "\n".join(f"{label}: {name} {shall[name] or '-'}" for name in names),
        )


def _plan_people(cluster: str, current: Book, desired: Book, purge: bool) -> Iterable[Step]:
    words: tuple[str, ...]
    for user in dict.fromkeys(key[1] for key in desired.limits if len(key) == 2):
        accounts = [key[0] for key in desired.limits if key[1:] == (user,)]
        # For a new user, sacctmgr uses the first account.
        before = current.defaults.get(user, accounts[0])
        # A purge may remove the default account, and without one the user's jobs would have to name an account.
        stays = before in accounts or (not purge and (before, user) in current.limits)
        account = desired.defaults.get(user, before if stays else accounts[0])
        if before != account:
            words = (
                "modify",
                "user",
                "where",
                f"name={user}",
                f"cluster={cluster}",
                "set",
                f"DefaultAccount={account}",
            )
            yield Step(
                words, f"user {user}: default account {before or '-'}", f"user {user}: default account {account}"
            )
    for user, level in desired.admins.items():
        known = current.admins.get(user, "None")
        if known != level:
            words = ("modify", "user", "where", f"name={user}", "set", f"AdminLevel={level}")
            yield Step(words, f"user {user}: AdminLevel {known}", f"user {user}: AdminLevel {level}")


def _plan_purge(cluster: str, current: Book, desired: Book) -> Iterable[Step]:
    for key in current.limits:
        if len(key) == 2 and key not in desired.limits and key != (_KEPT_ACCOUNT, _KEPT_USER):
            words = ("delete", "user", "where", f"name={key[1]}", f"account={key[0]}", f"cluster={cluster}")
            yield Step(words, f"user {key[1]} of account {key[0]}", "")
    gone = [name for name in current.accounts if name not in desired.accounts and name != _KEPT_ACCOUNT]
    # Children before their parents.
    for name in sorted(gone, key=lambda name: -_depth(name, current.accounts)):
        yield Step(("delete", "account", "where", f"name={name}", f"cluster={cluster}"), f"account {name}", "")
    for name in current.qos:
        if name not in desired.qos and name != _KEPT_QOS:
            yield Step(("delete", "qos", "where", f"name={name}"), f"QOS {name}", "")


def _depth(name: str, parents: Mapping[str, str]) -> int:
    steps = 0
    while parents.get(name) and steps < len(parents):
        name, steps = parents[name], steps + 1
    return steps


def apply(steps: Iterable[Step], run: Run) -> list[str]:
    """Apply the plan, and return sacctmgr's output for each step, because it exits with 0 for some refusals.

    :raises CommandFailed: sacctmgr refused.
    """
    answers = []
    for step in steps:
        answer = run(["sacctmgr", "--immediate", *step.words])
        words = " ".join(f"{answer.stderr} {answer.stdout}".split())
        if answer.rc != 0:
            problem = f"'sacctmgr {' '.join(step.words)}' failed (exit status {answer.rc}): {words or 'no output'}"
            raise CommandFailed(problem)
        answers.append(words)
    return answers
