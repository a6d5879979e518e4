// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The models that the stand-in can play: `model=NAME` for all GPUs, `gpu.N.model=NAME` for one.
#pragma once

#include "abi.h"

typedef struct {
    const char *key, *name;
    unsigned pci_device_id;
    // Memory clocks, highest first, 0 at the end.
    unsigned memory[4];
    // Graphics clocks: from the highest down to the lowest in equal steps, the same at each memory clock.
    unsigned graphics_most, graphics_least, graphics_step;
    unsigned default_memory, default_graphics;
    // Parts with HBM refuse to lock it; those before Volta and Ampere refuse locks at all.
    int locks_graphics, locks_memory;
    int mig;
} Model;

const Model *model_of(unsigned gpu);
