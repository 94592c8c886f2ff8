#include "progress.hpp"

#include "checks.hpp"
#include "complain.hpp"
#include "numbers.hpp"
#include "tools/support/json.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace progress {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto between_bars = 100ms;
constexpr auto between_lines = 1s;
constexpr auto between_samples = 250ms;
constexpr auto one_request = 250ms; // timeout(1) signals the process, and then its group: that is asking once
constexpr char clear_line[] = "\r\x1b[K";

constinit interruption* current = nullptr;

} // namespace

shown how(std::string const& option) {
  if (option == "json") return shown::json;
  if (option == "bar") return shown::bar;
  return option == "auto" && ::isatty(STDERR_FILENO) == 1 ? shown::bar : shown::never;
}

void describe(CLI::App& app, int& threads, std::string& option) {
  app.add_option("--threads", threads, "How many threads; by default one for each processor, at most 8")
      ->type_name("N")
      ->check(whole_number(1, 64));
  app.add_option("--progress", option, "On stderr: bar, json, none; auto: a bar on a terminal (the default)")
      ->type_name("HOW")
      ->check(one_of({"auto", "bar", "json", "none"}));
}

std::string bytes(std::uint64_t n) {
  constexpr char const* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(n);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", n) : fmt::format("{:.1f} {}", value, units[unit]);
}

void rate::add(clock::time_point now, std::uint64_t done) noexcept {
  before_ = per_second();
  samples_[count_ % size] = {now, done};
  ++count_;
}

double rate::per_second() const noexcept {
  if (count_ < 2) return 0;
  sample const& newest = samples_[(count_ - 1) % size];
  sample const& oldest = samples_[count_ <= size ? 0 : count_ % size];
  double const seconds = std::chrono::duration<double>(newest.when - oldest.when).count();
  return seconds > 0 ? static_cast<double>(newest.done - oldest.done) / seconds : 0;
}

bool rate::is_stable() const noexcept {
  double const now = per_second();
  return count_ >= size && now > 0 && std::abs(now - before_) < now / 3;
}

sink::sink(shown how, std::string verb, std::string root) noexcept
    : how_(how), verb_(std::move(verb)), root_(std::move(root)) {}

void sink::failed(unio::fs::tree_failure const& f) noexcept {
  std::string const path = f.path.empty() ? root_ : fmt::format("{}/{}", root_, f.path);
  std::string const reason = f.reason.empty() ? "" : fmt::format(" ({})", f.reason);
  bool const is_mount = f.what == "open" && f.why == std::errc::cross_device_link;
  if (is_drawn_) complain(clear_line);
  is_drawn_ = false;
  say(1, path,
      is_mount ? "is a mount, which is left alone without --cross-mounts"
               : fmt::format("{}: {}{}", f.what, f.why.message(), reason));
}

void sink::progress(unio::fs::tree_progress const& p) noexcept {
  last_ = p;
  if (how_ == shown::never) return;
  auto const now = clock::now();
  if (now - sampled_at_ >= between_samples) {
    sampled_at_ = now;
    rate_.add(now, p.total_bytes != 0 ? p.bytes : p.entries);
  }
  if (shown_at_ == clock::time_point()) shown_at_ = now; // what is quick shows nothing
  if (now - shown_at_ < (how_ == shown::bar ? clock::duration(between_bars) : clock::duration(between_lines)))
    return;
  shown_at_ = now;
  complain(how_ == shown::bar ? clear_line + bar(p) : json(p));
  is_drawn_ = how_ == shown::bar;
}

void sink::finish() noexcept {
  if (is_drawn_) complain(clear_line);
  is_drawn_ = false;
  if (how_ == shown::json) complain(json(last_));
}

std::string sink::bar(unio::fs::tree_progress const& p) const {
  std::string text = fmt::format("{} {}", verb_, p.entries);
  if (p.total_entries > p.entries)
    text += fmt::format(" of {}{}", p.total_is_known ? "" : "at least ", p.total_entries);
  if (p.total_bytes != 0 || p.bytes != 0) text += fmt::format(", {}", bytes(p.bytes));
  if (p.total_bytes > p.bytes) text += fmt::format(" of {}", bytes(p.total_bytes));
  if (p.shared_bytes != 0) text += fmt::format(" ({} shared)", bytes(p.shared_bytes));
  double const speed = rate_.per_second();
  bool const in_bytes = p.total_bytes != 0;
  if (speed > 0)
    text += in_bytes ? fmt::format(", {}/s", bytes(static_cast<std::uint64_t>(speed)))
                     : fmt::format(", {:.0f}/s", speed);
  std::uint64_t const done = in_bytes ? p.bytes : p.entries;
  std::uint64_t const all = in_bytes ? p.total_bytes : p.total_entries;
  if (p.total_is_known && all > done && rate_.is_stable())
    text += fmt::format(", {:.0f} s left", static_cast<double>(all - done) / speed);
  return text;
}

std::string sink::json(unio::fs::tree_progress const& p) const {
  return fmt::format(
      "{{\"verb\": {}, \"root\": {}, \"entries\": {}, \"bytes\": {}, \"shared_bytes\": {}, "
      "\"total_entries\": {}, \"total_bytes\": {}, \"total_is_known\": {}, "
      "\"per_second\": {:.0f}}}\n",
      tools::quoted(verb_), tools::quoted(root_), p.entries, p.bytes, p.shared_bytes, p.total_entries,
      p.total_bytes, p.total_is_known, rate_.per_second());
}

// A handler, not a thread that waits for signals: it works where no thread can be made. Helper threads block
// all signals, so it runs on the one that made it.
interruption::interruption() noexcept {
  current = this;
  struct sigaction how{};
  how.sa_handler = came;
  how.sa_flags = SA_RESTART;
  ::sigfillset(&how.sa_mask);
  ::sigemptyset(&handled_);
  for (int const s :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction before{};
    // What is ignored (nohup, a background job of a script) stays so.
    if (::sigaction(s, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    ::sigaddset(&handled_, s);
    ::sigaction(s, &how, nullptr);
  }
  for (int const s : {SIGPIPE, SIGXFSZ}) ::signal(s, SIG_IGN);
}

// The algorithms on trees ask the token and attach no callback: requesting a stop is a few atomic operations.
void interruption::came(int signal) noexcept {
  interruption& self = *current;
  if (self.signal_.load() == 0) {
    self.first_ = clock::now();
    self.signal_.store(signal);
    self.source_.request_stop();
  } else if (clock::now() - self.first_ >= one_request) { // again: at once, when this returns
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

interruption::~interruption() {
  for (int s = 1; s != NSIG; ++s)
    if (::sigismember(&handled_, s) == 1) ::signal(s, SIG_DFL);
}

void die_by(int signal) noexcept {
  ::signal(signal, SIG_DFL);
  sigset_t it;
  ::sigemptyset(&it);
  ::sigaddset(&it, signal);
  ::sigprocmask(SIG_UNBLOCK, &it, nullptr);
  ::raise(signal);
  ::_exit(128 + signal); // process 1 of a container survives it
}

} // namespace progress
