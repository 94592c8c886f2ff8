// A table of system calls that counts, and in which chosen calls fail.
//
//   failing_calls calls;
//   calls.fail<&table::io_uring_enter>(EAGAIN, {.at = 3});  // the third, and only that
//   …
//   EXPECT_EQ(calls.count<&table::read>(), 1);
//
// Made of UNIO_SYSTEM_CALLS, so that a call that is added to the table needs nothing here.

#pragma once

#include "support/calls.hpp"

#include <atomic>
#include <cstdint>
#include <limits>

namespace test {

/// Which calls of an entry fail: `times` of them, beginning with the one with the number `at` (from 1).
struct which_calls {
  int at = 1;
  int times = 1;
  static constexpr int all = std::numeric_limits<int>::max();
};

/// While it lives, the kernel's table with counters, whose entries fail on request. One at a time.
///
/// Thread safety  the entries: any thread; fail() and answer(): while nothing else runs
class failing_calls {
 public:
  failing_calls() {
#define UNIO_TEST_ENTRY(name, parameters, arguments) install<&unio::sys::table::name>();
    UNIO_SYSTEM_CALLS(UNIO_TEST_ENTRY)
#undef UNIO_TEST_ENTRY
    put_table(&table_);
  }
  failing_calls(failing_calls const&) = delete;
  failing_calls& operator=(failing_calls const&) = delete;
  ~failing_calls() { put_table(&unio::sys::kernel); }

  /// Has calls of one entry fail with `error` (an errno) from now on; they do not reach the kernel.
  template <auto Member> void fail(int error, which_calls which = {}) {
    entry_state& s = state<Member>();
    s.calls = 0;
    s.failed = 0;
    s.error = error;
    s.first = which.at;
    s.times = which.times;
  }
  /// Has calls of one of these entries fail, that with the number `entry` (from 0).
  template <auto... Members> void fail_one_of(int entry, int error, which_calls which) {
    (void)(... || (entry-- == 0 && (fail<Members>(error, which), true)));
  }
  /// Has one entry be `f`, which is not counted.
  template <auto Member, class F> void answer(F f) { table_.*Member = f; }
  /// How often an entry was called since it was installed or last set by fail(); and how often it did fail.
  template <auto Member> [[nodiscard]] static int count() { return state<Member>().calls; }
  template <auto Member> [[nodiscard]] static int failures() { return state<Member>().failed; }
  /// How often all of them together were called.
  [[nodiscard]] static int count_all() {
    int n = 0;
#define UNIO_TEST_ENTRY(name, parameters, arguments) n += count<&unio::sys::table::name>();
    UNIO_SYSTEM_CALLS(UNIO_TEST_ENTRY)
#undef UNIO_TEST_ENTRY
    return n;
  }

 private:
  struct entry_state {
    std::atomic<int> calls{0};
    std::atomic<int> failed{0};
    std::atomic<int> error{0};
    std::atomic<int> first{0};
    std::atomic<int> times{0};
  };
  template <auto Member> static entry_state& state() {
    static constinit entry_state s;
    return s;
  }

  template <auto Member, class... Parameters> static std::int64_t call(Parameters... parameters) noexcept {
    entry_state& s = state<Member>();
    int const n = ++s.calls;
    if (s.error != 0 && n >= s.first && n - s.first < s.times) {
      ++s.failed;
      return -s.error.load();
    }
    return (unio::sys::kernel.*Member)(parameters...);
  }
  template <auto Member, class... Parameters> static auto counted(std::int64_t (*)(Parameters...) noexcept) {
    return &call<Member, Parameters...>;
  }
  template <auto Member> void install() {
    fail<Member>(0);
    table_.*Member = counted<Member>(table_.*Member);
  }

  unio::sys::table& table_ = kept_table(unio::sys::kernel);
};

} // namespace test
