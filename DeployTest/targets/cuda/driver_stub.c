/* The functions of a GPU's driver over the emulation by threads: memory is this process's, a launch runs threads. It checks
 * what a driver would: that the device was initialized, that code is loaded, and that a block has as much shared memory as it
 * was allowed. */
#define main emulated_main
#include "emulated/main.c"
#undef main

enum { NOT_INITIALIZED = 3, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500, USUAL_SHARED = 48 << 10 };
static int ready, loaded, live;
static size_t allowed[8];

int cuInit(unsigned flags) {
    const char *answer = getenv("STUB_INIT");
    if (answer) return atoi(answer);
    ready = 1;
    return flags != 0;
}
int cuDeviceGet(int *device, int ordinal) {
    *device = 7;
    return ready ? ordinal != 0 : NOT_INITIALIZED;
}
int cuDeviceGetName(char *name, int bytes, int device) { return device == 7 ? snprintf(name, (size_t)bytes, "a stub") < 0 : INVALID_VALUE; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = 1 << 30;
    return device == 7 ? 0 : INVALID_VALUE;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 8 : attribute == 76 ? 0 : attribute == 97 ? 166912 : 1;
    return device == 7 ? 0 : INVALID_VALUE;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &ready;
    return device == 7 ? 0 : INVALID_VALUE;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return device == 7 && live == 0 ? 0 : INVALID_VALUE; }
int cuCtxSetCurrent(void *context) { return context == &ready ? 0 : INVALID_VALUE; }
int cuCtxSetLimit(int limit, size_t bytes) { return limit == 0 && bytes >= 1024 ? 0 : INVALID_VALUE; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleLoadData(void **module, const void *image) {
    *module = &loaded;
    loaded = memcmp(image, "\177ELF", 4) == 0;
    return !loaded;
}
int cuModuleUnload(void *module) { return module != &loaded; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (module == &loaded && strcmp(entries[i].name, name) == 0) {
            *function = allowed + i;
            allowed[i] = USUAL_SHARED;
            return 0;
        }
    return NOT_FOUND;
}
int cuFuncSetAttribute(size_t *function, int attribute, int value) {
    *function = (size_t)value;
    return attribute != 8;
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    void *memory = bytes > 1 << 30 ? 0 : malloc(bytes);
    *address = (uint64_t)(uintptr_t)memory;
    live += memory != 0;
    return memory ? 0 : OUT_OF_MEMORY;
}
int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t bytes) { return memset(at(address), value, bytes) == 0; }
int cuMemFree_v2(uint64_t address) {
    free(at(address));
    live--;
    return 0;
}
int cuMemcpyHtoD_v2(uint64_t address, const void *from, size_t bytes) { return memcpy(at(address), from, bytes) == 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t address, size_t bytes) { return memcpy(to, at(address), bytes) == 0; }
int cuLaunchKernel(size_t *function, unsigned x, unsigned y, unsigned z, unsigned lanes, unsigned lanes_y, unsigned lanes_z,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    if (y != 1 || z != 1 || lanes_y != 1 || lanes_z != 1 || stream || extra || !loaded || shared > *function) return INVALID_VALUE;
    entry = entries[function - allowed].run;
    memcpy(&call, arguments[0], sizeof call);
    groups = x;
    scratch = shared ? malloc(shared) : 0;
    launch(lanes);
    free(scratch);
    return 0;
}
int cuGetErrorString(int result, const char **text) {
    *text = result == OUT_OF_MEMORY ? "out of memory" : result == 100 ? "no device is detected" : "an error";
    return 0;
}
