/*
 * Requests against changes of the rules. Each request is served between
 * gate_enter() and gate_leave(); whoever changes the rules closes the gate,
 * and then no request is under way: those that were judged by the old rules
 * have been answered, those to come wait and will be judged by the new ones.
 * So places, policies and the session's list of rules are read without a lock
 * of their own. Never entered twice by one thread.
 *
 * Only what answers no request may close it, holding no lock.
 */
#ifndef WORKTREEFS_GATE_H
#define WORKTREEFS_GATE_H

void gate_enter(void);
void gate_leave(void);

/*
 * Waits for the requests under way, a fifth of a second at a time, between
 * which others pass: a request that takes long holds up nobody but us. 0, or
 * -EBUSY when there was no moment without one in ten seconds.
 */
int gate_close(void);
void gate_open(void);

#endif
