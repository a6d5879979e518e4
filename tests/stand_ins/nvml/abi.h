// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The binary interface between NVML and its clients: the numbers and layouts that the stand-in needs, written down
// from the public header (CUDA 13.3). This is not a copy of that header.
#pragma once

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
    MISMATCH = 18,
    DEPRECATED = 26,
};

enum { CLOCK_GRAPHICS = 0, CLOCK_SM = 1, CLOCK_MEMORY = 2, CLOCK_VIDEO = 3 };

typedef int Answer;

// A handle, which is opaque to clients, points to one of these. `instance` is -1 for the GPU itself.
typedef struct {
    unsigned gpu;
    int instance;
} Device;

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} PciInfo;

// Of nvmlDeviceGetComputeRunningProcesses_v2 and _v3.
typedef struct {
    unsigned pid;
    unsigned long long used_memory;
    unsigned gpu_instance, compute_instance;
} Process;

// Of nvmlDeviceGetMemoryInfo_v2.
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} MemoryInfo;

// Of nvmlDeviceGetFieldValues.
typedef struct {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned type;
    Answer answer;
    union {
        double real;
        unsigned number;
        unsigned long long big;
        int with_sign;
    } value;
} FieldValue;

// Of nvmlDeviceGetGpuFabricInfo.
typedef struct {
    unsigned char cluster[16];
    Answer status;
    unsigned clique, state;
} FabricV1;
