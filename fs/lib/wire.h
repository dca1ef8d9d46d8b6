/*
 * How mountctl and a filesystem process that it has started talk while the
 * session is set up: messages of JSON text with descriptors, over a connected
 * stream socket (socketpair(2)). Each message is a header of eight bytes, the
 * length of the text and the number of descriptors as uint32_t of the machine,
 * then the text; the descriptors travel with the header (SCM_RIGHTS).
 *
 * The exchange (M mountctl, F filesystem process: "worktreefs --session FD"):
 *
 *   M: {"type":"session", "spec": {...}, "record_dir": "/run/.../NAME"}
 *      with the session directory, the held lock (record.h) and then an
 *      O_PATH descriptor of each view's root, in the order of the views.
 *   F: {"type":"ok"}
 *   M: {"type":"serve", "fuse": true}  with one mounted /dev/fuse descriptor a
 *      view; or "fuse": false and no descriptor: F mounts each view at its
 *      mount point itself.
 *   F: {"type":"ok"}    once every view is being served
 *   M: {"type":"commit", "devices": ["0:54"], "command": "make -j2"}
 *      devices are the views' as /proc/self/mountinfo prints them.
 *   F: {"type":"ok"}    once the record is written and the worktree locked
 *      (gitlock.h); with a "warning" for people if that failed.
 *
 * Either side may answer {"type":"error", "message": "..."} and close. When
 * the socket closes before the commit, F unmounts what it mounted and ends:
 * a set-up that is broken off leaves nothing behind. After the commit F lives
 * as long as its views do.
 */
#ifndef WORKTREEFS_WIRE_H
#define WORKTREEFS_WIRE_H

#include <stddef.h>

#define WIRE_MAX_FDS 64
#define WIRE_MAX_TEXT (16u << 20)

/* 0 or -errno (-EPIPE when the other side is gone; no SIGPIPE). */
int wire_send(int sock, const char *text, const int *fds, size_t n_fds);

/*
 * Receives one message. *ret_text is allocated; at most n_fds descriptors are
 * stored to fds (O_CLOEXEC, owned by the caller), their number to ret_n_fds.
 * 0, -ECONNRESET at the end of the stream, -EPROTO for what isn't a message
 * (too long, too many descriptors: those are closed), or -errno.
 */
int wire_receive(int sock, char **ret_text, int *fds, size_t n_fds,
		 size_t *ret_n_fds);

#endif
