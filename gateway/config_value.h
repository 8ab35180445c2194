/* The values of options (pure): from text to the target in a struct, and back to text. */
#ifndef GATEWAY_CONFIG_VALUE_H
#define GATEWAY_CONFIG_VALUE_H

#include "gateway/config_options.h"
#include "store/rule.h"

/*
 * Parses text into the option's target in `base` (struct config; for model and limit their own
 * struct). Strings are malloc'd, an older one is freed. On false the target is untouched and
 * `why` says what is wrong.
 */
#define CONFIG_WHY_MAX 192
bool config_value_set(const struct option *o, const char *text, void *base,
                      char why[CONFIG_WHY_MAX]);

/* "'text' is not LOOKS" into why; returns false. The value within a message is short, and nothing
 * in it that a terminal would obey. */
bool config_value_not(const char *text, const char *looks, char why[CONFIG_WHY_MAX]);
#define CONFIG_QUOTED_MAX 48 /* enough to recognise it by; more would fill the line */
const char *config_value_quoted(const char *text, char out[CONFIG_QUOTED_MAX]);

/* The value as it would be written, a list as far as there is room; "" if there is none. Of a
 * secret that it is set, of a secret URL the host. Returns out. */
#define CONFIG_VALUE_MAX 512
char *config_value_text(const struct option *o, const void *base, char out[CONFIG_VALUE_MAX]);

/* A duration as check and stats write it: "90s", "2h". Returns out. */
char *config_value_duration(uint64_t ms, char out[CONFIG_VALUE_MAX]);

/* One that was measured, no finer than is of use: seconds, from two hours on minutes, from two
 * days on hours. Returns out. */
char *config_value_span(uint64_t ms, char out[CONFIG_VALUE_MAX]);

/* What a limit of this unit counts: "40", "$2.00", "unlimited". Returns out. */
char *config_value_amount(enum unit unit, uint64_t v, char out[CONFIG_VALUE_MAX]);

/* Whether two structs of the option's section have the same value of it. */
bool config_value_same(const struct option *o, const void *a, const void *b);

/* Frees the strings that the section's options have in its struct. */
void config_value_free(enum config_section s, void *base);

#endif
