/* Argument tables are plain data here: the machine has one flat memory. */
#ifndef HAL_TARGET_H
#define HAL_TARGET_H

#define HAL_TABLE

#endif
