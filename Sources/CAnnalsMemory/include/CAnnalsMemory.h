#ifndef ANNALS_MEMORY_H
#define ANNALS_MEMORY_H

/// Has the C library give every block of so many bytes and more back to the system when it is freed, and of smaller ones what is
/// free beyond four times as much. By itself it keeps as many as each thread ever needed at once. Only glibc does that; elsewhere
/// this does nothing.
void annals_give_back_blocks(int bytes);

#endif
