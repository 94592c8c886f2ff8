// The rows of the table of operations about waiting for a moment, an event, readiness or a word of memory,
// and no_op.

#include "op/rows.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/posix.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/foreign_handle.hpp>

namespace {

using namespace test;

struct wait_for_timer : test::fixture {
  static constexpr bool comes_by_itself = true;
  unio::timer_handle timer;
  bool comes;

  wait_for_timer(io_multiplexer* m, script s)
      : comes(s == script::waits || s == script::cancel_races_completion) {
    timer.set_multiplexer(m);
    timer.expires_at(comes ? deadline(15ms) : deadline(1h));
  }
  UNIO_SPELLINGS(async_wait, timer, wait)
  void make_ready() {
    if (!comes) timer.expires_at(std::chrono::steady_clock::now() - 1s);
  }
};

struct wait_for_event : test::fixture {
  static ending value() { return {"signalled 3 times"}; }
  unio::event_handle event = unio::event_handle::create().value();

  wait_for_event(io_multiplexer* m, script) { event.set_multiplexer(m); }
  UNIO_SPELLINGS(async_wait_event, event, wait)
  void make_ready() { ASSERT_TRUE(event.signal(3)); }
  void close() { ASSERT_TRUE(event.close()); }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    return {"signalled " + std::to_string(*r) + " times", r.bytes_transferred()};
  }
};

template <class Ends> struct poll_readable : test::fixture {
  static ending at_end() { return {"done"}; } // a read would not wait
  Ends ends;
  static constexpr auto what = unio::readiness::readable;

  poll_readable(io_multiplexer* m, script) { ends.source.set_multiplexer(m); }
  UNIO_SPELLINGS(async_poll, ends.source, poll, what)
  void make_ready() { put(ends.sink, text); }
  void end() { ASSERT_TRUE(ends.sink.close()); }
  void close() { ASSERT_TRUE(ends.source.close()); }
};

template <class Ends> struct poll_writable : test::fixture {
  static ending at_end() { return {"done"}; }
  Ends ends;
  std::size_t filled = 0;
  static constexpr auto what = unio::readiness::writable;

  poll_writable(io_multiplexer* m, script) {
    ends.sink.set_multiplexer(m);
    filled = fill(ends.sink, ends.source);
  }
  UNIO_SPELLINGS(async_poll, ends.sink, poll, what)
  void make_ready() {
    EXPECT_EQ(take(ends.source, filled).size(), filled);
    filled = 0;
  }
  void end() { ASSERT_TRUE(ends.source.close()); }
  void close() { ASSERT_TRUE(ends.sink.close()); }
};

// Urgent data of TCP.
struct poll_exceptional : test::fixture {
  tcp_ends ends;
  static constexpr auto what = unio::readiness::exceptional;

  poll_exceptional(io_multiplexer* m, script) {
    ends.source.set_multiplexer(m);
    put(ends.sink, text); // which is not urgent
  }
  UNIO_SPELLINGS(async_poll, ends.source, poll, what)
  void make_ready() { ASSERT_EQ(::send(ends.sink.native_handle(), "!", 1, MSG_OOB), 1); }
  void close() { ASSERT_TRUE(ends.source.close()); }
};

std::string names_of(unio::readiness_set is) {
  std::string names;
  for (auto const& [one, name] :
       {std::pair(unio::readiness_set::readable, "readable "),
        std::pair(unio::readiness_set::writable, "writable "),
        std::pair(unio::readiness_set::exceptional, "exceptional "),
        std::pair(unio::readiness_set::error, "error "), std::pair(unio::readiness_set::hang_up, "hang_up ")})
    if (has(is, one)) names.append(name);
  return names;
}

// A descriptor that the waiting handle does not own, for a set of readiness.
template <class Ends, bool HangsUp> struct wait_readable : test::fixture {
  static ending value() { return {"readable "}; }
  static ending at_end() { return {HangsUp ? "hang_up " : "readable "}; }
  Ends ends;
  unio::foreign_handle foreign = unio::foreign_handle::watch(ends.source.native_handle()).value();
  static constexpr auto what = unio::readiness_set::readable | unio::readiness_set::exceptional;

  wait_readable(io_multiplexer* m, script) { foreign.set_multiplexer(m); }
  UNIO_SPELLINGS(async_wait_ready, foreign, wait, what)
  void make_ready() { put(ends.sink, text); }
  void end() { ASSERT_TRUE(ends.sink.close()); }
  void close() { ASSERT_TRUE(foreign.close()); }
  static ending reduce(sender::result_type const& r) {
    return r.has_value() ? ending{names_of(*r)} : test::failure(r.error());
  }
};

// The peer of a full pipe goes away: nothing is wanted of that, and it is reported all the same.
struct wait_writable : test::fixture {
  static ending value() { return {"writable "}; }
  static ending at_end() { return {"error "}; }
  pipe_ends ends;
  unio::foreign_handle foreign = unio::foreign_handle::watch(ends.sink.native_handle()).value();
  std::size_t filled = 0;
  bool goes = false;

  wait_writable(io_multiplexer* m, script s) : goes(s == script::peer_ends) {
    foreign.set_multiplexer(m);
    filled = fill(ends.sink, ends.source);
  }
  [[nodiscard]] unio::readiness_set what() const {
    return goes ? unio::readiness_set::none : unio::readiness_set::writable;
  }
  UNIO_SPELLINGS(async_wait_ready, foreign, wait, what())
  void make_ready() {
    EXPECT_EQ(take(ends.source, filled).size(), filled);
    filled = 0;
  }
  void end() { ASSERT_TRUE(ends.source.close()); }
  void close() { ASSERT_TRUE(foreign.close()); }
  static ending reduce(sender::result_type const& r) {
    return r.has_value() ? ending{names_of(*r)} : test::failure(r.error());
  }
};

// Of several handles, what each is ready for.
struct poll_several : test::fixture {
  pipe_ends silent;
  std::vector<unio::poll_entry> each;

  UNIO_FREE_SPELLINGS(async_poll_any, poll_any, each)
  [[nodiscard]] ending reduce(sender::result_type const& r) const {
    if (!r.has_value()) return test::failure(r.error());
    ending e{std::to_string(*r) + ": ", r.bytes_transferred()};
    for (unio::poll_entry const& one : each) e.text.append(one.is_ready() ? names_of(one.found()) : "- ");
    return e;
  }
};

template <class Ends, bool HangsUp> struct poll_any_readable : poll_several {
  static ending value() { return {"1: - readable - "}; }
  static ending at_end() { return {HangsUp ? "1: - hang_up - " : value().text}; }
  Ends ends;

  poll_any_readable(io_multiplexer* m, script) {
    silent.source.set_multiplexer(m);
    ends.source.set_multiplexer(m);
    each.emplace_back(silent.source, unio::readiness_set::readable);
    each.emplace_back(ends.source, unio::readiness_set::readable);
    each.emplace_back(silent.source, unio::readiness_set::none);
  }
  void make_ready() { put(ends.sink, text); }
  void end() { ASSERT_TRUE(ends.sink.close()); }
  void close() { ASSERT_TRUE(ends.source.close()); }
};

// One handle in several entries, for several things; and the handle that is closed is another one.
struct poll_any_writable : poll_several {
  static ending value() { return {"2: - writable - writable "}; }
  unix_ends ends;
  std::size_t filled = 0;

  poll_any_writable(io_multiplexer* m, script) {
    silent.source.set_multiplexer(m);
    ends.sink.set_multiplexer(m);
    filled = fill(ends.sink, ends.source);
    each.emplace_back(silent.source, unio::readiness_set::readable);
    auto const both = unio::readiness_set::readable | unio::readiness_set::writable;
    each.emplace_back(ends.sink, both);
    each.emplace_back(ends.sink, unio::readiness_set::readable);
    each.emplace_back(ends.sink, both | unio::readiness_set::exceptional);
  }
  void make_ready() {
    EXPECT_EQ(take(ends.source, filled).size(), filled);
    filled = 0;
  }
  void close() { ASSERT_TRUE(silent.source.close()); }
};

// A word in memory of its own.
class mapped_word {
 public:
  explicit mapped_word(int flags)
      : at_(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0)),
        word_(new(at_) std::atomic<std::uint32_t>(7)) {}
  mapped_word(mapped_word const&) = delete;
  mapped_word& operator=(mapped_word const&) = delete;
  ~mapped_word() { ::munmap(at_, 4096); }
  std::atomic<std::uint32_t>& operator*() { return *word_; }

 private:
  void* at_;
  std::atomic<std::uint32_t>* word_;
};

template <unio::futex_scope Scope> struct wait_on_word : test::fixture {
  static ending value() { return {"8"}; }
  mapped_word word{Scope == unio::futex_scope::processes ? MAP_SHARED : MAP_PRIVATE};
  unio::futex futex;

  wait_on_word(io_multiplexer* m, script) : futex(*word, Scope, m) {}
  UNIO_SPELLINGS(async_wait_on, futex, wait, 7)
  void make_ready() {
    (*word).store(8);
    futex.wake();
  }
  static ending reduce(sender::result_type const& r) {
    if (!r.has_value()) return test::failure(r.error());
    return {std::to_string(*r), r.bytes_transferred()};
  }
};

// Of which the kernel finds nothing that is shared.
struct wait_on_read_only_word : test::fixture {
  static ending value() { return test::failure(EFAULT); }
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false;
  mapped_word word{MAP_PRIVATE};
  unio::futex futex;

  wait_on_read_only_word(io_multiplexer* m, script) : futex(*word, unio::futex_scope::processes, m) {
    EXPECT_EQ(::mprotect(&*word, 4096, PROT_READ), 0);
  }
  UNIO_SPELLINGS(async_wait_on, futex, wait, 7)
  static ending reduce(sender::result_type const& r) {
    return r.has_value() ? ending{std::to_string(*r)} : test::failure(r.error());
  }
};

struct does_nothing : test::fixture {
  static constexpr bool can_wait = false;
  using sender = unio::async_no_op;
  io_multiplexer* multiplexer;

  does_nothing(io_multiplexer* m, script) : multiplexer(m) {}
  template <class S> S describe(deadline d) { return S(multiplexer, d); }
  auto block(deadline d) {
    return multiplexer == nullptr ? unio::no_op() : unio::detail::blocking(unio::async_no_op(multiplexer, d));
  }
  auto await(deadline) { return unio::co_no_op(multiplexer); }
};

} // namespace

std::vector<test::row> test::waiting_rows() {
  return {
      row_of<wait_for_timer>("wait"),
      row_of<wait_for_event>("wait_event"),
      row_of<poll_readable<pipe_ends>>("poll_readable_pipe"),
      row_of<poll_readable<tcp_ends>>("poll_readable_tcp_socket"),
      row_of<poll_writable<pipe_ends>>("poll_writable_pipe"),
      row_of<poll_writable<unix_ends>>("poll_writable_unix_socket"),
      row_of<poll_exceptional>("poll_exceptional"),
      row_of<wait_readable<pipe_ends, true>>("wait_ready_readable_pipe"),
      row_of<wait_readable<tcp_ends, false>>("wait_ready_readable_tcp_socket"),
      row_of<wait_writable>("wait_ready_writable_pipe"),
      row_of<poll_any_readable<pipe_ends, true>>("poll_any_readable_pipe"),
      row_of<poll_any_readable<tcp_ends, false>>("poll_any_readable_tcp_socket"),
      row_of<poll_any_writable>("poll_any_writable"),
      row_of<wait_on_word<unio::futex_scope::this_process>>("wait_on_word"),
      row_of<wait_on_word<unio::futex_scope::processes>>("wait_on_shared_word"),
      row_of<wait_on_read_only_word>("wait_on_read_only_word"),
      row_of<does_nothing>("no_op"),
  };
}
