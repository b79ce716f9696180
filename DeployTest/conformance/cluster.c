/* This machine as such a cluster: threads are the cores, and one more thread is the DMA engine. */
#include "cluster.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Alignas(16) uint8_t hal_memory_near[16384], hal_memory_far[65536];
static FILE *input, *output;
static pthread_barrier_t barrier;
static _Thread_local uint32_t core;

enum { FREE, WAITING, ENDED };
static struct {
    cluster_dma_t lines;
    int state;
} channels[CLUSTER_CHANNELS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t started = PTHREAD_COND_INITIALIZER;

static void move(const cluster_dma_t *l) {
    for (uint32_t i = 0; i < l->count; i++)
        memcpy((uint8_t *)l->to + i * l->to_stride, (const uint8_t *)l->from + i * l->from_stride, l->run);
}

/* The channel with the highest number first: not the order of the starts. */
static void *engine(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        uint32_t next = CLUSTER_CHANNELS;
        while (next > 0 && channels[next - 1].state != WAITING) next--;
        if (next == 0) {
            pthread_cond_wait(&started, &lock);
            continue;
        }
        move(&channels[next - 1].lines);
        channels[next - 1].state = ENDED;
    }
    return NULL;
}

static void *work(void *number) {
    core = (uint32_t)(uintptr_t)number;
    cluster_worker();
    return NULL;
}

void cluster_init(uint32_t cores) {
    pthread_t thread;
    input = fopen("input.bin", "rb");
    output = fopen("output.bin", "wb");
    if (!input || !output || pthread_barrier_init(&barrier, NULL, cores)) exit(2);
    for (uint32_t i = 1; i < cores; i++)
        if (pthread_create(&thread, NULL, work, (void *)(uintptr_t)i)) exit(2);
    if (pthread_create(&thread, NULL, engine, NULL)) exit(2);
}
uint32_t cluster_core(void) { return core; }
void cluster_barrier(void) { pthread_barrier_wait(&barrier); }

uint32_t cluster_dma_start(const cluster_dma_t *lines) {
    uint32_t channel = 0;
    pthread_mutex_lock(&lock);
    while (channel < CLUSTER_CHANNELS && channels[channel].state != FREE) channel++;
    if (channel == CLUSTER_CHANNELS) abort(); /* real engines block here for ever */
    channels[channel].lines = *lines;
    channels[channel].state = WAITING;
    pthread_cond_signal(&started);
    pthread_mutex_unlock(&lock);
    return channel;
}
int cluster_dma_busy(uint32_t channel) {
    pthread_mutex_lock(&lock);
    const int busy = channels[channel].state == WAITING;
    pthread_mutex_unlock(&lock);
    return busy;
}
void cluster_dma_free(uint32_t channel) {
    pthread_mutex_lock(&lock);
    channels[channel].state = FREE;
    pthread_mutex_unlock(&lock);
}

uint64_t cluster_clock(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
void cluster_read(void *destination, uint32_t bytes) {
    if (fread(destination, 1, bytes, input) != bytes) exit(2);
}
void cluster_write(const void *source, uint32_t bytes) {
    if (fwrite(source, 1, bytes, output) != bytes) exit(2);
}
void cluster_put(char character) { putchar(character); }
void cluster_exit(int code) { exit(code); }
