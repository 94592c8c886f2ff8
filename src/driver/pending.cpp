// Asking every engine what it has in flight, on its own thread, where nothing of it moves.

#include "driver/engine.hpp"
#include "driver/registry.hpp"

#include <unio/detail/config.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace unio::inline v0_1::driver {
namespace {

// A question to one engine. The last of the two that use it destroys it: the thread that asks may have given
// up.
struct question : work {
  question(engine& e, registry::describer d) noexcept : work(&answer), about(e), describe(d) {}
  static void answer(work& w, bool run) noexcept {
    auto& self = static_cast<question&>(w);
    // The thread may have ended, and another one may run what was posted to it.
    if (run && self.about.run_by() == io_multiplexer::runner::this_thread) self.answer_here();
    self.answered.store(true, std::memory_order_release); // pairs with the acquire in dump_pending()
    self.release();
  }
  void answer_here() noexcept {
#if UNIO_HAS_EXCEPTIONS
    try {
      describe(about, text);
    } catch (...) { // for the thread that asks
      failure = std::current_exception();
    }
#else
    describe(about, text);
#endif
  }
  void release() noexcept {
    if (users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  engine& about;
  registry::describer describe;
  std::string text;
  std::exception_ptr failure;
  std::atomic<bool> answered{false};
  std::atomic<int> users{2};
};

struct releasing {
  void operator()(question* q) const noexcept { q->release(); }
};

} // namespace

void registry::ask_all(describer describe, std::string& text) {
  for (std::uint64_t number = std::numeric_limits<std::uint64_t>::max();;) {
    std::unique_ptr<question, releasing> asked;
    {
      std::lock_guard const lock(all_mutex());
      closing_member* const m = older_than(number);
      if (m == nullptr) return;
      number = m->number_;
      engine& e = m->self_;
      if (e.inherited_by_fork()) continue;
      if (e.on_own_thread()) {
        describe(e, text);
        continue;
      }
      asked.reset(new question(e, describe));
      e.post(static_cast<work&>(*asked));
    }
    for (int ms = 0; ms != 1000 && !asked->answered.load(std::memory_order_acquire); ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    bool const has_answered = asked->answered.load(std::memory_order_acquire);
    if (has_answered && asked->failure != nullptr) std::rethrow_exception(asked->failure);
    text += has_answered ? asked->text : "a multiplexer whose thread is busy, or does not run it\n";
  }
}

} // namespace unio::driver
