// yield_system: what the processor and the system offer to who wants to let others go first.

#include "support/measure.hpp"

#include <sched.h>

#include <thread>

namespace {

using namespace benchmarks;

template <class F> benchmark_case repeated(char const* subject, F f) {
  return {
      .subject = subject, .parameters = {{"what", "system"}, {"batch", "1"}}, .run = [f](std::uint64_t n) {
        return measure(n, [&] {
          for (std::uint64_t i = 0; i < n; ++i) f();
        });
      }};
}

void pause_instruction() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

} // namespace

int main(int argc, char** argv) {
  return subject_main(argc, argv,
                      {repeated("pause instruction", [] { pause_instruction(); }),
                       repeated("sched_yield(2)", [] { ::sched_yield(); }),
                       repeated("std::this_thread::yield", [] { std::this_thread::yield(); })});
}
