"""Tests of libraries on Spike, the RISC-V instruction set's own simulator, beside QEMU."""
