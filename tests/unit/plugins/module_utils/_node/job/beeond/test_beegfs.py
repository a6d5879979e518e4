# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BeeGFS 7.4: the output of its tools, and the configuration of its daemons."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.beegfs import BeeGfs7, NodeRole
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.options import ALLOWED, OFF, BeeondSettings
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.start import secret_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from .conftest import JOB, Node, on

RELEASE = BeeGfs7()
NODES = "gpu-1.internal [ID: 1]\ngpu-0 [ID: 12]\n"
# As ModeListTargets.cpp of 7.4.7 prints it: "%8s %16s %12s %8s".
TARGETS = (
    "TargetID     Reachability  Consistency   NodeID\n"
    "========     ============  ===========   ======\n"
    "       1           Online         Good        1\n"
    "       2 Probably-offline         Good       12\n"
    "       3           Online Needs-resync       12\n"
)


def role(rdma: str = OFF, daemons: tuple[str, ...] = ("mgmtd", "storage", "meta", "helperd")) -> NodeRole:
    """A node that runs these daemons; by default all of them."""
    return NodeRole(daemons, "10.0.0.5", "/scratch/beeond/17", "/run/hpcai/beeond/17", rdma)


def test_only_online_and_consistent_targets_count() -> None:
    def run(command: Sequence[str], timeout_s: float) -> Result:
        return Result(tuple(command), 0, TARGETS if "--listtargets" in command else NODES, "")

    registered = RELEASE.look("/run/x", run)
    assert (registered.answered, registered.storage, registered.storage_good) == (True, ("gpu-1.internal", "gpu-0"), 1)


def test_a_failed_query_counts_as_not_answered() -> None:
    registered = RELEASE.look(
        "/run/x", lambda command, _s: Result(tuple(command), 1, "", "Management node is not reachable")
    )
    assert (registered.answered, registered.words) == (False, "Management node is not reachable")
    registered = RELEASE.look(
        "/run/x", lambda command, _s: Result(tuple(command), 127, "", "beegfs-ctl: command not found")
    )
    assert (registered.answered, registered.words) == (False, "beegfs-ctl: command not found")


def test_a_silent_management_daemon_is_queried_once() -> None:
    asked = []

    def run(command: Sequence[str], timeout_s: float) -> Result:
        asked.append(command)
        return Result(tuple(command), 3, "", "Management node communication failed: 10.0.0.5\n")

    registered = RELEASE.look("/run/x", run)
    assert (registered.answered, registered.words) == (False, "Management node communication failed: 10.0.0.5")
    assert len(asked) == 1


@pytest.mark.parametrize("answers", [1, 2])
def test_a_management_daemon_that_ends_between_queries_has_not_answered(answers: int) -> None:
    asked = []

    def run(command: Sequence[str], timeout_s: float) -> Result:
        asked.append(command)
        if len(asked) > answers:
            return Result(tuple(command), 3, "", "Management node communication failed: 10.0.0.5\n")
        return Result(tuple(command), 0, TARGETS if "--listtargets" in command else NODES, "")

    registered = RELEASE.look("/run/x", run)
    assert (registered.answered, registered.words) == (False, "Management node communication failed: 10.0.0.5")


def test_names_are_known_if_only_the_last_query_fails() -> None:
    asked = []

    def run(command: Sequence[str], timeout_s: float) -> Result:
        asked.append(command)
        return Result(tuple(command), 0 if len(asked) < 4 else 3, NODES if "--listnodes" in command else "", "")

    registered = RELEASE.look("/run/x", run)
    assert (registered.answered, registered.storage, registered.storage_good) == (True, ("gpu-1.internal", "gpu-0"), 0)


def test_a_configuration_error_is_reported_without_the_usage_hint() -> None:
    stderr = "\nError: Auth file is empty: /run/x/auth\n\n[BeeGFS Control Tool 7.4.7\nRefer to ...]\n\n"
    registered = RELEASE.look("/run/x", lambda command, _s: Result(tuple(command), 1, "", stderr))
    assert registered.words == "Error: Auth file is empty: /run/x/auth"


def test_no_metadata_server_yet_counts_as_an_answer() -> None:
    def run(command: Sequence[str], timeout_s: float) -> Result:
        if "--nodetype=meta" not in command:
            return Result(tuple(command), 0, TARGETS if "--listtargets" in command else NODES, "")
        failed = 3 if "--listtargets" in command else 0
        return Result(tuple(command), failed, "", " [ERROR: No metadata servers found]\n" if failed else "")

    registered = RELEASE.look("/run/x", run)
    assert (registered.answered, registered.metadata, registered.metadata_good, registered.storage_good) == (
        True,
        (),
        0,
        1,
    )


# The log of beegfs-storage 7.4.7 if its TCP port is in use.
PORT_IN_USE_LOG = """\
(3) 07:01:34 Main [DGramLis] >> Listening for UDP datagrams: any Port 9003
(0) 07:01:34 Main [ConnAccept] >> TCP socket: Unable to bind to port: 9003. SysErr: Address already in use
(0) 07:01:34 Main [App] >> Unable to initialize socket
(1) 07:01:34 Main [App] >> A hard error occurred. Shutting down...
"""
# The log of beegfs-mgmtd 7.4.7 if it was killed after its first start.
KILLED = """\
(0) 07:05:13 Main [MgmtdTargetStateStore.cpp:445] >> Could not read states. nodeType: beegfs-meta; Error: (...)
(1) 07:05:13 Main [App] >> Version: 7.4.7
(2) 07:05:13 Main [App] >> LocalNode: beegfs-mgmtd n1 [ID: 1]
"""


def test_only_errors_at_the_end_of_a_log_are_reported() -> None:
    reason = "TCP socket: Unable to bind to port: 9003. SysErr: Address already in use; Unable to initialize socket"
    assert RELEASE.reason(PORT_IN_USE_LOG) == reason
    assert RELEASE.reason(KILLED) == RELEASE.reason("") == ""


def test_ports_are_shifted_and_include_the_clients_port() -> None:
    assert dict.fromkeys(RELEASE.ports(("storage", "helperd"), BeeondSettings(port_shift=1000))) == dict.fromkeys(
        [("tcp", 9003), ("udp", 9003), ("tcp", 9006), ("udp", 9004)]
    )


def test_files_contain_the_sites_settings_and_only_keys_the_daemon_knows() -> None:
    settings = BeeondSettings(
        interfaces=("ib0", "eth0"), client={"tuneFileCacheType": "native"}, servers={"meta": {"a": "b"}}
    )
    files = RELEASE.files(role(ALLOWED), settings)
    assert files["interfaces"] == "ib0\neth0\n"
    assert "connInterfacesFile = /run/hpcai/beeond/17/interfaces\n" in files["storage.conf"]
    assert "connInterfacesFile" not in files["helperd.conf"]
    assert "sysMgmtdHost" not in files["mgmtd.conf"] + files["helperd.conf"]
    assert "tuneFileCacheType = native\n" in files["client.conf"]
    assert "connTCPFallbackEnabled = true\n" in files["client.conf"]
    assert "connUseRDMA = true\n" in files["client.conf"]
    assert "a = b\n" in files["meta.conf"]
    assert "connUseRDMA = false\n" in RELEASE.files(role(OFF), settings)["storage.conf"]
    assert all("runDaemonized = false\n" in text for name, text in files.items() if name[:1] in "ms")


def test_all_nodes_of_a_job_and_no_other_job_derive_the_same_secret(node: Node) -> None:
    ours = secret_of(JOB, node.root)
    assert secret_of(on("gpu-3"), node.root) == ours
    others = [on("gpu-0", number="18"), on("gpu-0", restarts=1), on("gpu-0", nodes=("gpu-0", "gpu-1"))]
    assert len({ours, *(secret_of(job, node.root) for job in others)}) == 4
    node.file("/etc/munge/munge.key", "another cluster's key")
    assert secret_of(JOB, node.root) != ours
