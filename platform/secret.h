/*
 * The site's secret: 32 random bytes in a file, from which every key of the site is derived
 * by mac_compute with a label of its own. The file holds 64 hexadecimal digits and a newline.
 */
#ifndef PLATFORM_SECRET_H
#define PLATFORM_SECRET_H

#include <stdint.h>

#include "platform/error.h"

#define SECRET_SIZE 32

/* Reads it; ERROR_SYNTAX unless exactly 64 hex digits (a last newline apart); see
 * file_read_secret. */
enum error secret_read(const char *path, uint8_t out[SECRET_SIZE]);

/* Makes one at `path`, mode 0600; ERROR_EXISTS if there is a file. */
enum error secret_create(const char *path);

#endif
