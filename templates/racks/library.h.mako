/* The library ${v.name} as a rack sees it. */
#define RACK_MODEL ${v.name}_t
#define RACK_KEEP ${v.name}_keep_t
#define RACK_CALL(function) ${v.name}_##function
#define RACK_STEPS ${v.upper}_STEPS
#define RACK_ACCUMULATE ${v.upper}_ACCUMULATE
#define RACK_GROUPS ${v.groups}u
#define RACK_SAMPLE_BYTES ${v.sample_bytes}u
#define RACK_INPUTS(TAKE) ${v.takes}

#include "${v.name}.c"
