#include "CInstructionCount.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

void annals_count_begin(void) { CALLGRIND_START_INSTRUMENTATION; }

void annals_count_end(void) { CALLGRIND_STOP_INSTRUMENTATION; }
