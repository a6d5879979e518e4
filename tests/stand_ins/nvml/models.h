// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The models that the stand-in supports: `model=NAME` for all GPUs, `gpu.N.model=NAME` for one.
#pragma once

#include "abi.h"

typedef struct {
    const char *key, *name;
    unsigned pci_device_id;
    // Memory clocks, highest first, with 0 at the end.
    unsigned memory[4];
    // Graphics clocks: from the highest to the lowest in equal steps, the same for each memory clock.
    unsigned graphics_most, graphics_least, graphics_step;
    unsigned default_memory, default_graphics;
    // GPUs with HBM cannot lock the memory clock; those before Volta and Ampere cannot lock any clock.
    int locks_graphics, locks_memory;
    int mig;
} Model;

const Model *model_of(unsigned gpu);
