/* Copyright (c) 2026, hpcai.azure contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Runs a command in a new user and mount namespace, with an unpacked image as its root file system.
 *
 *     enroot-switchroot ROOTFS [SOURCE:TARGET]... -- COMMAND [ARGUMENT]...
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void die(const char *what, const char *path)
{
    fprintf(stderr, "enroot-switchroot: %s: %s: %s\n", what, path, strerror(errno));
    exit(1);
}

static void put(const char *path, const char *text)
{
    int handle = open(path, O_WRONLY);
    if (handle < 0 || write(handle, text, strlen(text)) < 0)
        die("cannot write", path);
    close(handle);
}

/* Like enroot, create a target that the image lacks. */
static void make_parents(const char *target)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s", target);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            die("cannot make", path);
        *slash = '/';
    }
}

static void bind_to(const char *source, const char *target)
{
    struct stat found;
    if (stat(source, &found) < 0)
        die("no such file or directory", source);
    make_parents(target);
    if (S_ISDIR(found.st_mode)) {
        if (mkdir(target, 0755) < 0 && errno != EEXIST)
            die("cannot make", target);
    } else {
        int handle = open(target, O_WRONLY | O_CREAT, 0644);
        if (handle < 0)
            die("cannot make", target);
        close(handle);
    }
    if (mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0)
        die("cannot mount", source);
}

int main(int argc, char **argv)
{
    /* The last one as enroot itself does, in conf/mounts/10-system.fstab. */
    static const char *const of_host[] = {"/proc", "/sys", "/dev", "/tmp", "/etc/hosts"};
    char text[64], target[4096];
    int next = 2;
    uid_t uid = geteuid();
    gid_t gid = getegid();

    if (argc < 4)
        return 2;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        die("cannot make namespaces", "user, mount");
    put("/proc/self/setgroups", "deny");
    snprintf(text, sizeof(text), "%u %u 1\n", uid, uid);
    put("/proc/self/uid_map", text);
    snprintf(text, sizeof(text), "%u %u 1\n", gid, gid);
    put("/proc/self/gid_map", text);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        die("cannot make the host's mounts private", "/");
    if (mount(argv[1], argv[1], NULL, MS_BIND | MS_REC, NULL) < 0)
        die("cannot mount", argv[1]);
    for (size_t i = 0; i < sizeof(of_host) / sizeof(*of_host); i++) {
        snprintf(target, sizeof(target), "%s%s", argv[1], of_host[i]);
        bind_to(of_host[i], target);
    }
    for (; next < argc && strcmp(argv[next], "--") != 0; next++) {
        char *colon = strchr(argv[next], ':');
        if (colon)
            *colon = '\0';
        snprintf(target, sizeof(target), "%s%s", argv[1], colon ? colon + 1 : argv[next]);
        bind_to(argv[next], target);
    }
    if (chdir(argv[1]) < 0)
        die("cannot enter", argv[1]);
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        die("cannot change the root to", argv[1]);
    if (umount2(".", MNT_DETACH) < 0)
        die("cannot leave", "the host's root");
    if (chdir("/") < 0)
        die("cannot enter", "/");
    if (next + 1 >= argc)
        return 2;
    execvp(argv[next + 1], argv + next + 1);
    die("cannot run", argv[next + 1]);
}
