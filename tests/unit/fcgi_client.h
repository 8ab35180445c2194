/*
 * A FastCGI client by hand, so that a test can be slow, silent, wrong or rude where web servers
 * are not. To be included after cmocka.h. Source: the FastCGI specification 1.0, 3.3 to 5.5.
 */
#ifndef TESTS_UNIT_FCGI_CLIENT_H
#define TESTS_UNIT_FCGI_CLIENT_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FCGI_BEGIN     1
#define FCGI_ABORT     2
#define FCGI_END       3
#define FCGI_PARAMETER 4
#define FCGI_INPUT     5
#define FCGI_OUTPUT    6
#define FCGI_ID        1
#define FCGI_KEEP      1

static inline int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Connects; waits for somebody to listen. */
static inline int fcgi_connect(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int64_t until = now_ms() + 5000;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0 && strlen(path) < sizeof(a.sun_path));
    memcpy(a.sun_path, path, strlen(path));
    while (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
        assert_true(now_ms() < until);
        poll(NULL, 0, 5);
    }
    return fd;
}

/* Sends all; false if the other side does not take it. */
static inline bool fcgi_send(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;

    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);

        if (sent < 0)
            return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

static inline bool fcgi_record(int fd, int type, const void *content, size_t n)
{
    unsigned char head[8] = {1,       (unsigned char)type,     0,
                             FCGI_ID, (unsigned char)(n >> 8), (unsigned char)n};

    return fcgi_send(fd, head, sizeof(head)) && fcgi_send(fd, content, n);
}

/* A stream of any length, in records of at most 65,000 bytes. */
static inline bool fcgi_stream(int fd, int type, const char *bytes, size_t n)
{
    for (size_t part; n > 0; bytes += part, n -= part) {
        part = n < 65000 ? n : 65000;
        if (!fcgi_record(fd, type, bytes, part))
            return false;
    }
    return true;
}

static inline bool fcgi_begin(int fd, unsigned char flags)
{
    const unsigned char body[8] = {0, 1, flags}; /* a responder */

    return fcgi_record(fd, FCGI_BEGIN, body, sizeof(body));
}

static inline bool fcgi_param(int fd, const char *name, const char *value)
{
    size_t n = strlen(name), m = strlen(value), room = n + m + 8;
    unsigned char *pair = malloc(room), *at = pair;
    bool ok;

    assert_non_null(pair);
    *at++ = (unsigned char)n; /* names here are short */
    *at++ = (unsigned char)(0x80 | (m >> 24));
    *at++ = (unsigned char)(m >> 16);
    *at++ = (unsigned char)(m >> 8);
    *at++ = (unsigned char)m;
    memcpy(at, name, n);
    memcpy(at + n, value, m);
    ok = fcgi_stream(fd, FCGI_PARAMETER, (const char *)pair, (size_t)(at - pair) + n + m);
    free(pair);
    return ok;
}

/* Begin, PATH_INFO and the end of the parameters. */
static inline bool fcgi_ask(int fd, const char *path, unsigned char flags)
{
    return fcgi_begin(fd, flags) && fcgi_param(fd, "REQUEST_METHOD", "POST") &&
           fcgi_param(fd, "PATH_INFO", path) && fcgi_record(fd, FCGI_PARAMETER, "", 0);
}

static inline bool fcgi_ask_all(int fd, const char *path, unsigned char flags)
{
    return fcgi_ask(fd, path, flags) && fcgi_record(fd, FCGI_INPUT, "", 0);
}

/* Reads n bytes before the instant; false at an end, an error or too late. */
static inline bool fcgi_receive(int fd, void *bytes, size_t n, int64_t until)
{
    char *at = bytes;

    while (n > 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = until - now_ms();
        ssize_t got;

        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return false;
        got = recv(fd, at, n, 0);
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

/* The answer's output up to FCGI_END, NUL-terminated, cut to `size`. False if none came whole.
 */
static inline bool fcgi_answer(int fd, char *out, size_t size, int64_t wait_ms)
{
    int64_t until = now_ms() + wait_ms;
    unsigned char head[8], content[65535 + 255];
    size_t used = 0;

    out[0] = '\0';
    while (fcgi_receive(fd, head, sizeof(head), until)) {
        size_t n = (size_t)head[4] << 8 | head[5];

        if (!fcgi_receive(fd, content, n + head[6], until))
            return false;
        if (head[1] == FCGI_END)
            return true;
        if (head[1] == FCGI_OUTPUT && used + n < size) {
            memcpy(out + used, content, n);
            used += n;
            out[used] = '\0';
        }
    }
    return false;
}

/* Waits until the other side has closed; how long that took, or -1 if it did not. */
static inline int64_t fcgi_closed(int fd, int64_t wait_ms)
{
    int64_t start = now_ms(), until = start + wait_ms;
    char bytes[4096];

    while (now_ms() < until) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (poll(&p, 1, (int)(until - now_ms())) <= 0)
            break;
        n = recv(fd, bytes, sizeof(bytes), 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return now_ms() - start;
    }
    return -1;
}

#endif
