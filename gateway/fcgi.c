/*
 * FastCGI by libfcgi 2.4.2 or later. What it must be protected from, because it does not
 * protect itself:
 *
 * - It believes the peer: parameters have no bound, a claimed length is allocated at once, and
 *   a failed malloc ends the process by an assertion. So only the web server may be able to
 *   connect (a unix socket with mode 0660): pool_listen, README.
 * - After a failed write it reports success again. FCGX_GetError alone is right, and here a
 *   failure sticks.
 * - A signal counts as a broken connection: workers have all signals blocked.
 * - It closes the connection by itself when a request does not parse: it has a duplicate
 *   (gateway/gate.h), "detached", so that it does not first wait up to two seconds for the
 *   peer.
 * - A kept-alive connection would own a worker: keepConnection is cleared for each request.
 */
#include "gateway/fcgi.h"

#include <fcgiapp.h>

#define READ_MAX 1048576 /* a read's size must fit an int; nobody asks for more */

struct fcgi {
    struct exchange x; /* first: an exchange is cast back to it */
    FCGX_Request request;
    struct gate *gate;
    struct connection *connection;
    bool admitted, failed;
};

static struct fcgi *of(struct exchange *x)
{
    return (struct fcgi *)x;
}

static ssize_t fcgi_read(struct exchange *x, void *buf, size_t n)
{
    struct fcgi *f = of(x);
    int wanted = (int)(n < READ_MAX ? n : READ_MAX);
    int got = FCGX_GetStr(buf, wanted, f->request.in);

    if (got == wanted)
        return got;
    if (FCGX_GetError(f->request.in) != 0)
        return -1;
    /* The input's end has been read: whatever comes now is the peer leaving. */
    x->watch_fd = gate_fd(f->connection);
    return got;
}

static bool failed(struct fcgi *f)
{
    if (FCGX_GetError(f->request.out) != 0)
        f->failed = true;
    return f->failed;
}

/* What the library's buffer takes waits for nobody, and so needs no deadline. */
static bool put_buffered(struct fcgi *f, const char *bytes, size_t n)
{
    const FCGX_Stream *out = f->request.out;

    return !f->failed && n <= (size_t)(out->stop - out->wrNext) &&
           FCGX_PutStr(bytes, (int)n, f->request.out) == (int)n;
}

static bool fcgi_write(struct exchange *x, const void *buf, size_t n)
{
    struct fcgi *f = of(x);
    const char *bytes = buf;

    if (put_buffered(f, bytes, n))
        return true;
    gate_write_begin(f->gate, f->connection);
    while (n > 0 && !f->failed) {
        int part = (int)(n < READ_MAX ? n : READ_MAX);

        if (FCGX_PutStr(bytes, part, f->request.out) != part || failed(f)) {
            f->failed = true;
            break;
        }
        bytes += part;
        n -= (size_t)part;
    }
    gate_write_end(f->gate, f->connection);
    return !f->failed;
}

/* Until it is admitted an exchange is answered at once and whole. That goes out together with
 * the end of the request, in one write: half the work for us and for the web server. */
static bool fcgi_flush(struct exchange *x)
{
    struct fcgi *f = of(x);

    if (f->failed || !f->admitted)
        return !f->failed;
    gate_write_begin(f->gate, f->connection);
    FCGX_FFlush(f->request.out);
    gate_write_end(f->gate, f->connection);
    return !failed(f);
}

static bool fcgi_admitted(struct exchange *x, int64_t answer_ms)
{
    struct fcgi *f = of(x);

    f->admitted = gate_admit(f->gate, f->connection, answer_ms);
    return f->admitted;
}

static const struct exchange_ops fcgi_ops = {fcgi_read, fcgi_write, fcgi_flush, fcgi_admitted};

bool fcgi_init(void)
{
    return FCGX_Init() == 0;
}

bool fcgi_serve(struct service *s, struct gate *g, struct connection *c)
{
    struct fcgi f = {
        .x = {.ops = &fcgi_ops, .watch_fd = -1, .watch_readable = true},
        .gate = g,
        .connection = c,
    };

    FCGX_InitRequest(&f.request, -1, 0);
    f.request.ipcFd = gate_lent_fd(c);
    f.request.keepConnection = 1; /* or FCGX_Accept_r would close the preset descriptor */
    FCGX_Detach(&f.request);
    if (FCGX_Accept_r(&f.request) < 0)
        return false; /* it has closed its descriptor */
    f.request.keepConnection = 0;
    f.x.env = f.request.envp;
    service_handle(s, &f.x);
    gate_write_begin(g, c);
    FCGX_Finish_r(&f.request);
    gate_write_end(g, c);
    return f.x.watch_fd >= 0;
}
