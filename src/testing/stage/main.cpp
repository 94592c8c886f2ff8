// The main program of several that run in one simulation. Its thread-local storage, at the end of which
// theirs lies (src/testing/preload/stage.cpp), holds nothing of its own.

#include <dlfcn.h>

#include <cstdio>

namespace {

[[gnu::used, gnu::tls_model("local-exec")]] thread_local char kept_free[65536];

} // namespace

int main(int argc, char** argv) {
  kept_free[0] = 0;
  auto* const stage = reinterpret_cast<int (*)(int, char**)>(dlsym(RTLD_DEFAULT, "unio_simulate_stage"));
  if (stage != nullptr) return stage(argc, argv);
  std::fputs("unio simulate runs this program\n", stderr);
  return 2;
}
