# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""BeeGFS: configures, starts, queries and mounts it. Only this file depends on the release of BeeGFS.

The supported release is 7.4: its daemons' ``key = value`` files, its helper daemon, and beegfs-ctl. Keys and their
meaning are from the configuration files in its packages and from beegfs-ctl's source, of 7.4.7. To add a release, write
a class with the methods of ``BeeGfs7``, and list it in ``STRATEGIES`` and ``options.RELEASES``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...machine.run import Result
from .job import Bounded, last_line
from .options import ALLOWED, OFF, BeeondSettings

SECRET = "auth"
"""Name of the file with the job's secret, in the job's folder in /run."""


@dataclass(frozen=True)
class NodeRole:
    """What this node has to run.

    :ivar daemons: names, in start order.
    :ivar management: address of the node with the management daemon.
    :ivar data: the job's folder on the scratch.
    :ivar folder: the job's folder in /run.
    :ivar rdma: whether RDMA must, may or must not be used: REQUIRED, ALLOWED or OFF of options.py.
    """

    daemons: tuple[str, ...]
    management: str
    data: str
    folder: str
    rdma: str


@dataclass(frozen=True)
class Registered:
    """What the management daemon reports.

    :ivar answered: whether it answered.
    :ivar metadata: names of registered metadata nodes.
    :ivar storage: names of registered storage nodes.
    :ivar metadata_good: how many metadata nodes are online and consistent.
    :ivar storage_good: how many storage nodes are online and consistent.
    :ivar words: the error message, if it did not answer.
    """

    answered: bool
    metadata: tuple[str, ...] = ()
    storage: tuple[str, ...] = ()
    metadata_good: int = 0
    storage_good: int = 0
    words: str = ""


CLIENT = "client.conf"
_CTL, _NET = "beegfs-ctl", "beegfs-net"
_ANSWER_S = 10.0
_PORTS = {
    "mgmtd": (("tcp", 8008), ("udp", 8008)),
    "meta": (("tcp", 8005), ("udp", 8005)),
    "storage": (("tcp", 8003), ("udp", 8003)),
    "helperd": (("tcp", 8006),),
}
_CLIENT_PORT = ("udp", 8004)
# ModeGetNodes.cpp prints 'name [ID: 1]', ModeListTargets.cpp '%8hu %16s %12s %8s': target, reachability, consistency.
_NODE = re.compile(r"^(\S.*?)\s+\[ID:\s*\d+\]\s*$", re.MULTILINE)
_TARGET = re.compile(r"^\s*\d+\s+(\S+)\s+(\S+)\s+\S+\s*$", re.MULTILINE)
# All daemons use the same log format: '(0) 07:01:34 Main [ConnAccept] >> text'. Level 0 is an error, 1 is important.
_LOGGED = re.compile(r"\(([0-9])\) .*? >> (.*\S)\s*")
_FALLBACK = re.compile(r"^.*fallback.*$", re.MULTILINE | re.IGNORECASE)


class BeeGfs7:
    """BeeGFS 7.4."""

    def daemons(self, is_first: bool, keeps_metadata: bool) -> tuple[str, ...]:
        """Return the daemons that a node of the job runs, in start order.

        The client's helper daemon is last: nothing needs it before the mount.
        """
        return (*(["mgmtd"] if is_first else []), "storage", *(["meta"] if keeps_metadata else []), "helperd")

    def ports(self, daemons: tuple[str, ...], settings: BeeondSettings) -> tuple[tuple[str, int], ...]:
        """Return the ports of these daemons and of the client, as (``tcp`` or ``udp``, number).

        Each is shifted by the same number.
        """
        used = [port for daemon in daemons for port in _PORTS[daemon]] + [_CLIENT_PORT]
        return tuple((protocol, number + settings.port_shift) for protocol, number in used)

    def storage_port(self, settings: BeeondSettings) -> int:
        """Return the port on which each node's storage server accepts connections.

        It is the TCP port, which servers with RDMA have as well.
        """
        return dict(_PORTS["storage"])["tcp"] + settings.port_shift

    def folders(self, role: NodeRole) -> tuple[str, ...]:
        """Return the folders for the daemons' data, which must exist before the daemons start.

        Each daemon that stores something has one.
        """
        return tuple(f"{role.data}/{daemon}" for daemon in role.daemons if daemon != "helperd")

    def files(self, role: NodeRole, settings: BeeondSettings) -> dict[str, str]:
        """Return the configuration files by name. The secret's file is in the same folder.

        Each daemon has one; the mount and beegfs-ctl read the client's.
        """
        both = {"connAuthFile": f"{role.folder}/{SECRET}", "connPortShift": str(settings.port_shift)}
        if settings.interfaces:
            both["connInterfacesFile"] = f"{role.folder}/interfaces"
        managed = {"sysMgmtdHost": role.management}
        rdma = {"connUseRDMA": "false" if role.rdma == OFF else "true"}
        daemon_settings: dict[str, dict[str, str]] = {
            "mgmtd": {"storeMgmtdDirectory": f"{role.data}/mgmtd", "storeAllowFirstRunInit": "true"},
            "meta": {**managed, **rdma, "storeMetaDirectory": f"{role.data}/meta", "storeAllowFirstRunInit": "true"},
            "storage": {
                **managed,
                **rdma,
                "storeStorageDirectory": f"{role.data}/storage",
                "storeAllowFirstRunInit": "true",
            },
            "helperd": {},
        }
        more = settings.servers
        files = {}
        for daemon in role.daemons:
            # The log is in memory until the job ends, so it is small.
            log = {
                "logStdFile": f"{role.folder}/{daemon}.log",
                "logNumLines": "2000",
                "logNumRotatedFiles": "1",
                "runDaemonized": "false",
            }
            # The helper daemon only serves its own client, and has no setting for interfaces.
            shared = both if daemon != "helperd" else {key: both[key] for key in ("connAuthFile", "connPortShift")}
            files[f"{daemon}.conf"] = _text({**shared, **daemon_settings[daemon], **log, **more.get(daemon, {})})
        client = {
            "connTCPFallbackEnabled": "true" if role.rdma in (ALLOWED, OFF) else "false",
            # At an unmount, try to reach the servers once, instead of for ten minutes (connCommRetrySecs).
            "connUnmountRetries": "false",
        }
        files[CLIENT] = _text({**both, **managed, **rdma, **client, **settings.client})
        if settings.interfaces:
            files["interfaces"] = "".join(f"{name}\n" for name in settings.interfaces)
        return files

    def command(self, daemon: str, settings: BeeondSettings) -> str:
        """Return the command line of a daemon; ``%i`` is the job.

        It is the command of the packages' own units, with another configuration file.
        """
        return f"{settings.daemons}/beegfs-{daemon} cfgFile=/run/hpcai/beeond/%i/{daemon}.conf"

    def reason(self, log: str) -> str:
        """Return why a daemon has ended, according to its log; an empty text if the log does not show it.

        The last line is usually 'A hard error occurred. Shutting down...'; the errors just before it name the cause.

        Errors further up are ignored: the first start of a management daemon logs some.
        """
        errors: list[str] = []
        for line in reversed(log.splitlines()):
            match = _LOGGED.fullmatch(line)
            if not match or match[1] > "1":
                break
            if match[1] == "0":
                errors.insert(0, match[2])
        return "; ".join(errors[-2:])

    def look(self, folder: str, run: Bounded) -> Registered:
        """Ask the management daemon which nodes and targets are registered.

        Nodes are queried first: a target is listed only after its node has registered.

        The function returns at the first query of nodes that fails. Each query tries for three seconds to reach the
        management daemon; more of them would delay the check of this node's own daemons. If the daemon ends between two
        queries, for example because the first node gave up, it counts as not answering: its answer is incomplete.
        """
        found: dict[tuple[str, str], Result] = {}
        for kind in ("meta", "storage"):
            for words in (("--listnodes",), ("--listtargets", "--state")):
                answer = run(
                    [_CTL, f"--cfgFile={folder}/{CLIENT}", words[0], f"--nodetype={kind}", *words[1:]], _ANSWER_S
                )
                # Without any metadata server, only the query of targets fails, not the query of nodes.
                if answer.rc != 0 and words[0] == "--listnodes":
                    return Registered(False, words=_complaint(answer))
                found[kind, words[0]] = answer
        return Registered(
            True,
            tuple(_NODE.findall(found["meta", "--listnodes"].stdout)),
            tuple(_NODE.findall(found["storage", "--listnodes"].stdout)),
            _good(found["meta", "--listtargets"].stdout),
            _good(found["storage", "--listtargets"].stdout),
        )

    def clients(self, folder: str, run: Bounded) -> int | None:
        """Return how many clients have mounted it; None if the management daemon does not answer.

        A client registers when it mounts, and leaves the list when it unmounts.
        """
        answer = run([_CTL, f"--cfgFile={folder}/{CLIENT}", "--listnodes", "--nodetype=client"], _ANSWER_S)
        return None if answer.rc != 0 else len([line for line in answer.stdout.splitlines() if line.strip()])

    def load(self) -> tuple[str, ...]:
        """Return the command that loads the kernel module, which DKMS has built."""
        return ("modprobe", "beegfs")

    def mount(self, mount_point: str, folder: str) -> tuple[str, ...]:
        """Return the command that mounts it with nosuid and nodev.

        The mount source is a fixed word, because there is no device.
        """
        options = f"cfgFile={folder}/{CLIENT},_netdev,nosuid,nodev"
        return ("mount", "-t", "beegfs", "beegfs_nodev", mount_point, "-o", options)

    def fell_back(self, mount_point: str, run: Bounded) -> str:
        """Return the line that shows a connection without RDMA; an empty text if all connections use it.

        beegfs-net shows the connections of all mounts. The df before it makes the client connect to all servers.

        The list includes any other BeeGFS on the machine. If one of its connections fell back, this mount still cannot
        (connTCPFallbackEnabled is off), and the message quotes the line.
        """
        run(["df", mount_point], _ANSWER_S)
        answer = run([_NET, "-n"], _ANSWER_S)
        if answer.rc != 0:
            return f"{_NET} cannot list the connections: {last_line(answer)}"
        line = _FALLBACK.search(answer.stdout)
        return line[0].strip() if line else ""


def _complaint(answer: Result) -> str:
    """Return beegfs-ctl's error, which is the first line; the lines after it are advice."""
    return (answer.stderr.strip().splitlines() or [last_line(answer)])[0].strip()


def _good(table: str) -> int:
    return sum(reachability == "Online" and state == "Good" for reachability, state in _TARGET.findall(table))


def _text(keys: Mapping[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in keys.items())


STRATEGIES: Mapping[str, BeeGfs7] = {"7.4": BeeGfs7()}


def release_of(name: str) -> BeeGfs7:
    """Return the strategy of a release; options.py refuses unknown releases."""
    return STRATEGIES[name]
