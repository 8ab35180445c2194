/*
 * What the dashboard is written with. Security: every text that is not the program's own goes
 * through dashboard_text, whatever letters it is thought to have.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gateway/config_value.h"
#include "gateway/dashboard_parts.h"

static const char *escape_of(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void dashboard_text(struct sink *s, const char *text)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "&<>\"'");

        sink_bytes(s, text, plain);
        text += plain;
        if (*text != '\0')
            sink_text(s, escape_of(*text++));
    }
}

/* A number's text with a comma before each three digits of its whole part. */
static void grouped(struct sink *s, const char *number)
{
    size_t sign = strcspn(number, "0123456789");
    size_t digits = strspn(number + sign, "0123456789");
    char out[2 * PRICE_TEXT_MAX];
    size_t n = 0;

    for (size_t i = 0; number[i] != '\0' && n + 2 < sizeof out; i++) {
        if (i > sign && i < sign + digits && (sign + digits - i) % 3 == 0)
            out[n++] = ',';
        out[n++] = number[i];
    }
    out[n] = '\0';
    sink_text(s, out);
}

void dashboard_amount(struct sink *s, enum unit unit, uint64_t v)
{
    char text[CONFIG_VALUE_MAX];

    if (unit == UNIT_COST && v == COST_UNKNOWN)
        sink_text(s, "-");
    else
        grouped(s, config_value_amount(unit, v, text));
}

void dashboard_say(struct sink *s, const char *before, enum unit unit, uint64_t v,
                   const char *behind)
{
    sink_text(s, before);
    dashboard_amount(s, unit, v);
    sink_text(s, behind);
}

void dashboard_span(struct sink *s, int64_t ms)
{
    static const struct {
        int32_t seconds;
        char name[4];
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    const unsigned n = sizeof units / sizeof units[0];
    int64_t left = ms / 1000;
    unsigned i = 0;

    while (i < n && left < units[i].seconds)
        i++;
    if (i == n) {
        sink_text(s, "under a second");
        return;
    }
    sink_format(s, "%" PRId64 "&nbsp;%s", left / units[i].seconds, units[i].name);
    left %= units[i].seconds;
    if (i + 1 < n && left >= units[i + 1].seconds)
        sink_format(s, " %" PRId64 "&nbsp;%s", left / units[i + 1].seconds, units[i + 1].name);
}

void dashboard_time(struct sink *s, const struct report *r, int64_t time_s)
{
    struct zone z = {0};
    char date[REPORT_DATE_MAX];
    int64_t second;

    if (r->config->local_time && !zone_parse(r->state.zone, &z))
        z = (struct zone){0};
    time_s += zone_offset_s(&z, time_s * 1000);
    second = time_s - zone_floor(time_s, 86400) * 86400;
    sink_format(s, "%s %02d:%02d", report_date(zone_floor(time_s, 86400), date),
                (int)(second / 3600), (int)(second / 60 % 60));
}

void dashboard_window(struct sink *s, const struct limit *l)
{
    char text[CONFIG_VALUE_MAX];

    dashboard_text(s, report_window(l, text));
}

void dashboard_frees(struct sink *s, const struct report_limit *l)
{
    sink_text(s, l->limit->window.kind == WINDOW_SLIDING ? "frees in " : "begins anew in ");
    dashboard_span(s, l->use.frees_ms);
}

uint64_t dashboard_share(uint64_t v, uint64_t of, uint64_t whole)
{
    if (v == 0)
        return 0;
    if (v >= of)
        return whole;
    for (; of > UINT32_MAX; of >>= 1)
        v >>= 1;
    v = v * whole / of;
    return v > 0 ? v : 1;
}

void dashboard_section(struct sink *s, const char *id, const char *heading)
{
    sink_format(s, "<section aria-labelledby=\"%s\">\n<h2 id=\"%s\">%s</h2>\n", id, id,
                heading);
}

void dashboard_section_end(struct sink *s)
{
    sink_text(s, "</section>\n");
}

void dashboard_table(struct sink *s, bool figures, const char *caption, const char *heads)
{
    sink_format(s, "<table%s><caption>%s</caption><thead><tr>",
                figures ? " class=\"figures\"" : "", caption);
    for (size_t n; *heads != '\0'; heads += n + (heads[n] != '\0')) {
        n = strcspn(heads, "|");
        sink_format(s, "<th scope=\"col\">%.*s", (int)n, heads);
    }
    sink_text(s, "<tbody>");
}

void dashboard_table_end(struct sink *s)
{
    sink_text(s, "\n</table>\n");
}

void dashboard_row(struct sink *s, const char *head)
{
    sink_text(s, "\n<tr><th scope=\"row\">");
    dashboard_text(s, head);
}

void dashboard_cell(struct sink *s, enum unit unit, uint64_t v)
{
    dashboard_say(s, "<td>", unit, v, "");
}
