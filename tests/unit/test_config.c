/* The configuration: what it says is what is in force, and what it does not say plainly is an
 * error with file and line. */
#include "gateway/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/config_options.h"
#include "gateway/config_value.h"
#include "tests/unit/scratch.h"

#define SITE  "site { store = '/srv/gate' }\n"
#define MODEL "model demo { url = 'https://api.example/v1' model = 'small-1' }\n"
#define PRICED                                                                                 \
    "model demo { url = 'https://api.example/v1' model = small-1 price-input = '$0.15' "       \
    "price-output = '$0.60' }\n"

static char message[CONFIG_ERROR_MAX];

static void write_bytes(const char *name, const void *data, size_t n, mode_t mode)
{
    scratch_write(scratch_path(name), mode, data, n);
}

static void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text), 0600);
}

static enum error load_env(const char *text, const char *variable, struct config **out)
{
    char copy[512];
    char *env[] = {copy, NULL};

    snprintf(copy, sizeof copy, "%s", variable != NULL ? variable : "PATH=/bin");
    write_text("c.conf", text);
    message[0] = '\0';
    return config_load(scratch_path("c.conf"), env, out, message);
}

#define BOARD_STORE_MIB (sizeof(void *) == 4 ? 16 : 32)

static struct config *must_load_env(const char *text, const char *variable)
{
    struct config *c = NULL;

    if (load_env(text, variable, &c) != ERROR_NONE)
        fail_msg("%s", message);
    return c;
}

static struct config *must_load(const char *text)
{
    return must_load_env(text, NULL);
}

static void must_fail(const char *what, const char *text, const char *variable,
                      const char *says)
{
    struct config *untouched = (struct config *)(void *)message, *c = untouched;
    enum error e = load_env(text, variable, &c);

    if (e == ERROR_NONE)
        fail_msg("%s: accepted", what);
    if (strstr(message, says) == NULL)
        fail_msg("%s: says \"%s\", not \"%s\"", what, message, says);
    assert_ptr_equal(c, untouched);
}

/* ---- syntax ---- */

static void test_hostile_syntax(void **state)
{
    static const struct {
        const char *what, *text, *says;
    } rows[] = {
        {"a section cut off at the end of the file", "site { store = '/a'\n",
         "c.conf:2: the file ends inside"},
        {"a setting cut off", "site { store =", "the file ends inside"},
        {"a title cut off", SITE "limit", "the file ends inside"},
        {"the last section's brace in a comment", SITE "limit x { per = address # }\n",
         "the file ends inside"},
        {"a string cut off", "site { store = '/a }\n",
         "c.conf:1: a quoted value is not closed"},
        {"a string over two lines", "site { store = \"/a\nb\" }\n", "c.conf:1: a quoted value"},
        {"a comment cut off", SITE "\n/* limit x {\n}\n",
         "c.conf:3: the comment that begins here"},
        {"our own end written early", SITE "end-of-file = end\n/*", "the comment that begins"},
        {"our own end in the middle", SITE "end-of-file = end\n" MODEL,
         "c.conf:2: no such option 'end-of-file'"},
        {"a duplicate key", "site { store = '/a'\nstore = '/b' }",
         "c.conf:2: store is given twice, first in line 1"},
        {"a duplicate section", SITE "site { }\n",
         "c.conf:2: section site is given twice, first in line 1"},
        {"a duplicate empty section", "log { }\nlog { }\n" SITE, "section log is given twice"},
        {"a duplicate title", SITE MODEL MODEL, "c.conf:3: found duplicate title 'demo'"},
        {"a duplicate default limit",
         SITE "limit site-day { per = everyone unit = calls window = day max = 5 }\n"
              "limit site-day { per = everyone unit = calls window = day max = 50000 }\n",
         "duplicate title 'site-day'"},
        {"a path instead of a section", SITE "request|max-history = 3\n", "'|' outside quotes"},
        {"a path in quotes", SITE "'request|max-history' = 3\n",
         "c.conf:2: option 'max-history' outside its section"},
        {"an unknown section", SITE "limits { }\n", "c.conf:2: no such option 'limits'"},
        {"an unknown key", "site { store = '/a'\n stor = 3 }\n",
         "c.conf:2: no such option 'stor'"},
        {"a key in the wrong section", SITE "log { streams = 3 }\n",
         "no such option 'streams'"},
        {"a key of a later version", "site { store = '/a' pages = yes }\n",
         "no such option 'pages'"},
        {"an include", "include('/etc/passwd')\n", "'(' outside quotes"},
        {"the environment in \" quotes", "site { store = \"${HOME}\" }\n",
         "c.conf:1: ${...} is not replaced"},
        {"the environment without quotes", "site { store = ${HOME} }\n",
         "${...} is not replaced"},
        {"the environment in ' quotes", "site { store = '/${HOME}' }\n",
         "${...} is not replaced"},
        {"an octal escape", "site { store = \"/a\\057b\" }\n", "backslashes"},
        {"a sign that libConfuse drops", SITE "request { max-history = +10 }\n",
         "'+' outside quotes"},
        {"a star that libConfuse drops", SITE "request { max-history = *10 }\n",
         "'*' outside quotes"},
        {"a decimal comma", SITE "limit a { per = everyone max = 5,00 }\n",
         "unexpected token ','; a list is { a, b }, a value with a comma or blank is quoted"},
        {"a comma between options", SITE "limit a { max = 3, window = week }\n",
         "and no comma is between options"},
        {"a list without braces", SITE "alerts { at = 50 80 }\n",
         "no such option '80'; a list is { a, b }"},
        {"a list without commas", SITE "alerts { at = { 50 80 } }\n",
         "unexpected token '80'; a list is { a, b }"},
        {"appending", SITE "request { max-history += 10 }\n", "'+' outside quotes"},
        {"a list for a single value", SITE "request { max-history = {3, 4} }\n",
         "unexpected token '{'"},
        {"an empty list for a single value", SITE "request {\nmax-history = { } }\n",
         "c.conf:3: max-history takes one value, not a list"},
        {"an empty list behind a value", SITE "request { max-history = 3 { } }\n",
         "unexpected token '{'"},
        {"an empty list for a section", SITE "log = { }\n", "c.conf:2: "},
        {"the file ends inside a list", "site { store = '/a' trusted-proxies = { 10.0.0.1",
         "c.conf:1: the file ends inside"},
        {"the file ends behind a list's comma",
         "site { store = '/a' trusted-proxies = { 10.0.0.1,", "the file ends inside"},
        {"the file ends behind a list's brace", "alerts{at={", "the file ends inside"},
        {"the file ends behind an equal sign", "alerts{at=", "the file ends inside"},
        {"the file ends behind a list", "site { store = '/a' trusted-proxies = { 10.0.0.1 }\n",
         "c.conf:2: the file ends inside"},
        {"a list's brace taken for the section's",
         SITE "alerts { at = { 50 \n"
              "limit x { per = address unit = calls window = day max = 1 }\n",
         "c.conf:3: "},
        {"nested lists", SITE "alerts { at = { { 50 } } }\n", "unexpected token '{'"},
        {"nested empty lists", SITE "alerts { at = { { } } }\n", "c.conf:2: "},
        {"two lists", SITE "alerts { at = { 50 }, { 60 } }\n", "unexpected token ','"},
        {"a list without commas", SITE "alerts { at = { 50 60 } }\n", "unexpected token '60'"},
        {"a list with a gap", SITE "alerts { at = { 50, , 60 } }\n", "unexpected token ','"},
        {"a list that begins with a comma", SITE "alerts { at = { , 60 } }\n",
         "unexpected token ','"},
        {"a list given twice", SITE "alerts {\n at = { 50 }\n at = { 60 }\n}\n",
         "c.conf:4: at is given twice, first in line 3"},
        {"a list given twice, then empty", SITE "alerts { at = { 50, 60 }\n at = { } }\n",
         "c.conf:3: at is given twice, first in line 2"},
        {"a list given twice, first empty",
         "site { store = '/a' trusted-proxies = { }\n trusted-proxies = { 10.0.0.1 } }\n",
         "c.conf:2: trusted-proxies is given twice"},
        {"a list given twice, each time by one value", SITE "alerts { at = 50\n at = 50 }\n",
         "c.conf:3: at is given twice"},
        {"a list appended to", SITE "alerts { at = { 50 } at += { 60 } }\n",
         "'+' outside quotes"},
        {"a list without an equal sign", SITE "alerts { at { 50 } }\n",
         "missing equal sign after option 'at'"},
        {"an empty entry", SITE "alerts { at = { 50, '' } }\n", "at has an empty entry"},
        {"only an empty entry", "site { store = '/a' trusted-proxies = { '' } }\n",
         "trusted-proxies has an empty entry"},
        {"two entries in one",
         "site { store = '/a' trusted-proxies = { '10.0.0.1,10.0.0.2' } }\n",
         "trusted-proxies has an entry with a comma"},
        {"a list outside its section", SITE "at = { 50 }\n", "no such option 'at'"},
        {"the word that stands for an empty list", SITE "alerts { at = \001 }\n", "byte 0x01"},
        {"two values", SITE "request { max-history = 3 4 }\n", "no such option '4'"},
        {"a section without a title", SITE "limit { max = 3 }\n", "missing title"},
        {"an empty title", SITE "limit '' { max = 3 }\n", "is named in 1 to 31 letters"},
        {"a title with a blank", SITE "limit 'a b' { max = 3 }\n", "is named in"},
        {"a bad title is told where it stands, not where the first value does",
         SITE "limit 'a b' {\n\n max = 3 }\n", "c.conf:2: a limit is named in"},
        {"a bad alias is told where it stands", SITE "\nmodel a@b\n{\n}\n",
         "c.conf:3: a model is named in"},
        {"a duplicate section is told where it begins",
         SITE "log {\n level = info\n}\nlog {\n\n level = info\n}\n",
         "c.conf:5: section log is given twice, first in line 2"},
        {"a title with a line's end", SITE "limit 'a\nb' { max = 3 }\n",
         "not closed on its line"},
        {"a title of 32 letters", SITE "limit aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb { max = 3 }\n",
         "is named in"},
        {"an alias that begins with a dot", SITE "model .x { url = 'http://a' model = b }\n",
         "(and dots)"},
        {"a control character", SITE "\001\n", "byte 0x01"},
        {"a control character in quotes", "site { store = '/a\033[2J' }\n",
         "a control character"},
        {"UTF-8 outside quotes", "site { store = /\303\244 }\n",
         "byte 0xc3 outside quotes: not plain ASCII"},
        {"nothing at all", "", "site: store is missing"},
        {"only a comment", "# hello\n", "site: store is missing"},
        {"a closing brace too many", SITE "}\n", "c.conf:2: unexpected closing brace"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        must_fail(rows[i].what, rows[i].text, NULL, rows[i].says);
}

static void test_friendly_syntax(void **state)
{
    static const struct {
        const char *what, *text;
    } rows[] = {
        {"comments of three kinds", "# ${X} \\ ' \"\n// 'x\n/* { \n ** } ${Y} */\n" SITE},
        {"a comment behind a value", "site { store = /srv/gate # it's here\n}\n"},
        {"a comment without a line's end", SITE "# done"},
        {"no newline at the end", "site { store = '/srv/gate' }"},
        {"lines as Windows ends them", "site {\r\n store = '/srv/gate'\r\n}\r\n"},
        {"comment marks within quotes", SITE "server { socket = '/a//b/*c*/' }\n"},
        {"the other quote within quotes", SITE "server { socket = \"/it's\" }\n"},
        {"unquoted slashes", SITE "model a { url = http://host/v1 model = org/name }\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct config *c = must_load(rows[i].text);
        assert_string_equal(c->store, "/srv/gate");
        config_drop(c);
    }
}

static void test_lists(void **state)
{
    static const struct {
        const char *what, *list;
        unsigned n;
        const char *says; /* as check writes it */
    } rows[] = {
        {"none", "", 0, ""},
        {"an empty one", "= {}", 0, ""},
        {"an empty one over lines, with comments", "= # none\n {\n # still none\n/* { */ }", 0,
         ""},
        {"one", "= { 10.0.0.1 }", 1, "{10.0.0.1}"},
        {"one without braces", "= 10.0.0.1", 1, "{10.0.0.1}"},
        {"a comma at the end", "= { 10.0.0.1, }", 1, "{10.0.0.1}"},
        {"three over lines",
         "= {\n '10.0.0.0/8', # the office\n \"fd00::/8\",\n\n 192.0.2.7/32 }", 3,
         "{10.0.0.0/8, fd00::/8, 192.0.2.7}"},
    };
    char text[CONFIG_VALUE_MAX];
    const struct option *o = config_option(SECTION_SITE, "trusted-proxies");

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char file[512];
        struct config *c;

        snprintf(file, sizeof file, "site { store = '/a' %s %s mount = '/b' }\n" MODEL,
                 rows[i].list[0] != '\0' ? "trusted-proxies" : "", rows[i].list);
        c = must_load(file);
        if (c->n_trusted_proxies != rows[i].n ||
            strcmp(config_value_text(o, c, text), rows[i].says) != 0)
            fail_msg("%s: %u: %s", rows[i].what, c->n_trusted_proxies, text);
        assert_string_equal(c->mount, "/b"); /* what follows is the section's still */
        assert_int_equal(c->n_models, 1);
        config_drop(c);
    }
}

/* Who may see the owner's pages: names as they are compared, none of them twice. */
static void test_accounts(void **state)
{
    static const struct {
        const char *what, *accounts, *says;
    } rows[] = {
        {"an account twice, by capitals", "{ ann, ANN }", "has 'ANN' twice"},
        {"an empty one", "{ '' }", "empty entry"},
        {"a long one",
         "{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }",
         "it is too long"},
    };
    struct config *c =
        must_load(SITE MODEL "dashboard { accounts = { ' ann ', 'J\303\266rg' } }\n");

    (void)state;
    assert_int_equal(c->n_dashboard_accounts, 2);
    assert_string_equal(c->dashboard_accounts[0], "ann");
    config_drop(c);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];

        snprintf(text, sizeof text, SITE "dashboard { accounts = %s }\n", rows[i].accounts);
        must_fail(rows[i].what, text, NULL, rows[i].says);
    }
    must_fail("a control character", SITE, "PENNYGATE_DASHBOARD_ACCOUNTS=a\nb", "control");
    assert_int_equal(load_env(SITE, "PENNYGATE_DASHBOARD_ACCOUNTS=ann,bob", &c), ERROR_NONE);
    assert_int_equal(c->n_dashboard_accounts, 2);
    config_drop(c);
}

/* A broken file must not change how the next one is read: the scanner beneath is global. */
static void test_a_broken_file_leaves_nothing_behind(void **state)
{
    static const char *const broken[] = {"site { store = '/a",  "site { /* ",
                                         "site { store = \"/a", "site { store = \"\\999\" }",
                                         "limit a {",           "site { x = 1 }"};

    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct config *c;

        must_fail("broken", broken[i], NULL, "c.conf:1:");
        c = must_load(SITE MODEL);
        assert_int_equal(c->n_models, 1);
        config_drop(c);
    }
}

static void test_what_is_no_plain_file(void **state)
{
    struct config *c;
    static char large[CONFIG_FILE_MAX + 1];
    const char nul[] = "site { store = '/a' }\n\0limit x { }\n";
    const char quoted_nul[] = "site { store = '/a\0' }\n";

    (void)state;
    assert_int_equal(config_load(scratch_path("none"), NULL, &c, message), ERROR_NOT_FOUND);
    assert_non_null(strstr(message, "none: "));
    assert_int_equal(config_load(scratch_directory, NULL, &c, message), ERROR_NOT_REGULAR);
    assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0);
    assert_int_equal(config_load(scratch_path("fifo"), NULL, &c, message), ERROR_NOT_REGULAR);
    write_bytes("nul", nul, sizeof nul - 1, 0600);
    assert_int_equal(config_load(scratch_path("nul"), NULL, &c, message), ERROR_SYNTAX);
    assert_non_null(strstr(message, "nul:2: a NUL byte"));
    write_bytes("nul", quoted_nul, sizeof quoted_nul - 1, 0600);
    assert_int_equal(config_load(scratch_path("nul"), NULL, &c, message), ERROR_SYNTAX);
    memset(large, '\n', sizeof large);
    write_bytes("large", large, sizeof large, 0600);
    assert_int_equal(config_load(scratch_path("large"), NULL, &c, message), ERROR_TOO_LARGE);
    memcpy(large, SITE, sizeof SITE - 1);
    write_bytes("large", large, sizeof large - 1, 0600);
    assert_int_equal(config_load(scratch_path("large"), NULL, &c, message), ERROR_NONE);
    config_drop(c);
}

/* ---- values ---- */

/* One option of one section with a value that is refused, and why. */
static void test_refused_values(void **state)
{
    static const struct {
        const char *what, *section, *setting, *says;
    } rows[] = {
        {"octal", "request", "max-history = 010", "max-history '010' is not a whole number"},
        {"hexadecimal", "request", "max-history = 0x10", "is not a whole number"},
        {"negative", "request", "max-history = -1", "is not a whole number"},
        {"a fraction", "request", "max-history = 1.5", "is not a whole number"},
        {"a blank within", "request", "max-history = '1 0'", "is not a whole number"},
        {"empty", "request", "max-history = ''", "is not a whole number"},
        {"a number that wraps 64 bits", "request", "max-history = 18446744073709551626",
         "is not"},
        {"a number that wraps 32 bits", "request", "max-history = 4294967297",
         "out of range: 1 to 1024"},
        {"below the least", "request", "max-history = 0", "out of range: 1 to 1024"},
        {"above the most", "request", "max-history = 1025", "out of range"},
        {"a size above the most", "request", "max-body-bytes = 1025K",
         "out of range: 1K to 1M"},
        {"a size of unknown unit", "request", "max-body-bytes = 64KB", "is not a size"},
        {"a size in small letters", "request", "max-body-bytes = 64k", "is not a size"},
        {"a size that wraps", "request", "max-body-bytes = 17179869184G", "is not a size"},
        {"a time without a unit", "server", "heartbeat = 5", "is not a time such as"},
        {"a time of unknown unit", "server", "heartbeat = 5000ms", "is not a time"},
        {"a time below the least", "server", "heartbeat = 0s", "out of range: 1s to 30s"},
        {"a time above the most", "server", "heartbeat = 31s", "out of range"},
        {"a time that wraps", "server", "heartbeat = 213503982335d", "is not a time"},
        {"a mode in three digits", "server", "socket-mode = 660", "four octal digits"},
        {"a mode with a nine", "server", "socket-mode = 0690", "four octal digits"},
        {"set-user-id", "server", "socket-mode = 4755", "four octal digits"},
        {"a stack too small", "server", "stack = 63K", "out of range: 64K to 1M"},
        {"no line of log at all", "log", "rate = 0", "out of range: 1 to 1000"},
        {"too many lines of log", "log", "rate = 1001", "out of range: 1 to 1000"},
        {"a buffer that libcurl overfills", "server", "buffer = 15K",
         "out of range: 16K to 4M"},
        {"an unknown profile", "server", "profile = laptop", "none of: router board vps"},
        {"too many streams", "server", "streams = 129", "out of range: 1 to 128"},
        {"a socket path that no address holds", "server",
         "socket = "
         "'/"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaa"
         "aaaaaaaaaaaaaaaaaaa'",
         "longer than 107"},
        {"a relative path", "server", "socket = run/gate.sock", "must be an absolute path"},
        {"an empty path", "server", "socket = ''", "is empty"},
        {"an unknown word", "log", "level = debug",
         "level 'debug' is none of: error warning info"},
        {"a word in capitals", "log", "level = INFO", "is none of"},
        {"a durability that is none", "site", "durability = sync", "is none of: commit lease"},
        {"a lease without a place for the live rows", "site", "durability = lease",
         "run-directory is missing: durability = lease needs one"},
        {"a lease with live rows on flash", "site", "run-directory = /a/run durability = lease",
         "run-directory is inside of store"},
        {"a lease with live rows in the store itself", "site",
         "run-directory = /a durability = lease", "run-directory is inside of store"},
        {"retention under a day", "site", "retention = 23h", "out of range: 1d to 400d"},
        {"a mount with dots", "site", "mount = '/a/../b'", "must be a path such as"},
        {"a mount without a slash", "site", "mount = ai", "must be a path such as"},
        {"two roots as mount", "site", "mount = '//'", "must be a path such as"},
        {"a URL without a scheme", "model", "url = api.example", "must be like"},
        {"a URL of another kind", "model", "url = 'ftp://api'", "must be like 'https://"},
        {"a URL with a password", "model", "url = 'https://me:pw@api/v1'", "must be like"},
        {"a URL with a query", "model", "url = 'https://api/v1?key=x'", "must be like"},
        {"a URL without a host", "model", "url = 'https:///v1'", "must be like"},
        {"an alien provider", "model", "provider = gemini", "is none of: openai anthropic"},
        {"an alien effort", "model", "reasoning = minimal",
         "is none of: as-is none low medium high"},
        {"an alien output field", "model", "output-field = max_new_tokens",
         "is none of: max_completion_tokens max_tokens"},
        {"F8: a price above $1000 per million", "model", "price-input = '$1000.01'",
         "out of range: $0.00 to $1000.00"},
        {"a negative price", "model", "price-input = '-0.15'", "is not an amount"},
        {"a price in euros", "model", "price-input = '0.15 EUR'", "is not an amount"},
        {"a price with an exponent", "model", "price-input = '1e-3'", "is not an amount"},
        {"a price finer than a nano-dollar", "model", "price-input = '0.0000000001'",
         "is not an amount"},
        {"a factor below one", "model", "input-factor = 0.9", "out of range: 1 to 4"},
        {"a factor above four", "model", "input-factor = 4.001", "out of range"},
        {"a factor of four decimals", "model", "input-factor = 1.0001", "is not a factor"},
        {"a factor without decimals", "model", "input-factor = '1.'", "is not a factor"},
        {"F7: a breaker that opens without a failure", "model", "breaker-after = 0",
         "out of range: 1 to 100"},
        {"a breaker that never opens", "model", "breaker-after = 101",
         "out of range: 1 to 100"},
        {"a pause of nothing", "model", "breaker-pause = 0s", "out of range: 1s to 1h"},
        {"a pause above the most", "model", "breaker-pause = 3601s", "out of range: 1s to 1h"},
        {"a fallback that is not there", "model", "fallback = gone",
         "fallback 'gone' is no model of this file"},
        {"a model that is its own fallback", "model", "fallback = demo",
         "fallback 'demo' is the model itself"},
        {"no fallback's name", "model", "fallback = ''", "fallback is empty"},
        {"F52: every page as origin", "site", "allowed-origins = { '*' }",
         "allowed-origins '*' would let every page"},
        {"F52: sandboxed pages as origin", "site", "allowed-origins = { null }",
         "'null' is what any sandboxed frame"},
        {"an origin with a path", "site", "allowed-origins = { 'https://a.example/' }",
         "'https://a.example/' is not an origin such as"},
        {"an origin without a scheme", "site", "allowed-origins = { a.example }",
         "is not an origin"},
        {"a pattern as origin", "site", "allowed-origins = { 'https://*.a.example' }",
         "is not an origin"},
        {"the second origin is wrong", "site",
         "allowed-origins = { 'https://a.example', 'ftp://b.example' }",
         "'ftp://b.example' is not an origin"},
        {"an origin twice", "site",
         "allowed-origins = { https://a.example, HTTPS://A.example:443 }",
         "allowed-origins has 'HTTPS://A.example:443' twice"},
        {"a name as proxy", "site", "trusted-proxies = { proxy.example }",
         "'proxy.example' is not an address or a prefix"},
        {"bits behind the prefix", "site", "trusted-proxies = { 10.0.0.1/8 }",
         "is not an address or a prefix"},
        {"a prefix too long", "site", "trusted-proxies = { 10.0.0.0/33 }",
         "is not an address or a prefix"},
        {"a proxy twice", "site", "trusted-proxies = { 10.0.0.1, 10.0.0.1/32 }",
         "has '10.0.0.1/32' twice"},
        {"an unknown header of proxies", "site", "proxy-header = x-real-ip",
         "is none of: x-forwarded-for forwarded"},
        {"an unknown requirement", "site", "require = cookie", "is none of: none key account"},
        {"another word for yes", "site", "cookie-cross-site = true", "is none of: no yes"},
        {"a secret in the file", "bypass", "secret = hidden-0123456789",
         "bypass: secret is not for the file, which others may be able to read"},
        {"a header of the web server's", "bypass", "header = host",
         "must be the name of a header"},
        {"our own header", "bypass", "header = AUTHORIZATION", "that nothing else uses"},
        {"a header with a colon", "bypass", "header = 'X-A: b'",
         "must be the name of a header"},
        {"a header with an underscore, which a variable cannot tell from -", "bypass",
         "header = X_A", "must be the name of a header"},
        {"a header of 65 letters", "bypass",
         "header = aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggggg",
         "longer than 64"},
        {"places for the owner's calls", "bypass", "unit = concurrent",
         "is none of: calls tokens"},
        {"money for the owner's calls", "bypass", "max = '$1.00'", "is not a whole number"},
        {"a secret file that is not there", "bypass", "secret-file = /nonexistent/s",
         "secret-file '/nonexistent/s': "},
        {"a hook of another kind", "alerts", "url = 'mailto:hidden@a.example'", "must be like"},
        {"a hook with a user", "alerts", "url = 'https://hidden@a.example/x'", "must be like"},
        {"a hook with a fragment", "alerts", "url = 'https://a.example/x#hidden'",
         "must be like"},
        {"a hook with a blank", "alerts", "url = 'https://a.example/x hidden'", "must be like"},
        {"a hook without a host", "alerts", "url = 'https://?hidden'", "must be like"},
        {"no percentages", "alerts", "at = { }", "alerts: at is empty"},
        {"nought percent", "alerts", "at = { 0 }", "'0' is not a percentage"},
        {"over a hundred percent", "alerts", "at = { 80, 101 }", "'101' is not a percentage"},
        {"a percent sign", "alerts", "at = { '80%' }", "is not a percentage"},
        {"percentages that fall", "alerts", "at = { 100, 80 }",
         "at must ascend, and '80' is below"},
        {"a percentage twice", "alerts", "at = { 80, 80 }", "has '80' twice"},
        {"nine percentages", "alerts", "at = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }",
         "has more than 8 entries"},
        {"transcripts for ever", "transcripts", "keep-for = 401d", "out of range: 1d to 400d"},
        {"transcripts for less than a day", "transcripts", "keep-for = 23h", "out of range"},
        {"transcripts without room", "transcripts", "size = 1023K", "out of range: 1M to 1G"},
        {"transcripts by name", "transcripts", "subject = account", "is none of: hash address"},
        {"a timeout above the most", "model", "total-timeout = 16m", "out of range: 1s to 15m"},
        {"control bytes are not echoed", "log", "level = '\303\244\303\244'",
         "level '?"
         "?' is none of"},
        {"a currency that is not plain ASCII", "limit a",
         "per = everyone unit = cost window = day max = '5\342\202\254'",
         "max '5?' is not an amount of dollars such as '$0.15' (it is not plain ASCII)"},
        {"a length of time with another unit", "server", "heartbeat = 5min", "is not a time"},
        {"a key pasted instead of its file is not echoed", "model", "key-file = 'sk-hidden'",
         "key-file must be an absolute path"},
        {"a key file that is not there", "model", "key-file = '/nonexistent/key'",
         "key-file '/nonexistent/key': "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        bool url = strncmp(rows[i].setting, "url", 3) == 0;

        if (strcmp(rows[i].section, "site") == 0)
            snprintf(text, sizeof text, "\nsite { store = '/a' %s }\n", rows[i].setting);
        else if (strcmp(rows[i].section, "model") == 0)
            snprintf(text, sizeof text, SITE "model demo { %s model = m\n%s }\n",
                     rows[i].setting, url ? "" : "url = 'https://a'");
        else
            snprintf(text, sizeof text, SITE "%s { %s }\n", rows[i].section, rows[i].setting);
        must_fail(rows[i].what, text, NULL, rows[i].says);
        assert_non_null(strstr(message, "c.conf:2: "));
        assert_null(strstr(message, "hidden"));
    }
}

static void test_a_lease_has_its_terms(void **state)
{
    static const struct {
        const char *what, *text, *says;
    } rows[] = {
        {"transcripts", "run-directory = '/run/x' }\ntranscripts { keep = yes }",
         "c.conf:1: site: durability lease does not go with transcripts"},
        {"a directory whose name begins like the store's", "run-directory = '/srv/gate-run' }",
         NULL},
        {"a run directory on tmpfs", "run-directory = '/run/pennygate' }", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];

        snprintf(text, sizeof text, "site { store = '/srv/gate' durability = lease %s\n" MODEL,
                 rows[i].text);
        if (rows[i].says != NULL) {
            must_fail(rows[i].what, text, NULL, rows[i].says);
            continue;
        }
        struct config *c = must_load(text);
        assert_true(c->lease);
        config_drop(c);
    }
}

static void test_defaults(void **state)
{
    struct config *c = must_load(SITE MODEL);
    const struct config_model *m = &c->models[0];

    (void)state;
    assert_string_equal(c->store, "/srv/gate");
    assert_null(c->run_directory);
    assert_string_equal(c->secret_file, "/srv/gate/secret");
    assert_null(c->mount);
    assert_false(c->local_time);
    assert_false(c->site_ceiling_none);
    assert_int_equal(c->retention_ms, 7 * 86400000LL);
    assert_int_equal(c->store_size, BOARD_STORE_MIB << 20);
    assert_int_equal(c->max_message_chars, 2000);
    assert_int_equal(c->max_input_chars, 8000);
    assert_int_equal(c->max_history, 10);
    assert_int_equal(c->max_body_bytes, 65536);
    assert_int_equal(c->profile, PROFILE_BOARD);
    assert_int_equal(c->streams, 8);
    assert_int_equal(c->stack_bytes, 131072);
    assert_int_equal(c->buffer_bytes, 262144);
    assert_null(c->socket);
    assert_int_equal(c->socket_mode, 0660);
    assert_int_equal(c->heartbeat_ms, 5000);
    assert_int_equal(c->write_timeout_ms, 30000);
    assert_int_equal(c->stop_ms, 20000);
    assert_int_equal(c->log_target, LOG_TARGET_STDERR);
    assert_int_equal(c->log_level, LOG_LEVEL_INFO);
    assert_int_equal(c->log_format, LOG_FORMAT_WORDS);
    assert_int_equal(c->log_rate, 20);
    assert_string_equal(m->alias, "demo");
    assert_int_equal(m->provider, PROVIDER_OPENAI);
    assert_true(m->stream_usage);
    assert_int_equal(m->reasoning, REASONING_AS_IS);
    assert_string_equal(m->url, "https://api.example/v1");
    assert_string_equal(m->name, "small-1");
    assert_null(m->key);
    assert_string_equal(m->output_field, "max_completion_tokens");
    assert_int_equal(m->price.max_output_tokens, 300);
    assert_int_equal(m->price.overhead_per_call, 64);
    assert_int_equal(m->price.overhead_per_message, 16);
    assert_int_equal(m->price.input_factor_milli, 1000);
    assert_false(m->price.known);
    assert_int_equal(m->connect_timeout_ms, 10000);
    assert_int_equal(m->first_byte_timeout_ms, 60000);
    assert_int_equal(m->idle_timeout_ms, 60000);
    assert_int_equal(m->total_timeout_ms, 120000);
    assert_int_equal(m->breaker_after, 5);
    assert_int_equal(m->breaker_pause_ms, 30000);
    assert_int_equal(c->n_allowed_origins, 0);
    assert_int_equal(c->n_trusted_proxies, 0);
    assert_int_equal(c->proxy_header, PROXY_X_FORWARDED_FOR);
    assert_int_equal(c->require, REQUIRE_NONE);
    assert_false(c->cookie_cross_site);
    assert_true(c->page);
    assert_int_equal(c->n_dashboard_accounts, 0);
    assert_null(c->bypass_secret);
    assert_string_equal(c->bypass_header, "X-Pennygate-Bypass");
    assert_int_equal(c->bypass.subject, SUBJECT_BYPASS);
    assert_int_equal(c->bypass.max, 100);
    assert_null(c->alert_url);
    assert_int_equal(c->n_alert_at, 2);
    assert_int_equal(c->alert_at[0], 80);
    assert_int_equal(c->alert_at[1], 100);
    assert_int_equal(c->alert_timeout_ms, 10000);
    assert_false(c->transcripts);
    assert_false(c->transcripts_address);
    assert_int_equal(c->transcripts_keep_ms, 30 * 86400000LL);
    assert_int_equal(c->transcripts_size, 16 << 20);
    for (unsigned i = 0; i < c->n_limits; i++)
        assert_false(c->limits[i].dry_run || c->limits[i].pace);
    config_drop(c);
}

static void test_every_option_is_taken(void **state)
{
    struct config *c;

    (void)state;
    write_text("prompt", "Be brief.\n\n");
    write_text("key", "sk-123\n");
    {
        char text[4096];

        snprintf(
            text, sizeof text,
            "site { store = /s/t run-directory = /run/x secret-file = /etc/x timezone = local\n"
            " retention = 30d mount = '/ai/' site-ceiling = none store-size = 1G durability = "
            "commit }\n"
            "model gpt-4.1 { provider = openai url = 'http://[::1]:8080/v1/' model = "
            "'org/Model 1'\n"
            " key-file = '%s' max-output-tokens = 65536 output-field = max_tokens price-input "
            "= 2.5\n"
            " price-cached-input = $1 price-cache-write = '$3.125' price-output = '$10.00'\n"
            " price-per-call = '0.001' overhead-per-call = 0 overhead-per-message = 4096\n"
            " input-factor = 1.25 thinking-tokens = 1000 system-prompt-file = '%s' ca-file = "
            "/c\n"
            " connect-timeout = 1s first-byte-timeout = 2m idle-timeout = 15m total-timeout = "
            "900s }\n"
            "model other { url = 'https://b' model = b }\n"
            "request { max-message-chars = 99 max-input-chars = 5000 max-history = 1 "
            "max-body-bytes = 1M }\n"
            "server { streams = 128 stack = 64K socket = '/run/a.sock' socket-mode = 0600\n"
            " socket-group = www-data heartbeat = 30s write-timeout = 5m stop-timeout = 1s }\n"
            "log { target = syslog level = error format = json rate = 1000 }\n",
            scratch_path("key"), scratch_path("prompt"));
        c = must_load(text);
    }
    assert_string_equal(c->run_directory, "/run/x");
    assert_string_equal(c->secret_file, "/etc/x");
    assert_true(c->local_time);
    assert_int_equal(c->retention_ms, 30 * 86400000LL);
    assert_string_equal(c->mount, "/ai");
    assert_true(c->site_ceiling_none);
    assert_int_equal(c->store_size, 1 << 30);
    assert_int_equal(c->n_models, 2);
    assert_string_equal(c->models[0].alias, "gpt-4.1");
    assert_string_equal(c->models[0].url, "http://[::1]:8080/v1");
    assert_string_equal(c->models[0].name, "org/Model 1");
    assert_string_equal(c->models[0].key, "sk-123");
    assert_string_equal(c->models[0].system_prompt, "Be brief.");
    assert_string_equal(c->models[0].output_field, "max_tokens");
    assert_string_equal(c->models[0].ca_file, "/c");
    assert_true(c->models[0].price.known);
    assert_int_equal(c->models[0].price.input_nano, 2500000000);
    assert_int_equal(c->models[0].price.cached_input_nano, 1000000000);
    assert_int_equal(c->models[0].price.cache_write_nano, 3125000000);
    assert_int_equal(c->models[0].price.output_nano, 10000000000);
    assert_int_equal(c->models[0].price.per_call_nano, 1000000);
    assert_int_equal(c->models[0].price.input_factor_milli, 1250);
    assert_int_equal(c->models[0].price.thinking_tokens, 1000);
    assert_int_equal(c->models[0].price.overhead_per_call, 0);
    assert_int_equal(c->models[0].price.overhead_per_message, 4096);
    assert_int_equal(c->models[0].idle_timeout_ms, 900000);
    assert_int_equal(c->max_message_chars, 99);
    assert_int_equal(c->max_body_bytes, 1048576);
    assert_int_equal(c->streams, 128);
    assert_int_equal(c->socket_mode, 0600);
    assert_string_equal(c->socket_group, "www-data");
    assert_int_equal(c->log_target, LOG_TARGET_SYSLOG);
    assert_int_equal(c->log_level, LOG_LEVEL_ERROR);
    assert_int_equal(c->log_format, LOG_FORMAT_JSON);
    assert_int_equal(c->log_rate, 1000);
    /* this file, the secret, a key, a prompt */
    assert_int_equal(c->n_watched, 4);
    assert_ptr_equal(config_model(c, "other"), &c->models[1]);
    assert_ptr_equal(config_model(c, "gpt-4"), &c->models[0]);
    assert_ptr_equal(config_model(c, NULL), &c->models[0]);
    config_drop(c);
}

static void test_options_for_callers_and_the_owner_are_taken(void **state)
{
    char text[4096], shown[CONFIG_VALUE_MAX];
    struct config *c;

    (void)state;
    write_text("bypass", "0123456789abcdef\n");
    write_text("token", "t-1\n");
    snprintf(
        text, sizeof text,
        "site { store = /s allowed-origins = { 'https://a.example', http://b:8080 }\n"
        " trusted-proxies = { 10.0.0.0/8, '::1' } proxy-header = forwarded require = "
        "account cookie-cross-site = yes page = no }\n"
        "model demo { url = 'http://a' model = b breaker-after = 100 breaker-pause = 1h }\n"
        "limit site-day { per = everyone unit = cost window = day max = '$1' dry-run = yes "
        "pace = yes }\n"
        "bypass { secret-file = '%s' header = X-Own unit = cost window = 1h max = '$0.50' "
        "}\n"
        "alerts { url = 'https://hooks.example/secret/?thread=1&x=y' at = { 1, 50, 100 } "
        "timeout = 1m token-file = '%s' ca-file = /c }\n"
        "transcripts { keep = yes keep-for = 1d subject = address size = 1G }\n"
        "dashboard { accounts = { Ann, 'bob@example.org' } }\n",
        scratch_path("bypass"), scratch_path("token"));
    c = must_load(text);
    assert_int_equal(c->n_allowed_origins, 2);
    assert_true(c->allowed_origins[0].https);
    assert_string_equal(c->allowed_origins[1].host, "b");
    assert_int_equal(c->allowed_origins[1].port, 8080);
    assert_int_equal(c->n_trusted_proxies, 2);
    assert_int_equal(c->trusted_proxies[0].bits, 8);
    assert_int_equal(c->trusted_proxies[1].family, 6);
    assert_int_equal(c->proxy_header, PROXY_FORWARDED);
    assert_int_equal(c->require, REQUIRE_ACCOUNT);
    assert_true(c->cookie_cross_site);
    assert_false(c->page);
    assert_int_equal(c->n_dashboard_accounts, 2);
    assert_string_equal(c->dashboard_accounts[0], "Ann");
    assert_string_equal(c->dashboard_accounts[1], "bob@example.org");
    assert_int_equal(c->models[0].breaker_after, 100);
    assert_int_equal(c->models[0].breaker_pause_ms, 3600000);
    assert_string_equal(c->bypass_secret, "0123456789abcdef");
    assert_string_equal(c->bypass_header, "X-Own");
    assert_int_equal(c->bypass.unit, UNIT_COST);
    assert_int_equal(c->bypass.window.seconds, 3600);
    assert_int_equal(c->bypass.max, 500000000);
    assert_string_equal(c->alert_url, "https://hooks.example/secret/?thread=1&x=y");
    assert_int_equal(c->n_alert_at, 3);
    assert_int_equal(c->alert_at[1], 50);
    assert_int_equal(c->alert_timeout_ms, 60000);
    assert_string_equal(c->alert_token, "t-1");
    assert_string_equal(c->alert_ca_file, "/c");
    assert_true(c->transcripts && c->transcripts_address);
    assert_int_equal(c->transcripts_keep_ms, 86400000);
    assert_int_equal(c->transcripts_size, 1 << 30);
    assert_int_equal(c->n_watched, 4); /* this file, the secrets, the token */
    /* the counter of the owner's own calls is the last */
    assert_int_equal(c->n_limits, 5);
    assert_string_equal(c->limits[4].name, "bypass");
    assert_int_equal(c->limits[4].subject, SUBJECT_BYPASS);
    assert_int_equal(c->limits[4].max, 500000000);
    assert_true(c->limits[3].dry_run && c->limits[3].pace);
    /* of what is secret only the host is shown */
    assert_string_equal(config_value_text(config_option(SECTION_ALERTS, "url"), c, shown),
                        "https://hooks.example/...");
    assert_string_equal(config_value_text(config_option(SECTION_BYPASS, "secret"), c, shown),
                        "(set)");
    config_drop(c);
}

static void test_what_is_shown_of_a_hook(void **state)
{
    static const struct {
        const char *url, *shown;
    } rows[] = {{"https://a.example", "https://a.example"},
                {"https://a.example:8443/", "https://a.example:8443/..."},
                {"http://[::1]:80?key=x", "http://[::1]:80/..."}};
    const struct option *o = config_option(SECTION_ALERTS, "url");
    char why[CONFIG_WHY_MAX], text[CONFIG_VALUE_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct config c = {0};

        assert_true(config_value_set(o, rows[i].url, &c, why));
        assert_string_equal(config_value_text(o, &c, text), rows[i].shown);
        free(c.alert_url);
    }
}

/* What check prints can be written into the file again. */
static void test_values_survive_being_written(void **state)
{
    static const struct {
        enum config_section section;
        const char *key, *text;
    } rows[] = {
        {SECTION_SITE, "retention", "36h"},     {SECTION_SITE, "store-size", "1500K"},
        {SECTION_SITE, "timezone", "local"},    {SECTION_SERVER, "socket-mode", "0007"},
        {SECTION_SERVER, "heartbeat", "7s"},    {SECTION_REQUEST, "max-body-bytes", "1025"},
        {SECTION_SERVER, "socket", "/run/a"},   {SECTION_LOG, "target", "syslog"},
        {SECTION_SITE, "durability", "commit"}, {SECTION_SITE, "mount", "/a"},
        {SECTION_SITE, "require", "account"},   {SECTION_BYPASS, "unit", "cost"},
        {SECTION_BYPASS, "window", "2h"},       {SECTION_BYPASS, "max", "$0.25"},
        {SECTION_BYPASS, "header", "X-Own"},    {SECTION_TRANSCRIPTS, "keep-for", "7d"},
        {SECTION_TRANSCRIPTS, "keep", "yes"},   {SECTION_TRANSCRIPTS, "subject", "address"},
    };
    static const struct {
        const char *key, *text, *shown;
    } list[] = {
        {"allowed-origins", "https://a.example , http://[2001:db8::1]:81,https://b:80",
         "{https://a.example, http://[2001:db8::1]:81, https://b:80}"},
        {"trusted-proxies", "0.0.0.0/0,2001:db8::/32", "{0.0.0.0/0, 2001:db8::/32}"},
    };
    struct config c = {0};
    struct config_model m = {0};
    char why[CONFIG_WHY_MAX], text[CONFIG_VALUE_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct option *o = config_option(rows[i].section, rows[i].key);

        assert_true(config_value_set(o, rows[i].text, &c, why));
        assert_string_equal(config_value_text(o, &c, text), rows[i].text);
    }
    assert_true(
        config_value_set(config_option(SECTION_MODEL, "input-factor"), "1.05", &m, why));
    assert_string_equal(
        config_value_text(config_option(SECTION_MODEL, "input-factor"), &m, text), "1.05");
    assert_true(
        config_value_set(config_option(SECTION_MODEL, "price-input"), "0.075", &m, why));
    assert_string_equal(
        config_value_text(config_option(SECTION_MODEL, "price-input"), &m, text), "$0.075");
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const struct option *o = config_option(SECTION_SITE, list[i].key);

        assert_true(config_value_set(o, list[i].text, &c, why));
        assert_string_equal(config_value_text(o, &c, text), list[i].shown);
    }
    for (enum config_section s = 0; s < SECTIONS; s++) {
        if (!config_section_titled(s))
            config_value_free(s, &c);
    }
}

/* Names of 253 letters in a list of 32 are more than a line of check, and are cut. */
static void test_the_longest_list(void **state)
{
    static char text[CONFIG_LIST_MAX * 300], more[CONFIG_LIST_MAX * 300 + 40];
    const struct option *o = config_option(SECTION_SITE, "allowed-origins");
    char why[CONFIG_WHY_MAX], shown[CONFIG_VALUE_MAX];
    struct config *c = calloc(1, sizeof *c);
    size_t n = 0;

    (void)state;
    for (int i = 0; i < CONFIG_LIST_MAX; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%shttps://", i > 0 ? "," : "");
        for (int k = 0; k < 3; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%063d.", 7);
        n += (size_t)snprintf(text + n, sizeof text - n, "%058d.%02d:65535", 7, i);
        text[n - 8] = (char)('a' + i / 10); /* what ends in a number would be an address */
    }
    assert_true(config_value_set(o, text, c, why));
    assert_int_equal(c->n_allowed_origins, CONFIG_LIST_MAX);
    assert_int_equal(strlen(c->allowed_origins[31].host), ORIGIN_HOST_MAX);
    config_value_text(o, c, shown);
    assert_int_equal(strlen(shown), CONFIG_VALUE_MAX - 1);
    assert_string_equal(shown + strlen(shown) - 4, "...}");
    snprintf(more, sizeof more, "%s,https://one.more", text);
    assert_false(config_value_set(o, more, c, why));
    assert_non_null(strstr(why, "has more than 32 entries"));
    assert_int_equal(c->n_allowed_origins, CONFIG_LIST_MAX);
    snprintf(more, sizeof more, "https://%0300d", 7);
    assert_false(config_value_set(o, more, c, why));
    free(c);
}

/* ---- limits ---- */

static const struct limit *limit_named(const struct config *c, const char *name)
{
    for (unsigned i = 0; i < c->n_limits; i++) {
        if (strcmp(c->limits[i].name, name) == 0)
            return &c->limits[i];
    }
    fail_msg("no limit %s", name);
    return NULL;
}

static void assert_limit(const struct config *c, const char *name, enum subject subject,
                         enum unit unit, struct window window, uint64_t max)
{
    const struct limit *l = limit_named(c, name);

    assert_int_equal(l->subject, subject);
    assert_int_equal(l->unit, unit);
    if (unit != UNIT_CONCURRENT)
        assert_true(window_equal(l->window, window));
    assert_int_equal(l->max, max);
}

static const struct window day = {.kind = WINDOW_DAY}, none = {0};

static void test_default_limits(void **state)
{
    struct config *c = must_load(SITE);

    (void)state;
    assert_int_equal(c->n_limits, 4);
    assert_limit(c, "visitor-day", SUBJECT_ADDRESS, UNIT_CALLS, day, 40);
    assert_limit(c, "visitor-burst", SUBJECT_ADDRESS, UNIT_CALLS,
                 (struct window){WINDOW_SLIDING, 10}, 10);
    assert_limit(c, "visitor-at-once", SUBJECT_ADDRESS, UNIT_CONCURRENT, none, 2);
    assert_limit(c, "site-day", SUBJECT_EVERYONE, UNIT_CALLS, day, 600);
    config_drop(c);
}

/* F50: a section of a default's name replaces that one; another adds; none removes the rest. */
static void test_f50_own_limits_leave_the_defaults(void **state)
{
    struct config *c = must_load(
        SITE "limit mine { per = everyone unit = cost window = month max = '$20.00' }\n"
             "limit visitor-day { per = anonymous unit = tokens window = 30d max = 9 }\n"
             "limit free { per = everyone unit = calls window = hour max = unlimited }\n"
             "limit shut { per = address unit = calls window = 1s max = 0 }\n");

    (void)state;
    assert_int_equal(c->n_limits, 7);
    assert_string_equal(c->limits[0].name, "visitor-day");
    assert_limit(c, "visitor-day", SUBJECT_ANONYMOUS, UNIT_TOKENS,
                 (struct window){WINDOW_SLIDING, 30 * 86400}, 9);
    assert_limit(c, "visitor-burst", SUBJECT_ADDRESS, UNIT_CALLS,
                 (struct window){WINDOW_SLIDING, 10}, 10);
    assert_limit(c, "site-day", SUBJECT_EVERYONE, UNIT_CALLS, day, 600);
    assert_limit(c, "mine", SUBJECT_EVERYONE, UNIT_COST, (struct window){WINDOW_MONTH, 0},
                 20000000000);
    assert_limit(c, "free", SUBJECT_EVERYONE, UNIT_CALLS, (struct window){WINDOW_HOUR, 0},
                 LIMIT_UNLIMITED);
    assert_limit(c, "shut", SUBJECT_ADDRESS, UNIT_CALLS, (struct window){WINDOW_SLIDING, 1}, 0);
    config_drop(c);
}

static const char *fallback_of(const struct config *c, const char *alias)
{
    const struct config_model *other = config_fallback(c, config_model(c, alias));

    return other != NULL ? other->alias : "-";
}

/* F13: one hop and no circle, wherever the other model stands in the file. */
static void test_fallbacks(void **state)
{
#define TO(name, other) "model " name " { url = 'http://a' model = b " other " }\n"
    static const struct {
        const char *what, *models, *says;
    } rows[] = {
        {"the other stands behind", TO("a", "fallback = b") TO("b", ""), NULL},
        {"the other stands before", TO("b", "") TO("a", "fallback = b"), NULL},
        {"two have the same", TO("a", "fallback = b") TO("b", "") TO("c", "fallback = b"),
         NULL},
        {"a chain", TO("a", "fallback = b") TO("b", "fallback = c") TO("c", ""),
         ":2: model a: fallback 'b' is a model that has a fallback of its own"},
        {"a circle", TO("a", "fallback = b") TO("b", "fallback = a"),
         "fallback 'b' is a model that has"},
    };
#undef TO
    char text[1024];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "%s%s", SITE, rows[i].models);
        if (rows[i].says != NULL) {
            must_fail(rows[i].what, text, NULL, rows[i].says);
            continue;
        }
        struct config *c = must_load(text);
        assert_string_equal(fallback_of(c, "a"), "b");
        assert_string_equal(fallback_of(c, "b"), "-");
        config_drop(c);
    }
}

static void test_refused_limits(void **state)
{
    static const struct {
        const char *what, *body, *says;
    } rows[] = {
        {"no subject", "unit = calls window = day max = 1", "limit x: per is missing"},
        {"no unit", "per = address window = day max = 1", "unit is missing"},
        {"no max", "per = address unit = calls window = day", "max is missing"},
        {"no window", "per = address unit = calls max = 1", "window is missing"},
        {"an unknown subject", "per = ip unit = calls window = day max = 1",
         "per 'ip' is none of: address visitor account key anonymous everyone"},
        {"the owner's own subject", "per = bypass unit = calls window = day max = 1",
         "per 'bypass' is none of"},
        {"an unknown unit", "per = address unit = requests window = day max = 1",
         "unit 'requests' is none of: calls"},
        {"an unknown window", "per = address unit = calls window = week max = 1",
         "window 'week' is not hour, day, month or a time such as 10s or 7d (a week)"},
        {"a window of nothing", "per = address unit = calls window = 0s max = 1",
         "is not hour, day"},
        {"a window over a year", "per = address unit = calls window = 367d max = 1",
         ", at most 366d"},
        {"concurrent in a window", "per = address unit = concurrent window = day max = 1",
         "does not go with"},
        {"money for calls", "per = address unit = calls window = day max = '$2.00'",
         "max '$2.00' is not a whole"},
        {"a fraction of a call", "per = address unit = calls window = day max = 2.5",
         "is not a whole number"},
        {"octal", "per = address unit = calls window = day max = 040", "is not a whole number"},
        {"negative", "per = address unit = calls window = day max = -1",
         "is not a whole number"},
        {"no limit by a wrap",
         "per = address unit = calls window = day max = 18446744073709551615",
         "is not a whole"},
        {"too large", "per = address unit = calls window = day max = 1000000000000001",
         "out of range"},
        {"money too large", "per = address unit = cost window = day max = '$1000000.01'",
         "out of range"},
        {"infinite money", "per = address unit = cost window = day max = infinite",
         "is not an amount"},
        {"another word for unlimited", "per = address unit = calls window = day max = none",
         "is not a whole"},
        {"pace of places", "per = everyone unit = concurrent max = 3 pace = yes",
         "pace does not go with unit concurrent"},
        {"pace of an interval", "per = everyone unit = calls window = 1h max = 3 pace = yes",
         "pace needs window = hour, day or month"},
        {"pace without a max",
         "per = everyone unit = calls window = day max = unlimited pace = yes",
         "pace does not go with max = unlimited"},
        {"pace for one caller", "per = address unit = calls window = day max = 40 pace = yes",
         "would look broken"},
        {"pace for a key", "per = key unit = calls window = day max = 40 pace = yes",
         "pace is for per = everyone and anonymous"},
        {"pace by another word", "per = everyone unit = calls window = day max = 4 pace = even",
         "pace 'even' is none of: no yes"},
        {"a dry-run by another word", "per = key unit = calls window = day max = 4 dry-run = 1",
         "dry-run '1' is none of: no yes"},
        {"unlimited in capitals", "per = address unit = calls window = day max = Unlimited",
         "is not a whole"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];

        snprintf(text, sizeof text, SITE "limit x { %s }\n", rows[i].body);
        must_fail(rows[i].what, text, NULL, rows[i].says);
        assert_non_null(strstr(message, "c.conf:2: limit x: "));
    }
    must_fail("the name of what bypass counts",
              SITE "limit bypass { per = address unit = calls window = day max = 1 }\n", NULL,
              "c.conf:2: limit bypass: that is the name of what section bypass counts");
    must_fail("a default replaced in part", SITE "limit visitor-day { max = 10 }\n", NULL,
              "limit visitor-day: per is missing");
    must_fail("what is missing is told where its section begins",
              SITE "\nlimit a { per = address unit = calls window = day max = 1 }\n"
                   "limit b {\n # {\n unit = calls\n max = 1\n}\n",
              NULL, "c.conf:4: limit b: per is missing");
    must_fail("a window that is missing",
              SITE "limit a\n{\n\n per = address unit = calls max = 1 }", NULL,
              "c.conf:2: limit a: window is missing");
}

static void test_numbers_of_sections(void **state)
{
    char text[16384];
    size_t n = 0;
    struct config *c;

    (void)state;
    n += (size_t)snprintf(text, sizeof text, SITE);
    for (int i = 4; i < LIMITS_MAX; i++)
        n += (size_t)snprintf(
            text + n, sizeof text - n,
            "limit l%d { per = address unit = tokens window = day max = 1 }\n", i);
    for (int i = 0; i < CONFIG_MODELS_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "model m%d { url = 'http://a' model = b }\n", i);
    c = must_load(text);
    assert_int_equal(c->n_limits, LIMITS_MAX);
    assert_int_equal(c->n_models, CONFIG_MODELS_MAX);
    config_drop(c);
    snprintf(text + n, sizeof text - n, "limit one-more { max = 1 }\n");
    must_fail("a limit too many", text, NULL,
              "more than 32 sections limit, the default limits");
    text[n] = '\0';
    must_fail("no room for the bypass's counter", text,
              "PENNYGATE_BYPASS_SECRET=0123456789abcdef",
              "more than 32 limits, that of bypass");
    snprintf(text + n, sizeof text - n, "model one-more { model = b }\n");
    must_fail("a model too many", text, NULL, "more than 16 sections model");
}

/* The day and nine others fit by default limits and these; sixteen in all. */
static void test_numbers_of_windows(void **state)
{
    char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text, SITE);
    struct config *c;

    (void)state;
    for (int i = 0; i < 14; i++) /* with 10s and the day: sixteen */
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "limit l%d { per = address unit = calls window = %dm max = 1 }\n",
                              i, i + 1);
    c = must_load(text);
    config_drop(c);
    snprintf(text + n, sizeof text - n,
             "limit l { per = address unit = calls window = month max = 1 }\n");
    must_fail("a window too many", text, NULL, "17 different windows");
}

/* ---- the environment ---- */

static void test_overrides(void **state)
{
    static const struct {
        const char *variable;
        const char *limit;
        uint64_t max;
    } rows[] = {
        {"PENNYGATE_VISITOR_LIMIT=3", "visitor-day", 3},
        {"PENNYGATE_SITE_LIMIT=5", "site-day", 5},
        {"PENNYGATE_LIMIT_SITE_DAY_MAX=0", "site-day", 0},
        {"PENNYGATE_LIMIT_VISITOR_AT_ONCE_MAX=unlimited", "visitor-at-once", LIMIT_UNLIMITED},
        {"PENNYGATE_LIMIT_OWN_MAX=$1.50", "own", 1500000000},
    };
    struct config *c;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (load_env(SITE "limit own { per = everyone unit = cost window = day max = 7 }\n",
                     rows[i].variable, &c) != ERROR_NONE)
            fail_msg("%s", message);
        assert_int_equal(limit_named(c, rows[i].limit)->max, rows[i].max);
        config_drop(c);
    }
    assert_int_equal(load_env(SITE, "PENNYGATE_SITE_STORE=/other", &c), ERROR_NONE);
    assert_string_equal(c->store, "/other");
    assert_string_equal(c->secret_file, "/other/secret");
    config_drop(c);
    assert_int_equal(load_env("", "PENNYGATE_SITE_STORE=/other", &c), ERROR_NONE);
    config_drop(c);
    assert_int_equal(load_env(SITE MODEL, "PENNYGATE_MODEL_DEMO_MAX_OUTPUT_TOKENS=7", &c),
                     ERROR_NONE);
    assert_int_equal(c->models[0].price.max_output_tokens, 7);
    config_drop(c);
    assert_int_equal(load_env(SITE, "PENNYGATE_CONFIG=/anything", &c), ERROR_NONE);
    config_drop(c);
    assert_int_equal(load_env("site { store = /a trusted-proxies = { 10.0.0.9 } }",
                              "PENNYGATE_SITE_TRUSTED_PROXIES=10.0.0.1, 10.0.0.2", &c),
                     ERROR_NONE);
    assert_int_equal(c->n_trusted_proxies, 2);
    assert_int_equal(c->trusted_proxies[1].bytes[3], 2);
    config_drop(c);
    assert_int_equal(load_env("site { store = /a trusted-proxies = { 10.0.0.9 } }",
                              "PENNYGATE_SITE_TRUSTED_PROXIES=", &c),
                     ERROR_NONE);
    assert_int_equal(c->n_trusted_proxies, 0);
    config_drop(c);
    assert_int_equal(load_env(SITE, "PENNYGATE_BYPASS_SECRET=0123456789abcdef", &c),
                     ERROR_NONE);
    assert_string_equal(c->bypass_secret, "0123456789abcdef");
    assert_int_equal(c->n_limits, 5);
    config_drop(c);
    assert_int_equal(load_env(SITE
                              "limit l { per = everyone unit = calls window = day max = 9 }",
                              "PENNYGATE_LIMIT_L_DRY_RUN=yes", &c),
                     ERROR_NONE);
    assert_true(limit_named(c, "l")->dry_run);
    config_drop(c);
}

static void test_refused_overrides(void **state)
{
    static const struct {
        const char *what, *variable, *says;
    } rows[] = {
        {"unknown", "PENNYGATE_VISITOR_LIMITS=3",
         "PENNYGATE_VISITOR_LIMITS: no option is called so"},
        {"unknown key", "PENNYGATE_SITE_STOER=/a", "no option is called so"},
        {"unknown limit", "PENNYGATE_LIMIT_NONE_MAX=3", "no option is called so"},
        {"in small letters", "PENNYGATE_site_store=/a", "no option is called so"},
        {"only the prefix", "PENNYGATE_=1", "no option is called so"},
        {"very long",
         "PENNYGATE_"
         "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
         "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=1",
         "no option is called so"},
        {"octal", "PENNYGATE_VISITOR_LIMIT=010", "PENNYGATE_VISITOR_LIMIT: max '010' is not"},
        {"negative", "PENNYGATE_SITE_LIMIT=-1", "PENNYGATE_SITE_LIMIT: max '-1' is not"},
        {"empty", "PENNYGATE_SITE_LIMIT=", "PENNYGATE_SITE_LIMIT: max '' is not"},
        {"an unknown profile", "PENNYGATE_SERVER_PROFILE=pc",
         "PENNYGATE_SERVER_PROFILE: profile 'pc' is none of: router board vps"},
        {"out of range", "PENNYGATE_SERVER_STREAMS=0",
         "PENNYGATE_SERVER_STREAMS: streams '0' is out of range"},
        {"a list with a gap", "PENNYGATE_ALERTS_AT=50,,80", "at '' is not an entry"},
        {"a list that ends in a comma", "PENNYGATE_ALERTS_AT=50,", "at '' is not an entry"},
        {"a list in braces", "PENNYGATE_ALERTS_AT={50}", "at '{50}' is not a percentage"},
        {"F52: every origin", "PENNYGATE_SITE_ALLOWED_ORIGINS=*", "'*' would let every page"},
        {"a secret with a blank", "PENNYGATE_BYPASS_SECRET=01234567 89abcdef",
         "PENNYGATE_BYPASS_SECRET: secret is not one word"},
        {"an empty secret", "PENNYGATE_BYPASS_SECRET=", "secret is empty"},
        {"two that could be meant", "PENNYGATE_LIMIT_A_B_MAX=3", "could mean two options"},
    };
    char *twice[] = {(char[]){"PENNYGATE_SITE_LIMIT=3"},
                     (char[]){"PENNYGATE_LIMIT_SITE_DAY_MAX=4"}, NULL};
    struct config *c;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        must_fail(rows[i].what,
                  SITE "limit a-b { per = address unit = calls window = day max = 1 }\n"
                       "limit a_b { per = address unit = calls window = day max = 1 }\n",
                  rows[i].variable, rows[i].says);
    write_text("c.conf", SITE);
    assert_int_equal(config_load(scratch_path("c.conf"), twice, &c, message), ERROR_SYNTAX);
    assert_non_null(strstr(message, "also set by PENNYGATE_SITE_LIMIT"));
}

/* ---- faults ---- */

struct heard {
    unsigned n;
    char lines[2048];
};

static void tell(void *arg, const char *line)
{
    struct heard *t = arg;
    size_t n = strlen(t->lines);

    t->n++;
    snprintf(t->lines + n, sizeof t->lines - n, "%s\n", line);
}

static void test_faults(void **state)
{
    static const struct {
        const char *what, *text;
        unsigned faults;
        const char *says;
    } rows[] = {
        {"nothing is wrong", SITE MODEL, 0, ""},
        {"no model", SITE, 1, "no model"},
        {"F50: the ceiling was made unlimited",
         SITE MODEL
         "limit site-day { per = everyone unit = calls window = day max = unlimited }\n",
         1, "no limit for everyone"},
        {"F50: the ceiling has another subject",
         SITE MODEL "limit site-day { per = anonymous unit = calls window = day max = 600 }\n",
         1, "no limit for everyone"},
        {"a ceiling over less than a day",
         SITE MODEL "limit site-day { per = everyone unit = calls window = 86399s max = 9 }\n",
         1, "limit site-day for everyone is over less than a day, and there is no other"},
        {"a ceiling over exactly a day",
         SITE MODEL "limit site-day { per = everyone unit = calls window = 1d max = 9 }\n", 0,
         ""},
        {"a ceiling over a month",
         SITE MODEL
         "limit site-day { per = everyone unit = tokens window = month max = 900000 }\n",
         0, ""},
        {"only places are limited",
         SITE MODEL "limit site-day { per = everyone unit = concurrent max = 9 }\n", 1,
         "no limit for everyone"},
        {"no ceiling, on purpose",
         "site { store = /a site-ceiling = none }\n" MODEL
         "limit site-day { per = everyone unit = calls window = day max = unlimited }\n",
         0, ""},
        {"F7: a ceiling of 0 refuses all, and is one",
         SITE MODEL "limit site-day { per = everyone unit = calls window = day max = 0 }\n", 0,
         ""},
        {"F6: a cost limit and no price",
         SITE MODEL "limit spend { per = address unit = cost window = day max = 1 }\n", 1,
         "price-input or price-output is missing"},
        {"F6: a cost limit and half a price",
         SITE "model demo { url = 'http://a' model = b price-input = 1 }\n"
              "limit spend { per = address unit = cost window = day max = 1 }\n",
         1, "price-output is missing"},
        {"half a price without a cost limit",
         SITE "model demo { url = 'http://a' model = b price-output = 1 }\n", 1,
         "one of price-input and price-output"},
        {"F6: a price of 0 is free",
         SITE "model demo { url = 'http://a' model = b price-input = 0 price-output = 0 }\n"
              "limit spend { per = address unit = cost window = day max = 1 }\n",
         0, ""},
        {"a cost limit and prices",
         SITE PRICED "limit spend { per = address unit = cost window = day max = 1 }\n", 0, ""},
        {"F6: a price, and none where its calls can go",
         SITE "model demo { url = 'http://a' model = b price-input = 1 price-output = 1 "
              "fallback = other }\nmodel other { url = 'http://a' model = b }\n",
         1, "model demo has prices, and its fallback other has none"},
        {"F8: the price of one token",
         SITE "model demo { url = 'http://a' model = b price-input = 0.00000015 price-output = "
              "0.0000006 }\n",
         1, "was it meant per token?"},
        {"F8: the lowest price believed",
         SITE
         "model demo { url = 'http://a' model = b price-input = 0.001 price-output = 0.001 }\n",
         0, ""},
        /* 1 byte + 64 + 16 input tokens and 300 output tokens */
        {"one token less than the smallest request",
         SITE MODEL "limit few { per = address unit = tokens window = day max = 380 }\n", 1,
         "reserves 381, the max is 380"},
        {"as many as the smallest request",
         SITE MODEL "limit few { per = address unit = tokens window = day max = 381 }\n", 0,
         ""},
        {"money for less than one request",
         SITE PRICED "limit few { per = address unit = cost window = day max = '$0.000192' }\n",
         1, "the max is $0.000192"},
        {"the API's path, which is appended, written as well",
         SITE "model demo { url = 'https://a/v1/chat/completions/' model = b }\n", 1,
         "url ends in /chat/completions, which is appended"},
        {"the other API's path, written as well",
         SITE "model demo { provider = anthropic url = 'https://a/v1/messages' model = b }\n",
         1, "url ends in /messages, which is appended"},
        {"the one API's path with the other provider",
         SITE "model demo { url = 'https://a/v1/messages' model = b }\n", 0, ""},
        {"a path that only looks like it",
         SITE "model demo { url = 'https://a/my/chat/completions/v1' model = b }\n", 0, ""},
        {"certificates that are not there",
         SITE "model demo { url = 'https://a' model = b ca-file = /nonexistent/ca.pem }\n", 1,
         "ca-file /nonexistent/ca.pem: "},
        {"a directory of certificates",
         SITE "model demo { url = 'https://a' model = b ca-file = /etc }\n", 1,
         "ca-file /etc: "},
        {"any file for certificates",
         SITE "model demo { url = 'https://a' model = b ca-file = /proc/self/status }\n", 0,
         ""},
        {"F50: the only ceiling is a dry-run",
         SITE MODEL "limit site-day { per = everyone unit = calls window = day max = 600 "
                    "dry-run = yes }\n",
         1, "limit site-day for everyone is a dry-run and refuses nothing"},
        {"F50: a dry-run beside a ceiling",
         SITE MODEL
         "limit try { per = everyone unit = calls window = day max = 6 dry-run = yes "
         "}\n",
         0, ""},
        {"a paced ceiling is one",
         SITE MODEL
         "limit site-day { per = everyone unit = calls window = day max = 600 pace = yes }\n",
         0, ""},
        {"a dry-run that would refuse all does not close the site",
         SITE MODEL
         "limit few { per = address unit = tokens window = day max = 9 dry-run = yes }\n",
         0, ""},
        {"F6: even a dry-run that counts cost needs a price",
         SITE MODEL
         "limit m { per = address unit = cost window = day max = 1 dry-run = yes }\n",
         1, "price-input or price-output is missing"},
        {"a cookie for other sites, of which none may ask",
         "site { store = /a cookie-cross-site = yes }\n" MODEL, 1,
         "allowed-origins names no page"},
        {"a cookie for a site that may ask",
         "site { store = /a cookie-cross-site = yes allowed-origins = https://a }\n" MODEL, 0,
         ""},
        {"a limit per visitor that nobody would be",
         "site { store = /a require = key }\n" MODEL
         "limit v { per = visitor unit = calls window = day max = 4 }\n",
         1, "limit v is per visitor, but require leaves none"},
        {"only callers with a key", "site { store = /a require = key }\n" MODEL, 0, ""},
        {"what bypass counts does not matter without a secret",
         SITE MODEL "bypass { unit = cost max = '$1.00' }\n", 0, ""},
        {"a largest request that products could not hold",
         SITE "model demo { url = 'http://a' model = b input-factor = 4 overhead-per-call = "
              "65536 }\n"
              "request { max-input-chars = 1048576 max-body-bytes = 1M }\n",
         1, "lower request { max-input-chars }"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct heard told = {0};
        struct config *c = must_load(rows[i].text);
        unsigned n = config_faults(c, tell, &told);

        if (n != rows[i].faults || told.n != n || strstr(told.lines, rows[i].says) == NULL)
            fail_msg("%s: %u faults: %s", rows[i].what, n, told.lines);
        config_drop(c);
    }
}

static void test_warnings(void **state)
{
    static const struct {
        const char *what, *text;
        unsigned n;
        const char *says;
    } rows[] = {
        {"nothing is odd", SITE MODEL, 0, ""},
        {"F7: a limit of 0",
         SITE MODEL "limit shut { per = key unit = calls window = day max = 0 }\n", 1,
         "limit shut admits nothing"},
        {"a dry-run of 0 refuses nothing",
         SITE MODEL
         "limit shut { per = key unit = calls window = day max = 0 dry-run = yes }\n",
         0, ""},
        {"a dry-run below the smallest request",
         SITE MODEL
         "limit few { per = address unit = tokens window = day max = 380 dry-run = yes }\n",
         1, "limit few would refuse every request to model demo"},
        {"a dry-run of the smallest request",
         SITE MODEL
         "limit few { per = address unit = tokens window = day max = 381 dry-run = yes }\n",
         0, ""},
        {"F50: no limit for one caller",
         SITE MODEL
         "limit visitor-day { per = address unit = calls window = day max = 4 dry-run = yes }\n"
         "limit visitor-burst { per = address unit = calls window = 10s max = unlimited }\n",
         1, "no limit per address:"},
        {"F50: a limit per visitor is none: who drops the cookie is another one",
         SITE MODEL
         "limit visitor-day { per = visitor unit = calls window = day max = 4 }\n"
         "limit visitor-burst { per = everyone unit = calls window = 10s max = 10 }\n",
         2, "no limit per address:"},
        {"F40: cookies can be collected where the address has no limit over as long",
         SITE MODEL "limit visitor-day { per = visitor unit = calls window = day max = 4 }\n",
         1, "limit visitor-day per visitor: each answer to a request without a cookie brings"},
        {"F40: not where it has one, whatever its unit",
         SITE MODEL "limit visitor-day { per = visitor unit = calls window = day max = 4 }\n"
                    "limit day { per = address unit = tokens window = 24h max = 99999 }\n",
         0, ""},
        {"F40: a dry run is none",
         SITE MODEL "limit mine { per = visitor unit = calls window = hour max = 4 }\n"
                    "limit visitor-day { per = address unit = calls window = day max = 9 "
                    "dry-run = yes }\n",
         1, "limit mine per visitor"},
        {"F40: one for an hour is none for a month, beside one for a day",
         SITE MODEL "limit a { per = visitor unit = calls window = hour max = 4 }\n"
                    "limit b { per = visitor unit = calls window = month max = 40 }\n",
         1, "limit b per visitor"},
        {"at the same time is no quota that cookies multiply over a day",
         SITE MODEL "limit a { per = visitor unit = concurrent max = 1 }\n", 0, ""},
        {"a cookie for other sites, and no cookie",
         "site { store = /a cookie-cross-site = yes allowed-origins = 'https://b' }\n" MODEL, 1,
         "cookie-cross-site = yes, but no limit is per visitor"},
        {"a cookie for other sites",
         "site { store = /a cookie-cross-site = yes allowed-origins = 'https://b' }\n" MODEL
         "limit mine { per = visitor unit = calls window = day max = 4 dry-run = yes }\n",
         0, ""},
        {"a budget of less than ten requests",
         SITE MODEL "limit few { per = everyone unit = tokens window = day max = 325239 }\n", 1,
         "limit few holds fewer than ten of the largest requests to model demo"},
        {"a budget of ten requests",
         SITE MODEL "limit few { per = everyone unit = tokens window = day max = 325240 }\n", 0,
         ""},
        {"a limit per key, which not all have",
         SITE MODEL "limit visitor-day { per = key unit = calls window = day max = 4 }\n"
                    "limit visitor-burst { per = key unit = calls window = 10s max = 10 }\n",
         1, "no limit per address:"},
        {"a limit per key, which all must have",
         "site { store = /a require = key }\n" MODEL
         "limit visitor-day { per = key unit = calls window = day max = 4 }\n"
         "limit visitor-burst { per = key unit = calls window = 10s max = 10 }\n",
         0, ""},
        {"the whole of IPv4 as proxies",
         "site { store = /a trusted-proxies = 0.0.0.0/0 }\n" MODEL, 1,
         "trusted-proxies has 0.0.0.0/0: anybody there can choose"},
        {"a half of a /8's neighbourhood",
         "site { store = /a trusted-proxies = 10.0.0.0/7 }\n" MODEL, 1, "10.0.0.0/7: anybody"},
        {"a /8", "site { store = /a trusted-proxies = 10.0.0.0/8 }\n" MODEL, 0, ""},
        {"the whole of IPv6 as proxies", "site { store = /a trusted-proxies = '::/0' }\n" MODEL,
         1, "::/0: anybody"},
        {"a /15", "site { store = /a trusted-proxies = '2400::/15' }\n" MODEL, 1,
         "2400::/15: anybody"},
        {"a /16", "site { store = /a trusted-proxies = '2400::/16' }\n" MODEL, 0, ""},
        {"all that is private in IPv6",
         "site { store = /a trusted-proxies = 'fc00::/7' }\n" MODEL, 0, ""},
        {"more than is private in IPv6",
         "site { store = /a trusted-proxies = 'fc00::/6' }\n" MODEL, 1, "fc00::/6: anybody"},
        {"a header of proxies and no proxies",
         "site { store = /a proxy-header = forwarded }\n" MODEL, 1,
         "proxy-header is read from trusted-proxies alone"},
        {"a header of proxies",
         "site { store = /a proxy-header = forwarded trusted-proxies = 10.0.0.1 }\n" MODEL, 0,
         ""},
        {"alerts that go nowhere", SITE MODEL "alerts { ca-file = /proc/self/status }\n", 1,
         "alerts: without a url"},
        {"alerts over plain http", SITE MODEL "alerts { url = 'http://192.0.2.1/hidden' }\n", 1,
         "go over plain http"},
        {"alerts over plain http to this machine",
         SITE MODEL "alerts { url = 'http://127.0.0.1:9/x' }\n", 0, ""},
        {"alerts over plain http to this machine, by IPv6",
         SITE MODEL "alerts { url = 'http://[::1]:9/x' }\n", 0, ""},
        {"alerts over plain http to this machine, by name",
         SITE MODEL "alerts { url = 'http://localhost:9/x' }\n", 0, ""},
        {"a host whose name begins as this machine's address",
         SITE MODEL "alerts { url = 'http://127.example.org/hidden' }\n", 1, "over plain http"},
        {"a host whose name begins as this machine's whole address",
         SITE MODEL "alerts { url = 'http://127.0.0.1.example.org/hidden' }\n", 1,
         "over plain http"},
        {"a host whose name begins as this machine's",
         SITE MODEL "alerts { url = 'http://localhost.example.org/hidden' }\n", 1,
         "over plain http"},
        {"a host whose name is decoded",
         SITE MODEL "alerts { url = 'http://127.0.0.1%2eexample.org/hidden' }\n", 1,
         "over plain http"},
        {"another machine by IPv6", SITE MODEL "alerts { url = 'http://[::2]/hidden' }\n", 1,
         "over plain http"},
        {"alerts with certificates that are not there",
         SITE MODEL "alerts { url = 'https://a/hidden' ca-file = /nonexistent }\n", 1,
         "alerts: ca-file /nonexistent: no file that can be read"},
        {"a bound that another makes useless",
         SITE MODEL "request { max-message-chars = 8001 }\n", 1,
         "max-message-chars is above max-input-chars"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct heard told = {0}, faults = {0};
        struct config *c = must_load(rows[i].text);
        unsigned n = config_warnings(c, tell, &told);

        if (n != rows[i].n || told.n != n || strstr(told.lines, rows[i].says) == NULL)
            fail_msg("%s: %u warnings: %s", rows[i].what, n, told.lines);
        if (config_faults(c, tell, &faults) != 0)
            fail_msg("%s: a fault: %s", rows[i].what, faults.lines);
        assert_null(strstr(told.lines, "hidden"));
        config_drop(c);
    }
}

static void test_bypass_secrets(void **state)
{
    static const struct {
        const char *what, *content, *variable;
        mode_t mode;
        const char *says, *fault;
    } rows[] = {
        {"a secret of 16 characters", "0123456789abcde~\n", NULL, 0600, NULL, NULL},
        {"one that its group may read", "0123456789abcde~", NULL, 0640, NULL, NULL},
        {"one that all may read", "0123456789abcde~", NULL, 0604, NULL,
         "bypass: others can read secret-file"},
        {"one of 15 characters", "0123456789abcde", NULL, 0600, NULL,
         "shorter than 16 characters"},
        {"one of 15 characters in the environment", NULL,
         "PENNYGATE_BYPASS_SECRET=0123456789abcde", 0600, NULL, "shorter than 16 characters"},
        {"one of 16 characters in the environment", NULL,
         "PENNYGATE_BYPASS_SECRET=0123456789abcde~", 0600, NULL, NULL},
        {"one with a blank", "01234567 89abcdef", NULL, 0600,
         "secret-file names a file that is not", NULL},
        {"one in quotes", "'0123456789abcdef'", NULL, 0600, "without NAME= and quotes", NULL},
        {"an empty file", "\n", NULL, 0600, "names a file without text", NULL},
        {"one in the file and one in the environment", "0123456789abcdef",
         "PENNYGATE_BYPASS_SECRET=0123456789abcdef", 0600, "one is enough", NULL},
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct heard told = {0};
        struct config *c;
        unsigned n;

        snprintf(text, sizeof text, SITE MODEL "bypass { %s%s%s }\n",
                 rows[i].content != NULL ? "secret-file = '" : "",
                 rows[i].content != NULL ? scratch_path("bypass") : "",
                 rows[i].content != NULL ? "'" : "");
        if (rows[i].content != NULL)
            write_bytes("bypass", rows[i].content, strlen(rows[i].content), rows[i].mode);
        if (rows[i].says != NULL) {
            must_fail(rows[i].what, text, rows[i].variable, rows[i].says);
            assert_null(strstr(message, "0123"));
            continue;
        }
        if (load_env(text, rows[i].variable, &c) != ERROR_NONE)
            fail_msg("%s: %s", rows[i].what, message);
        n = config_faults(c, tell, &told);
        if (n != (rows[i].fault != NULL) ||
            (rows[i].fault != NULL && strstr(told.lines, rows[i].fault) == NULL))
            fail_msg("%s: %u faults: %s", rows[i].what, n, told.lines);
        assert_null(strstr(told.lines, "0123"));
        if (n == 0)
            assert_string_equal(c->bypass_secret, "0123456789abcde~");
        if (c->bypass_loose)
            assert_true(c->bypass_secret == NULL && c->n_limits == 4);
        config_drop(c);
    }
    write_text("bypass", "0123456789abcdef");
    snprintf(text, sizeof text,
             SITE MODEL "bypass { secret-file = '%s' unit = cost max = $1 }\n",
             scratch_path("bypass"));
    {
        struct heard told = {0};
        struct config *c = must_load(text);

        assert_int_equal(config_faults(c, tell, &told), 1); /* no price to count by */
        config_drop(c);
    }
}

static void test_alert_tokens(void **state)
{
    char text[1024];
    struct heard told = {0};
    struct config *c;

    (void)state;
    snprintf(text, sizeof text, SITE MODEL "alerts { url = 'https://a'\ntoken-file = '%s' }\n",
             scratch_path("token"));
    write_bytes("token", "t-1\n", 4, 0644);
    c = must_load(text);
    assert_true(c->alert_token_loose && c->alert_token == NULL);
    assert_int_equal(config_faults(c, tell, &told), 1);
    assert_non_null(strstr(told.lines, "alerts: others can read token-file"));
    config_drop(c);
    write_bytes("token", "a token\n", 8, 0600);
    must_fail("a token of two words", text, NULL, "c.conf:4: alerts: token-file names a file");
    assert_int_equal(unlink(scratch_path("token")), 0);
    must_fail("a token that is not there", text, NULL, "token-file '");
}

static void test_files_named(void **state)
{
    static const struct {
        const char *what;
        const char *content;
        size_t n;
        mode_t mode;
        const char *says, *fault;
    } rows[] = {
        {"a key", "sk-1\n", 5, 0600, NULL, NULL},
        {"a key that its group may read", "sk-1\n", 5, 0640, NULL, NULL},
        {"a key that all may read", "sk-1\n", 5, 0644, NULL, "others can read key-file"},
        {"a key that its group may write", "sk-1\n", 5, 0660, NULL, "others can read key-file"},
        {"an empty key", "\n", 1, 0600, "names a file without text", NULL},
        {"a key over two lines", "sk-1\nX-Admin: 1\n", 16, 0600, "not one line with a key",
         NULL},
        {"a key with a NUL", "sk\0-1\n", 6, 0600, "names a file without text", NULL},
        {"a key in UTF-8", "sk-\303\244\n", 6, 0600, "not one line with a key", NULL},
        {"a line of an environment file", "OPENAI_API_KEY=sk-1\n", 20, 0600,
         "without NAME= and quotes", NULL},
        {"the same in small letters", "key=sk-1\n", 9, 0600, "without NAME= and quotes", NULL},
        {"a key in \" quotes", "\"sk-1\"\n", 7, 0600, "without NAME= and quotes", NULL},
        {"a key in ' quotes", "'sk-1'\n", 7, 0600, "without NAME= and quotes", NULL},
    };
    char text[1024];
    struct config *c;

    (void)state;
    snprintf(text, sizeof text,
             SITE "model demo { url = 'http://a' model = b\nkey-file = '%s' }\n",
             scratch_path("key"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct heard told = {0};

        write_bytes("key", rows[i].content, rows[i].n, rows[i].mode);
        if (rows[i].says != NULL) {
            must_fail(rows[i].what, text, NULL, rows[i].says);
            assert_null(strstr(message, "sk"));
            continue;
        }
        c = must_load(text);
        assert_int_equal(config_faults(c, tell, &told), rows[i].fault != NULL);
        if (rows[i].fault != NULL) {
            assert_non_null(strstr(told.lines, rows[i].fault));
            assert_null(c->models[0].key); /* what others could have put there is not sent */
        } else {
            assert_string_equal(c->models[0].key, "sk-1");
        }
        config_drop(c);
    }
    write_text("key", "c2stYWJj==\n"); /* what base64 ends in is no NAME= */
    c = must_load(text);
    assert_string_equal(c->models[0].key, "c2stYWJj==");
    config_drop(c);
    snprintf(text, sizeof text,
             SITE "model demo { url = 'http://a' model = b system-prompt-file = '%s' }\n",
             scratch_path("prompt"));
    write_bytes("prompt", "\377\376", 2, 0644);
    must_fail("a prompt that is not UTF-8", text, NULL, "is not UTF-8");
    write_bytes("prompt", "Gr\303\274\303\237 Gott\n", 12, 0644);
    config_drop(must_load(text));
}

static void test_most_a_day_can_cost(void **state)
{
    static const struct {
        const char *what, *text;
        uint64_t nano;
    } rows[] = {
        {"a price is unknown", SITE MODEL, UINT64_MAX},
        /* 600 times 32,000 + 64 + 160 input tokens at $0.15 and 300 output tokens at $0.60 */
        {"calls at the largest request's price", SITE PRICED,
         600 * (32224 * 150ULL + 300 * 600)},
        {"money over a day",
         SITE PRICED "limit m { per = everyone unit = cost window = day max = '$2.00' }\n",
         2000000000},
        {"money over a month",
         SITE PRICED "limit m { per = everyone unit = cost window = month max = '$2.50' }\n",
         2500000000},
        {"money over an hour counts 24 times",
         SITE PRICED "limit m { per = everyone unit = cost window = hour max = '$0.05' }\n",
         1200000000},
        {"one address's money bounds no day",
         SITE PRICED "limit m { per = address unit = cost window = day max = '$0.01' }\n",
         600 * (32224 * 150ULL + 300 * 600)},
        {"a dry-run bounds nothing",
         SITE PRICED
         "limit m { per = everyone unit = cost window = day max = '$0.01' dry-run = "
         "yes }\n",
         600 * (32224 * 150ULL + 300 * 600)},
        {"a paced day costs no more than its max",
         SITE PRICED
         "limit m { per = everyone unit = cost window = day max = '$2.00' pace = yes "
         "}\n",
         2000000000},
        {"nothing bounds it",
         "site { store = /a site-ceiling = none }\n" PRICED
         "limit site-day { per = everyone unit = calls window = day max = unlimited }\n",
         UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct config *c = must_load(rows[i].text);

        if (config_day_nano(c) != rows[i].nano)
            fail_msg("%s: %llu", rows[i].what, (unsigned long long)config_day_nano(c));
        config_drop(c);
    }
}

static void test_most_that_bypass_can_cost_a_day(void **state)
{
    static const struct {
        const char *what, *models, *options;
        uint64_t nano;
    } rows[] = {
        {"a hundred calls", PRICED, "", 100 * (32224 * 150ULL + 300 * 600)},
        {"money", PRICED, "unit = cost max = '$0.25'", 250000000},
        {"money an hour counts 24 times", PRICED, "unit = cost window = hour max = '$0.25'",
         6000000000},
        {"nothing", PRICED, "max = 0", 0},
        {"without a bound", PRICED, "max = unlimited", UINT64_MAX},
        {"at a price that is unknown", MODEL, "", UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        struct config *c;

        snprintf(text, sizeof text, SITE "%sbypass { %s }\n", rows[i].models, rows[i].options);
        c = must_load(text);
        assert_int_equal(config_bypass_day_nano(c), 0); /* there is no secret */
        config_drop(c);
        assert_int_equal(load_env(text, "PENNYGATE_BYPASS_SECRET=0123456789abcdef", &c),
                         ERROR_NONE);
        if (config_bypass_day_nano(c) != rows[i].nano)
            fail_msg("%s: %llu", rows[i].what, (unsigned long long)config_bypass_day_nano(c));
        config_drop(c);
    }
}

/* ---- changes ---- */

static void test_a_change_is_seen(void **state)
{
    char text[3 * PATH_MAX];
    struct config *c;

    (void)state;
    write_text("key", "sk-1\n");
    snprintf(text, sizeof text,
             "site { store = '%s' }\nmodel a { url = 'http://a' model = b key-file = '%s' }\n",
             scratch_directory, scratch_path("key"));
    c = must_load(text);
    assert_false(config_changed(c));
    write_text("key", "sk-22\n");
    assert_true(config_changed(c));
    config_drop(c);
    c = must_load(text);
    assert_false(config_changed(c));
    write_text("secret", "00");
    assert_true(config_changed(c));
    config_drop(c);
    c = must_load(text);
    assert_false(config_changed(c));
    assert_int_equal(unlink(scratch_path("c.conf")), 0);
    assert_true(config_changed(c));
    config_drop(c);
    assert_int_equal(unlink(scratch_path("secret")), 0);
}

/* F53: whoever has the old secret of the bypass must not keep it. */
static void test_f53_changed_secrets_are_seen(void **state)
{
    static const char *const options[] = {"bypass { secret-file", "alerts { token-file"};

    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char text[1024];
        struct config *c;

        write_text("named", "0123456789abcdef");
        snprintf(text, sizeof text, SITE "%s = '%s' }\n", options[i], scratch_path("named"));
        c = must_load(text);
        assert_false(config_changed(c));
        write_text("named", "fedcba9876543210");
        assert_true(config_changed(c));
        config_drop(c);
        c = must_load(text);
        write_bytes("named", "fedcba9876543210", 16, 0644);
        assert_int_equal(chmod(scratch_path("named"), 0644), 0);
        assert_true(config_changed(c)); /* only its mode */
        config_drop(c);
    }
    assert_int_equal(unlink(scratch_path("named")), 0);
}

static void test_what_can_be_swapped(void **state)
{
    static const struct {
        const char *what, *text;
        bool swappable;
    } rows[] = {
        {"nothing changed", SITE, true},
        {"a limit",
         SITE "limit site-day { per = everyone unit = calls window = day max = 3 }\n", true},
        {"a model", SITE MODEL, true},
        {"the zone", "site { store = '/srv/gate' timezone = local }\n", true},
        {"F53: origins", "site { store = '/srv/gate' allowed-origins = https://a }\n", true},
        {"F53: proxies", "site { store = '/srv/gate' trusted-proxies = 10.0.0.1 }\n", true},
        {"F53: what a caller must show", "site { store = '/srv/gate' require = key }\n", true},
        {"F53: what the owner's calls may use", SITE "bypass { max = 1 }\n", true},
        {"alerts", SITE "alerts { url = 'https://a' at = 5 }\n", true},
        {"for how long transcripts are kept", SITE "transcripts { keep-for = 1d }\n", true},
        {"whether transcripts are kept", SITE "transcripts { keep = yes }\n", false},
        {"the transcripts' size", SITE "transcripts { size = 17M }\n", false},
        {"the heartbeat", SITE "server { heartbeat = 6s }\n", true},
        {"the store", "site { store = '/srv/gate2' }\n", false},
        {"the secret", "site { store = '/srv/gate' secret-file = '/etc/x' }\n", false},
        {"the run directory", "site { store = '/srv/gate' run-directory = '/run/x' }\n", false},
        {"the store's size", "site { store = '/srv/gate' store-size = 64M }\n", false},
        {"streams", SITE "server { streams = 9 }\n", false},
        {"stacks", SITE "server { stack = 256K }\n", false},
        {"buffers", SITE "server { buffer = 16K }\n", false},
        {"the profile", SITE "server { profile = vps }\n", false},
        {"the socket", SITE "server { socket = '/run/a' }\n", false},
        {"the log", SITE "log { level = error }\n", false},
    };
    struct config *running = must_load(SITE);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct config *fresh = must_load(rows[i].text);

        if (config_swappable(running, fresh) != rows[i].swappable)
            fail_msg("%s", rows[i].what);
        config_drop(fresh);
    }
    config_drop(running);
}

static void test_references(void **state)
{
    struct config *c = must_load(SITE);

    (void)state;
    assert_ptr_equal(config_hold(c), c);
    config_drop(c);
    assert_string_equal(c->store, "/srv/gate");
    config_drop(c);
    config_drop(NULL);
}

static void test_policy(void **state)
{
    struct config *c = must_load(SITE "server { streams = 5 }\n");
    struct policy p = config_policy(c, false);

    (void)state;
    assert_ptr_equal(p.limits, c->limits);
    assert_int_equal(p.n_limits, 4);
    assert_int_equal(p.site_streams, 0);
    assert_int_equal(p.retention_ms, 7 * 86400000LL);
    assert_int_equal(config_policy(c, true).site_streams, 5);
    assert_int_equal(p.n_alert_at, 2);
    assert_false(p.alert_deliver); /* without a url nobody would take what is queued */
    config_drop(c);
    c = must_load(SITE "alerts { url = 'https://a' at = { 7, 9 } }\n");
    p = config_policy(c, false);
    assert_int_equal(p.n_alert_at, 2);
    assert_int_equal(p.alert_at[1], 9);
    assert_true(p.alert_deliver);
    config_drop(c);
}

static void test_server_defaults(void **state)
{
    struct config *c = must_load(SITE), d;

    (void)state;
    config_server_defaults(&d);
    assert_int_equal(d.streams, c->streams);
    assert_int_equal(d.stack_bytes, c->stack_bytes);
    assert_int_equal(d.write_timeout_ms, c->write_timeout_ms);
    assert_int_equal(d.stop_ms, c->stop_ms);
    assert_int_equal(d.log_level, c->log_level);
    assert_null(d.store);
    config_drop(c);
}

static void test_what_a_process_is_built_by(void **state)
{
    struct config *c = must_load(SITE);
    struct config_server server;

    (void)state;
    assert_true(config_server(NULL, &server));
    assert_int_equal(server.streams, c->streams);
    assert_int_equal(server.stack_bytes, c->stack_bytes);
    assert_int_equal(server.write_timeout_ms, c->write_timeout_ms);
    assert_int_equal(server.stop_ms, c->stop_ms);
    c->streams = 3;
    c->stop_ms = 7;
    assert_true(config_server(c, &server));
    assert_int_equal(server.streams, 3);
    assert_int_equal(server.stop_ms, 7);
    config_drop(c);
}

static void test_a_span_is_no_finer_than_is_of_use(void **state)
{
    static const struct {
        uint64_t s;
        const char *says;
    } rows[] = {
        {0, "0s"},          {59, "59s"},
        {7199, "7199s"},    {7200, "2h"},
        {7200 + 59, "2h"},  {7200 + 60, "121m"},
        {10799, "179m"},    {2 * 86400 - 1, "2879m"},
        {2 * 86400, "2d"},  {2 * 86400 + 3599, "2d"},
        {49 * 3600, "49h"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[CONFIG_VALUE_MAX];

        assert_string_equal(config_value_span(rows[i].s * 1000 + 999, text), rows[i].says);
    }
}

/* ---- profiles ---- */

static void test_a_profile_is_a_set_of_defaults(void **state)
{
    static const struct {
        const char *what, *text, *variable;
        struct {
            unsigned streams, stack_kib, buffer_kib, store_mib, transcripts_mib;
        } of;
    } rows[] = {
        {"a router", "server { profile = router }\n", NULL, {4, 64, 64, 4, 4}},
        {"a board", "server { profile = board }\n", NULL, {8, 128, 256, BOARD_STORE_MIB, 16}},
        {"without one", "", NULL, {8, 128, 256, BOARD_STORE_MIB, 16}},
        {"a vps", "server { profile = vps }\n", NULL, {32, 128, 512, 64, 64}},
        {"of the environment",
         "server { profile = vps }\n",
         "PENNYGATE_SERVER_PROFILE=router",
         {4, 64, 64, 4, 4}},
        {"what is written wins, wherever it stands",
         "server { streams = 5 profile = router stack = 96K }\ntranscripts { size = 5M }\n",
         NULL,
         {5, 96, 64, 4, 5}},
        {"also if it is written for a board",
         "server { profile = router streams = 8 }\n",
         NULL,
         {8, 64, 64, 4, 4}},
        {"and in the environment",
         "server { profile = router }\n",
         "PENNYGATE_SITE_STORE_SIZE=6M",
         {4, 64, 64, 6, 4}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        struct config *c;

        snprintf(text, sizeof text, "%s%s", SITE, rows[i].text);
        c = must_load_env(text, rows[i].variable);
        if (c->streams != rows[i].of.streams || c->stack_bytes >> 10 != rows[i].of.stack_kib ||
            c->buffer_bytes >> 10 != rows[i].of.buffer_kib ||
            c->store_size >> 20 != rows[i].of.store_mib ||
            c->transcripts_size >> 20 != rows[i].of.transcripts_mib)
            fail_msg("%s: %u streams, %zu, %zu, %zu, %zu bytes", rows[i].what, c->streams,
                     c->stack_bytes, c->buffer_bytes, c->store_size, c->transcripts_size);
        config_drop(c);
    }
}

/* ---- the manual page ---- */

#define MANUAL "gateway/pennygate.conf.5" /* tests run in the root of the tree */

/* The text of an option's item in its section, or NULL. */
static char *manual_item(const char *manual, const struct option *o)
{
    char head[64], item[64];
    const char *begin, *next, *end;

    snprintf(head, sizeof head, ".Ss %s", config_section_names[o->section]);
    snprintf(item, sizeof item, ".It Cm %s = ", o->key);
    begin = strstr(manual, head);
    next = begin != NULL ? strstr(begin + 1, ".Ss ") : NULL;
    begin = begin != NULL ? strstr(begin, item) : NULL;
    if (begin == NULL || (next != NULL && begin > next))
        return NULL;
    end = strstr(begin, "\n.El");
    next = strstr(begin + 1, "\n.It ");
    if (next != NULL && next < end)
        end = next;
    return strndup(begin, (size_t)(end - begin));
}

/* How a number of this option is written. */
static const char *number_text(const struct option *o, uint64_t v, char out[CONFIG_VALUE_MAX])
{
    union {
        struct config config;
        struct config_model model;
        struct limit limit;
    } base;
    uint32_t v32 = (uint32_t)v;

    memset(&base, 0, sizeof base);
    if (o->width == sizeof v32)
        memcpy((char *)&base + o->offset, &v32, sizeof v32);
    else
        memcpy((char *)&base + o->offset, &v, sizeof v);
    return config_value_text(o, &base, out);
}

static void assert_says(const struct option *o, const char *item, const char *text)
{
    if (strstr(item, text) == NULL)
        fail_msg("pennygate.conf(5), %s: does not say \"%s\"", o->key, text);
}

/* The value of an item's example, without quotes and braces; false: there is none. */
static bool example_of(const struct option *o, const char *item, char out[CONFIG_VALUE_MAX])
{
    char head[96];
    const char *value;
    size_t n = 0;

    snprintf(head, sizeof head, "\nExample:\n.Ql %s = ", o->key);
    value = strstr(item, head);
    if (value == NULL)
        return false;
    for (value += strlen(head); *value != '\n' && *value != '\0'; value++) {
        if (strchr("'{}", *value) == NULL && n + 1 < CONFIG_VALUE_MAX)
            out[n++] = *value;
    }
    out[n] = '\0';
    if (n < 2 || strcmp(out + n - 2, " .") != 0)
        return false;
    out[n - 2] = '\0';
    return true;
}

static void test_the_manual_has_examples(void **state)
{
    struct config c = {0};
    struct config_model m = {0};
    struct limit l = {0};
    char *manual = NULL, value[CONFIG_VALUE_MAX], why[CONFIG_WHY_MAX];
    size_t n;

    (void)state;
    assert_int_equal(file_read(MANUAL, 1 << 20, &manual, &n), ERROR_NONE);
    for (unsigned i = 0; i < config_options_n; i++) {
        const struct option *o = &config_options[i];
        char *item = manual_item(manual, o);
        void *base = o->section == SECTION_MODEL   ? (void *)&m
                     : o->section == SECTION_LIMIT ? (void *)&l
                                                   : (void *)&c;

        if ((o->flags & OPTION_ENVIRONMENT) != 0)
            assert_says(o, item, "\nExample:\n.Ql PENNYGATE_");
        else if (!example_of(o, item, value) || !config_value_set(o, value, base, why))
            fail_msg("pennygate.conf(5), %s: the example", o->key);
        free(item);
    }
    for (enum config_section s = 0; s < SECTIONS; s++) {
        if (!config_section_titled(s))
            config_value_free(s, &c);
    }
    config_value_free(SECTION_MODEL, &m);
    free(manual);
}

static void test_the_manual_tells_the_table(void **state)
{
    char *manual = NULL;
    size_t n;
    unsigned items = 0;

    (void)state;
    assert_int_equal(file_read(MANUAL, 1 << 20, &manual, &n), ERROR_NONE);
    for (unsigned i = 0; i < config_options_n; i++) {
        const struct option *o = &config_options[i];
        char *item = manual_item(manual, o), text[2 * CONFIG_VALUE_MAX + 16];
        char least[CONFIG_VALUE_MAX], most[CONFIG_VALUE_MAX];

        if (item == NULL)
            fail_msg("pennygate.conf(5) has no %s %s", config_section_names[o->section],
                     o->key);
        if ((o->flags & OPTION_REQUIRED) != 0)
            assert_says(o, item, "Required.");
        if (o->fallback != NULL) {
            snprintf(text, sizeof text, "Default: %s%s", o->fallback,
                     o->kind == OPTION_SIZE ? "" : ".");
            assert_says(o, item,
                        strcmp(o->key, "store-size") == 0
                            ? "Default: 32M, on machines of 32 bits 16M."
                            : text);
        } else if ((o->flags & OPTION_REQUIRED) == 0 && o->kind != OPTION_WINDOW) {
            assert_says(o, item, "Default: ");
        }
        if (o->kind >= OPTION_COUNT && o->kind <= OPTION_MODE) {
            snprintf(text, sizeof text, "From %s to %s.", number_text(o, o->min, least),
                     number_text(o, o->max, most));
            assert_says(o, item, text);
        }
        for (unsigned k = 0; o->words != NULL && o->words[k] != NULL; k++)
            assert_says(o, item, o->words[k] + (o->words[k][0] == '!'));
        free(item);
    }
    for (const char *p = manual; (p = strstr(p, "\n.It Cm ")) != NULL; p++)
        items++;
    assert_int_equal(items, config_options_n);
    free(manual);
}

/* Each row of the table of profiles, with what the option has by itself where that is meant. */
static void test_the_manual_tells_the_profiles(void **state)
{
    char *manual = NULL;
    size_t n;

    (void)state;
    assert_int_equal(file_read(MANUAL, 1 << 20, &manual, &n), ERROR_NONE);
    for (unsigned i = 0; i < config_profiles_n; i++) {
        const struct option_profile *p = &config_profiles[i];
        const struct option *o = config_option((enum config_section)p->section, p->key);
        char line[128];
        int k = snprintf(line, sizeof line, "\n.It Ic %s Ta %s", p->key,
                         config_section_names[p->section]);

        assert_non_null(o);
        for (unsigned j = 0; j < PROFILES; j++) {
            const char *text = p->fallback[j] != NULL ? p->fallback[j] : o->fallback;

            if (strcmp(p->key, "store-size") == 0 && j == PROFILE_BOARD)
                text = "32M"; /* as it is on most machines */
            k += snprintf(line + k, sizeof line - (size_t)k, " Ta %s", text);
        }
        snprintf(line + k, sizeof line - (size_t)k, "\n");
        if (strstr(manual, line) == NULL)
            fail_msg("pennygate.conf(5) has no line%s", line);
    }
    free(manual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_syntax),
        cmocka_unit_test(test_friendly_syntax),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_accounts),
        cmocka_unit_test(test_a_broken_file_leaves_nothing_behind),
        cmocka_unit_test(test_what_is_no_plain_file),
        cmocka_unit_test(test_refused_values),
        cmocka_unit_test(test_a_lease_has_its_terms),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_option_is_taken),
        cmocka_unit_test(test_options_for_callers_and_the_owner_are_taken),
        cmocka_unit_test(test_what_is_shown_of_a_hook),
        cmocka_unit_test(test_the_longest_list),
        cmocka_unit_test(test_values_survive_being_written),
        cmocka_unit_test(test_default_limits),
        cmocka_unit_test(test_f50_own_limits_leave_the_defaults),
        cmocka_unit_test(test_fallbacks),
        cmocka_unit_test(test_refused_limits),
        cmocka_unit_test(test_numbers_of_sections),
        cmocka_unit_test(test_numbers_of_windows),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_refused_overrides),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_bypass_secrets),
        cmocka_unit_test(test_alert_tokens),
        cmocka_unit_test(test_files_named),
        cmocka_unit_test(test_most_a_day_can_cost),
        cmocka_unit_test(test_most_that_bypass_can_cost_a_day),
        cmocka_unit_test(test_a_change_is_seen),
        cmocka_unit_test(test_f53_changed_secrets_are_seen),
        cmocka_unit_test(test_what_can_be_swapped),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_policy),
        cmocka_unit_test(test_server_defaults),
        cmocka_unit_test(test_what_a_process_is_built_by),
        cmocka_unit_test(test_a_span_is_no_finer_than_is_of_use),
        cmocka_unit_test(test_a_profile_is_a_set_of_defaults),
        cmocka_unit_test(test_the_manual_tells_the_table),
        cmocka_unit_test(test_the_manual_tells_the_profiles),
        cmocka_unit_test(test_the_manual_has_examples),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
