// check_refusals: errors of the kernel are reported, not taken for contention, and leave no lock behind.

#include "crash/harness.hpp"
#include "crash/oracle.hpp"
#include "crash/processes.hpp"
#include "crash/worker.hpp"
#include "support/failing_calls.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace crash {

namespace {

using namespace std::chrono_literals;
using unio::condition;
using unio::fs::entity;
using unio::sys::table;

constexpr entity a(0);
constexpr std::int64_t patience_ms = 3000;

// A process dies that holds it: even a mutex in memory has to ask the kernel then.
void die_holding(algorithm const& what, std::string const& directory) {
  child victim([&] {
    std::string why;
    auto const m = what.open(directory, 0, why);
    auto const held = m->lock(a);
    ::raise(SIGKILL);
  });
  victim.ends_within(patience_ms);
}

std::string locking_is_refused(algorithm const& what) {
  for (auto const d : {unio::deadline(), unio::deadline(300ms), unio::deadline::zero()}) {
    test::temporary_directory const directory;
    shared<oracle> const judge;
    child locker([&] {
      std::string why;
      auto const m = what.open(directory.path(), 0, why);
      die_holding(what, directory.path());
      test::failing_calls calls;
      calls.fail<&table::fcntl>(ENOLCK, {.times = test::which_calls::all});
      auto const held = m->lock(a, d);
      if (held) {
        judge->complain("locked, although the kernel cannot");
      } else if (held.error() != std::error_code(ENOLCK, std::system_category())) {
        judge->complain("ENOLCK is told as: %s", held.error().message().c_str());
      }
    });
    if (!locker.ends_within(patience_ms)) return std::string(what.name) + ": ENOLCK: tries for ever";
    if (judge->complaints != 0) return std::string(what.name) + ": " + judge->verdict();
  }
  return {};
}

std::string letting_go_fails(algorithm const& what) {
  test::temporary_directory const directory;
  shared<oracle> const judge;
  shared<std::atomic<bool>> const over;
  std::string why;
  child holder([&] {
    auto const m = what.open(directory.path(), 0, why);
    auto held = m->lock(a);
    test::failing_calls calls;
    calls.fail<&table::pwritev2>(EIO, {.times = test::which_calls::all});
    if (held) held->unlock();
    *over = true;
    sleep_us(10'000'000); // it holds what it did not unlock, all that time
  });
  if (!await([&] { return over->load(); }, patience_ms))
    return std::string(what.name) + ": EIO: does not let go";
  child next([&] {
    auto const m = what.open(directory.path(), 1, why);
    auto const held = m->lock(a, 2s);
    if (!held) judge->complain("not let go after EIO: %s", held.error().message().c_str());
  });
  if (!next.ends_within(patience_ms)) return std::string(what.name) + ": not let go after EIO";
  return judge->complaints == 0 ? std::string() : what.name + (": " + judge->verdict());
}

} // namespace

std::string check_refusals(algorithm const& what) {
  if (what.tells != telling::never_by_all)
    if (std::string wrong = locking_is_refused(what); !wrong.empty()) return wrong;
  return letting_go_fails(what);
}

} // namespace crash
