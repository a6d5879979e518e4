# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An instance finds its cluster and its key automatically: the steps instance and key against simulated services."""

from __future__ import annotations

import functools
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome, StepFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps import instance, key
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import imds
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from simulator.imds import INSTANCE_HEADER
from simulator.testing import Simulator, running

SECRET = "kept-by-the-vault-alone-until-a-node-of-the-cluster-asks"
OTHER = "x" * 128
HPCAI: dict[str, Any] = {
    "schema": 1,
    "cluster": "training",
    "functions": ["compute"],
    "controllers": ["10.0.0.4"],
    "key": {"source": "key_vault", "vault": "https://hpcai-sim.vault.azure.net"},
}
ONE, TWO = "11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"


def scale_set(name: str, instance_id: int, **more: Any) -> dict[str, Any]:
    """A scale set of one instance, whose user data names its cluster."""
    return {
        "name": name,
        "capacity": 1,
        "instance_ids": [instance_id],
        "vm_size": "Standard_ND96asr_v4",
        "user_data": {"hpcai": HPCAI},
        **more,
    }


SCENARIO: dict[str, Any] = {
    "key_vaults": [{"name": "hpcai-sim", "secrets": {"munge-key": SECRET}, "readers": ["gpu", "two"]}],
    "scale_sets": [
        scale_set("gpu", 17),
        scale_set("stranger", 3),
        scale_set("nobody", 4, identity=False),
        scale_set("two", 5, identity=False, client_ids=[ONE, TWO]),
        scale_set("script", 6, user_data="#!/bin/sh\necho hello\n"),
    ],
}


class RunningMachine(Root):
    """A folder that the code treats as the root of the running machine."""

    is_this_machine = True

    def at(self, path: str) -> str:
        return f"{self.path}{path}"


class Node:
    """An instance of the simulator, with its own disk."""

    def __init__(self, simulator: Simulator, path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = RunningMachine(str(path / name))
        self.asks: dict[str, Any] = {"endpoint": simulator.imds_endpoint, "headers": {INSTANCE_HEADER: name}}
        monkeypatch.setattr(imds, "read_token", functools.partial(TOKEN, **self.asks))
        monkeypatch.setattr(key, "_owner", lambda _root: (os.getuid(), os.getgid()))
        self.file.parent.mkdir(parents=True)

    @property
    def file(self) -> Path:
        """The munge key."""
        return Path(self.root.at(key.KEY_FILE))

    def start(self, seconds: float = 15) -> tuple[Outcome, Outcome]:
        """Run both steps, as a boot does."""
        return self.instance(seconds), self.key(seconds)

    def instance(self, seconds: float = 15) -> Outcome:
        """Run the step instance."""
        return instance.perform(self.context(seconds), lambda limit_s: imds.read_compute(limit_s, **self.asks))

    def key(self, seconds: float = 15) -> Outcome:
        """Run the step key."""
        return key.perform(self.context(seconds))

    def context(self, seconds: float) -> Context:
        """The context of a step."""
        return Context(self.root, lambda command: Result(tuple(command), 0, "", ""), False, seconds)


TOKEN = imds.read_token
Boot = Callable[[str], Node]


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Simulator]:
    """A simulator without machines. This process resolves and trusts its vaults."""
    with running(SCENARIO) as started:
        (tmp_path / "ca.crt").write_bytes(started.authority)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
        monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
        resolve = socket.getaddrinfo

        def to_simulator(host: Any, port: Any, *arguments: Any, **named: Any) -> Any:
            if str(host).endswith(".vault.azure.net"):
                host, port = "127.0.0.1", started.tls_port
            return resolve(host, port, *arguments, **named)

        monkeypatch.setattr(socket, "getaddrinfo", to_simulator)
        yield started


@pytest.fixture
def boot(simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Boot:
    """Start an instance with a new disk."""
    return lambda name: Node(simulator, tmp_path, name, monkeypatch)


def test_a_new_instance_finds_its_cluster_its_name_and_its_key(boot: Boot) -> None:
    node = boot("gpu_17")
    first, second = node.start()
    assert (first.verdict, first.summary) == (PASS, "Standard_ND96asr_v4 in cluster training by user data")
    assert "-N gpu-17 --conf-server 10.0.0.4" in (node.root.text("/etc/hpcai/slurmd.env") or "")
    assert second.verdict == PASS
    assert node.file.read_text(encoding="utf-8") == SECRET
    assert [outcome.changes for outcome in node.start()] == [(), ()]


def test_an_instance_with_a_script_as_user_data_belongs_to_no_cluster(boot: Boot) -> None:
    first, second = boot("script_6").start()
    assert (first.verdict, second.verdict) == (PASS, "skip")
    assert "in no cluster: the user data is not JSON" in first.summary


@pytest.mark.daily(1)
@pytest.mark.parametrize("status", [404, 410, 429, 500])
def test_a_late_metadata_service_is_asked_again(simulator: Simulator, boot: Boot, status: int) -> None:
    simulator.add_fault("metadata/", status=status, service="imds", times=3)
    assert [outcome.verdict for outcome in boot("gpu_17").start()] == [PASS, PASS]


@pytest.mark.parametrize("action", ["garbage", "drop"])
def test_invalid_answers_of_the_metadata_service_are_an_error(simulator: Simulator, boot: Boot, action: str) -> None:
    simulator.add_fault("metadata/", action, service="imds")
    with pytest.raises(StepFailed, match="nothing else identifies this machine"):
        boot("gpu_17").instance(7)


@pytest.mark.parametrize("service", ["imds", "vault"])
def test_slow_services_only_delay_the_steps(simulator: Simulator, boot: Boot, service: str) -> None:
    simulator.add_fault("", "slow", service=service, delay_s=1)
    assert [outcome.verdict for outcome in boot("gpu_17").start()] == [PASS, PASS]


@pytest.mark.parametrize("service", ["imds", "vault"])
def test_hanging_services_end_at_the_time_limit(simulator: Simulator, boot: Boot, service: str) -> None:
    node = boot("gpu_17")
    node.start()
    simulator.add_fault("", "hang", service=service)
    begun = time.monotonic()
    verdicts = [outcome.verdict for outcome in node.start(7)]
    assert time.monotonic() - begun < 7
    assert verdicts == ([WARN, WARN] if service == "imds" else [PASS, WARN])


def test_a_boot_without_metadata_service_warns_and_the_next_one_passes(simulator: Simulator, boot: Boot) -> None:
    node = boot("gpu_17")
    node.start()
    simulator.add_fault("metadata/", status=500, service="imds")
    begun = time.monotonic()
    first, second = node.start(seconds=7)
    assert time.monotonic() - begun < 7
    assert (first.verdict, second.verdict) == (WARN, WARN)
    assert "HTTP status 500" in first.summary
    simulator.clear()
    assert [outcome.verdict for outcome in node.start()] == [PASS, PASS]


def test_a_busy_vault_is_asked_again(simulator: Simulator, boot: Boot) -> None:
    simulator.add_fault("secrets/", status=429, service="vault", headers={"Retry-After": "1"}, times=1)
    simulator.add_fault("secrets/", status=503, service="vault", times=1)
    assert boot("gpu_17").start()[1].verdict == PASS


def test_without_the_vault_a_new_node_fails_and_an_old_one_keeps_its_key(simulator: Simulator, boot: Boot) -> None:
    node = boot("gpu_17")
    simulator.add_fault("secrets/", status=503, service="vault")
    assert node.start(7)[1].verdict == FAIL
    assert not node.file.exists()
    simulator.clear()
    assert node.start()[1].verdict == PASS
    simulator.add_fault("secrets/", status=503, service="vault")
    outcome = node.key(7)
    assert (outcome.verdict, "HTTP status 503" in outcome.summary) == (WARN, True)
    assert node.file.read_text(encoding="utf-8") == SECRET


def test_the_next_boot_gets_a_changed_key_from_the_vault(simulator: Simulator, boot: Boot) -> None:
    node = boot("gpu_17")
    node.start()
    simulator.model.vaults["hpcai-sim"].put("munge-key", OTHER)
    assert node.key().changes
    assert node.file.read_text(encoding="utf-8") == OTHER


def test_an_identity_without_the_role_gets_an_error_that_names_it(boot: Boot) -> None:
    node = boot("stranger_3")
    outcome = node.start()[1]
    assert outcome.verdict == FAIL
    assert "this machine's identity may not read secret munge-key of key vault hpcai-sim" in outcome.summary
    assert "Key Vault Secrets User" in outcome.action
    assert not node.file.exists()


@pytest.mark.parametrize("name", ["nobody_4", "two_5"])
def test_a_missing_or_ambiguous_identity_is_reported(boot: Boot, name: str) -> None:
    outcome = boot(name).start()[1]
    assert outcome.verdict == FAIL
    assert "refuses this machine an identity token: HTTP status 400" in outcome.summary
    assert "hpcai_identity_client_id" in outcome.action


def test_a_client_id_selects_one_of_several_identities(boot: Boot) -> None:
    node = boot("two_5")
    stated = {**HPCAI, "key": {**HPCAI["key"], "client_id": TWO}}
    node.instance()
    text = json.dumps(stated)
    Path(node.root.at("/etc/hpcai/cluster.json")).write_text(text, encoding="utf-8")
    assert node.key().verdict == PASS


def test_the_steps_store_neither_key_nor_token_in_other_files(boot: Boot) -> None:
    node = boot("gpu_17")
    shown = repr(node.start())
    for path in Path(node.root.path).rglob("*"):
        if path.is_file() and path != node.file:
            shown += path.read_text(encoding="utf-8")
    assert "hpcai-sim" in shown
    assert SECRET not in shown
    assert "simulated." not in shown
