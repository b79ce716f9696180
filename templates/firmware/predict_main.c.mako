/* Predicts for one sample; prints the bits of each output, of large ones the first. */
#include "${v.name}.h"

#include <stdio.h>
#include <string.h>

#include "${v.name}_samples.h"

static ${v.name}_t model; /* large: not for the stack */

static int failed(${v.name}_status_t status) {
    if (status != ${v.upper}_OK) printf("error: %s\n", ${v.name}_status_text(status));
    return status != ${v.upper}_OK;
}

static void print_value(const char *name, uint32_t index, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    printf("%s %u 0x%08lx %.9g\n", name, (unsigned)index, (unsigned long)bits, (double)value);
}

int main(void) {
    if (failed(${v.name}_init(&model))) return 1;
% for a in v.samples:
    memcpy(${v.name}_input_${a.input.name}(&model), sample_of_${a.input.name}, sizeof sample_of_${a.input.name});
% endfor
    if (failed(${v.name}_predict(&model))) return 1;
% for t in v.output:
    for (uint32_t i = 0; i < ${v.upper}_${t.upper}_SIZE && i < 16u; i++)
        print_value("${t.name}", i, (float)${v.name}_${t.name}(&model)[i]);
% endfor
    return 0;
}
