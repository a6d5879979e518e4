# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vm_host_keys on simulated machines: ssh knows what their consoles showed at the first boot, and nothing else."""

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
ASKED = r"/retrieveBootDiagnosticsData"
OTHER = names.public_key("somebody else").removesuffix(" root@localhost")


def machines(source: Source, *hosts: str) -> list[dict[str, str]]:
    """These hosts, as the inventory has them."""
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


def answer(done: Finished) -> dict[str, Any]:
    """What the module answered."""
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.partition("=> ")[2]))


def words(done: Finished) -> str:
    """What the run said, on one line."""
    return " ".join((done.stdout + done.stderr).split())


def known(source: Source) -> Path:
    """The file of known hosts."""
    return source.path.parent / "ssh" / "known_hosts"


def key(source: Source, host: str) -> str:
    """The key that a machine printed."""
    (line,) = source.simulator.instance(host).host_keys
    return line.removesuffix(" root@localhost")


def edit(source: Source, host: str, **changes: Any) -> None:
    """Change what Azure has of a machine."""
    source.simulator.edit(source.simulator.instance(host).id, **changes)


def test_ssh_knows_each_machine_by_its_vm_id(source: Source) -> None:
    wanted = machines(source)

    done = answer(run(source, wanted))

    assert done["changed"] is True, done
    assert [item["name"] for item in done["verified"]] == list(HOSTS)
    lines = known(source).read_text(encoding="utf-8").splitlines()
    assert lines == [f"{item['vm_id']} {key(source, item['name'])}" for item in wanted]
    assert stat.S_IMODE(known(source).stat().st_mode) == 0o600
    for item in wanted:
        found = ["ssh-keygen", "-F", item["vm_id"], "-f", str(known(source))]
        assert subprocess.run(found, capture_output=True, check=False).returncode == 0


def test_second_run_changes_nothing_and_keeps_what_others_wrote(source: Source) -> None:
    known(source).parent.mkdir()
    known(source).write_text(f"github.com {OTHER}", encoding="utf-8")
    answer(run(source, machines(source)))
    before = known(source).read_text(encoding="utf-8")

    done = answer(run(source, machines(source)))

    assert (done["changed"], len(done["verified"])) == (False, 3)
    assert known(source).read_text(encoding="utf-8") == before
    assert before.startswith(f"github.com {OTHER}\n")


@pytest.mark.thorough
def test_hashed_names_are_found(source: Source) -> None:
    answer(run(source, machines(source)))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known(source))], capture_output=True, check=True)
    assert "|1|" in known(source).read_text(encoding="utf-8")

    assert answer(run(source, machines(source)))["changed"] is False


def test_check_mode_writes_nothing_and_shows_the_difference(source: Source) -> None:
    done = run(source, machines(source, "ctl"), "--check", "--diff")

    assert done.returncode == 0
    assert f"+{source.simulator.instance('ctl').vm_id} ssh-ed25519" in done.stdout
    assert not known(source).exists()


@pytest.mark.daily(1)
@pytest.mark.parametrize("hashed", [False, True])
def test_other_key_that_ssh_knows_already_is_an_error_that_names_both(source: Source, hashed: bool) -> None:
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
        assert shown in words(done)
    assert "compute000003: " in words(done)
    assert f"ssh-keygen -f {known(source)} -R {item['vm_id']}" in words(done)
    assert known(source).read_text(encoding="utf-8") == before


def test_machine_without_boot_diagnostics_is_named_and_the_others_are_verified(source: Source) -> None:
    edit(source, "ctl", boot_diagnostics=False)

    finished = run(source, machines(source))

    done = answer(finished)
    assert [item["name"] for item in done["verified"]] == list(HOSTS[:2])
    (unverified,) = done["unverified"]
    assert unverified["name"] == "ctl"
    assert "Boot diagnostics is not enabled" in unverified["reason"]
    assert "[WARNING]: Azure cannot verify the host keys of 1 of 3 machines, and ssh accepts" in words(finished)


def test_required_makes_that_an_error_and_writes_nothing(source: Source) -> None:
    edit(source, "ctl", boot_diagnostics=False)

    done = run(source, machines(source), required=True)

    assert done.returncode != 0
    assert "Azure cannot verify the host keys of 1 of 3 machines: ctl: " in words(done)
    assert not known(source).exists()


@pytest.mark.thorough
def test_key_that_was_verified_by_hand_is_enough(source: Source) -> None:
    edit(source, "ctl", boot_diagnostics=False)
    (item,) = machines(source, "ctl")
    known(source).parent.mkdir()
    known(source).write_text(f"{item['vm_id']} {OTHER}\n", encoding="utf-8")

    done = answer(run(source, [item], required=True))

    assert (done["known"], done["unverified"]) == (["ctl"], [])


@pytest.mark.thorough
def test_known_machines_can_be_skipped_without_asking_azure(source: Source) -> None:
    wanted = machines(source)
    answer(run(source, wanted))
    source.simulator.clear()

    done = answer(run(source, wanted, known="skip"))

    assert done["known"] == list(HOSTS)
    assert source.simulator.requests() == []


@pytest.mark.daily(3)
@pytest.mark.parametrize(
    "text",
    [
        # What an ordinary user can have journald or the kernel write.
        "[   99.000001] cloud-init[4711]: -----BEGIN SSH HOST KEY KEYS-----\r\n"
        f"[   99.000002] cloud-init[4711]: {OTHER}\r\n"
        "[   99.000003] cloud-init[4711]: -----END SSH HOST KEY KEYS-----\r\n",
        # With other ends of lines within it.
        f"x[4711]: \r-----BEGIN SSH HOST KEY KEYS-----\r{OTHER}\r-----END SSH HOST KEY KEYS-----\r\n",
        f"x[4711]: \x0b-----BEGIN SSH HOST KEY KEYS-----\x0b{OTHER}\u2028-----END SSH HOST KEY KEYS-----\r\n",
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_text_of_users_brings_no_key(source: Source, text: str, before: bool) -> None:
    log = console.log(source.simulator.instance("ctl")).decode()
    start, kernel, rest = log.partition("\r\n")
    edit(source, "ctl", console_log=f"{start}{kernel}{text}{rest}" if before else log + text)

    answer(run(source, machines(source, "ctl"), required=True))

    assert OTHER not in known(source).read_text(encoding="utf-8")
    assert key(source, "ctl") in known(source).read_text(encoding="utf-8")


def test_log_that_lost_its_beginning_verifies_nothing(source: Source) -> None:
    log = console.log(source.simulator.instance("ctl")).decode()
    edit(source, "ctl", console_log=log[log.index("[   11.") :])

    done = answer(run(source, machines(source, "ctl")))

    assert "does not contain the start of a boot" in done["unverified"][0]["reason"]
    assert not known(source).exists()


@pytest.mark.thorough
def test_permission_that_is_missing_is_named(source: Source) -> None:
    source.simulator.add_fault(ASKED, status=403, code="AuthorizationFailed")

    done = answer(run(source, machines(source, "compute000003", "ctl")))

    reasons = {item["name"]: item["reason"] for item in done["unverified"]}
    assert "Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData/action" in reasons["ctl"]
    action = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/retrieveBootDiagnosticsData/action"
    assert action in reasons["compute000003"]


@pytest.mark.thorough
@pytest.mark.parametrize("fault", [{"status": 403}, {"status": 404}, {"action": "drop"}])
def test_log_that_cannot_be_read_is_no_key_and_its_signature_is_in_no_message(
    source: Source, fault: dict[str, Any]
) -> None:
    source.simulator.add_fault(LOG, **fault)

    done = run(source, machines(source, "ctl"))

    assert answer(done)["unverified"][0]["reason"].startswith("could not read the log of its serial console: ")
    assert "sig=" not in done.stdout + done.stderr


def test_other_machine_with_that_id_lends_no_key(source: Source) -> None:
    (item,) = machines(source, "compute000003")

    done = answer(run(source, [{**item, "vm_id": "99999999-0000-4000-8000-000000000000"}]))

    assert "the id now belongs to another machine" in done["unverified"][0]["reason"]
    assert not known(source).exists()


def test_token_goes_to_resource_manager_alone(source: Source) -> None:
    # The simulated storage refuses who sends one.
    answer(run(source, machines(source), required=True))

    asked = [item for item in source.simulator.requests() if "/bootdiagnostics/" in item["path"]]
    assert [item["status"] for item in asked] == [200, 200, 200]
