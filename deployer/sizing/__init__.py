"""Resource needs of a library on a microcontroller: code, memory, stack, instructions; boards that it fits."""
