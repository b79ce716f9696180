/* A call's shares are taken one by one, by whichever thread comes: kernels go by a core's number and never wait for each other,
 * so one thread may be several cores in turn, and a thread that the machine has no processor for is not waited for. */
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { LOOKS = 2000, STACK = 1 << 20 }; /* a look takes some ten cycles; kernels have packing buffers on their stack */

_Thread_local uint32_t hal_thread;

/* A number that others wait for: they look at it for some microseconds, as the next call is near, and then sleep, as others
 * may need the processor. */
typedef struct {
    _Alignas(64) atomic_uint number; /* on a line of its own: it is looked at while others work */
    atomic_uint sleepers;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} gate_t;

static gate_t next = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}; /* share to be taken */
static gate_t left = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}; /* shares that are not done */
static hal_kernel_t call_kernel; /* both are written before shares can be taken, and not before those of the last call are done */
static const void *call_args;
static uint32_t shares, looks;

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* A sleeper says so before its last look, and who changes the number asks for sleepers after that: one sees the other. */
static void wait_below(gate_t *gate, uint32_t limit) {
    for (uint32_t i = 0; i < looks; i++) {
        if (atomic_load(&gate->number) < limit) return;
        pause_briefly();
    }
    pthread_mutex_lock(&gate->lock);
    atomic_fetch_add(&gate->sleepers, 1);
    while (atomic_load(&gate->number) >= limit) pthread_cond_wait(&gate->changed, &gate->lock);
    atomic_fetch_sub(&gate->sleepers, 1);
    pthread_mutex_unlock(&gate->lock);
}

static void wake(gate_t *gate) {
    if (!atomic_load(&gate->sleepers)) return;
    pthread_mutex_lock(&gate->lock);
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/* Takes shares until there are none. Whoever has one may read the call, which is not over before all shares are done. */
static void take_shares(void) {
    uint32_t share = atomic_load(&next.number);
    while (share < shares) {
        if (!atomic_compare_exchange_weak(&next.number, &share, share + 1)) continue;
        hal_thread = share;
        call_kernel(call_args);
        if (atomic_fetch_sub(&left.number, 1) == 1) wake(&left);
        share = atomic_load(&next.number);
    }
}

static void *work(void *nothing) {
    for (;;) {
        wait_below(&next, shares);
        take_shares();
    }
    return nothing;
}

uint32_t pool_start(uint32_t cores) {
    pthread_attr_t attributes;
    uint32_t started = 1;
    if (cores == 1) return started;
    shares = cores;
    atomic_store(&next.number, cores);
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    looks = processors >= (long)cores ? LOOKS : 0; /* with fewer processors, a look keeps another from working */
    if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, STACK)) return started;
    if (pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED)) return started;
    for (pthread_t thread; started < cores; started++)
        if (pthread_create(&thread, &attributes, work, 0)) break;
    pthread_attr_destroy(&attributes);
    return started;
}

void pool_run(hal_kernel_t kernel, const void *args) {
    call_kernel = kernel;
    call_args = args;
    atomic_store(&left.number, shares);
    atomic_store(&next.number, 0);
    wake(&next);
    take_shares();
    wait_below(&left, 1);
}
