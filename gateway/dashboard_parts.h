/*
 * The parts of the dashboard, and what all of them write with. Nothing here allocates, and the
 * same report gives the same bytes, since the page is made twice: first only its length.
 *
 * The page is strict about what it needs: one style sheet beside it, no script, no style in the
 * markup. End tags that HTML does not ask for are left out.
 */
#ifndef GATEWAY_DASHBOARD_PARTS_H
#define GATEWAY_DASHBOARD_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/report.h"

/* ---- dashboard_text.c: how things are written ---- */

/* Any text, escaped for HTML, attribute values included. */
void dashboard_text(struct sink *s, const char *text);
/* What a limit of this unit counts: "1,234", "$1,234.50"; "-" for a cost that nobody knows. */
void dashboard_amount(struct sink *s, enum unit unit, uint64_t v);
#define COST_UNKNOWN UINT64_MAX
/* The same between two texts. */
void dashboard_say(struct sink *s, const char *before, enum unit unit, uint64_t v,
                   const char *behind);
/* "3 d 4 h", "12 min 5 s", "under a second": its two largest units. A number and its unit are not
 * parted. */
void dashboard_span(struct sink *s, int64_t ms);
/* "2026-11-30 15:46" at the report's own zone. */
void dashboard_time(struct sink *s, const struct report *r, int64_t time_s);
/* "begins anew in 3 h" of a calendar window, "frees in 3 h" of what comes back piece by piece. */
void dashboard_frees(struct sink *s, const struct report_limit *l);
/* "hour", "10s"; "" for what has no window. */
void dashboard_window(struct sink *s, const struct limit *l);

/* How many of `whole` parts v is of `of`: at most all; none is 0, anything more at least 1 as far
 * as `whole` allows it. Any values. */
uint64_t dashboard_share(uint64_t v, uint64_t of, uint64_t whole);

/* The start of a section with its heading, and of a table with its caption and column heads, in
 * words of the program's own, parted by '|'. Each has an end. The first column heads the rows; the
 * others are set to the right if they are figures. */
void dashboard_section(struct sink *s, const char *id, const char *heading);
void dashboard_section_end(struct sink *s);
void dashboard_table(struct sink *s, bool figures, const char *caption, const char *heads);
void dashboard_table_end(struct sink *s);
/* The start of a row, its head (escaped), and cells with an amount; rows and cells need no end. */
void dashboard_row(struct sink *s, const char *head);
void dashboard_cell(struct sink *s, enum unit unit, uint64_t v);

/* ---- days ---- */

/* A sum of neighbours among a day's figures: the refusals of all kinds, or a single one. (Labels
 * stand in the tables themselves: a pointer would have to be relocated at every start.) */
struct day_sum {
    char label[32];
    uint16_t offset; /* of the first in struct history_day */
    uint8_t n;
    uint8_t unit; /* enum unit: how it is written */
};
#define DAY_OFFSET(member) (uint16_t) offsetof(struct history_day, member)
#define DAY_FIGURE(f)      (uint16_t)(DAY_OFFSET(figures) + (f) * sizeof(uint64_t))
uint64_t dashboard_sum(const struct history_day *d, const struct day_sum *sum);

/* The days that the page shows, each of them, with or without use. */
struct day_range {
    int64_t first, last;
};
#define DAYS_TEXT       NUMBER_TEXT(REPORT_DAYS) " days" /* how many they are */
#define NUMBER_TEXT(n)  NUMBER_TEXT_(n)
#define NUMBER_TEXT_(n) #n
struct day_range dashboard_days(const struct report *r);
/* Never NULL: a day without use is all zero. */
const struct history_day *dashboard_day(const struct report *r, int64_t day);
/* Over the days shown. */
uint64_t dashboard_total(const struct report *r, const struct day_sum *sum);

/* ---- the sections, in the page's order ---- */

void dashboard_state(struct sink *s, const struct report *r);
/* The worst that the state has to tell, in a few words; NULL if all is well. */
const char *dashboard_news(const struct report *r);
void dashboard_budgets(struct sink *s, const struct report *r);
/* Whether an enforcing limit of this report has nothing left now. */
bool dashboard_spent(const struct report_limit *l);
void dashboard_charts(struct sink *s, const struct report *r);

#endif
