/* Declarations shared by the sources of ${v.name}; the public interface is include/${v.name}.h. */
#ifndef ${v.upper}_OWN_H
#define ${v.upper}_OWN_H

#include "${v.name}.h"
#include "${v.name}_exact_flags.h"

/* Checks of the library's own invariants; compiled only with -D${v.upper}_ASSERTS. */
#ifdef ${v.upper}_ASSERTS
#include <assert.h>
#define ${v.upper}_ASSERT(holds) assert(holds)
#else
#define ${v.upper}_ASSERT(holds) ((void)0)
#endif

#define NOWHERE UINT32_MAX
#define READY ${v.ready}u

static inline ${v.name}_status_t ${v.name}_ended(${v.name}_t *model, ${v.name}_status_t status) {
    model->last = status;
    return status;
}

static inline ${v.name}_status_t ${v.name}_usable(const ${v.name}_t *model) {
    return !model ? ${v.upper}_ERROR_POINTER : model->ready == READY ? ${v.upper}_OK : ${v.upper}_ERROR_STRUCT;
}
% for _ in v.settable:

/* A prediction is never left half done. */
static inline ${v.name}_status_t ${v.name}_idle(${v.name}_t *model) { return ${v.name}_usable(model); }
% endfor

#endif
