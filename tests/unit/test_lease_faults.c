/*
 * Durability lease, and every system call that can fail does so at times: tmpfs and flash that are
 * full, read-only or broken, no descriptors, no locks. Whatever was admitted is known afterwards,
 * also after a power loss; nothing stays open or locked, and without faults all goes on.
 *
 * LEASE_SEED: where the random numbers begin.
 */
#include "tests/unit/ledger_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "store/ledger_parts.h"

#define ROUNDS 300
#define ASKED  8 /* in a round, at most */

struct site {
    struct fixture f; /* first */
    char store[LEASED_PATH], run[LEASED_PATH];
};

static atomic_uint one_in; /* calls fail; 0: none does */
static atomic_ullong random_number;
static atomic_uint failed;

static unsigned draw(unsigned n)
{
    unsigned long long x = atomic_fetch_add(&random_number, 0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (unsigned)((x ^ x >> 31) % n);
}

static bool fails(void)
{
    static const int causes[] = {EIO, ENOSPC, EROFS, EDQUOT, EMFILE};
    unsigned n = atomic_load(&one_in);

    if (n == 0 || draw(n) != 0)
        return false;
    errno = causes[draw(sizeof causes / sizeof *causes)];
    atomic_fetch_add(&failed, 1);
    return true;
}

/* ---- in place of the library's ---- */

#define FAILING(type, name, parameters, ...)                                                   \
    type name parameters;                                                                      \
    type name parameters                                                                       \
    {                                                                                          \
        return fails() ? -1 : (type)syscall(__VA_ARGS__);                                      \
    }

FAILING(ssize_t, write, (int fd, const void *p, size_t n), SYS_write, fd, p, n)
FAILING(ssize_t, read, (int fd, void *p, size_t n), SYS_read, fd, p, n)
FAILING(ssize_t, writev, (int fd, const struct iovec *v, int n), SYS_writev, fd, v, n)
FAILING(int, fchmod, (int fd, mode_t mode), SYS_fchmod, fd, mode)
FAILING(int, flock, (int fd, int how), SYS_flock, fd, how)
FAILING(int, rename, (const char *a, const char *b), SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 0)
FAILING(int, link, (const char *a, const char *b), SYS_linkat, AT_FDCWD, a, AT_FDCWD, b, 0)
FAILING(int, mkdir, (const char *a, mode_t mode), SYS_mkdirat, AT_FDCWD, a, mode)
FAILING(int, rmdir, (const char *a), SYS_unlinkat, AT_FDCWD, a, AT_REMOVEDIR)
FAILING(int, unlink, (const char *a), SYS_unlinkat, AT_FDCWD, a, 0)

/* These two take the offset in halves on every machine. */
#define LOW(at)  ((unsigned long)(at))
#define HIGH(at) ((unsigned long)((uint64_t)(at) >> 32))

FAILING(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), SYS_pwritev, fd, v,
        n, LOW(at), HIGH(at))

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    const struct iovec v = {(void *)(uintptr_t)p, n};

    return pwritev(fd, &v, 1, at);
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
    const struct iovec v = {p, n};

    return fails() ? -1 : syscall(SYS_preadv, fd, &v, 1, LOW(at), HIGH(at));
}

/* After it, what was written is there or not. */
int fsync(int fd)
{
    (void)fd;
    return fails() ? -1 : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;

    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(args, unsigned) : 0;
    va_end(args);
    return fails() ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* ---- */

static int set_up_site(void **state)
{
    struct site *s = calloc(1, sizeof *s);
    const char *seed = getenv("LEASE_SEED");

    assert_non_null(s);
    atomic_store(&random_number,
                 seed ? strtoull(seed, NULL, 10) : (unsigned long long)time(NULL));
    print_message("LEASE_SEED=%llu\n", (unsigned long long)atomic_load(&random_number));
    set_up_leased(&s->f, s->store, s->run);
    add_limit(&s->f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "30m", 1000000);
    assert_int_equal(ledger_create(&s->f.options, "UTC0"), ERROR_NONE);
    *state = s;
    return 0;
}

static unsigned descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static void lose_power(struct site *s)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'/*", s->run);
    assert_int_equal(system(command), 0);
    fake_now.boot_id[0]++;
    fake_now.boot_ms = 1000;
}

/* As the service does: a ledger that is of no further use is closed. */
static unsigned live_a_while(struct site *s)
{
    unsigned admitted = 0;

    for (unsigned n = draw(ASKED); n > 0; n--) {
        struct answer a;
        struct reservation r;

        if (s->f.ledger && ledger_verify(s->f.ledger) != ERROR_NONE)
            close_ledger(&s->f);
        if (!s->f.ledger && ledger_open(&s->f.options, false, &s->f.ledger) != ERROR_NONE)
            continue;
        if (ledger_reserve(s->f.ledger, &s->f.policy, &s->f.demand, &a, &r) == ERROR_NONE)
            admitted += a.decision == DECISION_ADMITTED;
        if (draw(6) == 0)
            (void)ledger_copy(s->f.ledger, &s->f.policy);
        fake_now.boot_ms += draw(100); /* store time goes on by half of it */
    }
    if (s->f.ledger && draw(3) == 0)
        ledger_copy_last(s->f.ledger, 5000);
    close_ledger(&s->f);
    return admitted;
}

static void nothing_is_forgotten_or_left_whatever_fails(void **state)
{
    struct site *s = *state;
    unsigned before = descriptors(), admitted = 0, lost = 0;
    uint64_t known = 0, wasted;

    for (unsigned i = 0; i < ROUNDS; i++) {
        atomic_store(&one_in, 3 + draw(300));
        unsigned more = live_a_while(s);
        atomic_store(&one_in, 0);
        assert_int_equal(descriptors(), before);
        if (draw(3) == 0) {
            lose_power(s);
            lost++;
        }
        if (ledger_open(&s->f.options, false, &s->f.ledger) != ERROR_NONE)
            fail_msg("round %u, after %u power losses: error %d", i, lost,
                     (int)ledger_open(&s->f.options, false, &s->f.ledger));
        /* what was wasted before must not make up for it */
        if (used(&s->f, 0) < known + more)
            fail_msg("round %u, after %u power losses: %llu, and it was %llu and %u more", i,
                     lost, (unsigned long long)used(&s->f, 0), (unsigned long long)known, more);
        known = used(&s->f, 0);
        admitted += more;
        close_ledger(&s->f);
    }
    wasted = known - admitted;
    print_message("%u admitted, %llu wasted, %u calls failed, %u power losses\n", admitted,
                  (unsigned long long)wasted, atomic_load(&failed), lost);
    assert_true(wasted <= 2 * lost + atomic_load(&failed));
    assert_true(admitted > ROUNDS / 4);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up_site, tear_down)
    const struct CMUnitTest tests[] = {
        T(nothing_is_forgotten_or_left_whatever_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
