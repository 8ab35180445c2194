/* Any text as the rule of a zone, and any bytes as a zone file: what is understood keeps its
 * bounds, and by it days and months follow each other. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/zone.h"

#define HOUR_S 3600
#define DAY_MS (86400 * 1000LL)
#define MOMENT 8 /* bytes of the input that choose an instant */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_rule(const struct zone *z, int64_t t_ms)
{
    int32_t offset = zone_offset_s(z, t_ms);
    int64_t day = zone_next_day_ms(z, t_ms), month = zone_next_month_ms(z, t_ms);

    require(offset >= -12 * HOUR_S && offset <= 15 * HOUR_S);
    require(day > t_ms && zone_day(z, day) > zone_day(z, t_ms));
    require(zone_day(z, day - 1) <= zone_day(z, t_ms));
    require(month >= day && zone_month(z, month) > zone_month(z, t_ms));
    require(zone_month(z, month - 1) <= zone_month(z, t_ms));
}

static void check_text(const char *text, int64_t t_ms)
{
    struct zone z;

    if (zone_parse(text, &z)) {
        check_rule(&z, t_ms);
        check_rule(&z, t_ms + DAY_MS * 180);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[ZONE_TEXT_MAX], rule[ZONE_TEXT_MAX] = "x";
    int64_t t_ms;

    if (size < MOMENT)
        return 0;
    memcpy(&t_ms, data, sizeof t_ms);
    t_ms /= 1 << 9; /* within 2^55 */
    data += MOMENT;
    size -= MOMENT;
    if (zone_from_tzfile(data, size, rule)) {
        struct zone z;

        require(memchr(rule, '\0', sizeof rule) != NULL && zone_parse(rule, &z));
        check_rule(&z, t_ms);
    } else {
        require(strcmp(rule, "x") == 0);
    }
    if (size < sizeof text) {
        memcpy(text, data, size);
        text[size] = '\0';
        check_text(text, t_ms);
    }
    return 0;
}
