/* Once an hour over all processes, as far as a file can tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "platform/hourly.h"
#include "tests/unit/scratch.h"

#define NOW (1000 * HOURLY_MS)

static const struct {
    const char *what;
    int64_t at; /* the second claim, the first being at NOW */
    enum hourly expected;
} CLAIMS[] = {
    {"at once", NOW, HOURLY_DONE},
    {"the hour's last moment", NOW + HOURLY_MS - 1, HOURLY_DONE},
    {"an hour later", NOW + HOURLY_MS, HOURLY_MINE},
    {"after another boot", NOW - 1, HOURLY_MINE},
    {"just after another boot", 0, HOURLY_MINE},
};

static void it_is_claimed_once_an_hour(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof CLAIMS / sizeof *CLAIMS; i++) {
        const char *path = scratch_path("claimed");

        unlink(path);
        assert_int_equal(hourly_claim(path, NOW), HOURLY_MINE);
        if (hourly_claim(path, CLAIMS[i].at) != CLAIMS[i].expected)
            fail_msg("%s", CLAIMS[i].what);
        if (CLAIMS[i].expected == HOURLY_MINE)
            assert_int_equal(hourly_claim(path, CLAIMS[i].at), HOURLY_DONE);
    }
}

static void what_was_not_done_is_anybodys(void **state)
{
    const char *path = scratch_path("released");

    (void)state;
    assert_int_equal(hourly_claim(path, NOW), HOURLY_MINE);
    hourly_release(path);
    assert_int_equal(hourly_claim(path, NOW), HOURLY_MINE);
    assert_int_equal(hourly_claim(path, NOW), HOURLY_DONE);
    hourly_release(scratch_path("never made")); /* makes none */
    assert_int_equal(access(scratch_path("never made"), F_OK), -1);
}

static void a_file_that_is_none_of_ours_is_no_claim(void **state)
{
    const char *junk = scratch_path("junk"), *link = scratch_path("link");

    (void)state;
    assert_int_equal(hourly_claim(scratch_path("nowhere/file"), NOW), HOURLY_UNKNOWN);
    assert_int_equal(hourly_claim(scratch_directory, NOW), HOURLY_UNKNOWN);
    scratch_write(junk, 0600, "junk", 4);
    assert_int_equal(symlink(junk, link), 0);
    assert_int_equal(hourly_claim(link, NOW), HOURLY_UNKNOWN);
    assert_int_equal(hourly_claim(junk, NOW), HOURLY_MINE);
    assert_int_equal(hourly_claim(junk, NOW), HOURLY_DONE);
}

#define PROCESSES 16

static void of_many_processes_one_gets_it(void **state)
{
    const char *path = scratch_path("raced");
    unsigned mine = 0;
    pid_t pid[PROCESSES];

    (void)state;
    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < PROCESSES; i++)
            if ((pid[i] = fork()) == 0)
                _exit((int)hourly_claim(path, NOW + round * HOURLY_MS));
        for (unsigned i = 0; i < PROCESSES; i++)
            mine += scratch_wait(pid[i]) == HOURLY_MINE;
        assert_int_equal(mine, round + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_claimed_once_an_hour),
        cmocka_unit_test(what_was_not_done_is_anybodys),
        cmocka_unit_test(a_file_that_is_none_of_ours_is_no_claim),
        cmocka_unit_test(of_many_processes_one_gets_it),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
