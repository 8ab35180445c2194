/*
 * stats: what was used, by day, how the site's budgets stand, what dry runs would have refused,
 * and who asked most: the report (gateway/report.h) as a table for people, as JSON or as CSV.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/cli.h"
#include "gateway/report.h"
#include "platform/clock.h"

bool cli_days(const char *text, int64_t *days)
{
    size_t n = strlen(text);

    if (n == 0 || n > 3 || strspn(text, "0123456789") != n || text[0] == '0')
        return false;
    *days = strtol(text, NULL, 10);
    return *days <= CLI_DAYS_MAX;
}

static void show(const struct cli *cli, const struct report *r)
{
    struct sink s;
    struct lines l = {&s, lines_colours(stdout)};

    sink_to(&s, sink_file, stdout);
    if (cli->json)
        report_json(&s, r);
    else if (cli->csv)
        report_csv(&s, r);
    else if (!SMALL)
        report_table(&l, r);
    (void)sink_end(&s); /* cli_main tells of a stream that has failed */
}

int cli_stats(struct cli *cli)
{
    int64_t days = REPORT_DAYS;
    struct report *r;
    struct ledger *l;
    struct config *c;
    enum error e;
    int status;

    if ((cli->json && cli->csv) || (cli->days != NULL && !cli_days(cli->days, &days))) {
        cli_fail("stats takes --json or --csv, and --days 1 to %d", CLI_DAYS_MAX);
        return CLI_USAGE;
    }
    if (SMALL && !cli->json && !cli->csv)
        return cli_not_small("the table: stats takes --json or --csv");
    status = cli_open(cli, NULL, &c, &l);
    if (status != CLI_OK)
        return status;
    e = report_make(l, c, (unsigned)days, clock_wall_s(), &r);
    if (e != ERROR_NONE)
        return cli_store_failed(c, e);
    show(cli, r);
    report_free(r);
    return CLI_OK;
}
