/* SPDX-License-Identifier: Apache-2.0
 * How does a disk behave that fails? Preloaded, this counts the opens, writes and syncs of files whose name holds
 * "registry.db", and lets some of them fail. `disk_arm` says which: from the n-th call of a kind on, so many. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { OPENS, WRITES, SYNCS, KINDS };
enum { FILES_MAX = 4096 };

static unsigned char ours[FILES_MAX];
static long counted[KINDS];
static long fail_from[KINDS], fail_count[KINDS];
static int fail_errno[KINDS];

/* Counting begins anew; `count` 0 lets nothing fail. */
void disk_arm(int kind, int error, long from, long count)
{
    memset(counted, 0, sizeof counted);
    memset(fail_count, 0, sizeof fail_count);
    fail_errno[kind] = error;
    fail_from[kind] = from;
    fail_count[kind] = count;
}

long disk_counted(int kind)
{
    return counted[kind];
}

static int fails(int kind)
{
    long number = __sync_add_and_fetch(&counted[kind], 1);
    if (fail_count[kind] == 0 || number < fail_from[kind] || number >= fail_from[kind] + fail_count[kind])
        return 0;
    errno = fail_errno[kind];
    return 1;
}

static int is_ours(int file)
{
    return file >= 0 && file < FILES_MAX && ours[file];
}

static int remember(int file, int it_is)
{
    if (file >= 0 && file < FILES_MAX)
        ours[file] = it_is;
    return file;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define MODE(flags) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(name); \
        MODE(flags) \
        int it_is = strstr(path, "registry.db") != NULL; \
        return it_is && fails(OPENS) ? -1 : remember(real(path, flags, mode), it_is); \
    }

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) \
    { \
        REAL(name); \
        MODE(flags) \
        int it_is = strstr(path, "registry.db") != NULL; \
        return it_is && fails(OPENS) ? -1 : remember(real(folder, path, flags, mode), it_is); \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int close(int file)
{
    REAL(close);
    remember(file, 0);
    return real(file);
}

ssize_t write(int file, const void *data, size_t length)
{
    REAL(write);
    return is_ours(file) && fails(WRITES) ? -1 : real(file, data, length);
}

ssize_t pwrite(int file, const void *data, size_t length, off_t at)
{
    REAL(pwrite);
    return is_ours(file) && fails(WRITES) ? -1 : real(file, data, length, at);
}

ssize_t pwrite64(int file, const void *data, size_t length, off64_t at)
{
    REAL(pwrite64);
    return is_ours(file) && fails(WRITES) ? -1 : real(file, data, length, at);
}

int fsync(int file)
{
    REAL(fsync);
    return is_ours(file) && fails(SYNCS) ? -1 : real(file);
}

int fdatasync(int file)
{
    REAL(fdatasync);
    return is_ours(file) && fails(SYNCS) ? -1 : real(file);
}
