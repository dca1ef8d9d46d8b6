/*
 * The control socket of a session: control.sock in its directory. A client
 * sends lines of JSON and gets one line for each. Only processes of the same
 * user (or root) that live in this process's own mount namespace are heard:
 * from inside a session nothing can be asked. See docs/control.md.
 */
#ifndef WORKTREEFS_CONTROL_H
#define WORKTREEFS_CONTROL_H

#include "fs/session.h"

struct control;

/* Starts the thread. dir_fd is borrowed for the call. 0 or -errno. */
int control_start(struct session *session, int dir_fd,
		  struct control **ret_control);
/* Ends it and frees everything; the socket's name is left to record_clear(). */
void control_stop(struct control *control);

#endif
