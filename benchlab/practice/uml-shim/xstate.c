/*
 * User Mode Linux 6.1 keeps 2696 bytes of a process's extended registers: all there was until AMX. The machine's kernel
 * takes them back only whole (PTRACE_SETREGSET, NT_X86_XSTATE: xstateregs_set in arch/x86/kernel/fpu/regset.c answers
 * EFAULT to any other length), which are 11008 bytes on a CPU with AMX, and UML ends before its first program has run.
 *
 * Preloaded, this stands between the two: what UML knows of comes first in the whole, the rest is "never used". No guest
 * uses AMX, for UML knows no arch_prctl(ARCH_REQ_XCOMP_PERM).
 *
 * One static buffer will do: one thread of UML calls ptrace, and its signal handlers do not.
 * No header of the C library is needed, so that the compiler alone can build it.
 */
typedef unsigned long size_t;
struct iovec { void *base; size_t length; };
extern void *dlsym(void *handle, const char *symbol);
extern void *memcpy(void *to, const void *from, size_t length);
extern void *memset(void *to, int byte, size_t length);

#define NEXT ((void *)-1)           /* RTLD_NEXT */
#define GETREGSET 0x4204
#define SETREGSET 0x4205
#define XSTATE ((void *)0x202)      /* NT_X86_XSTATE */
#define USED 512                    /* where the header's bits of what is in use stand: Intel SDM vol. 1, 13.4.2 */
#define KNOWN 0x2ffUL               /* x87, SSE, AVX, MPX, AVX-512, PKRU: those within 2696 bytes */

static char whole[1 << 16] __attribute__((aligned(64)));
static size_t size;
static long (*ptrace_of_libc)(long, int, void *, void *);

static long get(int pid)
{
	struct iovec wide = { whole, sizeof whole };
	long failed = ptrace_of_libc(GETREGSET, pid, XSTATE, &wide);

	if (!failed)
		size = wide.length;
	return failed;
}

long ptrace(long request, int pid, void *address, void *data)
{
	struct iovec *asked = data, wide = { whole, 0 };
	long failed;

	if (!ptrace_of_libc)
		ptrace_of_libc = (long (*)(long, int, void *, void *))dlsym(NEXT, "ptrace");
	if (address != XSTATE || (request != GETREGSET && request != SETREGSET))
		return ptrace_of_libc(request, pid, address, data);
	if (request == GETREGSET || !size) {
		failed = get(pid);
		if (failed)
			return failed;
	}
	if (request == GETREGSET) {
		if (asked->length > size)
			asked->length = size;
		memcpy(asked->base, whole, asked->length);
		return 0;
	}
	if (asked->length >= size || asked->length < USED + 8)
		return ptrace_of_libc(request, pid, address, data);
	memset(whole + asked->length, 0, size - asked->length);
	memcpy(whole, asked->base, asked->length);
	*(unsigned long *)(whole + USED) &= KNOWN;
	wide.length = size;
	return ptrace_of_libc(SETREGSET, pid, address, &wide);
}
