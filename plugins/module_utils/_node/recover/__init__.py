# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Recovery of jobs that ask for it, on the controller: requeued without the faulty node, or held with the reason.

A job asks with ``--comment=hpcai:recover``, or by its partition. ``job.recovery`` decides; this package finds the jobs
whose run has ended, collects their runs from slurmdbd, and carries the decisions out.
"""
