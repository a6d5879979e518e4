# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hiding secrets: each kind of secret is found, and what support needs stays readable."""

from __future__ import annotations

import time

import pytest

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
    *("{", "\ufffd"),
)
UNFINISHED = f"-----BEGIN {'PRIVATE ' * 50_000}"


@pytest.mark.parametrize("text", [*(piece * (100_000 // len(piece)) for piece in HOSTILE), UNFINISHED])
def test_hostile_text_costs_no_more_than_its_size(text: str) -> None:
    """A user can write anything into a log. A pattern whose time grows with the square would need hours for this."""
    names = Pseudonyms("salt")
    began = time.process_time()
    names.learn_from(text)
    names.replace(Redactor().redact(text)[0])
    assert time.process_time() - began < 5
