/*
 * The least that a FastCGI program can do with a request: reads the whole body and answers with
 * a few lines. Threads, stacks and library are those of the product, which is measured against
 * it. Where GATEWAY_INTERFACE is set it answers one request by CGI; the Makefile links it with
 * the product's libraries, so that both pay for the same ones at their start.
 */
#include <fcgiapp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS 10 /* streams + 2 by default */
#define STACK   131072

/* As long as a refusal's header and body. */
static const char answer[] =
    "Status: 429 Too Many Requests\r\n"
    "Content-Type: application/json\r\n"
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Request-Id: chatcmpl-000000000000000000000000\r\n"
    "Retry-After: 3600\r\n"
    "x-should-retry: false\r\n"
    "RateLimit-Policy: \"visitor-day\";q=1;w=86400, \"visitor-burst\";q=10;w=10\r\n"
    "RateLimit: \"visitor-day\";r=0;t=3600, \"visitor-burst\";r=10;t=10\r\n"
    "X-RateLimit-Limit: 1\r\n"
    "X-RateLimit-Remaining: 0\r\n"
    "X-RateLimit-Reset: 3600\r\n"
    "\r\n"
    "{\"error\":{\"message\":\"This address has used up what it may use here for now. "
    "Please come back later.\",\"type\":\"rate_limit_error\",\"code\":\"address_limit\","
    "\"param\":null}}";

static void *serve(void *arg)
{
    static pthread_mutex_t accepting = PTHREAD_MUTEX_INITIALIZER;
    FCGX_Request r;
    char body[4096];
    int rc;

    if (FCGX_InitRequest(&r, 0, 0) != 0)
        return arg;
    for (;;) {
        pthread_mutex_lock(&accepting);
        rc = FCGX_Accept_r(&r);
        pthread_mutex_unlock(&accepting);
        if (rc < 0)
            return arg;
        while (FCGX_GetStr(body, sizeof body, r.in) == (int)sizeof body)
            ;
        FCGX_PutStr(answer, (int)strlen(answer), r.out);
        FCGX_Finish_r(&r);
    }
}

static int serve_once(void)
{
    char body[4096];
    ssize_t n = write(STDOUT_FILENO, answer, strlen(answer));

    while (n > 0)
        n = read(STDIN_FILENO, body, sizeof body);
    return n < 0;
}

int main(void)
{
    pthread_attr_t small;
    pthread_t thread;

    if (getenv("GATEWAY_INTERFACE") != NULL)
        return serve_once();
    if (FCGX_Init() != 0 || pthread_attr_init(&small) != 0 ||
        pthread_attr_setstacksize(&small, STACK) != 0)
        return 1;
    signal(SIGTERM, SIG_DFL); /* the library's handler only makes it stop accepting */
    for (int i = 1; i < WORKERS; i++)
        if (pthread_create(&thread, &small, serve, NULL) != 0)
            return 1;
    serve(NULL);
    return 0;
}
