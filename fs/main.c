/*
 * worktreefs: shows a tree with some of it read-only or out of reach.
 *
 *   worktreefs SOURCE MOUNTPOINT [-o OPTION[,OPTION]...] [-f] [-d]
 *   worktreefs --session FD        started by mountctl, see handover.h
 *
 * The first form follows mount.fuse3(8), so that mount -t fuse.worktreefs and
 * fstab work.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/background.h"
#include "fs/handover.h"
#include "fs/lib/cleanup.h"
#include "fs/lib/process.h"
#include "fs/lib/ready.h"
#include "fs/options.h"
#include "fs/session.h"

static int complain(const char *what, int r)
{
	fprintf(stderr, "worktreefs: %s: %s\n", what, strerror(-r));
	return EXIT_FAILURE;
}

/* Says that the view can be used, once it answers. */
static int tell_ready(const char *mountpoint, int background)
{
	struct stat st;
	int r = stat(mountpoint, &st) < 0 ? -errno : ready_notify();

	if (r == 0 && background >= 0)
		return background_ready(background);
	cleanup_fdp(&background);
	return r;
}

/* Goes into the background unless told not to, mounts, and serves. */
static int serve_mounted(struct session *session, const struct options *options)
{
	const char *mountpoint = session->spec.views[0].mountpoint;
	int background = options->foreground ? -1 : background_enter();
	int r;

	if (!options->foreground && background < 0)
		return complain("cannot go into the background", background);
	r = session_mount(session, NULL);
	if (r < 0)
		return complain(mountpoint, r);
	r = session_start(session);
	if (r == 0)
		r = tell_ready(mountpoint, background);
	if (r == 0)
		r = session_wait(session);
	return r < 0 ? complain("cannot serve", r) : EXIT_SUCCESS;
}

static int serve_options(struct options *options)
{
	struct session session;
	autofd int root_fd = open(options->spec.views[0].root,
				  O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r, status;

	if (root_fd < 0)
		return complain(options->spec.views[0].root, -errno);
	r = session_init(&session, &options->spec, &root_fd);
	if (r == 0) {
		take_fd(&root_fd);
		session.debug = options->debug;
		session.goes_quiet = !options->foreground;
		status = serve_mounted(&session, options);
		session_stop(&session);
	} else {
		status = complain("cannot set up the view", r);
	}
	session_release(&session);
	return status;
}

int main(int argc, char **argv)
{
	struct options options;
	int status;

	process_take_children();
	if (argc == 3 && strcmp(argv[1], "--session") == 0)
		return handover_serve(atoi(argv[2]));
	status = options_parse(argc, argv, &options);
	if (status == OPTIONS_SERVE)
		status = serve_options(&options);
	options_release(&options);
	return status;
}
