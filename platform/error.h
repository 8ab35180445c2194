/*
 * One error enumeration for the whole program, with a text for each.
 *
 * Conventions, stated once for every header:
 *
 * - A function that can fail returns `enum error`; ERROR_NONE (0) is success. Out-parameters
 *   come last and are untouched on failure.
 * - A refusal by a limit is a verdict, not an error.
 * - Pointers are never NULL unless a header says so. A `const char *` parameter is borrowed
 *   for the call; what a struct keeps it copies, unless its header says "borrowed".
 * - Every X_open or X_new has an X_close or X_free that takes NULL.
 * - Time is in milliseconds and `int64_t`, money in nano-dollars and `uint64_t`; a unit is
 *   part of the name (`_ms`, `_nano`). There is no floating point in the program.
 * - Integers in files and rows are big-endian.
 */
#ifndef PLATFORM_ERROR_H
#define PLATFORM_ERROR_H

enum error {
    ERROR_NONE = 0,
    ERROR_MEMORY,         /* malloc failed */
    ERROR_SYSTEM,         /* a system call failed; errno tells */
    ERROR_NOT_FOUND,      /* a file, directory or row that must exist does not */
    ERROR_NOT_REGULAR,    /* exists, but is no regular file */
    ERROR_LOOSE_MODE,     /* a secret that others than its owner could read or write */
    ERROR_TOO_LARGE,      /* longer than its named bound */
    ERROR_SYNTAX,         /* does not parse */
    ERROR_EXISTS,         /* would have to be created, but is there */
    ERROR_CLOCK,          /* clock, boot time or boot id unreadable, or before the build date */
    ERROR_STORE_MISSING,  /* the store or one of its files is not there */
    ERROR_STORE_INVALID,  /* not an LMDB file of ours: garbage, emptied, truncated */
    ERROR_STORE_VERSION,  /* written by a newer program */
    ERROR_STORE_SECRET,   /* belongs to another secret */
    ERROR_STORE_REPLACED, /* the open files are no longer those at the path */
    ERROR_STORE_ROLLED_BACK, /* older than the last transaction noted in the run directory */
    ERROR_STORE_DURABILITY,  /* of the other durability than the configuration's */
    ERROR_STORE_FULL,        /* the map is full */
    ERROR_STORE_IO,          /* reading or writing failed: disk full, read-only, I/O error */
    ERROR_STORE_BROKEN,      /* the walk of all rows failed or died */
    ERROR_PERIODS,           /* the period key file is missing or does not match the store */
    ERROR_RUN_MISSING,       /* the run directory, or a file in it, is not there */
    ERROR_OWNER,             /* store or run directory of another user, or open to others */
    ERROR_TOO_MANY_WINDOWS,  /* more distinct windows than PERIOD_WINDOWS */
    ERROR_PRICE,             /* a limit counts cost, and the model has no price */
    ERROR_BUSY,              /* the writer did not answer in time */
    ERROR_STOPPING,          /* the process is leaving */
    ERROR_UNSUPPORTED,       /* the file system cannot lock or map */
    ERRORS
};

/* A short English text without a full stop, static storage; never NULL. */
const char *error_text(enum error e);

#endif
