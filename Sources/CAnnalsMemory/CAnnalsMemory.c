#include "CAnnalsMemory.h"

#ifdef __linux__
#include <malloc.h>
#endif

void annals_give_back_blocks(int bytes) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, bytes);
    // The least that it allows is little enough to have the pieces of a body, one after another, ask the system for memory anew.
    mallopt(M_TRIM_THRESHOLD, 4 * bytes);
#else
    (void)bytes;
#endif
}
