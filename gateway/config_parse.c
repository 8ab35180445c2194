/*
 * From the file's bytes to a config_source, through libConfuse, which by itself passes a good
 * deal in silence: a file that ends inside a section, a string or a comment, duplicates, ${X}
 * from the environment in " quotes, stray characters, a path like site|store. And after an
 * unfinished string or comment its scanner, which is global, begins the next file inside one.
 * So the text is scanned here first, and libConfuse only sees what cannot do any of this:
 * comments blanked, strings closed on their line, no backslash, no ${, plain characters only
 * outside quotes. Its callbacks reject duplicates, and a last line that is legal at the top
 * level alone finds a section that is still open. Of an empty list it tells nobody, so that one
 * is made a word that nobody can write.
 */
#include "gateway/config_parse.h"

#include <confuse.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the scan before libConfuse ---- */

#define EMPTY_LIST "\001" /* libConfuse takes it for a word; the scan lets none through */

/* As many can begin as there can be, and one more that is refused. */
#define BEGINS_MAX (CONFIG_BLOCKS_MAX + 1)

struct scan {
    char *p, *end;
    unsigned line;
    bool fresh;  /* a token could begin here: only then `//` is a comment, as in http://host */
    bool equals; /* an equal sign was the last token */
    char *list;  /* the brace behind one, until something follows in the list */
    unsigned depth, head;          /* of braces; line of the first word of this section, or 0 */
    unsigned n, begin[BEGINS_MAX]; /* where sections begin: libConfuse only tells where a value
                                      ends */
    struct config_source *source;
};

static bool refuse_variable(const struct scan *s)
{
    return config_source_fail(s->source, s->line,
                              "${...} is not replaced here; override an option by "
                              "PENNYGATE_SECTION_KEY");
}

static bool begins(const struct scan *s, const char *two)
{
    return s->end - s->p >= 2 && s->p[0] == two[0] && s->p[1] == two[1];
}

static void blank_line(struct scan *s)
{
    while (s->p < s->end && *s->p != '\n')
        *s->p++ = ' ';
}

static bool blank_block(struct scan *s)
{
    unsigned begin = s->line;

    *s->p++ = ' ';
    *s->p++ = ' ';
    for (; s->p < s->end; s->p++) {
        if (begins(s, "*/")) {
            *s->p++ = ' ';
            *s->p++ = ' ';
            return true;
        }
        if (*s->p == '\n')
            s->line++;
        else
            *s->p = ' ';
    }
    return config_source_fail(s->source, begin, "the comment that begins here is not closed");
}

static bool pass_quoted(struct scan *s)
{
    char quote = *s->p++;

    for (; s->p < s->end && *s->p != '\n'; s->p++) {
        if (*s->p == quote) {
            s->p++;
            return true;
        }
        if (*s->p == '\\')
            return config_source_fail(s->source, s->line, "backslashes are not used here");
        if (begins(s, "${"))
            return refuse_variable(s);
        if ((unsigned char)*s->p < 0x20 || *s->p == 0x7f)
            return config_source_fail(s->source, s->line, "a control character within quotes");
    }
    return config_source_fail(s->source, s->line, "a quoted value is not closed on its line");
}

static bool refuse_byte(const struct scan *s)
{
    unsigned char c = (unsigned char)*s->p;

    if (c == '\0')
        return config_source_fail(s->source, s->line, "a NUL byte");
    if (c > 0x7f)
        return config_source_fail(s->source, s->line,
                                  "byte 0x%02x outside quotes: not plain ASCII", c);
    if (c <= 0x20 || c == 0x7f)
        return config_source_fail(s->source, s->line, "byte 0x%02x outside quotes", c);
    return config_source_fail(s->source, s->line, "'%c' outside quotes", c);
}

/* Blanks the braces of a list without entries, but for a word in their place. */
static void pass_list(struct scan *s, char c)
{
    if (c == '}' && s->list != NULL) {
        *s->list = EMPTY_LIST[0];
        *s->p = ' ';
    }
    s->list = c == '{' && s->equals ? s->p : NULL;
    s->equals = c == '=';
}

static void pass_brace(struct scan *s, char c)
{
    if (c == '{' && s->depth++ == 0 && s->n < BEGINS_MAX)
        s->begin[s->n++] = s->head != 0 ? s->head : s->line;
    if (c == '}' && s->depth > 0 && --s->depth == 0)
        s->head = 0;
}

static void pass_head(struct scan *s)
{
    if (s->head == 0)
        s->head = s->line;
    s->equals = false;
    s->list = NULL;
}

/* Between words; a token can begin behind it. */
static bool pass_separator(struct scan *s)
{
    char c = *s->p;

    if (begins(s, "\r\n"))
        c = *s->p = ' ';
    if (c == '\0' || strchr(" \t\n={},", c) == NULL)
        return refuse_byte(s);
    pass_brace(s, c);
    if (strchr(" \t\n", c) == NULL)
        pass_list(s, c);
    s->line += c == '\n';
    s->fresh = true;
    s->p++;
    return true;
}

static bool in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '-' && c <= ':') ||
           (c != '\0' && strchr("_$%~@", c) != NULL);
}

static bool pass_word(struct scan *s)
{
    pass_head(s);
    for (; s->p < s->end && in_word(*s->p); s->p++) {
        if (begins(s, "${"))
            return refuse_variable(s);
    }
    s->fresh = false;
    return true;
}

static bool scan_text(struct scan *s)
{
    while (s->p < s->end) {
        bool ok = true;

        if (in_word(*s->p) && !(s->fresh && (begins(s, "//") || begins(s, "/*")))) {
            ok = pass_word(s);
        } else if (*s->p == '#' || (s->fresh && begins(s, "//"))) {
            blank_line(s);
        } else if (s->fresh && begins(s, "/*")) {
            ok = blank_block(s);
        } else if (*s->p == '\'' || *s->p == '"') {
            pass_head(s);
            ok = pass_quoted(s);
            s->fresh = true;
        } else {
            ok = pass_separator(s);
        }
        if (!ok)
            return false;
    }
    return true;
}

/* ---- libConfuse ---- */

#define END_KEY "end-of-file" /* written after the text; must be met at the top level */

/*
 * libConfuse has global state and its callbacks carry no argument of ours: one file at a time.
 */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct config_source *source;
    const struct scan *scan;
    struct config_block *block; /* the section that is open, once it is known */
    bool entry;                 /* a list's, to be taken: not the brace at its end */
    unsigned sections;          /* begun so far */
    unsigned end_line;          /* where END_KEY stands */
    bool ended;
} now;

static void on_error(cfg_t *cfg, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static unsigned line_of(const cfg_t *cfg)
{
    return cfg != NULL && cfg->line > 0 ? (unsigned)cfg->line : 0;
}

/* Whether the text is over: what is read of END_KEY then is no value. */
static bool is_cut_off(const cfg_t *cfg)
{
    if (line_of(cfg) < now.end_line)
        return false;
    config_source_fail(now.source, now.end_line - 1,
                       "the file ends inside a section or a setting");
    return true;
}

/* libConfuse does not say what it expected. No option's name begins with a digit. */
static const char *hint(const char *text)
{
    static const char option[] = "no such option '";
    bool value = strncmp(text, option, sizeof option - 1) == 0 &&
                 text[sizeof option - 1] >= '0' && text[sizeof option - 1] <= '9';

    return value || strncmp(text, "unexpected token", 16) == 0
               ? "; a list is { a, b }, a value with a comma or blank is quoted, and no comma "
                 "is between options"
               : "";
}

static void on_error(cfg_t *cfg, const char *format, va_list args)
{
    char text[CONFIG_ERROR_MAX];

    if (is_cut_off(cfg))
        return;
    vsnprintf(text, sizeof text, format, args);
    config_source_fail(now.source, line_of(cfg), "%s%s", text, hint(text));
}

static int section_of(const char *name)
{
    for (int i = 0; i < SECTIONS; i++) {
        if (strcmp(config_section_names[i], name) == 0)
            return i;
    }
    return -1;
}

/* The block that the open section fills; NULL with a message if it may not. Called at its first
 * value or, without values, at its end. */
static struct config_block *open_block(int section, const char *title)
{
    unsigned line = now.sections < now.scan->n ? now.scan->begin[now.sections] : now.end_line;
    struct config_block *b;

    if (now.block != NULL)
        return now.block;
    if (title == NULL)
        title = "";
    b = config_source_find(now.source, (enum config_section)section, title);
    if (b != NULL && b->ended) {
        config_source_fail(now.source, line, "section %s%s%s is given twice, first in line %u",
                           config_section_names[section], title[0] != '\0' ? " " : "", title,
                           b->line);
        return NULL;
    }
    now.sections++;
    now.block = config_source_begin(now.source, (enum config_section)section, title, line);
    return now.block;
}

/* The block of the section in which the option stands, or NULL with a message. */
static struct config_block *block_of(const cfg_t *cfg, const cfg_opt_t *opt)
{
    int section = now.block == NULL ? section_of(cfg->name) : (int)now.block->section;

    if (is_cut_off(cfg))
        return NULL;
    if (section >= 0)
        return open_block(section, cfg->title);
    config_source_fail(now.source, line_of(cfg), "option '%s' outside its section", opt->name);
    return NULL;
}

static int on_value(cfg_t *cfg, cfg_opt_t *opt)
{
    const char *text = cfg_opt_getnstr(opt, 0);
    struct config_block *b = block_of(cfg, opt);

    if (b == NULL || text == NULL)
        return -1;
    if (strcmp(text, EMPTY_LIST) == 0) {
        config_source_fail(now.source, line_of(cfg), "%s takes one value, not a list",
                           opt->name);
        return -1;
    }
    return config_source_set(now.source, b, opt->name, text, line_of(cfg)) ? 0 : -1;
}

/* Called for each entry, on_entry for each and once more at the brace that ends the list. */
static int on_entry_text(cfg_t *cfg, cfg_opt_t *opt, const char *text, void *result)
{
    (void)cfg;
    (void)opt;
    now.entry = true;
    *(const char **)result = text;
    return 0;
}

static bool entry_ok(const cfg_t *cfg, const cfg_opt_t *opt, const char *text)
{
    if (text[0] == '\0')
        return config_source_fail(now.source, line_of(cfg), "%s has an empty entry", opt->name);
    return strchr(text, ',') == NULL ||
           config_source_fail(now.source, line_of(cfg),
                              "%s has an entry with a comma: quote each entry by itself",
                              opt->name);
}

static int on_entry(cfg_t *cfg, cfg_opt_t *opt)
{
    unsigned n = cfg_opt_size(opt); /* 1 at the first of each list that is written */
    const char *text = n > 0 ? cfg_opt_getnstr(opt, n - 1) : NULL;
    struct config_block *b = block_of(cfg, opt);
    bool taken = now.entry;

    now.entry = false;
    if (b == NULL || text == NULL)
        return -1;
    if (!taken)
        return 0;
    if (n == 1 && strcmp(text, EMPTY_LIST) == 0)
        return config_source_set(now.source, b, opt->name, "", line_of(cfg)) ? 0 : -1;
    if (!entry_ok(cfg, opt, text))
        return -1;
    if (n == 1)
        return config_source_set(now.source, b, opt->name, text, line_of(cfg)) ? 0 : -1;
    return config_source_append(now.source, text, line_of(cfg)) ? 0 : -1;
}

static int on_section_end(cfg_t *cfg, cfg_opt_t *opt)
{
    unsigned n = cfg_opt_size(opt);
    cfg_t *section = n > 0 ? cfg_opt_getnsec(opt, n - 1) : NULL;
    struct config_block *b;

    (void)cfg;
    if (section == NULL)
        return -1;
    b = open_block(section_of(opt->name), section->title);
    if (b == NULL)
        return -1;
    b->ended = true;
    now.block = NULL;
    return 0;
}

static int on_end(cfg_t *cfg, cfg_opt_t *opt)
{
    if (line_of(cfg) != now.end_line) {
        config_source_fail(now.source, line_of(cfg), "no such option '%s'", opt->name);
        return -1;
    }
    now.ended = true;
    return 0;
}

/* What libConfuse has to know: every option is a string to it. */
struct grammar {
    cfg_opt_t option[CONFIG_OPTIONS_MAX + SECTIONS]; /* each section's, and its end */
    cfg_opt_t top[SECTIONS + 2];
};

static void fill_grammar(struct grammar *g)
{
    const cfg_opt_t none = CFG_END();
    cfg_opt_t *to = g->option;

    for (enum config_section s = 0; s < SECTIONS; s++) {
        unsigned n;
        const struct option *o = config_section_options(s, &n);
        cfg_opt_t *first = to;

        for (; n > 0; o++, n--) {
            bool list = config_option_lists(o);

            *to++ = (cfg_opt_t){.name = o->key,
                                .type = CFGT_STR,
                                .flags = CFGF_NODEFAULT | (list ? CFGF_LIST : 0),
                                .parsecb = list ? on_entry_text : NULL,
                                .validcb = list ? on_entry : on_value};
        }
        *to++ = none;
        g->top[s] = (cfg_opt_t){.name = config_section_names[s],
                                .type = CFGT_SEC,
                                .flags = config_section_titled(s)
                                             ? CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES
                                             : CFGF_NONE,
                                .subopts = first,
                                .validcb = on_section_end};
    }
    g->top[SECTIONS] = (cfg_opt_t){
        .name = END_KEY, .type = CFGT_STR, .flags = CFGF_NODEFAULT, .validcb = on_end};
    g->top[SECTIONS + 1] = none;
}

static bool parse_buffer(struct config_source *s, const char *text)
{
    struct grammar *g = calloc(1, sizeof *g);
    cfg_t *cfg = NULL;
    int rc = CFG_PARSE_ERROR;

    if (g != NULL) {
        fill_grammar(g);
        cfg = cfg_init(g->top, CFGF_NONE);
    }
    if (cfg != NULL) {
        cfg_set_error_function(cfg, on_error);
        rc = cfg_parse_buf(cfg, text);
        cfg_free(cfg);
    }
    free(g);
    if (cfg == NULL)
        return config_source_fail(s, 0, "out of memory");
    if (rc != CFG_SUCCESS)
        return config_source_fail(s, 0, "cannot be parsed");
    return now.ended || config_source_fail(s, 0, "the end of the file was not reached");
}

bool config_parse(struct config_source *s, char *text, size_t n)
{
    static const char end[] = "\n" END_KEY " = end\n";
    struct scan scan = {.p = text, .end = text + n, .line = 1, .fresh = true, .source = s};
    char *whole;
    bool ok;

    if (!scan_text(&scan))
        return false;
    whole = malloc(n + sizeof end);
    if (whole == NULL)
        return config_source_fail(s, 0, "out of memory");
    memcpy(whole, text, n);
    memcpy(whole + n, end, sizeof end);
    pthread_mutex_lock(&one_at_a_time);
    now.source = s;
    now.scan = &scan;
    now.block = NULL;
    now.entry = false;
    now.sections = 0;
    now.end_line = scan.line + 1;
    now.ended = false;
    s->text = text; /* from here on only read as `whole` */
    s->room = n;
    ok = parse_buffer(s, whole);
    pthread_mutex_unlock(&one_at_a_time);
    free(whole);
    return ok;
}
