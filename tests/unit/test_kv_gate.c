/* The gate of transactions: alone means alone, and waiting for it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "platform/clock.h"
#include "store/kv_gate.h"

#define THREADS 4
#define ROUNDS  20000
#define LONG_MS 60000

#define assert_error(got, wanted) assert_string_equal(error_text(got), error_text(wanted))

static void test_alone_waits_for_who_is_inside(void **state)
{
    (void)state;
    struct kv_gate g;
    assert_error(kv_gate_init(&g), ERROR_NONE);
    assert_error(kv_gate_alone(&g, 0), ERROR_NONE);
    kv_gate_reopen(&g);
    kv_gate_enter(&g);
    kv_gate_enter(&g);
    static const int64_t waits[] = {0, 1, 999, 1001};
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        int64_t before = clock_monotonic_ms();
        assert_error(kv_gate_alone(&g, waits[i]), ERROR_BUSY);
        int64_t took = clock_monotonic_ms() - before;
        assert_true(took >= waits[i] - 1 && took < waits[i] + LONG_MS);
    }
    kv_gate_leave(&g);
    assert_error(kv_gate_alone(&g, 1), ERROR_BUSY);
    kv_gate_enter(&g); /* a failed wait has shut nobody out */
    kv_gate_leave(&g);
    kv_gate_leave(&g);
    assert_error(kv_gate_alone(&g, LONG_MS), ERROR_NONE);
    kv_gate_reopen(&g);
    kv_gate_destroy(&g);
}

struct shared {
    struct kv_gate gate;
    atomic_int inside;
    int map; /* no atomic: the gate alone protects it */
};

static void *go_in_and_out(void *arg)
{
    struct shared *s = arg;
    long seen = 0;
    for (int i = 0; i < ROUNDS; i++) {
        kv_gate_enter(&s->gate);
        atomic_fetch_add(&s->inside, 1);
        seen += s->map;
        atomic_fetch_sub(&s->inside, 1);
        kv_gate_leave(&s->gate);
    }
    return seen < 0 ? s : NULL;
}

static void test_nobody_is_inside_while_one_is_alone(void **state)
{
    (void)state;
    struct shared s = {.map = 0};
    pthread_t thread[THREADS];
    assert_error(kv_gate_init(&s.gate), ERROR_NONE);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, go_in_and_out, &s), 0);
    for (int i = 0; i < 200; i++) {
        assert_error(kv_gate_alone(&s.gate, LONG_MS), ERROR_NONE);
        assert_int_equal(atomic_load(&s.inside), 0);
        s.map++;
        kv_gate_reopen(&s.gate);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    kv_gate_destroy(&s.gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_waits_for_who_is_inside),
        cmocka_unit_test(test_nobody_is_inside_while_one_is_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
