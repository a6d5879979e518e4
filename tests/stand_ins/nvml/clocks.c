// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Clocks: supported, set and current ones.
#include <string.h>

#include "models.h"
#include "state.h"

static Answer fill(const unsigned *found, unsigned many, unsigned *count, unsigned *clocks) {
    unsigned room = *count;
    *count = many;
    if (room < many) return INSUFFICIENT_SIZE;
    memcpy(clocks, found, many * sizeof *clocks);
    return SUCCESS;
}

static int has_memory_clock(const Model *model, unsigned mhz) {
    for (const unsigned *clock = model->memory; *clock; clock++)
        if (*clock == mhz) return 1;
    return 0;
}

EXPORT Answer nvmlDeviceGetSupportedMemoryClocks(Device *device, unsigned *count, unsigned *clocks) {
    Answer answer = begin("nvmlDeviceGetSupportedMemoryClocks", device);
    if (answer != SUCCESS) return answer;
    const Model *model = model_of(device->gpu);
    unsigned many = 0;
    while (model->memory[many]) many++;
    return fill(model->memory, many, count, clocks);
}

EXPORT Answer nvmlDeviceGetSupportedGraphicsClocks(Device *device, unsigned memory, unsigned *count, unsigned *clocks) {
    unsigned found[256], many = 0;
    Answer answer = begin("nvmlDeviceGetSupportedGraphicsClocks", device);
    if (answer != SUCCESS) return answer;
    const Model *model = model_of(device->gpu);
    if (!has_memory_clock(model, memory)) return NOT_FOUND;
    for (unsigned mhz = model->graphics_most; mhz >= model->graphics_least; mhz -= model->graphics_step)
        found[many++] = mhz;
    return fill(found, many, count, clocks);
}

EXPORT Answer nvmlDeviceGetMaxClockInfo(Device *device, unsigned type, unsigned *mhz) {
    Answer answer = begin("nvmlDeviceGetMaxClockInfo", device);
    if (answer != SUCCESS) return answer;
    const Model *model = model_of(device->gpu);
    *mhz = type == CLOCK_MEMORY ? model->memory[0] : model->graphics_most;
    return SUCCESS;
}

static unsigned application(unsigned gpu, unsigned type) {
    const Model *model = model_of(gpu);
    if (type == CLOCK_MEMORY) return (unsigned)number(model->default_memory, "gpu.%u.set.application_memory", gpu);
    return (unsigned)number(model->default_graphics, "gpu.%u.set.application_graphics", gpu);
}

// The clock that a GPU runs at: the lock's upper limit if there is one, else the application clock.
static unsigned running(unsigned gpu, unsigned type) {
    if (type == CLOCK_MEMORY) {
        long locked = number(0, "gpu.%u.set.locked_memory_most", gpu);
        return locked ? (unsigned)locked : application(gpu, type);
    }
    long locked = number(0, "gpu.%u.set.locked_graphics_most", gpu);
    return locked ? (unsigned)locked : application(gpu, type);
}

EXPORT Answer nvmlDeviceGetClockInfo(Device *device, unsigned type, unsigned *mhz) {
    Answer answer = begin("nvmlDeviceGetClockInfo", device);
    if (answer != SUCCESS) return answer;
    const char *name = type == CLOCK_MEMORY ? "memory" : "graphics";
    *mhz = (unsigned)number(running(device->gpu, type), "gpu.%u.running_%s", device->gpu, name);
    return SUCCESS;
}

// Reasons why clocks are not higher: `gpu.N.reasons=BITS`, for example 4 for the power cap.
static Answer reasons(const char *function, Device *device, unsigned long long *bits) {
    Answer answer = begin(function, device);
    if (answer == SUCCESS) *bits = (unsigned long long)number(0, "gpu.%u.reasons", device->gpu);
    return answer;
}

EXPORT Answer nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *bits) {
    return reasons("nvmlDeviceGetCurrentClocksEventReasons", device, bits);
}

EXPORT Answer nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *bits) {
    return reasons("nvmlDeviceGetCurrentClocksThrottleReasons", device, bits);
}

#ifndef WITHOUT_APPLICATION_CLOCKS
static int has_graphics_clock(const Model *model, unsigned mhz) {
    return mhz <= model->graphics_most && mhz >= model->graphics_least &&
           (model->graphics_most - mhz) % model->graphics_step == 0;
}

// `application_clocks=CODE` plays a driver without application clocks: 3 for not supported, 26 for deprecated.
static Answer without_application_clocks(Answer answer) {
    return answer == SUCCESS ? (Answer)number(SUCCESS, "application_clocks") : answer;
}

EXPORT Answer nvmlDeviceGetApplicationsClock(Device *device, unsigned type, unsigned *mhz) {
    Answer answer = without_application_clocks(begin("nvmlDeviceGetApplicationsClock", device));
    if (answer == SUCCESS) *mhz = application(device->gpu, type);
    return answer;
}

EXPORT Answer nvmlDeviceGetDefaultApplicationsClock(Device *device, unsigned type, unsigned *mhz) {
    Answer answer = without_application_clocks(begin("nvmlDeviceGetDefaultApplicationsClock", device));
    if (answer != SUCCESS) return answer;
    const Model *model = model_of(device->gpu);
    *mhz = type == CLOCK_MEMORY ? model->default_memory : model->default_graphics;
    return SUCCESS;
}

EXPORT Answer nvmlDeviceSetApplicationsClocks(Device *device, unsigned memory, unsigned graphics) {
    Answer answer = without_application_clocks(begin_change("nvmlDeviceSetApplicationsClocks", device));
    if (answer != SUCCESS) return answer;
    const Model *model = model_of(device->gpu);
    if (!has_memory_clock(model, memory) || !has_graphics_clock(model, graphics)) return INVALID_ARGUMENT;
    if (number(0, "stuck.%u", device->gpu)) return SUCCESS;
    remember(memory, "gpu.%u.set.application_memory", device->gpu);
    remember(graphics, "gpu.%u.set.application_graphics", device->gpu);
    return SUCCESS;
}

EXPORT Answer nvmlDeviceResetApplicationsClocks(Device *device) {
    Answer answer = without_application_clocks(begin_change("nvmlDeviceResetApplicationsClocks", device));
    if (answer == SUCCESS) forget("gpu.%u.set.application_", device->gpu);
    return answer;
}
#endif

static Answer lock(Answer answer, Device *device, const char *what, int can, unsigned least, unsigned most) {
    if (answer != SUCCESS) return answer;
    if (!can) return NOT_SUPPORTED;
    if (!least || least > most) return INVALID_ARGUMENT;
    remember(least, "gpu.%u.set.locked_%s_least", device->gpu, what);
    remember(most, "gpu.%u.set.locked_%s_most", device->gpu, what);
    return SUCCESS;
}

static Answer unlock(Answer answer, Device *device, const char *what, int can) {
    if (answer != SUCCESS) return answer;
    if (!can) return NOT_SUPPORTED;
    forget("gpu.%u.set.locked_%s", device->gpu, what);
    return SUCCESS;
}

static const Model *of(Device *device) { return model_of(device ? device->gpu : 0); }

EXPORT Answer nvmlDeviceSetGpuLockedClocks(Device *device, unsigned least, unsigned most) {
    Answer answer = begin_change("nvmlDeviceSetGpuLockedClocks", device);
    return lock(answer, device, "graphics", of(device)->locks_graphics, least, most);
}

EXPORT Answer nvmlDeviceResetGpuLockedClocks(Device *device) {
    Answer answer = begin_change("nvmlDeviceResetGpuLockedClocks", device);
    return unlock(answer, device, "graphics", of(device)->locks_graphics);
}

EXPORT Answer nvmlDeviceSetMemoryLockedClocks(Device *device, unsigned least, unsigned most) {
    Answer answer = begin_change("nvmlDeviceSetMemoryLockedClocks", device);
    return lock(answer, device, "memory", of(device)->locks_memory, least, most);
}

EXPORT Answer nvmlDeviceResetMemoryLockedClocks(Device *device) {
    Answer answer = begin_change("nvmlDeviceResetMemoryLockedClocks", device);
    return unlock(answer, device, "memory", of(device)->locks_memory);
}
