/* For build tools that look for headers beside sources; the header to read is this one. */
#include "../include/${v.name}.h"
