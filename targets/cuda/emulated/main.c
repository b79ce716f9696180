/* A rack's machine emulated by threads: commands from standard input, answers on standard output, both in binary.
 *
 * a BYTES -> ADDRESS; f ADDRESS; w ADDRESS BYTES data; r ADDRESS BYTES -> data; l ENTRY GROUPS LANES SCRATCH call -> 0.
 * Numbers are uint64_t; f and w have no answer. */
#include "rack.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

enum { MOST_LANES = 1024 };

void rack_begin(const rack_call_t *call);
void rack_set_rates(const rack_call_t *call);
void rack_load(const rack_call_t *call);
void rack_save(const rack_call_t *call);
void rack_digest(const rack_call_t *call);
void rack_train(const rack_call_t *call, void *scratch);

static void *scratch;
static void train(const rack_call_t *call) { rack_train(call, 0); }
static void train_shared(const rack_call_t *call) { rack_train(call, scratch); }

static const struct {
    const char *name;
    void (*run)(const rack_call_t *call);
} entries[] = {
    {"begin", rack_begin}, {"set_rates", rack_set_rates}, {"load", rack_load},          {"save", rack_save},
    {"digest", rack_digest}, {"train", train},            {"train_shared", train_shared},
};

_Thread_local uint32_t machine_lane_now, machine_group_now;
uint32_t machine_lanes_now = 1;
static pthread_barrier_t barrier;

void machine_join(void) {
    if (machine_lanes_now > 1) pthread_barrier_wait(&barrier);
}

static rack_call_t call;
static void (*entry)(const rack_call_t *call);
static uint64_t groups;

static void *lane(void *number) {
    machine_lane_now = (uint32_t)(uintptr_t)number;
    for (uint64_t group = 0; group < groups; group++) {
        machine_group_now = (uint32_t)group;
        entry(&call);
        machine_join(); /* the scratch memory is that of the next group */
    }
    return 0;
}

static void launch(uint64_t lanes) {
    static pthread_t threads[MOST_LANES];
    machine_lanes_now = (uint32_t)lanes;
    if (lanes == 1) {
        (void)lane(0);
        return;
    }
    if (lanes > MOST_LANES || pthread_barrier_init(&barrier, 0, (unsigned)lanes)) exit(4);
    for (uint64_t i = 0; i < lanes; i++)
        if (pthread_create(threads + i, 0, lane, (void *)(uintptr_t)i)) exit(5);
    for (uint64_t i = 0; i < lanes; i++) pthread_join(threads[i], 0);
    pthread_barrier_destroy(&barrier);
}

static void get(void *to, uint64_t bytes) {
    if (bytes && fread(to, 1, bytes, stdin) != bytes) exit(2);
}
static uint64_t number(void) {
    uint64_t value;
    get(&value, sizeof value);
    return value;
}
static void put(const void *from, uint64_t bytes) {
    if ((bytes && fwrite(from, 1, bytes, stdout) != bytes) || fflush(stdout)) exit(3);
}

static void *at(uint64_t address) { return (void *)(uintptr_t)address; }

static void start(void) {
    const uint64_t index = number();
    groups = number();
    const uint64_t lanes = number(), bytes = number(), done = 0;
    get(&call, sizeof call);
    if (index >= sizeof entries / sizeof *entries) exit(6);
    entry = entries[index].run;
    scratch = bytes ? calloc(1, bytes) : 0;
    launch(lanes);
    free(scratch);
    put(&done, sizeof done);
}

int main(int count, char **words) {
    if (count > 1) { /* the names of the entries, for who calls them by number */
        for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++) puts(entries[i].name);
        return words[1] == 0;
    }
    for (int command = getchar(); command != EOF; command = getchar()) {
        if (command == 'a') {
            const uint64_t address = (uint64_t)(uintptr_t)calloc(1, number());
            put(&address, sizeof address);
        } else if (command == 'f') {
            free(at(number()));
        } else if (command == 'w') {
            void *to = at(number());
            get(to, number());
        } else if (command == 'r') {
            const void *from = at(number());
            put(from, number());
        } else if (command == 'l') {
            start();
        } else {
            return 1;
        }
    }
    return 0;
}
