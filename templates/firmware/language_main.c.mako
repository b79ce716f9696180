/* Goes on with a text: prints the ids of the tokens that it makes, the most probable one each time. */
#include "${v.name}_language.h"

#include <stdio.h>

static ${v.name}_language_t language; /* large: not for the stack */

static const int32_t prompt[] = {
% for line in v.prompt:
    ${line}
% endfor
};

static int failed(${v.name}_status_t status) {
    if (status != ${v.upper}_OK) printf("error: %s\n", ${v.name}_status_text(status));
    return status != ${v.upper}_OK;
}

static int32_t most_probable(const float *scores) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < ${v.upper}_VOCABULARY; i++)
        if (scores[i] > scores[best]) best = i;
    return (int32_t)best;
}

int main(void) {
    if (failed(${v.name}_language_init(&language))) return 1;
    if (failed(${v.name}_prefill(&language, 0, prompt, sizeof prompt / sizeof *prompt))) return 1;
    for (uint32_t i = 0; i < ${v.tokens}u; i++) {
        int32_t ids[${v.upper}_SEQUENCES] = {most_probable(${v.name}_scores(&language, 0))};
        printf("%ld\n", (long)ids[0]);
        if (failed(${v.name}_decode(&language, ids))) return 1;
    }
    return 0;
}
