/* Y = A + B; then Relu, or the gradient of one, where it is fused. */
#include "add_f32.h"
#include "add_epilogue_f32.h"
#include "binary_f32.h"

static inline float add(float a, float b) {
    return a + b;
}

BINARY_RUN_F32(add_f32, add)

void add_f32(const void *args) {
    const add_f32_args_t *p = args;
    add_f32_run(p);
    if (p->relu || p->gate) add_epilogue_f32(p);
}
