// Playing the same script on an operation in every style, and comparing how it ended.
//
//   script      what happens to the operation: it is ready, has to wait, is cancelled, …
//   style       how it is run: a blocking call, polled, multiplexed, awaited, its atomic form (started and
//               cancelled by others than the thread that runs it; elsewhere: by two others), called back
//   ending      what it came to, reduced to what can be compared
//   row         one operation: plays a script in a style, and says what has to come of it
//   row_of<F>   makes a row of a fixture
//   differences what of many endings is not as it should be
//
// A fixture is one class per operation. It derives from `fixture`, whose members it overrides where they
// are not true of it, and has
//
//   F(io_multiplexer* m, script s)      sets up so that the operation has to wait, if it can be made to wait
//   sender, describe, block, await      the operation in its spellings (spellings.hpp)
//   make_ready()                        what lets it complete: the peer's action
//   brought(result)                     a result that is none of an error, as an ending; if it has one, or
//   reduce(result)                      any result
//   static ending value()               what it ends with when all is well
//   end(), static ending at_end()       the peer goes away, and what comes of it; if it has a peer
//   close()                             closes the handle; if it has one
//   static ending of_closed()           what it ends with then; if that is another error than EBADF
//   again()                             makes it possible to run it once more; if there is something to do

#pragma once

#include "support/coroutine.hpp"
#include "support/descriptors.hpp"
#include "support/test.hpp"

#include <ostream>

namespace test {

enum class script {
  ready,                   // it can complete at once
  ready_and_zero_deadline, // the same, and it may not wait
  waits,                   // it has to wait, then it can complete
  zero_deadline,           // it would have to wait and may not
  deadline_passes,         // it waits in vain
  canceled,                // it is cancelled while it waits
  cancel_races_completion, // it can complete, and is cancelled in the same moment
  peer_ends,               // its peer goes away while it waits
  handle_closes,           // its handle is closed while it waits
  destroyed,               // it is destroyed while it is in flight, and then done anew
  was_closed,              // its handle is closed before it is described
};
enum class style {
  blocking,
  blocking_on_multiplexer,
  polled,
  multiplexed,
  awaited,
  atomic,
  elsewhere,
  called_back
};

/// Their names, in the same order.
inline constexpr std::array script_names{
    "ready",     "ready_and_zero_deadline", "waits",     "zero_deadline", "deadline_passes",
    "canceled",  "cancel_races_completion", "peer_ends", "handle_closes", "destroyed",
    "was_closed"};
inline constexpr std::array style_names{
    "blocking",   "blocking_on_multiplexer", "polled", "multiplexed", "awaited", "atomic", "elsewhere",
    "called_back"};
inline char const* name_of(script s) { return script_names.at(static_cast<std::size_t>(s)); }
inline char const* name_of(style s) { return style_names.at(static_cast<std::size_t>(s)); }

/// Calls `f` with each of them.
template <class F> void for_each_script(F f) {
  for (std::size_t i = 0; i != script_names.size(); ++i) f(static_cast<script>(i));
}
template <class F> void for_each_style(F f) {
  for (std::size_t i = 0; i != style_names.size(); ++i) f(static_cast<style>(i));
}

/// What an operation came to.
struct ending {
  std::string text;      ///< data, or "" for none; for a failure its condition or errno in brackets
  std::size_t bytes = 0; ///< bytes_transferred()
  bool operator==(ending const&) const = default;
};

inline std::string to_string(ending const& e) {
  std::string s = e.text;
  return s.append(", ").append(std::to_string(e.bytes)).append(" bytes");
}
inline void PrintTo(ending const& e, std::ostream* out) { *out << to_string(e); }

inline ending failure(unio::condition c) {
  ending e;
  e.text.append("[").append(unio::make_error_condition(c).message()).append("]");
  return e;
}
inline ending failure(std::error_code e) {
  for (unio::condition const c :
       {unio::condition::canceled, unio::condition::timed_out, unio::condition::would_block})
    if (e == c) return failure(c);
  ending other;
  other.text.append("[")
      .append(e.category().name())
      .append(" ")
      .append(std::to_string(e.value()))
      .append("]");
  return other;
}
inline ending failure(int error_number) {
  return failure(std::error_code(error_number, std::system_category()));
}

/// A result as an ending: the bytes of its buffers; "done" where it has none.
template <class T> ending reduced(unio::io_result<T> const& r) {
  if (!r.has_value()) return failure(r.error());
  if constexpr (std::is_void_v<T>) {
    return {"done", r.bytes_transferred()};
  } else {
    ending e{"", r.bytes_transferred()};
    for (auto const& b : *r) e.text.append(reinterpret_cast<char const*>(b.data()), b.size());
    return e;
  }
}

/// One place of the table and what came of it.
struct cell {
  std::string where;
  ending came_to;
};

/// A sentence for each cell that is not as expected, or not as the first.
inline std::vector<std::string> differences(ending const& expected, std::vector<cell> const& cells) {
  std::vector<std::string> found;
  if (cells.empty()) found.emplace_back("no cell was played");
  for (cell const& c : cells) {
    if (c.came_to != expected)
      found.push_back(c.where + ": " + to_string(c.came_to) + " instead of " + to_string(expected));
    if (c.came_to != cells.front().came_to) found.push_back(c.where + " differs from " + cells.front().where);
  }
  return found;
}

/// One operation.
struct row {
  std::string name;
  std::function<std::optional<ending>(script)> expected; ///< nothing: the script means nothing for it
  std::function<bool(script, style)> has;
  std::function<ending(script, style, unio::io_multiplexer*)> play;
};

/// What fixtures have in common, and what is true of most.
struct fixture {
  static constexpr bool can_wait = true;         // it can be made to wait
  static constexpr bool comes_by_itself = false; // what it waits for, after a few milliseconds
  static constexpr bool completes = true;        // one that waits can be made to complete
  static constexpr bool zero_is_enough = true;   // with a deadline of zero it completes if it is ready
  static constexpr bool cancelable = true;       // a cancel ends it
  static constexpr bool repeatable = true;       // one that was stopped can be tried again on the same handle
  static constexpr bool has_verbs = true;        // it can be called and awaited
  static constexpr bool many = false;            // it yields values until it is stopped
  static ending value() { return {"done"}; }
  static ending of_closed() { return failure(EBADF); }
  static void make_ready() {}
  static void again() {}
  template <class Result> static ending reduce(Result const& r) { return reduced(r); }
};

template <class F, class Result> ending ending_of(F& f, Result&& r) {
  if constexpr (requires { f.brought(std::move(r)); }) {
    return r.has_value() ? f.brought(std::move(r)) : failure(r.error());
  } else {
    return f.reduce(std::move(r));
  }
}

namespace detail {

inline constexpr auto short_time = 8ms;

template <class F>
concept has_peer = requires(F& f) { f.end(); };
template <class F>
concept has_handle = requires(F& f) { f.close(); };

inline unio::deadline deadline_of(script s) {
  switch (s) {
    case script::ready_and_zero_deadline:
    case script::zero_deadline:
      return unio::deadline::zero();
    case script::deadline_passes:
      return short_time;
    default:
      return long_time;
  }
}

inline bool has_to_wait(script s) {
  return s != script::ready && s != script::ready_and_zero_deadline && s != script::zero_deadline &&
         s != script::was_closed;
}

struct record {
  ending came_to;
  int values = 0;
  int dones = 0;
  void add(ending const& e) {
    came_to.text.append(values == 0 ? "" : ",").append(e.text);
    came_to.bytes += e.bytes;
    ++values;
  }
};

template <class F> struct receiver {
  F* made_by = nullptr;
  record* told = nullptr;
  void set_value(typename F::sender::result_type&& r) {
    EXPECT_EQ(told->dones, 0) << "a value after the end";
    told->add(ending_of(*made_by, std::move(r)));
  }
  void set_done() { ++told->dones; }
};

template <class Action> void elsewhere(Action action) { std::thread(action).join(); }

/// Runs `m` until `ended()`, or gives up.
template <class Ended> void drive(unio::io_multiplexer& m, Ended ended) {
  auto const give_up = std::chrono::steady_clock::now() + long_time;
  while (!ended()) {
    auto const r = m.try_run_for(1s);
    ASSERT_TRUE(r.has_value()) << r.error().message();
    ASSERT_TRUE(*r != 0 || ended()) << "nothing is pending, but the operation has not ended";
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "stuck";
  }
}

template <class F, class Connection>
void drive(unio::io_multiplexer& m, Connection& op, style how, record const& told) {
  if (how == style::polled) {
    auto const give_up = std::chrono::steady_clock::now() + long_time;
    while (op.poll() != unio::io_status::completed || (F::many && told.values == 0))
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "stuck";
    if constexpr (F::many) return drive(m, [&] { return op.finished(); });
    // Completed; the kernel may hold the buffers a little longer.
  }
  drive(m, [&] { return op.finished(); });
}

template <class F> ending do_anew(F& f, unio::io_multiplexer& m) {
  record told;
  auto op = unio::connect(f.template describe<typename F::sender>(long_time), receiver<F>{&f, &told});
  op.start();
  if constexpr (F::many) {
    drive(m, [&] { return told.values != 0; });
    op.cancel();
  }
  drive(m, [&] { return op.finished(); });
  return told.came_to;
}

/// What has to come of an operation that yields many values: one value, then what stopped it.
template <class F> ending value_then(unio::condition stop) {
  ending e = F::value();
  e.text.append(",").append(failure(stop).text);
  return e;
}

template <class F> std::optional<ending> expected(script s) {
  auto const if_it = [](bool yes, ending const& e) { return yes ? std::optional(e) : std::nullopt; };
  ending const value = F::many ? value_then<F>(unio::condition::canceled) : F::value();
  switch (s) {
    case script::ready:
      return value;
    case script::ready_and_zero_deadline:
      return if_it(F::zero_is_enough, F::many ? value_then<F>(unio::condition::would_block) : value);
    case script::waits:
      return if_it(F::can_wait && F::completes, value);
    case script::zero_deadline:
      return if_it(F::can_wait, failure(unio::condition::would_block));
    case script::deadline_passes:
      return if_it(F::can_wait, failure(unio::condition::timed_out));
    case script::canceled:
      return if_it(F::can_wait, F::cancelable ? failure(unio::condition::canceled) : value);
    case script::cancel_races_completion:
      return if_it(F::can_wait && F::completes && F::repeatable, value);
    case script::peer_ends:
      if constexpr (has_peer<F>) return F::at_end();
      return std::nullopt;
    case script::handle_closes:
      return if_it(F::can_wait && has_handle<F>, failure(unio::condition::canceled));
    case script::destroyed:
      return if_it(F::repeatable, value);
    case script::was_closed:
      return if_it(has_handle<F>, F::of_closed());
  }
  return std::nullopt;
}

template <class F> bool has(script s, style how) {
  switch (how) {
    case style::blocking:
    case style::blocking_on_multiplexer:
      // A call cannot be cancelled, and closing a handle that another thread uses is a mistake.
      return F::has_verbs && s != script::canceled && s != script::cancel_races_completion &&
             s != script::handle_closes && s != script::destroyed;
    case style::awaited: // stopped by its end or by that of its handle
      return F::has_verbs && s != script::canceled && s != script::cancel_races_completion;
    case style::called_back: // of many values connect() has a receiver; its block destroys it, nobody else
      return !F::many && s != script::destroyed;
    default:
      return true;
  }
}

/// What happens while it waits.
template <class F> void act(F& f, script s) {
  switch (s) {
    case script::waits:
    case script::cancel_races_completion:
      return f.make_ready();
    case script::peer_ends:
      if constexpr (has_peer<F>) f.end();
      return;
    case script::handle_closes:
      if constexpr (has_handle<F>) f.close();
      return;
    default:
      return;
  }
}

template <class F> ending play_blocking(F& f, script s) {
  if (s != script::waits && s != script::peer_ends) return ending_of(f, f.block(deadline_of(s)));
  std::thread peer([&] {
    std::this_thread::sleep_for(short_time);
    act(f, s);
  });
  auto r = f.block(deadline_of(s));
  peer.join();
  return ending_of(f, std::move(r));
}

template <class F> coroutine awaiting(F& f, unio::deadline d, record& told) {
  auto r = co_await f.await(d);
  told.add(ending_of(f, std::move(r)));
  ++told.dones;
}

template <class F> ending play_awaited(F& f, script s, unio::io_multiplexer& m) {
  record told;
  coroutine c = awaiting(f, deadline_of(s), told);
  if (has_to_wait(s) && F::can_wait) {
    EXPECT_FALSE(c.done());
    (void)m.try_run();
    EXPECT_FALSE(c.done());
  }
  if (s == script::destroyed) {
    bool const in_flight = !c.done();
    c.destroy();
    EXPECT_EQ(told.values, in_flight ? 0 : 1);
    f.again();
    f.make_ready();
    return do_anew(f, m);
  }
  act(f, s);
  drive(m, [&] { return c.done(); });
  EXPECT_EQ(told.dones, 1);
  return told.came_to;
}

/// A thread that runs a multiplexer.
class running {
 public:
  explicit running(unio::io_multiplexer& m) : m_(m) {
    thread_ = std::thread([this] {
      unio::timer_handle never(unio::deadline::none(), &m_);
      auto sleep = unio::connect(unio::async_wait(never), none());
      sleep.start();
      (void)m_.try_run(); // what a first turn opens must not have the number of what a script closes
      begun_.store(true);
      begun_.notify_one();
      while (!ends_) ASSERT_TRUE(m_.run().has_value());
      sleep.cancel();
      int left = 1;
      while (left > 0 || !sleep.finished()) left = m_.try_run().value_or(-99);
      EXPECT_EQ(left, 0) << "something is left";
      EXPECT_EQ(m_.counters().started, m_.counters().finished);
    });
    begun_.wait(false);
  }
  running(running const&) = delete;
  running& operator=(running const&) = delete;
  ~running() {
    EXPECT_TRUE(m_.post([this] { ends_ = true; }));
    thread_.join();
  }
  /// Returns once it has taken in what this thread has started.
  void take_in() {
    for (int turns = 0; turns != 2; ++turns) {
      std::atomic<bool> ran = false;
      EXPECT_TRUE(m_.post([&] {
        ran.store(true);
        ran.notify_one();
      }));
      ran.wait(false);
    }
  }

 private:
  struct none {
    static void set_value(unio::io_result<void>&&) noexcept {}
    static void set_done() noexcept {}
  };
  unio::io_multiplexer& m_;
  bool ends_ = false; // its thread's
  std::atomic<bool> begun_{false};
  std::thread thread_;
};

/// What a receiver on another thread got.
template <class F> struct told_elsewhere {
  using result_type = typename F::sender::result_type;
  std::mutex mutex;
  std::vector<result_type> values;
  int dones = 0;
  [[nodiscard]] bool has_values() {
    std::lock_guard const lock(mutex);
    return !values.empty();
  }
};
/// Keeps the results: reducing them uses the peer, which is the starting thread's.
template <class F> struct receiver_elsewhere {
  told_elsewhere<F>* told = nullptr;
  void set_value(typename F::sender::result_type&& r) {
    std::lock_guard const lock(told->mutex);
    EXPECT_EQ(told->dones, 0) << "a value after the end";
    told->values.push_back(std::move(r));
  }
  void set_done() {
    std::lock_guard const lock(told->mutex);
    ++told->dones;
  }
};

template <class Ended> void await(Ended ended) {
  auto const give_up = std::chrono::steady_clock::now() + long_time;
  while (!ended()) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "stuck";
    std::this_thread::sleep_for(20us);
  }
}

/// Started by this thread, run by another, cancelled by a third.
template <class F> ending play_elsewhere(F& f, script s, unio::io_multiplexer& m, running& runs) {
  told_elsewhere<F> told;
  auto op = std::make_optional(
      unio::connect(f.template describe<unio::detail::atomic_form<typename F::sender>>(deadline_of(s)),
                    receiver_elsewhere<F>{&told}));
  auto const cancel = [&] { elsewhere([&] { op->cancel(); }); };
  auto const anew = [&](bool is_ready) {
    op.reset();
    told.values.clear();
    f.again();
    if (!is_ready) f.make_ready();
    return play_elsewhere(f, script::ready, m, runs);
  };
  op->start(&m);
  if (has_to_wait(s) && F::can_wait) {
    runs.take_in();
    if (s != script::deadline_passes && !F::comes_by_itself) { // which it may have by now
      EXPECT_FALSE(op->completed());
    }
  }
  if (s == script::destroyed) return anew(false);
  act(f, s);
  if (s == script::canceled || (s == script::cancel_races_completion && !F::many)) cancel();
  if (F::many && (s == script::ready || s == script::waits || s == script::cancel_races_completion)) {
    await([&] { return told.has_values(); });
    cancel();
  }
  await([&] { return op->finished(); });
  cancel(); // too late
  EXPECT_EQ(told.dones, 1);
  record all;
  for (auto& r : told.values) all.add(ending_of(f, std::move(r)));
  if (s == script::cancel_races_completion && all.came_to == failure(unio::condition::canceled))
    return anew(true);
  if constexpr (requires { F::halfway(); }) {
    if (s == script::cancel_races_completion && all.came_to == F::halfway()) return anew(false);
  }
  return all.came_to;
}

template <class F, class S> ending play_connected(F& f, script s, style how, unio::io_multiplexer& m) {
  record told;
  auto const described = std::chrono::steady_clock::now();
  auto op = std::make_optional(unio::connect(f.template describe<S>(deadline_of(s)), receiver<F>{&f, &told}));
  EXPECT_EQ(op->poll(), unio::io_status::not_started);
  if (how == style::atomic) {
    (void)m.try_run(); // from now on this thread is the one that runs it
    elsewhere([&] { op->start(); });
  } else {
    op->start();
  }
  if (has_to_wait(s) && F::can_wait) {
    // A deadline may have passed by now.
    auto const is_due = [&] {
      return s == script::deadline_passes && std::chrono::steady_clock::now() - described >= short_time;
    };
    EXPECT_TRUE(!op->completed() || is_due());
    if (how == style::polled) {
      EXPECT_TRUE(op->poll() == unio::io_status::pending || is_due());
    } else {
      (void)m.try_run();
    }
    EXPECT_TRUE(!op->completed() || is_due());
  }
  if (s == script::destroyed) {
    bool const in_flight = !op->finished();
    bool const untold = told.values == 0;
    std::uint64_t const abandoned = m.counters().abandoned;
    op.reset();
    if (untold) {
      EXPECT_EQ(told.values, 0) << "told of the end of an operation that it destroyed";
    }
    EXPECT_EQ(m.counters().abandoned, abandoned + (in_flight ? 1 : 0));
    f.again();
    f.make_ready();
    return do_anew(f, m);
  }
  act(f, s);
  auto const cancel = [&] {
    if (how == style::atomic) {
      elsewhere([&] { op->cancel(); });
    } else {
      op->cancel();
    }
  };
  if (s == script::canceled || (s == script::cancel_races_completion && !F::many)) cancel();
  if (F::many && (s == script::ready || s == script::waits || s == script::cancel_races_completion)) {
    if (how != style::polled) {
      drive(m, [&] { return told.values != 0; });
    } else {
      while (told.values == 0 && !::testing::Test::HasFailure()) op->poll();
    }
    cancel();
  }
  drive<F>(m, *op, how, told);
  EXPECT_EQ(told.dones, op->finished() ? 1 : 0);
  // Stopped before it moved anything: then nothing may be lost.
  if (s == script::cancel_races_completion && told.came_to == failure(unio::condition::canceled))
    return do_anew(f, m);
  return told.came_to;
}

template <class F> ending play_called_back(F& f, script s, unio::io_multiplexer& m) {
  record told;
  unio::stop_source stop;
  unio::start(
      m, f.template describe<typename F::sender>(deadline_of(s)),
      [&](typename F::sender::result_type r) noexcept {
        told.add(ending_of(f, std::move(r)));
        ++told.dones;
      },
      stop.get_token());
  if (has_to_wait(s) && F::can_wait) {
    (void)m.try_run();
    EXPECT_EQ(told.values, 0);
  }
  act(f, s);
  if (s == script::canceled || s == script::cancel_races_completion) stop.request_stop();
  drive(m, [&] { return told.dones != 0; });
  EXPECT_EQ(told.values, 1);
  if (s == script::cancel_races_completion && told.came_to == failure(unio::condition::canceled))
    return do_anew(f, m);
  return told.came_to;
}

template <class F> ending play(script s, style how, unio::io_multiplexer* m) {
  std::ptrdiff_t const descriptors = count_descriptors();
  ending came_to;
  std::optional<running> runs;
  if (how == style::elsewhere) runs.emplace(*m); // before this thread does anything with it
  {
    // What the fixture does by itself is done by this thread.
    F f(how == style::blocking || how == style::elsewhere ? nullptr : m, s);
    if (s == script::ready || s == script::ready_and_zero_deadline) f.make_ready();
    if constexpr (has_handle<F>)
      if (s == script::was_closed) f.close();
    auto const before = std::chrono::steady_clock::now();
    switch (how) {
      case style::blocking:
      case style::blocking_on_multiplexer:
        if constexpr (F::has_verbs) came_to = play_blocking(f, s);
        break;
      case style::awaited:
        if constexpr (F::has_verbs) came_to = play_awaited(f, s, *m);
        break;
      case style::polled:
      case style::multiplexed:
        came_to = play_connected<F, typename F::sender>(f, s, how, *m);
        break;
      case style::atomic:
        came_to = play_connected<F, unio::detail::atomic_form<typename F::sender>>(f, s, how, *m);
        break;
      case style::elsewhere:
        came_to = play_elsewhere(f, s, *m, *runs);
        break;
      case style::called_back:
        if constexpr (!F::many) came_to = play_called_back(f, s, *m);
        break;
    }
    if (s == script::deadline_passes) {
      EXPECT_GE(std::chrono::steady_clock::now() - before, short_time) << "too early";
    }
  }
  runs.reset();
  if (m != nullptr && how != style::elsewhere) {
    int left = 1; // what poll() and close() delivered is still to be counted
    while (left > 0) left = m->try_run().value_or(-99);
    EXPECT_EQ(left, 0) << "something is left";
    EXPECT_EQ(m->counters().started, m->counters().finished);
  }
  if (how != style::elsewhere) { // whose multiplexer was not run before, and has opened some for itself
    EXPECT_EQ(count_descriptors(), descriptors) << "a descriptor leaked";
  }
  return came_to;
}

} // namespace detail

/// A row that plays a fixture.
template <class F> row row_of(std::string name) {
  return {.name = std::move(name),
          .expected = detail::expected<F>,
          .has = detail::has<F>,
          .play = detail::play<F>};
}

} // namespace test
