/* What goes on around the steps: graphs, the harness's files and its loss, and the beginning of a run. */
#include "inject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void __real_hal_init(int argc, char **argv);
void __real_hal_read(void *destination, uint32_t bytes);
void __real_hal_write(const void *source, uint32_t bytes);
void __real_hal_print(const char *text);
void __real_train_network_run(uint32_t lazy_reset);
void __real_optimizer_network_run(void);

static uint32_t train_passes, updates, reads, writes;
static uint64_t file_offset;
static struct {
    uint8_t *home;
    uint8_t saved[4];
} loss;

/* ---- graphs ---- */

enum { TRAIN, OPTIMIZER };

void inject_restore_loss(void) {
    if (loss.home) memcpy(loss.home, loss.saved, sizeof loss.saved);
    loss.home = NULL;
}

static void show_loss_from(uint32_t pass) {
    const inject_action_t *a = inject_find(AT_LOSS, 0, 0, 0, pass);
    if (!a) return;
    loss.home = inject_at(a->value[0], a->value[1]);
    memcpy(loss.saved, loss.home, sizeof loss.saved);
    memcpy(loss.home, inject_at(a->value[2], a->value[3]), sizeof loss.saved);
}

void __wrap_train_network_run(uint32_t lazy_reset) {
    const uint32_t pass = train_passes++;
    const inject_action_t *a = inject_find(AT_GRAPH, TRAIN, 0, 0, pass);
    if (a && a->op == OP_SET) lazy_reset = (uint32_t)a->value[0];
    if (a && a->op == OP_INVERT) lazy_reset = !lazy_reset;
    if (!(a && a->op == OP_DROP)) __real_train_network_run(lazy_reset);
    if (a && a->op == OP_TWICE) __real_train_network_run(lazy_reset);
    if (a && a->op == OP_EXTRA) __real_optimizer_network_run();
    show_loss_from(pass);
}

void __wrap_optimizer_network_run(void) {
    const inject_action_t *a = inject_find(AT_GRAPH, OPTIMIZER, 0, 0, updates++);
    if (a && a->op == OP_DROP) return;
    __real_optimizer_network_run();
    if (a && a->op == OP_TWICE) __real_optimizer_network_run();
}

/* ---- the harness ---- */

void __wrap_hal_print(const char *text) {
    inject_restore_loss();
    __real_hal_print(text);
}

void __wrap_hal_read(void *destination, uint32_t bytes) {
    const inject_action_t *a = inject_find(AT_READ, 0, 0, 0, reads++);
    census_read(destination, bytes, file_offset);
    file_offset += bytes;
    if (a && a->op == OP_NEXT) return;
    uint8_t *nowhere = malloc(bytes);
    if (!nowhere) abort();
    __real_hal_read(a && a->op == OP_DROP ? nowhere : destination, bytes);
    free(nowhere);
}

void __wrap_hal_write(const void *source, uint32_t bytes) {
    const inject_action_t *a = inject_find(AT_WRITE, 0, 0, 0, writes++);
    census_write(source, bytes);
    if (a && a->op == OP_OTHER) source = inject_at(a->value[0], a->value[1]);
    __real_hal_write(source, bytes);
}

static uint8_t *whole_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) abort();
    *bytes = (size_t)ftell(file);
    uint8_t *content = malloc(*bytes);
    rewind(file);
    if (!content || fread(content, 1, *bytes, file) != *bytes) abort();
    fclose(file);
    return content;
}

/* A read that brings the bytes of another: in a copy of the input, beside the output, they stand in its place. */
static char *other_input(const char *input, const char *output, const inject_action_t *a) {
    size_t bytes;
    uint8_t *content = whole_file(input, &bytes);
    memmove(content + a->value[0], content + a->value[1], (size_t)a->value[2]);
    char *path = malloc(strlen(output) + 8);
    if (!path) abort();
    sprintf(path, "%s.input", output);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(content, 1, bytes, file) != bytes || fclose(file)) abort();
    free(content);
    return path;
}

static void change_input(int argc, char **argv) {
    char **input = NULL, **output = NULL;
    const inject_action_t *a = inject_first(AT_READ, OP_OTHER);
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], "--input")) input = &argv[i + 1];
        if (!strcmp(argv[i], "--output")) output = &argv[i + 1];
    }
    if (a && input && output) *input = other_input(*input, *output, a);
}

/* A fault may make a program run for ever: it ends after seconds of its own time, however busy the machine is. */
static void limit_time(void) {
    const struct rlimit limit = {3, 3}, none = {0, 0};
    setrlimit(RLIMIT_CPU, &limit);
    setrlimit(RLIMIT_CORE, &none);
}

void __wrap_hal_init(int argc, char **argv) {
    const char *fault = getenv("DEPLOYER_FAULT"), *census = getenv("DEPLOYER_CENSUS");
    limit_time();
    if (fault) inject_parse(fault);
    change_input(argc, argv);
    if (census) census_open(census);
    __real_hal_init(argc, argv);
}
