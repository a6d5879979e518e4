// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Health of a GPU: temperature, power, memory errors, links. Keys are `gpu.N.KEY` for one GPU, `KEY` for all.
// Without any key a GPU is healthy. The values of a healthy GPU are invented, not measured.
#include <stdio.h>
#include <string.h>

#include "models.h"
#include "state.h"

// The value of a key for this GPU, or else for all GPUs.
static long value(const Device *device, long otherwise, const char *key) {
    return number(number(otherwise, "%s", key), "gpu.%u.%s", device->gpu, key);
}

// Begin a function that returns one number, and return it. `KEY=none` plays a GPU that does not support it.
static Answer tell(const char *function, const Device *device, long otherwise, const char *key, unsigned *to) {
    char said[128];
    Answer answer = begin(function, device);
    if (answer != SUCCESS) return answer;
    if ((text(said, "gpu.%u.%s", device->gpu, key) || text(said, "%s", key)) && !strcmp(said, "none"))
        return NOT_SUPPORTED;
    *to = (unsigned)value(device, otherwise, key);
    return SUCCESS;
}

EXPORT Answer nvmlDeviceGetSerial(Device *device, char *to, unsigned length) {
    Answer answer = begin("nvmlDeviceGetSerial", device);
    if (answer == SUCCESS) snprintf(to, length, "13206210%05u", device->gpu);
    return answer;
}

EXPORT Answer nvmlDeviceGetVbiosVersion(Device *device, char *to, unsigned length) {
    char said[128] = "92.00.45.00.03";
    Answer answer = begin("nvmlDeviceGetVbiosVersion", device);
    if (answer != SUCCESS) return answer;
    if (!text(said, "gpu.%u.vbios", device->gpu)) text(said, "vbios");
    snprintf(to, length, "%s", said);
    return SUCCESS;
}

EXPORT Answer nvmlDeviceGetTemperature(Device *device, unsigned sensor, unsigned *degrees) {
    (void)sensor;
    return tell("nvmlDeviceGetTemperature", device, 31, "temperature", degrees);
}

// Thresholds 0 to 3: shutdown, slowdown, memory, GPU maximum. `thresholds=none` plays a GPU with margins instead.
EXPORT Answer nvmlDeviceGetTemperatureThreshold(Device *device, unsigned threshold, unsigned *degrees) {
    static const unsigned found[] = {92, 89, 95, 85};
    Answer answer = tell("nvmlDeviceGetTemperatureThreshold", device, 0, "thresholds", degrees);
    if (answer != SUCCESS) return answer;
    if (threshold > 3) return NOT_SUPPORTED;
    *degrees = found[threshold];
    return SUCCESS;
}

typedef struct {
    unsigned version;
    int margin;
} Margin;

// Degrees below the maximum operating temperature; only GPUs without thresholds report it.
EXPORT Answer nvmlDeviceGetMarginTemperature(Device *device, Margin *margin) {
    Answer answer = begin("nvmlDeviceGetMarginTemperature", device);
    if (answer == SUCCESS) margin->margin = (int)(87 - value(device, 31, "temperature"));
    return answer;
}

EXPORT Answer nvmlDeviceGetPowerUsage(Device *device, unsigned *milliwatts) {
    return tell("nvmlDeviceGetPowerUsage", device, 55000, "power", milliwatts);
}

EXPORT Answer nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *milliwatts) {
    return tell("nvmlDeviceGetEnforcedPowerLimit", device, 400000, "power_limit", milliwatts);
}

EXPORT Answer nvmlDeviceGetPowerManagementDefaultLimit(Device *device, unsigned *milliwatts) {
    return tell("nvmlDeviceGetPowerManagementDefaultLimit", device, 400000, "power_default", milliwatts);
}

EXPORT Answer nvmlDeviceGetEccMode(Device *device, unsigned *current, unsigned *pending) {
    Answer answer = tell("nvmlDeviceGetEccMode", device, 1, "ecc.mode", current);
    *pending = *current;
    return answer;
}

// `ecc.WHERE.KIND.SINCE=NUMBER`: sram, dram; uncorrected, corrected; volatile, aggregate.
static long errors(const Device *device, const char *where, unsigned uncorrected, unsigned aggregate) {
    char key[64];
    snprintf(key, sizeof key, "ecc.%s.%s.%s", where, uncorrected ? "uncorrected" : "corrected",
             aggregate ? "aggregate" : "volatile");
    return value(device, 0, key);
}

EXPORT Answer nvmlDeviceGetMemoryErrorCounter(Device *device, unsigned kind, unsigned since, unsigned where,
                                              unsigned long long *count) {
    Answer answer = begin("nvmlDeviceGetMemoryErrorCounter", device);
    if (answer != SUCCESS) return answer;
    // 2 is the device's memory, 7 is SRAM.
    if (where != 2 && where != 7) return NOT_SUPPORTED;
    *count = (unsigned long long)errors(device, where == 2 ? "dram" : "sram", kind, since);
    return SUCCESS;
}

typedef struct {
    unsigned version;
    unsigned long long aggregate_parity, aggregate_secded, aggregate_corrected;
    unsigned long long volatile_parity, volatile_secded, volatile_corrected;
    unsigned long long buckets[5];
    unsigned threshold_exceeded;
} SramStatus;

EXPORT Answer nvmlDeviceGetSramEccErrorStatus(Device *device, SramStatus *status) {
    Answer answer = begin("nvmlDeviceGetSramEccErrorStatus", device);
    if (answer != SUCCESS) return answer;
    status->aggregate_parity = (unsigned long long)errors(device, "sram", 1, 1);
    status->aggregate_secded = 0;
    status->aggregate_corrected = (unsigned long long)errors(device, "sram", 0, 1);
    status->volatile_parity = 0;
    status->volatile_secded = (unsigned long long)errors(device, "sram", 1, 0);
    status->volatile_corrected = (unsigned long long)errors(device, "sram", 0, 0);
    status->threshold_exceeded = (unsigned)value(device, 0, "ecc.sram.threshold");
    return SUCCESS;
}

// GPUs with HBM2e or newer remap rows, older ones retire pages.
EXPORT Answer nvmlDeviceGetRemappedRows(Device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                        unsigned *failure) {
    Answer answer = begin("nvmlDeviceGetRemappedRows", device);
    if (answer != SUCCESS) return answer;
    if (!model_of(device->gpu)->mig) return NOT_SUPPORTED;
    *corrected = (unsigned)value(device, 0, "rows.corrected");
    *uncorrected = (unsigned)value(device, 0, "rows.uncorrected");
    *pending = (unsigned)value(device, 0, "rows.pending");
    *failure = (unsigned)value(device, 0, "rows.failure");
    return SUCCESS;
}

EXPORT Answer nvmlDeviceGetCurrPcieLinkWidth(Device *device, unsigned *width) {
    return tell("nvmlDeviceGetCurrPcieLinkWidth", device, 16, "pcie.width", width);
}

EXPORT Answer nvmlDeviceGetMaxPcieLinkWidth(Device *device, unsigned *width) {
    return tell("nvmlDeviceGetMaxPcieLinkWidth", device, 16, "pcie.highest_width", width);
}

static unsigned own_generation(unsigned gpu) {
    unsigned id = model_of(gpu)->pci_device_id >> 16;
    // Hopper has 5, Ampere 4, older ones 3.
    return id >= 0x2300 ? 5 : id >= 0x2000 ? 4 : 3;
}

static Answer generation(const char *function, Device *device, const char *key, unsigned *to) {
    return tell(function, device, device ? (long)own_generation(device->gpu) : 0, key, to);
}

EXPORT Answer nvmlDeviceGetCurrPcieLinkGeneration(Device *device, unsigned *to) {
    return generation("nvmlDeviceGetCurrPcieLinkGeneration", device, "pcie.generation", to);
}

EXPORT Answer nvmlDeviceGetMaxPcieLinkGeneration(Device *device, unsigned *to) {
    return generation("nvmlDeviceGetMaxPcieLinkGeneration", device, "pcie.highest_generation", to);
}

EXPORT Answer nvmlDeviceGetGpuMaxPcieLinkGeneration(Device *device, unsigned *to) {
    return generation("nvmlDeviceGetGpuMaxPcieLinkGeneration", device, "pcie.own_generation", to);
}

// `memory_used=MIB`.
EXPORT Answer nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryInfo *memory) {
    Answer answer = begin("nvmlDeviceGetMemoryInfo_v2", device);
    if (answer != SUCCESS) return answer;
    memory->total = 40ull << 30;
    memory->reserved = 600ull << 20;
    memory->used = (unsigned long long)value(device, 0, "memory_used") << 20;
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

// `fail.nvmlDeviceValidateInforom.N=14` plays a corrupt inforom.
EXPORT Answer nvmlDeviceValidateInforom(Device *device) { return begin("nvmlDeviceValidateInforom", device); }

// `nvlinks=NUMBER`; by default the model's number.
static unsigned links(const Device *device) {
    const char *name = model_of(device->gpu)->name;
    long usual = strstr(name, "A100") ? 12 : strstr(name, "V100") ? 6 : 0;
    if (strstr(name, "H100") || strstr(name, "H200")) usual = 18;
    return (unsigned)value(device, usual, "nvlinks");
}

// `gpu.N.link.L=0` plays a link that is down.
EXPORT Answer nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *active) {
    Answer answer = begin("nvmlDeviceGetNvLinkState", device);
    if (answer != SUCCESS) return answer;
    if (!links(device)) return NOT_SUPPORTED;
    if (link >= links(device)) return INVALID_ARGUMENT;
    *active = (unsigned)number(1, "gpu.%u.link.%u", device->gpu, link);
    return SUCCESS;
}

enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3, SIGNED_INT = 5 };

// The fields that the product reads: retired pages, errors of all NVLinks together, their number, temperature margins.
static Answer one_field(const Device *device, FieldValue *field) {
    const char *key;
    int page = !model_of(device->gpu)->mig;
    field->type = UNSIGNED_LONG_LONG;
    switch (field->field) {
    case 29: key = "pages.single"; break;
    case 30: key = "pages.double"; break;
    case 31: key = "pages.pending"; break;
    case 38: key = "link_errors.crc_flit"; break;
    case 45: key = "link_errors.crc_data"; break;
    case 52: key = "link_errors.replay"; break;
    case 59: key = "link_errors.recovery"; break;
    case 91:
        field->type = UNSIGNED_INT;
        field->value.number = links(device);
        return SUCCESS;
    // Margins: slowdown is 2 degrees above the maximum operating temperature, which itself has margin 0.
    case 194:
    case 196:
        field->type = SIGNED_INT;
        field->value.with_sign = field->field == 194 ? -2 : 0;
        return SUCCESS;
    default: return NOT_SUPPORTED;
    }
    if (field->field < 32 ? !page : !links(device)) return NOT_SUPPORTED;
    field->value.big = (unsigned long long)value(device, 0, key);
    return SUCCESS;
}

EXPORT Answer nvmlDeviceGetFieldValues(Device *device, int count, FieldValue *fields) {
    Answer answer = begin("nvmlDeviceGetFieldValues", device);
    if (answer != SUCCESS) return answer;
    for (int i = 0; i < count; i++) fields[i].answer = one_field(device, &fields[i]);
    return SUCCESS;
}

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    Answer status;
    unsigned clique, state, health;
} FabricV2;

// `fabric.state`: 1 not started, 2 in progress, 3 completed; `fabric.status`: an error; `fabric.health`: two bits for
// each condition. GPUs before Hopper do not support it.
static Answer fabric(const char *function, Device *device, Answer *status, unsigned *state) {
    Answer answer = begin(function, device);
    if (answer != SUCCESS) return answer;
    if (own_generation(device->gpu) < 5) return NOT_SUPPORTED;
    *state = (unsigned)value(device, 3, "fabric.state");
    *status = (Answer)value(device, 0, "fabric.status");
    return SUCCESS;
}

EXPORT Answer nvmlDeviceGetGpuFabricInfoV(Device *device, FabricV2 *info) {
    Answer answer = fabric("nvmlDeviceGetGpuFabricInfoV", device, &info->status, &info->state);
    if (answer == SUCCESS) info->health = (unsigned)value(device, 0x22, "fabric.health");
    return answer;
}

EXPORT Answer nvmlDeviceGetGpuFabricInfo(Device *device, FabricV1 *info) {
    return fabric("nvmlDeviceGetGpuFabricInfo", device, &info->status, &info->state);
}
