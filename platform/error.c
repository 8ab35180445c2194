/*
 * The text of every error. The texts are shown to the owner (command line, log), never to a
 * caller, and hold nothing but themselves.
 */
#include "platform/error.h"

static const char *const texts[] = {
    [ERROR_NONE] = "no error",
    [ERROR_MEMORY] = "out of memory",
    [ERROR_SYSTEM] = "a system call failed",
    [ERROR_NOT_FOUND] = "not found",
    [ERROR_NOT_REGULAR] = "not a regular file",
    [ERROR_LOOSE_MODE] = "a secret that others could read or write",
    [ERROR_TOO_LARGE] = "too large",
    [ERROR_SYNTAX] = "syntax error",
    [ERROR_EXISTS] = "exists already",
    [ERROR_CLOCK] = "the clock cannot be read or is before the build date",
    [ERROR_STORE_MISSING] = "the store is missing",
    [ERROR_STORE_INVALID] = "the store is damaged or is none",
    [ERROR_STORE_VERSION] = "the store was written by a newer version",
    [ERROR_STORE_SECRET] = "the store belongs to another secret",
    [ERROR_STORE_REPLACED] = "the store was replaced while open",
    [ERROR_STORE_ROLLED_BACK] = "the store is older than what was last committed",
    [ERROR_STORE_DURABILITY] = "the store was made with another durability",
    [ERROR_STORE_FULL] = "the store is full",
    [ERROR_STORE_IO] = "the store cannot be read or written",
    [ERROR_STORE_BROKEN] = "the store did not pass the walk of its tables",
    [ERROR_PERIODS] = "the period key file is missing or does not match the store",
    [ERROR_RUN_MISSING] = "the run directory or a file in it is missing",
    [ERROR_OWNER] =
        "the store or its run directory belongs to another user or is open to others",
    [ERROR_TOO_MANY_WINDOWS] = "too many distinct windows",
    [ERROR_PRICE] = "a limit counts cost, but the model has no price",
    [ERROR_BUSY] = "busy",
    [ERROR_STOPPING] = "stopping",
    [ERROR_UNSUPPORTED] = "the file system cannot lock or map",
};

_Static_assert(sizeof texts / sizeof texts[0] == ERRORS, "a text for each error");

const char *error_text(enum error e)
{
    if ((unsigned)e >= ERRORS || texts[e] == 0)
        return "unknown error";
    return texts[e];
}
