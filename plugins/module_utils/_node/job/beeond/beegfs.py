# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""BeeGFS: how its daemons are configured, started, asked and mounted. All else is the same for each release.

What there is, is 7.4: its daemons' files of ``key = value``, its helper daemon, and beegfs-ctl. Keys and their meaning:
the configuration files that its packages bring, and beegfs-ctl's source, of 7.4.7. To add a release, write a class with
the methods of ``BeeGfs7`` and name it in ``STRATEGIES`` and ``options.RELEASES``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...machine.run import Result
from .job import Bounded, last_line
from .options import ALLOWED, OFF, BeeondSettings

SECRET = "auth"
"""Name of the file with the job's secret, in its folder in /run."""


@dataclass(frozen=True)
class NodeRole:
    """What this node has to run.

    :ivar daemons: names, in the order in which they are started.
    :ivar management: address of the node with the management daemon.
    :ivar data: folder of the job on the scratch.
    :ivar folder: the job's folder in /run.
    :ivar rdma: whether RDMA must be used, may be, or is not: REQUIRED, ALLOWED or OFF of options.py.
    """

    daemons: tuple[str, ...]
    management: str
    data: str
    folder: str
    rdma: str


@dataclass(frozen=True)
class Registered:
    """What the management daemon tells.

    :ivar answered: whether it told anything.
    :ivar metadata: names of registered nodes that keep metadata.
    :ivar storage: names of registered nodes that keep data.
    :ivar metadata_good: how many of the first are online and consistent.
    :ivar storage_good: likewise of the second.
    :ivar words: what it said, where it did not answer.
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
# All daemons log alike: '(0) 07:01:34 Main [ConnAccept] >> text', where 0 is an error, 1 what matters, and so on.
_LOGGED = re.compile(r"\(([0-9])\) .*? >> (.*\S)\s*")
_FALLBACK = re.compile(r"^.*fallback.*$", re.MULTILINE | re.IGNORECASE)


class BeeGfs7:
    """BeeGFS 7.4."""

    def daemons(self, is_first: bool, keeps_metadata: bool) -> tuple[str, ...]:
        """Return what a node of the job runs, in the order in which it is started.

        The helper daemon of the client comes last: nothing needs it before the mount.
        """
        return (*(["mgmtd"] if is_first else []), "storage", *(["meta"] if keeps_metadata else []), "helperd")

    def ports(self, daemons: tuple[str, ...], settings: BeeondSettings) -> tuple[tuple[str, int], ...]:
        """Return the ports that these take, as (``tcp`` or ``udp``, number); the client's is one of them.

        Each is shifted by the same number.
        """
        used = [port for daemon in daemons for port in _PORTS[daemon]] + [_CLIENT_PORT]
        return tuple((protocol, number + settings.port_shift) for protocol, number in used)

    def storage_port(self, settings: BeeondSettings) -> int:
        """Return the port on which each node's storage server takes connections.

        It is that of TCP, which servers with RDMA have as well.
        """
        return dict(_PORTS["storage"])["tcp"] + settings.port_shift

    def folders(self, role: NodeRole) -> tuple[str, ...]:
        """Return the folders of the daemons' data, which are made before they start.

        One of each daemon that stores something.
        """
        return tuple(f"{role.data}/{daemon}" for daemon in role.daemons if daemon != "helperd")

    def files(self, role: NodeRole, settings: BeeondSettings) -> dict[str, str]:
        """Return the configuration files by name. The secret lies beside them.

        One of each daemon, and the client's, which the mount and beegfs-ctl read.
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
            # The log is in memory, and goes with the job: a small one.
            log = {
                "logStdFile": f"{role.folder}/{daemon}.log",
                "logNumLines": "2000",
                "logNumRotatedFiles": "1",
                "runDaemonized": "false",
            }
            # The helper daemon speaks to its own client alone, and knows no interfaces.
            shared = both if daemon != "helperd" else {key: both[key] for key in ("connAuthFile", "connPortShift")}
            files[f"{daemon}.conf"] = _text({**shared, **daemon_settings[daemon], **log, **more.get(daemon, {})})
        client = {
            "connTCPFallbackEnabled": "true" if role.rdma in (ALLOWED, OFF) else "false",
            # What an unmount still has to tell servers it tries once, and not for ten minutes (connCommRetrySecs).
            "connUnmountRetries": "false",
        }
        files[CLIENT] = _text({**both, **managed, **rdma, **client, **settings.client})
        if settings.interfaces:
            files["interfaces"] = "".join(f"{name}\n" for name in settings.interfaces)
        return files

    def command(self, daemon: str, settings: BeeondSettings) -> str:
        """Return the command line of a daemon; ``%i`` is the job.

        As its packages' own units have it, with another file.
        """
        return f"{settings.daemons}/beegfs-{daemon} cfgFile=/run/hpcai/beeond/%i/{daemon}.conf"

    def reason(self, log: str) -> str:
        """Return why a daemon has ended, as its log tells; nothing where that does not.

        Its last line is mostly 'A hard error occurred. Shutting down...': the errors just before it say which.

        Others further up mean nothing: the first start of a management daemon logs some.
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
        """Ask the management daemon who is there.

        Nodes come first: a target is listed as soon as its node has registered, and not before.

        Whether anybody answers is known from the first question. Each tries for three seconds to reach a management
        daemon that is not there, and a start would notice late that a daemon of its own has ended. A daemon that ends
        between two questions, as where the first node gives up, has not answered either: half of what it knows would
        be taken for all of it.
        """
        found: dict[tuple[str, str], Result] = {}
        for kind in ("meta", "storage"):
            for words in (("--listnodes",), ("--listtargets", "--state")):
                answer = run(
                    [_CTL, f"--cfgFile={folder}/{CLIENT}", words[0], f"--nodetype={kind}", *words[1:]], _ANSWER_S
                )
                # Without a single metadata server, it is the list of targets that is an error, not that of nodes.
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
        """Return how many clients are mounted; None where the management daemon does not answer.

        Each mount registers, and is taken off the list when it is unmounted.
        """
        answer = run([_CTL, f"--cfgFile={folder}/{CLIENT}", "--listnodes", "--nodetype=client"], _ANSWER_S)
        return None if answer.rc != 0 else len([line for line in answer.stdout.splitlines() if line.strip()])

    def load(self) -> tuple[str, ...]:
        """Return the command that makes the kernel able to mount it.

        It is a module of the kernel, which DKMS has built.
        """
        return ("modprobe", "beegfs")

    def mount(self, mount_point: str, folder: str) -> tuple[str, ...]:
        """Return the command that mounts it, without privileges for what lies in it.

        The source is a word: there is no device.
        """
        options = f"cfgFile={folder}/{CLIENT},_netdev,nosuid,nodev"
        return ("mount", "-t", "beegfs", "beegfs_nodev", mount_point, "-o", options)

    def fell_back(self, mount_point: str, run: Bounded) -> str:
        """Return what shows that RDMA was not used where it should be; nothing where it was.

        beegfs-net shows the connections of all mounts, and looks at each one's space first, so that they are made.

        Another BeeGFS of the machine stands there too: where one of its connections fell back, the client's own
        setting (connTCPFallbackEnabled) still keeps ours from it, and the message tells which line it was.
        """
        run(["df", mount_point], _ANSWER_S)
        answer = run([_NET, "-n"], _ANSWER_S)
        if answer.rc != 0:
            return f"{_NET} does not tell the connections: {last_line(answer)}"
        line = _FALLBACK.search(answer.stdout)
        return line[0].strip() if line else ""


def _complaint(answer: Result) -> str:
    """Return what beegfs-ctl complains of: what comes after the first line is advice."""
    return (answer.stderr.strip().splitlines() or [last_line(answer)])[0].strip()


def _good(table: str) -> int:
    return sum(reachability == "Online" and state == "Good" for reachability, state in _TARGET.findall(table))


def _text(keys: Mapping[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in keys.items())


STRATEGIES: Mapping[str, BeeGfs7] = {"7.4": BeeGfs7()}


def release_of(name: str) -> BeeGfs7:
    """Return the strategy of a release; options.py has refused all others."""
    return STRATEGIES[name]
