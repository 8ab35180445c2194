/*
 * The entry points. FastCGI: accepts by itself, waits for first bytes outside the workers
 * (gateway/gate.h), and hands ready connections to streams + 2 worker threads with an explicit
 * stack size. CGI: the one request of this process.
 */
#ifndef GATEWAY_POOL_H
#define GATEWAY_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/service.h"

#define POOL_REQUEST_MS 5000 /* from accept to admission: invariant 10 */
#define POOL_PENDING    256  /* connections held that have not sent their first byte */

/*
 * Serves the listening socket until SIGTERM, SIGINT or SIGUSR1 (or the service wants a
 * restart), then drains: no further accepts, running streams end or are cut so that it returns
 * within stop_ms; if even then a worker does not end, the process does, by _exit. Installs its
 * own signal handlers before libfcgi's and blocks all signals in workers. Makes the listening
 * socket non-blocking, and never shuts it down: others share it. Returns true to exit, false to
 * start anew.
 */
bool pool_run(struct service *s, int listen_fd, unsigned streams, size_t stack_bytes,
              int64_t write_timeout_ms, int64_t stop_ms);

/* A unix socket at `path` with mode and group (NULL: unchanged), listening; replaces a dead
 * socket only. -1 with a line in `message`. Before threads (gateway/listen.c). */
int pool_listen(const char *path, unsigned mode, const char *group, char message[256]);

/* One CGI exchange from the process's environment and standard streams (gateway/cgi.c). The
 * process should _exit(0) after it. */
void cgi_run(struct service *s, char *const *env);

#endif
