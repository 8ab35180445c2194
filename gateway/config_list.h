/* Options that are lists (pure): from "a, b" to the array in struct config, and back. */
#ifndef GATEWAY_CONFIG_LIST_H
#define GATEWAY_CONFIG_LIST_H

#include "gateway/config_value.h"

/* As config_value_set. An empty text is a list without entries. */
bool config_list_set(const struct option *o, const char *text, void *base,
                     char why[CONFIG_WHY_MAX]);

/* How many entries it has, and one of them as it would be written. Returns out. */
unsigned config_list_entries(const struct option *o, const void *base);
char *config_list_entry(const struct option *o, const void *base, unsigned i,
                        char out[CONFIG_VALUE_MAX]);

/* "{a, b}" as far as there is room, "" if there are no entries. */
void config_list_text(const struct option *o, const void *base, char out[CONFIG_VALUE_MAX]);

#endif
