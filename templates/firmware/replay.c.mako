% for r in v.replay:
/* ${v.provenance}
 *
 * Latent replay: a ring of records, each a latent and its label, at the end of a struct's memory. What is replaced and what is
 * drawn follows from the seed and from counters of the ring. */
#include "${v.name}_own.h"

#include <string.h>

#include "${v.name}_philox_f32.h"

/* Places of the ring and of the inputs of a pass, in words. */
enum {
    LATENTS = ${r.latents_at},
    LABELS = ${r.labels_at},
    COUNTERS = ${r.counters_at},
    INPUT_LATENTS = ${r.latent_input},
    INPUT_LABELS = ${r.label_input}
};

#define SLOTS ${v.upper}_REPLAY_SLOTS
#define LATENT_BYTES ${r.latent_bytes}u
#define LATENT_WORDS ${r.record_words}u
#define LABEL_WORDS ${v.upper}_LABEL_SIZE
% for known in r.balanced:
#define CLASSES ${known.count}u
% endfor

/* Numbers of counters. */
enum {
    ADDS = 0,
    DRAWS = 1,
% for _ in r.balanced:
    SEEN = 2,                   /* records of a class that were added */
    HELD = SEEN + (int)CLASSES, /* records of a class that are in the ring */
    FULL = HELD + (int)CLASSES  /* whether a class was ever one of the largest in a full ring */
% endfor
};

/* Purposes of draws. */
enum { REPLACED = 0, TRAINED = 1 };

static uint32_t *counters(${v.name}_t *model) { return &model->memory.u32[COUNTERS]; }

static uint32_t records(const ${v.name}_t *model) {
    const uint32_t adds = model->memory.u32[COUNTERS + ADDS];
    return adds < SLOTS ? adds : SLOTS;
}

/* A whole number below `count`, by the counter of its purpose: 64 random bits times the count, without the lower 64. */
static uint32_t below(uint32_t count, uint32_t index, uint32_t purpose) {
    uint32_t words[4] = {index, 0, purpose, ${r.stream}u};
    philox(words, ${r.key[0]}u, ${r.key[1]}u);
    const uint64_t low = (uint64_t)words[0] * count;
    return (uint32_t)(((uint64_t)words[1] * count + (low >> 32)) >> 32);
}

% for _ in r.reservoir:
/* The slot for the next record, or SLOTS if it is left out: after n adds, each was kept with probability SLOTS / n. */
static uint32_t slot_of(${v.name}_t *model) {
    const uint32_t adds = counters(model)[ADDS];
    if (adds < SLOTS) return adds;
    const uint32_t slot = below(adds + 1u, adds, REPLACED);
    return slot < SLOTS ? slot : SLOTS;
}
% endfor
% for known in r.balanced:
static uint32_t class_of(int32_t label) { return (uint32_t)label - (uint32_t)${known.least}; }

/* The slot of the record with this number among those whose class `is_wanted`. */
static uint32_t find_record(${v.name}_t *model, uint32_t number, uint32_t held, uint32_t wanted) {
    uint32_t slot = 0, found = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const uint32_t class = class_of(model->memory.i32[LABELS + i]);
        const int is_wanted = class < CLASSES && (wanted < CLASSES ? class == wanted : counters(model)[HELD + class] == held);
        if (is_wanted && found++ == number) slot = i;
    }
    return slot;
}

/* The slot for the next record, or SLOTS if it is left out (Chrysakis, Moens, Online continual learning from imbalanced data,
 * ICML 2020): a record of the largest classes makes room, unless the new one's class was among these before; then each
 * record of that class was kept with the same probability. */
static uint32_t slot_of(${v.name}_t *model, uint32_t class) {
    uint32_t *count = counters(model), most = 0, largest = 0;
    const uint32_t adds = count[ADDS];
    if (adds < SLOTS) return adds;
    for (uint32_t i = 0; i < CLASSES; i++) most = count[HELD + i] > most ? count[HELD + i] : most;
    for (uint32_t i = 0; i < CLASSES; i++) {
        if (count[HELD + i] != most) continue;
        count[FULL + i] = 1;
        largest += most;
    }
    if (!count[FULL + class]) return find_record(model, below(largest, adds, REPLACED), most, CLASSES);
    const uint32_t number = below(count[SEEN + class], adds, REPLACED);
    return number < count[HELD + class] ? find_record(model, number, 0, class) : SLOTS;
}
% endfor

static int labels_fit(const ${r.label_type} *labels, uint32_t count) {
% for known in r.checked:
    for (uint32_t i = 0; i < count; i++)
        if ((labels[i] < ${known.least} || labels[i] > ${known.least + known.count - 1}) && labels[i] != ${known.spare}) return 0;
% endfor
    return labels != 0 || count == 0;
}

${v.name}_status_t ${v.name}_replay_add(${v.name}_t *model, const ${r.latent_type} *latent, const ${r.label_type} *label) {
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    if (!latent || !label) return ${v.name}_ended(model, ${v.upper}_ERROR_POINTER);
    uint32_t *count = counters(model);
    if (count[ADDS] == UINT32_MAX) return ${v.name}_ended(model, ${v.upper}_ERROR_SIZE);
    if (!labels_fit(label, LABEL_WORDS)) return ${v.name}_ended(model, ${v.upper}_ERROR_INPUT);
% for _ in r.balanced:
    const uint32_t class = class_of(*label);
    if (class >= CLASSES) return ${v.name}_ended(model, ${v.upper}_ERROR_INPUT);
    count[SEEN + class]++;
    const uint32_t slot = slot_of(model, class);
% endfor
% for _ in r.reservoir:
    const uint32_t slot = slot_of(model);
% endfor
    if (slot < SLOTS) {
% for _ in r.balanced:
        const uint32_t before = class_of(model->memory.i32[LABELS + slot]);
        if (count[ADDS] >= SLOTS && before < CLASSES) count[HELD + before]--;
        count[HELD + class]++;
% endfor
        memcpy(&model->memory.u32[LATENTS + slot * LATENT_WORDS], latent, LATENT_BYTES);
        memcpy(&model->memory.u32[LABELS + slot * LABEL_WORDS], label, 4u * LABEL_WORDS);
    }
    count[ADDS]++;
    return ${v.name}_ended(model, ${v.upper}_OK);
}

${v.name}_status_t ${v.name}_replay_fill(${v.name}_t *model, const ${r.latent_type} *latents, const ${r.label_type} *labels, uint32_t count) {
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    if (count > ${v.upper}_BATCH) return ${v.name}_ended(model, ${v.upper}_ERROR_SIZE);
    if (count && (!latents || !labels)) return ${v.name}_ended(model, ${v.upper}_ERROR_POINTER);
    if (!labels_fit(labels, count * LABEL_WORDS)) return ${v.name}_ended(model, ${v.upper}_ERROR_INPUT);
    const uint32_t held = records(model);
    if (count < ${v.upper}_BATCH && held == 0) return ${v.name}_ended(model, ${v.upper}_ERROR_RECORDS);
    uint8_t *to = (uint8_t *)&model->memory.u32[INPUT_LATENTS];
    uint32_t *label = &model->memory.u32[INPUT_LABELS];
    for (uint32_t i = 0; i < ${v.upper}_BATCH; i++, to += LATENT_BYTES, label += LABEL_WORDS) {
        if (i < count) {
            memcpy(to, latents + i * ${v.upper}_LATENT_SIZE, LATENT_BYTES);
            memcpy(label, labels + i * LABEL_WORDS, 4u * LABEL_WORDS);
            continue;
        }
        const uint32_t slot = below(held, counters(model)[DRAWS]++, TRAINED);
        memcpy(to, &model->memory.u32[LATENTS + slot * LATENT_WORDS], LATENT_BYTES);
        memcpy(label, &model->memory.u32[LABELS + slot * LABEL_WORDS], 4u * LABEL_WORDS);
    }
    return ${v.name}_ended(model, ${v.upper}_OK);
}

${v.name}_status_t ${v.name}_replay_train(${v.name}_t *model, const ${r.latent_type} *latents, const ${r.label_type} *labels, uint32_t count, float *loss) {
    const ${v.name}_status_t ready = ${v.name}_idle(model);
    if (ready) return ready;
    if (model->passes & SPOILT) return ${v.name}_ended(model, ${v.upper}_ERROR_LOSS);
    if (model->passes >= ${v.upper}_ACCUMULATE) return ${v.name}_ended(model, ${v.upper}_ERROR_DUE);
    const ${v.name}_status_t filled = ${v.name}_replay_fill(model, latents, labels, count);
    if (filled) return filled;
    const ${v.name}_status_t trained = ${v.name}_train_step(model, loss);
    return trained || model->passes < ${v.upper}_ACCUMULATE ? trained : ${v.name}_update(model);
}

${v.name}_status_t ${v.name}_replay_clear(${v.name}_t *model) {
    const ${v.name}_status_t status = ${v.name}_idle(model);
    if (status) return status;
    memset(&model->memory.u32[LATENTS], 0, ${r.bytes}u);
    return ${v.name}_ended(model, ${v.upper}_OK);
}

uint32_t ${v.name}_replay_count(const ${v.name}_t *model) { return ${v.name}_usable(model) ? 0 : records(model); }
% endfor
