# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The error number of mount(2), from the real system call."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.mount_call import mount_error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may mount")
def test_returns_the_error_of_the_kernel(tmp_path: pathlib.Path) -> None:
    assert mount_error("tmpfs", "none", str(tmp_path)) == errno.EPERM


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gets as far as the file system")
def test_returns_the_error_of_the_kernel_to_root(tmp_path: pathlib.Path) -> None:
    assert mount_error("no-such-type", "none", str(tmp_path / "missing")) in (errno.ENOENT, errno.EPERM)
