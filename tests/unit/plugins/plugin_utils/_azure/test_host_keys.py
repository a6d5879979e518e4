# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hosts' keys are verified, and how the others are reported."""

from __future__ import annotations

import base64
import hmac
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.console import Console
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.host_keys import (
    HostKey,
    Machine,
    append_lines,
    compare_keys,
    known_keys,
    machines_of_hosts,
    read_known_hosts,
    with_lines,
    without_keys,
)

ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/"
KEY, OTHER = HostKey("ssh-ed25519", "AAAAkey"), HostKey("ssh-ed25519", "AAAAother")
NODE: dict[str, Any] = {"azure_id": f"{ID}n", "azure_vm_id": "V-1", "hpcai_known_hosts": "~/.ssh/known"}


def machines(*names: str) -> list[Machine]:
    """Machines of a cluster."""
    hosts = {name: {**NODE, "azure_id": f"{ID}{name}", "azure_vm_id": name} for name in names}
    return machines_of_hosts(names, hosts, None)[0]


def test_each_host_has_the_known_hosts_file_of_its_cluster() -> None:
    hosts = {"a": NODE, "b": {**NODE, "hpcai_known_hosts": "/x"}, "static": {}, "half": {"azure_id": f"{ID}h"}}

    found, left_out = machines_of_hosts(["a", "b", "static", "half", "unknown", "a"], hosts, None)

    assert [(one.name, str(one.path)) for one in found] == [("a", os.path.expanduser("~/.ssh/known")), ("b", "/x")]
    assert left_out == ["static", "half", "unknown"]
    assert [str(one.path) for one in machines_of_hosts(["a"], hosts, "/y")[0]] == ["/y"]


@pytest.mark.parametrize(
    "connection", ["local", "ansible.builtin.local", "community.general.chroot", "containers.podman.podman"]
)
def test_hosts_without_an_ssh_connection_are_ignored(connection: str) -> None:
    assert machines_of_hosts(["a"], {"a": {**NODE, "ansible_connection": connection}}, None) == ([], [])


@pytest.mark.parametrize("connection", ["ssh", "ansible.builtin.ssh", "smart", "ansible.netcommon.paramiko_ssh"])
def test_hosts_with_an_ssh_connection_are_included(connection: str) -> None:
    assert len(machines_of_hosts(["a"], {"a": {**NODE, "ansible_connection": connection}}, None)[0]) == 1


def test_compares_known_keys_with_those_on_consoles() -> None:
    new, same, silent, wrong, unknown = machines("new", "same", "silent", "wrong", "unknown")
    known = {new: (), same: (KEY,), silent: (KEY,), wrong: (OTHER,), unknown: ()}
    shown = {one.target: Console((KEY,)) for one in (new, same, wrong)}

    outcome = compare_keys(known, {**shown, unknown.target: Console(problem="why.")})

    assert (list(outcome.shown), outcome.known, outcome.unverified) == ([new, same], [silent], {unknown: "why."})
    assert outcome.lines() == {new.path: f"new {KEY}\n"}
    (contradiction,) = outcome.contradictions
    assert contradiction.startswith("wrong: ")
    assert OTHER.fingerprint in contradiction
    assert KEY.fingerprint in contradiction


def test_a_known_key_of_another_type_is_a_contradiction() -> None:
    (machine,) = machines("n")

    outcome = compare_keys({machine: (HostKey("ssh-rsa", "AAAAother"), KEY)}, {machine.target: Console((KEY,))})

    assert len(outcome.contradictions) == 1


def test_one_warning_counts_all_hosts_and_lists_each_reason_once() -> None:
    found = machines(*(f"n{number}" for number in range(8)))

    outcome = compare_keys(dict.fromkeys(found, ()), {one.target: Console(problem="why.") for one in found[1:]})

    (warning,) = outcome.warnings()
    assert "of 8 of 8 machines" in warning
    assert warning.count("why.") == 1
    assert "and 2 more: why." in warning


def test_ignores_known_hosts_lines_that_do_not_name_the_machine() -> None:
    text = f"# v\n\nv\n@revoked v {KEY}\n* {KEY}\nv2 {KEY}\n|1|x|y {KEY}\n|1|AAAA {KEY}\nw,V {OTHER} comment\n"

    assert known_keys(text, "v") == (OTHER,)


def test_appends_to_lines_that_ssh_added_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "ssh" / "known"
    assert read_known_hosts(path) == ""
    append_lines(path, "", "a\n")
    before = read_known_hosts(path)
    path.write_text(f"{before}by ssh meanwhile\n", encoding="utf-8")

    append_lines(path, before, "b\n")

    assert read_known_hosts(path) == "a\nby ssh meanwhile\nb\n"
    assert with_lines("no end", "b\n") == "no end\nb\n"


def test_only_the_lines_of_a_machine_are_removed() -> None:
    salt = base64.b64encode(b"s" * 20).decode()
    digest = base64.b64encode(hmac.digest(b"s" * 20, b"vm-1", "sha1")).decode()
    kept = "# a comment\nvm-2 ssh-ed25519 AAAA\n@revoked vm-1 ssh-ed25519 AAAA\n\n"
    text = f"VM-1 ssh-ed25519 AAAA\n{kept}|1|{salt}|{digest} ssh-ed25519 AAAA\n"

    assert without_keys(text, "vm-1") == kept
