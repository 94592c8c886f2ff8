// The simulated system: which calls fail, what was done, what is refused.

#include "testing/world.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace unio::inline v0_1::testing {
namespace {

#define UNIO_NAME(name) #name,
constexpr char const* call_names[] = {UNIO_SIMULATED_CALLS(UNIO_NAME)};
#undef UNIO_NAME

bool same_direction(call a, call b) noexcept { return (reads(a) && reads(b)) || (writes(a) && writes(b)); }

// Said once: a program may ask a thousand times.
void say_once(std::string const& line, std::string& said) {
  if (said.find(line) != std::string::npos) return;
  if (on_refusal != nullptr) on_refusal(std::string_view(line).substr(0, line.size() - 1));
  said += line;
  std::fputs(("unio::testing: " + line).c_str(), stderr);
}

} // namespace

constinit refusal on_refusal = nullptr;

bool world::add_fault(std::string_view name, int nth, int error) {
  bool const any_read = name == "read*";
  if (any_read || name == "write*") {
    faults_.push_back({any_read ? call::read : call::write, true, nth, error});
    return true;
  }
  auto const known = std::find(std::begin(call_names), std::end(call_names), name);
  if (known == std::end(call_names)) return false;
  faults_.push_back({static_cast<call>(known - std::begin(call_names)), false, nth, error});
  return true;
}

bool world::count_of(std::string_view name, std::uint64_t& n) const noexcept {
  bool known = false;
  n = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    auto const c = static_cast<call>(i);
    if (name == call_names[i] || (name == "read*" && reads(c)) || (name == "write*" && writes(c))) {
      n += counts_[i];
      known = true;
    }
  }
  return known;
}

void world::note(char const* what, std::int64_t a, std::int64_t b) noexcept {
  if (simulated_threads != nullptr) simulated_threads->changed();
  auto mix = [this](std::uint64_t x) {
    fingerprint_ = (fingerprint_ ^ x) * 0x100000001b3 ^ fingerprint_ >> 29;
  };
  for (char const* p = what; *p != '\0'; ++p) mix(static_cast<unsigned char>(*p));
  mix(static_cast<std::uint64_t>(a));
  mix(static_cast<std::uint64_t>(b));
  mix(static_cast<std::uint64_t>(now_));
  if (mirror_ != nullptr) *mirror_ = fingerprint_;
  if (!options.record) return;
  char line[128];
  std::snprintf(line, sizeof line, "%lld %s %lld %lld\n", static_cast<long long>(now_), what,
                static_cast<long long>(a), static_cast<long long>(b));
  trace_ += line;
}

std::int64_t world::refuse(std::string_view what) noexcept {
  say_once(std::string(what) + " is not simulated\n", refused_);
  note("refused", 0, 0);
  return -ENOSYS;
}

std::int64_t world::refuse_elsewhere(std::string_view line) noexcept {
  std::lock_guard const lock(elsewhere_mutex_);
  say_once(std::string(line) + "\n", refused_elsewhere_);
  return -ENOSYS;
}

std::string const& world::refused() noexcept {
  std::lock_guard const lock(elsewhere_mutex_);
  refused_.append(refused_elsewhere_, told_, std::string::npos);
  told_ = refused_elsewhere_.size();
  return refused_;
}

std::int64_t world::splice(int fd) noexcept {
  if (int const e = enter(call::splice, fd); e != 0) return e;
  return leave(call::splice, fd, refuse("splice(2)"));
}

std::int64_t world::fill_random(void* data, std::size_t n) noexcept {
  for (std::size_t i = 0; i != n; ++i)
    static_cast<std::byte*>(data)[i] = static_cast<std::byte>(random.next() >> 56);
  return static_cast<std::int64_t>(n);
}

void world::narrate(int fd, char const* what) const noexcept {
  if (on_story == nullptr) return;
  on_story(find(fd) != nullptr ? (std::string(what) + ", " + name_for_people(fd)).c_str() : what);
}

int world::enter(call c, int fd) noexcept {
  if (simulated_threads != nullptr) settle(); // time moves without the world
  ++counts_[static_cast<std::size_t>(c)];
  for (fault& f : faults_)
    if (f.which == c || (f.any_of_direction && same_direction(f.which, c))) --f.left;
  auto const due = std::find_if(faults_.begin(), faults_.end(), [](fault const& f) { return f.left == 0; });
  if (due != faults_.end()) {
    int const error = due->error;
    faults_.erase(due);
    for (fault& f : faults_) f.left = std::max(f.left, 1); // others that were due, with the next call
    return static_cast<int>(leave(c, fd, -error));
  }
  // Only what can be interrupted, or can be not ready, is.
  bool const moves = reads(c) || writes(c) || c == call::accept4;
  if ((moves || c == call::poll) && options.interruptions && random.one_in(16)) {
    narrate(fd, "is interrupted (EINTR)");
    return static_cast<int>(leave(c, fd, -EINTR));
  }
  if (moves && options.spurious_wakeups && random.one_in(8)) {
    narrate(fd, "finds nothing ready (EAGAIN)");
    return static_cast<int>(leave(c, fd, -EAGAIN));
  }
  return 0;
}

std::int64_t world::leave(call c, int fd, std::int64_t r) noexcept {
  note(call_names[static_cast<std::size_t>(c)], fd == 0 ? 0 : fd - first_descriptor, r);
  return r;
}

} // namespace unio::testing
