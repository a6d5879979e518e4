/* Copyright (c) 2026, hpcai.azure contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A stand-in for NVIDIA's CUDA driver and cuBLAS: GPUs use memory of the host, and their time is computed from the
 * amount of data copied and multiplied. The file named by CUDA_STAND_IN configures them, one "key=value" per line:
 *   gpu                       PCI address of a GPU that exists: gpu=0001:00:00.0
 *   to_gpu, to_host, peer     GB/s of copies; also for one GPU: 0003:00:00.0.to_gpu (peer: the GPU that reads)
 *   tflops                    of matrix products; also for one GPU
 *   no_access                 1: no GPU can access another
 *   wrong                     number of wrong elements in a product's result; also for one GPU
 *   fail.FUNCTION             error code that a function returns
 *   hang.FUNCTION             1: the function never returns
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_GPUS 16
#define INVALID_DEVICE 101
#define OUT_OF_MEMORY 2

static char gpus[MAX_GPUS][16];
static int count;
static int current;
static double now_s;
static double events[64];
static int used_events;

static int setting(const char *key, char *value, size_t size)
{
    const char *path = getenv("CUDA_STAND_IN");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    int found = 0;

    while (file && fgets(line, sizeof line, file)) {
        char *equals = strchr(line, '=');
        line[strcspn(line, "\n")] = 0;
        if (!equals)
            continue;
        *equals = 0;
        if (!strcmp(line, key)) {
            snprintf(value, size, "%s", equals + 1);
            found = 1;
        }
    }
    if (file)
        fclose(file);
    return found;
}

static double number(const char *key, double usual)
{
    char own[64], value[64];

    if (current < count) {
        snprintf(own, sizeof own, "%s.%s", gpus[current], key);
        if (setting(own, value, sizeof value))
            return atof(value);
    }
    return setting(key, value, sizeof value) ? atof(value) : usual;
}

static int trouble(const char *function)
{
    char key[64], value[64];

    snprintf(key, sizeof key, "hang.%s", function);
    while (setting(key, value, sizeof value))
        pause();
    snprintf(key, sizeof key, "fail.%s", function);
    return setting(key, value, sizeof value) ? atoi(value) : 0;
}

#define MAY_FAIL do { int code = trouble(__func__); if (code) return code; } while (0)

int cuInit(unsigned flags)
{
    char line[256];
    FILE *file = fopen(getenv("CUDA_STAND_IN"), "r");

    MAY_FAIL;
    count = 0;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "gpu=", 4) && count < MAX_GPUS) {
            line[strcspn(line, "\n")] = 0;
            snprintf(gpus[count++], sizeof gpus[0], "%.12s", line + 4);
        }
    if (file)
        fclose(file);
    return flags ? 1 : 0;
}

int cuGetErrorName(int code, const char **name)
{
    *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 101 ? "CUDA_ERROR_INVALID_DEVICE"
        : code == 214 ? "CUDA_ERROR_ECC_UNCORRECTABLE" : code == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : NULL;
    return *name ? 0 : 1;
}

int cuDeviceGetByPCIBusId(int *device, const char *busid)
{
    MAY_FAIL;
    for (int index = 0; index < count; index++)
        if (!strcmp(gpus[index], busid)) {
            *device = index;
            return 0;
        }
    return INVALID_DEVICE;
}

/* A context is the index of its GPU, plus one. */
int cuDevicePrimaryCtxRetain(uintptr_t *context, int device) { MAY_FAIL; *context = device + 1; return 0; }
int cuCtxSetCurrent(uintptr_t context) { MAY_FAIL; current = (int)context - 1; return 0; }
int cuStreamCreate(uintptr_t *stream, unsigned flags) { MAY_FAIL; *stream = 1; return flags == 1 ? 0 : 1; }
int cuStreamSynchronize(uintptr_t stream) { MAY_FAIL; return stream == 1 ? 0 : 1; }

int cuMemAlloc_v2(uint64_t *pointer, size_t size)
{
    MAY_FAIL;
    *pointer = (uint64_t)(uintptr_t)malloc(size);
    return *pointer ? 0 : OUT_OF_MEMORY;
}

int cuMemFree_v2(uint64_t pointer) { free((void *)(uintptr_t)pointer); return 0; }

int cuMemHostAlloc(void **pointer, size_t size, unsigned flags)
{
    MAY_FAIL;
    *pointer = malloc(size);
    return *pointer && !flags ? 0 : OUT_OF_MEMORY;
}

int cuMemFreeHost(void *pointer) { free(pointer); return 0; }

static int copied(void *to, const void *from, size_t size, const char *key)
{
    memmove(to, from, size);
    now_s += size / (number(key, 50) * 1e9);
    return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, uintptr_t stream)
{
    MAY_FAIL;
    return stream == 1 ? copied((void *)(uintptr_t)to, from, size, "to_gpu") : 1;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, uintptr_t stream)
{
    MAY_FAIL;
    return stream == 1 ? copied(to, (void *)(uintptr_t)from, size, "to_host") : 1;
}

int cuMemcpyPeerAsync(uint64_t to, uintptr_t to_context, uint64_t from, uintptr_t from_context, size_t size,
                      uintptr_t stream)
{
    MAY_FAIL;
    if (stream != 1 || to_context == from_context || (int)to_context - 1 != current)
        return 1;
    return copied((void *)(uintptr_t)to, (void *)(uintptr_t)from, size, "peer");
}

int cuDeviceCanAccessPeer(int *able, int device, int peer)
{
    MAY_FAIL;
    *able = device != peer && !number("no_access", 0);
    return 0;
}

int cuCtxEnablePeerAccess(uintptr_t context, unsigned flags) { MAY_FAIL; return context && !flags ? 0 : 1; }

int cuEventCreate(uintptr_t *event, unsigned flags)
{
    *event = (uintptr_t)(used_events++ % 64 + 1);
    return flags ? 1 : 0;
}

int cuEventRecord(uintptr_t event, uintptr_t stream) { events[event - 1] = now_s; return stream == 1 ? 0 : 1; }
int cuEventSynchronize(uintptr_t event) { MAY_FAIL; return event ? 0 : 1; }
int cuEventDestroy_v2(uintptr_t event) { return event ? 0 : 1; }

int cuEventElapsedTime(float *milliseconds, uintptr_t start, uintptr_t end)
{
    *milliseconds = (float)((events[end - 1] - events[start - 1]) * 1000);
    return 0;
}

int cuMemsetD16_v2(uint64_t pointer, unsigned short value, size_t elements)
{
    MAY_FAIL;
    for (size_t index = 0; index < elements; index++)
        ((unsigned short *)(uintptr_t)pointer)[index] = value;
    return 0;
}

static double as_double(unsigned short half)
{
    union { uint32_t bits; float value; } both = {(uint32_t)half << 16};
    return both.value;
}

int cublasCreate_v2(uintptr_t *handle) { MAY_FAIL; *handle = 7; return 0; }
int cublasSetStream_v2(uintptr_t handle, uintptr_t stream) { return handle == 7 && stream == 1 ? 0 : 1; }
int cublasDestroy_v2(uintptr_t handle) { return handle == 7 ? 0 : 1; }

/* All elements of a matrix are equal, so one element of each is enough to compute the result. */
int cublasGemmEx(uintptr_t handle, int op_left, int op_right, int m, int n, int k, const float *alpha,
                 const unsigned short *left, int type_left, int lead_left, const unsigned short *right, int type_right,
                 int lead_right, const float *beta, unsigned short *result, int type_result, int lead_result,
                 int compute, int algorithm)
{
    union { float value; uint32_t bits; } sum;

    MAY_FAIL;
    if (handle != 7 || op_left || op_right || *alpha != 1 || *beta || type_left != 14 || type_right != 14
        || type_result != 14 || lead_left != m || lead_right != k || lead_result != m || compute != 68
        || algorithm != -1)
        return 7;
    sum.value = (float)(as_double(left[0]) * as_double(right[0]) * k);
    for (long index = 0; index < (long)m * n; index++)
        result[index] = (unsigned short)(sum.bits >> 16);
    for (long index = 0; index < (long)number("wrong", 0); index++)
        result[index] ^= 1;
    now_s += 2.0 * m * n * k / (number("tflops", 700) * 1e12);
    return 0;
}
