/* The file's syntax. The one header of gateway/config_parse.c, which alone includes
 * confuse.h. */
#ifndef GATEWAY_CONFIG_PARSE_H
#define GATEWAY_CONFIG_PARSE_H

#include "gateway/config_source.h"

/*
 * Takes the sections and values of text[0..n), which is changed (the source's values are put
 * there: keep it for as long as the source) and has room for a NUL at text[n]. Thread-safe. On
 * false the source's message says line and fault.
 */
bool config_parse(struct config_source *s, char *text, size_t n);

#endif
