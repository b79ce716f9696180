# ${v.provenance}
#
# make: the library and the example; make run: the example's losses; make install PREFIX=DIR.
% for _ in v.python:
# make shared: the shared library of ${v.name}.py, for this machine.
% endfor
CC ?= cc
AR ?= ar
PREFIX ?= /usr/local
CFLAGS ?= ${v.optimize}
# Without these flags a compiler may round differently, and results are not bit-identical.
EXACT = -std=c${v.standard} ${v.flags}
BUILD ?= build

OBJECTS = \
% for name in v.sources:
    $(BUILD)/${name}.o \
% endfor

all: $(BUILD)/lib${v.name}.a $(BUILD)/${v.name}_example

$(BUILD)/lib${v.name}.a: $(OBJECTS)
	rm -f $@
	$(AR) rcs $@ $(OBJECTS)

$(BUILD)/${v.name}_example: examples/main.c examples/${v.name}_samples.h include/${v.name}.h $(BUILD)/lib${v.name}.a
	$(CC) $(CFLAGS) $(EXACT) -Iinclude $(LDFLAGS) examples/main.c $(BUILD)/lib${v.name}.a ${v.libraries} -o $@

$(BUILD)/%.o: src/%.c include/${v.name}.h $(wildcard src/*.h)
	@mkdir -p $(BUILD)
	$(CC) $(CFLAGS) $(EXACT) -c $< -o $@

run: $(BUILD)/${v.name}_example
	$(BUILD)/${v.name}_example

% for _ in v.python:
# For this machine: its vectors, and kernels of python/ in place of those of src/. The bits are the same.
NATIVE := $(shell $(CC) ${v.native_flag} -E -xc /dev/null >/dev/null 2>&1 && echo ${v.native_flag})
SHARED_CFLAGS ?= ${v.shared_flags} $(NATIVE)
SHARED = $(patsubst $(BUILD)/%.o,$(BUILD)/shared/%.o,$(OBJECTS)) $(BUILD)/shared/${v.name}_build.o

shared: $(BUILD)/lib${v.name}.so

$(BUILD)/lib${v.name}.so: $(SHARED)
	rm -f $@
	$(CC) -shared $(LDFLAGS) $(SHARED) ${v.libraries} -o $@

# The first rule that has its source is the one that make takes.
$(BUILD)/shared/%.o: python/%.c include/${v.name}.h $(wildcard src/*.h python/*.h)
	@mkdir -p $(BUILD)/shared
	$(CC) $(SHARED_CFLAGS) $(EXACT) -fPIC -Isrc -c $< -o $@

$(BUILD)/shared/%.o: src/%.c include/${v.name}.h $(wildcard src/*.h)
	@mkdir -p $(BUILD)/shared
	$(CC) $(SHARED_CFLAGS) $(EXACT) -fPIC -c $< -o $@

% endfor
install: $(BUILD)/lib${v.name}.a
	mkdir -p $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include
	cp $(BUILD)/lib${v.name}.a $(DESTDIR)$(PREFIX)/lib/
	cp include/${v.name}.h $(DESTDIR)$(PREFIX)/include/

clean:
	rm -rf $(BUILD)

.PHONY: all run install clean${v.python_targets}
