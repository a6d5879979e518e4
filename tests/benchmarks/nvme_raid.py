# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The overhead of nvme_raid over the plain commands that it replaces.

It runs as root on a node with hpcnode and free disks. In each round it builds a scratch of the disks and removes it:

- ``plain``: mdadm --create, mkfs.xfs, mount, as people type them;
- ``same``: the same with our options for stripes, and without discarding the disks: the difference to ours is overhead;
- ``ours``: ``hpcnode scratch up``, which is the module's code without Ansible;
- ``again``: the same again, with nothing to do;
- ``guard``: ``mountpoint``, which a careful shell script runs in this case, without checking the disks.

It needs only the standard library of Python 3.9: ``python3 nvme_raid.py /dev/nvme?n1``. A single disk gets no array.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

SETTINGS = pathlib.Path("/etc/hpcai/scratch.json")
MOUNTPOINT = "/tmp/hpcai-benchmark"
CHUNK = 512 * 1024


def timed(*commands: str) -> float:
    """Run commands one after the other, and return the seconds that they took."""
    begin = time.perf_counter()
    for command in commands:
        done = subprocess.run(
            shlex.split(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{command}: {done.stderr.strip() or done.stdout.strip()}")
    return time.perf_counter() - begin


def sequence(disks: list[str], options: str) -> list[str]:
    """The plain commands."""
    device = "/dev/md128" if len(disks) > 1 else disks[0]
    array = f"mdadm --create {device} --run --level 0 --raid-devices {len(disks)} {' '.join(disks)}"
    made = [array] if len(disks) > 1 else []
    return [f"mkdir -p {MOUNTPOINT}", *made, f"mkfs.xfs {options} {device}", f"mount {device} {MOUNTPOINT}"]


def take_apart(disks: list[str]) -> None:
    """Make the disks blank again."""
    source = subprocess.check_output(["findmnt", "-no", "SOURCE", "-M", MOUNTPOINT], text=True).strip()
    timed(f"umount {MOUNTPOINT}", f"rmdir {MOUNTPOINT}", "udevadm settle")
    if len(disks) > 1:
        timed(f"mdadm --stop {source}", "udevadm settle")
    timed(f"wipefs --all --quiet {' '.join(disks)}", "udevadm settle")


def measure(disks: list[str], hpcnode: str) -> dict[str, float]:
    """Run one round, and return the seconds of each contender."""
    stripes = f"-d su={CHUNK},sw={len(disks)} -l su=32k" if len(disks) > 1 else ""
    took = {}
    for name, options in (("plain", "-f -q"), ("same", f"-f -q -K {stripes}")):
        took[name] = timed(*sequence(disks, options))
        take_apart(disks)
    took["ours"] = timed(f"{hpcnode} scratch up")
    took["again"] = timed(f"{hpcnode} scratch up")
    took["guard"] = timed(f"mountpoint -q {MOUNTPOINT}")
    take_apart(disks)
    return took


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("disks", nargs="+", metavar="DISK", help="blank disks; they are overwritten")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hpcnode", default="hpcnode", metavar="COMMAND")
    parser.add_argument("--json", action="store_true", help="print the medians in seconds, as JSON")
    arguments = parser.parse_args()
    found = subprocess.check_output(["wipefs", "--no-act", *arguments.disks], text=True)
    if found.strip():
        raise SystemExit(f"these disks are not blank:\n{found}")
    if SETTINGS.exists() or os.path.ismount(MOUNTPOINT):
        raise SystemExit(f"{SETTINGS} or {MOUNTPOINT} exists: this node is in use")
    SETTINGS.parent.mkdir(exist_ok=True)
    SETTINGS.write_text(
        json.dumps({"schema": 1, "devices": arguments.disks, "mountpoint": MOUNTPOINT}), encoding="utf-8"
    )
    try:
        # The first round fills the caches of programs and modules, and is not counted.
        rounds = [measure(arguments.disks, arguments.hpcnode) for _round in range(arguments.rounds + 1)][1:]
    finally:
        SETTINGS.unlink()
    medians = {name: statistics.median(took[name] for took in rounds) for name in rounds[0]}
    if arguments.json:
        sys.stdout.write(json.dumps(medians) + "\n")
        return 0
    for name, seconds in medians.items():
        spread = " to ".join(f"{edge(took[name] for took in rounds):.3f}" for edge in (min, max))
        sys.stdout.write(f"{name:6} {seconds:8.3f} s  ({spread})\n")
    overhead = medians["ours"] - medians["same"]
    sys.stdout.write(
        f"overhead {overhead:.3f} s; ours/same {medians['ours'] / medians['same']:.2f}, "
        f"ours/plain {medians['ours'] / medians['plain']:.2f}; {len(arguments.disks)} disks, {len(rounds)} rounds\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
