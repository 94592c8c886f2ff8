// Rows of the table of operations for processes, signals and watches.

#include "op/rows.hpp"
#include "support/ends.hpp"
#include "support/operation_table.hpp"
#include "support/posix.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/process_handle.hpp>

namespace {

using namespace test;
using test::failure;

// A child that lives until its input ends.
struct wait_for_exit : fixture {
  static ending value() { return {"code 0, signal 0"}; }
  static ending at_end() { return {"code 0, signal 9"}; }
  std::ptrdiff_t const descriptors = count_descriptors();
  unio::launched_process child;

  ~wait_for_exit() {
    // One that nobody waited for is removed by a thread of the library, when it has ended.
    child = {};
    for (int i = 0; i < 10'000 && count_descriptors() > descriptors; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  wait_for_exit(io_multiplexer* m, script) {
    unio::launch_options o;
    o.input = unio::child_stream::pipe();
    child = unio::process_handle::launch("cat", {}, o).value();
    child.process.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_wait_exit, child.process, wait)
  void make_ready() {
    ASSERT_TRUE(child.input.close());
    ASSERT_TRUE(is_ready(child.process, POLLIN, 10'000));
  }
  void end() {
    ASSERT_TRUE(child.process.kill(SIGKILL));
    ASSERT_TRUE(is_ready(child.process, POLLIN, 10'000));
  }
  void close() { ASSERT_TRUE(child.process.close()); }
  ending brought(sender::result_type const& r) {
    return {"code " + std::to_string(r->code()) + ", signal " + std::to_string(r->signal())};
  }
};

// By a handler, and by a mask, which the thread keeps.
template <unio::delivery How, int Number> struct wait_for_signal : fixture {
  static ending value() { return {"the signal"}; }
  unio::signal_handle signals = unio::signal_handle::create({Number}, How).value();

  wait_for_signal(io_multiplexer* m, script) { signals.set_multiplexer(m); }
  // What was sent to this thread and nobody has taken must not come to the next cell.
  ~wait_for_signal() {
    while (signals.try_wait().has_value()) continue;
  }
  UNIO_SPELLINGS(async_wait_signal, signals, wait)
  void make_ready() {
    // A handler has run when this returns; with the mask the signal is the whole process's.
    ASSERT_EQ(How == unio::delivery::handler ? ::raise(Number) : ::kill(::getpid(), Number), 0);
  }
  void close() { ASSERT_TRUE(signals.close()); }
  ending brought(sender::result_type const& r) {
    return {r->number == Number && r->process == ::getpid() ? "the signal" : "another signal"};
  }
};

// What happens in a directory.
struct read_events : fixture {
  static ending value() { return {"removed name"}; }
  static ending at_end() { return {"ended "}; }
  temporary_directory directory;
  unio::watch_handle watches = unio::watch_handle::create().value();
  int watch = -1;
  alignas(8) char memory[512];

  read_events(io_multiplexer* m, script) {
    directory.write("name", "");
    watch = watches.add(directory.handle(), "", unio::watch_kinds::removed).value();
    watches.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_read_events, watches, read, unio::mutable_buffer(memory))
  void make_ready() { ASSERT_EQ(::unlink((directory / "name").c_str()), 0); }
  void end() { ASSERT_TRUE(watches.remove(watch)); }
  void close() { ASSERT_TRUE(watches.close()); }
  ending brought(sender::result_type const& r) {
    std::string text;
    for (unio::watch_event const& e : *r)
      text.append(e.is(unio::watch_kinds::removed) ? "removed " : "ended ").append(e.name);
    return {text};
  }
};

// A file that grows.
struct read_appended : fixture {
  static ending value() { return {"more", 4}; }
  static ending at_end() { return failure(unio::make_error_code(unio::error::truncated)); }
  temporary_directory directory;
  unio::tail_handle tail;
  char memory[16];

  read_appended(io_multiplexer* m, script) {
    directory.write("log", "before");
    tail = unio::tail_handle::follow(directory.handle(), "log").value();
    tail.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_read_appended, tail, read, unio::mutable_buffer(memory))
  void make_ready() { std::ofstream(directory / "log", std::ios::app) << "more"; }
  void end() { ASSERT_EQ(::truncate((directory / "log").c_str(), 0), 0); }
  void close() { ASSERT_TRUE(tail.close()); }
  ending brought(sender::result_type const& r) {
    return {std::string(reinterpret_cast<char const*>(r->data()), r->size()), r.bytes_transferred()};
  }
};

} // namespace

std::vector<test::row> test::process_rows() {
  return {
      row_of<wait_for_exit>("wait_exit"),
      row_of<wait_for_signal<unio::delivery::handler, SIGUSR2>>("wait_signal_by_handler"),
      row_of<wait_for_signal<unio::delivery::mask, SIGWINCH>>("wait_signal_by_mask"),
      row_of<read_events>("read_events"),
      row_of<read_appended>("read_appended"),
  };
}
