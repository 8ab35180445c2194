/*
 * The board: one mapped page of counters that all processes of a site add to. It is written to
 * disk in full before it has its name, so that adding can neither find a half-made board nor
 * die of a full disk. Its content is believed by nobody who admits; a wrong one can at most
 * make figures wrong. Whoever shortens it in place ends the processes that have it mapped,
 * which is why it lies in a directory of mode 0700.
 *
 * The page is in the machine's own byte order: it never leaves the machine.
 */
#include "platform/board.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/file.h"
#include "platform/random.h"

#define BOARD_SIZE    4096 /* the smallest page there is; a larger one is filled by the kernel */
#define BOARD_VERSION 1    /* also tells a file of the other byte order */
#define BOARD_MODE    0600
#define OPEN_ATTEMPTS 8 /* a board can be removed between its making and its opening */

static const char magic[8] = "pg-board";

struct page {
    char magic[8];
    uint32_t version;
    uint32_t size;
    uint8_t id[16];
    _Atomic uint32_t counters[BOARD_COUNTERS];
};

_Static_assert(offsetof(struct page, counters) == 32, "the page has no gaps");
_Static_assert(sizeof(struct page) <= BOARD_SIZE, "the counters fit the page");
_Static_assert(sizeof(_Atomic uint32_t) == 4 && ATOMIC_INT_LOCK_FREE == 2,
               "a lock of one process would not guard a counter from another");

struct board {
    int fd;
    bool is_new;
    struct page *page;
};

/* *made: by us. */
static enum error create(const char *path, bool *made)
{
    union {
        struct page page;
        uint8_t bytes[BOARD_SIZE];
    } new = {.bytes = {0}};
    enum error e = random_bytes(new.page.id, sizeof new.page.id);

    if (e != ERROR_NONE)
        return e;
    memcpy(new.page.magic, magic, sizeof magic);
    new.page.version = BOARD_VERSION;
    new.page.size = BOARD_SIZE;
    e = file_create(path, BOARD_MODE, new.bytes, sizeof new.bytes);
    *made = e == ERROR_NONE;
    return e == ERROR_EXISTS ? ERROR_NONE
                             : e; /* another process was faster: its board is ours */
}

static enum error open_or_create(const char *path, int *fd, bool *made)
{
    enum error e = ERROR_NOT_FOUND;

    for (unsigned i = 0; i < OPEN_ATTEMPTS && e == ERROR_NOT_FOUND; i++) {
        e = file_open(path, false, fd);
        if (e != ERROR_NOT_FOUND)
            break;
        e = create(path, made);
        if (e == ERROR_NOT_FOUND)
            break; /* the directory itself */
        if (e == ERROR_NONE)
            e = ERROR_NOT_FOUND;
    }
    return e == ERROR_NOT_FOUND ? ERROR_RUN_MISSING : e;
}

/* The size first: reading a mapped page that the file does not have is a SIGBUS. */
static enum error map(int fd, struct page **out)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return ERROR_SYSTEM;
    if (st.st_size != BOARD_SIZE)
        return ERROR_STORE_INVALID;
    struct page *page = mmap(NULL, BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return errno == ENOMEM ? ERROR_MEMORY : ERROR_UNSUPPORTED;
    if (memcmp(page->magic, magic, sizeof magic) != 0 || page->version != BOARD_VERSION ||
        page->size != BOARD_SIZE) {
        munmap(page, BOARD_SIZE);
        return ERROR_STORE_INVALID;
    }
    *out = page;
    return ERROR_NONE;
}

enum error board_open(const char *path, struct board **out)
{
    struct board *b = malloc(sizeof *b);

    if (b == NULL)
        return ERROR_MEMORY;
    b->is_new = false;
    enum error e = open_or_create(path, &b->fd, &b->is_new);
    if (e == ERROR_NONE) {
        e = map(b->fd, &b->page);
        if (e == ERROR_NONE) {
            *out = b;
            return ERROR_NONE;
        }
        close(b->fd);
    }
    free(b);
    return e;
}

void board_close(struct board *b)
{
    if (b == NULL)
        return;
    munmap(b->page, BOARD_SIZE);
    close(b->fd);
    free(b);
}

void board_add(struct board *b, unsigned counter, uint32_t n)
{
    if (counter < BOARD_COUNTERS)
        atomic_fetch_add_explicit(&b->page->counters[counter], n, memory_order_relaxed);
}

bool board_exchange(struct board *b, unsigned counter, uint32_t *from, uint32_t to)
{
    if (counter >= BOARD_COUNTERS) {
        *from = 0;
        return false;
    }
    return atomic_compare_exchange_strong_explicit(&b->page->counters[counter], from, to,
                                                   memory_order_relaxed, memory_order_relaxed);
}

uint32_t board_get(const struct board *b, unsigned counter)
{
    if (counter >= BOARD_COUNTERS)
        return 0;
    return atomic_load_explicit(&b->page->counters[counter], memory_order_relaxed);
}

void board_id(const struct board *b, uint8_t out[16])
{
    memcpy(out, b->page->id, sizeof b->page->id);
}

int board_fd(const struct board *b)
{
    return b->fd;
}

bool board_is_new(const struct board *b)
{
    return b->is_new;
}
