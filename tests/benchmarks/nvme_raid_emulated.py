# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The benchmark of nvme_raid on the emulated machine of tests/hardware: eight NVMe disks, and a kernel with md.

If KVM does not work, its CPU is emulated and about twenty times slower than a real one. That slows the commands and our
own code equally, so only the ratios are meaningful, not the seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hardware import qemu
from hardware.controller import module
from hardware.image import prepare
from hardware.vm import Machine

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("nvme_raid.py")
LIMIT_S = 1800


def main() -> int:
    """Boot the machine, install hpcnode, run the benchmark and print its output."""
    image = prepare(_say)
    acceleration, reason = qemu.accelerator(image)
    (REPOSITORY / ".test-logs").mkdir(exist_ok=True)
    machine = Machine(image, acceleration, REPOSITORY / ".test-logs" / "benchmark-console.log")
    try:
        machine.start()
        _say(f"QEMU {qemu.version()}, {acceleration[0]}: {reason}; kernel {machine.run('uname -r').strip()}")
        installed = module(machine, "node_tools")
        if installed.failed:
            raise SystemExit(f"node_tools failed: {installed.msg}")
        machine.write("/root/nvme_raid.py", SCRIPT.read_text(encoding="utf-8"))
        arguments = " ".join(sys.argv[1:]) or "--rounds 5"
        sys.stdout.write(machine.run(f"python3 /root/nvme_raid.py /dev/nvme?n1 {arguments}", LIMIT_S))
    finally:
        machine.close()
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"[bench] {text}\n")


if __name__ == "__main__":
    raise SystemExit(main())
