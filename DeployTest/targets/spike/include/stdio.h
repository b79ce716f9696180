/* What the example of a library prints with. */
int printf(const char *format, ...);
