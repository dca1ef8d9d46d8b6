#include "mountctl/confine.h"

#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/capability.h>
#include <sys/ioctl.h>

#include "fs/lib/cleanup.h"

/*
 * The terminal
 */

static void filter_releasep(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

/* Other system call interfaces that a kernel of this machine may serve. */
static const struct sibling {
	uint32_t native, other;
} siblings[] = {
	{SCMP_ARCH_X86_64, SCMP_ARCH_X86},
	{SCMP_ARCH_X86_64, SCMP_ARCH_X32},
	{SCMP_ARCH_AARCH64, SCMP_ARCH_ARM},
	{SCMP_ARCH_PPC64, SCMP_ARCH_PPC},
	{SCMP_ARCH_S390X, SCMP_ARCH_S390},
	{SCMP_ARCH_PARISC64, SCMP_ARCH_PARISC},
	{SCMP_ARCH_MIPS64, SCMP_ARCH_MIPS},
	{SCMP_ARCH_MIPS64, SCMP_ARCH_MIPS64N32},
	{SCMP_ARCH_MIPSEL64, SCMP_ARCH_MIPSEL},
	{SCMP_ARCH_MIPSEL64, SCMP_ARCH_MIPSEL64N32},
};

static int add_siblings(scmp_filter_ctx filter)
{
	uint32_t native = seccomp_arch_native();
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(siblings) && r == 0; i++)
		if (siblings[i].native == native)
			r = seccomp_arch_add(filter, siblings[i].other);
	return r;
}

int confine_terminal(void)
{
	static const unsigned int refused[] = {TIOCSTI, TIOCLINUX};
	__attribute__((cleanup(filter_releasep))) scmp_filter_ctx filter =
		seccomp_init(SCMP_ACT_ALLOW);
	int r;

	if (!filter)
		return -ENOMEM;
	/* An interface not in the table has no system calls. */
	r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH,
			     SCMP_ACT_ERRNO(ENOSYS));
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0);
	if (r == 0)
		r = add_siblings(filter);
	/* The kernel looks at 32 bits of the request; so must the filter. */
	for (size_t i = 0; i < ARRAY_SIZE(refused) && r == 0; i++)
		r = seccomp_rule_add(
			filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
			SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, refused[i]));
	if (r == 0) {
		/*
		 * Without it older kernels slow every process under a filter
		 * down. Libraries that don't know it do as they did.
		 */
		(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
		r = seccomp_load(filter);
	}
	return r;
}

/*
 * Capabilities
 */

/* What can undo the view where nothing but these sets keeps it in place. */
static const cap_value_t dangerous[] = {
	CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH,
	CAP_MKNOD,     CAP_SYS_MODULE, CAP_SYS_RAWIO,
	CAP_SYS_BOOT,  CAP_BPF,	       CAP_PERFMON,
};

static void caps_freep(cap_t *caps)
{
	cap_free(*caps);
}

#define autocaps __attribute__((cleanup(caps_freep)))

static int drop_all(void)
{
	autocaps cap_t caps = cap_init();

	if (!caps)
		return -errno;
	return cap_set_proc(caps) < 0 ? -errno : 0;
}

/* In the sets of the process; the bounding set is another matter. */
static int drop(const cap_value_t *values, int n)
{
	autocaps cap_t caps = cap_get_proc();

	if (!caps)
		return -errno;
	if (cap_set_flag(caps, CAP_INHERITABLE, n, values, CAP_CLEAR) < 0 ||
	    cap_set_flag(caps, CAP_EFFECTIVE, n, values, CAP_CLEAR) < 0 ||
	    cap_set_flag(caps, CAP_PERMITTED, n, values, CAP_CLEAR) < 0)
		return -errno;
	return cap_set_proc(caps) < 0 ? -errno : 0;
}

static int inherit(cap_value_t value)
{
	autocaps cap_t caps = cap_get_proc();

	if (!caps)
		return -errno;
	if (cap_set_flag(caps, CAP_INHERITABLE, 1, &value, CAP_SET) < 0)
		return -errno;
	return cap_set_proc(caps) < 0 ? -errno : 0;
}

static int drop_bounding(const cap_value_t *values, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		/* A kernel that doesn't know it can't grant it either. */
		if (cap_get_bound(values[i]) <= 0)
			continue;
		if (cap_drop_bound(values[i]) < 0)
			return -errno;
	}
	return 0;
}

/* What the caller could not gain, its command can't either. */
static int limit_bounding(uint64_t bounding)
{
	int r = 0;

	for (cap_value_t cap = 0; cap < cap_max_bits() && r == 0; cap++)
		if (cap < 64 && !(bounding & UINT64_C(1) << cap))
			r = drop_bounding(&cap, 1);
	return r;
}

uint64_t confine_bounding(void)
{
	uint64_t bounding = 0;

	for (cap_value_t cap = 0; cap < cap_max_bits() && cap < 64; cap++)
		if (cap_get_bound(cap) > 0)
			bounding |= UINT64_C(1) << cap;
	return bounding;
}

int confine_capabilities(enum namespace_kind kind, uint64_t bounding)
{
	static const cap_value_t admin = CAP_SYS_ADMIN;
	int r;

	/* EINVAL: kernels before 4.3 have no ambient set. */
	if (cap_reset_ambient() < 0 && errno != EINVAL)
		return -errno;
	/* Root's inheritable set is filled before the bounding set shrinks. */
	switch (kind) {
	case NAMESPACE_USER:
		r = drop_bounding(&admin, 1);
		if (r == 0)
			r = limit_bounding(bounding);
		return r < 0 ? r : drop_all();
	case NAMESPACE_ROOT:
		r = inherit(admin);
		if (r == 0)
			r = drop_bounding(&admin, 1);
		return r < 0 ? r : limit_bounding(bounding);
	case NAMESPACE_MOUNT:
		r = drop_bounding(dangerous, ARRAY_SIZE(dangerous));
		return r < 0 ? r : drop(dangerous, ARRAY_SIZE(dangerous));
	}
	return -EINVAL;
}
