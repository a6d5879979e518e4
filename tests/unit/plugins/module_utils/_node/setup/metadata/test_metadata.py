# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who can access the metadata service: the rules, when they are loaded again, and how they are removed."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import apply_all
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata import connect, plan, rules
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata.options import (
    SETTINGS,
    MetadataOptions,
    MetadataProblem,
    read_guard,
    read_users,
    uids_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata.rules import RulesUnreadable, difference

from .filters import Kernel
from .machine import Machine, listing

GUARDED = MetadataOptions(guard=True)
LOAD = "/usr/sbin/nft -f /etc/hpcai/metadata.nft"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """A machine without rules."""
    return Machine(tmp_path)


def converge(machine: Machine, options: MetadataOptions) -> plan.MetadataPlan:
    """Plan and apply; return the plan."""
    made = plan.plan(machine.root, options, machine.run)
    plan.apply(made, machine.run)
    return made


def test_the_first_run_loads_the_rules_and_the_second_changes_nothing(machine: Machine) -> None:
    made = converge(machine, GUARDED)
    assert made.verbs == ("daemon-reload", "enable", "start")
    assert [file.path.removeprefix(str(machine.folder)) for file in made.files] == [
        rules.RULES,
        SETTINGS,
        rules.UNIT,
        rules.DROP_IN,
    ]
    assert not converge(machine, GUARDED).changed
    assert read_guard(machine.root) is True


def test_rules_that_somebody_flushed_are_loaded_again(machine: Machine) -> None:
    converge(machine, GUARDED)
    machine.loaded = None
    made = converge(machine, GUARDED)
    assert made.files == ()
    # Never a restart: slurmd requires the service, and would restart with it.
    assert made.verbs == ("reload",)
    assert made.reasons == ("the kernel has no table inet hpcai_metadata",)


def test_a_filter_that_the_kernel_lacks_is_attached_by_a_reload(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    converge(machine, GUARDED)
    machine.file(rules.HPCNODE, "")
    # In a container the kernel does not list its filters.
    assert not plan.plan(machine.root, GUARDED, machine.run).changed
    kernel = Kernel(monkeypatch)
    made = plan.plan(machine.root, GUARDED, machine.run)
    assert made.verbs == ("reload",)
    assert made.reasons == ("the kernel lacks the filter for sockets that root opened",)
    connect.attach(machine.root, GUARDED.users)
    assert not plan.plan(machine.root, GUARDED, machine.run).changed
    kernel.programs.popitem()
    # Without hpcnode nothing could attach it.
    (machine.folder / rules.HPCNODE.lstrip("/")).unlink()
    assert not plan.plan(machine.root, GUARDED, machine.run).changed


def test_a_filter_that_is_left_over_is_removed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    converge(machine, MetadataOptions(guard=False))
    Kernel(monkeypatch)
    connect.attach(machine.root, ())
    assert plan.plan(machine.root, MetadataOptions(guard=False), machine.run).removes
    connect.detach(machine.root)
    assert not plan.plan(machine.root, MetadataOptions(guard=False), machine.run).removes


def test_other_users_need_a_reload(machine: Machine) -> None:
    converge(machine, GUARDED)
    made = converge(machine, MetadataOptions(guard=True, users=("telegraf", "1234")))
    assert made.verbs == ("reload",)
    assert "meta skuid { 0, 998, 1234 } accept" in str(machine.loaded)
    assert read_users(machine.root) == ("telegraf", "1234")


def test_a_user_that_does_not_exist_is_refused(machine: Machine) -> None:
    with pytest.raises(MetadataProblem, match=r"user 'prometheus' does not exist on this machine\. Create it first"):
        plan.plan(machine.root, MetadataOptions(guard=True, users=("prometheus",)), machine.run)
    assert uids_of(machine.root, ("telegraf", "telegraf", "0")) == (0, 998)
    with pytest.raises(MetadataProblem):
        uids_of(machine.root, ("4294967295",))


def test_without_nft_it_is_an_error(machine: Machine) -> None:
    (machine.folder / "usr/sbin/nft").unlink()
    with pytest.raises(MetadataProblem, match="Install the package nftables"):
        plan.plan(machine.root, GUARDED, machine.run)
    # Check mode, in which the package was not installed.
    assert len(plan.plan(machine.root, GUARDED, machine.run, may_come=True).files) == 4


def test_switching_it_off_removes_everything_the_drop_in_first(machine: Machine) -> None:
    converge(machine, GUARDED)
    machine.commands.clear()
    made = converge(machine, MetadataOptions(guard=False))
    assert made.files[0].path.endswith(rules.DROP_IN)
    assert machine.loaded is None
    assert machine.commands == [
        "systemctl disable hpcai-metadata.service",
        "/usr/bin/hpcnode metadata detach",
        "systemctl daemon-reload",
        "systemctl stop hpcai-metadata.service",
        "nft delete table inet hpcai_metadata",
    ]
    assert read_guard(machine.root) is False
    assert not converge(machine, MetadataOptions(guard=False)).changed


def test_in_an_image_the_service_is_enabled_and_nothing_is_started(machine: Machine) -> None:
    def at_rest(command: list[str]) -> Result:
        if command[1] == "is-enabled":
            return Result(tuple(command), 1, "disabled\n", "")
        return Result(tuple(command), 1, "", "System has not been booted with systemd as init system")

    made = plan.plan(machine.root, GUARDED, at_rest)  # type: ignore[arg-type]
    assert made.verbs == ("enable",)
    apply_all(made.files)


def test_the_rules_precede_nat_and_deny_packets_without_a_user() -> None:
    text = rules.rules((0, 998), has_agent=False)
    assert text.count("priority -300") == 2
    assert "meta skuid != { 0, 998 } counter reject with tcp reset" in text
    assert "tcp flags & syn == syn counter reject" in text
    assert "ip daddr 169.254.169.254 tcp dport 80 jump guard" in text
    assert "ip daddr 168.63.129.16 tcp dport { 80, 32526 } jump guard" in text
    assert " ct " not in text
    assert "dport 53" not in text
    lines = [line for line in text.splitlines() if " accept c" in line or "reject" in line or "jump" in line]
    assert len(rules.comments_of(text)) == len(lines) == 7


def test_comments_are_never_longer_than_nft_allows() -> None:
    texts = [rules.rules((0, *range(60_000, 60_000 + number)), has_agent=True) for number in range(40)]
    comments = [comment for text in texts for comment in rules.comments_of(text)]
    assert max(len(comment) for comment in comments) <= 128
    assert len({rules.comments_of(text)[0] for text in texts}) == len(texts)


def test_the_guest_proxy_agent_is_reserved_for_root_too(machine: Machine) -> None:
    machine.file("etc/azure/proxy-agent.json", "{}")
    converge(machine, GUARDED)
    assert "ip daddr 127.0.0.1 tcp dport 3080 jump guard" in str(machine.loaded)
    assert "3080" not in rules.rules((0,), has_agent=False)


def test_nftables_loads_the_sites_and_our_rules_in_one_transaction() -> None:
    both = 'include "/etc/nftables.conf"; include "/etc/hpcai/metadata.nft"'
    lines = rules.drop_in(GUARDED).splitlines()
    assert f"ExecStart=/usr/sbin/nft '{both}'" in lines
    assert f"ExecReload=/usr/sbin/nft '{both}'" in lines
    assert "ExecStop=/usr/sbin/nft 'flush ruleset; include \"/etc/hpcai/metadata.nft\"'" in lines
    # EL's reload flushes first.
    text = rules.drop_in(MetadataOptions(True, site_rules="/etc/sysconfig/nftables.conf", reload_flushes=True))
    assert 'ExecReload=/usr/sbin/nft \'flush ruleset; include "/etc/sysconfig/nftables.conf"; include' in text


def test_no_job_starts_before_the_rules_are_loaded() -> None:
    unit = rules.unit()
    (before,) = [line for line in unit.splitlines() if line.startswith("Before=")]
    assert {"slurmd.service", "systemd-user-sessions.service", "network-pre.target"} <= set(before[7:].split())
    assert "RequiredBy=slurmd.service" in unit
    assert "ExecStop" not in unit


def test_the_filter_is_attached_after_the_rules_and_may_fail() -> None:
    lines = rules.unit().splitlines()
    assert lines.index("ExecStartPost=-/usr/bin/hpcnode metadata attach") > lines.index(f"ExecStart={LOAD}")
    assert lines.index("ExecReload=-/usr/bin/hpcnode metadata attach") > lines.index(f"ExecReload={LOAD}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('comment "no user"', 'comment "x"'), "missing: no user; unknown: x"),
        (lambda text: text.replace("users 0", "users 0, 7"), "missing: users 0; unknown: users 0, 7"),
        (lambda text: text.replace("hook forward", ""), "chains"),
    ],
)
def test_other_rules_in_the_kernel_are_a_difference(change: object, message: str) -> None:
    text = rules.rules((0,), has_agent=False)
    shown = listing(change(text))  # type: ignore[operator]
    assert message in difference(text, lambda command: Result(tuple(command), 0, shown, ""))


@pytest.mark.parametrize(
    ("rc", "output", "error"),
    [
        (127, "nft: command not found", "command not found"),
        (1, "Operation not permitted (you must be root)", "you must be root"),
        (0, "", "did not return the expected JSON"),
        (0, '{"nftables": []}', "did not return the expected JSON"),
    ],
)
def test_unreadable_output_of_nft_is_an_error(rc: int, output: str, error: str) -> None:
    with pytest.raises(RulesUnreadable, match=error):
        difference("", lambda command: Result(tuple(command), rc, output if rc == 0 else "", output if rc else ""))


def test_a_damaged_settings_file_is_an_error(machine: Machine) -> None:
    machine.file(SETTINGS, '{"schema": 1, "guard": "yes"}')
    with pytest.raises(ConfigError, match="guard must be true or false"):
        read_guard(machine.root)
    machine.file(SETTINGS, '{"schema": 1, "guard": true, "users": [7]}')
    with pytest.raises(ConfigError, match=r"users\[0\] must be a string"):
        read_users(machine.root)
