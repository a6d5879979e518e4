# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Why a start comes to nothing, sorted by whose fault that is: it decides what becomes of the node and of the job."""

from __future__ import annotations


class OwnFailure(RuntimeError):
    """This node's part cannot be had; the message is one line: what, where, what to do. The node is drained."""


class UsersFault(RuntimeError):
    """What users can cause, as a full scratch: the job goes back into the queue, and the node is not drained."""


class PeerMissing(RuntimeError):
    """This node's part is there, and another node's is not; the message says what is missing."""


class JobGone(RuntimeError):
    """The job is not to run any more: cancelled, or put back by another node; the message says what became of it."""
