/* Whose a process is: names are understood or refused, and there is no way back. */
#include "platform/owner.h"

#include <errno.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/scratch.h"

static void test_parse(void **state)
{
    static const struct {
        const char *what, *text;
        bool ok;
        struct owner owner;
    } rows[] = {
        {"a name", "root", true, {0, 0}},
        {"a name and a group", "root:0", true, {0, 0}},
        {"numbers", "12345:54321", true, {12345, 54321}},
        {"a number without an account", "12345", true, {12345, 12345}},
        {"the highest number", "4294967294:4294967294", true, {4294967294, 4294967294}},
        {"the number that means unchanged", "4294967295", false, {0, 0}},
        {"a group that means unchanged", "0:4294967295", false, {0, 0}},
        {"nothing", "", false, {0, 0}},
        {"only a group", ":root", false, {0, 0}},
        {"an empty group", "root:", false, {0, 0}},
        {"an unknown name", "no-such-user", false, {0, 0}},
        {"an unknown group", "root:no-such-group", false, {0, 0}},
        {"a negative number", "-1", false, {0, 0}},
        {"digits and more", "1x", false, {0, 0}},
        {"a very long name",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         false,
         {0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct owner o = {7, 7};
        bool ok = owner_parse(rows[i].text, &o);

        if (ok != rows[i].ok)
            fail_msg("%s", rows[i].what);
        assert_int_equal(o.uid, ok ? rows[i].owner.uid : 7);
        assert_int_equal(o.gid, ok ? rows[i].owner.gid : 7);
    }
}

static void test_owner_of(void **state)
{
    struct owner o = {7, 7};

    (void)state;
    assert_int_equal(owner_of(scratch_path("none"), &o), ERROR_NOT_FOUND);
    scratch_write(scratch_path("file"), 0600, "", 0);
    assert_int_equal(owner_of(scratch_path("file"), &o), ERROR_SYSTEM);
    assert_int_equal(errno, ENOTDIR);
    assert_int_equal(o.uid, 7);
    assert_int_equal(owner_of(scratch_directory, &o), ERROR_NONE);
    assert_int_equal(o.uid, geteuid());
}

static void test_becoming_who_one_is(void **state)
{
    (void)state;
    assert_int_equal(owner_become((struct owner){geteuid(), 12345}), ERROR_NONE);
}

/* In a child: becomes the stranger and tries every way back. */
static int become_stranger(void)
{
    const struct owner stranger = {12345, 54321};
    gid_t groups[8];

    if (geteuid() != 0)
        return owner_become(stranger) == ERROR_SYSTEM && errno == EPERM ? 0 : 1;
    if (owner_become(stranger) != ERROR_NONE)
        return 2;
    if (getuid() != 12345 || geteuid() != 12345 || getgid() != 54321 || getegid() != 54321)
        return 3;
    if (getgroups(8, groups) != 1 || groups[0] != 54321)
        return 4;
    if (setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0 || setgroups(0, NULL) == 0)
        return 5;
    return owner_become((struct owner){0, 0}) == ERROR_SYSTEM ? 0 : 6;
}

static void test_there_is_no_way_back(void **state)
{
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0)
        _exit(become_stranger());
    assert_int_equal(scratch_wait(child), 0);
}

static void test_name(void **state)
{
    char name[OWNER_NAME_MAX];

    (void)state;
    assert_string_equal(owner_name(0, name), "root");
    assert_string_equal(owner_name(12345, name), "12345");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_owner_of),
        cmocka_unit_test(test_becoming_who_one_is),
        cmocka_unit_test(test_there_is_no_way_back),
        cmocka_unit_test(test_name),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
