# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No search for garbage among thousands of hosts.

Python looks for objects that only refer to each other whenever many new ones were made. Reading hosts makes millions,
of which hardly any do so: at 1,000 hosts the search was a fifth of the processor time of `ansible-inventory`, and went
on in what Ansible did afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search() -> Iterator[None]:
    """Look for no garbage meanwhile, and afterwards not among what is there now.

    What an earlier call has set aside is looked at again: an inventory that is read anew must not keep the old one.
    Setting aside also keeps memory shared with the workers that Ansible forks.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    gc.unfreeze()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
