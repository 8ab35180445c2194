/* Wraps and colours lines. Security: writes no escape but its own; texts are the caller's care. */
#include "gateway/lines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the environment says, or "". */
static const char *said(const char *variable)
{
    const char *value = getenv(variable);

    return value != NULL ? value : "";
}

bool lines_terminal(FILE *f)
{
    const char *term = said("TERM");

    return isatty(fileno(f)) && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

bool lines_colours(FILE *f)
{
    return lines_terminal(f) && said("NO_COLOR")[0] == '\0';
}

void lines_tone(const struct lines *l, enum tone tone, const char *text)
{
    static const char *const begin[] = {
        [TONE_PLAIN] = "", [TONE_WARNING] = "\033[33m", [TONE_FAULT] = "\033[31m"};
    bool coloured = l->colours && tone != TONE_PLAIN;

    sink_text(l->sink, coloured ? begin[tone] : "");
    sink_text(l->sink, text);
    sink_text(l->sink, coloured ? "\033[0m" : "");
}

/* The head, and blanks up to the indent. */
static void put_head(const struct lines *l, unsigned indent, enum tone tone, const char *head)
{
    size_t n = strlen(head);

    lines_tone(l, tone, head);
    if (n >= indent && n > 0) {
        sink_text(l->sink, "\n");
        n = 0;
    }
    sink_format(l->sink, "%*s", (int)(indent - n), "");
}

void lines_wrap(const struct lines *l, unsigned indent, enum tone tone, const char *head,
                const char *text)
{
    size_t column = indent;

    if (*text == '\0')
        lines_tone(l, tone, head);
    else
        put_head(l, indent, tone, head);
    while (*text != '\0') {
        size_t n = strcspn(text, " ");

        if (column > indent && column + 1 + n > LINES_COLUMNS) {
            sink_format(l->sink, "\n%*s", (int)indent, "");
            column = indent;
        }
        sink_text(l->sink, column > indent ? " " : "");
        sink_bytes(l->sink, text, n);
        column += n + (column > indent);
        text += n + (text[n] == ' ');
    }
    sink_text(l->sink, "\n");
}
