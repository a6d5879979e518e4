// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// A stand-in for nvidia-smi on top of the stand-in for NVML, written for these tests. It supports only what this
// collection and the plain commands that it replaces use. The README lists the public reports that quote its messages.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../nvml/abi.h"

Answer nvmlInit_v2(void);
Answer nvmlSystemGetDriverVersion(char *, unsigned);
Answer nvmlDeviceGetCount_v2(unsigned *);
Answer nvmlDeviceGetHandleByIndex_v2(unsigned, Device **);
Answer nvmlDeviceGetName(Device *, char *, unsigned);
Answer nvmlDeviceGetUUID(Device *, char *, unsigned);
Answer nvmlDeviceGetPciInfo_v3(Device *, PciInfo *);
Answer nvmlDeviceGetMigMode(Device *, unsigned *, unsigned *);
Answer nvmlDeviceGetPersistenceMode(Device *, unsigned *);
Answer nvmlDeviceSetPersistenceMode(Device *, unsigned);
Answer nvmlDeviceGetMaxClockInfo(Device *, unsigned, unsigned *);
Answer nvmlDeviceGetClockInfo(Device *, unsigned, unsigned *);
Answer nvmlDeviceGetApplicationsClock(Device *, unsigned, unsigned *);
Answer nvmlDeviceGetDefaultApplicationsClock(Device *, unsigned, unsigned *);
Answer nvmlDeviceGetSupportedMemoryClocks(Device *, unsigned *, unsigned *);
Answer nvmlDeviceGetSupportedGraphicsClocks(Device *, unsigned, unsigned *, unsigned *);
Answer nvmlDeviceSetApplicationsClocks(Device *, unsigned, unsigned);
Answer nvmlDeviceResetApplicationsClocks(Device *);
Answer nvmlDeviceSetGpuLockedClocks(Device *, unsigned, unsigned);
Answer nvmlDeviceResetGpuLockedClocks(Device *);
Answer nvmlDeviceSetMemoryLockedClocks(Device *, unsigned, unsigned);
Answer nvmlDeviceResetMemoryLockedClocks(Device *);
Answer nvmlDeviceGetComputeRunningProcesses_v3(Device *, unsigned *, Process *);

Answer nvmlDeviceGetSerial(Device *, char *, unsigned);
Answer nvmlDeviceGetVbiosVersion(Device *, char *, unsigned);
Answer nvmlDeviceGetCurrentClocksEventReasons(Device *, unsigned long long *);
Answer nvmlDeviceGetTemperature(Device *, unsigned, unsigned *);
Answer nvmlDeviceGetPowerUsage(Device *, unsigned *);
Answer nvmlDeviceGetEnforcedPowerLimit(Device *, unsigned *);
Answer nvmlDeviceGetPowerManagementDefaultLimit(Device *, unsigned *);
Answer nvmlDeviceGetEccMode(Device *, unsigned *, unsigned *);
Answer nvmlDeviceGetMemoryErrorCounter(Device *, unsigned, unsigned, unsigned, unsigned long long *);
Answer nvmlDeviceGetRemappedRows(Device *, unsigned *, unsigned *, unsigned *, unsigned *);
Answer nvmlDeviceGetCurrPcieLinkWidth(Device *, unsigned *);
Answer nvmlDeviceGetMaxPcieLinkWidth(Device *, unsigned *);
Answer nvmlDeviceGetCurrPcieLinkGeneration(Device *, unsigned *);
Answer nvmlDeviceGetMaxPcieLinkGeneration(Device *, unsigned *);
Answer nvmlDeviceGetGpuMaxPcieLinkGeneration(Device *, unsigned *);
Answer nvmlDeviceGetMemoryInfo_v2(Device *, MemoryInfo *);
Answer nvmlDeviceGetFieldValues(Device *, int, FieldValue *);
Answer nvmlDeviceGetNvLinkState(Device *, unsigned, unsigned *);
Answer nvmlDeviceGetGpuFabricInfo(Device *, FabricV1 *);

typedef Answer (*GetClock)(Device *, unsigned, unsigned *);

static const char *in_brackets(Answer answer) {
    switch (answer) {
    case NOT_SUPPORTED: return "[N/A]";
    case NO_PERMISSION: return "[Insufficient Permissions]";
    case GPU_IS_LOST: return "[GPU is lost]";
    case DEPRECATED: return "[Requested functionality has been deprecated]";
    default: return "[Unknown Error]";
    }
}

static void print_clock(GetClock get, Device *gpu, unsigned type) {
    unsigned mhz;
    Answer answer = get(gpu, type, &mhz);
    if (answer == SUCCESS) printf("%u", mhz);
    else printf("%s", in_brackets(answer));
}

static void print_switch(Answer answer, unsigned on) {
    printf("%s", answer != SUCCESS ? in_brackets(answer) : on ? "Enabled" : "Disabled");
}

static int begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

typedef Answer (*GetNumber)(Device *, unsigned *);

static const struct {
    const char *field;
    GetNumber get;
    // nvidia-smi prints watts, the library returns milliwatts.
    double divided_by;
} NUMBERS[] = {
    {"power.draw", nvmlDeviceGetPowerUsage, 1000},
    {"enforced.power.limit", nvmlDeviceGetEnforcedPowerLimit, 1000},
    {"power.default_limit", nvmlDeviceGetPowerManagementDefaultLimit, 1000},
    {"pcie.link.width.current", nvmlDeviceGetCurrPcieLinkWidth, 1},
    {"pcie.link.width.max", nvmlDeviceGetMaxPcieLinkWidth, 1},
    {"pcie.link.gen.current", nvmlDeviceGetCurrPcieLinkGeneration, 1},
    {"pcie.link.gen.max", nvmlDeviceGetMaxPcieLinkGeneration, 1},
    {"pcie.link.gen.gpumax", nvmlDeviceGetGpuMaxPcieLinkGeneration, 1},
};

static int print_number(const char *field, Device *gpu) {
    unsigned value;
    for (unsigned i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        if (strcmp(NUMBERS[i].field, field)) continue;
        Answer answer = NUMBERS[i].get(gpu, &value);
        if (answer) printf("%s", in_brackets(answer));
        else if (NUMBERS[i].divided_by > 1) printf("%.2f", value / NUMBERS[i].divided_by);
        else printf("%u", value);
        return 1;
    }
    return 0;
}

// `ecc.errors.uncorrected.volatile.sram` and similar.
static void print_errors(const char *field, Device *gpu) {
    unsigned long long count;
    Answer answer = nvmlDeviceGetMemoryErrorCounter(gpu, strstr(field, "uncorrected") != NULL,
                                                    strstr(field, "aggregate") != NULL, strstr(field, "sram") ? 7 : 2, &count);
    if (answer) printf("%s", in_brackets(answer));
    else printf("%llu", count);
}

static void print_pages(const char *field, Device *gpu) {
    FieldValue value = {.field = strstr(field, "sbe") ? 29 : strstr(field, "dbe") ? 30 : 31};
    Answer answer = nvmlDeviceGetFieldValues(gpu, 1, &value);
    if (answer || value.answer) printf("%s", in_brackets(answer ? answer : value.answer));
    else if (value.field == 31) printf("%s", value.value.big ? "Yes" : "No");
    else printf("%llu", value.value.big);
}

static void print_fabric(const char *field, Device *gpu) {
    static const char *const states[] = {"N/A", "Not Started", "In Progress", "Completed"};
    FabricV1 info;
    Answer answer = nvmlDeviceGetGpuFabricInfo(gpu, &info);
    if (answer) printf("%s", in_brackets(answer));
    else if (!strcmp(field, "fabric.state")) printf("%s", states[info.state & 3]);
    else printf("%s", info.status ? "Unknown Error" : "Success");
}

// Before driver 535 the clock reasons had another name.
static int is_old(void) {
    char version[96] = "";
    nvmlSystemGetDriverVersion(version, sizeof version);
    return atoi(version) < 535;
}

static void print_health(const char *field, Device *gpu) {
    char text[96];
    unsigned value, pending;
    unsigned long long bits;
    MemoryInfo memory = {.version = 0x02000028};
    Answer answer;
    if (print_number(field, gpu)) return;
    if (begins(field, "ecc.errors.")) print_errors(field, gpu);
    else if (begins(field, "retired_pages.")) print_pages(field, gpu);
    else if (begins(field, "fabric.")) print_fabric(field, gpu);
    else if (!strcmp(field, "serial") || !strcmp(field, "vbios_version")) {
        answer = field[0] == 's' ? nvmlDeviceGetSerial(gpu, text, sizeof text) : nvmlDeviceGetVbiosVersion(gpu, text, sizeof text);
        printf("%s", answer ? in_brackets(answer) : text);
    } else if (!strcmp(field, is_old() ? "clocks_throttle_reasons.active" : "clocks_event_reasons.active")) {
        answer = nvmlDeviceGetCurrentClocksEventReasons(gpu, &bits);
        answer ? printf("%s", in_brackets(answer)) : printf("0x%016llx", bits);
    } else if (!strcmp(field, "temperature.gpu")) {
        answer = nvmlDeviceGetTemperature(gpu, 0, &value);
        answer ? printf("%s", in_brackets(answer)) : printf("%u", value);
    } else if (!strcmp(field, "memory.used")) {
        answer = nvmlDeviceGetMemoryInfo_v2(gpu, &memory);
        answer ? printf("%s", in_brackets(answer)) : printf("%llu", memory.used >> 20);
    } else if (!strcmp(field, "ecc.mode.current")) {
        answer = nvmlDeviceGetEccMode(gpu, &value, &pending);
        print_switch(answer, value);
    } else {
        printf("Field \"%s\" is not a valid field to query.\n", field);
        exit(2);
    }
}

static void print_field(const char *field, unsigned index, unsigned count, Device *gpu) {
    char text[96];
    unsigned on = 0, pending;
    PciInfo pci;
    unsigned type = strstr(field, "mem") ? CLOCK_MEMORY : CLOCK_GRAPHICS;
    Answer answer = SUCCESS;
    if (!strcmp(field, "index")) printf("%u", index);
    else if (!strcmp(field, "count")) printf("%u", count);
    else if (!strcmp(field, "uuid") || !strcmp(field, "name")) {
        answer = field[0] == 'u' ? nvmlDeviceGetUUID(gpu, text, sizeof text) : nvmlDeviceGetName(gpu, text, sizeof text);
        printf("%s", answer == SUCCESS ? text : in_brackets(answer));
    } else if (!strcmp(field, "driver_version")) {
        answer = nvmlSystemGetDriverVersion(text, sizeof text);
        printf("%s", answer == SUCCESS ? text : in_brackets(answer));
    } else if (!strcmp(field, "pci.bus_id")) {
        answer = nvmlDeviceGetPciInfo_v3(gpu, &pci);
        printf("%s", answer == SUCCESS ? pci.bus_id : in_brackets(answer));
    } else if (!strcmp(field, "mig.mode.current")) {
        answer = nvmlDeviceGetMigMode(gpu, &on, &pending);
        print_switch(answer, on);
    } else if (!strcmp(field, "persistence_mode")) {
        answer = nvmlDeviceGetPersistenceMode(gpu, &on);
        print_switch(answer, on);
    } else if (begins(field, "clocks.max.")) print_clock(nvmlDeviceGetMaxClockInfo, gpu, type);
    else if (begins(field, "clocks.current.")) print_clock(nvmlDeviceGetClockInfo, gpu, type);
    else if (begins(field, "clocks.applications.")) print_clock(nvmlDeviceGetApplicationsClock, gpu, type);
    else if (begins(field, "clocks.default_applications.")) print_clock(nvmlDeviceGetDefaultApplicationsClock, gpu, type);
    else print_health(field, gpu);
}

static void query(char *fields, unsigned index, unsigned count, Device *gpu) {
    char copy[4096], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", fields);
    for (char *field = strtok_r(copy, ",", &rest); field; field = strtok_r(NULL, ",", &rest)) {
        if (field != copy) printf(", ");
        print_field(field, index, count, gpu);
    }
    printf("\n");
}

static void list_clocks(Device *gpu) {
    char uuid[96];
    unsigned memory[8], graphics[256], memories = 8;
    if (nvmlDeviceGetUUID(gpu, uuid, sizeof uuid) || nvmlDeviceGetSupportedMemoryClocks(gpu, &memories, memory)) return;
    for (unsigned m = 0; m < memories; m++) {
        unsigned many = 256;
        if (nvmlDeviceGetSupportedGraphicsClocks(gpu, memory[m], &many, graphics)) continue;
        for (unsigned g = 0; g < many; g++) printf("%s, %u, %u\n", uuid, memory[m], graphics[g]);
    }
}

static void list_processes(Device *gpu) {
    PciInfo pci;
    Process processes[32];
    unsigned count = 32;
    if (nvmlDeviceGetPciInfo_v3(gpu, &pci) || nvmlDeviceGetComputeRunningProcesses_v3(gpu, &count, processes)) return;
    for (unsigned i = 0; i < count; i++) printf("%u, %s\n", processes[i].pid, pci.bus_id);
}

static void list_rows(const char *fields, Device *gpu) {
    static const char *const names[] = {"correctable", "uncorrectable", "pending", "failure"};
    char copy[1024], *rest = NULL;
    PciInfo pci;
    unsigned found[4];
    if (nvmlDeviceGetPciInfo_v3(gpu, &pci)) return;
    Answer answer = nvmlDeviceGetRemappedRows(gpu, &found[0], &found[1], &found[2], &found[3]);
    snprintf(copy, sizeof copy, "%s", fields);
    for (char *field = strtok_r(copy, ",", &rest); field; field = strtok_r(NULL, ",", &rest)) {
        if (field != copy) printf(", ");
        if (!strcmp(field, "gpu_bus_id")) printf("%s", pci.bus_id);
        for (int i = 0; i < 4; i++) {
            if (!begins(field, "remapped_rows.") || strcmp(strchr(field, '.') + 1, names[i])) continue;
            answer ? printf("%s", in_brackets(answer)) : printf("%u", found[i]);
        }
    }
    printf("\n");
}

static int list_name(unsigned index, Device *gpu) {
    char name[96], uuid[96];
    if (nvmlDeviceGetName(gpu, name, sizeof name) || nvmlDeviceGetUUID(gpu, uuid, sizeof uuid)) return 0;
    printf("GPU %u: %s (UUID: %s)\n", index, name, uuid);
    return 1;
}

static void list_links(unsigned index, Device *gpu, int errors) {
    unsigned active;
    FieldValue counted[] = {{.field = 52}, {.field = 59}, {.field = 38}};
    if (!list_name(index, gpu)) return;
    nvmlDeviceGetFieldValues(gpu, 3, counted);
    for (unsigned link = 0; !nvmlDeviceGetNvLinkState(gpu, link, &active); link++) {
        if (!errors) {
            printf("\t Link %u: %s\n", link, active ? "25 GB/s" : "<inactive>");
            continue;
        }
        // The library counts the errors of all links together, so they are printed for the first link.
        printf("\t Link %u: Replay Errors: %llu\n", link, link ? 0 : counted[0].value.big);
        printf("\t Link %u: Recovery Errors: %llu\n", link, link ? 0 : counted[1].value.big);
        printf("\t Link %u: CRC Errors: %llu\n", link, link ? 0 : counted[2].value.big);
    }
}

// Print the result of a change; return 0 to continue.
static int said(Answer answer, const char *what, const char *bus_id) {
    if (answer == NOT_SUPPORTED) {
        printf("Setting %s clocks is not supported for GPU %s.\nTreating as warning and moving on.\n", what, bus_id);
        return 0;
    }
    if (answer == NO_PERMISSION) {
        printf("The current user does not have permission to change clocks for GPU %s.\n", bus_id);
        printf("Terminating early due to previous errors.\n");
    } else if (answer == DEPRECATED) printf("The requested functionality has been deprecated\n");
    else if (answer != SUCCESS) printf("Setting %s clocks failed for GPU %s: %s\n", what, bus_id, in_brackets(answer));
    return answer;
}

static int change(const char *option, const char *value, Device *gpu) {
    PciInfo pci;
    unsigned one = 0, two = 0;
    if (nvmlDeviceGetPciInfo_v3(gpu, &pci)) return 15;
    const char *bus_id = pci.bus_id;
    int values = value ? sscanf(value, "%u,%u", &one, &two) : 0;
    if (values == 1) two = one;
    if (!strcmp(option, "--persistence-mode") || !strcmp(option, "-pm"))
        return said(nvmlDeviceSetPersistenceMode(gpu, one), "persistence", bus_id);
    if (!strcmp(option, "--applications-clocks") || !strcmp(option, "-ac")) {
        Answer answer = nvmlDeviceSetApplicationsClocks(gpu, one, two);
        if (!answer) printf("Applications clocks set to \"(MEM %u, SM %u)\" for GPU %s\n", one, two, bus_id);
        return said(answer, "applications", bus_id);
    }
    if (!strcmp(option, "--lock-gpu-clocks") || !strcmp(option, "-lgc")) {
        Answer answer = nvmlDeviceSetGpuLockedClocks(gpu, one, two);
        if (!answer) printf("GPU clocks set to \"(gpuClkMin %u, gpuClkMax %u)\" for GPU %s\n", one, two, bus_id);
        return said(answer, "locked GPU", bus_id);
    }
    if (!strcmp(option, "--lock-memory-clocks") || !strcmp(option, "-lmc")) {
        Answer answer = nvmlDeviceSetMemoryLockedClocks(gpu, one, two);
        if (!answer) printf("Memory clocks set to \"(memClkMin %u, memClkMax %u)\" for GPU %s\n", one, two, bus_id);
        return said(answer, "locked Memory", bus_id);
    }
    if (!strcmp(option, "--reset-applications-clocks") || !strcmp(option, "-rac"))
        return said(nvmlDeviceResetApplicationsClocks(gpu), "applications", bus_id);
    if (!strcmp(option, "--reset-gpu-clocks") || !strcmp(option, "-rgc"))
        return said(nvmlDeviceResetGpuLockedClocks(gpu), "locked GPU", bus_id);
    if (!strcmp(option, "--reset-memory-clocks") || !strcmp(option, "-rmc"))
        return said(nvmlDeviceResetMemoryLockedClocks(gpu), "locked Memory", bus_id);
    printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
    return 2;
}

static int is_meant(const char *id, unsigned index, Device *gpu) {
    PciInfo pci;
    char *end;
    if (!id) return 1;
    unsigned long number = strtoul(id, &end, 10);
    if (!*end) return number == index;
    return !nvmlDeviceGetPciInfo_v3(gpu, &pci) && strstr(pci.bus_id, id) != NULL;
}

int main(int argc, char **argv) {
    char *option = NULL, *value = NULL, *id = NULL;
    unsigned count, answer;
    for (int i = 1; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (!strcmp(argv[i], "-i")) id = argv[++i];
        else if (begins(argv[i], "--id=")) id = equals + 1;
        else if (!begins(argv[i], "--format")) {
            option = argv[i];
            if (equals) *equals = 0, value = equals + 1;
            else if (i + 1 < argc && argv[i + 1][0] != '-') value = argv[++i];
        }
    }
    answer = nvmlInit_v2();
    if (answer == DRIVER_NOT_LOADED) {
        printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
               "NVIDIA driver is installed and running.\n");
        return 9;
    }
    if (answer == MISMATCH) return printf("Failed to initialize NVML: Driver/library version mismatch\n"), (int)answer;
    if (answer) return printf("Failed to initialize NVML: %s\n", in_brackets(answer)), (int)answer;
    nvmlDeviceGetCount_v2(&count);
    if (!count) return printf("No devices were found\n"), 6;
    if (!option) return 0;
    if (!strcmp(option, "-s")) option = "--status";
    for (unsigned index = 0; index < count; index++) {
        Device *gpu;
        char *end;
        if (id && strtoul(id, &end, 10) != index && !*end) continue;
        answer = nvmlDeviceGetHandleByIndex_v2(index, &gpu);
        // Not from the library: domain is index + 1, as in the stand-in for NVML.
        char lost_id[32];
        snprintf(lost_id, sizeof lost_id, "%04X:00:00.0", index + 1);
        if (answer && id && *end && !strstr(id, lost_id)) continue;
        if (answer)
            return printf("Unable to determine the device handle for GPU%u: %s: %s\n", index, lost_id,
                          answer == GPU_IS_LOST ? "GPU is lost.  Reboot the system to recover this GPU" : "Unknown Error"), 15;
        if (!is_meant(id, index, gpu)) continue;
        if (!strcmp(option, "--query-gpu")) query(value, index, count, gpu);
        else if (!strcmp(option, "--query-supported-clocks")) list_clocks(gpu);
        else if (!strcmp(option, "--query-compute-apps")) list_processes(gpu);
        else if (!strcmp(option, "--query-remapped-rows")) list_rows(value, gpu);
        else if (!strcmp(option, "--list-gpus")) list_name(index, gpu);
        else if (!strcmp(option, "--status")) list_links(index, gpu, 0);
        else if (!strcmp(option, "--errorcounters")) list_links(index, gpu, 1);
        else if ((answer = (unsigned)change(option, value, gpu))) return (int)answer;
    }
    if (begins(option, "--query") || begins(option, "--list") || !strcmp(option, "--status")) return 0;
    if (strcmp(option, "--errorcounters")) printf("All done.\n");
    return 0;
}
