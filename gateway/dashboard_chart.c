/*
 * The days as bars, with the figures behind them in a table. Drawn in whole numbers: a day is
 * 10 units wide and the plot 100 high, which the style stretches to the space there is; numbers
 * and dates stand around it as text, so that they are not stretched.
 */
#include <string.h>

#include "gateway/dashboard_parts.h"

#define HEIGHT     100
#define DAY_WIDTH  10
#define BAR_MIN    2 /* a day with any use at all can be seen */
#define COLUMN_MAX 3

/*
 * A day of a flood would leave nothing to be seen of the others. Where at most CUT_DAYS bars are
 * more than CUT_TIMES as high as all of the rest, those are cut.
 */
#define CUT_DAYS  3
#define CUT_TIMES 8
#define CUT_REST  7 /* days with use that are left: of fewer nobody knows what is usual */

static const struct chart {
    char id[8], title[8];
    char heads[28];   /* of the table */
    unsigned series;  /* columns drawn, one on the other */
    unsigned columns; /* of the table, after the day */
    struct day_sum column[COLUMN_MAX];
} charts[] = {
    {"calls",
     "Calls",
     "day|admitted|refused|errors",
     2,
     3,
     {{"admitted", DAY_OFFSET(admitted), 1, UNIT_CALLS},
      {"refused", DAY_FIGURE(FIGURE_REFUSED), REFUSALS, UNIT_CALLS},
      {"errors", DAY_FIGURE(FIGURE_UPSTREAM), 1, UNIT_CALLS}}},
    {"tokens",
     "Tokens",
     "day|in|out",
     2,
     2,
     {{"in", DAY_OFFSET(tokens_in), 1, UNIT_TOKENS},
      {"out", DAY_OFFSET(tokens_out), 1, UNIT_TOKENS}}},
    {"money", "Money", "day|cost", 1, 1, {{"cost", DAY_OFFSET(cost_nano), 1, UNIT_COST}}},
};

/* ---- days ---- */

uint64_t dashboard_sum(const struct history_day *d, const struct day_sum *sum)
{
    uint64_t total = 0, v;

    for (unsigned i = 0; i < sum->n; i++) {
        memcpy(&v, (const char *)d + sum->offset + i * sizeof v, sizeof v);
        total = amount_add(total, v);
    }
    return total;
}

struct day_range dashboard_days(const struct report *r)
{
    struct day_range days = {r->first_day, r->state.today};

    if (days.first <= days.last - REPORT_DAYS || days.first > days.last)
        days.first = days.last - REPORT_DAYS + 1;
    return days;
}

const struct history_day *dashboard_day(const struct report *r, int64_t day)
{
    static const struct history_day unused;
    const struct history_day *d = report_day(r, day);

    return d != NULL ? d : &unused;
}

uint64_t dashboard_total(const struct report *r, const struct day_sum *sum)
{
    struct day_range days = dashboard_days(r);
    uint64_t total = 0;

    for (int64_t day = days.first; day <= days.last; day++)
        total = amount_add(total, dashboard_sum(dashboard_day(r, day), sum));
    return total;
}

static uint64_t height_of(const struct chart *c, const struct history_day *d)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < c->series; i++)
        total = amount_add(total, dashboard_sum(d, &c->column[i]));
    return total;
}

/* ---- the scale ---- */

/* The next of 2, 4, 6, 8, 10, 20, 40 ..., whose half is a round number too; of money from a
 * fiftieth of a cent on. */
static uint64_t round_up(uint64_t v, enum unit unit)
{
    static const uint8_t steps[] = {2, 4, 6, 8, 10};
    uint64_t ten = unit == UNIT_COST ? 100000 : 1;

    for (;; ten *= 10)
        for (unsigned i = 0; i < sizeof steps; i++)
            if (v <= steps[i] * ten)
                return steps[i] * ten;
}

/* The highest bar that is not cut. */
static uint64_t highest(const struct report *r, const struct chart *c)
{
    uint64_t top[CUT_DAYS + 1] = {0}; /* largest first */
    struct day_range days = dashboard_days(r);
    unsigned used = 0;

    for (int64_t day = days.first; day <= days.last; day++) {
        uint64_t v = height_of(c, dashboard_day(r, day));

        used += v > 0;
        for (unsigned i = 0; i <= CUT_DAYS; i++) {
            uint64_t lower = top[i];

            if (v <= lower)
                continue;
            top[i] = v;
            v = lower;
        }
    }
    for (unsigned i = 0; i < CUT_DAYS; i++)
        if (used > i + CUT_REST && top[i] / CUT_TIMES > top[i + 1])
            return top[i + 1];
    return top[0];
}

/* ---- drawing ---- */

static void draw_bars(struct sink *s, const struct chart *c, const struct history_day *d,
                      unsigned x, uint64_t of)
{
    unsigned y = HEIGHT;

    for (unsigned i = 0; i < c->series; i++) {
        unsigned h = (unsigned)dashboard_share(dashboard_sum(d, &c->column[i]), of, HEIGHT);

        if (h == 0)
            continue;
        h = h < BAR_MIN ? BAR_MIN : h;
        h = h < y ? h : y;
        y -= h;
        sink_format(s, "<path class=\"s%u\" d=\"M%u %uh%uv%uh-%uz\"/>", i + 1, x + 1, y,
                    DAY_WIDTH - 2, h, DAY_WIDTH - 2);
    }
}

/* One day: what its bars stand for as a text, the bars, and a gap in them if they are cut. */
static void draw_day(struct sink *s, const struct report *r, const struct chart *c, int64_t day,
                     uint64_t scale)
{
    const struct history_day *d = dashboard_day(r, day);
    unsigned x = (unsigned)(day - dashboard_days(r).first) * DAY_WIDTH;
    uint64_t total = height_of(c, d);
    char date[REPORT_DATE_MAX];

    if (total == 0)
        return;
    sink_format(s, "<g><title>%s:", report_date(day, date));
    for (unsigned i = 0; i < c->series; i++) {
        dashboard_say(s, i > 0 ? ", " : " ", c->column[i].unit, dashboard_sum(d, &c->column[i]),
                      " ");
        sink_text(s, c->column[i].label);
    }
    sink_text(s, "</title>");
    draw_bars(s, c, d, x, total > scale ? total : scale);
    if (total > scale)
        sink_format(s, "<path class=\"cut\" d=\"M%u 18l%u-8v6l-%u 8z\"/>", x, DAY_WIDTH,
                    DAY_WIDTH);
    sink_text(s, "</g>\n");
}

static void draw_plot(struct sink *s, const struct report *r, const struct chart *c,
                      uint64_t scale)
{
    struct day_range days = dashboard_days(r);
    unsigned n = (unsigned)(days.last - days.first + 1), width = n * DAY_WIDTH;
    char date[REPORT_DATE_MAX];

    sink_text(s, "<div class=\"plot\"><div class=\"scale\" aria-hidden=\"true\">");
    dashboard_say(s, "<span>", c->column[0].unit, scale, "</span>");
    dashboard_say(s, "<span>", c->column[0].unit, scale / 2, "</span>");
    sink_format(s, "<span>0</span></div><svg viewBox=\"0 0 %u %u\" role=\"img\"", width,
                HEIGHT);
    sink_format(s, " preserveAspectRatio=\"none\" aria-labelledby=\"%s-t\"><title id=\"%s-t\">",
                c->id, c->id);
    sink_format(s, "%s of %u days as bars; the table has the figures</title>\n", c->title, n);
    for (unsigned y = 0; y <= HEIGHT; y += HEIGHT / 2)
        sink_format(s, "<path class=\"grid\" d=\"M0 %uh%u\"/>", y, width);
    for (int64_t day = days.first; day <= days.last; day++)
        draw_day(s, r, c, day, scale);
    sink_format(s, "</svg><div class=\"days\" aria-hidden=\"true\"><span>%s</span>",
                report_date(days.first, date));
    sink_format(s, "<span>%s</span></div></div>\n", report_date(days.last, date));
}

static void write_legend(struct sink *s, const struct report *r, const struct chart *c,
                         bool cut)
{
    sink_text(s, "<p class=\"legend\">");
    for (unsigned i = 0; i < c->series; i++) {
        sink_format(s, "<span><i class=\"k%u\"></i> %s", i + 1, c->column[i].label);
        dashboard_say(s, " <b>", c->column[i].unit, dashboard_total(r, &c->column[i]),
                      "</b></span> ");
    }
    if (cut)
        sink_text(s, "<span>bars with a gap are far higher than drawn</span>");
    sink_text(s, "</p>\n");
}

static uint64_t figure_of(const struct report *r, const struct history_day *d,
                          const struct day_sum *column)
{
    bool known = column->unit != UNIT_COST || report_cost_known(r, d);

    return known ? dashboard_sum(d, column) : COST_UNKNOWN;
}

static void write_table(struct sink *s, const struct report *r, const struct chart *c)
{
    struct day_range days = dashboard_days(r);
    char date[REPORT_DATE_MAX];

    sink_text(s, "<details><summary>");
    sink_format(s, "%s as a table</summary>\n", c->title);
    dashboard_table(s, true, c->title, c->heads);
    for (int64_t day = days.last; day >= days.first; day--) {
        const struct history_day *d = dashboard_day(r, day);

        dashboard_row(s, report_date(day, date));
        for (unsigned i = 0; i < c->columns; i++)
            dashboard_cell(s, c->column[i].unit, figure_of(r, d, &c->column[i]));
    }
    dashboard_table_end(s);
    sink_text(s, "</details>\n");
}

static void write_chart(struct sink *s, const struct report *r, const struct chart *c)
{
    uint64_t top = highest(r, c), scale = round_up(top, c->column[0].unit);
    struct day_range days = dashboard_days(r);
    bool cut = false;

    for (int64_t day = days.first; day <= days.last; day++)
        cut |= height_of(c, dashboard_day(r, day)) > scale;
    sink_format(s, "<div class=\"chart\"><h3>%s <small>sums of %u days</small></h3>\n",
                c->title, (unsigned)(days.last - days.first + 1));
    if (c->column[0].unit == UNIT_COST && !r->priced && top == 0) {
        sink_text(s, "<p>No model has a price, so nobody knows what was spent.</p>\n");
    } else {
        write_legend(s, r, c, cut);
        draw_plot(s, r, c, scale);
    }
    write_table(s, r, c);
    sink_text(s, "</div>\n");
}

/* Often most of the cost, since all that such a call could cost is charged. */
static void write_unknown(struct sink *s, const struct report *r)
{
    static const struct day_sum unknown = {"", DAY_OFFSET(unknown), 1, UNIT_CALLS};

    dashboard_say(s, "<p>Calls charged as reserved, because their use is not known: <b>",
                  UNIT_CALLS, dashboard_sum(dashboard_day(r, r->state.today), &unknown),
                  "</b> today, <b>");
    dashboard_say(s, "", UNIT_CALLS, dashboard_total(r, &unknown),
                  "</b> in " DAYS_TEXT "</p>\n");
}

void dashboard_charts(struct sink *s, const struct report *r)
{
    dashboard_section(s, "days", "By day");
    sink_text(s, "<div class=\"charts\">");
    for (unsigned i = 0; i < sizeof charts / sizeof charts[0]; i++)
        write_chart(s, r, &charts[i]);
    sink_text(s, "</div>\n");
    write_unknown(s, r);
    dashboard_section_end(s);
}
