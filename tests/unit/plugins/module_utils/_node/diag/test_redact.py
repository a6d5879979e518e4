# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hiding secrets: each kind of secret is found, and what support needs stays readable."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import time

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.diag import pseudonyms
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.catalog import CATALOG
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.item import Command
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.pseudonyms import Pseudonyms
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.redact import Redactor
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.settings import (
    show_json,
    show_slurm,
    show_variables,
)

from .planted import IN_LOGS


@pytest.mark.parametrize("kind", IN_LOGS)
def test_hides_each_kind_of_secret(kind: str) -> None:
    text, secret = IN_LOGS[kind]
    shown, count = Redactor().redact(f"before\n2026-01-01T00:00:00 {text}\n")
    assert secret not in shown
    assert count >= 1
    assert shown.startswith("before\n2026-01-01T00:00:00 ")


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-smi: GPU 00000001:00:00.0: Xid 79, pid=1234, GPU has fallen off the bus.",
        "slurmctld: error: Nodes compute-[0-3] not responding, setting DOWN",
        "5f3c1f0a-0000-4000-8000-000000000001 Standard_ND96isr_H100_v5",
        "/usr/lib/python3/dist-packages/azurelinuxagent/common/osutil/default.py:1234",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "verdict: pass", "AuthType=auth/munge", "max_tokens_total 4096", "CUDA_VISIBLE_DEVICES=0,1,2,3",
        "Speculative Store Bypass: Mitigation", "port 18515: 0x8f104d5a", "AccountingStoragePass = (null)",
        "mlx5_ib0: link/infiniband 00:00:09:28:fe:80:00:00:00:00:00:00:00:15:5d:ff:fe:33:ff:0a",
    ],
)  # fmt: skip
def test_leaves_what_support_needs(line: str) -> None:
    assert Redactor().redact(line) == (line, 0)


def test_hides_binary_lines_and_removes_control_characters() -> None:
    shown, count = Redactor().redact("a\x1b[31mb\x07c\r\n" + "\ufffd" * 20 + "\nd\n")
    assert shown == "abc\n<hidden: binary>\nd\n"
    assert count == 1


def test_hides_learned_values_everywhere() -> None:
    redactor = Redactor()
    redactor.learn(["a plain sentence", "no"])
    assert redactor.redact("it was a plain sentence, no?") == ("it was <hidden: setting>, no?", 1)


def test_shows_known_settings_of_json_only() -> None:
    inner = '{"registry_password": "secret-word"}'
    text = f'{{"schema": 1, "path": "/scratch", "hook": "free text", "account": {inner}, "a": true}}'
    shown, hidden, secrets = show_json(text)
    assert '"/scratch"' in shown
    assert '"a": true' in shown
    assert "free text" not in shown
    assert "secret-word" not in shown
    assert (hidden, secrets) == (2, ["secret-word"])
    assert "free text" not in show_json("free text = 1")[0]


def test_shows_results_with_their_values_but_settings_without() -> None:
    assert '"460.2"' in show_json('{"value": "460.2"}', results=True)[0]
    assert "460.2" not in show_json('{"value": "460.2"}')[0]


def test_shows_known_keys_of_slurm_only() -> None:
    text = (
        "# StoragePass=in-a-comment\nClusterName=a SlurmctldPort=6817 # note\nStoragePass=Secret_Word\n"
        'NewKey="something new"\nNodeName=c-[0-3] CPUs=96 Gres=gpu:a100:8\ninclude nodes.conf\n'
    )
    shown, hidden, secrets = show_slurm(text)
    assert shown.splitlines() == [
        "ClusterName=a SlurmctldPort=6817",
        "StoragePass=<not shown>",
        "NewKey=<not shown>",
        "NodeName=c-[0-3] CPUs=96 Gres=gpu:a100:8",
        "include nodes.conf",
    ]
    assert (hidden, secrets) == (2, ["Secret_Word"])


def test_shows_known_variables_only() -> None:
    shown, hidden, secrets = show_variables("NCCL_DEBUG=INFO\nexport MY_TOKEN='x y z'\nOTHER=1\n")
    assert shown == "NCCL_DEBUG=INFO\nMY_TOKEN=<not shown>\nOTHER=<not shown>\n"
    assert (hidden, secrets) == (2, ["x y z"])


def test_the_rest_of_a_hidden_value_is_hidden_too() -> None:
    shown, _hidden, _secrets = show_slurm("StoragePass   = two words of it\nPluginDir     = /usr/lib/slurm\n")
    assert "words" not in shown
    assert "PluginDir     = /usr/lib/slurm" in shown


HOSTILE = (
    *("a", "A", "a.", "a-", "-", "--", ":", "::", "eyJ", "eyJ.", "?sv=", "?sv=&", "://a", "://a:", "a@", "a@a.", "0"),
    *("00 ", "token=", 'token=\\"', "--token ", "sig=", "-----BEGIN PRIVATE KEY-----", "$6$", "A_KEY", "1.1.1."),
    *("a\\\\", "\\\\", "a$", "+", "UserId=", "UserId=a\\\\"),
    *("{", "\ufffd"),
)
UNFINISHED = f"-----BEGIN {'PRIVATE ' * 50_000}"


@pytest.mark.parametrize("text", [*(piece * (100_000 // len(piece)) for piece in HOSTILE), UNFINISHED])
def test_hostile_text_costs_no_more_than_its_size(text: str) -> None:
    """A user can write anything into a log. A pattern whose time grows with the square would need hours for this."""
    names = Pseudonyms("salt")
    names.learn(users=["CORP\\alice"])
    began = time.process_time()
    for item in CATALOG:
        names.learn_from(item, text)
    names.replace(Redactor().redact(text)[0])
    assert time.process_time() - began < 5


def test_names_in_lines_that_users_write_take_no_time_and_are_replaced_only_there() -> None:
    """The archive of a faulty node would not be complete before the arbiter restarts the node."""
    lines = [f"NodeName=wwww{number} user=xxxx{number} /home/yyyy{number}" for number in range(20_000)]
    text = "\n".join([*lines, "user=error", "error: gpu 3", "for user carol, carol"])
    names = Pseudonyms("salt")
    began = time.process_time()
    for item in CATALOG:
        if "journal" in item.name or "log" in item.name:
            names.learn_from(item, text)
    shown = names.replace(text)
    assert time.process_time() - began < 5
    assert not [name for name in ("wwww", "xxxx", "yyyy") if name in shown]
    assert shown.splitlines()[-2:] == ["error: gpu 3", f"for user {names.of('user', 'carol')}, carol"]
    assert f"user={names.of('user', 'error')}" in shown
    assert names.replace("error: gpu 4") == "error: gpu 4"
    assert len(names.names) == 60_002


def test_names_take_a_limited_amount_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pseudonyms, "_MOST_NAMES", 10)
    names = Pseudonyms("salt")
    text = "\n".join(f"/home/user{number}" for number in range(100))
    assert "user99" not in names.replace(text)
    assert list(names.names) == [f"user{number}" for number in range(10)]


SDIAG = """\
Remote Procedure Call statistics by message type
\tREQUEST_PARTITION_INFO                  ( 2009) count:10     ave_time:154    total_time:1543

Remote Procedure Call statistics by user
\talice           (    1000) count:84     ave_time:2      total_time:168
\tprometheus      (     114) count:9      ave_time:2      total_time:18
\tfirstname.lastname(  200001) count:2      ave_time:2      total_time:4

Pending RPC statistics
\tREQUEST_TERMINATE_JOB                   ( 6011) count:3
"""
"""As src/sdiag/sdiag.c of Slurm 24.11 prints it. A name may fill its column."""

PROCESSES = """\
    PID    PPID   UID USER                             STAT ELAPSED   RSS WCHAN       COMMAND
      7       1  1000 alice                            S         10   200 do_wait     bob x 1000 carol
      8       1   114 nvidia-persistenced              S         10   200 do_wait     nvidia-persiste
      9       1 64030 slurmdbd                         S         10   200 do_wait     slurmdbd
     10       1 200001 firstname.lastname@example.corp S         10   200 do_wait     sleep
     11       1 200002 200002                          S         10   200 do_wait     sleep
"""
"""ps of procps 4.0.2. The last name has more than 32 characters."""


@pytest.mark.parametrize(
    ("item", "text", "learned", "kept"),
    [
        (
            "processes",
            PROCESSES,
            "alice firstname.lastname@example.corp",
            "bob carol nvidia-persistenced.service slurmdbd 200002",
        ),
        ("jobs", "7|alice|gpu-long|RUNNING|None|1:00|batch-3|x", "alice", "gpu-long RUNNING"),
        ("runs", "7|alice|gpu|FAILED|0:0|x|y|z|batch-3", "alice", "batch-3"),
        ("scheduler", SDIAG, "alice firstname.lastname", "prometheus REQUEST_PARTITION_INFO REQUEST_TERMINATE_JOB"),
        (
            "nodes",
            "NodeName=batch-3 NodeAddr=host77 State=IDLE Reason=NodeName=error",
            "batch-3 host77 batch-17",
            "error",
        ),
        ("configuration_loaded", "SlurmctldHost[0]        = control(10.0.0.1)", "control", "Slurmctld"),
        ("slurm_configuration", "NodeName=batch-[0-3],login[1-2] CPUs=4", "batch-9 batch-[0-1] login2", "CPUs"),
        ("events", "batch-3|now|later|DOWN|NodeName=error|root", "batch-3", "error"),
        ("job_logs", "NodeName=batch-3 UserId=alice(1000)", "", "batch-3 alice"),
    ],
)
def test_names_are_learned_only_where_no_user_writes(item: str, text: str, learned: str, kept: str) -> None:
    names = Pseudonyms("salt")
    names.learn_from(next(one for one in CATALOG if one.name == item), text)
    shown = names.replace(f"{learned} | {kept}")
    assert not [name for name in learned.split() if name in shown]
    assert shown.endswith(f"| {kept}")


def test_ps_shows_uid_and_name_where_they_are_learned() -> None:
    item = next(one for one in CATALOG if one.name == "processes")
    assert isinstance(item.source, Command)
    shown = subprocess.run(item.source.words, capture_output=True, text=True, check=True).stdout.splitlines()
    (own,) = [line for line in shown if line.split()[0] == str(os.getpid())]
    match = re.match(item.users, own)
    assert match is not None
    assert (int(match["uid"]), match["name"]) == (os.getuid(), pwd.getpwuid(os.getuid()).pw_name)
    # ps cuts a name that is longer than its column, and one of up to 32 characters is shown nowhere else.
    assert shown[0].index(" STAT") - shown[0].index("USER") == 32


def test_accounts_of_people_are_learned_and_those_of_services_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    uids = {
        "root": 0,
        "mysql": 114,
        "alice": 1000,
        "slurmuser": 64030,
        "dynamic": 61184,
        "nobody": 65534,
        "bob": 200001,
    }
    found = [pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/sh")) for name, uid in uids.items()]
    monkeypatch.setattr(pwd, "getpwall", lambda: found)
    assert pseudonyms.users_of_this_machine() == ["alice", "bob"]


def test_words_with_learned_names_are_replaced() -> None:
    names = Pseudonyms("salt")
    names.learn(users=["alice"], hosts=["batch-3.cluster.local", "10.1.2.3"])
    host = names.of("host", "batch-3")
    assert (
        names.replace("batch-3: batch-3. x=batch-3, --alice")
        == f"{host}: {host}. x={host}, --{names.of('user', 'alice')}"
    )
    assert names.replace("batch-3.cluster.local") == names.of("host", "batch-3.cluster.local")
    assert names.replace("batch-3.example") == f"{host}.example"
    assert names.replace("malice alicee batch-3-x batch") == "malice alicee batch-3-x batch"


def test_names_with_a_domain_are_replaced() -> None:
    """Winbind has CORP\\alice or CORP+alice, SSSD has alice@corp."""
    names = Pseudonyms("salt")
    learned = ["CORP\\alice", "CORP+carol", "dave.x@corp", "login3$"]
    names.learn(users=learned)
    alice, carol, dave, login = (names.of("user", name) for name in learned)
    assert (
        names.replace("CORP\\alice: x=CORP+carol, (dave.x@corp). -CORP+carol. login3$")
        == f"{alice}: x={carol}, ({dave}). -{carol}. {login}"
    )
    assert names.replace('{"user": "CORP\\\\alice"}') == f'{{"user": "{alice}"}}'
    assert names.replace("UserId=CORP\\alice(1000)") == f"UserId={alice}(1000)"
    for path in ("/home/CORP/alice", "/home/carol", "/scratch/dave.x", "/home/alice@corp.example"):
        shown = names.replace(path)
        assert not [name for name in ("alice", "carol", "dave") if name in shown]
    assert names.replace("malice\\x CORP\\alicee g++ a@b 7$") == "malice\\x CORP\\alicee g++ a@b 7$"
    # Not learned, but at a place that has a name.
    assert "bob" not in names.replace("UserId=CORP\\bob(1000) for user 'CORP+bob'")


def key_lines(number: int) -> list[str]:
    """Lines of a private key, the last of which is short."""
    return [f"Nov 28 host x[1]: {'Ab1+' * 16}" for _line in range(number - 1)] + ["Nov 28 host x[1]: c2hvcnQ="]


@pytest.mark.parametrize("number", [1, 52, 199, 200, 201, 202, 5000])
def test_a_private_key_without_an_end_hides_none_of_the_lines_after_it_but_each_of_its_own(number: int) -> None:
    begin = "Nov 28 host x[1]: -----BEGIN RSA PRIVATE KEY-----"
    rest = [f"Nov 28 host kernel: error {line}" for line in range(1000)]
    shown, count = Redactor().redact("\n".join([begin, *key_lines(number), *rest]))
    assert "Ab1+" not in shown
    assert "c2hvcnQ=" not in shown
    assert count == 1
    lost = max(200 - number, 0)
    assert shown.splitlines() == ["Nov 28 host x[1]: <hidden: private key>", *rest[lost:]]


def test_an_end_far_away_is_not_that_of_the_key() -> None:
    rest = [f"error {line}" for line in range(1000)]
    text = "\n".join(["-----BEGIN PRIVATE KEY-----", *rest, "-----END PRIVATE KEY-----", "more"])
    shown, _count = Redactor().redact(text)
    assert shown.splitlines() == ["<hidden: private key>", *rest[200:], "-----END PRIVATE KEY-----", "more"]
