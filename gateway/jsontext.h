/*
 * JSON from outside, for jansson: bounded before it is parsed, since jansson recurses and makes
 * up to 250 bytes of every three. Strict: duplicate names, NUL, bad UTF-8, lone surrogates,
 * numbers out of range and trailing bytes are errors. The top is an object or an array.
 */
#ifndef GATEWAY_JSONTEXT_H
#define GATEWAY_JSONTEXT_H

#include <jansson.h>
#include <stddef.h>

#define JSONTEXT_CONTAINERS_MAX 4096  /* 1024 messages of an object, a list and a part: 3074 */
#define JSONTEXT_VALUES_MAX     32768 /* at 64 bytes each 2 MB, and nothing honest has 8,000 */

/* The value of text[0..n), to be given back with json_decref; NULL if it is not to be had. */
json_t *jsontext_load(const char *text, size_t n, unsigned depth_max);

#endif
