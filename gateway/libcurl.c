/*
 * Finding libcurl. Security: only by the names of its binary interface in the system's library
 * directories, as a linked program would find it.
 */
#include "gateway/libcurl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#define OLDEST 0x075700 /* 7.87: QUICK_EXIT, without which an abort can wait for a resolver */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded; /* under the lock */

#ifdef CURL_LINKED
#define SYMBOL(name) .name = curl_##name,
struct libcurl libcurl = {LIBCURL_SYMBOLS(SYMBOL)};

static bool find_symbols(void)
{
    return true;
}
#else
struct libcurl libcurl;

#define SYMBOL(name) {"curl_" #name, offsetof(struct libcurl, name)},
static const struct {
    const char *name;
    size_t offset;
} WANTED[] = {LIBCURL_SYMBOLS(SYMBOL)};

/* It stays mapped for good: its resolver threads can outlive every transfer. */
static bool find_symbols(void)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL), *symbol;

    if (library == NULL)
        library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return false;
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        symbol = dlsym(library, WANTED[i].name);
        if (symbol == NULL)
            return false;
        memcpy((char *)&libcurl + WANTED[i].offset, &symbol, sizeof symbol);
    }
    return true;
}
#endif

bool libcurl_load(void)
{
    bool ok;

    pthread_mutex_lock(&lock);
    if (!loaded)
        loaded = find_symbols() &&
                 libcurl.version_info(CURLVERSION_NOW)->version_num >= OLDEST &&
                 libcurl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    ok = loaded;
    pthread_mutex_unlock(&lock);
    return ok;
}
