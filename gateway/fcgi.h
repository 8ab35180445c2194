/* One FastCGI connection as an exchange. gateway/fcgi.c is the one file that includes
 * fcgiapp.h. */
#ifndef GATEWAY_FCGI_H
#define GATEWAY_FCGI_H

#include <stdbool.h>

#include "gateway/gate.h"
#include "gateway/service.h"

/* Once, before threads, and after the program's own signal handlers (the library installs its
 * own for SIGTERM, SIGUSR1 and SIGPIPE where there are none). False: it cannot work. */
bool fcgi_init(void);

/*
 * Reads one request from the connection, lets the service answer it and ends it; whether the
 * connection is kept alive is not the caller's choice: it never is. True if all input was read.
 */
bool fcgi_serve(struct service *s, struct gate *g, struct connection *c);

#endif
