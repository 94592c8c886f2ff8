// No allocation and no lock for signals, watches and files that grow, once warm: called and connected, ready
// and waiting.

#include "alloc/rounds.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

TEST(signals_alloc, is_free_of_allocations) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  unio::signal_handle h = unio::signal_handle::create({SIGUSR1}).value();
  auto const come = [] { ::raise(SIGUSR1); };
  expect_free("called", [&] { return come(), h.wait().has_value(); });
  h.set_multiplexer(m.get());
  for (bool const waits : {false, true})
    expect_free(waits ? "waiting" : "ready",
                [&] { return one_connected(*m, [&] { return unio::async_wait_signal(h); }, waits, come); });
}

TEST(watches_alloc, are_free_of_allocations) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  test::temporary_directory d;
  unio::watch_handle w = unio::watch_handle::create().value();
  ASSERT_TRUE(w.add(d.handle(), "", unio::watch_kinds::created).has_value());
  std::string const name = d / "file";
  auto const come = [&] {
    int const fd = ::open(name.c_str(), O_WRONLY | O_CREAT, 0600);
    (void)::close(fd);
    (void)::unlink(name.c_str());
  };
  alignas(8) char memory[1024];
  auto const read = [&] { return unio::async_read_events(w, unio::mutable_buffer(memory)); };
  expect_free("called", [&] {
    come();
    auto const r = w.read(unio::mutable_buffer(memory));
    return r.has_value() && r->begin()->name == "file";
  });
  w.set_multiplexer(m.get());
  for (bool const waits : {false, true})
    expect_free(waits ? "waiting" : "ready", [&] { return one_connected(*m, read, waits, come); });
}

TEST(tails_alloc, are_free_of_allocations) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  test::temporary_directory d;
  d.write("log", "");
  unio::tail_handle t = unio::tail_handle::follow(d.handle(), "log").value();
  int const fd = ::open((d / "log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  auto const come = [&] { (void)!::write(fd, "x", 1); };
  char memory[16];
  auto const read = [&] { return unio::async_read_appended(t, unio::mutable_buffer(memory)); };
  expect_free("called", [&] { return come(), t.read(unio::mutable_buffer(memory)).has_value(); });
  t.set_multiplexer(m.get());
  for (bool const waits : {false, true})
    expect_free(waits ? "waiting" : "ready", [&] { return one_connected(*m, read, waits, come); });
  ::close(fd);
}

} // namespace
