/* The entries as kernels of a GPU. In CUDA's language for their attributes alone; the rest is C. */
#include "rack.h"

#define GLOBAL __attribute__((global))
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))

extern "C" {

extern SHARED uint64_t scratchpad[];

DEVICE void rack_begin(const rack_call_t *call);
DEVICE void rack_set_rates(const rack_call_t *call);
DEVICE void rack_load(const rack_call_t *call);
DEVICE void rack_save(const rack_call_t *call);
DEVICE void rack_digest(const rack_call_t *call);
DEVICE void rack_train(const rack_call_t *call, void *scratch);

GLOBAL void begin(rack_call_t call) { rack_begin(&call); }
GLOBAL void set_rates(rack_call_t call) { rack_set_rates(&call); }
GLOBAL void load(rack_call_t call) { rack_load(&call); }
GLOBAL void save(rack_call_t call) { rack_save(&call); }
GLOBAL void digest(rack_call_t call) { rack_digest(&call); }
GLOBAL void train(rack_call_t call) { rack_train(&call, 0); }
GLOBAL void train_shared(rack_call_t call) { rack_train(&call, scratchpad); }
}
