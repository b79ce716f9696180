/* Reads a stream of samples and test samples, trains the packaged head on the stream, and prints after each task how many
 * test samples of each class are right. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "learner.h"

enum { CLASSES = LEARNER_OUTPUT_SIZE, SIZE = LEARNER_INPUT_INPUT_SIZE, BATCH = LEARNER_BATCH };

static learner_t model;
static uint32_t head[6]; /* samples, of a task, tested, new ones of a pass, passes of each, whether records are replayed */

static float *floats(FILE *file, size_t count) {
    float *read = malloc(count * sizeof *read);
    if (!read || fread(read, sizeof *read, count, file) != count) exit(2);
    return read;
}

static void check(learner_status_t status) {
    if (status == LEARNER_OK) return;
    fprintf(stderr, "%s\n", learner_status_text(status));
    exit(1);
}

static void test(const float *x, const int32_t *labels) {
    uint32_t right[CLASSES] = {0};
    for (uint32_t i = 0; i < head[2]; i++) {
        memcpy(learner_input_input(&model), x + (size_t)i * SIZE, SIZE * sizeof(float));
        check(learner_predict(&model));
        const float *scores = learner_output(&model);
        int best = 0;
        for (int c = 1; c < CLASSES; c++) best = scores[c] > scores[best] ? c : best;
        right[labels[i]] += best == labels[i];
    }
    for (int c = 0; c < CLASSES; c++) printf("%u%c", right[c], c + 1 < CLASSES ? ' ' : '\n');
}

int main(int count, char **words) {
    FILE *file = count > 1 ? fopen(words[1], "rb") : 0;
    if (!file || fread(head, sizeof head[0], 6, file) != 6) return 2;
    const uint32_t samples = head[0], fresh = head[3];
    float *x = floats(file, (size_t)samples * SIZE);
    int32_t *labels = (int32_t *)(void *)floats(file, samples);
    float *tested = floats(file, (size_t)head[2] * SIZE);
    int32_t *due = (int32_t *)(void *)floats(file, head[2]);
    check(learner_init(&model));
    static LATENT_TYPE latents[BATCH][LEARNER_LATENT_SIZE];
    static int32_t given[BATCH];
    for (uint32_t i = 0; i + fresh <= samples; i += fresh) {
        for (uint32_t j = 0; j < BATCH; j++) { /* without replay the new ones fill the pass */
            if (j < fresh) check(learner_features(&model, x + (size_t)(i + j) * SIZE, latents[j]));
            else memcpy(latents[j], latents[j % fresh], sizeof latents[j]);
            given[j] = labels[i + j % fresh];
        }
        for (uint32_t j = 0; j < fresh && head[5]; j++) check(learner_replay_add(&model, latents[j], &given[j]));
        for (uint32_t pass = 0; pass < head[4]; pass++) {
            float loss;
            check(learner_replay_train(&model, latents[0], given, head[5] ? fresh : BATCH, &loss));
        }
        if ((i + fresh) % head[1] == 0) test(tested, due);
    }
    free(x), free(labels), free(tested), free(due);
    return 0;
}
