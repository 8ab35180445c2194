/*
 * The budgets: each limit of a shared subject as a bar, what is spent and what is only reserved
 * apart, with the same in words.
 */
#include "gateway/dashboard_parts.h"

#define BAR_WIDTH  1000
#define BAR_HEIGHT 10

#define HUNDRED     100
#define NEARLY_FULL 80 /* percent: as the first alert is by default */

/* A stream that is open is not given back, so it is no reservation here. */
static uint64_t spent_of(const struct report_limit *l)
{
    if (l->limit->unit == UNIT_CONCURRENT)
        return l->use.used;
    return amount_subtract(l->use.used, l->use.reserved);
}

static bool is_bounded(const struct report_limit *l)
{
    return l->limit->max != LIMIT_UNLIMITED;
}

static bool is_full(const struct report_limit *l)
{
    return is_bounded(l) && l->use.used >= l->limit->max;
}

static bool is_held_back(const struct report_limit *l)
{
    return is_bounded(l) && l->limit->pace && l->use.used >= l->use.released;
}

bool dashboard_spent(const struct report_limit *l)
{
    return l->limit->unit != UNIT_CONCURRENT && !l->limit->dry_run && is_full(l);
}

static const char *standing_of(const struct report_limit *l)
{
    if (is_full(l))
        return l->limit->unit == UNIT_CONCURRENT ? "all taken" : "spent";
    if (is_held_back(l))
        return "held back by its pace";
    if (is_bounded(l) && dashboard_share(l->use.used, l->limit->max, HUNDRED) >= NEARLY_FULL)
        return "nearly spent";
    return NULL;
}

static void write_name(struct sink *s, const struct report_limit *l)
{
    const char *standing = standing_of(l);

    sink_text(s, "<h3>");
    dashboard_text(s, l->limit->name);
    sink_format(s, " <small>%s, %s", report_unit(l->limit->unit),
                report_subject(l->limit->subject));
    if (l->limit->unit != UNIT_CONCURRENT) {
        sink_text(s, ", ");
        dashboard_window(s, l->limit);
    }
    sink_text(s, "</small>");
    if (standing != NULL)
        sink_format(s, " <strong class=\"%s\">%s</strong>", is_full(l) ? "bad" : "warn",
                    standing);
    if (l->limit->dry_run)
        sink_text(s, " <em>dry run: refuses nothing</em>");
    sink_text(s, "</h3>\n");
}

static void draw_part(struct sink *s, const char *class, unsigned x, unsigned width)
{
    if (width > 0)
        sink_format(s, "<rect class=\"%s\" x=\"%u\" width=\"%u\" height=\"%u\"/>", class, x,
                    width, BAR_HEIGHT);
}

static void draw_bar(struct sink *s, const struct report_limit *l, unsigned i)
{
    uint64_t max = l->limit->max;
    unsigned spent = (unsigned)dashboard_share(spent_of(l), max, BAR_WIDTH);
    unsigned used = (unsigned)dashboard_share(l->use.used, max, BAR_WIDTH);
    unsigned pace = (unsigned)dashboard_share(l->use.released, max, BAR_WIDTH);

    sink_format(s, "<svg viewBox=\"0 0 %u %u\" preserveAspectRatio=\"none\" role=\"img\"",
                BAR_WIDTH, BAR_HEIGHT);
    sink_format(s, " aria-labelledby=\"b%u\"><title id=\"b%u\">%u %% spent, %u %% reserved", i,
                i, spent / (BAR_WIDTH / HUNDRED), (used - spent) / (BAR_WIDTH / HUNDRED));
    if (l->limit->pace)
        sink_format(s, ", %u %% released", pace / (BAR_WIDTH / HUNDRED));
    sink_text(s, "</title>");
    draw_part(s, "s1", 0, spent);
    draw_part(s, "s2", spent, used - spent);
    if (l->limit->pace)
        sink_format(s, "<path class=\"pace\" d=\"M%u 0v%u\"/>", pace, BAR_HEIGHT);
    sink_text(s, "</svg>\n");
}

static void write_bold(struct sink *s, enum unit unit, uint64_t v, const char *behind)
{
    dashboard_say(s, "<b>", unit, v, "</b>");
    sink_text(s, behind);
}

/* "12 spent, 3 reserved of 40; 25 released so far; begins anew in 3 h 5 min" */
static void write_words(struct sink *s, const struct report_limit *l)
{
    enum unit unit = l->limit->unit;

    sink_text(s, "<p>");
    write_bold(s, unit, spent_of(l), unit == UNIT_CONCURRENT ? " open" : " spent, ");
    if (unit != UNIT_CONCURRENT)
        write_bold(s, unit, l->use.reserved, " reserved");
    sink_text(s, is_bounded(l) ? ", of " : "; no maximum");
    if (is_bounded(l))
        write_bold(s, unit, l->limit->max, "");
    if (is_bounded(l) && l->limit->pace) {
        sink_text(s, "; ");
        write_bold(s, unit, l->use.released, " released so far");
    }
    if (l->use.frees_ms > 0) {
        sink_text(s, "; ");
        dashboard_frees(s, l);
    }
    sink_text(s, "</p>\n");
}

static bool is_left_over(const struct report *r)
{
    bool reserved = false;

    for (unsigned i = 0; i < r->n_limits; i++)
        reserved |= r->limits[i].use.reserved > 0;
    return reserved && r->state.open_streams == 0;
}

void dashboard_budgets(struct sink *s, const struct report *r)
{
    dashboard_section(s, "budgets", "Budgets now");
    sink_text(s, "<p class=\"legend\"><span><i class=\"k1\"></i> spent</span> <span><i "
                 "class=\"k2\"></i> reserved for calls under way</span> <span><i "
                 "class=\"k3\"></i> released by its pace</span></p>\n<ul class=\"budgets\">\n");
    for (unsigned i = 0; i < r->n_limits; i++) {
        sink_text(s, "<li>");
        write_name(s, &r->limits[i]);
        if (is_bounded(&r->limits[i]))
            draw_bar(s, &r->limits[i], i);
        write_words(s, &r->limits[i]);
    }
    sink_text(s, "</ul>\n");
    if (is_left_over(r))
        sink_text(s, "<p>Something is reserved although no stream is open: a call has just "
                     "ended, or its process died, and then it stays reserved for as long as a "
                     "call may take, and is spent after that.</p>\n");
    if (r->n_limits == 0)
        sink_text(s, "<p>No limit is shared by all callers.</p>\n");
    dashboard_section_end(s);
}
