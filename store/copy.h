/*
 * A full copy of the store on flash, for durability `lease`: all rows in order, as a plain file.
 * No LMDB file: file systems like jffs2 cannot map one, it would have free pages in it, and it
 * has no checksum. This one ends with a MAC under the site's secret and is believed as a whole
 * or not at all.
 *
 * File: magic, version, uuid, check of the secret, {key length u8, value length u16, key,
 * value}*, 0, count u64, MAC. The MAC is HMAC's over blocks of COPY_BLOCK bytes, each with the
 * one before it, under the secret ("copy").
 */
#ifndef STORE_COPY_H
#define STORE_COPY_H

#include <stdint.h>

#include "platform/mac.h"
#include "store/record.h"

#define COPY_BLOCK 4096 /* of memory that reading and writing take */

/* Puts all rows that the transaction sees at `path`: new file beside it (0600), fsync, rename,
 * fsync of the directory. What was there stays until then. ERROR_STORE_IO: no room on flash, or
 * reading or writing failed; ERROR_STORE_INVALID: a row that none of ours could be. */
enum error copy_write(const char *path, const uint8_t secret[MAC_SIZE], const uint8_t uuid[16],
                      struct kv_txn *t);

/*
 * Verifies the whole file, then calls `row` for each row in order, which may change both; its
 * error ends it. Of an older program's copy the rows are of its version.
 * ERROR_STORE_MISSING; ERROR_STORE_SECRET; ERROR_STORE_INVALID: cut or damaged;
 * ERROR_STORE_VERSION; ERROR_STORE_IO.
 */
typedef enum error copy_row(void *arg, struct row_key *key, struct record *value);
enum error copy_read(const char *path, const uint8_t secret[MAC_SIZE], uint8_t uuid[16],
                     copy_row *row, void *arg);

#endif
