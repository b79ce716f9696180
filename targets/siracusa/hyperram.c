/* The HyperRAM's micro-DMA has two transaction ids, each with a queue of eight transfers that end in order and are
 * counted. One id serves each direction, so that its command word stays, and a ticket is a transfer's number in the
 * queue: nothing has to be kept per ticket. */
#include "hyperram.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define UDMA_CLOCKS REGISTER(0x1a102000)
#define UDMA_HYPER_CLOCK 0x7f0u
#define COMMON 0x1a102380
#define PAGE_BOUND REGISTER(COMMON + 0x00)
#define LATENCY REGISTER(COMMON + 0x04)
#define LATENCY_ADD REGISTER(COMMON + 0x08)
#define MEMORY_SELECT REGISTER(COMMON + 0x20)
enum { PAGES_UNBOUNDED = 4, LATENCY_CYCLES = 6, COMMAND_READ = 5, COMMAND_WRITE = 1, START = 1 << 4, QUEUE = 8 };

typedef struct {
    volatile uint32_t address, bytes, start;
} side_t;

typedef struct {
    side_t rx, tx;
    volatile uint32_t command, external, configuration, status, strided, line, stride, unused[19];
} channel_t;
#define CHANNELS ((channel_t *)0x1a102280)
_Static_assert(sizeof(channel_t) == 0x80, "the registers of one transaction id");

/* A register takes about thirty cycles: what was written is remembered. */
typedef struct {
    uint32_t started, ended; /* counts; at least `ended` have */
    uint32_t strided;
} queue_t;
static queue_t queues[2];

#define NUMBER (TICKET_OUT - 1u)
#define WORD 4u

void hyperram_init(void) {
    UDMA_CLOCKS |= UDMA_HYPER_CLOCK;
    PAGE_BOUND = PAGES_UNBOUNDED;
    LATENCY = LATENCY_CYCLES;
    LATENCY_ADD = 1;
    MEMORY_SELECT = 0;
    CHANNELS[HYPERRAM_IN].command = COMMAND_READ;
    CHANNELS[HYPERRAM_OUT].command = COMMAND_WRITE;
    CHANNELS[HYPERRAM_IN].strided = CHANNELS[HYPERRAM_OUT].strided = 0;
}

/* How many of the first `number` transfers have not ended, less those that began after them. Counts wrap as tickets do. */
static int32_t pending(hyperram_direction_t direction, uint32_t number) {
    return (int32_t)((number - queues[direction].ended) << 2) >> 2;
}

/* Returns when at most `most` of the first `number` have not ended. */
static void drain(hyperram_direction_t direction, uint32_t number, int32_t most) {
    while (pending(direction, number) > most)
        queues[direction].ended = queues[direction].started - (CHANNELS[direction].status >> 1 & 0xff);
}

/* A `line` other than 0 cuts the bytes in L3 into lines `stride` apart. */
static void push(hyperram_direction_t direction, uint32_t l2, uint32_t l3, uint32_t bytes, uint32_t line, uint32_t stride) {
    queue_t *queue = &queues[direction];
    channel_t *channel = &CHANNELS[direction];
    side_t *side = direction == HYPERRAM_IN ? &channel->rx : &channel->tx;
    drain(direction, queue->started, QUEUE - 1);
    if (queue->strided != (line != 0)) channel->strided = queue->strided = line != 0;
    if (line) {
        channel->line = line;
        channel->stride = stride;
    }
    channel->external = l3;
    side->address = l2;
    side->bytes = bytes;
    side->start = START;
    queue->started++;
}

/* The engine writes whole words into L2: where lines end within one, those bytes come by way of a word of our own. */
static void read_line(uint32_t l2, uint32_t l3, uint32_t bytes) {
    static uint32_t word;
    const uint32_t rest = bytes % WORD, whole = bytes - rest;
    if (whole) push(HYPERRAM_IN, l2, l3, whole, 0, 0);
    push(HYPERRAM_IN, (uint32_t)&word, l3 + whole, WORD, 0, 0);
    drain(HYPERRAM_IN, queues[HYPERRAM_IN].started, 0);
    for (uint32_t i = 0; i < rest; i++) ((uint8_t *)l2)[whole + i] = ((volatile uint8_t *)&word)[i];
}

hal_ticket_t hyperram_start(hyperram_direction_t direction, const void *inner, const void *outer, uint32_t run,
                            uint32_t count, uint32_t stride, uint32_t planes, uint32_t plane_stride) {
    if (run * count * planes == 0) return HAL_DONE;
    const uint32_t l2 = (uint32_t)inner, l3 = (uint32_t)outer;
    if (direction == HYPERRAM_IN && run % WORD) {
        for (uint32_t i = 0; i < planes * count; i++)
            read_line(l2 + i * run, l3 + i / count * plane_stride + i % count * stride, run);
        return HAL_DONE;
    }
    const uint32_t bytes = run * count, line = count == 1 || stride == run ? 0 : run;
    for (uint32_t p = 0; p < planes; p++) push(direction, l2 + p * bytes, l3 + p * plane_stride, bytes, line, stride);
    return TICKET_HYPERRAM | (direction == HYPERRAM_OUT ? TICKET_OUT : 0) | (queues[direction].started & NUMBER);
}

void hyperram_wait(hal_ticket_t ticket) {
    drain(ticket & TICKET_OUT ? HYPERRAM_OUT : HYPERRAM_IN, ticket & NUMBER, 0);
}
