// unio/detail/asio_marks.hpp: what keeps objects that were compiled with Asio's own reactor out of a
// program. Part of asio_reactor.hpp and of asio_completions.hpp; there is no guard.

// Each object that was compiled with Asio's own reactor has functions of these names, at every level of
// optimisation. Here they are thread-local variables, and no linker takes one for the other: a program has
// either kind of reactor, never half of each. The linker's message names the section.
extern "C" {
#define UNIO_ASIO_MARK \
  __attribute__((weak, used, section(".tbss.objects_with_unio_asio_and_with_stock_asio_in_one_program")))
extern __thread char UNIO_ASIO_MARK UNIO_ASIO_MARK_NAME(run) __asm__(UNIO_ASIO_MANGLED_RUN);
extern __thread char UNIO_ASIO_MARK UNIO_ASIO_MARK_NAME(interrupt) __asm__(UNIO_ASIO_MANGLED_INTERRUPT);
}
__thread char UNIO_ASIO_MARK_NAME(run);
__thread char UNIO_ASIO_MARK_NAME(interrupt);
#undef UNIO_ASIO_MARK
