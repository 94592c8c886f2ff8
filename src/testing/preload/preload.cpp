// The library that `unio simulate` has the program load before all others: a simulated system from the
// environment, before main().

#include "testing/libc/entry.hpp"
#include "testing/preload/setting.hpp"
#include "testing/preload/trap.hpp"
#include "testing/threads/scheduler.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

namespace unio::inline v0_1::testing::preload {
namespace {

constinit record* shared = nullptr;

// With what the program has printed, unless a thread that waits holds the stream.
[[noreturn]] void end_process(int status) noexcept {
  ++libc::depth;
  for (std::FILE* const f : {stdout, stderr})
    if (::ftrylockfile(f) == 0) (void)::fflush_unlocked(f);
  for (;;) (void)libc::raw(SYS_exit_group, status);
}

[[noreturn]] void cannot(char const* what) noexcept {
  std::fprintf(stderr, "unio simulate: %s\n", what);
  end_process(1);
}

void print(std::string const& text) noexcept {
  ++libc::depth;
  if (::ftrylockfile(stdout) == 0) { // before what is said of it
    (void)::fflush_unlocked(stdout);
    ::funlockfile(stdout);
  }
  (void)libc::raw(SYS_write, STDERR_FILENO, text.data(), text.size());
  --libc::depth;
}

void end_refused(std::string_view line) noexcept {
  std::string const whole = "unio simulate: " + std::string(line) + "\n";
  print(whole);
  if (shared != nullptr) {
    shared->is_refused = true;
    std::snprintf(shared->refusal, sizeof shared->refusal, "%s", std::string(line).c_str());
  }
  end_process(1);
}

void end_run(threads::run_record const& r) noexcept {
  std::string const text = std::string(threads::ends[static_cast<std::size_t>(r.end)]) + ": " + r.why;
  print(text);
  end_process(1);
}

std::uint64_t number(std::string_view text) noexcept {
  std::uint64_t n = 0;
  auto const [stop, e] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (e != std::errc() || stop != text.data() + text.size())
    cannot("the environment has no valid UNIO_SIMULATE");
  return n;
}

struct wishes {
  std::uint64_t seed = 0;
  int record_fd = -1;
  std::string_view faults;
  std::int64_t least = 0;
  std::int64_t most = 5'000'000;
  std::vector<std::string> directories;
};

wishes wishes_of(std::string_view text) {
  wishes w;
  while (!text.empty()) {
    std::size_t const end = std::min(text.find('\n'), text.size());
    std::string_view const line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::size_t const equals = std::min(line.find('='), line.size());
    std::string_view const name = line.substr(0, equals);
    std::string_view const value = line.substr(std::min(equals + 1, line.size()));
    if (name == "seed") {
      w.seed = number(value);
    } else if (name == "record") {
      w.record_fd = static_cast<int>(number(value));
    } else if (name == "faults") {
      w.faults = value;
    } else if (name == "latency") {
      std::size_t const comma = std::min(value.find(','), value.size());
      w.least = static_cast<std::int64_t>(number(value.substr(0, comma)));
      w.most = static_cast<std::int64_t>(number(value.substr(std::min(comma + 1, value.size()))));
    } else if (name == "files") {
      w.directories.emplace_back(value);
    }
  }
  return w;
}

bool has(std::string_view list, std::string_view name) noexcept {
  while (!list.empty()) {
    std::size_t const end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == name) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// A random half of what is allowed, so that what one fault would hide is found too.
simulation_options options_of(wishes const& w) noexcept {
  simulation_options o = simulation_options::from_seed(w.seed);
  for (fault const& f : faults) o.*f.option = o.*f.option && has(w.faults, f.name);
  o.failing_files = has(w.faults, files_fail) ? failing_files : 0;
  o.min_latency = std::chrono::nanoseconds(w.least);
  o.max_latency = std::chrono::nanoseconds(w.most);
  if (w.least > 0) o.latency = true;
  o.other_threads = true;
  return o;
}

// How long a run is is not known: where priorities change is drawn over several lengths.
std::uint64_t expected_steps(std::uint64_t seed) noexcept {
  random_source lengths(~seed * 3);
  return std::uint64_t{16} << lengths.below(12);
}

constexpr std::uint64_t most_steps = 20'000'000;
constexpr std::chrono::hours longest_run(24 * 365);

// The system's files below it are there, as they were.
void fill(std::string const& path) {
  std::string const listed = path;
  int const dir =
      static_cast<int>(libc::raw(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  if (dir < 0) return;
  char entries[8192];
  for (;;) {
    std::int64_t const n = libc::raw(SYS_getdents64, dir, entries, sizeof entries);
    if (n <= 0) break;
    for (std::int64_t at = 0; at < n;) {
      std::uint16_t size = 0;
      std::memcpy(&size, entries + at + 16, sizeof size); // struct linux_dirent64: getdents64(2)
      std::string const name = entries + at + 19;
      at += size;
      if (name == "." || name == "..") continue;
      std::string const whole = path + "/" + name;
      struct stat s{};
      if (libc::raw(SYS_newfstatat, AT_FDCWD, whole.c_str(), &s, AT_SYMLINK_NOFOLLOW) < 0) continue;
      bool const is_link = S_ISLNK(s.st_mode); // to a file: it is that file
      if (is_link && libc::raw(SYS_newfstatat, AT_FDCWD, whole.c_str(), &s, 0) < 0) continue;
      world& w = *answering_world();
      if (S_ISDIR(s.st_mode) && !is_link) {
        (void)w.directory(whole);
        fill(whole);
      } else if (S_ISREG(s.st_mode)) {
        if (static_cast<std::uint64_t>(s.st_size) > largest_file)
          end_refused(whole + ", a file of more than 1 GiB, is not simulated");
        auto const n_of = w.make_node(node_kind::file, s.st_mode);
        int const fd =
            static_cast<int>(libc::raw(SYS_openat, AT_FDCWD, whole.c_str(), O_RDONLY | O_CLOEXEC, 0));
        if (fd < 0) continue;
        n_of->file->bytes.resize(static_cast<std::size_t>(s.st_size));
        std::size_t done = 0;
        while (done < n_of->file->bytes.size()) {
          std::int64_t const r =
              libc::raw(SYS_read, fd, n_of->file->bytes.data() + done, n_of->file->bytes.size() - done);
          if (r <= 0) break;
          done += static_cast<std::size_t>(r);
        }
        n_of->file->bytes.resize(done);
        (void)libc::raw(SYS_close, fd);
        world::put(w.directory(path), name, n_of);
      }
    }
  }
  (void)libc::raw(SYS_close, dir);
}

// A draw depends on the seed, on who draws in which call, and on how many such draws there were before: what
// becomes of one decision changes no other. So decisions can be left out one by one.
constinit std::uint64_t seed_of_draws = 0;

std::uint64_t draw(std::uint64_t bound, std::uint64_t ordinary) noexcept {
  static constinit std::uint32_t draws[4096] = {}; // by hash; those that share an entry count together
  std::uint64_t key = 0xcbf29ce484222325;
  auto const mix = [&key](std::uint64_t x) { key = (key ^ x) * 0x100000001b3; };
  for (char const* c = libc::current_call.name; c != nullptr && *c != '\0'; ++c)
    mix(static_cast<std::uint8_t>(*c));
  mix(threads::me != nullptr ? static_cast<std::uint64_t>(threads::me->number) : 0);
  mix(bound);
  mix(ordinary);
  std::uint64_t const nth = draws[(key ^ key >> 32) % std::size(draws)]++;
  std::uint64_t const value = random_source(random_source(seed_of_draws ^ key).next() + nth).next() % bound;
  bool const is_ordinary = ordinary == 0 ? value == 0 : value != 0;
  if (is_ordinary) return value;
  record& r = *shared;
  auto const number = static_cast<std::uint32_t>(random_source(key + nth).next() >> 40);
  if (!r.keeps_all && !r.kept.has(number)) return ordinary;
  r.decided.add(number);
  return value;
}

void tell(char const* what) noexcept {
  record& r = *shared;
  std::size_t const room = sizeof r.story - r.told;
  char const* const name = libc::current_call.name;
  int const thread = threads::me != nullptr ? threads::me->number : 0;
  int const n = std::snprintf(r.story + r.told, room, "%.6f s, T%d%s%s: %s\n",
                              static_cast<double>(threads::current->now - 1'000'000'000) / 1e9, thread,
                              name != nullptr ? " in " : "", name != nullptr ? name : "", what);
  r.is_story_cut = r.is_story_cut || static_cast<std::size_t>(n) >= room;
  if (!r.is_story_cut) r.told += static_cast<std::uint32_t>(n);
}

[[gnu::constructor]] void begin() {
  char const* const text = std::getenv(variable);
  if (text == nullptr) return;
  std::string const kept = text;
  wishes const w = wishes_of(kept);
  static record own;
  shared = &own;
  if (w.record_fd >= 0) {
    void* const p = ::mmap(nullptr, sizeof(record), PROT_READ | PROT_WRITE, MAP_SHARED, w.record_fd, 0);
    if (p == MAP_FAILED) cannot("the record of UNIO_SIMULATE cannot be mapped");
    (void)libc::raw(SYS_close, w.record_fd);
    shared = static_cast<record*>(p);
  }
  (void)::unsetenv(variable);
  shared->version = record::current_version;
  shared->run.end = run_end::returned;
  libc::end_refused = end_refused;
  on_refusal = [](std::string_view line) noexcept {
    constexpr std::string_view known = " is not simulated";
    if (line.ends_with(known)) line.remove_suffix(known.size());
    (void)libc::refuse(line);
  };
  threads::on_end = end_run;
  simulation_options const options = options_of(w);
  threads::strategy const strategy = threads::strategy::of_seed(w.seed, true);
  std::uint64_t const steps = expected_steps(w.seed);
  if (w.record_fd < 0) shared->keeps_all = true;
  seed_of_draws = random_source(w.seed).next();
  on_draw = draw;
  if (shared->tells) on_story = tell;
  if (libc::placeholder() < 0) cannot("/dev/null cannot be opened");
  libc::link_in_place();
  thread_options o;
  o.max_steps = most_steps;
  o.max_time = longest_run;
  threads::begin_run(o, w.seed, strategy, steps, shared->run);
  static world* const simulated = new world(options);
  simulated->keep_whole_in_pipes(sizeof(std::uint64_t));
  simulated->mirror_fingerprint(&shared->fingerprint);
  for (std::string const& d : w.directories) {
    libc::simulate_directory(d);
    fill(d);
  }
  watch_what_escapes();
}

} // namespace
} // namespace unio::testing::preload
