/* The dialect of OpenAI's chat completions, and of the many APIs that speak it too. */
#ifndef GATEWAY_OPENAI_H
#define GATEWAY_OPENAI_H

#include "gateway/provider.h"

extern const struct provider openai_provider;

#endif
