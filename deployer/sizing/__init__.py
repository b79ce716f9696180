"""What a library takes of a microcontroller: code, memory, stack, instructions; on which boards it fits."""
