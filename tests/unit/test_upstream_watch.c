/*
 * A client's descriptor that is readable although the client is there: the transfer thread must
 * go on looking at it, but not without a pause. exchange_gone is defined here, in the place of
 * the real one, because that is to say: a client that sends "bye" is gone, any other byte is
 * none of our business and stays unread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "gateway/exchange.h"
#include "gateway/upstream.h"
#include "tests/model/client.h"

#define BODY "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"salt?\"}]}"

#define FREE_MS 10000

static struct model model;
static _Atomic unsigned looks;

bool exchange_gone(int watch_fd, bool watch_readable)
{
    char seen[16];
    ssize_t n = recv(watch_fd, seen, sizeof seen, MSG_PEEK | MSG_DONTWAIT);

    (void)watch_readable;
    looks++;
    return n >= 3 && memcmp(seen + n - 3, "bye", 3) == 0;
}

static void readable_is_not_gone_and_does_not_spin(void **state)
{
    struct call_request r = {.url = model.url,
                             .body = BODY,
                             .n_body = sizeof BODY - 1,
                             .connect_timeout_ms = 5000,
                             .first_byte_timeout_ms = 30000,
                             .idle_timeout_ms = 30000,
                             .total_timeout_ms = 30000,
                             .watch_readable = true};
    struct upstream *up;
    struct call *c;
    enum call_end end;
    char buf[64];
    int pair[2];
    long before;

    (void)state;
    model_set(&model, "{\"hang\":true}");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    r.watch_fd = pair[0];
    assert_int_equal(write(pair[1], "junk", 4), 4);
    assert_int_equal(upstream_new(2, &up), ERROR_NONE);
    assert_int_equal(upstream_load(up), ERROR_NONE);
    assert_int_equal(call_start(up, &r, &c), ERROR_NONE);
    assert_int_equal(call_read(c, buf, sizeof buf, 1000, &end), 0);
    assert_int_equal(end, CALL_RUNNING);
    assert_true(looks >= 2);
    assert_true(looks <= 20);
    assert_int_equal(write(pair[1], "bye", 3), 3);
    before = model_now_ms();
    while (call_read(c, buf, sizeof buf, 1000, &end) == 0 && end == CALL_RUNNING)
        ;
    assert_int_equal(end, CALL_GONE);
    assert_true(model_now_ms() - before < 1000);
    call_free(c);
    assert_true(upstream_free(up, FREE_MS));
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readable_is_not_gone_and_does_not_spin),
    };
    model_begin(&model);
    return model_end(&model, cmocka_run_group_tests(tests, NULL, NULL));
}
