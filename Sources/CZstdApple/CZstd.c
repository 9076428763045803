#include "CZstd.h"
