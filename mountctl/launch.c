#include "mountctl/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"
#include "fs/lib/gitlock.h"
#include "fs/lib/path.h"
#include "fs/lib/process.h"
#include "mountctl/attach.h"
#include "mountctl/baseline.h"
#include "mountctl/command.h"
#include "mountctl/confine.h"
#include "mountctl/cover.h"
#include "mountctl/descriptors.h"
#include "mountctl/environment.h"
#include "mountctl/join.h"
#include "mountctl/namespace.h"
#include "mountctl/output.h"
#include "mountctl/server.h"
#include "mountctl/sshconfig.h"

/* How many names to try for a session that wasn't given one. */
#define NAMES_MAX 1000

/* How much of a command the record keeps. */
#define COMMAND_MAX 1000

/* What is known of the process before it goes inside, and how it went. */
struct setup {
	const struct launch *launch; /* borrowed */
	struct policy *rules;	     /* all of the session's */
	struct descriptors descriptors;
	char *directory; /* the working directory, as the kernel spells it */
	struct stat directory_was;
	uint64_t bounding;
	enum namespace_kind kind;
	struct attachments attachments;
	const struct strings *devices; /* of the views; borrowed */
};

static void setup_release(struct setup *setup)
{
	policy_free(setup->rules);
	descriptors_release(&setup->descriptors);
	free(setup->directory);
	attachments_release(&setup->attachments);
}

#define autosetup __attribute__((cleanup(setup_release)))

void launch_init(struct launch *launch)
{
	*launch = (struct launch){
		.tier_fd = -1,
		.parent = getppid(),
	};
}

static int read_directory(struct setup *setup, char **message)
{
	setup->directory = getcwd(NULL, 0);
	if (!setup->directory || stat(".", &setup->directory_was) < 0)
		return explain(-errno, message,
			       "cannot read the working directory: %s",
			       strerror(errno));
	/* "(unreachable)/..." */
	if (setup->directory[0] != '/')
		return explain(-ENOENT, message,
			       "the working directory '%s' has no path here",
			       setup->directory);
	return 0;
}

/* What both kinds of launches look at, outside. */
static int setup_begin(struct setup *setup, const struct session_spec *spec,
		       char **message)
{
	int r = policy_new("/", &spec->rules, &setup->rules, NULL);

	if (r < 0)
		return explain(r, message,
			       "cannot read the session's rules: "
			       "%s",
			       strerror(-r));
	setup->bounding = confine_bounding();
	environment_close_outer();
	r = descriptors_gather(&setup->descriptors, message);
	return r < 0 ? r : read_directory(setup, message);
}

/*
 * Behind the guard
 */

static int enter_directory(const struct setup *setup, char **message)
{
	const struct stat *was = &setup->directory_was;
	struct stat st;

	if (chdir(setup->directory) < 0 || stat(".", &st) < 0)
		return explain(-errno, message,
			       "cannot enter the working directory '%s' behind "
			       "the guard: %s",
			       setup->directory, strerror(errno));
	/* Through a view, the device is another. */
	if (st.st_ino != was->st_ino ||
	    (st.st_dev != was->st_dev &&
	     !attach_is_device(setup->devices, st.st_dev)))
		return explain(-ESTALE, message,
			       "behind the guard, '%s' is another directory "
			       "than the working directory",
			       setup->directory);
	return 0;
}

static int write_tier(const struct launch *launch, enum tier tier,
		      char **message)
{
	const char *name = tier_name(tier);
	int r;

	if (launch->tier_fd < 0)
		return 0;
	/* A pipe can't be truncated, and needn't. */
	(void)!ftruncate(launch->tier_fd, 0);
	r = write_all(launch->tier_fd, name, strlen(name));
	return r < 0 ? explain(r, message, "cannot write the tier file: %s",
			       strerror(-r))
		     : 0;
}

static int die_with_parent(const struct launch *launch)
{
	if (!launch->die_with_parent)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	/* It may have ended before. */
	if (getppid() != launch->parent)
		raise(SIGKILL);
	return 0;
}

/* Replaces the process. Returns only if that fails, with the exit status. */
static int execute(const struct launch *launch)
{
	int r = die_with_parent(launch);

	process_return_children();
	if (r == 0) {
		execvp(launch->argv[0], launch->argv);
		r = -errno;
	}
	say("cannot run '%s': %s", launch->argv[0], strerror(-r));
	return r == -ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

/* All that follows once the session's mounts are around us. */
static int settle(const struct setup *setup, const struct aliases *aliases,
		  char **message)
{
	int r = enter_directory(setup, message);

	if (r == 0)
		r = descriptors_settle(&setup->descriptors, setup->rules,
				       aliases, message);
	if (r < 0)
		return r;
	r = confine_terminal();
	if (r < 0)
		return explain(r, message,
			       "cannot set up the system call filter: %s",
			       strerror(-r));
	r = confine_capabilities(setup->kind, setup->bounding);
	if (r < 0)
		return explain(r, message, "cannot drop capabilities: %s",
			       strerror(-r));
	return 0;
}

static int set_environment(const char *snapshot_path, const char *snapshot,
			   char **message)
{
	int r = environment_set_session(snapshot_path, snapshot);

	environment_unset_git();
	return r < 0 ? explain(r, message, "cannot hand in the rules: %s",
			       strerror(-r))
		     : 0;
}

/*
 * A new session
 */

struct session {
	struct session_spec *spec; /* borrowed */
	struct covers covers;
	struct ssh_copies ssh;
	int *root_fds; /* owned, with the descriptors; one a view */
	int dir_fd, lock_fd, sock;
	char *record_dir;
	char *snapshot;	     /* the rules' text */
	char *snapshot_path; /* and where it is found inside */
};

static void session_release(struct session *session)
{
	for (size_t i = 0; session->root_fds && i < session->spec->n_views; i++)
		cleanup_fdp(&session->root_fds[i]);
	free(session->root_fds);
	covers_release(&session->covers);
	sshconfig_release(&session->ssh);
	cleanup_fdp(&session->dir_fd);
	cleanup_fdp(&session->lock_fd);
	cleanup_fdp(&session->sock);
	free(session->record_dir);
	free(session->snapshot);
	free(session->snapshot_path);
}

static int open_roots(struct session *session, char **message)
{
	size_t n = session->spec->n_views;

	session->root_fds = malloc((n + 1) * sizeof(int));
	if (!session->root_fds)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		session->root_fds[i] = -1;
	for (size_t i = 0; i < n; i++) {
		const char *root = session->spec->views[i].root;
		int fd = open(root,
			      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			return explain(-errno, message, "cannot open '%s': %s",
				       root, strerror(errno));
		session->root_fds[i] = fd;
	}
	return 0;
}

/* NAME, NAME.2, ... within the length that a name may have. Allocated. */
static char *nth_name(const char *name, int n)
{
	char suffix[16] = "";
	char *text;

	if (n > 1)
		snprintf(suffix, sizeof(suffix), ".%d", n);
	if (asprintf(&text, "%.*s%s", (int)(100 - strlen(suffix)), name,
		     suffix) < 0)
		return NULL;
	return text;
}

/* Gives the session another name; takes ownership of it. */
static int rename_session(struct session_spec *spec, char *name)
{
	autofree char *base =
		spec->state_dir ? path_dirname(spec->state_dir) : NULL;
	char *state = base ? path_join(base, name) : NULL;

	free(spec->name);
	spec->name = name;
	if (!spec->state_dir)
		return 0;
	if (!state)
		return -ENOMEM;
	free(spec->state_dir);
	spec->state_dir = state;
	return 0;
}

/* A dead session of that name may have left the lock on its worktree. */
static void unlock_dead(const char *name)
{
	struct record record;

	if (record_read(name, &record) < 0)
		return;
	if (!record.live) {
		autofd int hold = worktree_locks_hold();

		worktree_unlock(&record);
	}
	record_release(&record);
}

static int claim_name(struct session *session, const char *name)
{
	/* The record of one around us can't be seen from here. */
	if (environment_is_inside(name))
		return -EEXIST;
	unlock_dead(name);
	return record_claim(name, &session->dir_fd, &session->lock_fd,
			    &session->record_dir);
}

static int claim(struct session *session, bool name_given, char **message)
{
	struct session_spec *spec = session->spec;
	int r = -EEXIST;

	for (int n = 1; n <= NAMES_MAX && r == -EEXIST; n++) {
		autofree char *name = nth_name(spec->name, n);

		if (!name)
			return -ENOMEM;
		r = claim_name(session, name);
		if (r == 0 && n > 1)
			r = rename_session(spec, steal_pointer(&name));
		if (name_given)
			break;
	}
	if (r == -EEXIST)
		return explain(r, message,
			       "the session '%s' is live; without rules 'run "
			       "-n %s' joins it",
			       spec->name, spec->name);
	if (r < 0)
		return explain(r, message,
			       "cannot take the name '%s' for the session: %s",
			       spec->name, strerror(-r));
	return 0;
}

/* A session that hasn't been started leaves nothing. */
static void unclaim(const struct session *session)
{
	record_clear(session->dir_fd);
	rmdir(session->record_dir);
}

/* Outside: everything up to a filesystem process that knows its session. */
static int begin_session(struct session *session, struct setup *setup,
			 char **message)
{
	struct session_spec *spec = session->spec;
	int r = setup_begin(setup, spec, message);

	if (r == 0)
		r = open_roots(session, message);
	if (r == 0)
		r = cover_plan(spec, setup->directory, &session->covers,
			       message);
	if (r == 0 && namespace_is_narrow()) {
		spec->report_uid = geteuid();
		spec->report_gid = getegid();
		r = sshconfig_read("/etc/ssh", &session->ssh);
	}
	if (r == 0)
		r = claim(session, setup->launch->name_given, message);
	if (r < 0)
		return r;

	session->snapshot = session_spec_to_json(spec);
	r = session->snapshot ? 0 : -ENOMEM;
	if (r == 0)
		r = server_start(spec, session->dir_fd, session->lock_fd,
				 session->record_dir, session->root_fds,
				 &session->sock, message);
	if (r < 0)
		unclaim(session);
	else if (setup->launch->records_state)
		baseline_start(spec, NULL);
	return r;
}

/* Inside: the views, what stands in them, and what is covered. */
static int mount_session(struct session *session, struct setup *setup,
			 char **message)
{
	struct attachments *a = &setup->attachments;
	autofd int scratch = -1;
	int r = namespace_enter(&setup->kind, message);

	if (r == 0)
		r = attach_prepare(session->spec, setup->rules,
				   session->root_fds, a, message);
	if (r == 0)
		r = server_serve(session->sock, a->fuse_fds, a->n_views,
				 message);
	if (r == 0)
		r = attach_all(a, message);
	if (r == 0)
		r = cover_all(&session->covers, session->spec,
			      session->snapshot, &scratch,
			      &session->snapshot_path, message);
	if (r < 0)
		return r;
	if (setup->kind == NAMESPACE_USER) {
		r = sshconfig_cover(&session->ssh, scratch);
		if (r < 0)
			warn("ssh may refuse root's configuration: %s",
			     strerror(-r));
	}
	return namespace_seal(setup->kind, message);
}

/* The command's words, for people. NULL when out of memory. */
static char *command_text(char **argv)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (size_t i = 0; argv[i]; i++)
		fprintf(out, "%s%s", i ? " " : "", argv[i]);
	if (fclose(out) != 0)
		return NULL;
	if (size > COMMAND_MAX)
		memcpy(text + COMMAND_MAX, "...", sizeof("..."));
	return text;
}

static int commit_session(const struct session *session,
			  const struct setup *setup, char **message)
{
	autofree char *command = command_text(setup->launch->argv);
	int r = server_commit(session->sock, &setup->attachments.devices,
			      command, message);

	return r < 0 ? r : write_tier(setup->launch, TIER_ENFORCED, message);
}

static int start_session(struct session *session, struct setup *setup,
			 char **message)
{
	int r = begin_session(session, setup, message);

	setup->devices = &setup->attachments.devices;
	if (r == 0)
		r = mount_session(session, setup, message);
	if (r == 0)
		r = settle(setup, &setup->attachments.aliases, message);
	if (r == 0)
		r = set_environment(session->snapshot_path, session->snapshot,
				    message);
	if (r == 0)
		r = commit_session(session, setup, message);
	return r < 0 ? r : execute(setup->launch);
}

int launch_session(const struct launch *launch, struct session_spec *spec,
		   char **message)
{
	autosetup struct setup setup = {.launch = launch};
	struct session session = {
		.spec = spec, .dir_fd = -1, .lock_fd = -1, .sock = -1};
	int r = start_session(&session, &setup, message);

	session_release(&session);
	return r;
}

/*
 * A session that is live
 */

static int mount_of_view(const char *root, const struct strings *devices,
			 uint64_t *ret_id)
{
	struct statx stx;

	if (statx(AT_FDCWD, root, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &stx) < 0)
		return -errno;
	if (!attach_is_device(devices,
			      makedev(stx.stx_dev_major, stx.stx_dev_minor)))
		return -ESTALE;
	*ret_id = stx.stx_mnt_id;
	return 0;
}

/* Are the session's views around us? Aliases are in the mount table, too. */
static int look_around(const struct record *record, struct aliases *ret_aliases,
		       char **message)
{
	const struct session_spec *spec = &record->spec;
	autofree struct aliased_tree *trees =
		calloc(spec->n_views + 1, sizeof(*trees));
	int r = trees ? 0 : -ENOMEM;

	for (size_t i = 0; i < spec->n_views && r == 0; i++) {
		trees[i].path = spec->views[i].root;
		r = mount_of_view(spec->views[i].root, &record->devices,
				  &trees[i].mount_id);
	}
	if (r == 0)
		r = aliases_find("/proc/self/mountinfo", trees, spec->n_views,
				 ret_aliases);
	return r < 0 ? explain(r, message,
			       "the session '%s' isn't what its record says: "
			       "%s",
			       spec->name, strerror(-r))
		     : 0;
}

/* Where a session finds its rules; the same place inside and outside. */
static int find_snapshot(char **ret_path)
{
	autofree char *base = NULL, *real = NULL;
	autofd int fd = -1;
	int r = record_base_open(false, &fd, &base);

	if (r < 0)
		return r;
	real = realpath(base, NULL);
	if (!real)
		return -errno;
	*ret_path = cover_snapshot_path(real);
	return *ret_path ? 0 : -ENOMEM;
}

static int enter_session(const struct record *record, struct setup *setup,
			 char **message)
{
	autofd int pidfd = -1;
	pid_t pid;
	int r = join_find(record, &pid, &pidfd, message);

	return r < 0 ? r : namespace_join(pidfd, pid, &setup->kind, message);
}

static int join_session(const struct record *record, struct setup *setup,
			struct aliases *aliases, char **message)
{
	autofree char *path = NULL, *text = session_spec_to_json(&record->spec);
	int r = text ? setup_begin(setup, &record->spec, message) : -ENOMEM;

	setup->devices = &record->devices;
	if (r == 0)
		r = find_snapshot(&path);
	if (r == 0)
		r = enter_session(record, setup, message);
	if (r == 0)
		r = look_around(record, aliases, message);
	if (r == 0)
		r = settle(setup, aliases, message);
	if (r == 0)
		r = set_environment(path, text, message);
	if (r == 0)
		r = write_tier(setup->launch, TIER_ENFORCED, message);
	return r < 0 ? r : execute(setup->launch);
}

int launch_joined(const struct launch *launch, const struct record *record,
		  char **message)
{
	autosetup struct setup setup = {.launch = launch};
	struct aliases aliases = {0};
	int r;

	if (record->spec.tier != TIER_ENFORCED)
		return explain(-EINVAL, message,
			       "the session '%s' is a view at a path of its "
			       "own; work in it there",
			       record->spec.name);
	r = join_session(record, &setup, &aliases, message);
	aliases_release(&aliases);
	return r;
}

int launch_inside(const struct launch *launch, char **message)
{
	int r = write_tier(launch, TIER_ENFORCED, message);

	return r < 0 ? r : execute(launch);
}

int launch_unguarded(const struct launch *launch, char **message)
{
	int r = write_tier(launch, TIER_NONE, message);

	return r < 0 ? r : execute(launch);
}
