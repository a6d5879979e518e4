// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The machine and its settings, in two text files of `key=value` lines in the folder $NVML_STAND_IN: the test writes
// `config`, the library writes `state`. `state` takes precedence. Both are read for each call, so all processes see
// the same.
#pragma once

#include "abi.h"

#define MOST_GPUS 64

// The value of a key, or `otherwise` if neither file has it. `format` makes the key.
long number(long otherwise, const char *key, ...) __attribute__((format(printf, 2, 3)));
// The same for a text of at most 127 characters; returns whether it is there.
int text(char *value, const char *key, ...) __attribute__((format(printf, 2, 3)));
// Store a number.
void remember(long value, const char *key, ...) __attribute__((format(printf, 2, 3)));
// Remove all keys with this prefix.
void forget(const char *prefix, ...) __attribute__((format(printf, 1, 2)));

// Each exported function begins with one of these. They write the call to the file `calls`, wait if the test requests
// it (`hang.FUNCTION[.GPU]=SECONDS`), and return a requested error (`fail.FUNCTION[.GPU]=CODE`), or that NVML is not
// initialized, or that the GPU is lost.
Answer begin_system(const char *function);
Answer begin(const char *function, const Device *device);
// The same for a function that changes something, which needs root.
Answer begin_change(const char *function, const Device *device);

unsigned gpu_count(void);
