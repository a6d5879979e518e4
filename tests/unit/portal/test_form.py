# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The portal's form: what it offers, and that nothing else passes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from hpcai_portal import form, slurm

SINFO = """\
cpu*|infinite|4|(null)
cpu*|infinite|8|(null)
gpu|1-00:00:00|96+|gpu:a100:8(S:0-1)
short|30:00|96|gpu:a100:4,gpu:h100:2,nvme:1
"""
OFFER = form.Offer(form.partitions_of(SINFO), hours=8, containers={"PyTorch": "nvcr.io#nvidia/pytorch:25.04-py3"})
GOOD = {"partition": ["gpu"], "gpus": ["8"], "cpus": ["96"], "hours": ["8"], "container": ["PyTorch"]}


def test_partitions_have_the_largest_node_and_the_default_first() -> None:
    assert OFFER.partitions == (
        form.Partition("cpu", gpus=0, cpus=8, minutes=0, is_default=True),
        form.Partition("gpu", gpus=8, cpus=96, minutes=1440),
        form.Partition("short", gpus=6, cpus=96, minutes=30),
    )
    assert [one.name for one in form.partitions_of(SINFO, ["short", "none", "cpu"])] == ["short", "cpu"]
    assert form.partitions_of("slurm_load_partitions: error\n") == ()


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("infinite", 0), ("UNLIMITED", 0), ("n/a", 0), ("30:00", 30), ("1:30:00", 90), ("2-12:00:00", 3600), ("", 0)],
)
def test_time_limits_are_read_as_slurm_prints_them(limit: str, minutes: int) -> None:
    assert form.minutes_of(limit) == minutes


def test_the_choice_of_a_browser_is_accepted() -> None:
    assert form.choice_of({**GOOD, "image": [""], "_xsrf": ["x"]}, OFFER) == form.Choice(
        "gpu", gpus=8, cpus=96, hours=8, image="nvcr.io#nvidia/pytorch:25.04-py3", most_minutes=1440
    )
    least = {"partition": ["cpu"], "gpus": ["0"], "cpus": ["1"], "hours": ["1"]}
    assert form.choice_of(least, OFFER) == form.Choice("cpu")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("partition", []),
        ("partition", ["gpu", "cpu"]),
        ("partition", ["GPU"]),
        ("partition", ["gpu; id"]),
        ("partition", ["gpu\n#SBATCH --uid=0"]),
        ("gpus", ["9"]),
        ("gpus", ["-1"]),
        ("gpus", ["+1"]),
        ("gpus", [" 1"]),
        ("gpus", ["1\n"]),
        ("gpus", ["1_0"]),
        ("gpus", ["٣"]),
        ("gpus", ["1e1"]),
        ("gpus", [""]),
        ("cpus", ["0"]),
        ("cpus", ["97"]),
        ("cpus", ["$(id)"]),
        ("hours", ["9"]),
        ("hours", ["99999999999"]),
        ("container", ["other"]),
        ("container", ["--help"]),
        ("image", ["ubuntu"]),
        ("exec_prefix", ["id"]),
        ("env", ["LD_PRELOAD=x"]),
    ],
)
def test_everything_else_is_refused(field: str, values: list[str]) -> None:
    with pytest.raises(form.FormProblem):
        form.choice_of({**GOOD, field: values}, OFFER)


def test_a_partitions_own_limits_apply() -> None:
    short = {**GOOD, "partition": ["short"], "gpus": ["6"]}
    assert form.choice_of({**short, "hours": ["1"]}, OFFER).hours == 1
    # Slurm would refuse an hour, or let it wait.
    assert "--time=30" in slurm.submit("alice", form.choice_of({**short, "hours": ["1"]}, OFFER), [])
    for field, value in (("hours", "2"), ("gpus", "7")):
        with pytest.raises(form.FormProblem, match="from"):
            form.choice_of({**short, "hours": ["1"], field: [value]}, OFFER)


@pytest.mark.parametrize(
    ("image", "accepted"),
    [
        ("ubuntu", True),
        ("docker://nvcr.io#nvidia/pytorch:25.04-py3", True),
        ("/data/images/base.sqsh", True),
        ("registry.example.org:5000#team/image@sha256:ab", True),
        ("-v", False),
        ("--container-mounts=/:/host", False),
        ("a b", False),
        ("a,b", False),
        ("a\nb", False),
        ("a'b", False),
        ('a"b', False),
        ("a$(id)", False),
        ("a`id`", False),
        ("a\\b", False),
        ("{connection_file}", False),
        ("a" * 300, False),
        ("ü", False),
    ],
)
def test_an_own_image_has_no_character_with_a_meaning(image: str, accepted: bool) -> None:
    offer = form.Offer(OFFER.partitions, own_containers=True)
    asked = {"partition": ["cpu"], "gpus": ["0"], "cpus": ["1"], "hours": ["1"], "image": [image]}
    if accepted:
        assert form.choice_of(asked, offer).image == image
    else:
        with pytest.raises(form.FormProblem):
            form.choice_of(asked, offer)


def test_messages_show_what_was_sent_shortened_and_without_control_characters() -> None:
    with pytest.raises(form.FormProblem) as problem:
        form.choice_of({**GOOD, "partition": ["\x1b[2J\n" + "x" * 500]}, OFFER)
    message = str(problem.value)
    assert len(message) < 120
    assert not {"\x1b", "\n"} & {*message}


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def test_names_are_text_on_the_page() -> None:
    hostile = '"><script>alert(1)</script>'
    offer = form.Offer((form.Partition(hostile),), containers={hostile: "x"}, own_containers=True)
    parser = _Tags()
    parser.feed(form.page(offer))
    assert set(parser.tags) == {"div", "label", "select", "option", "input"}


def test_the_page_offers_what_the_check_accepts() -> None:
    text = form.page(OFFER)
    names = re.findall(r' name="(\w+)"', text)
    assert names == ["partition", "gpus", "cpus", "hours", "container"]
    assert 'name="gpus" min="0" max="8" value="1"' in text
    assert "image" not in names
    assert "gpu (8 GPUs, 96 cores, at most 24 h per node)" in text
    assert "short (6 GPUs, 96 cores, at most 30 min per node)" in text


def test_the_partition_and_the_gpus_that_a_user_chooses_reach_sbatch() -> None:
    """From the answer of sinfo through the fields on the page to the job's options."""
    text = form.page(OFFER)
    choices = re.findall(r'<option value="(\w+)">', text)[: len(OFFER.partitions)]
    most = {partition.name: str(partition.gpus) for partition in OFFER.partitions}
    for name in choices:
        choice = {**GOOD, "partition": [name], "gpus": [most[name]], "cpus": ["2"], "hours": ["1"]}
        command = slurm.submit("alice", form.choice_of(choice, OFFER), ["JUPYTERHUB_API_TOKEN"])
        given = {f"--partition={name}", "--cpus-per-task=2", f"--time={30 if name == 'short' else 60}"}
        assert given <= {*command}
        gpus = [word for word in command if word.startswith("--gpus")]
        assert gpus == ([f"--gpus={most[name]}"] if most[name] != "0" else [])
    assert choices == ["cpu", "gpu", "short"]
