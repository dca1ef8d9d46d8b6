/*
 * The filesystem process's side of the set-up that mountctl talks it through,
 * see fs/lib/wire.h.
 */
#ifndef WORKTREEFS_HANDOVER_H
#define WORKTREEFS_HANDOVER_H

/* Serves a session over the socket until it ends. The exit status. */
int handover_serve(int sock);

#endif
