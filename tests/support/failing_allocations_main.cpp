// failing_allocations: a program of its own, because it replaces operator new. Case 15 (seastar's allocation
// failure injector): the n-th allocation fails, for every n, and nothing is lost, leaked or ended twice.
//
// Exit status: 0 all is well; otherwise 1, and what was not is printed. With UNIO_DRIVER as ever.

#include "support/failing_allocations.hpp"
#include "support/kernel.hpp"
#include "support/temporary_directory.hpp"

#include <unio/locks/atomic_append.hpp>
#include <unio/locks/byte_ranges.hpp>
#include <unio/locks/lock_files.hpp>
#include <unio/locks/memory_map.hpp>
#include <unio/locks/update_files.hpp>
#include <unio/pending.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

namespace {

bool wrong = false;
void expect(bool claim, char const* what, long n) {
  if (claim) return;
  std::printf("failing allocation %ld: %s\n", n, what);
  wrong = true;
}

struct note {
  int values = 0;
  int ends = 0;
  std::error_code error;
  std::size_t bytes = 0;
};
struct writes_down {
  note* to = nullptr;
  template <class Result> void set_value(Result&& r) noexcept {
    ++to->values;
    to->error = r.error();
    to->bytes = r.bytes_transferred();
  }
  void set_done() noexcept { ++to->ends; }
};

// The sockets, made beforehand: nothing here allocates but the library.
struct scene {
  unio::socket_pair one = unio::socket_handle::pair().value();
  unio::socket_pair two = unio::socket_handle::pair().value();
};

bool no_memory(std::error_code const& e) { return e == std::errc::not_enough_memory; }

// Of more than one thread a multiplexer makes what it needs on its first use by each.
void play(scene& s, int threads, long n) {
  auto made = unio::io_multiplexer::best_available(threads);
  if (!made.has_value()) {
    expect(made.error() == std::errc::not_enough_memory, "what is not made is for want of memory", n);
    return;
  }
  unio::io_multiplexer& m = **made;
  {
    s.one.first.set_multiplexer(&m);
    s.two.first.set_multiplexer(&m);
    std::array<char, 8> memory{};
    std::array<note, 4> notes;
    auto first =
        unio::connect(unio::async_read(s.one.first, unio::mutable_buffer(memory)), writes_down{&notes[0]});
    auto second =
        unio::connect(unio::async_read(s.two.first, unio::mutable_buffer(memory)), writes_down{&notes[1]});
    auto third = unio::connect(unio::async_no_op(&m), writes_down{&notes[2]});
    unio::timer_handle timer(std::chrono::milliseconds(1), &m);
    auto fourth = unio::connect(unio::async_wait(timer), writes_down{&notes[3]});
    first.start();
    second.start();
    third.start();
    fourth.start();
    bool posted = false;
    bool const taken = m.post([&] { posted = true; }).has_value();
    auto const ran = m.try_run();
    expect(ran.has_value() || no_memory(ran.error()), "it is run, or there is no memory", n);
    expect(s.one.second.write(unio::const_buffer("abc", 3)).has_value(), "the peer writes", n);
    second.cancel();
    for (int i = 0; i < 1000; ++i) {
      bool all = posted || !taken;
      for (note const& x : notes) all = all && x.ends != 0;
      if (all) break;
      (void)m.try_run_for(std::chrono::milliseconds(10));
    }
    expect(posted == taken, "what was posted ran", n);
    for (note const& x : notes) expect(x.ends == 1 && x.values == 1, "each ends once", n);
    for (note const& x : notes)
      expect(!x.error || x.error == unio::condition::canceled || no_memory(x.error),
             "what does not end well is for want of memory", n);
    expect(notes[0].bytes == 3 || no_memory(notes[0].error), "bytes arrive, or there is no memory", n);
    if (notes[0].error) { // they are still there
      char rest[8];
      expect(::recv(s.one.first.native_handle(), rest, sizeof rest, MSG_DONTWAIT) == 3, "no bytes are lost",
             n);
    }
    expect(m.counters().started == m.counters().finished, "nothing is in flight", n);
  }
  s.one.first.set_multiplexer(nullptr);
  s.two.first.set_multiplexer(nullptr);
}

// A thread's own multiplexer that cannot be made.
void first_use_by_a_thread() {
  for (long const n : {1, 2}) {
    note told;
    unio::timer_handle timer(std::chrono::milliseconds(1));
    auto wait = unio::connect(unio::async_wait(timer), writes_down{&told});
    allocations = 0;
    fails_at = n;
    wait.start();
    fails_at = -1;
    expect(told.ends == 1 && no_memory(told.error), "what cannot be started says that there is no memory", n);
  }
}

// Locking more entities than have room in a guard, and letting them go. Returns how often that allocated.
template <class Mutex> long lock(std::string const& path, long n) {
  Mutex m = Mutex::open(path).value(); // has no description in stock
  std::array<unio::fs::entity, 20> some;
  for (std::size_t i = 0; i != some.size(); ++i) some[i] = unio::fs::entity(i);
  allocations = 0;
  fails_at = n;
  {
    auto const held = m.lock(some);
    expect(held.has_value() || held.error() == std::errc::not_enough_memory,
           "what is not locked is for want of memory", n);
  }
  fails_at = -1;
  long const seen = allocations;
  expect(m.try_lock(some).has_value(), "nothing is locked afterwards", n);
  return seen;
}

// Opening, where another has it open, so that nothing is made. Returns how often that allocated.
template <class Mutex> long open(std::string const& path, long n) {
  allocations = 0;
  fails_at = n;
  unio::result<Mutex> m = Mutex::open(path);
  fails_at = -1;
  expect(n == 0 || (!m && m.error() == std::errc::not_enough_memory),
         "what is not opened is for want of memory", n);
  return allocations;
}

template <class Mutex> void lock_each(std::string const& path) {
  {
    Mutex const first = Mutex::open(path).value();
    long const in_all = open<Mutex>(path, 0);
    expect(in_all != 0, "the canary: opening allocates nothing", 0);
    for (long n = 1; n <= in_all; ++n) open<Mutex>(path, n);
  }
  long const in_all = lock<Mutex>(path, 0);
  expect(in_all != 0, "the canary: locking allocates nothing", 0);
  for (long n = 1; n <= in_all; ++n) lock<Mutex>(path, n);
}

// More files than have room in a guard.
constexpr std::array<char const*, 10> names{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};

std::array<unio::path_view, names.size()> paths() {
  std::array<unio::path_view, names.size()> all;
  std::ranges::copy(names, all.begin());
  return all;
}

// Reads all files, which are `old`, and replaces them. The error, if any.
std::error_code replace_all(unio::fs::shared_fs_mutex& m, unio::path_handle const& tree, std::string_view old,
                            std::string_view by, unio::deadline d = {}) {
  auto u = unio::fs::update_files::begin(m, tree, paths(), d);
  if (!u) return u.error();
  for (std::size_t i = 0; i != names.size(); ++i) {
    auto const c = u->contents(i);
    if (!c) return c.error();
    if (!std::ranges::equal(*c, std::as_bytes(std::span(old))))
      return std::make_error_code(std::errc::io_error);
    if (auto const r = u->replace(i, std::as_bytes(std::span(by))); !r) return r.error();
  }
  auto const r = u->commit(d);
  return r ? std::error_code() : r.error();
}

// Leaves a decision that the next update has to complete.
void decide(unio::fs::shared_fs_mutex& m, test::temporary_directory const& tree, std::string_view by) {
  auto u = unio::fs::update_files::begin(m, tree.handle(), paths()).value();
  for (std::size_t i = 0; i != names.size(); ++i) u.replace(i, std::as_bytes(std::span(by))).value();
  std::string const in_the_way = tree / names.back();
  std::filesystem::remove(in_the_way);
  std::filesystem::create_directory(in_the_way);
  expect(!u.commit() && u.is_decided(), "an update is interrupted", 0);
  std::filesystem::remove(in_the_way);
}

// Replacing some files. Returns how often that allocated, and counts in `reported` how often it said that it
// failed.
long update(bool is_decided, long n, long& reported) {
  test::temporary_directory const tree;
  test::temporary_directory const beside;
  std::string const lock = beside / "lock";
  for (char const* const name : names) tree.write(name, is_decided ? "older" : "old");
  if (is_decided) {
    auto other = unio::fs::byte_ranges::open(lock).value();
    decide(other, tree, "old");
  }
  auto const is_alone = [&] { // are there only the files, and whose turn it is to commit?
    return tree.count() == std::ssize(names) + (std::filesystem::exists(tree / ".unio-update.lock") ? 1 : 0);
  };
  auto m = unio::fs::byte_ranges::open(lock).value();
  allocations = 0;
  fails_at = n;
  std::error_code const e = replace_all(m, tree.handle(), "old", "new");
  fails_at = -1;
  long const seen = allocations;
  if (e) ++reported;
  expect(!e || e == std::errc::not_enough_memory, "what is not replaced is for want of memory", n);
  expect(is_decided || is_alone(), "nothing is left beside the files", n);
  std::error_code const next =
      replace_all(m, tree.handle(), e ? "old" : "new", "newest", unio::deadline::zero());
  expect(next != std::errc::io_error, "all files are old after an error, and new without", n);
  expect(!next, "nothing is locked afterwards", n);
  for (char const* const name : names) expect(tree.read(name) == "newest", "they are replaced then", n);
  expect(is_alone(), "nothing is left beside the files then", n);
  return seen;
}

void update_each() {
  for (bool const is_decided : {false, true}) {
    long reported = 0;
    long const in_all = update(is_decided, 0, reported);
    for (long n = 1; n <= in_all; ++n) update(is_decided, n, reported);
    // All but the last, which is for keeping what the lock needed for the next.
    expect(reported >= in_all - 1 && reported > std::ssize(names),
           "the canary: that few failures were reported", reported);
  }
}

// What throws, where there are exceptions: each allocation that fails becomes one, and the next attempt is
// well.
#ifdef __cpp_exceptions
template <class F> void throws_each(char const* what, F f) {
  auto const fails = [&](long n) {
    unio::frame_pool::trim(); // nothing is in stock
    allocations = 0;
    fails_at = n;
    may_throw = true;
    bool told = false;
    try {
      f();
    } catch (std::bad_alloc const&) {
      told = true;
    } catch (std::system_error const& e) {
      told = no_memory(e.code());
    }
    may_throw = false;
    fails_at = -1;
    expect(told == (n != 0), what, n);
  };
  fails(0);
  long const in_all = allocations;
  expect(in_all != 0, "the canary: nothing was allocated by what throws", 0);
  for (long n = 1; n <= in_all; ++n) fails(n);
  fails(0);
}

unio::task<int> nested(int depth) {
  if (depth == 0) co_return (co_await unio::co_no_op()).has_value() ? 1 : 0;
  co_return co_await nested(depth - 1);
}

unio::task<int> several() {
  auto const [a, b] = co_await unio::when_all(nested(0), nested(1));
  co_return a + b;
}

void throw_each() {
  bool thrown = false;
  allocations = 0;
  fails_at = 1;
  may_throw = true;
  try {
    unio::task<int> const first = nested(0);
  } catch (std::bad_alloc const&) {
    thrown = true;
  }
  may_throw = false;
  fails_at = -1;
  expect(thrown, "the first frame of the process throws", 1);

  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  throws_each("async_run() throws, or the task", [&m] {
    std::optional<unio::task_outcome<int>> outcome;
    unio::async_run(m, nested(2), [&outcome](unio::task_outcome<int> o) { outcome = o; });
    for (int i = 0; i != 1000 && !outcome; ++i) (void)m.try_run_for(std::chrono::milliseconds(10));
    expect(outcome.has_value(), "what was started ends", 0);
    if (outcome && !*outcome) std::rethrow_exception(outcome->error());
  });
  throws_each("run() throws", [] { expect(unio::run(several()) == 2, "it ends", 0); });
  throws_each("a thread pool throws", [] {
    unio::thread_pool pool(2);
    std::atomic<bool> ran = false;
    pool.post([&ran] { ran = true; });
    pool.join();
    expect(ran, "what was posted runs", 0);
  });
}

// Another thread, with an operation in flight on its own multiplexer.
class busy_thread {
 public:
  busy_thread() {
    while (!m_) std::this_thread::yield();
  }
  ~busy_thread() {
    has_ended_ = true;
    m_.load()->wake();
    thread_.join();
  }
  busy_thread(busy_thread const&) = delete;
  busy_thread& operator=(busy_thread const&) = delete;

 private:
  void run() {
    std::array<char, 8> memory{};
    note told;
    auto read =
        unio::connect(unio::async_read(sockets_.first, unio::mutable_buffer(memory)), writes_down{&told});
    read.start();
    m_ = &unio::this_thread::multiplexer();
    while (!has_ended_) (void)m_.load()->run();
  }
  unio::socket_pair sockets_ = unio::socket_handle::pair().value();
  std::atomic<unio::io_multiplexer*> m_ = nullptr;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_{[this] { run(); }};
};

void dump_each() {
  busy_thread const other;
  throws_each("dump_pending() throws", [] {
    std::ostringstream to;
    unio::dump_pending(to);
    if (!to) throw std::bad_alloc(); // which the stream has caught
    expect(to.str().contains("read on socket"), "it has the other thread's operation", 0);
  });
}

// What the thread of dump_pending_on_signal() cannot tell it says, and goes on.
void dump_each_on_signal() {
  static struct counting final : std::streambuf {
    std::atomic<long> texts = 0;
    std::streamsize xsputn(char const*, std::streamsize n) override {
      ++texts;
      return n;
    }
  } told; // the thread has it to the end
  std::cerr.rdbuf(&told);
  expect(unio::dump_pending_on_signal(SIGUSR2).has_value(), "it begins", 0);
  long const failed_before = failed;
  may_throw = true;
  for (long n = 1; failed - failed_before == n - 1; ++n) {
    long texts = told.texts;
    allocations = 0;
    fails_at = n;
    std::raise(SIGUSR2);
    while (failed - failed_before != n && told.texts == texts) std::this_thread::yield();
    fails_at = -1;
    if (failed - failed_before != n) ++texts;
    std::raise(SIGUSR2);
    while (told.texts == texts) std::this_thread::yield();
  }
  expect(failed != failed_before, "the canary: nothing was allocated by the thread that tells", 0);
  may_throw = false;
}
#else
void throw_each() {}
void dump_each() {}
void dump_each_on_signal() {}
#endif

} // namespace

int main() {
  first_use_by_a_thread();
  long in_all = 0;
  for (int const threads : {2, 1}) {
    scene s;
    play(s, threads, 0); // what is allocated once in a process is not counted
    allocations = 0;
    play(s, threads, 0);
    in_all = allocations;
    if (in_all < 3) {
      std::printf("the canary: only %ld allocations were seen\n", in_all);
      return 1;
    }
    failed = 0;
    for (long n = 1; n <= in_all; ++n) {
      allocations = 0;
      fails_at = n;
      play(s, threads, n);
      fails_at = -1;
    }
    if (failed < in_all) {
      std::printf("the canary: only %ld of %ld failed\n", failed.load(), in_all);
      return 1;
    }
  }
  throw_each();
  dump_each();
  dump_each_on_signal();
  test::temporary_directory const directory;
  lock_each<unio::fs::byte_ranges>(directory / "byte_ranges");
  lock_each<unio::fs::atomic_append>(directory / "atomic_append");
  lock_each<unio::fs::memory_map<>>(directory / "memory_map");
  lock_each<unio::fs::lock_files>(directory.path());
  update_each();
  std::printf("%ld allocations, each failed once: %s\n", in_all, wrong ? "not well" : "all well");
  return wrong ? 1 : 0;
}
