# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program whose command line and environment have the length of its argument, in bytes, and then sleeps.

Any user can run it: prctl(2) with PR_SET_MM_MAP requires no capability, and the memory is reserved only.
"""

import ctypes
import mmap
import sys
import time

PR_SET_MM, PR_SET_MM_MAP = 35, 14
# proc(5): startcode, endcode, start_data, end_data, start_brk, and startstack among the fields of /proc/PID/stat.
FIELDS = (26, 27, 45, 46, 47, 47, 28)


class Map(ctypes.Structure):
    """struct prctl_mm_map of linux/prctl.h."""

    _fields_ = (
        ("addresses", ctypes.c_uint64 * 11),
        ("auxv", ctypes.c_void_p),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    )


def main() -> None:
    """Move the command line and the environment, print ``ready``, and sleep."""
    size = int(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    # MAP_NORESERVE has no name in mmap.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
    start = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    with open("/proc/self/stat", encoding="ascii") as file:
        words = file.read().rpartition(")")[2].split()
    places = [int(words[field - 3]) for field in FIELDS]
    ctypes.memmove(start, b"A=1\0", 4)
    places += [start, start + size, start, start + size]
    wanted = Map((ctypes.c_uint64 * 11)(*places), None, 0, 0xFFFFFFFF)
    if libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(wanted), ctypes.sizeof(wanted), 0):
        sys.exit(f"prctl: errno {ctypes.get_errno()}")
    print("ready", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
