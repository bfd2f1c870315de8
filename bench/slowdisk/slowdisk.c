// Preloaded into a server, it adds 2 ms to each fdatasync, which is about the speed of a cloud disk.
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

int fdatasync(int fd) {
	struct timespec wait = {0, 2000000};
	nanosleep(&wait, 0);
	return (int)syscall(SYS_fdatasync, fd);
}
