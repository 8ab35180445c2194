/* Any header: who is found is the peer or somebody read from it; and whatever stands left of
 * what a trusted proxy has appended changes nothing. Any prefix that is understood has itself,
 * and not its neighbour. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/forwarded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static const struct address peer = {4, {10, 0, 0, 1}}, appended = {4, {192, 0, 2, 1}};
static const struct prefix trusted[] = {{4, 8, {10}}, {6, 16, {0xfd}}};

static struct address find(const char *value, enum forwarded_form form)
{
    struct address out;

    memset(&out, 0x5a, sizeof out);
    forwarded_find(&peer, value, form, trusted, sizeof trusted / sizeof trusted[0], &out);
    return out;
}

static bool same(struct address a, struct address b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void check_header(const char *value, enum forwarded_form form)
{
    static const char *const right[] = {
        [FORWARDED_LIST] = ", 192.0.2.1 , 10.0.0.2",
        [FORWARDED_RFC7239] = ", for=192.0.2.1;host=\"a,\\\"\", proto=http;for=\"10.0.0.2\"",
    };
    struct address out = find(value, form);
    size_t n = strlen(value);
    char *longer = malloc(n + 80);

    require(longer && (out.family == 4 || out.family == 6));
    snprintf(longer, n + 80, "%s%s", value, right[form]);
    require(same(find(longer, form), appended));

    /* What is settled stays so with something before it; the peer it is only where the element
     * that settled it is no longer looked at from its beginning. */
    snprintf(longer, n + 80, "for=8.8.8.8;x=\",%s", value);
    if (!prefix_has(&trusted[0], &out) && !prefix_has(&trusted[1], &out)) {
        struct address again = find(longer, form);
        require(same(again, out) || (n >= FORWARDED_LOOK && same(again, peer)));
    }
    free(longer);
}

static void check_prefix(const char *text)
{
    struct prefix p, before;

    memset(&p, 0x5a, sizeof p);
    before = p;
    if (!prefix_parse(text, &p)) {
        require(memcmp(&p, &before, sizeof p) == 0);
        return;
    }
    require((p.family == 4 && p.bits <= 32) || (p.family == 6 && p.bits <= 128));
    struct address a = {.family = p.family};
    memcpy(a.bytes, p.bytes, sizeof a.bytes);
    require(prefix_has(&p, &a));
    if (p.bits > 0) {
        a.bytes[(p.bits - 1) / 8] ^= (uint8_t)(0x80 >> (p.bits - 1) % 8);
        require(!prefix_has(&p, &a));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    check_header(text, FORWARDED_LIST);
    check_header(text, FORWARDED_RFC7239);
    check_prefix(text);
    free(text);
    return 0;
}
