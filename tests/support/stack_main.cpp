// A million operations that complete inline, on a thread with a stack of 64 KiB: connected ones whose
// receiver starts the next, and awaited ones; tasks that await a million ready operations and a million ready
// tasks; and a hundred thousand nested tasks. Whatever the compiler does about tail calls: this is built
// without and with optimisation.
//
// Exit status: 0, or the program dies of its stack. With the argument "canary" a child uses a little stack
// for each operation, and 0 means that it died of it.

#include "support/coroutine.hpp"

#include <unio/unio.hpp>

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

namespace {

constexpr int million = 1'000'000;
constexpr std::size_t stack_bytes = 64 * 1024;
bool is_canary = false;

struct stream {
  unio::pipe_handle source, sink;
  char memory[1];
  int left = 0;

  explicit stream(unio::io_multiplexer& m) {
    auto p = unio::pipe_handle::anonymous().value();
    source = std::move(p.reader);
    sink = std::move(p.writer);
    source.set_multiplexer(&m);
  }
  // Called before each read: there is always something to read.
  void refill() {
    static char const block[4096] = {};
    if (left > 0) return;
    for (ssize_t n; (n = ::write(sink.native_handle(), block, sizeof block)) > 0;)
      left += static_cast<int>(n);
  }
};

struct restarting;
using connection = unio::io_operation_connection<unio::async_read, restarting>;

struct restarting {
  stream* from = nullptr;
  connection* self = nullptr;
  int* done = nullptr;
  void set_value(unio::io_result<unio::mutable_buffers>&& r) {
    if (r.has_value() && r->bytes() == 1) ++*done;
  }
  void set_done() {
    --from->left;
    if (*done >= million) return;
    from->refill();
    self->reset();
    self->start();
  }
};

bool connected(unio::io_multiplexer& m) {
  stream s(m);
  int done = 0;
  connection c(unio::async_read(s.source, unio::mutable_buffer(s.memory)), restarting{&s, nullptr, &done});
  c.receiver().self = &c;
  s.refill();
  c.start();
  while (done < million)
    if (m.run().value_or(0) == 0) break;
  return done == million;
}

test::coroutine reads(stream& s, int& done) {
  for (int i = 0; i < million; ++i) {
    s.refill();
    auto const r = co_await s.source.co_read(unio::mutable_buffer(s.memory));
    --s.left;
    if (r.has_value() && r->bytes() == 1) ++done;
  }
}

bool awaited(unio::io_multiplexer& m) {
  stream s(m);
  int done = 0;
  test::coroutine const c = reads(s, done);
  while (!c.done())
    if (m.run().value_or(0) == 0) break;
  return done == million;
}

// ---- tasks ------------------------------------------------------------------------------------------------

unio::task<int> reads_in_a_task(stream& s) {
  int done = 0;
  for (int i = 0; i < million; ++i) {
    s.refill();
    auto const r = co_await s.source.co_read(unio::mutable_buffer(s.memory));
    --s.left;
    if (r.has_value() && r->bytes() == 1) ++done;
  }
  co_return done;
}

unio::task<int> ready(int n) { co_return n; }
unio::task<int> fails_at_once() {
  throw 1;
  co_return 0;
}

unio::task<int> awaits_tasks() {
  int done = 0;
  for (int i = 0; i < million; ++i) {
    int const one = co_await ready(1);
    done += one;
  }
  co_return done;
}

unio::task<int> awaits_what_fails() {
  int done = 0;
  for (int i = 0; i < million / 10; ++i) {
    try {
      (void)co_await fails_at_once();
    } catch (int n) {
      done += n;
    }
  }
  co_return done;
}

constexpr int deep = 100'000;
unio::task<int> nests(int left) {
  if (left == 0) {
    (void)co_await unio::co_no_op();
    co_return 0;
  }
  int const below = co_await nests(left - 1);
  co_return below + 1;
}

bool tasks(unio::io_multiplexer& m) {
  stream s(m);
  return unio::run(m, reads_in_a_task(s)) == million && unio::run(m, awaits_tasks()) == million &&
         unio::run(m, awaits_what_fails()) == million / 10 && unio::run(m, nests(deep)) == deep;
}

// What an implementation that calls receivers from receivers would do.
[[gnu::noinline]] int nested(stream& s, int left) {
  s.refill();
  char volatile used[64] = {};
  auto const r = s.source.read(unio::mutable_buffer(s.memory));
  --s.left;
  return left == 0 ? 0 : nested(s, left - 1) + static_cast<int>(r.has_value()) + used[0];
}

void* run(void*) {
  static char answer;
  auto const made = unio::io_multiplexer::best_available(1);
  if (!made.has_value()) {
    std::fprintf(stderr, "no multiplexer: %d\n", made.error().value());
    return nullptr;
  }
  unio::io_multiplexer& m = **made;
  if (is_canary) {
    stream s(m);
    s.source.set_multiplexer(nullptr);
    return nested(s, million) >= 0 ? &answer : nullptr;
  }
  bool const fine = connected(m) && awaited(m) && tasks(m);
  return fine ? &answer : nullptr;
}

int on_small_stack() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (int const e = pthread_attr_setstacksize(&attributes, stack_bytes); e != 0) {
    std::fprintf(stderr, "a stack of %zu bytes: %s\n", stack_bytes, std::strerror(e));
    return 1;
  }
  pthread_t thread;
  if (int const e = pthread_create(&thread, &attributes, run, nullptr); e != 0) {
    std::fprintf(stderr, "no thread: %s\n", std::strerror(e));
    return 1;
  }
  void* answer = nullptr;
  pthread_join(thread, &answer);
  if (answer == nullptr) std::fprintf(stderr, "not all operations ended well\n");
  return answer != nullptr ? 0 : 1;
}

int dies_of_its_stack() {
  pid_t const child = ::fork();
  if (child == 0) {
    rlimit const none{};
    ::setrlimit(RLIMIT_CORE, &none);
    ::_exit(on_small_stack());
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 1;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) return 0;
  std::fprintf(stderr, "the canary lives: the stack is larger than it should be\n");
  return 1;
}

} // namespace

int main(int argc, char** argv) {
  is_canary = argc > 1 && std::string_view(argv[1]) == "canary";
  return is_canary ? dies_of_its_stack() : on_small_stack();
}
