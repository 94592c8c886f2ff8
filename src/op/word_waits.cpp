#include "op/word_waits.hpp"

#include "sys/fork.hpp"
#include "sys/give_way.hpp"
#include "sys/kernel_abi.hpp"
#include "sys/short_lock.hpp"
#include "sys/threads.hpp"
#include "sys/words.hpp"

#include <unio/multiplexer.hpp>

#include <array>
#include <cerrno>
#include <ctime>
#include <mutex>
#include <utility>

namespace unio::inline v0_1::op {
namespace {

using detail::word_waiter;

class word_waits {
 public:
  bool join(word_waiter& w) noexcept {
    for (unsigned times = 0;; ++times) {
      std::unique_lock lock(lock_);
      if (refused_) return false;
      for (int n = 0; n != started_; ++n)
        if (threads_[static_cast<std::size_t>(n)].count != words_per_thread) return put(n, w), true;
      if (started_ == max_word_threads) return false;
      if (!starting_) {
        starting_ = true;
        lock.unlock();
        bool const made = start(started_);
        lock.lock();
        starting_ = false;
        if (!made) return false;
        ++started_;
        is_started_.store(true, std::memory_order_relaxed);
      } else {
        lock.unlock();
        sys::give_way(times);
      }
    }
  }

  bool leave(word_waiter& w) noexcept {
    std::lock_guard const lock(lock_);
    waiting& t = threads_[w.place / words_per_thread];
    word_waiter*& at = t.places[w.place % words_per_thread];
    if (at != &w) return false; // granted; or of before a fork
    at = nullptr;
    --t.count;
    ring(t);
    return true;
  }

  [[nodiscard]] bool is_started() const noexcept { return is_started_.load(std::memory_order_relaxed); }

 private:
  struct waiting {
    word_waits* of = nullptr;
    std::atomic<std::uint32_t> bell{0};
    bool sleeps = false; // in the kernel with this list: the bell has to be rung when it changes
    int count = 0;
    std::array<word_waiter*, words_per_thread> places{};
  };

  void put(int n, word_waiter& w) noexcept {
    waiting& t = threads_[static_cast<std::size_t>(n)];
    std::size_t free = 0;
    while (t.places[free] != nullptr) ++free;
    t.places[free] = &w;
    w.place = static_cast<std::uint16_t>(static_cast<std::size_t>(n) * words_per_thread + free);
    w.granted.store(word_waiter::none, std::memory_order_relaxed);
    ++t.count;
    ring(t);
  }

  static void ring(waiting& t) noexcept {
    if (!std::exchange(t.sleeps, false)) return;
    t.bell.fetch_add(1, std::memory_order_relaxed);
    (void)sys::wake_word(&t.bell, false, 1);
  }

  bool start(int n) noexcept {
    // Of no words: EINVAL where the call is there.
    if (sys::past_tests::futex_waitv(nullptr, 0) != -EINVAL) return false;
    waiting& t = threads_[static_cast<std::size_t>(n)];
    t.of = this;
    auto const run = [](void* self) -> void* {
      auto& me = *static_cast<waiting*>(self);
      me.of->wait(me);
      return nullptr;
    };
    return sys::start_thread(run, &t) == 0;
  }

  // Whether the kernel can wait there: tried with a moment that has long passed. It cannot where it finds no
  // memory that is shared, say (futex(2), EFAULT).
  static bool can_be_waited_for(sys::waited_word const& w) noexcept {
    timespec const passed{};
    int const call = FUTEX_WAIT_BITSET | static_cast<int>(w.flags & FUTEX_PRIVATE_FLAG);
    return sys::past_tests::futex(reinterpret_cast<std::uint32_t*>(w.address), call,
                                  static_cast<std::uint32_t>(w.expected), &passed) != -EFAULT;
  }

  // Under the lock: an operation that ends finds itself here, or posted.
  static void grant(waiting& t, std::size_t place, word_waiter::answer a) noexcept {
    word_waiter& w = *std::exchange(t.places[place], nullptr);
    --t.count;
    w.is_posted = true;
    w.granted.store(a, std::memory_order_release);
    w.runs->post(w);
  }

  void wait(waiting& t) noexcept {
    sys::waited_word words[words_per_thread + 1];
    std::size_t places[words_per_thread + 1];
    words[0] = {.flags = sys::futex_32_bits | FUTEX_PRIVATE_FLAG};
    words[0].address = reinterpret_cast<std::uintptr_t>(&t.bell);
    for (;;) {
      unsigned n = 1;
      {
        std::lock_guard const lock(lock_);
        for (std::size_t place = 0; place != t.places.size(); ++place) {
          word_waiter* const w = t.places[place];
          if (w == nullptr) continue;
          places[n] = place;
          bool const is_shared = w->scope == futex_scope::processes;
          words[n] = {.expected = w->known,
                      .address = reinterpret_cast<std::uintptr_t>(w->word),
                      .flags = sys::futex_32_bits | (is_shared ? 0U : unsigned{FUTEX_PRIVATE_FLAG})};
          ++n;
        }
        words[0].expected = t.bell.load(std::memory_order_relaxed);
        t.sleeps = true;
      }
      std::int64_t const r = sys::past_tests::futex_waitv(words, n);
      bool const works = r >= 0 || r == -EAGAIN || r == -EINTR || r == -EFAULT;
      std::lock_guard const lock(lock_);
      t.sleeps = false;
      refused_ = refused_ || !works; // a filter that came later
      for (unsigned i = 1; i != n; ++i) {
        // Of several that were woken the kernel names the last.
        bool const may_be_woken = i <= r;
        auto* const word = reinterpret_cast<std::atomic<std::uint32_t>*>(words[i].address);
        word_waiter* const w = t.places[places[i]];
        if (w == nullptr || w->word != word) { // who was here has left
          if (may_be_woken) (void)sys::wake_word(word, (words[i].flags & FUTEX_PRIVATE_FLAG) == 0, 1);
        } else if (i == r) {
          grant(t, places[i], word_waiter::woken);
        } else if (w->word->load(std::memory_order_acquire) != w->known) {
          grant(t, places[i], word_waiter::look);
        } else if (!works) {
          grant(t, places[i], word_waiter::alone);
        } else if (r == -EFAULT && !can_be_waited_for(words[i])) {
          grant(t, places[i], word_waiter::refused);
        }
      }
      if (works) continue;
      // Those that have come by now, and then nothing more.
      for (std::size_t place = 0; place != t.places.size(); ++place)
        if (t.places[place] != nullptr) grant(t, place, word_waiter::alone);
      return;
    }
  }

  sys::short_lock lock_; // of all below, but to look whether one is started
  std::array<waiting, max_word_threads> threads_{};
  int started_ = 0;
  bool starting_ = false;
  bool refused_ = false;
  std::atomic<bool> is_started_{false};
};

word_waits& all() noexcept {
  static constinit sys::one_of_process<word_waits> these;
  return these.get();
}

} // namespace

bool join_word_waits(word_waiter& w) noexcept { return all().join(w); }

bool has_word_thread() noexcept { return all().is_started(); }

bool leave_word_waits(word_waiter& w) noexcept { return all().leave(w); }

} // namespace unio::op
