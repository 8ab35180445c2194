/* Any file: it is taken or refused with a reason, what is taken can be written down and read
 * again as the same, and nothing of it changes how the next file is read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/config_list.h"
#include "gateway/config_parse.h"
#include "gateway/config_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

union target {
    struct config config;
    struct config_model model;
    struct limit limit;
};

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* What an option's target holds on the heap. */
static void drop(const struct option *o, union target *t)
{
    bool on_heap = o->kind <= OPTION_CHOICE;
    char *text;

    memcpy(&text, (char *)t + (on_heap ? o->offset : 0), sizeof text);
    if (on_heap)
        free(text);
}

/* A list's text without its braces, as it stands in the environment. */
static const char *bare(const struct option *o, const char *text, char out[CONFIG_VALUE_MAX])
{
    size_t n = strlen(text);

    if (!config_option_lists(o) || n == 0)
        return text;
    require(n > 2 && text[0] == '{' && text[n - 1] == '}');
    memcpy(out, text + 1, n - 2);
    out[n - 2] = '\0';
    return out;
}

static void check_value(const struct option *o, const char *written)
{
    static union target a, b;
    char why[CONFIG_WHY_MAX] = "", first[CONFIG_VALUE_MAX], second[CONFIG_VALUE_MAX];
    char inner[CONFIG_VALUE_MAX];

    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    if (!config_value_set(o, written, &a, why)) {
        require(why[0] != '\0');
        return;
    }
    config_value_text(o, &a, first);
    require(first[0] != '\0' || (config_option_lists(o) && config_list_entries(o, &a) == 0));
    if (strlen(first) < CONFIG_VALUE_MAX - 1) {
        require(config_value_set(o, bare(o, first, inner), &b, why));
        require(strcmp(first, config_value_text(o, &b, second)) == 0);
        drop(o, &b);
    }
    drop(o, &a);
}

static void check_values(const struct config_source *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        const struct config_block *b = s->block[i];

        for (unsigned k = 0; k < b->n; k++) {
            require(b->option[k].section == b->section);
            if (b->value[k].text != NULL)
                check_value(&b->option[k], b->value[k].text);
        }
    }
}

static bool parse(const void *bytes, size_t n, void (*check)(const struct config_source *s))
{
    char message[CONFIG_ERROR_MAX], *text = malloc(n + 1);
    struct config_source *s = config_source_new("f", message);
    bool ok;

    require(s != NULL && text != NULL);
    memcpy(text, bytes, n);
    text[n] = '\0';
    ok = config_parse(s, text, n);
    require(ok == (message[0] == '\0'));
    for (const char *p = message; *p != '\0'; p++)
        require((unsigned char)*p >= 0x20);
    if (ok && check != NULL)
        check(s);
    config_source_free(s);
    free(text);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char good[] = "site { store = '/a' }\nalerts { at = { 5, 6 } }\n"
                               "limit x { max = 3 }\n";

    parse(data, size, check_values);
    require(parse(good, sizeof good - 1, NULL));
    return 0;
}
