// Makes the Mutex of Swift's Synchronization library visible to the thread sanitizer: loaded before it by Scripts/check-full.
//
// A Mutex that nobody waits for is locked and unlocked by atomics in the caller's own code, which the sanitizer sees.
// Where somebody waits, the kernel hands the lock over inside the library, which is not built for the sanitizer, and
// what the lock protects is then reported as a race. These two functions stand before the library's own and tell.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *
#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

typedef SWIFT void LockSlow(uint32_t thread, SELF);
typedef SWIFT void UnlockSlow(SELF);

// Absent in programs that are not built for the sanitizer.
extern void __tsan_acquire(void *) __attribute__((weak));
extern void __tsan_release(void *) __attribute__((weak));

SWIFT void lock_slow(uint32_t thread, SELF mutex) __asm__(LOCK_SLOW);
SWIFT void unlock_slow(SELF mutex) __asm__(UNLOCK_SLOW);

SWIFT void lock_slow(uint32_t thread, SELF mutex) {
    ((LockSlow *)dlsym(RTLD_NEXT, LOCK_SLOW))(thread, mutex);
    if (__tsan_acquire) __tsan_acquire(mutex);
}

SWIFT void unlock_slow(SELF mutex) {
    if (__tsan_release) __tsan_release(mutex);
    ((UnlockSlow *)dlsym(RTLD_NEXT, UNLOCK_SLOW))(mutex);
}
