/* The dialect of Anthropic's Messages API, and of the servers that speak it too. */
#ifndef GATEWAY_ANTHROPIC_H
#define GATEWAY_ANTHROPIC_H

#include "gateway/provider.h"

extern const struct provider anthropic_provider;

#endif
