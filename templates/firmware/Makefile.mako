# ${v.provenance}
#
# make: the library and the example; make run: the example's losses; make install PREFIX=DIR.
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

install: $(BUILD)/lib${v.name}.a
	mkdir -p $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include
	cp $(BUILD)/lib${v.name}.a $(DESTDIR)$(PREFIX)/lib/
	cp include/${v.name}.h $(DESTDIR)$(PREFIX)/include/

clean:
	rm -rf $(BUILD)

.PHONY: all run install clean
