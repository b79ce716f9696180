/* Draws from rows of logits of its input: options and their size before each; writes the ids, and what it makes of bad input. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "draw_sampler.h"

typedef struct {
    uint64_t seed;
    uint32_t count, top_k, sequence, position, draws;
    float temperature, top_p;
    uint32_t unused;
} job_t;

int main(void) {
    const float one[2] = {0.0f, 1.0f};
    if (draw_sample(0, 2, 1.0f, 0, 1.0f, 0, 0, 0) != DRAW_SAMPLE_ERROR_POINTER) return 2;
    if (draw_sample(one, 0, 1.0f, 0, 1.0f, 0, 0, 0) != DRAW_SAMPLE_ERROR_EMPTY) return 3;
    if (draw_sample(one, 0x400001u, 1.0f, 0, 1.0f, 0, 0, 0) != DRAW_SAMPLE_ERROR_OPTION) return 4;
    job_t job;
    while (fread(&job, sizeof job, 1, stdin) == 1) {
        float *logits = malloc(job.count * sizeof *logits);
        if (!logits || fread(logits, sizeof *logits, job.count, stdin) != job.count) return 5;
        for (uint32_t i = 0; i < job.draws; i++) {
            const int32_t id = draw_sample(logits, job.count, job.temperature, job.top_k, job.top_p, job.seed, job.sequence,
                                           job.position + i);
            if (fwrite(&id, sizeof id, 1, stdout) != 1) return 6;
        }
        free(logits);
    }
    return 0;
}
