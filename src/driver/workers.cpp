#include "driver/workers.hpp"

#include "driver/engine.hpp"
#include "driver/foreign/transfers.hpp"
#include "driver/job_protocol.hpp"
#include "driver/patience.hpp"
#include "sys/fork.hpp"
#include "sys/give_way.hpp"
#include "sys/threads.hpp"

#include <linux/futex.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <ctime>
#include <thread>

namespace unio::inline v0_1::driver {
namespace {

using word = std::atomic<std::uint32_t>;

// A thread of the library that is about to sleep, or was woken, makes the kernel's calls and not those of the
// table in use, which a test or a simulation may be changing.
void sleep_on(word& w, std::uint32_t seen, timespec const* until = nullptr) noexcept {
  sys::past_tests::futex(reinterpret_cast<std::uint32_t*>(&w), FUTEX_WAIT_BITSET_PRIVATE, seen, until);
}

// foreign_transfers::make_now from the first transfer on: a program that gives none has none of it. Relaxed:
// the job comes after it.
constinit std::atomic<void (*)(foreign_transfer&) noexcept> make_transfer{nullptr};

// As many threads as there are processors share all jobs by the protocol (job_protocol.hpp). The others are
// helpers, for calls that take long: one looks every millisecond while jobs wait, and takes one if by then
// none was taken.
class pool {
 public:
  template <class T> using atomic = std::atomic<T>;
  static constexpr std::uint64_t ring_size = 4096, lane_size = 512;
  static constexpr unsigned lanes = 8;
  static constexpr std::size_t threads = max_workers;

  bool give(io_operation& op) noexcept {
    unsigned const lane =
        op.faces().changes_directory ? static_cast<unsigned>(op.fd()) % lanes : jobs::no_lane;
    return give(job_of(op), lane, op.links.worker_place);
  }
  bool take_back(io_operation& op) noexcept { return jobs_.take_back(job_of(op), op.links.worker_place); }

  bool give(foreign_transfer& t) noexcept {
    return give(job_of(t), jobs::no_lane, foreign_access::worker_place(t));
  }
  bool take_back(foreign_transfer& t) noexcept {
    return jobs_.take_back(job_of(t), foreign_access::worker_place(t));
  }

 private:
  using jobs = job_protocol<pool>;
  friend jobs;
  struct start {
    pool* of = nullptr;
    int number = 0;
    patience waits{};
  };

  // A job is an address; a transfer's has one bit more.
  static constexpr std::uint64_t of_transfer = 1;
  static std::uint64_t job_of(io_operation& op) noexcept { return reinterpret_cast<std::uintptr_t>(&op); }
  static std::uint64_t job_of(foreign_transfer& t) noexcept {
    return reinterpret_cast<std::uintptr_t>(&t) | of_transfer;
  }

  bool give(jobs::job j, unsigned lane, std::uint64_t& place) noexcept {
    if (!jobs_.give(j, lane, place)) return false;
    sys::await_other([this] {
      return started_.load(std::memory_order_relaxed) != 0 || !starting_.load(std::memory_order_acquire);
    });
    // Not one thread could be made: the caller's has to block.
    if (started_.load(std::memory_order_relaxed) == 0 && jobs_.take_back(j, place)) perform(j);
    return true;
  }

  static void perform(jobs::job j) noexcept {
    auto const address = static_cast<std::uintptr_t>(j & ~of_transfer);
    if ((j & of_transfer) != 0)
      return make_transfer.load(std::memory_order_relaxed)(*reinterpret_cast<foreign_transfer*>(address));
    auto& op = *reinterpret_cast<io_operation*>(address);
    op.set_outcome(op.faces().perform(op, attempt::blocking));
    static_cast<engine&>(*op.multiplexer()).worker_done(op);
  }

  // ---- what the protocol stands on

  void run(jobs::job j) noexcept {
    taken_.fetch_add(1, std::memory_order_relaxed);
    perform(j);
  }
  bool may_linger(std::size_t self) noexcept { return starts_[self].waits.is_worth_it(); }
  template <class Came> void linger(std::size_t self, Came came) noexcept {
    start& s = starts_[self];
    std::int64_t const begin = patience::now();
    if (s.waits.linger(came)) s.waits.came_after(patience::now() - begin);
  }
  void sleep(std::size_t self, word& bell, std::uint32_t seen) noexcept {
    std::int64_t const begin = patience::now();
    sleep_on(bell, seen);
    starts_[self].waits.came_after(patience::now() - begin);
  }
  static void ring_bell(word& bell) noexcept {
    bell.fetch_add(1, std::memory_order_seq_cst);
    sys::past_tests::futex(reinterpret_cast<std::uint32_t*>(&bell), FUTEX_WAKE_PRIVATE, 1, nullptr);
  }
  static bool ends(std::size_t) noexcept { return false; }

  // A thread more, as long as there are fewer than processors; or else a helper.
  void all_busy() noexcept {
    int const n = started_.load(std::memory_order_relaxed);
    if (n >= sharers_ && helpers_asleep_.load(std::memory_order_seq_cst) != 0)
      return ring_bell(helpers_bell_);
    bool const helper_looks = n > sharers_ && helpers_busy_.load(std::memory_order_relaxed) < n - sharers_;
    if (n < max_workers && !helper_looks && !starting_.exchange(true, std::memory_order_acquire)) {
      start_one();
      starting_.store(false, std::memory_order_release);
    }
  }
  void start_one() noexcept {
    int const n = started_.load(std::memory_order_relaxed);
    if (n == max_workers) return;
    start& next = starts_[static_cast<std::size_t>(n)];
    next.of = this;
    next.number = n;
    auto const begin = [](void* argument) -> void* {
      start const& s = *static_cast<start*>(argument);
      s.number < s.of->sharers_ ? s.of->jobs_.work(static_cast<std::size_t>(s.number)) : s.of->help();
      return nullptr;
    };
    if (sys::start_thread(begin, &next) == 0) started_.store(n + 1, std::memory_order_relaxed);
  }

  // ---- helpers

  void help() noexcept {
    for (;;) {
      while (jobs_.has_work()) {
        std::uint32_t const seen = taken_.load(std::memory_order_relaxed);
        std::int64_t const until = patience::now() + long_call_ns;
        timespec const t{.tv_sec = until / 1'000'000'000, .tv_nsec = until % 1'000'000'000};
        word never{0};
        sleep_on(never, 0, &t);
        if (taken_.load(std::memory_order_relaxed) != seen) continue;
        helpers_busy_.fetch_add(1, std::memory_order_relaxed);
        (void)jobs_.run_one([] {});
        helpers_busy_.fetch_sub(1, std::memory_order_relaxed);
      }
      std::uint32_t const seen = helpers_bell_.load(std::memory_order_seq_cst);
      helpers_asleep_.fetch_add(1, std::memory_order_seq_cst); // pairs with the load in all_busy()
      if (!jobs_.has_work()) sleep_on(helpers_bell_, seen);
      helpers_asleep_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  static constexpr std::int64_t long_call_ns = 1'000'000;

  jobs jobs_{*this};
  int const sharers_ = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, max_workers);
  std::array<start, max_workers> starts_{};
  std::atomic<int> started_{0}; // changed while `starting_`
  std::atomic<bool> starting_{false};
  alignas(64) std::atomic<std::uint32_t> taken_{0};
  word helpers_bell_{0};
  std::atomic<std::uint32_t> helpers_asleep_{0};
  std::atomic<int> helpers_busy_{0};
};

pool& workers() noexcept {
  static constinit sys::one_of_process<pool> all;
  return all.get();
}

} // namespace

bool give_to_worker(io_operation& op) noexcept { return workers().give(op); }

bool take_from_workers(io_operation& op) noexcept { return workers().take_back(op); }

bool give_to_worker(foreign_transfer& t) noexcept {
  make_transfer.store(foreign_transfers::make_now, std::memory_order_relaxed);
  return workers().give(t);
}

bool take_from_workers(foreign_transfer& t) noexcept { return workers().take_back(t); }

} // namespace unio::driver
