// On Apple's systems, which have no zstd of their own: that of its own package, compiled with the app.
#include <zstd.h>
#include <zstd_errors.h>
