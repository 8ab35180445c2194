/*
 * Serving: on a socket of its own, on the one a web server left at descriptor 0, or one request
 * as CGI. What a process cannot take up by itself it takes up by starting anew, with the
 * listening socket at descriptor 0.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/cli.h"
#include "gateway/pool.h"
#include "gateway/service.h"

#define LISTEN_FD 0
#define FREE_MS   5000 /* for the settles that wait; then the process leaves by _exit */
#define NOBODY    65534

/* A signal to stop that comes while we start anew waits for the next image. */
static void hold_stop_signals(void)
{
    sigset_t stop;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
}

/* Serves descriptor 0 until it is told to stop; does not return when it starts anew. */
static int run(struct cli *cli)
{
    struct config_server server;
    struct config *c;
    struct service *s;
    bool stop, known;

    if (service_new(cli->config, cli->env, false, &s) != ERROR_NONE)
        return cli_fail("%s", error_text(ERROR_MEMORY));
    c = service_config(s);
    known = config_server(c, &server);
    config_drop(c);
    if (!known)
        return cli_fail("%s", error_text(ERROR_MEMORY));
    stop = pool_run(s, LISTEN_FD, server.streams, server.stack_bytes, server.write_timeout_ms,
                    server.stop_ms);
    hold_stop_signals();
    if (!service_free(s, FREE_MS))
        log_line(LOG_LEVEL_ERROR,
                 "event=stuck text=\"the store or a call did not let go in time\"");
    if (!stop) {
        execv("/proc/self/exe", cli->argv);
        return cli_fail("cannot start anew");
    }
    return CLI_OK;
}

/* Only root has something to give up, and stays away from a store of which it does not know the
 * owner. */
static int leave_root(const char *path, char *const *env)
{
    struct config *c = NULL;
    char message[CONFIG_ERROR_MAX];
    struct owner o;
    int status = CLI_OK;

    if (geteuid() != 0)
        return CLI_OK;
    if (config_load(path, env, &c, message) != ERROR_NONE)
        return cli_fail("%s", message);
    if (owner_of(c->store, &o) != ERROR_NONE || owner_become(o) != ERROR_NONE)
        status = cli_fail("%s: as root pennygate becomes the store's owner, and found none",
                          c->store);
    config_drop(c);
    return status;
}

/* Whoever runs us, a store that is not ours is told of by the service. */
int cli_fastcgi(struct cli *cli)
{
    int status = leave_root(cli->config, cli->env);

    return status == CLI_OK ? run(cli) : status;
}

static int listen_on(const struct cli *cli, const struct config *c)
{
    const char *path = cli->socket != NULL ? cli->socket : c->socket;
    char message[256];
    int fd;

    if (path == NULL) {
        cli_fail("no socket: serve --socket PATH, or server { socket = ... }");
        return CLI_USAGE;
    }
    fd = pool_listen(path, c->socket_mode, c->socket_group, message);
    if (fd < 0)
        return cli_fail("%s", message);
    if (fd != LISTEN_FD) {
        if (dup2(fd, LISTEN_FD) < 0)
            return cli_fail("cannot move the socket to descriptor 0");
        close(fd);
    }
    printf("listening on %s\n", path);
    fflush(stdout); /* now, also into a journal */
    return CLI_OK;
}

int cli_serve(struct cli *cli)
{
    struct config *c;
    int status;

    /* Started anew, or by something that has made the socket for us. A configuration that does
     * not parse at this moment must not end the service. */
    if (cli->listening)
        return cli_fastcgi(cli);
    status = cli_load(cli, &c);
    if (status == CLI_OK)
        status =
            listen_on(cli, c); /* before root is given up: the socket's group may need it */
    if (status != CLI_OK)
        return status;
    config_drop(c);
    return cli_fastcgi(cli);
}

/* uhttpd runs its programs as root. One that cannot know whose the store is has nothing to do but
 * to say 503, and does that as nobody. */
static bool leave_root_anyhow(char *const *env)
{
    const struct owner nobody = {NOBODY, NOBODY};

    return leave_root(cli_config_path(), env) == CLI_OK || owner_become(nobody) == ERROR_NONE;
}

int cli_cgi(char *const *env)
{
    struct service *s;
    const char *why = NULL;

    if (!leave_root_anyhow(env))
        why = "not set up properly";
    else if (service_new(cli_config_path(), env, true, &s) != ERROR_NONE)
        why = "out of memory";
    if (why != NULL) {
        printf("Status: 503 Service Unavailable\r\nRetry-After: 60\r\n"
               "Content-Type: text/plain\r\n\r\n%s\n",
               why);
        fflush(stdout); /* main leaves by _exit */
        return CLI_FAILED;
    }
    cgi_run(s, env);
    return CLI_OK;
}
