# The fabric controller starts the cluster and sleeps; cluster core 0 runs main, the others wait for kernels.
    .equ CLUSTER_CONTROL, 0x10200000
    .equ ICACHE_ENABLE,   0x10201400
    .equ EVENT_UNIT,      0x10204000
    .equ STACKS_END,      0x1003fc00     # below the cluster's own words
    .equ STACK_MAIN,      4096           # of core 0
    .equ STACK_WORKER,    1536
    .equ FC_HART,         0x3e0

    .section .text.start, "ax"
    .globl _start
_start:
    csrr t0, mhartid
    li t1, FC_HART
    bne t0, t1, cluster_entry
    la t0, fc_trap
    csrw mtvec, t0
    li sp, 0x1c010000                   # the end of the fabric controller's private L2
    li t0, ICACHE_ENABLE
    li t1, -1
    sw t1, 0(t0)
    li t0, CLUSTER_CONTROL
    la t1, cluster_entry
    addi t2, t0, 0x40
    addi t3, t0, 0x60
1:  sw t1, 0(t2)
    addi t2, t2, 4
    bltu t2, t3, 1b
    li t1, 1                            # core 0 alone; it starts the others when the barrier is set up
    sw t1, 8(t0)
2:  wfi
    j 2b

cluster_entry:
    la t0, trap_vector
    csrw mtvec, t0
    fscsr zero
    csrr t0, mhartid
    andi t0, t0, 31
    li t1, EVENT_UNIT
    lui t2, 0x10                        # barrier events alone wake a core
    sw t2, 0(t1)
    li sp, STACKS_END
    beqz t0, main_core
    li t3, STACK_MAIN
    sub sp, sp, t3
    li t3, STACK_WORKER
    addi t4, t0, -1
    mul t3, t3, t4
    sub sp, sp, t3
    j cluster_worker

main_core:
    la t0, tables_source
    la t1, hal_memory_l1
    la t2, tables_bytes
    add t2, t2, t1
1:  bgeu t1, t2, 2f
    lw t3, 0(t0)
    sw t3, 0(t1)
    addi t0, t0, 4
    addi t1, t1, 4
    j 1b
2:  la t0, bss_begin
    la t1, bss_end
3:  bgeu t0, t1, 4f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 3b
4:  li a0, 0
    li a1, 0
    call main
    call hal_exit

    .balign 256
trap_vector:                            # interrupt n jumps to its n-th word, traps to the first
    .option push
    .option norvc
    .rept 32
    j trap_entry
    .endr
    .option pop
trap_entry:
    li t0, EVENT_UNIT
    lw t0, 0xc0(t0)                     # a mutex: the first core to fail speaks, others sleep here
    csrr a0, mcause
    csrr a1, mepc
    li a2, 0
    call trap_report

    .balign 4
fc_trap:
    csrr a0, mcause
    csrr a1, mepc
    li a2, 0x3e0
    call trap_report
