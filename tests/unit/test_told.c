/* The last alerts: noted with the alert, whether or not anybody delivers it. */
#include "tests/unit/ledger_fixture.h"

#include <sys/wait.h>

#define LEASE_MS 60000

static struct fixture *with_site(void **state, uint8_t percent, uint64_t max, bool deliver)
{
    struct fixture *f = *state;

    f->policy.n_alert_at = 1;
    f->policy.alert_at[0] = percent;
    f->policy.alert_deliver = deliver;
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", max);
    return f;
}

/* A call that has ended, and used all that it could. */
static void spend(struct fixture *f)
{
    struct answer a;
    struct reservation r;

    assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
    settle(f, &r, SETTLE_UNKNOWN, 0, 0);
}

/* "site 50 here, demo 0 waits", newest first. */
static const char *told(struct fixture *f)
{
    static const char *const what[] = {"here", "waits", "delivered", "given_up"};
    static char text[2048];
    struct ledger_told list[TOLD_MAX];
    unsigned n;
    size_t at = 0;

    text[0] = '\0';
    assert_int_equal(ledger_told(f->ledger, list, &n), ERROR_NONE);
    assert_true(n <= TOLD_MAX);
    for (unsigned i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %u %s", i > 0 ? ", " : "",
                               list[i].name, list[i].percent, what[list[i].told]);
    return text;
}

static struct ledger_alert take(struct fixture *f)
{
    struct ledger_alert a;

    assert_int_equal(ledger_alert_take(f->ledger, &f->policy, LEASE_MS, &a), ERROR_NONE);
    return a;
}

static void done(struct fixture *f, const struct ledger_alert *a, bool delivered)
{
    assert_int_equal(ledger_alert_done(f->ledger, &f->policy, a, delivered, 1000), ERROR_NONE);
}

static void without_a_hook_it_is_noted_and_not_queued(void **state)
{
    struct fixture *f = with_site(state, 50, 2, false);
    struct ledger_alert a;
    struct ledger_told list[TOLD_MAX];
    struct ledger_state s;
    unsigned n;

    assert_string_equal(told(f), "");
    spend(f);
    assert_string_equal(told(f), "site 50 here");
    assert_int_equal(ledger_told(f->ledger, list, &n), ERROR_NONE);
    assert_int_equal(list[0].kind, ALERT_THRESHOLD);
    assert_int_equal(list[0].time_s, START_MS / 1000);
    assert_int_equal(ledger_state(f->ledger, &f->policy, &s), ERROR_NONE);
    assert_int_equal(s.alerts, 0);
    assert_int_equal(ledger_alerts_queued(f->ledger), 0);
    assert_int_equal(ledger_alert_take(f->ledger, &f->policy, LEASE_MS, &a), ERROR_NOT_FOUND);
    f->policy.alert_deliver = true; /* what is past is not told late */
    spend(f);
    assert_int_equal(ledger_alert_take(f->ledger, &f->policy, LEASE_MS, &a), ERROR_NOT_FOUND);
    assert_string_equal(told(f), "site 50 here");
}

static void what_has_become_of_it(void **state)
{
    struct fixture *f = with_site(state, 50, 2, true);

    spend(f);
    assert_string_equal(told(f), "site 50 waits");
    struct ledger_alert a = take(f);
    done(f, &a, false);
    assert_string_equal(told(f), "site 50 waits");
    pass(1000);
    a = take(f);
    done(f, &a, true);
    assert_string_equal(told(f), "site 50 delivered");
    reopen(f);
    assert_string_equal(told(f), "site 50 delivered");
}

static void it_is_given_up_by_who_tries_last(void **state)
{
    struct fixture *f = with_site(state, 50, 2, true);

    spend(f);
    pass(3 * DAY_MS);
    struct ledger_alert a = take(f);
    done(f, &a, false);
    assert_string_equal(told(f), "site 50 given_up");
}

static void it_is_given_up_by_timed_work(void **state)
{
    struct fixture *f = with_site(state, 50, 2, true);

    spend(f);
    pass(3 * DAY_MS);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    assert_string_equal(told(f), "site 50 given_up");
}

static void rename_limit(struct fixture *f, unsigned i)
{
    snprintf(f->limits[0].name, sizeof f->limits[0].name, "site-%u", i);
}

static void the_last_of_them_newest_first(void **state)
{
    struct fixture *f = with_site(state, 1, 100, false);
    char newest[32];

    for (unsigned i = 0; i < TOLD_MAX + 5; i++) { /* a configuration that names it anew */
        rename_limit(f, i);
        pass(1000);
        spend(f);
    }
    spend(f);
    struct ledger_told list[TOLD_MAX];
    unsigned n;
    assert_int_equal(ledger_told(f->ledger, list, &n), ERROR_NONE);
    assert_int_equal(n, TOLD_MAX);
    for (unsigned i = 0; i < n; i++) {
        snprintf(newest, sizeof newest, "site-%u", TOLD_MAX + 4 - i);
        assert_int_equal(list[i].time_s, list[0].time_s - i);
        assert_string_equal(list[i].name, newest);
    }
}

/* Newer ones have taken its place: then there is nothing to mark. */
static void a_delivery_of_one_that_is_no_more_among_them(void **state)
{
    struct fixture *f = with_site(state, 1, 100, true);
    struct ledger_alert first;

    for (unsigned i = 0; i < TOLD_MAX + 1; i++) {
        rename_limit(f, i);
        spend(f);
    }
    first = take(f);
    assert_string_equal(first.name, "site-0");
    done(f, &first, true);
    assert_null(strstr(told(f), "delivered"));
    first = take(f);
    done(f, &first, true);
    assert_string_equal(strrchr(told(f), ',') + 2, "site-1 1 delivered");
}

static void what_does_not_fit_the_queue_is_given_up_at_once(void **state)
{
    struct fixture *f = with_site(state, 1, 100, true);

    for (unsigned i = 0; i < 65; i++) {
        rename_limit(f, i);
        spend(f);
    }
    assert_int_equal(strncmp(told(f), "site-64 1 given_up, site-63 1 waits, ", 37), 0);
}

static void a_reset_of_the_clock_keeps_them(void **state)
{
    struct fixture *f = with_site(state, 50, 2, true);

    spend(f);
    fake_now.wall_ms += 100 * DAY_MS;
    assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_NONE);
    assert_string_equal(told(f), "site 50 waits");
    struct ledger_alert a = take(f);
    done(f, &a, true);
    assert_string_equal(told(f), "site 50 delivered");
}

static void they_are_known_to_the_walk(void **state)
{
    struct fixture *f = with_site(state, 50, 2, false);
    char note[128];

    spend(f);
    close_ledger(f);
    path_of(f, "run/walked", note);
    assert_int_equal(unlink(note), 0); /* the next opening walks all rows */
    open_ledger(f);
    assert_string_equal(told(f), "site 50 here");
}

/* ---- over all processes ---- */

#define PROCESSES 8
#define EACH      10

static _Noreturn void spend_in_a_child(struct fixture *f)
{
    const struct settlement unknown = {.kind = SETTLE_UNKNOWN};
    struct answer a;
    struct reservation r;
    bool ok = ledger_open(&f->options, false, &f->ledger) == ERROR_NONE;

    for (unsigned i = 0; ok && i < EACH; i++) {
        enum error e;

        while ((e = ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r)) == ERROR_BUSY)
            continue;
        ok = e == ERROR_NONE && ledger_settle(f->ledger, &r, &unknown, false) == ERROR_NONE;
    }
    ok = ok && ledger_close(f->ledger, 60000);
    _exit(ok ? 0 : 1);
}

static void f14_noted_once_over_all_processes(void **state)
{
    struct fixture *f = with_site(state, 50, PROCESSES * EACH + 20, false);
    pid_t pid[PROCESSES];

    close_ledger(f);
    for (unsigned i = 0; i < PROCESSES; i++)
        if ((pid[i] = fork()) == 0)
            spend_in_a_child(f);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;

        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    open_ledger(f);
    assert_string_equal(told(f), "site 50 here");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(without_a_hook_it_is_noted_and_not_queued),
        T(what_has_become_of_it),
        T(it_is_given_up_by_who_tries_last),
        T(it_is_given_up_by_timed_work),
        T(the_last_of_them_newest_first),
        T(a_delivery_of_one_that_is_no_more_among_them),
        T(what_does_not_fit_the_queue_is_given_up_at_once),
        T(a_reset_of_the_clock_keeps_them),
        T(they_are_known_to_the_walk),
        T(f14_noted_once_over_all_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
