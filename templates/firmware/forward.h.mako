/* Forwards to the public header, for build tools that look for headers beside sources. */
#include "../include/${v.name}.h"
