// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The list of GPUs: handles, names, addresses, MIG, persistence mode, processes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "models.h"
#include "state.h"

#define MOST_INSTANCES 7

// Handles stay valid until the process ends. Row N: GPU N and its instances.
static Device handles[MOST_GPUS][MOST_INSTANCES + 1];

static Device *handle(unsigned gpu, int instance) {
    Device *device = &handles[gpu][instance + 1];
    device->gpu = gpu;
    device->instance = instance;
    return device;
}

// PCI domains as on Azure's ND sizes: one per GPU, bus 0.
static void bus_id(unsigned gpu, char *to, size_t length) {
    char given[128];
    if (text(given, "gpu.%u.busid", gpu)) snprintf(to, length, "%s", given);
    else snprintf(to, length, "%08X:00:00.0", gpu + 1);
}

static void uuid(const Device *device, char *to, size_t length) {
    if (device->instance < 0) snprintf(to, length, "GPU-%08x-1111-2222-3333-444444444444", device->gpu);
    else snprintf(to, length, "MIG-%08x-1111-2222-3333-%012x", device->gpu, (unsigned)device->instance);
}

static unsigned instances(unsigned gpu) {
    long count = number(0, "gpu.%u.mig", gpu) ? number(2, "gpu.%u.instances", gpu) : 0;
    return count > MOST_INSTANCES ? MOST_INSTANCES : (unsigned)count;
}

EXPORT Answer nvmlDeviceGetCount_v2(unsigned *count) {
    Answer answer = begin_system("nvmlDeviceGetCount_v2");
    if (answer == SUCCESS) *count = gpu_count();
    return answer;
}

EXPORT Answer nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    if (index >= gpu_count()) return INVALID_ARGUMENT;
    Answer answer = begin("nvmlDeviceGetHandleByIndex_v2", handle(index, -1));
    if (answer == SUCCESS) *device = handle(index, -1);
    return answer;
}

static Answer by_text(const char *function, int is_uuid, const char *wanted, Device **device) {
    char found[128];
    for (unsigned gpu = 0; gpu < gpu_count(); gpu++) {
        if (is_uuid) uuid(handle(gpu, -1), found, sizeof found);
        else bus_id(gpu, found, sizeof found);
        if (strcasecmp(found, wanted) != 0) continue;
        *device = handle(gpu, -1);
        return begin(function, *device);
    }
    Answer answer = begin_system(function);
    return answer == SUCCESS ? NOT_FOUND : answer;
}

EXPORT Answer nvmlDeviceGetHandleByUUID(const char *wanted, Device **device) {
    return by_text("nvmlDeviceGetHandleByUUID", 1, wanted, device);
}

EXPORT Answer nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, Device **device) {
    return by_text("nvmlDeviceGetHandleByPciBusId_v2", 0, wanted, device);
}

EXPORT Answer nvmlDeviceGetIndex(Device *device, unsigned *index) {
    Answer answer = begin("nvmlDeviceGetIndex", device);
    if (answer == SUCCESS) *index = device->gpu;
    return answer;
}

EXPORT Answer nvmlDeviceGetName(Device *device, char *name, unsigned length) {
    Answer answer = begin("nvmlDeviceGetName", device);
    if (answer != SUCCESS) return answer;
    const Model *model = model_of(device->gpu);
    if (strlen(model->name) >= length) return INSUFFICIENT_SIZE;
    strcpy(name, model->name);
    return SUCCESS;
}

EXPORT Answer nvmlDeviceGetUUID(Device *device, char *to, unsigned length) {
    Answer answer = begin("nvmlDeviceGetUUID", device);
    if (answer == SUCCESS) uuid(device, to, length);
    return answer;
}

EXPORT Answer nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *info) {
    Answer answer = begin("nvmlDeviceGetPciInfo_v3", device);
    if (answer != SUCCESS) return answer;
    memset(info, 0, sizeof *info);
    bus_id(device->gpu, info->bus_id, sizeof info->bus_id);
    sscanf(info->bus_id, "%8x:%2x:%2x", &info->domain, &info->bus, &info->device);
    snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.0", info->domain & 0xffff,
             info->bus & 0xff, info->device & 0xff);
    info->pci_device_id = model_of(device->gpu)->pci_device_id;
    return SUCCESS;
}

EXPORT Answer nvmlDeviceGetPersistenceMode(Device *device, unsigned *mode) {
    Answer answer = begin("nvmlDeviceGetPersistenceMode", device);
    if (answer == SUCCESS) *mode = (unsigned)number(0, "gpu.%u.persistence", device->gpu);
    return answer;
}

EXPORT Answer nvmlDeviceSetPersistenceMode(Device *device, unsigned mode) {
    Answer answer = begin_change("nvmlDeviceSetPersistenceMode", device);
    if (answer == SUCCESS) remember((long)mode, "gpu.%u.persistence", device->gpu);
    return answer;
}

EXPORT Answer nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    Answer answer = begin("nvmlDeviceGetMigMode", device);
    if (answer != SUCCESS) return answer;
    if (!model_of(device->gpu)->mig) return NOT_SUPPORTED;
    *current = *pending = (unsigned)number(0, "gpu.%u.mig", device->gpu);
    return SUCCESS;
}

EXPORT Answer nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) {
    Answer answer = begin("nvmlDeviceGetMaxMigDeviceCount", device);
    if (answer == SUCCESS) *count = model_of(device->gpu)->mig ? MOST_INSTANCES : 0;
    return answer;
}

EXPORT Answer nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **instance) {
    Answer answer = begin("nvmlDeviceGetMigDeviceHandleByIndex", device);
    if (answer != SUCCESS) return answer;
    if (index >= instances(device->gpu)) return NOT_FOUND;
    *instance = handle(device->gpu, (int)index);
    return SUCCESS;
}

EXPORT Answer nvmlDeviceIsMigDeviceHandle(Device *device, unsigned *is_one) {
    Answer answer = begin("nvmlDeviceIsMigDeviceHandle", device);
    if (answer == SUCCESS) *is_one = device->instance >= 0;
    return answer;
}

EXPORT Answer nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *instance, Device **device) {
    Answer answer = begin("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", instance);
    if (answer == SUCCESS) *device = handle(instance->gpu, -1);
    return answer;
}

// `gpu.N.processes=100,200@1`: PID 100, and PID 200 on MIG instance 1. With MIG, only root sees all processes.
EXPORT Answer nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *processes) {
    char listed[128] = "";
    unsigned room = *count, found = 0;
    Answer answer = begin("nvmlDeviceGetComputeRunningProcesses_v3", device);
    if (answer != SUCCESS) return answer;
    if (device->instance < 0 && instances(device->gpu) && !number(1, "root")) return NO_PERMISSION;
    text(listed, "gpu.%u.processes", device->gpu);
    for (char *rest = NULL, *one = strtok_r(listed, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        const char *at = strchr(one, '@');
        int instance = at ? atoi(at + 1) : -1;
        if (device->instance >= 0 && instance != device->instance) continue;
        if (found < room)
            processes[found] = (Process){(unsigned)atoi(one), 1ull << 30, (unsigned)instance, (unsigned)instance};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
