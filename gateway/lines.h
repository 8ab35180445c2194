/*
 * Lines for people: words in 80 columns, and colour where a terminal shows it. What goes to a
 * file or through a pipe has none, nor where NO_COLOR is set or TERM is dumb.
 */
#ifndef GATEWAY_LINES_H
#define GATEWAY_LINES_H

#include <stdbool.h>
#include <stdio.h>

#include "gateway/sink.h"

#define LINES_COLUMNS 80

/* Colours are few and never the only sign. */
enum tone { TONE_PLAIN, TONE_WARNING, TONE_FAULT };

/* Whether the stream is a terminal on which a line can be coloured and written over. */
bool lines_terminal(FILE *f);
/* The same, and colours are not unwanted. */
bool lines_colours(FILE *f);

struct lines {
    struct sink *sink;
    bool colours;
};

/* The text in the tone. */
void lines_tone(const struct lines *l, enum tone tone, const char *text);

/*
 * The words of a text, behind the head and, where a line would pass the last column, in further
 * lines, indented. A head of the indent's length or more stands in a line of its own; a word
 * that is longer than a line is not broken.
 */
void lines_wrap(const struct lines *l, unsigned indent, enum tone tone, const char *head,
                const char *text);

#endif
