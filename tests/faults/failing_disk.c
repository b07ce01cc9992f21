/* Preloaded into a service: while the file $FAILING_DISK exists, each write to a regular file and
   each sync fails with EIO, as on a broken disk. Output and errors (1 and 2) are spared. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int fails(int file) {
    struct stat status;
    const char *flag = getenv("FAILING_DISK");
    return file > 2 && flag && access(flag, F_OK) == 0 && fstat(file, &status) == 0 &&
           S_ISREG(status.st_mode);
}

#define FAILING(type, name, parameters, arguments)                                                \
    type name parameters {                                                                        \
        static type(*real) parameters;                                                            \
        if (fails(file)) {                                                                        \
            errno = EIO;                                                                          \
            return -1;                                                                            \
        }                                                                                         \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name);                            \
        return real arguments;                                                                    \
    }

FAILING(ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
FAILING(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
FAILING(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
FAILING(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at),
        (file, data, size, at))
FAILING(int, fsync, (int file), (file))
FAILING(int, fdatasync, (int file), (file))
