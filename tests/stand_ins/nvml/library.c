// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The library itself: initialization, shutdown, versions, error texts.
#include <stdio.h>
#include <string.h>

#include "state.h"

extern int initialized;

static Answer copy(const char *from, char *to, unsigned length) {
    if (!to) return INVALID_ARGUMENT;
    if (strlen(from) >= length) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return SUCCESS;
}

// Without persistence mode the driver resets a GPU's clocks when its last client disconnects. The next one sees that.
static void forget_what_does_not_persist(void) {
    for (unsigned gpu = 0; gpu < gpu_count(); gpu++) {
        char processes[128];
        if (!number(0, "gpu.%u.persistence", gpu) && !text(processes, "gpu.%u.processes", gpu))
            forget("gpu.%u.set.", gpu);
    }
}

static Answer init(const char *function) {
    Answer answer = begin_system(function);
    if (answer != SUCCESS) return answer;
    if (!number(1, "driver.loaded")) return DRIVER_NOT_LOADED;
    if (!initialized) forget_what_does_not_persist();
    initialized++;
    return SUCCESS;
}

EXPORT Answer nvmlInit_v2(void) { return init("nvmlInit_v2"); }

EXPORT Answer nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return init("nvmlInitWithFlags");
}

EXPORT Answer nvmlShutdown(void) {
    Answer answer = begin_system("nvmlShutdown");
    if (answer == SUCCESS) initialized--;
    return answer;
}

EXPORT Answer nvmlSystemGetDriverVersion(char *version, unsigned length) {
    char value[128] = "550.90.12";
    Answer answer = begin_system("nvmlSystemGetDriverVersion");
    if (answer != SUCCESS) return answer;
    text(value, "driver.version");
    return copy(value, version, length);
}

EXPORT Answer nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    char value[128] = "12.550.90.12";
    Answer answer = begin_system("nvmlSystemGetNVMLVersion");
    if (answer != SUCCESS) return answer;
    text(value, "driver.nvml_version");
    return copy(value, version, length);
}

EXPORT const char *nvmlErrorString(Answer code) {
    static __thread char said[64];
    static const char *const words[] = {
        [UNINITIALIZED] = "Uninitialized",
        [INVALID_ARGUMENT] = "Invalid Argument",
        [NOT_SUPPORTED] = "Not Supported",
        [NO_PERMISSION] = "Insufficient Permissions",
        [NOT_FOUND] = "Not Found",
        [INSUFFICIENT_SIZE] = "Insufficient Size",
        [DRIVER_NOT_LOADED] = "Driver Not Loaded",
        [11] = "Interrupt Request Issue",
        [14] = "Corrupted infoROM",
        [GPU_IS_LOST] = "GPU is lost",
        [16] = "GPU requires restart",
        [MISMATCH] = "RM has detected an NVML/RM version mismatch.",
        [DEPRECATED] = "Requested functionality has been deprecated",
    };
    if (code == 999) return "Unknown Error";
    if (code > 0 && code < (Answer)(sizeof words / sizeof *words) && words[code]) return words[code];
    snprintf(said, sizeof said, "Stand-in's error %d", code);
    return said;
}
