#ifndef ANNALS_INSTRUCTION_COUNT_H
#define ANNALS_INSTRUCTION_COUNT_H

/// What runs between the two is counted when the program runs under valgrind's callgrind with `--instr-atstart=no`;
/// anywhere else they do nothing.
void annals_count_begin(void);
void annals_count_end(void);

#endif
