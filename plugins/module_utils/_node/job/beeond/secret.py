# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The job's own secret, which its nodes need not tell each other: each makes it of what all of them have.

Whoever cannot read the cluster's munge key cannot make it, and it is another one for each job and each incarnation, so
that what is left of an earlier one is not let in.
"""

from __future__ import annotations

import hashlib
import hmac

from ...machine.root import Root
from .failures import OwnFailure
from .job import Job

MUNGE_KEY = "/etc/munge/munge.key"
_DOMAIN = "hpcai.azure beeond connAuthFile 1"
"""What the key is used for here: munge itself uses it for something else."""


def secret_of(job: Job, root: Root) -> str:
    """Return the text of the job's connAuthFile.

    :raises OwnFailure: the cluster's key cannot be read.
    """
    try:
        with open(root.at(MUNGE_KEY), "rb") as file:
            key = file.read()
    except OSError as error:
        raise OwnFailure(f"{MUNGE_KEY} cannot be read ({error.strerror}), and the job's secret is made of it") from None
    if not key:
        raise OwnFailure(f"{MUNGE_KEY} is empty, and the job's secret is made of it")
    words = (_DOMAIN, job.number, str(job.restarts), *job.nodes)
    return hmac.new(key, "\0".join(words).encode(), hashlib.sha256).hexdigest() + "\n"
