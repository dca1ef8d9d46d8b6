#include "fs/session.h"

#include <errno.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/denials.h"
#include "fs/gitfiles.h"
#include "fs/lib/cleanup.h"
#include "fs/lib/path.h"
#include "fs/locks.h"
#include "fs/log.h"
#include "fs/notify.h"
#include "fs/ops.h"

/* Fewer are faster on small machines, more let slow requests wait at once. */
#define MAX_THREADS 10
/* Descriptors for what isn't a directory kept: open files above all. */
#define MIN_DIRECTORY_FDS 32

/* Raises the limit of open files as far as it goes, and tells it. */
static size_t raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1024;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
			getrlimit(RLIMIT_NOFILE, &limit);
	}
	return limit.rlim_cur == RLIM_INFINITY ? 1 << 20 : limit.rlim_cur;
}

/* A third of all descriptors may be kept for directories. */
static size_t directory_fds(size_t n_views)
{
	size_t share = raise_file_limit() / 3 / (n_views ? n_views : 1);

	return share < MIN_DIRECTORY_FDS ? MIN_DIRECTORY_FDS : share;
}

static int block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int session_init(struct session *session, struct session_spec *spec,
		 const int *root_fds)
{
	size_t max_fds = directory_fds(spec->n_views);
	int r = 0;

	*session = (struct session){
		.spec = *spec, .ended = -1, .watchdog = {.fd = -1}};
	session_spec_init(spec);
	spec = &session->spec;
	umask(0);
	path_map_init(&session->map, spec);
	clock_gettime(CLOCK_BOOTTIME, &session->started);
	session->signals = block_signals();
	session->ended = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	session->views = calloc(spec->n_views ? spec->n_views : 1,
				sizeof(struct served_view));
	if (session->signals < 0 || session->ended < 0)
		r = -EMFILE;
	else if (!session->views)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < spec->n_views; i++) {
		struct served_view *served = &session->views[i];

		r = view_init(&served->view, spec, i, &session->map,
			      root_fds[i], max_fds);
		served->initialised = r == 0;
		if (r == 0)
			r = gitguard_new(spec, spec->views[i].root,
					 &served->view.gitguard);
	}
	return r;
}

void session_release(struct session *session)
{
	for (size_t i = 0; session->views && i < session->spec.n_views; i++) {
		if (!session->views[i].initialised)
			continue;
		gitguard_free(session->views[i].view.gitguard);
		view_release(&session->views[i].view);
	}
	free(session->views);
	cleanup_fdp(&session->signals);
	cleanup_fdp(&session->ended);
	session_spec_release(&session->spec);
}

const struct view *session_view_of(const struct session *session,
				   const char *path)
{
	const struct view *found = NULL;

	for (size_t i = 0; i < session->spec.n_views; i++) {
		const struct view *view = &session->views[i].view;

		if (path_starts_with(path, view->spec->root, NULL) &&
		    (!found ||
		     strlen(view->spec->root) > strlen(found->spec->root)))
			found = view;
	}
	return found;
}

/* The options of mount -o, for libfuse to parse. */
static int add_options(struct fuse_args *args, const struct session *session,
		       const struct view_spec *view)
{
	const struct strings *given = &session->spec.fuse_options;
	autofree char *name = NULL;

	if (fuse_opt_add_arg(args, "worktreefs") < 0)
		return -ENOMEM;
	if (session->debug && fuse_opt_add_arg(args, "-d") < 0)
		return -ENOMEM;
	if (!session->mounts_itself)
		return 0;
	if (asprintf(&name, "-osubtype=worktreefs,fsname=%s", view->root) < 0)
		return -ENOMEM;
	/* A comma would begin another option. */
	for (char *c = name + strlen("-osubtype=worktreefs,"); *c; c++)
		if (*c == ',' || *c == '\\')
			*c = '_';
	if (fuse_opt_add_arg(args, name) < 0)
		return -ENOMEM;
	if (geteuid() == 0 && fuse_opt_add_arg(args, "-oallow_other") < 0)
		return -ENOMEM;
	for (size_t i = 0; i < given->n; i++)
		if (fuse_opt_add_arg(args, "-o") < 0 ||
		    fuse_opt_add_arg(args, given->s[i]) < 0)
			return -ENOMEM;
	return 0;
}

static int connect_view(struct session *session, size_t index, int fuse_fd)
{
	struct served_view *served = &session->views[index];
	const struct view_spec *spec = &session->spec.views[index];
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	char mountpoint[32];
	int r = add_options(&args, session, spec);

	served->view.many_users = geteuid() == 0;
	if (r == 0) {
		served->view.fuse = fuse_session_new(&args, &view_operations,
						     sizeof(view_operations),
						     &served->view);
		if (!served->view.fuse)
			r = -EINVAL;
	}
	fuse_opt_free_args(&args);
	if (r < 0)
		return r;
	snprintf(mountpoint, sizeof(mountpoint), "/dev/fd/%d", fuse_fd);
	if (fuse_session_mount(served->view.fuse,
			       fuse_fd >= 0 ? mountpoint : spec->mountpoint) <
	    0)
		return -EIO;
	served->mounted = true;
	return 0;
}

int session_mount(struct session *session, const int *fuse_fds)
{
	session->mounts_itself = !fuse_fds;
	for (size_t i = 0; i < session->spec.n_views; i++) {
		int r = connect_view(session, i, fuse_fds ? fuse_fds[i] : -1);

		if (r < 0)
			return r;
	}
	return 0;
}

struct serve_args {
	struct fuse_session *fuse;
	int ended;
};

static void *serve(void *arg)
{
	struct serve_args *args = arg;
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	uint64_t one = 1;

	if (config) {
		fuse_loop_cfg_set_max_threads(config, MAX_THREADS);
		fuse_loop_cfg_set_idle_threads(config, UINT32_MAX);
		fuse_session_loop_mt(args->fuse, config);
		fuse_loop_cfg_destroy(config);
	}
	if (write(args->ended, &one, sizeof(one)) < 0)
		abort(); /* an eventfd has room for 2^64 views */
	free(args);
	return NULL;
}

static int start_view(struct session *session, struct served_view *served)
{
	struct serve_args *args = malloc(sizeof(*args));
	int r;

	if (!args)
		return -ENOMEM;
	*args = (struct serve_args){served->view.fuse, session->ended};
	r = pthread_create(&served->thread, NULL, serve, args);
	if (r != 0) {
		free(args);
		return -r;
	}
	served->started = true;
	return 0;
}

int session_start(struct session *session)
{
	int r = watchdog_start(session->debug ? 0 : session->spec.watchdog,
			       session->goes_quiet ? -1 : STDERR_FILENO,
			       &session->watchdog);

	if (r == 0)
		r = notify_start();
	if (r == 0)
		r = denials_start(&session->spec);
	for (size_t i = 0; r == 0 && i < session->spec.n_views; i++)
		r = start_view(session, &session->views[i]);
	return r;
}

/* Does the signal that is waiting end the process? SIGHUP has the log opened
 * anew. */
static bool signal_ends(int signals)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo != SIGHUP) {
		log_line("ends: signal %u", info.ssi_signo);
		return true;
	}
	denials_reopen();
	return false;
}

/* None while one of the locks that all requests need isn't to be had. */
static void give_sign_of_life(struct session *session)
{
	for (size_t i = 0; i < session->spec.n_views; i++)
		inode_table_check(&session->views[i].view.table);
	watchdog_beat(&session->watchdog);
}

int session_wait(struct session *session)
{
	struct pollfd fds[] = {
		{.fd = session->ended, .events = POLLIN},
		{.fd = session->signals, .events = POLLIN},
	};
	size_t n_ended = 0;

	while (n_ended < session->spec.n_views) {
		uint64_t one;

		give_sign_of_life(session);
		if (poll(fds, ARRAY_SIZE(fds),
			 watchdog_interval(&session->watchdog)) < 0 &&
		    errno != EINTR)
			return -errno;
		if (fds[1].revents && signal_ends(session->signals))
			return 0;
		if (fds[0].revents &&
		    read(session->ended, &one, sizeof(one)) == sizeof(one))
			n_ended++;
	}
	return 0;
}

void session_stop(struct session *session)
{
	for (size_t i = 0; i < session->spec.n_views; i++)
		if (session->views[i].view.fuse)
			fuse_session_exit(session->views[i].view.fuse);
	locks_stop();
	for (size_t i = 0; i < session->spec.n_views; i++)
		if (session->views[i].started)
			pthread_join(session->views[i].thread, NULL);
	notify_stop();
	denials_stop();
	for (size_t i = session->spec.n_views; i-- > 0;) {
		struct fuse_session *fuse = session->views[i].view.fuse;

		if (!fuse)
			continue;
		if (session->views[i].mounted)
			fuse_session_unmount(fuse);
		fuse_session_destroy(fuse);
	}
	watchdog_stop(&session->watchdog);
}
