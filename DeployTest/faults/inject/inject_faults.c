/* The fault of a run, from the environment, and the census, which writes down what the right program does. */
#include "inject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACTIONS_MAX 4

static inject_action_t actions[ACTIONS_MAX];
static uint32_t action_count;
static uint32_t reached;
static FILE *census;

static void stop(const char *text) {
    fprintf(stderr, "inject: %s\n", text);
    exit(4);
}

static void say_whether_reached(void) {
    if (!reached) fputs("inject: no action was reached\n", stderr);
}

void inject_parse(const char *text) {
    atexit(say_whether_reached);
    for (const char *at = text; *at; action_count++) {
        if (action_count == ACTIONS_MAX) stop("too many actions");
        inject_action_t *a = &actions[action_count];
        int64_t number[13] = {0};
        for (uint32_t i = 0; i < 13; i++) {
            char *end;
            number[i] = strtoll(at, &end, 10);
            if (end == at) stop("an action has 13 numbers");
            at = end;
        }
        while (*at == ';' || *at == ' ') at++;
        a->point = (inject_point_t)number[0];
        a->step = (int32_t)number[1];
        a->region = (int32_t)number[2];
        a->way = (int32_t)number[3];
        a->ordinal = (int32_t)number[4];
        a->op = (inject_op_t)number[5];
        memcpy(a->value, number + 6, sizeof a->value);
    }
}

static uint32_t matches(int32_t wanted, uint32_t found) { return wanted < 0 || (uint32_t)wanted == found; }

const inject_action_t *inject_find(inject_point_t point, uint32_t step, uint32_t region, uint32_t way,
                                   uint32_t ordinal) {
    for (const inject_action_t *a = actions; a < actions + action_count; a++)
        if (a->point == point && matches(a->step, step) && matches(a->region, region) && matches(a->way, way) &&
            matches(a->ordinal, ordinal)) {
            reached = 1;
            return a;
        }
    return NULL;
}

const inject_action_t *inject_first(inject_point_t point, inject_op_t op) {
    for (const inject_action_t *a = actions; a < actions + action_count; a++)
        if (a->point == point && a->op == op) return a;
    return NULL;
}

/* ---- census ---- */

void census_open(const char *path) {
    census = fopen(path, "w");
    if (!census) stop("the census cannot be written");
}

uint32_t inject_place(const void *address, uint32_t *offset) {
    for (uint32_t i = 0; i < inject_plan.level_count; i++) {
        const uintptr_t first = (uintptr_t)inject_plan.levels[i].memory, at = (uintptr_t)address;
        if (at < first || at - first >= inject_plan.levels[i].bytes) continue;
        *offset = (uint32_t)(at - first);
        return i;
    }
    *offset = 0;
    return inject_plan.level_count;
}

uint8_t *inject_at(int64_t level, int64_t offset) {
    return level < 0 ? NULL : inject_plan.levels[level].memory + offset;
}

static void print_place(const void *address) {
    uint32_t offset;
    const uint32_t level = inject_place(address, &offset);
    if (level == inject_plan.level_count) fputs(" -1 0", census);
    else fprintf(census, " %u %u", level, offset);
}

void census_step(uint32_t step) {
    if (census) fprintf(census, "step %d\n", (int)step);
}

static void print_move(const inject_move_t *m, uint32_t region) {
    fprintf(census, " %u %u %u", region, m->inward, m->hop);
    print_place(m->inner);
    print_place(m->outer);
    fprintf(census, " %u %u %u %u %u %u\n", m->run, m->count, m->stride, m->planes, m->plane_stride, m->form);
}

void census_move(const inject_move_t *m, uint32_t region) {
    if (!census) return;
    fputs("move", census);
    print_move(m, region);
}

void census_early(uint32_t step, const inject_move_t *m, uint32_t region) {
    if (!census) return;
    fprintf(census, "early %u", step);
    print_move(m, region);
}

static uint32_t kernel_number(hal_kernel_t kernel) {
    uint32_t i = 0;
    while (i < inject_plan.kernel_count && inject_plan.kernels[i] != kernel) i++;
    return i;
}

void census_call(uint32_t step, hal_kernel_t kernel, const void *args) {
    if (!census) return;
    const inject_step_t *s = &inject_plan.steps[step];
    fprintf(census, "call %u", kernel_number(kernel));
    for (const inject_field_t *f = s->fields; f < s->fields + s->field_count; f++) {
        const uint8_t *at = (const uint8_t *)args + f->offset;
        const void *pointer;
        uint32_t bits;
        if (f->kind == 'p') {
            memcpy(&pointer, at, sizeof pointer);
            print_place(pointer);
            continue;
        }
        memcpy(&bits, at, sizeof bits);
        fprintf(census, " %u", bits);
    }
    fputc('\n', census);
}

void census_tables(uint32_t bytes) {
    if (census) fprintf(census, "tables %u\n", bytes);
}

void census_read(const void *destination, uint32_t bytes, uint64_t file_offset) {
    if (!census) return;
    fputs("read", census);
    print_place(destination);
    fprintf(census, " %u %llu\n", bytes, (unsigned long long)file_offset);
}

void census_write(const void *source, uint32_t bytes) {
    if (!census) return;
    fputs("write", census);
    print_place(source);
    fprintf(census, " %u\n", bytes);
}
