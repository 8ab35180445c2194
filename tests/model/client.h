/*
 * The practice model as a unit test uses it: started as a child process, told what to do, asked
 * what it saw. Included by one file a test program; ends the program if the model is not there.
 */
#ifndef TESTS_MODEL_CLIENT_H
#define TESTS_MODEL_CLIENT_H

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MODEL_PROGRAM "build/practice-model" /* or what PRACTICE_MODEL says */
#define MODEL_WAIT_MS 5000 /* for what takes milliseconds on a quiet machine */

struct model {
    pid_t pid;
    int input; /* closing it ends the model */
    unsigned port;
    char url[64]; /* of the chat completions */
};

static inline void model_die(const char *what)
{
    fprintf(stderr, "practice model: %s\n", what);
    exit(2);
}

static inline long model_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

/* cert and key: of a TLS model, or NULL. */
static inline struct model model_start(const char *cert, const char *key)
{
    const char *program = getenv("PRACTICE_MODEL");
    struct model m = {.pid = -1};
    int in[2], out[2];
    FILE *f;

    if (program == NULL)
        program = MODEL_PROGRAM;
    if (pipe(in) != 0 || pipe(out) != 0)
        model_die("no pipe");
    m.pid = fork();
    if (m.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]);
        close(in[1]);
        close(out[0]);
        close(out[1]);
        if (cert == NULL)
            execl(program, program, "--until-eof", (char *)NULL);
        else
            execl(program, program, "--until-eof", "--tls", cert, key, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    m.input = in[1];
    f = fdopen(out[0], "r");
    if (m.pid < 0 || f == NULL || fscanf(f, "port %u", &m.port) != 1)
        model_die("does not start; build it with `make build/practice-model`");
    fclose(f);
    snprintf(m.url, sizeof m.url, "%s://127.0.0.1:%u/v1/chat/completions",
             cert == NULL ? "http" : "https", m.port);
    return m;
}

static inline void model_stop(struct model *m)
{
    close(m->input);
    waitpid(m->pid, NULL, 0);
}

/* For a program's whole run: model_end hands `failed` on. */
static inline void model_begin(struct model *m)
{
    signal(SIGPIPE, SIG_IGN);
    *m = model_start(NULL, NULL);
}

static inline int model_end(struct model *m, int failed)
{
    model_stop(m);
    return failed;
}

/* Makes DIRECTORY/NAME.crt, of an authority of its own for 127.0.0.1, and NAME.key. */
static inline void model_certificate(const char *directory, const char *name)
{
    char command[512];

    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
             " -keyout %s/%s.key -out %s/%s.crt -days 2 -subj /CN=127.0.0.1"
             " -addext subjectAltName=IP:127.0.0.1 >/dev/null 2>&1",
             directory, name, directory, name);
    if (system(command) != 0)
        model_die("no certificate");
}

/* A connection to 127.0.0.1. */
static inline int model_connect(unsigned port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
        model_die("does not accept");
    return fd;
}

/* All that comes until the other side closes; to be freed. */
static inline char *model_read_all(int fd)
{
    size_t got = 0, room = 4096;
    char *text = malloc(room);
    ssize_t n;

    while (text != NULL && (n = read(fd, text + got, room - 1 - got)) > 0) {
        got += (size_t)n;
        if (got == room - 1)
            text = realloc(text, room *= 2);
    }
    if (text == NULL)
        model_die("out of memory");
    text[got] = '\0';
    return text;
}

/* The parsed answer to a request on a connection of its own. */
static inline json_t *model_ask(const struct model *m, const char *method, const char *path,
                                const char *body)
{
    int fd = model_connect(m->port);
    char *text, *start;
    json_t *value;

    if (dprintf(fd,
                "%s %s HTTP/1.0\r\nContent-Type: application/json\r\n"
                "Content-Length: %zu\r\n\r\n%s",
                method, path, strlen(body), body) < 0)
        model_die("does not read");
    text = model_read_all(fd);
    close(fd);
    start = strstr(text, "\r\n\r\n");
    value = start == NULL ? NULL : json_loads(start, JSON_DECODE_ANY, NULL);
    if (value == NULL || strstr(text, " 200 ") == NULL)
        model_die(text);
    free(text);
    return value;
}

static inline void model_set(const struct model *m, const char *settings)
{
    json_decref(model_ask(m, "POST", "/control", settings));
}

static inline long model_count(const struct model *m, const char *name)
{
    json_t *stats = model_ask(m, "GET", "/stats", "");
    long n = (long)json_integer_value(json_object_get(stats, name));

    json_decref(stats);
    return n;
}

/* Whether a count reaches a value in time. */
static inline bool model_reaches(const struct model *m, const char *name, long value)
{
    long end = model_now_ms() + MODEL_WAIT_MS;

    while (model_count(m, name) != value) {
        if (model_now_ms() > end)
            return false;
        poll(NULL, 0, 2);
    }
    return true;
}

#endif
