/* SPDX-License-Identifier: Apache-2.0
 * How does a disk behave that takes longer to keep what it was given? Preloaded, this adds BENCH_FSYNC_MS milliseconds
 * to every fsync and fdatasync of a program, as on a volume that a cloud keeps elsewhere. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_for_the_cloud(void)
{
    const char *given = getenv("BENCH_FSYNC_MS");
    long milliseconds = given ? atol(given) : 4;
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};

    while (nanosleep(&left, &left) != 0)
        ;
}

int fsync(int file)
{
    static int (*real)(int);

    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_for_the_cloud();
    return real(file);
}

int fdatasync(int file)
{
    static int (*real)(int);

    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_for_the_cloud();
    return real(file);
}
