/* What a cluster gives to the HAL that docs/how-to/target.md shows. */
#ifndef CLUSTER_H
#define CLUSTER_H

#include <stdint.h>

#define CLUSTER_CHANNELS 4u

typedef struct {
    void *to;
    const void *from;
    uint32_t run, count, to_stride, from_stride; /* bytes, lines, bytes between lines */
} cluster_dma_t;

void cluster_init(uint32_t cores); /* starts the other cores in cluster_worker */
void cluster_worker(void);
uint32_t cluster_core(void);
void cluster_barrier(void);
uint32_t cluster_dma_start(const cluster_dma_t *lines); /* the channel, of those that are free the lowest */
int cluster_dma_busy(uint32_t channel);
void cluster_dma_free(uint32_t channel);
uint64_t cluster_clock(void);
void cluster_read(void *destination, uint32_t bytes);
void cluster_write(const void *source, uint32_t bytes);
void cluster_put(char character);
void cluster_exit(int code);

#endif
