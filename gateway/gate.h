/*
 * The gate: accepts connections, waits for their first bytes, hands ready ones to the workers,
 * and enforces every deadline, so that a worker is never held by somebody who says nothing,
 * reads nothing or does not leave.
 *
 *   waiting     accepted, no byte yet         closed at the request's deadline
 *   served      a worker has it               reading is shut down at the request's deadline,
 *                                             until it is admitted; both ways if a write
 *                                             takes too long
 *   lingering   answered, input left unread   closed at its end, or after GATE_LINGER_MS
 *
 * Idle workers wait together for whatever comes (gate_take), each event wakes one of them, and
 * the one that accepts a connection which has spoken already serves it: no request passes from
 * thread to thread. Deadlines are the business of one further thread (gate_round). It enforces
 * them by shutdown(2), which ends a blocked read or write of another thread at once (a receive
 * timeout would start anew with every byte), under the lock under which the descriptor is
 * closed, so that it can never meet another connection's. libfcgi closes what it reads from
 * whenever it likes: it gets a duplicate of its own.
 */
#ifndef GATEWAY_GATE_H
#define GATEWAY_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/error.h"

struct gate;
struct connection; /* one accepted connection; belongs to its worker between take and give */

/* An answered connection whose input is unread is not closed at once: the reset would make its
 * peer lose the answer (a 413 before the body). As long as libfcgi waits. */
#define GATE_LINGER_MS 2000

/*
 * For a listening socket, which is made non-blocking: the flag belongs to the open description,
 * so also for others who share it (a web server that only passes it on does not notice; sibling
 * processes of ours want it). Without it accept(2) could block after another process has taken
 * the connection that was reported. The socket is never shut down nor closed. ERROR_MEMORY,
 * ERROR_SYSTEM.
 */
enum error gate_new(int listen_fd, unsigned workers, int64_t write_timeout_ms,
                    struct gate **out);
void gate_free(struct gate *g); /* all workers have left; closes what is still held */

/* ---- the deadlines' thread ---- */

/* Waits at most wait_ms (-1: no bound) for a deadline or a wake-up, and does what is due. */
void gate_round(struct gate *g, int64_t wait_ms);
/* Ends a round soon. By any thread, and by signal handlers. */
void gate_wake(struct gate *g);
/* Accepts no more, and gives the silent and the lingering only a moment longer. */
void gate_stop(struct gate *g);
/* Shuts down every connection both ways. */
void gate_cut(struct gate *g);
bool gate_empty(struct gate *g);
/* Workers leave: gate_take returns NULL. Once the gate is empty or has been cut. */
void gate_dismiss(struct gate *g);

/* ---- workers ---- */

/* Waits for a ready connection; NULL: leave. */
struct connection *gate_take(struct gate *g);
/* It has been answered or given up; `drained`: its input was read to the end. */
void gate_give(struct gate *g, struct connection *c, bool drained);

/* The connection's descriptor, to be watched only; and the duplicate, which the worker's
 * FastCGI library closes. */
int gate_fd(const struct connection *c);
int gate_lent_fd(const struct connection *c);

/* The request is admitted: its deadline no longer applies, but in answer_ms the connection is
 * shut down both ways. False if it has passed. */
bool gate_admit(struct gate *g, struct connection *c, int64_t answer_ms);
/* Around whatever may write to the connection: it must not take longer than the write
 * timeout. */
void gate_write_begin(struct gate *g, struct connection *c);
void gate_write_end(struct gate *g, struct connection *c);

#endif
