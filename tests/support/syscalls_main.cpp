// syscalls: does a few operations, with marks between them, for scripts/check-syscalls to count their system
// calls.
//
//   syscalls blocking_ready | blocking_waits | turns N
//
// A mark is a write of "<<name" to descriptor -1, which strace shows and which has no effect. UNIO_DRIVER as
// ever.

#include <unio/unio.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

void mark(char const* name) {
  std::string const text = std::string("<<") + name;
  (void)!::write(-1, text.data(), text.size());
}

struct ignore {
  template <class Result> void set_value(Result&&) {}
  void set_done() {}
};

int blocking_ready() {
  unio::anonymous_pipe p = unio::pipe_handle::anonymous().value();
  unio::socket_pair s = unio::socket_handle::pair().value();
  char memory[8];
  (void)p.writer.write(unio::const_buffer("x", 1)).value(); // warm: what is asked once per process
  (void)p.reader.read(unio::mutable_buffer(memory)).value();
  mark("pipe_write");
  (void)p.writer.write(unio::const_buffer("x", 1)).value();
  mark("pipe_read");
  (void)p.reader.read(unio::mutable_buffer(memory)).value();
  mark("socket_write");
  (void)s.first.write(unio::const_buffer("x", 1)).value();
  mark("socket_read");
  (void)s.second.read(unio::mutable_buffer(memory)).value();
  mark("splice");
  (void)p.writer.write(unio::const_buffer("x", 1)).value();
  mark("splice_kept_away");
  (void)unio::splice(p.reader, s.first, {.bytes = 8}).value();
  mark("splice_end");
  (void)p.writer.write(unio::const_buffer("x", 1)).value();
  (void)unio::ignore_sigpipe();
  mark("splice_ignored");
  (void)unio::splice(p.reader, s.first, {.bytes = 8}).value();
  mark("end");
  return 0;
}

// A reader that has to wait for each message.
int blocking_waits() {
  unio::anonymous_pipe p = unio::pipe_handle::anonymous().value();
  constexpr int messages = 5;
  std::thread peer([&] {
    for (int i = 0; i < messages; ++i) {
      std::this_thread::sleep_for(40ms);
      (void)!::write(p.writer.native_handle(), "x", 1);
    }
  });
  char memory[8];
  for (int i = 0; i < messages; ++i) {
    std::this_thread::sleep_for(5ms); // the writer is asleep by now: nothing of it falls between the marks
    mark(i == 0 ? "first" : "later");
    (void)p.reader.read(unio::mutable_buffer(memory)).value();
    mark("between");
  }
  mark("end");
  peer.join();
  return 0;
}

// N operations that wait; one turn to submit them, one to take them when they are all ready.
int turns(std::size_t n) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  auto made = unio::io_multiplexer::best_available(1);
  if (!made.has_value()) {
    std::fprintf(stderr, "no multiplexer: %s\n", made.error().message().c_str());
    return 3;
  }
  unio::io_multiplexer& m = **made;
  struct one {
    unio::event_handle event;
    unio::io_operation_connection<unio::async_wait_event, ignore> op;
  };
  std::vector<one> all(n);
  for (one& o : all) {
    o.event = unio::event_handle::create().value();
    o.event.set_multiplexer(&m);
  }
  // A first round teaches each descriptor that an inline attempt is not worth it.
  for (int round = 0; round < 2; ++round) {
    for (one& o : all) {
      o.op = unio::connect(unio::async_wait_event(o.event), ignore{});
      o.op.start();
    }
    if (round != 0) break;
    for (int i = 0; i < 40; ++i) (void)m.try_run();
    for (one& o : all) (void)o.event.signal();
    while (m.run().value_or(0) != 0) continue;
  }
  std::uint64_t const before = m.counters().turns;
  mark("submit");
  (void)m.try_run();
  mark("submitted");
  for (int i = 0; i < 40; ++i) (void)m.try_run();
  mark("quiet");
  for (one& o : all) (void)o.event.signal();
  std::uint64_t const taken_before = m.counters().turns;
  std::size_t calls = 0;
  mark("take");
  auto const unfinished = [&] {
    for (one const& o : all)
      if (!o.op.finished()) return true;
    return false;
  };
  while (unfinished()) {
    (void)m.run();
    ++calls;
  }
  mark("end");
  std::printf("runs %zu turns %llu all %llu\n", calls,
              static_cast<unsigned long long>(m.counters().turns - taken_before),
              static_cast<unsigned long long>(m.counters().turns - before));
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  std::string_view const what = argc > 1 ? argv[1] : "";
  if (what == "blocking_ready") return blocking_ready();
  if (what == "blocking_waits") return blocking_waits();
  if (what == "turns" && argc > 2) return turns(std::strtoul(argv[2], nullptr, 10));
  std::fprintf(stderr, "usage: syscalls blocking_ready | blocking_waits | turns N\n");
  return 2;
}
