#ifndef ANNALS_CURL_H
#define ANNALS_CURL_H

#include <curl/curl.h>

#endif
