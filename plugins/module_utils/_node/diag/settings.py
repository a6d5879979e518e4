# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Settings in a bundle: a value is shown only if its setting is known to be harmless (deny by default)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from ..slurm import releases
from .redact import SECRET_NAME

HIDDEN = "<not shown>"

_SHOWN_JSON_KEYS = """
    account_gbps action actions allowed at azcopy boot boot_id cause check checks client_id clocks cluster cluster_name
    code collection confirm connections container controllers count counts credential cutoff data_root device
    devices disks domain done drains duration enabled epilog escalate fault file files filesystem findings folder force
    function functions gpu gpus group groups health hint hooks host image interval_s kind label latched level limit
    limits link list machines made_at marked max_out metrics mode modules mount mountpoint name network node node_name
    nodes off options out owner path paths periodic persistence port ports prefix present probe processes prolog
    prometheus quota readings reason recorded records refused release replace report restart_s restarts result root
    schema script scripts seconds severity since size sizes slurm source stale_s state status steps summary tier time
    timeout timeout_s topology total type unit units verdict version versions
    vm_id vm_size vm_sizes warn_only warnings work_folder xid
"""
_SHOWN_JSON = frozenset(_SHOWN_JSON_KEYS.split())
"""Keys of JSON files whose texts are shown. Numbers and booleans are shown under each key."""
_SHOWN_RESULTS = _SHOWN_JSON | {"value", "values", "words", "usual", "why", "changes", "problem", "problems"}
"""The same for results that hpcnode itself has measured: their values are no settings."""

# Keys of node and partition lines, of gres.conf, cgroup.conf, topology.conf and slurmdbd.conf.
_SHOWN_OTHER = """
    nodename nodeaddr nodehostname cpus boards sockets socketsperboard corespersocket threadspercore realmemory
    state feature features gres weight tmpdisk port reason partitionname nodes default maxtime maxnodes minnodes
    priorityjobfactor prioritytier allowgroups denygroups allowaccounts oversubscribe preemptmode rootonly hidden
    defaulttime defmempercpu defmempernode maxmempercpu maxmempernode exclusiveuser gracetime lln qos
    tresbillingweights name type file cores links autodetect flags count multiplefiles switchname switches linkspeed
    constraincores constraindevices constrainramspace constrainswapspace cgroupplugin allowedramspace
    allowedswapspace minramspace maxrampercent maxswappercent ignoresystemd ignoresystemdonfailure
    dbdhost dbdaddr dbdport dbdbackuphost storagehost storageport storagetype storageloc storageuser logfile pidfile
    debuglevel purgeeventafter purgejobafter purgeresvafter purgestepafter purgesuspendafter purgetxnafter
    purgeusageafter archivejobs archiveevents commitdelay messagetimeout privatedata slurmuser authtype authinfo
    boot_time hash_val next_job_id slurm_conf slurm_version slurmctld_host version rpc_version
"""
_SHOWN_SLURM = frozenset(
    [
        *releases.ALWAYS.split(),
        *(key for table in releases.CAME.values() for keys in table.values() for key in keys.lower().split()),
        *_SHOWN_OTHER.split(),
    ]
)
_SLURM_PAIR = re.compile(r"(?P<key>[A-Za-z][\w\[\]]*)(?P<equals>\s*[-+*/]?=\s*)(?P<value>\"[^\"]*\"|\S*)")
_SHOWN_VARIABLE = re.compile(r"(?:NCCL|UCX|SHARP|CUDA_DEVICE|MELLANOX|NVIDIA_DRIVER|OMPI_MCA|SLURMD_OPTIONS)[A-Z0-9_]*")
_PLAIN = re.compile(r"[\w./,:;@%+*\[\]() <>='|&~?^$!#-]*")


def show_json(text: str, results: bool = False) -> tuple[str, int, list[str]]:
    """Return a JSON file with only known texts, how many were hidden, and the hidden texts of secret settings.

    A file that is not JSON is not shown.

    :param results: whether it contains results of hpcnode, not settings.
    """
    try:
        value = json.loads(text)
    except ValueError:
        return f"{HIDDEN}: this is not JSON\n", 1, []
    hidden: list[str] = []
    secrets: list[str] = []
    shown = _shown("", value, _SHOWN_RESULTS if results else _SHOWN_JSON, hidden, secrets)
    return json.dumps(shown, indent=1, ensure_ascii=False) + "\n", len(hidden), secrets


def _shown(key: str, value: Any, known: Collection[str], hidden: list[str], secrets: list[str]) -> Any:
    if isinstance(value, dict):
        # Keys are names of settings, checks, nodes and machines.
        return {name: _shown(str(name), item, known, hidden, secrets) for name, item in value.items()}
    if isinstance(value, list):
        return [_shown(key, item, known, hidden, secrets) for item in value]
    if not isinstance(value, str) or not value:
        return value
    if SECRET_NAME.match(key):
        secrets.append(value)
    elif key in known:
        return value
    hidden.append(value)
    return HIDDEN


def show_slurm(text: str) -> tuple[str, int, list[str]]:
    """Return a file of Slurm with only known settings, how many were hidden, and the hidden values of secret ones.

    Comments are left out, because people note anything there.
    """
    secrets: list[str] = []
    hidden = 0
    lines = []
    for line in text.splitlines():
        beginning = line.partition("#")[0].rstrip()
        if not beginning:
            continue
        made, place, is_hidden = "", 0, False
        for pair in _SLURM_PAIR.finditer(beginning):
            between, place = beginning[place : pair.start()], pair.end()
            made += _between(between, is_hidden)
            is_hidden = False
            key = pair["key"].lower()
            if (key in _SHOWN_SLURM and not SECRET_NAME.match(key)) or pair["value"].strip('"') in ("", "(null)"):
                made += pair[0]
                continue
            if SECRET_NAME.match(key):
                secrets.append(pair["value"].strip('"'))
            hidden += 1
            is_hidden = True
            made += f"{pair['key']}{pair['equals']}{HIDDEN}"
        lines.append(made + _between(beginning[place:], is_hidden))
    return "\n".join(lines) + "\n", hidden, secrets


def _between(text: str, is_hidden: bool) -> str:
    """Return what is not a setting: ``include FILE``, a heading of scontrol, or blanks.

    :param is_hidden: whether it follows a hidden value, of which it may be the rest.
    """
    if not text.strip():
        return text
    return text if not is_hidden and len(text) <= 80 and _PLAIN.fullmatch(text) else f" {HIDDEN} "


def show_variables(text: str) -> tuple[str, int, list[str]]:
    """Return a file of NAME=VALUE lines with only known variables, such as NCCL's, and how many were hidden."""
    hidden, secrets, lines = 0, [], []
    for name, value in _variables(text):
        if _SHOWN_VARIABLE.fullmatch(name):
            lines.append(f"{name}={value}")
            continue
        hidden += 1
        if SECRET_NAME.match(name):
            secrets.append(value)
        lines.append(f"{name}={HIDDEN}")
    return "\n".join(lines) + "\n", hidden, secrets


def _variables(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        name = name.removeprefix("export ").strip()
        if equals and name and not name.startswith("#"):
            yield name, value.strip().strip("\"'")
