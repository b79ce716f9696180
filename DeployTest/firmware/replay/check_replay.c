/* A library with latent replay by a list of calls: features of all samples, records that are added, passes, and a state that is
 * saved and taken back by another struct on the way. Writes latents, losses, and the final state. */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(holds)                                                      \
    do {                                                                 \
        if (!(holds)) printf("line %d: %s\n", __LINE__, #holds), exit(1); \
    } while (0)

enum { ADD, TRAIN, FILL, MOVE };

static net_t model, other;
static float x[SAMPLES][NET_INPUT_X_SIZE];
static int32_t labels[SAMPLES];
static LATENT latents[SAMPLES][NET_LATENT_SIZE];
static uint8_t image[NET_STATE_BYTES];

static void read_file(const char *path, void *bytes, size_t count) {
    FILE *file = fopen(path, "rb");
    NEED(file && fread(bytes, 1, count, file) == count && !fclose(file));
}

/* What is refused changes nothing. */
static void refuse(void) {
    const int32_t bad[] = {-1, NUMBER_OF_CLASSES};
    static LATENT many[(NET_BATCH + 1u) * NET_LATENT_SIZE];
    static int32_t none[NET_BATCH + 1u];
    uint64_t digest, again;
    float loss;
    NEED(net_replay_add(&other, latents[0], labels) == NET_ERROR_STRUCT && net_replay_count(&other) == 0);
    NEED(net_init(&other) == NET_OK && net_digest(&other, &digest) == NET_OK);
    NEED(net_replay_train(&other, many, none, NET_BATCH - 1u, &loss) == NET_ERROR_RECORDS);
    NEED(net_replay_train(&other, many, none, NET_BATCH + 1u, &loss) == NET_ERROR_SIZE);
    NEED(net_replay_train(&other, 0, none, NET_BATCH, &loss) == NET_ERROR_POINTER);
    NEED(net_replay_add(&other, latents[0], 0) == NET_ERROR_POINTER && net_replay_add(&other, 0, labels) == NET_ERROR_POINTER);
    NEED(net_features(&other, 0, latents[0]) == NET_ERROR_POINTER && net_features(&other, x[0], 0) == NET_ERROR_POINTER);
    for (uint32_t i = 0; i < 2; i++) {
        none[NET_BATCH - 1u] = bad[i];
        NEED(net_replay_add(&other, latents[0], &bad[i]) == NET_ERROR_INPUT);
        NEED(net_replay_train(&other, many, none, NET_BATCH, &loss) == NET_ERROR_INPUT);
    }
    NEED(net_digest(&other, &again) == NET_OK && digest == again);
    NEED(net_train_step_begin(&other) == NET_OK && net_features(&other, x[0], latents[0]) == NET_ERROR_RUNNING);
    NEED(net_replay_add(&other, latents[0], labels) == NET_ERROR_RUNNING);
    NEED(net_replay_clear(&other) == NET_ERROR_RUNNING && net_drop_passes(&other) == NET_OK);
}

int main(int argc, char **argv) {
    static LATENT fresh[NET_BATCH * NET_LATENT_SIZE];
    static int32_t targets[NET_BATCH];
    NEED(argc == 5);
    read_file(argv[1], x, sizeof x);
    read_file(argv[2], labels, sizeof labels);
    FILE *calls = fopen(argv[3], "r"), *results = fopen(argv[4], "wb");
    NEED(calls && results);
    refuse();
    NEED(net_init(&model) == NET_OK);
    for (uint32_t i = 0; i < SAMPLES; i++) NEED(net_features(&model, x[i], latents[i]) == NET_OK);
    NEED(fwrite(latents, 1, sizeof latents, results) == sizeof latents);
    /* The library's own array as input, and what a pass leaves, which no features change. */
    memcpy(net_input_x(&model), x[1], sizeof x[1]);
    NEED(net_features(&model, net_input_x(&model), fresh) == NET_OK && memcmp(fresh, latents[1], sizeof latents[1]) == 0);
    int call, count;
    uint32_t passes = 0;
    while (fscanf(calls, "%d %d", &call, &count) == 2) {
        uint32_t samples[NET_BATCH + 1u] = {0};
        for (int i = 0; i < count; i++) NEED(fscanf(calls, "%u", &samples[i]) == 1 && samples[i] < SAMPLES);
        if (call == ADD) NEED(net_replay_add(&model, latents[samples[0]], &labels[samples[0]]) == NET_OK);
        for (int i = 0; call != ADD && i < count; i++) {
            memcpy(fresh + (uint32_t)i * NET_LATENT_SIZE, latents[samples[i]], sizeof latents[0]);
            targets[i] = labels[samples[i]];
        }
        float loss;
        if (call == TRAIN) NEED(net_replay_train(&model, fresh, targets, (uint32_t)count, &loss) == NET_OK);
        if (call == FILL) { /* the same in slices */
            NEED(net_replay_fill(&model, fresh, targets, (uint32_t)count) == NET_OK && net_train_step_begin(&model) == NET_OK);
            net_status_t status;
            while ((status = net_train_step_continue(&model, 1, &loss)) == NET_MORE) {}
            NEED(status == NET_OK);
            if ((passes + 1u) % NET_ACCUMULATE == 0) NEED(net_update(&model) == NET_OK);
        }
        if (call == TRAIN || call == FILL) {
            NEED(fwrite(&loss, 1, sizeof loss, results) == sizeof loss);
            passes++;
        }
        if (call == MOVE) {
            size_t used;
            NEED(net_save(&model, NET_KEEP_STATE, image, sizeof image, &used) == NET_OK && used == sizeof image);
            memset(&model, 0x55, sizeof model);
            NEED(net_init(&model) == NET_OK && net_load(&model, image, used) == NET_OK);
        }
    }
    NEED(net_save(&model, NET_KEEP_STATE, image, sizeof image, 0) == NET_OK);
    NEED(fwrite(image, 1, sizeof image, results) == sizeof image && !fclose(results));
    /* Weights leave the ring as it is, and an empty one is that of a new struct. */
    size_t used;
    const uint32_t records = net_replay_count(&model);
    NEED(records > 0 && net_save(&model, NET_KEEP_WEIGHTS, image, sizeof image, &used) == NET_OK);
    NEED(net_load(&model, image, used) == NET_OK && net_replay_count(&model) == records);
    uint64_t digest, first;
    NEED(net_init(&other) == NET_OK && net_load(&other, image, used) == NET_OK && net_digest(&other, &first) == NET_OK);
    NEED(net_digest(&model, &digest) == NET_OK && digest != first);
    NEED(net_replay_clear(&model) == NET_OK && net_digest(&model, &digest) == NET_OK && digest == first);
    return 0;
}
