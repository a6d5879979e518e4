// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// What the machine is and what was set, in two text files of `key=value` lines in the folder $NVML_STAND_IN:
// `config` is the test's, `state` is the library's. What is in `state` wins; both are read anew for each question, and
// all processes see the same.
#pragma once

#include "abi.h"

#define MOST_GPUS 64

// The value of a key; `otherwise` if neither file has it. A format makes the key.
long number(long otherwise, const char *key, ...) __attribute__((format(printf, 2, 3)));
// The same for a text of at most 127 characters; returns whether it is there.
int text(char *value, const char *key, ...) __attribute__((format(printf, 2, 3)));
// Remember a number.
void remember(long value, const char *key, ...) __attribute__((format(printf, 2, 3)));
// Forget all keys that begin so.
void forget(const char *prefix, ...) __attribute__((format(printf, 1, 2)));

// Each exported function begins with one of these. They write the call into the file `calls`, wait where a test wants
// them to (`hang.FUNCTION[.GPU]=SECONDS`), and answer what the test wants (`fail.FUNCTION[.GPU]=CODE`), or that NVML
// was not initialized, or that the GPU is lost.
Answer begin_system(const char *function);
Answer begin(const char *function, const Device *device);
// The same for a function that changes something: only root may.
Answer begin_change(const char *function, const Device *device);

unsigned gpu_count(void);
