/*
 * libcurl as a table of functions, so that it can be loaded when it is first needed: refusals
 * and CGI must not pay its 12 ms and 2 MB. The one file that includes curl/curl.h. With
 * CURL_LINKED (static builds) the table holds the linked functions.
 */
#ifndef GATEWAY_LIBCURL_H
#define GATEWAY_LIBCURL_H

#define CURL_DISABLE_TYPECHECK /* calls go through the table */
#include <curl/curl.h>
#include <stdbool.h>

/* clang-format off */
#define LIBCURL_SYMBOLS(use)                                                            \
    use(global_init) use(version_info)                                                  \
    use(easy_init) use(easy_cleanup) use(easy_reset) use(easy_setopt) use(easy_getinfo) \
    use(easy_pause) use(easy_strerror) use(slist_append) use(slist_free_all)            \
    use(multi_init) use(multi_cleanup) use(multi_setopt) use(multi_add_handle)          \
    use(multi_remove_handle) use(multi_socket_action) use(multi_info_read)              \
    use(multi_perform) use(multi_poll)                                                  \
    use(share_init) use(share_setopt) use(share_cleanup)
/* clang-format on */

#define LIBCURL_MEMBER(name) __typeof__(curl_##name) *name;
struct libcurl {
    LIBCURL_SYMBOLS(LIBCURL_MEMBER)
};

/* Usable, and never changed again, once libcurl_load has returned true. */
extern struct libcurl libcurl;

/* Loads and initialises it once; thread-safe. False if there is none, or none new enough. */
bool libcurl_load(void);

#endif
