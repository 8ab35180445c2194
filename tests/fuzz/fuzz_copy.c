/* Any bytes as the rows of a copy, under the right MAC, as only somebody with the secret could make
 * them: each row that is told keeps its bounds, and nothing is read behind the end. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/copy.h"

#define HEAD     57 /* magic, version, uuid, check of the secret */
#define BODY_MAX (2 * COPY_BLOCK)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static enum error see_row(void *arg, struct row_key *key, struct record *value)
{
    unsigned *rows = arg;

    require(key->n > 0 && key->n <= KV_KEY_MAX && value->n <= RECORD_MAX);
    (void)record_row_ok(key->bytes, key->n, value->bytes, value->n);
    ++*rows;
    return ERROR_NONE;
}

static const uint8_t secret[MAC_SIZE] = {7}, uuid[16] = {9};

static char path[64];

static void remove_file(void)
{
    (void)unlink(path);
}

static const char *path_of_file(void)
{
    if (path[0] == '\0') {
        snprintf(path, sizeof path, "/tmp/fuzz-copy-XXXXXX");
        int fd = mkstemp(path);
        require(fd >= 0);
        close(fd);
        (void)atexit(remove_file);
    }
    return path;
}

static size_t put_mac(uint8_t *file, size_t n)
{
    uint8_t link[MAC_SIZE + COPY_BLOCK] = {0};

    for (size_t at = 0; at < n; at += COPY_BLOCK) {
        size_t part = n - at < COPY_BLOCK ? n - at : COPY_BLOCK;

        memcpy(link + MAC_SIZE, file + at, part);
        mac_compute(secret, "copy", link, MAC_SIZE + part, link);
    }
    memcpy(file + n, link, MAC_SIZE);
    return n + MAC_SIZE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[HEAD + BODY_MAX + MAC_SIZE];
    unsigned rows = 0;
    uint8_t found[16];
    size_t n;
    int fd;

    if (size > BODY_MAX)
        return 0;
    memcpy(file, "PGSTCOPY\1", 9);
    memcpy(file + 9, uuid, sizeof uuid);
    mac_compute(secret, "copy-secret", uuid, sizeof uuid, file + 25);
    memcpy(file + HEAD, data, size);
    n = put_mac(file, HEAD + size);
    fd = open(path_of_file(), O_WRONLY | O_TRUNC);
    require(fd >= 0 && write(fd, file, n) == (ssize_t)n);
    close(fd);
    enum error e = copy_read(path_of_file(), secret, found, see_row, &rows);
    require(e == ERROR_NONE || e == ERROR_STORE_INVALID);
    require(e != ERROR_NONE || memcmp(found, uuid, sizeof uuid) == 0);
    return 0;
}
