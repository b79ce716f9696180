/* Trains on samples of the case with latent replay: passes have new latents and records of the ring, to which the new ones are
 * then added. Prints the bits of each loss, a prediction, and the digest of the final state. */
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

#define SAMPLES (sizeof samples_of_${v.replay[0].label.name} / sizeof *samples_of_${v.replay[0].label.name})

% for _ in v.rated:

static ${v.name}_status_t take_rates(uint32_t update) {
    ${v.name}_status_t status = ${v.upper}_OK;
    for (uint32_t group = 0; group < ${v.upper}_RATES && status == ${v.upper}_OK; group++)
        status = ${v.name}_set_learning_rate(&model, group, update_rates[update][group]);
    return status;
}
% endfor

int main(void) {
% for r in v.replay:
    static ${r.latent_type} latents[${v.upper}_BATCH * ${v.upper}_LATENT_SIZE];
    static ${r.label_type} labels[${v.upper}_BATCH * ${v.upper}_LABEL_SIZE];
    static const uint32_t fresh[] = {${r.fresh[0]}u, ${r.fresh[1]}u}; /* new samples of passes in turn */
    uint32_t sample = 0;
    if (failed(${v.name}_init(&model))) return 1;
    for (uint32_t pass = 0; pass < SAMPLE_PASSES; pass++) {
        const uint32_t count = ${v.name}_replay_count(&model) ? fresh[pass % 2u] : ${v.upper}_BATCH;
        float loss;
        for (uint32_t i = 0; i < count; i++, sample = (sample + 1u) % SAMPLES) {
            const ${r.label_type} *label = samples_of_${r.label.name}[sample];
            if (failed(${v.name}_features(&model, ${r.arguments}, latents + i * ${v.upper}_LATENT_SIZE))) return 1;
            memcpy(labels + i * ${v.upper}_LABEL_SIZE, label, sizeof samples_of_${r.label.name}[sample]);
        }
% for _ in v.rated:
        if (failed(take_rates(pass / ${v.upper}_ACCUMULATE))) return 1;
% endfor
        if (failed(${v.name}_replay_train(&model, latents, labels, count, &loss))) return 1;
        print_value("loss", pass, loss);
        for (uint32_t i = 0; i < count; i++)
            if (failed(${v.name}_replay_add(&model, latents + i * ${v.upper}_LATENT_SIZE, labels + i * ${v.upper}_LABEL_SIZE))) return 1;
    }
% endfor
% for t in v.output:
% for own, a in v.replay[0].predicted:
    memcpy(${v.name}_input_${own.name}(&model), samples_of_${a.name}[0], sizeof samples_of_${a.name}[0]);
% endfor
    if (failed(${v.name}_predict(&model))) return 1;
    for (uint32_t i = 0; i < ${v.upper}_OUTPUT_SIZE && i < 16u; i++)
        print_value("output", i, (float)${v.name}_output(&model)[i]);
% endfor
    uint64_t digest;
    if (failed(${v.name}_digest(&model, &digest))) return 1;
    printf("digest %08lx%08lx\n", (unsigned long)(digest >> 32), (unsigned long)(digest & 0xffffffffu));
    return 0;
}
