// The C library's way: its answers, its errors, and that nobody waits for a look-up that hangs. getaddrinfo
// is replaced in this program, so that it hangs and fails as a test wants.

#include "net/libc.hpp"

#include "net/files.hpp"
#include "support/kernel.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"

#include <dlfcn.h>
#include <malloc.h>
#include <netdb.h>

namespace {

std::atomic<int> hanging{0};
std::atomic<bool> let_go{false};

void hang() {
  ++hanging;
  while (!let_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  --hanging;
}

} // namespace

// Names in ".fails" end with the code before it; those in ".hangs" hang until they are let go.
extern "C" int getaddrinfo(char const* name, char const* service, addrinfo const* hints, addrinfo** found) {
  using function = int (*)(char const*, char const*, addrinfo const*, addrinfo**);
  static auto const real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  std::string_view const text(name != nullptr ? name : "");
  if (text.ends_with(".hangs")) {
    hang();
    return EAI_AGAIN;
  }
  if (text.ends_with(".fails")) return std::atoi(name);
  return real(name, service, hints, found);
}

namespace {

using namespace test;

unio::resolver_options by_libc() {
  unio::resolver_options o;
  o.way = unio::resolve_way::libc;
  return o;
}

TEST(libc, finds_what_the_system_knows) {
  resolver names(by_libc());
  auto const found = names.resolve("localhost", 80, 60s, {.family = unio::address_family::ipv4});
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(found->front(), unio::endpoint::ipv4_loopback(80));
  EXPECT_EQ(names.resolve("192.0.2.1", 80).value().size(), 1u); // without asking
  EXPECT_EQ(names.capabilities().why, "libc: so it was asked for");
}

TEST(libc, has_the_same_errors) {
  resolver names(by_libc());
  auto const error_for = [&](int code) {
    return names.resolve(std::to_string(code) + ".fails", 1, 60s).error();
  };
  EXPECT_EQ(error_for(EAI_NONAME), resolve_error::no_such_name);
  EXPECT_EQ(error_for(EAI_NODATA), resolve_error::no_data);
  EXPECT_EQ(error_for(EAI_AGAIN), resolve_error::no_answer);
  EXPECT_EQ(error_for(EAI_FAIL), resolve_error::server_failed);
  EXPECT_EQ(error_for(EAI_MEMORY), std::errc::not_enough_memory);
  EXPECT_EQ(error_for(EAI_FAMILY), resolve_error::libc_failed);
  EXPECT_EQ(names.resolve("", 1, 60s).error(), resolve_error::invalid_name);
}

TEST(libc, is_not_waited_for_when_it_hangs) {
  resolver names(by_libc());
  EXPECT_EQ(names.resolve("deadline.hangs", 1, 5ms).error(), condition::timed_out);
  EXPECT_EQ(names.resolve("zero.hangs", 1, unio::deadline::zero()).error(), condition::would_block);
  {
    auto op = unio::connect(unio::async_resolve(names, "destroyed.hangs", 1), test::ignore());
    op.start();
    EXPECT_EQ(op.poll(), unio::io_status::pending);
  }
  {
    auto other = std::make_unique<resolver>(by_libc());
    std::optional<std::error_code> ended;
    unio::async_run(unio::this_thread::multiplexer(), other->co_resolve("resolver.hangs", 1),
                    [&](auto o) { ended = o->error(); });
    (void)unio::this_thread::multiplexer().try_run();
    other.reset();
    while (!ended) (void)unio::this_thread::multiplexer().run();
    EXPECT_EQ(*ended, condition::canceled);
  }
  let_go = true;
  while (hanging != 0) std::this_thread::sleep_for(1ms);
  let_go = false;
}

TEST(libc, hangs_on_a_bounded_number_of_threads) {
  resolver names(by_libc());
  // One that no thread has begun in time is not begun any more.
  for (int i = 0; i != 12 || hanging != unio::net::most_libc_threads; i += i != 12 ? 1 : 0)
    EXPECT_EQ(names.resolve(std::to_string(i) + ".hangs", 1, 3ms).error(), condition::timed_out);
  EXPECT_EQ(hanging, unio::net::most_libc_threads);
  std::thread releases([] {
    std::this_thread::sleep_for(5ms);
    let_go = true;
  });
  // What waits behind them has its turn; what nobody waits for any more is not begun.
  EXPECT_TRUE(names.resolve("localhost", 80, 60s).has_value());
  releases.join();
  while (hanging != 0) std::this_thread::sleep_for(1ms);
  let_go = false;
}

// Where all threads hang, each look-up that was given up would stay, and the next ones come.
TEST(libc, keeps_nothing_of_look_ups_that_nobody_waits_for) {
  resolver names(by_libc());
  while (hanging != unio::net::most_libc_threads)
    EXPECT_EQ(names.resolve("all.hangs", 1, 3ms).error(), condition::timed_out);
  auto const in_use = [] {
    auto const all = ::mallinfo2();
    return all.uordblks + all.hblkhd;
  };
  constexpr std::size_t large = 1 << 20;
  std::string const name = std::string(large, 'x') + ".hangs";
  std::size_t const before = in_use();
  for (int i = 0; i != 200; ++i) EXPECT_EQ(names.resolve(name, 1, 1ms).error(), condition::timed_out);
  EXPECT_LT(in_use(), before + 50 * large);
  let_go = true;
  while (hanging != 0) std::this_thread::sleep_for(1ms);
  let_go = false;
}

TEST(libc, does_not_keep_a_process_from_ending) {
  if (test::under_thread_sanitizer)
    GTEST_SKIP() << "ThreadSanitizer lets no child of several threads start one";
  pid_t const child = ::fork();
  if (child == 0) {
    auto m = unio::io_multiplexer::best_available(1);
    resolver names(by_libc());
    if (!m.has_value()) ::_exit(2);
    for (int i = 0; i != 1000 && hanging == 0; ++i) { // until a thread has begun one in time
      auto const r = unio::run(**m, names.co_resolve("exit.hangs", 1, 10ms));
      if (r.error() != condition::timed_out) ::_exit(1);
    }
    int const status = hanging != 0 ? 0 : 3;
    if (test::under_sanitizer) ::_exit(status); // which misses what the parent's threads refer to
    std::exit(status);                          // what is static is destroyed
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(libc, finds_the_names_of_an_address) {
  resolver names(by_libc());
  auto const found = names.names_of(unio::endpoint::ipv4_loopback(0), 60s);
  if (!found.has_value())
    GTEST_SKIP() << "this system has no name for 127.0.0.1: " << found.error().message();
  EXPECT_FALSE(found->front().empty());
}

} // namespace
