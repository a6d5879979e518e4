// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

#include "models.h"

#include <string.h>

#include "state.h"

// The collection's documentation has the sources of the highest clocks and of the A100's default. The other defaults
// and the steps are invented and say nothing about real GPUs.
static const Model MODELS[] = {
    {"a100-40", "NVIDIA A100-SXM4-40GB", 0x20B010DE, {1215}, 1410, 210, 15, 1215, 1095, 1, 0, 1},
    {"a100-80", "NVIDIA A100-SXM4-80GB", 0x20B210DE, {1593}, 1410, 210, 15, 1593, 1095, 1, 0, 1},
    {"h100", "NVIDIA H100 80GB HBM3", 0x233010DE, {2619, 1593}, 1980, 345, 15, 2619, 1980, 1, 0, 1},
    {"h200", "NVIDIA H200", 0x233510DE, {3201, 1593}, 1980, 345, 15, 3201, 1980, 1, 0, 1},
    {"v100", "Tesla V100-SXM2-32GB", 0x1DB510DE, {877}, 1530, 135, 15, 877, 1290, 1, 0, 0},
    {"a10", "NVIDIA A10", 0x223610DE, {6251, 405}, 1695, 210, 15, 6251, 1695, 1, 1, 0},
    {"k80", "Tesla K80", 0x102D10DE, {2505, 324}, 875, 335, 15, 2505, 560, 0, 0, 0},
};

const Model *model_of(unsigned gpu) {
    char key[128];
    if (text(key, "gpu.%u.model", gpu) || text(key, "model"))
        for (unsigned i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
            if (strcmp(MODELS[i].key, key) == 0) return &MODELS[i];
    return &MODELS[0];
}
