#ifndef ANNALS_CURL_H
#define ANNALS_CURL_H

#include <curl/curl.h>

#if LIBCURL_VERSION_NUM < 0x075000
#error "Annals needs libcurl 7.80 or newer"
#endif

// libcurl sets and reads its options through variadic functions, which Swift cannot call. Here is one function
// for each type an option may have, and nothing else; every other function of libcurl is called directly.

CURLcode annals_curl_set_long(CURL *handle, CURLoption option, long value);
CURLcode annals_curl_set_offset(CURL *handle, CURLoption option, curl_off_t value);
CURLcode annals_curl_set_pointer(CURL *handle, CURLoption option, const void *value);
CURLcode annals_curl_set_string(CURL *handle, CURLoption option, const char *value);

/// For the write, header and read functions, which share one type.
typedef size_t (*annals_curl_data_function)(char *bytes, size_t size, size_t count, void *context);
CURLcode annals_curl_set_data_function(CURL *handle, CURLoption option, annals_curl_data_function function);
CURLcode annals_curl_set_seek_function(CURL *handle, curl_seek_callback function);
CURLcode annals_curl_set_prerequest_function(CURL *handle, curl_prereq_callback function);

/// Restricts a handle to http and https; the option that does so has another type since libcurl 7.85.
CURLcode annals_curl_allow_only_http(CURL *handle);

/// Lets a cancelled or timed out name lookup end by itself in its own thread, instead of being waited for.
/// Does nothing before libcurl 7.87, which always waits.
CURLcode annals_curl_abandon_lookups(CURL *handle);

CURLcode annals_curl_get_long(CURL *handle, CURLINFO info, long *value);
CURLcode annals_curl_get_pointer(CURL *handle, CURLINFO info, void **value);

CURLMcode annals_curl_multi_set_long(CURLM *multi, CURLMoption option, long value);

#endif
