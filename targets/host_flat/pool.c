/* A call is announced by a count that goes up, and over when the count of busy threads is zero. Whoever waits for a count
 * looks at it for some microseconds, as the next call is near, and then sleeps, as others may need the processor. */
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { LOOKS = 2000, STACK = 1 << 20 }; /* a look takes some ten cycles; kernels have packing buffers on their stack */

_Thread_local uint32_t hal_thread;

typedef struct {
    _Alignas(64) atomic_uint count; /* on a line of its own: it is looked at while others work */
    atomic_uint sleepers;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} gate_t;

static gate_t calls = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static gate_t busy = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static hal_kernel_t call_kernel; /* both are written before a call is announced, and not before the last one is over */
static const void *call_args;
static uint32_t started = 1, looks;

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* A sleeper says so before its last look, and who changes the count asks for sleepers after that: one sees the other. */
static void wait_for(gate_t *gate, uint32_t count) {
    for (uint32_t i = 0; i < looks; i++) {
        if (atomic_load(&gate->count) == count) return;
        pause_briefly();
    }
    pthread_mutex_lock(&gate->lock);
    atomic_fetch_add(&gate->sleepers, 1);
    while (atomic_load(&gate->count) != count) pthread_cond_wait(&gate->changed, &gate->lock);
    atomic_fetch_sub(&gate->sleepers, 1);
    pthread_mutex_unlock(&gate->lock);
}

static void wake(gate_t *gate) {
    if (!atomic_load(&gate->sleepers)) return;
    pthread_mutex_lock(&gate->lock);
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void *core(void *number) {
    hal_thread = (uint32_t)(uintptr_t)number;
    for (uint32_t call = 1;; call++) {
        wait_for(&calls, call);
        call_kernel(call_args);
        if (atomic_fetch_sub(&busy.count, 1) == 1) wake(&busy);
    }
    return 0;
}

uint32_t pool_start(uint32_t cores) {
    pthread_attr_t attributes;
    if (cores == 1) return started;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    looks = processors >= (long)cores ? LOOKS : 0; /* with fewer processors, a look keeps another from working */
    if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, STACK)) return started;
    if (pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED)) return started;
    for (pthread_t thread; started < cores; started++)
        if (pthread_create(&thread, &attributes, core, (void *)(uintptr_t)started)) break;
    pthread_attr_destroy(&attributes);
    return started;
}

void pool_run(hal_kernel_t kernel, const void *args) {
    call_kernel = kernel;
    call_args = args;
    atomic_store(&busy.count, started - 1);
    atomic_fetch_add(&calls.count, 1);
    wake(&calls);
    kernel(args);
    wait_for(&busy, 0);
}
