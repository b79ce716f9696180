/* Two libraries in one program, one of them three times: passes with predictions between them, states that are saved,
 * damaged and taken back, and calls that are refused. Samples come from a file; states and losses go to others. */
#include "dense.h"
#include "normed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(holds)                                                      \
    do {                                                                 \
        if (!(holds)) printf("line %d: %s\n", __LINE__, #holds), exit(1); \
    } while (0)
#define PASSES 4

/* The test passes the sizes that the manifests give. */
_Static_assert(sizeof(dense_t) == DENSE_STRUCT && sizeof(normed_t) == NORMED_STRUCT, "a struct has another size");

static dense_t plain, mixed, refused;
static normed_t net, other;
static uint8_t image[DENSE_STATE_BYTES], before[DENSE_STATE_BYTES], normed_image[NORMED_STATE_BYTES];

typedef struct {
    float x[DENSE_INPUT_INPUT_SIZE];
    int32_t labels[DENSE_INPUT_LABELS_SIZE];
} dense_sample_t;

typedef struct {
    float x[NORMED_INPUT_IN_PUT_SIZE];
    int32_t labels[NORMED_INPUT_LABELS_SIZE];
} normed_sample_t;

static dense_sample_t dense_samples[PASSES];
static normed_sample_t normed_samples[PASSES];

static void fill_dense(dense_t *model, uint32_t pass) {
    memcpy(dense_input_input(model), dense_samples[pass].x, sizeof dense_samples[pass].x);
    memcpy(dense_input_labels(model), dense_samples[pass].labels, sizeof dense_samples[pass].labels);
}

static void fill_normed(normed_t *model, uint32_t pass) {
    memcpy(normed_input_in_put(model), normed_samples[pass].x, sizeof normed_samples[pass].x);
    memcpy(normed_input_labels(model), normed_samples[pass].labels, sizeof normed_samples[pass].labels);
}

static void write_file(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    NEED(file && fwrite(bytes, 1, count, file) == count && !fclose(file));
}

static uint64_t digest_of(dense_t *model) {
    uint64_t digest = 0;
    NEED(dense_digest(model, &digest) == DENSE_OK);
    return digest;
}

static void predict_dense(dense_t *model, uint32_t pass) {
    fill_dense(model, pass);
    NEED(dense_predict(model) == DENSE_OK);
}

/* What comes before init, and without pointers. */
static void refuse_unprepared(void) {
    float loss;
    uint64_t digest;
    NEED(dense_init(0) == DENSE_ERROR_POINTER && dense_train_step(0, &loss) == DENSE_ERROR_POINTER);
    NEED(dense_train_step(&refused, &loss) == DENSE_ERROR_STRUCT && dense_update(&refused) == DENSE_ERROR_STRUCT);
    NEED(dense_predict(&refused) == DENSE_ERROR_STRUCT && dense_digest(&refused, &digest) == DENSE_ERROR_STRUCT);
    NEED(dense_save(&refused, DENSE_KEEP_STATE, image, sizeof image, 0) == DENSE_ERROR_STRUCT);
    NEED(dense_load(&refused, image, sizeof image) == DENSE_ERROR_STRUCT);
    NEED(!dense_input_input(&refused) && !dense_output(&refused) && !dense_input_labels(0));
    NEED(dense_last_error(&refused) == DENSE_ERROR_STRUCT && dense_last_error(0) == DENSE_ERROR_POINTER);
    NEED(dense_init(&refused) == DENSE_OK && dense_digest(&refused, 0) == DENSE_ERROR_POINTER);
    NEED(dense_last_error(&refused) == DENSE_ERROR_POINTER && strlen(dense_status_text(DENSE_ERROR_POINTER)) > 4);
}

/* Calls in a wrong order, and inputs that would lead beyond a tensor; none of them changes the state. */
static void refuse_calls(void) {
    const int32_t labels[] = {-1, 10, INT32_MAX, INT32_MIN};
    const uint64_t digest = digest_of(&refused);
    float loss = 0.0f;
    NEED(dense_update(&refused) == DENSE_ERROR_EARLY);
    for (uint32_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        fill_dense(&refused, 0);
        *dense_input_labels(&refused) = labels[i];
        NEED(dense_train_step(&refused, &loss) == DENSE_ERROR_INPUT && dense_predict(&refused) == DENSE_OK);
    }
    NEED(dense_set_learning_rate(&refused, 0, (float)NAN) == DENSE_ERROR_RATE);
    NEED(dense_set_learning_rate(&refused, 0, (float)INFINITY) == DENSE_ERROR_RATE);
    NEED(dense_set_learning_rate(&refused, DENSE_RATES, 0.5f) == DENSE_ERROR_INDEX);
    NEED(digest == digest_of(&refused));
    fill_dense(&refused, 0);
    dense_input_input(&refused)[3] = (float)INFINITY;
    NEED(dense_train_step(&refused, &loss) == DENSE_ERROR_LOSS && !isfinite(loss));
    NEED(dense_train_step(&refused, &loss) == DENSE_ERROR_LOSS && dense_update(&refused) == DENSE_ERROR_LOSS);
    NEED(dense_save(&refused, DENSE_KEEP_STATE, image, sizeof image, 0) == DENSE_ERROR_LOSS && dense_predict(&refused) == DENSE_OK);
    NEED(dense_save(&refused, DENSE_KEEP_WEIGHTS, image, sizeof image, 0) == DENSE_OK && dense_update(&refused) == DENSE_ERROR_LOSS);
    NEED(digest == digest_of(&refused) && dense_drop_passes(&refused) == DENSE_OK && dense_update(&refused) == DENSE_ERROR_EARLY);
    fill_dense(&refused, 0);
    NEED(dense_train_step(&refused, &loss) == DENSE_OK && dense_train_step(&refused, &loss) == DENSE_ERROR_DUE);
    NEED(dense_save(&refused, DENSE_KEEP_STATE, image, sizeof image, 0) == DENSE_ERROR_DUE && dense_drop_passes(&refused) == DENSE_OK);
    fill_dense(&refused, 0);
    NEED(dense_train_step(&refused, &loss) == DENSE_OK && dense_init(&refused) == DENSE_OK);
}

static void check_weights(void) {
    dense_weight_t info;
    uint32_t index = 9;
    static float values[4096], again[4096];
    NEED(dense_weight_info(DENSE_WEIGHTS, &info) == DENSE_ERROR_INDEX && dense_weight_info(0, 0) == DENSE_ERROR_POINTER);
    NEED(dense_weight_index("fc2", &index) == DENSE_ERROR_NAME && dense_weight_index("fc2_weight", &index) == DENSE_OK);
    NEED(dense_weight_info(index, &info) == DENSE_OK && !strcmp(info.name, "fc2_weight") && !strcmp(info.shape, "[10][8]"));
    const size_t bytes = info.count * sizeof(float);
    NEED(!info.is_int32 && bytes == 320 && dense_get_weight(&refused, index, values, bytes - 4) == DENSE_ERROR_SIZE);
    NEED(dense_get_weight(&refused, DENSE_WEIGHTS, values, bytes) == DENSE_ERROR_INDEX);
    NEED(dense_get_weight(&refused, index, 0, bytes) == DENSE_ERROR_POINTER);
    NEED(dense_get_weight(&refused, index, values, bytes) == DENSE_OK);
    const uint64_t digest = digest_of(&refused);
    values[7] += 1.0f;
    NEED(dense_set_weight(&refused, index, values, bytes) == DENSE_OK && digest != digest_of(&refused));
    NEED(dense_get_weight(&refused, index, again, bytes) == DENSE_OK && !memcmp(values, again, bytes));
    values[7] -= 1.0f;
    NEED(dense_set_weight(&refused, index, values, bytes + 4) == DENSE_ERROR_SIZE && digest != digest_of(&refused));
    NEED(dense_init(&refused) == DENSE_OK && digest == digest_of(&refused));
}

/* Every byte of a state is changed in turn; what is refused changes nothing. Byte 8 makes the state a set of weights. */
static void check_images(void) {
    const uint64_t first = digest_of(&refused);
    size_t used = 0;
    NEED(dense_state_size(DENSE_KEEP_STATE) == sizeof image && dense_save(&plain, DENSE_KEEP_STATE, image, sizeof image - 1, 0) == DENSE_ERROR_SIZE);
    NEED(dense_save(&plain, DENSE_KEEP_STATE, image, sizeof image, &used) == DENSE_OK && used == sizeof image && first != digest_of(&plain));
    memcpy(before, image, sizeof image);
    for (size_t i = 0; i < sizeof image; i++) {
        image[i] ^= (uint8_t)(1u << i % 8);
        const dense_status_t status = dense_load(&refused, image, sizeof image);
        NEED(status == (i < 20 && i != 8 ? DENSE_ERROR_FOREIGN : DENSE_ERROR_DAMAGED));
        image[i] = before[i];
    }
    NEED(dense_load(&refused, image, sizeof image - 1) == DENSE_ERROR_SIZE && first == digest_of(&refused));
    NEED(normed_load(&net, image, sizeof image) == NORMED_ERROR_FOREIGN);
    NEED(dense_load(&refused, image, sizeof image) == DENSE_OK && digest_of(&refused) == digest_of(&plain));
}

static void train_dense(float *losses) {
    static const uint32_t budgets[PASSES] = {0, 1000, 2000, UINT32_MAX};
    uint32_t last = 0;
    float loss;
    NEED(dense_init(&plain) == DENSE_OK && dense_init(&mixed) == DENSE_OK);
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        fill_dense(&plain, pass);
        NEED(dense_train_step(&plain, &losses[pass]) == DENSE_OK && dense_update(&plain) == DENSE_OK);
        predict_dense(&mixed, (pass + 1) % PASSES);
        fill_dense(&mixed, pass);
        NEED(dense_train_step_begin(&mixed) == DENSE_OK);
        uint32_t parts = 1;
        dense_status_t status;
        while ((status = dense_train_step_continue(&mixed, budgets[pass], &loss)) == DENSE_MORE) {
            NEED(dense_predict(&mixed) == DENSE_ERROR_RUNNING && dense_update(&mixed) == DENSE_ERROR_RUNNING);
            NEED(dense_train_step(&mixed, &loss) == DENSE_ERROR_RUNNING);
            NEED(dense_load(&mixed, image, sizeof image) == DENSE_ERROR_RUNNING);
            parts++;
        }
        NEED(status == DENSE_OK && !memcmp(&loss, &losses[pass], sizeof loss));
        NEED(pass ? parts < last : parts == DENSE_STEPS);
        last = parts;
        NEED(dense_train_step_continue(&mixed, 1, &loss) == DENSE_ERROR_EARLY);
        predict_dense(&mixed, (pass + 2) % PASSES); /* the gradient waits meanwhile */
        NEED(dense_update(&mixed) == DENSE_OK);
        NEED(digest_of(&plain) == digest_of(&mixed));
    }
}

/* With two passes per update, one whose loss is no number spoils the other, before it and behind it. */
static void refuse_spoilt(void) {
    float loss;
    NEED(normed_init(&net) == NORMED_OK);
    for (uint32_t bad = 0; bad < NORMED_ACCUMULATE; bad++) {
        for (uint32_t pass = 0; pass <= bad; pass++) {
            fill_normed(&net, pass);
            if (pass == bad) normed_input_in_put(&net)[0] = (float)NAN;
            NEED(normed_train_step(&net, &loss) == (pass == bad ? NORMED_ERROR_LOSS : NORMED_OK));
        }
        NEED(normed_update(&net) == NORMED_ERROR_LOSS && normed_train_step(&net, &loss) == NORMED_ERROR_LOSS);
        NEED(normed_save(&net, NORMED_KEEP_STATE, normed_image, sizeof normed_image, 0) == NORMED_ERROR_LOSS);
        NEED(normed_drop_passes(&net) == NORMED_OK && normed_update(&net) == NORMED_ERROR_EARLY);
    }
}

/* Two passes per update; after each pass the state moves to the other struct, which goes on. */
static void train_normed(float *losses, float *scores) {
    normed_t *from = &net, *to = &other;
    NEED(normed_init(from) == NORMED_OK && normed_init(to) == NORMED_OK);
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        fill_normed(from, pass);
        NEED(normed_train_step(from, &losses[pass]) == NORMED_OK);
        fill_normed(from, 0);
        NEED(normed_predict(from) == NORMED_OK);
        NEED(normed_save(from, NORMED_KEEP_STATE, normed_image, sizeof normed_image, 0) == NORMED_OK);
        NEED(normed_load(to, normed_image, sizeof normed_image) == NORMED_OK);
        normed_t *next = from;
        from = to, to = next;
        if (pass % NORMED_ACCUMULATE == NORMED_ACCUMULATE - 1) NEED(normed_update(from) == NORMED_OK);
        else NEED(normed_train_step(from, 0) == NORMED_OK && normed_load(from, normed_image, sizeof normed_image) == NORMED_OK);
    }
    fill_normed(from, 0);
    NEED(normed_predict(from) == NORMED_OK);
    memcpy(scores, normed_output(from), NORMED_OUTPUT_SIZE * sizeof(float));
    NEED(normed_save(from, NORMED_KEEP_STATE, normed_image, sizeof normed_image, 0) == NORMED_OK);
}

int main(int argc, char **argv) {
    float results[2 * PASSES + NORMED_OUTPUT_SIZE];
    NEED(argc == 5);
    FILE *file = fopen(argv[1], "rb");
    NEED(file && fread(dense_samples, 1, sizeof dense_samples, file) == sizeof dense_samples);
    NEED(fread(normed_samples, 1, sizeof normed_samples, file) == sizeof normed_samples && !fclose(file));
    refuse_unprepared();
    refuse_calls();
    check_weights();
    refuse_spoilt();
    train_dense(results);
    train_normed(results + PASSES, results + 2 * PASSES);
    check_images();
    write_file(argv[2], results, sizeof results);
    write_file(argv[3], image, sizeof image);
    write_file(argv[4], normed_image, sizeof normed_image);
    printf("dense %016llx\n", (unsigned long long)digest_of(&plain));
    return 0;
}
