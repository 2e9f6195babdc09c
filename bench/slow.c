/*
 * slow.c - makes storage slow: a library to preload, for bench/slow.
 *
 * Every read of a relation's file sleeps for as many microseconds as the
 * environment's SLOW_READ_US says before it is done.  Reads sleep side by
 * side, as they do in storage that is far away: several processes that read
 * at once wait once.  Only large files below base/ are slow, so that a
 * server starts and finds its catalogs as ever.  A read that goes past
 * these functions (io_uring's) is not slowed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define LARGE	(8 * 1024 * 1024)

/* Does it have the data of a large relation? */
static int
is_slow(int fd)
{
	struct stat st;
	char		link[64];
	char		path[1024];
	ssize_t		len;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < LARGE)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	if (len < 0)
		return 0;
	path[len] = '\0';
	return strstr(path, "/base/") != NULL;
}

static void
sleep_if_slow(int fd)
{
	static long microseconds = -1;
	struct timespec left;

	if (microseconds < 0)
	{
		const char *given = getenv("SLOW_READ_US");

		microseconds = given ? atol(given) : 0;
	}
	if (microseconds == 0 || !is_slow(fd))
		return;
	left.tv_sec = microseconds / 1000000;
	left.tv_nsec = microseconds % 1000000 * 1000;
	while (nanosleep(&left, &left) != 0)
		;						/* a signal */
}

/* The function of this name that comes after ours. */
static void *
next(void **cached, const char *name)
{
	if (*cached == NULL)
		*cached = dlsym(RTLD_NEXT, name);
	return *cached;
}

#define SLOW_PREAD(name, offset_type) \
ssize_t \
name(int fd, void *buf, size_t count, offset_type offset) \
{ \
	static void *cached; \
\
	sleep_if_slow(fd); \
	return ((ssize_t (*) (int, void *, size_t, offset_type)) \
			(intptr_t) next(&cached, #name)) (fd, buf, count, offset); \
}

#define SLOW_PREADV(name, offset_type) \
ssize_t \
name(int fd, const struct iovec *iov, int iovcnt, offset_type offset) \
{ \
	static void *cached; \
\
	sleep_if_slow(fd); \
	return ((ssize_t (*) (int, const struct iovec *, int, offset_type)) \
			(intptr_t) next(&cached, #name)) (fd, iov, iovcnt, offset); \
}

SLOW_PREAD(pread, off_t)
SLOW_PREAD(pread64, off64_t)
SLOW_PREADV(preadv, off_t)
SLOW_PREADV(preadv64, off64_t)
