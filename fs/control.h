/*
 * The control socket of a session: control.sock in its directory. A client
 * sends lines of JSON and gets one line for each, and, having subscribed, the
 * denials as they are logged. Only processes of the same
 * user (or root) that live in this process's own mount namespace are heard:
 * from inside a session nothing can be asked. See docs/control.md.
 */
#ifndef WORKTREEFS_CONTROL_H
#define WORKTREEFS_CONTROL_H

#include "fs/session.h"

struct control;

/* Called when the session's rules have changed: keeps them for others to find.
 * 0 or -errno. */
typedef int control_save(void *data);

/* Starts its threads. dir_fd is borrowed for the call, save_data until
 * control_stop(). 0 or -errno. */
int control_start(struct session *session, int dir_fd, control_save *save,
		  void *save_data, struct control **ret_control);
/* Ends it and frees everything; the socket's name is left to record_clear(). */
void control_stop(struct control *control);

#endif
