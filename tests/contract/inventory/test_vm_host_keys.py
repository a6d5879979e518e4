# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vm_host_keys on simulated machines: ssh accepts only the host keys on their serial consoles at the first boot."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from simulator import console, names

from .reading import Finished, Source, ansible, facts

HOSTS = ("compute000000", "compute000003", "ctl")
LOG = r"/bootdiagnostics/"
RETRIEVE = r"/retrieveBootDiagnosticsData"
OTHER = names.public_key("somebody else").removesuffix(" root@localhost")


def machines(source: Source, *hosts: str) -> list[dict[str, str]]:
    """These hosts with their ids from the inventory."""
    inventory = source.read(include_vms="tagged")
    return [
        {"name": host, "azure_id": facts(inventory, host)["azure_id"], "vm_id": facts(inventory, host)["azure_vm_id"]}
        for host in hosts or HOSTS
    ]


def run(source: Source, wanted: list[dict[str, str]], *flags: str, **options: Any) -> Finished:
    """Run the module, with the connection options of the inventory's file."""
    arguments = {"machines": wanted, "path": str(known(source)), "sources": [str(source.path)], **options}
    return ansible(
        *("ansible", "localhost", "-i", "localhost,", "-m", "hpcai.azure.vm_host_keys"),
        *("-a", json.dumps(arguments)),
        *flags,
        cwd=source.path.parent,
        env={"ANSIBLE_NOCOLOR": "1"},
    )


def result_of(done: Finished) -> dict[str, Any]:
    """The result of the module, which must succeed."""
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.partition("=> ")[2]))


def output_of(done: Finished) -> str:
    """The output of a run, on one line."""
    return " ".join((done.stdout + done.stderr).split())


def known(source: Source) -> Path:
    """The file of known hosts."""
    return source.path.parent / "ssh" / "known_hosts"


def key(source: Source, host: str) -> str:
    """The host key that a machine has printed."""
    (line,) = source.simulator.instance(host).host_keys
    return line.removesuffix(" root@localhost")


def edit(source: Source, host: str, **changes: Any) -> None:
    """Change a machine in Azure."""
    source.simulator.edit(source.simulator.instance(host).id, **changes)


def test_host_keys_are_stored_by_vm_id(source: Source) -> None:
    wanted = machines(source)

    done = result_of(run(source, wanted))

    assert done["changed"] is True, done
    assert [item["name"] for item in done["verified"]] == list(HOSTS)
    lines = known(source).read_text(encoding="utf-8").splitlines()
    assert lines == [f"{item['vm_id']} {key(source, item['name'])}" for item in wanted]
    assert stat.S_IMODE(known(source).stat().st_mode) == 0o600
    for item in wanted:
        found = ["ssh-keygen", "-F", item["vm_id"], "-f", str(known(source))]
        assert subprocess.run(found, capture_output=True, check=False).returncode == 0


def test_a_second_run_changes_nothing_and_keeps_other_lines(source: Source) -> None:
    known(source).parent.mkdir()
    known(source).write_text(f"github.com {OTHER}", encoding="utf-8")
    result_of(run(source, machines(source)))
    before = known(source).read_text(encoding="utf-8")

    done = result_of(run(source, machines(source)))

    assert (done["changed"], len(done["verified"])) == (False, 3)
    assert known(source).read_text(encoding="utf-8") == before
    assert before.startswith(f"github.com {OTHER}\n")


@pytest.mark.thorough
def test_hashed_names_are_recognized(source: Source) -> None:
    result_of(run(source, machines(source)))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known(source))], capture_output=True, check=True)
    assert "|1|" in known(source).read_text(encoding="utf-8")

    assert result_of(run(source, machines(source)))["changed"] is False


def test_check_mode_writes_nothing_and_shows_the_difference(source: Source) -> None:
    done = run(source, machines(source, "ctl"), "--check", "--diff")

    assert done.returncode == 0
    assert f"+{source.simulator.instance('ctl').vm_id} ssh-ed25519" in done.stdout
    assert not known(source).exists()


@pytest.mark.daily(1)
@pytest.mark.parametrize("hashed", [False, True])
def test_a_different_known_key_is_an_error_that_names_both(source: Source, hashed: bool) -> None:
    (item,) = machines(source, "compute000003")
    known(source).parent.mkdir()
    known(source).write_text(f"{item['vm_id']} {OTHER}\n", encoding="utf-8")
    if hashed:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known(source))], capture_output=True, check=True)
    before = known(source).read_text(encoding="utf-8")

    done = run(source, machines(source))

    assert done.returncode != 0
    for line in (OTHER, key(source, "compute000003")):
        shown = subprocess.run(
            ["ssh-keygen", "-l", "-f", "-"], input=line, capture_output=True, text=True, check=True
        ).stdout.split()[1]
        assert shown in output_of(done)
    assert "compute000003: " in output_of(done)
    assert f"ssh-keygen -f {known(source)} -R {item['vm_id']}" in output_of(done)
    assert known(source).read_text(encoding="utf-8") == before


def test_a_machine_without_boot_diagnostics_is_named_and_others_verified(source: Source) -> None:
    edit(source, "ctl", boot_diagnostics=False)

    finished = run(source, machines(source))

    done = result_of(finished)
    assert [item["name"] for item in done["verified"]] == list(HOSTS[:2])
    (unverified,) = done["unverified"]
    assert unverified["name"] == "ctl"
    assert "Boot diagnostics is not enabled" in unverified["reason"]
    assert "[WARNING]: Azure cannot verify the host keys of 1 of 3 machines, and ssh accepts" in output_of(finished)


def test_with_required_an_unverified_machine_is_an_error(source: Source) -> None:
    edit(source, "ctl", boot_diagnostics=False)

    done = run(source, machines(source), required=True)

    assert done.returncode != 0
    assert "Azure cannot verify the host keys of 1 of 3 machines: ctl: " in output_of(done)
    assert not known(source).exists()


@pytest.mark.thorough
def test_a_key_that_was_verified_by_hand_is_accepted(source: Source) -> None:
    edit(source, "ctl", boot_diagnostics=False)
    (item,) = machines(source, "ctl")
    known(source).parent.mkdir()
    known(source).write_text(f"{item['vm_id']} {OTHER}\n", encoding="utf-8")

    done = result_of(run(source, [item], required=True))

    assert (done["known"], done["unverified"]) == (["ctl"], [])


@pytest.mark.thorough
def test_known_machines_can_be_skipped_without_a_request(source: Source) -> None:
    wanted = machines(source)
    result_of(run(source, wanted))
    source.simulator.clear()

    done = result_of(run(source, wanted, known="skip"))

    assert done["known"] == list(HOSTS)
    assert source.simulator.requests() == []


@pytest.mark.daily(3)
@pytest.mark.parametrize(
    "text",
    [
        # Text that an ordinary user can write through journald or the kernel.
        "[   99.000001] cloud-init[4711]: -----BEGIN SSH HOST KEY KEYS-----\r\n"
        f"[   99.000002] cloud-init[4711]: {OTHER}\r\n"
        "[   99.000003] cloud-init[4711]: -----END SSH HOST KEY KEYS-----\r\n",
        # The same with other line ends inside.
        f"x[4711]: \r-----BEGIN SSH HOST KEY KEYS-----\r{OTHER}\r-----END SSH HOST KEY KEYS-----\r\n",
        f"x[4711]: \x0b-----BEGIN SSH HOST KEY KEYS-----\x0b{OTHER}\u2028-----END SSH HOST KEY KEYS-----\r\n",
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_text_of_users_in_the_log_adds_no_key(source: Source, text: str, before: bool) -> None:
    log = console.log(source.simulator.instance("ctl")).decode()
    start, kernel, rest = log.partition("\r\n")
    edit(source, "ctl", console_log=f"{start}{kernel}{text}{rest}" if before else log + text)

    result_of(run(source, machines(source, "ctl"), required=True))

    assert OTHER not in known(source).read_text(encoding="utf-8")
    assert key(source, "ctl") in known(source).read_text(encoding="utf-8")


def test_a_log_without_its_start_verifies_nothing(source: Source) -> None:
    log = console.log(source.simulator.instance("ctl")).decode()
    edit(source, "ctl", console_log=log[log.index("[   11.") :])

    done = result_of(run(source, machines(source, "ctl")))

    assert "does not contain the start of a boot" in done["unverified"][0]["reason"]
    assert not known(source).exists()


@pytest.mark.thorough
def test_a_missing_permission_is_named(source: Source) -> None:
    source.simulator.add_fault(RETRIEVE, status=403, code="AuthorizationFailed")

    done = result_of(run(source, machines(source, "compute000003", "ctl")))

    reasons = {item["name"]: item["reason"] for item in done["unverified"]}
    assert "Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData/action" in reasons["ctl"]
    action = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/retrieveBootDiagnosticsData/action"
    assert action in reasons["compute000003"]


@pytest.mark.thorough
@pytest.mark.parametrize("fault", [{"status": 403}, {"status": 404}, {"action": "drop"}])
def test_an_unreadable_log_is_reported_without_its_signature(source: Source, fault: dict[str, Any]) -> None:
    source.simulator.add_fault(LOG, **fault)

    done = run(source, machines(source, "ctl"))

    assert result_of(done)["unverified"][0]["reason"].startswith("could not read the log of its serial console: ")
    assert "sig=" not in done.stdout + done.stderr


def test_keys_of_a_previous_system_are_removed_and_not_added_again(source: Source) -> None:
    wanted = machines(source, "ctl")
    result_of(run(source, wanted))
    before = result_of(run(source, wanted, "--check", known="replace"))["verified"]
    assert key(source, "ctl") in known(source).read_text(encoding="utf-8")

    done = result_of(run(source, wanted, known="replace", previous=before))

    assert "still shows the host keys of its previous system" in done["unverified"][0]["reason"]
    assert key(source, "ctl") not in known(source).read_text(encoding="utf-8")


def test_another_machine_with_the_same_id_is_not_verified(source: Source) -> None:
    (item,) = machines(source, "compute000003")

    done = result_of(run(source, [{**item, "vm_id": "99999999-0000-4000-8000-000000000000"}]))

    assert "the id now belongs to another machine" in done["unverified"][0]["reason"]
    assert not known(source).exists()


def test_the_token_is_sent_only_to_resource_manager(source: Source) -> None:
    # The simulated storage refuses requests with a token.
    result_of(run(source, machines(source), required=True))

    asked = [item for item in source.simulator.requests() if "/bootdiagnostics/" in item["path"]]
    assert [item["status"] for item in asked] == [200, 200, 200]
