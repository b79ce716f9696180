/* What a pass, an update and a prediction of a library's example take, and how deep its stack is: the linker leads the
 * example's calls through here (--wrap). The first call of each is printed, in ticks; later ones are not made where ONCE is
 * 1. LIBRARY is the library's name, and its header is included before this. */
#include "clock.h"

#include <stdio.h>

#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)
#define CALL(function) NAMED(LIBRARY, function)
#define REAL(function) NAMED(__real_, CALL(function))
#define WRAP(function) NAMED(__wrap_, CALL(function))
#define PAINT 0xa5u

typedef CALL(_status_t) status_t;
typedef CALL(_t) model_t;

status_t REAL(_train_step)(model_t *model, float *loss);
status_t REAL(_update)(model_t *model);
status_t REAL(_predict)(model_t *model);
status_t WRAP(_train_step)(model_t *model, float *loss);
status_t WRAP(_update)(model_t *model);
status_t WRAP(_predict)(model_t *model);

enum { PAINTED = 8192, SPARED = 256 };

/* Paints the stack below this call, or says how much of it has been written since. */
__attribute__((noinline)) static unsigned stack_depth(int paint) {
    volatile unsigned char *top = (volatile unsigned char *)__builtin_frame_address(0) - SPARED;
    volatile unsigned char *end = top - PAINTED;
    if (paint) {
        for (volatile unsigned char *at = end; at < top; at++) *at = PAINT;
        return 0;
    }
    while (end < top && *end == PAINT) end++;
    return (unsigned)(top - end);
}

static void tell(const char *call, uint64_t begin, uint64_t end) {
    printf("measured %s %lu ticks %u stack\n", call, (unsigned long)(end - begin), stack_depth(0) ? stack_depth(0) + SPARED : 0u);
}

#define MEASURED(call, words)               \
    static int done;                        \
    if (done) return ONCE ? (status_t)0 : REAL(call) words; \
    done = 1;                               \
    stack_depth(1);                         \
    const uint64_t begin = clock_ticks();   \
    const status_t status = REAL(call) words; \
    const uint64_t end = clock_ticks();     \
    tell(#call, begin, end);                \
    return status

status_t WRAP(_train_step)(model_t *model, float *loss) { MEASURED(_train_step, (model, loss)); }
status_t WRAP(_update)(model_t *model) { MEASURED(_update, (model)); }
status_t WRAP(_predict)(model_t *model) { MEASURED(_predict, (model)); }
