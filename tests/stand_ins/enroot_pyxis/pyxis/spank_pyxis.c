/* Copyright (c) 2026, hpcai.azure contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* A stand-in for pyxis: a SPANK plugin with its file names, its plugstack.conf options and four of its srun options.
 * A step with --container-image runs in the root file system and mount namespace of a container that enroot creates.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(pyxis, 1)

static char *image, *mounts, *given_name, *workdir;
static char container[256];
static char runtime_path[256] = "/run/pyxis";
static int scope_is_job, failed, user_ns = -1, mount_ns = -1;
static pid_t keeper = -1;
static uid_t uid;
static gid_t gid;

static int on_image(int value, const char *text, int remote)
{
    (void)value, (void)remote;
    if (!text || !*text) {
        slurm_error("pyxis: --container-image: argument required");
        return -1;
    }
    image = strdup(text);
    return 0;
}

static int on_mounts(int value, const char *text, int remote)
{
    (void)value, (void)remote;
    mounts = strdup(text);
    return 0;
}

static int on_name(int value, const char *text, int remote)
{
    (void)value, (void)remote;
    given_name = strdup(text);
    return 0;
}

static int on_workdir(int value, const char *text, int remote)
{
    (void)value, (void)remote;
    workdir = strdup(text);
    return 0;
}

static struct spank_option options[] = {
    {"container-image", "[USER@][REGISTRY#]IMAGE[:TAG]|PATH", "[pyxis] the image to use for the container", 1, 0, on_image},
    {"container-mounts", "SRC:DST[,SRC:DST...]", "[pyxis] bind mounts inside the container", 1, 0, on_mounts},
    {"container-name", "NAME", "[pyxis] name to use for saving and loading the container", 1, 0, on_name},
    {"container-workdir", "PATH", "[pyxis] working directory inside the container", 1, 0, on_workdir},
    SPANK_OPTIONS_TABLE_END};

static int configure(int count, char **words)
{
    static const char *const ignored[] = {"execute_entrypoint=", "sbatch_support=", "use_enroot_load=", "importer=",
                                          "use_squashfuse=", NULL};
    for (int i = 0; i < count; i++) {
        int known = 0;
        if (strncmp(words[i], "runtime_path=", 13) == 0)
            known = snprintf(runtime_path, sizeof(runtime_path), "%s", words[i] + 13) > 0;
        if (strncmp(words[i], "container_scope=", 16) == 0)
            known = (scope_is_job = strcmp(words[i] + 16, "job") == 0) || strcmp(words[i] + 16, "global") == 0;
        for (int j = 0; ignored[j]; j++)
            known |= strncmp(words[i], ignored[j], strlen(ignored[j])) == 0;
        if (!known) {
            slurm_error("pyxis: unknown configuration option: %s", words[i]);
            return -1;
        }
    }
    return 0;
}

/* Become the job's user irrevocably. Call this only in a child process. */
static void become_user(void)
{
    if (geteuid() != 0 && seteuid(0) < 0 && getuid() == 0)
        _exit(126);
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
        _exit(126);
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 0);
}

/* Run a command as the user. Its output goes into a buffer, or on failure to the log. */
static int run(char *const words[], char *said, size_t size)
{
    int pipes[2], status;
    size_t length = 0;
    ssize_t got;
    char text[8192];
    pid_t child;

    if (!said) {
        said = text;
        size = sizeof(text);
    }
    if (pipe2(pipes, O_CLOEXEC) < 0 || (child = fork()) < 0)
        return -1;
    if (child == 0) {
        become_user();
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        execvp(words[0], words);
        _exit(127);
    }
    close(pipes[1]);
    while (length + 1 < size && (got = read(pipes[0], said + length, size - 1 - length)) > 0)
        length += (size_t)got;
    said[length] = '\0';
    close(pipes[0]);
    if (waitpid(child, &status, 0) < 0)
        return -1;
    if (status != 0) {
        slurm_error("pyxis: '%s %s' failed:", words[0], words[1]);
        for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n"))
            slurm_error("pyxis:     %s", line);
        return -1;
    }
    return 0;
}

/* Whether the user has a container of this name. */
static int is_listed(const char *name)
{
    char listed[65536], *line, *rest = NULL;

    if (run((char *const[]){"enroot", "list", NULL}, listed, sizeof(listed)) < 0)
        return 0;
    for (line = strtok_r(listed, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strcmp(line, name) == 0)
            return 1;
    return 0;
}

/* Start the process that holds the container's namespaces, and open them. */
static int hold(void)
{
    char *words[64] = {"enroot", "start", NULL}, text[32] = "", path[64];
    int pipes[2], next = 2, left;
    ssize_t got;

    for (char *one = mounts ? strtok(mounts, ",") : NULL; one && next < 56; one = strtok(NULL, ",")) {
        words[next++] = "--mount";
        words[next++] = one;
    }
    words[next++] = container;
    words[next++] = "sh";
    words[next++] = "-c";
    words[next++] = "echo $$; exec 1>&- 2>&-; exec sleep 1000000000";
    words[next] = NULL;
    if (pipe2(pipes, O_CLOEXEC) < 0 || (keeper = fork()) < 0)
        return -1;
    if (keeper == 0) {
        become_user();
        dup2(pipes[1], 1);
        execvp(words[0], words);
        _exit(127);
    }
    close(pipes[1]);
    got = read(pipes[0], text, sizeof(text) - 1);
    close(pipes[0]);
    if (got <= 0 || atoi(text) <= 0) {
        slurm_error("pyxis: couldn't start container");
        return -1;
    }
    left = geteuid() != 0 ? seteuid(0) : 1;
    snprintf(path, sizeof(path), "/proc/%d/ns/user", atoi(text));
    user_ns = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", atoi(text));
    mount_ns = open(path, O_RDONLY | O_CLOEXEC);
    if (left == 0 && seteuid(uid) < 0)
        return -1;
    return user_ns < 0 || mount_ns < 0 ? -1 : 0;
}

int slurm_spank_init(spank_t sp, int count, char **words)
{
    if (configure(count, words) < 0)
        return -1;
    if (spank_context() == S_CTX_SLURMD) {
        if (mkdir(runtime_path, 0755) < 0 && errno != EEXIST) {
            slurm_error("pyxis: slurmd: couldn't mkdir %s: %s", runtime_path, strerror(errno));
            return -1;
        }
        return 0;
    }
    for (int i = 0; options[i].name; i++)
        if (spank_option_register(sp, &options[i]) != ESPANK_SUCCESS)
            return -1;
    return 0;
}

/* As in pyxis, root creates the folder for the user's images if it is missing. If that fails, no step starts. */
int slurm_spank_init_post_opt(spank_t sp, int count, char **words)
{
    char path[512];

    (void)count, (void)words;
    if (spank_context() != S_CTX_REMOTE || !image)
        return 0;
    if (spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_GID, &gid) != ESPANK_SUCCESS)
        return -1;
    snprintf(path, sizeof(path), "%s/%u", runtime_path, uid);
    if (mkdir(path, 0700) == 0)
        return chown(path, uid, gid);
    if (errno == EEXIST)
        return 0;
    slurm_error("pyxis: couldn't mkdir %s: %s", path, strerror(errno));
    return -1;
}

int slurm_spank_user_init(spank_t sp, int count, char **words)
{
    uint32_t job = 0, step = 0;
    char path[4096];
    struct stat found;

    (void)count, (void)words;
    if (!image)
        return 0;
    if (spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_GID, &gid) != ESPANK_SUCCESS
        || spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS
        || spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        return failed = -1;
    if (stat(runtime_path, &found) < 0) {
        slurm_error("pyxis: couldn't stat %s: %s", runtime_path, strerror(errno));
        return failed = -1;
    }
    if (given_name)
        snprintf(container, sizeof(container), "pyxis_%u_%s", job, given_name);
    else
        snprintf(container, sizeof(container), "pyxis_%u_%u.%u", job, job, step);
    if (image[0] == '/' || image[0] == '.')
        snprintf(path, sizeof(path), "%s", image);
    else
        snprintf(path, sizeof(path), "docker://%s", image);
    slurm_info("pyxis: creating container: %s", container);
    /* As in pyxis, a container of this name is used again. */
    if (given_name && is_listed(container))
        failed = 0;
    else if (strncmp(path, "docker://", 9) == 0)
        failed = run((char *const[]){"enroot", "load", "--name", container, path, NULL}, NULL, 0);
    else
        failed = run((char *const[]){"enroot", "create", "--name", container, path, NULL}, NULL, 0);
    if (failed == 0)
        failed = hold();
    /* As in pyxis, the tasks fail and not the step's start, because that would drain the node. */
    return 0;
}

int slurm_spank_task_init(spank_t sp, int count, char **words)
{
    (void)sp, (void)count, (void)words;
    if (!image)
        return 0;
    if (failed) {
        slurm_error("pyxis: failed to start the container");
        return -1;
    }
    if (setns(user_ns, CLONE_NEWUSER) < 0 || setns(mount_ns, CLONE_NEWNS) < 0) {
        slurm_error("pyxis: couldn't join the container: %s", strerror(errno));
        return -1;
    }
    if (chdir(workdir ? workdir : "/") < 0) {
        slurm_error("pyxis: couldn't chdir to %s: %s", workdir ? workdir : "/", strerror(errno));
        return -1;
    }
    return 0;
}

int slurm_spank_exit(spank_t sp, int count, char **words)
{
    (void)sp, (void)count, (void)words;
    if (spank_context() != S_CTX_REMOTE || !image)
        return 0;
    if (keeper > 0) {
        kill(keeper, SIGKILL);
        waitpid(keeper, NULL, 0);
    }
    if (!given_name && !failed)
        return run((char *const[]){"enroot", "remove", "-f", container, NULL}, NULL, 0);
    return 0;
}

int slurm_spank_job_epilog(spank_t sp, int count, char **words)
{
    char listed[65536], prefix[64], *line, *rest = NULL;
    uint32_t job = 0;
    int result = 0;

    if (configure(count, words) < 0 || !scope_is_job)
        return scope_is_job ? -1 : 0;
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 0);
    unsetenv("HOME");
    if (spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS)
        return -1;
    if (spank_get_item(sp, S_JOB_GID, &gid) != ESPANK_SUCCESS)
        gid = uid;
    snprintf(prefix, sizeof(prefix), "pyxis_%u_", job);
    if (run((char *const[]){"enroot", "list", NULL}, listed, sizeof(listed)) < 0)
        return -1;
    for (line = strtok_r(listed, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, prefix, strlen(prefix)) == 0)
            result |= run((char *const[]){"enroot", "remove", "-f", line, NULL}, NULL, 0);
    return result;
}
