/* The bytes are made by the Makefile from gateway/web/, as texts of C with a tag each. */
#include "gateway/asset.h"

#include "build/web/dashboard.css.h"
#include "build/web/page.html.h"
#include "build/web/widget.js.h"

#define BYTES(name) name, sizeof(name) - 1, name##_tag

static const struct asset assets[ASSETS] = {
    [ASSET_PAGE] = {"text/html; charset=utf-8", BYTES(page_html)},
    [ASSET_WIDGET] = {"text/javascript; charset=utf-8", BYTES(widget_js)},
    [ASSET_DASHBOARD_STYLE] = {"text/css; charset=utf-8", BYTES(dashboard_css)},
};

const struct asset *asset(enum asset_name name)
{
    return &assets[name];
}
