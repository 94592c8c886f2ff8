/* curl_multi URL...: all at once, by the multi interface. Ends with 0 if each was answered with 200. */
#include <curl/curl.h>
#include <stdio.h>
static size_t drop(char* data, size_t size, size_t n, void* sum) {
  (void)data;
  *(size_t*)sum += size * n;
  return size * n;
}
int main(int argc, char** argv) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  CURLM* all = curl_multi_init();
  size_t bytes = 0;
  for (int i = 1; i < argc; ++i) {
    CURL* one = curl_easy_init();
    curl_easy_setopt(one, CURLOPT_URL, argv[i]);
    curl_easy_setopt(one, CURLOPT_WRITEFUNCTION, drop);
    curl_easy_setopt(one, CURLOPT_WRITEDATA, &bytes);
    curl_multi_add_handle(all, one);
  }
  int running = 1, right = 0, left;
  while (running) {
    if (curl_multi_perform(all, &running) != CURLM_OK) return 2;
    if (running && curl_multi_poll(all, NULL, 0, 1000, NULL) != CURLM_OK) return 3;
  }
  for (CURLMsg* m; (m = curl_multi_info_read(all, &left)) != NULL;) {
    long code = 0;
    curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE, &code);
    if (m->data.result != CURLE_OK || code != 200) {
      fprintf(stderr, "%s, %ld\n", curl_easy_strerror(m->data.result), code);
      continue;
    }
    ++right;
  }
  printf("%d right, %zu bytes\n", right, bytes);
  return right == argc - 1 ? 0 : 1;
}
