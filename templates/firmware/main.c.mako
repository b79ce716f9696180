/* Trains on samples of the case; prints the bits of each loss, a prediction, and the digest of the final state. */
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

static void take_sample(uint32_t sample) {
% for a in v.samples.arrays:
    memcpy(${v.name}_input_${a.input.name}(&model), samples_of_${a.input.name}[sample], sizeof samples_of_${a.input.name}[sample]);
% endfor
}
% for _ in v.rated:

static ${v.name}_status_t take_rates(uint32_t update) {
    ${v.name}_status_t status = ${v.upper}_OK;
    for (uint32_t group = 0; group < ${v.upper}_RATES && status == ${v.upper}_OK; group++)
        status = ${v.name}_set_learning_rate(&model, group, update_rates[update][group]);
    return status;
}
% endfor

int main(void) {
    if (failed(${v.name}_init(&model))) return 1;
    for (uint32_t pass = 0; pass < SAMPLE_PASSES; pass++) {
        float loss;
        take_sample(pass_samples[pass]);
        if (failed(${v.name}_train_step(&model, &loss))) return 1;
        print_value("loss", pass, loss);
        if (${v.due}) {
% for _ in v.rated:
            if (failed(take_rates(pass / ${v.upper}_ACCUMULATE))) return 1;
% endfor
            if (failed(${v.name}_update(&model))) return 1;
        }
    }
% for t in v.output:
    take_sample(pass_samples[0]);
    if (failed(${v.name}_predict(&model))) return 1;
    for (uint32_t i = 0; i < ${v.upper}_OUTPUT_SIZE && i < 16u; i++)
        print_value("output", i, (float)${v.name}_output(&model)[i]);
% endfor
    uint64_t digest;
    if (failed(${v.name}_digest(&model, &digest))) return 1;
    printf("digest %08lx%08lx\n", (unsigned long)(digest >> 32), (unsigned long)(digest & 0xffffffffu));
    return 0;
}
