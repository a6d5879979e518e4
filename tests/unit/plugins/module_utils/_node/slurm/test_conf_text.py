# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How Slurm reads a text of slurm.conf."""

from __future__ import annotations

import pathlib

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.conf_text import parse_conf, read_conf


def test_comments_case_and_white_space_are_ignored() -> None:
    conf = parse_conf("# first\nClusterName = one  # more\n\nselecttype=select/cons_tres SchedulerParameters=a,b\\#c\n")
    assert conf.settings == {"clustername": "one", "selecttype": "select/cons_tres", "schedulerparameters": "a,b\\#c"}
    assert conf.names["schedulerparameters"] == "SchedulerParameters"


def test_lines_can_be_continued_and_quotes_can_contain_blanks() -> None:
    conf = parse_conf('SchedulerParameters=a,\\\n  b\nMailProg="/bin/mail -s x"\n')
    assert conf.settings["mailprog"] == "/bin/mail -s x"
    assert conf.settings["schedulerparameters"] == "a,"


def test_a_key_that_appears_twice_has_both_values() -> None:
    assert parse_conf("SlurmctldHost=a\nSlurmctldHost=b\n").settings == {"slurmctldhost": "a\nb"}


def test_each_node_has_its_address_and_the_defaults_above_it() -> None:
    conf = parse_conf(
        "NodeName=DEFAULT RealMemory=1945 State=UNKNOWN\n"
        "NodeName=compute-[0,3] NodeAddr=10.0.0.[5-6] CPUs=2\n"
        "NodeName=compute-[4-5] NodeAddr=127.0.0.1 CPUs=2 State=CLOUD\n"
    )
    assert list(conf.nodes) == ["compute-0", "compute-3", "compute-4", "compute-5"]
    assert conf.nodes["compute-3"] == {"nodeaddr": "10.0.0.6", "cpus": "2", "realmemory": "1945", "state": "UNKNOWN"}
    assert conf.nodes["compute-5"]["nodeaddr"] == "127.0.0.1"
    assert conf.nodes["compute-5"]["state"] == "CLOUD"
    assert conf.settings == {}


def test_an_unknown_notation_is_one_name() -> None:
    assert list(parse_conf("NodeName=r[0-1]n[0-1] CPUs=2\n").nodes) == ["r[0-1]n[0-1]"]


def test_partitions_and_other_lines_are_separated() -> None:
    conf = parse_conf("PartitionName=compute Nodes=ALL MaxTime=1-00:00:00\nNodeSet=a Feature=b\n")
    assert conf.partitions == {"compute": {"nodes": "ALL", "maxtime": "1-00:00:00"}}
    assert conf.others == ("NodeSet=a Feature=b",)


def test_included_files_are_read(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "etc/slurm"
    folder.mkdir(parents=True)
    (folder / "slurm.conf").write_text("ClusterName=one\ninclude more.conf\n", encoding="utf-8")
    (folder / "more.conf").write_text("MaxJobCount=5\n", encoding="utf-8")
    conf = read_conf(Root(str(tmp_path)), "/etc/slurm")
    assert conf.settings == {"clustername": "one", "maxjobcount": "5"}
