// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

#define _GNU_SOURCE
#include "state.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LINE 256

int initialized = 0;

static const char *folder(void) {
    const char *path = getenv("NVML_STAND_IN");
    // The folder on a simulated node with GPUs, whose systemd units do not set NVML_STAND_IN.
    return path ? path : "/var/lib/nvml-stand-in";
}

static FILE *open_file(const char *name, const char *mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder(), name);
    return fopen(path, mode);
}

// All reads and writes happen under one lock. The caller closes the descriptor.
static int lock(int how) {
    char path[4096];
    snprintf(path, sizeof path, "%s/lock", folder());
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor >= 0) flock(descriptor, how);
    return descriptor;
}

static int look_up(const char *file_name, const char *key, char *value) {
    char line[LINE];
    size_t length = strlen(key);
    int found = 0;
    FILE *file = open_file(file_name, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) != 0 || line[length] != '=') continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(value, 128, "%s", line + length + 1);
        found = 1;
    }
    fclose(file);
    return found;
}

static int find(char *value, const char *key) {
    int descriptor = lock(LOCK_SH);
    int found = look_up("state", key, value) || look_up("config", key, value);
    if (descriptor >= 0) close(descriptor);
    return found;
}

int text(char *value, const char *key, ...) {
    char name[LINE];
    va_list arguments;
    va_start(arguments, key);
    vsnprintf(name, sizeof name, key, arguments);
    va_end(arguments);
    return find(value, name);
}

long number(long otherwise, const char *key, ...) {
    char name[LINE], value[128];
    va_list arguments;
    va_start(arguments, key);
    vsnprintf(name, sizeof name, key, arguments);
    va_end(arguments);
    return find(value, name) ? strtol(value, NULL, 10) : otherwise;
}

// Replace the state by a copy without the keys that begin with `prefix`, with a line added.
static void rewrite(const char *prefix, const char *added) {
    char line[LINE], old_path[4096], new_path[4096];
    int descriptor = lock(LOCK_EX);
    FILE *old = open_file("state", "re"), *new = open_file("state.new", "we");
    while (new && old && fgets(line, sizeof line, old))
        if (strncmp(line, prefix, strlen(prefix)) != 0) fputs(line, new);
    if (old) fclose(old);
    if (new) {
        fputs(added, new);
        fclose(new);
        snprintf(old_path, sizeof old_path, "%s/state", folder());
        snprintf(new_path, sizeof new_path, "%s/state.new", folder());
        rename(new_path, old_path);
    }
    if (descriptor >= 0) close(descriptor);
}

void remember(long value, const char *key, ...) {
    char name[LINE], prefix[LINE + 1], line[LINE + 32];
    va_list arguments;
    va_start(arguments, key);
    vsnprintf(name, sizeof name, key, arguments);
    va_end(arguments);
    snprintf(prefix, sizeof prefix, "%s=", name);
    snprintf(line, sizeof line, "%s=%ld\n", name, value);
    rewrite(prefix, line);
}

void forget(const char *prefix, ...) {
    char name[LINE];
    va_list arguments;
    va_start(arguments, prefix);
    vsnprintf(name, sizeof name, prefix, arguments);
    va_end(arguments);
    rewrite(name, "");
}

unsigned gpu_count(void) {
    long count = number(8, "gpus");
    return count < 0 ? 0 : count > MOST_GPUS ? MOST_GPUS : (unsigned)count;
}

static void note(const char *function, const Device *device) {
    int descriptor = lock(LOCK_EX);
    FILE *file = open_file("calls", "ae");
    if (file && device) fprintf(file, "%d %s %u\n", (int)getpid(), function, device->gpu);
    if (file && !device) fprintf(file, "%d %s\n", (int)getpid(), function);
    if (file) fclose(file);
    if (descriptor >= 0) close(descriptor);
}

// A number for this function on this GPU, or else for this function on all GPUs.
static long asked_for(const char *what, const char *function, const Device *device) {
    long everywhere = number(0, "%s.%s", what, function);
    return device ? number(everywhere, "%s.%s.%u", what, function, device->gpu) : everywhere;
}

Answer begin_system(const char *function) {
    note(function, NULL);
    long seconds = asked_for("hang", function, NULL);
    if (seconds) sleep((unsigned)seconds);
    if (!initialized && strcmp(function, "nvmlInit_v2") != 0 && strcmp(function, "nvmlInitWithFlags") != 0)
        return UNINITIALIZED;
    return (Answer)asked_for("fail", function, NULL);
}

Answer begin(const char *function, const Device *device) {
    if (!device || device->gpu >= gpu_count()) return INVALID_ARGUMENT;
    note(function, device);
    long seconds = asked_for("hang", function, device);
    if (seconds) sleep((unsigned)seconds);
    if (asked_for("crash", function, device)) abort();
    if (!initialized) return UNINITIALIZED;
    if (number(0, "gpu.%u.lost", device->gpu)) return GPU_IS_LOST;
    return (Answer)asked_for("fail", function, device);
}

Answer begin_change(const char *function, const Device *device) {
    Answer answer = begin(function, device);
    if (answer != SUCCESS) return answer;
    return number(1, "root") ? SUCCESS : NO_PERMISSION;
}
