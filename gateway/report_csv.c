/* The report's days as CSV. Nothing in it needs quotes: dates, numbers and our own keys. */
#include <inttypes.h>

#include "gateway/report.h"

static void put_day(struct sink *s, const struct report *r, const struct history_day *d)
{
    char date[REPORT_DATE_MAX];

    sink_text(s, report_date(d->day, date));
    for (unsigned i = 0; i < report_columns_n; i++) {
        uint64_t value;

        sink_text(s, ",");
        if (report_value(r, d, &report_columns[i], &value))
            sink_format(s, "%" PRIu64, value);
    }
    sink_text(s, "\n");
}

void report_csv(struct sink *s, const struct report *r)
{
    sink_text(s, "day");
    for (unsigned i = 0; i < report_columns_n; i++)
        sink_format(s, ",%s%s", report_columns[i].refusal ? "refused_" : "",
                    report_columns[i].key);
    sink_text(s, "\n");
    for (unsigned i = 0; i < r->n_days; i++)
        put_day(s, r, &r->days[i]);
}
