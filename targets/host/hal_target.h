/* Host: argument tables are ordinary constants; the level memories are declared by the generated header. */
#ifndef HAL_TARGET_H
#define HAL_TARGET_H

#define HAL_TABLE
#define HAL_WATCHES_TABLES
#define HAL_WATCHES_STEPS

#endif
