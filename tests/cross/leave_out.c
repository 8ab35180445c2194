/*
 * Linked into a unit test with -Wl,--wrap=_cmocka_run_group_tests: leaves out the tests that the
 * environment names in LEFT_OUT, separated by blanks, and those that it does not name in ONLY if
 * it has that. cmocka's own filter takes one pattern, and nothing from the environment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int __real__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);
int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);

static int is_in(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (const char *p = list; p != NULL && (p = strstr(p, name)) != NULL; p += length)
        if ((p == list || p[-1] == ' ') && (p[length] == ' ' || p[length] == '\0'))
            return 1;
    return 0;
}

int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    const char *left_out = getenv("LEFT_OUT"), *only = getenv("ONLY");
    struct CMUnitTest *kept = calloc(n, sizeof *kept);
    size_t n_kept = 0;

    if (kept == NULL)
        return 1;
    for (size_t i = 0; i < n; i++)
        if (!is_in(left_out, tests[i].name) && (only == NULL || is_in(only, tests[i].name)))
            kept[n_kept++] = tests[i];
    int failed = __real__cmocka_run_group_tests(group, kept, n_kept, set_up, tear_down);
    free(kept);
    return failed;
}
