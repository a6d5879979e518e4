# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The system call mount(2): its error number, which mount(8) hides behind one sentence for many causes."""

from __future__ import annotations

import ctypes
import os


def mount_error(filesystem: str, device: str, where: str) -> int:
    """Mount a device without options, and return the kernel's error number; 0 means that it is mounted now.

    :param filesystem: the type: the kernel does not guess, so a device that holds another type gives an error.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_void_p)
    done = libc.mount(os.fsencode(device), os.fsencode(where), os.fsencode(filesystem), 0, None)
    return ctypes.get_errno() if done != 0 else 0
