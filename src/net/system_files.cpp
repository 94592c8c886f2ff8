// The system's files about names, read once for all look-ups.
//
// What is read is an immutable value that look-ups share; the files are looked at again every five seconds.
// One look-up reads for all, a piece of 16 KiB at a time, and lets others run in between: a hosts file may
// have 100,000 lines.

#include "net/system_files.hpp"

#include "net/names.hpp"
#include "sys/descriptors.hpp"
#include "sys/passing.hpp"

#include <unio/detail/time_limit.hpp>
#include <unio/task.hpp>
#include <unio/when.hpp>

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace unio::inline v0_1::net {
namespace {

constexpr std::int64_t longest_file = std::int64_t(32) << 20; // what is longer is cut
// Some 500 lines of hosts, which take well below a millisecond.
constexpr std::size_t piece_bytes = std::size_t(16) << 10;

// What a file looks like for which there was no descriptor, or no memory.
constexpr file_version unknown_version{.seconds = -2};

// Opens a regular file and says which state of it that is. Anything else is as no file.
file_version version_of(std::string const& path, io_handle* into = nullptr) noexcept {
  std::int64_t const fd = sys::uninterrupted(
      [&] { return sys::openat(AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0); });
  if (sys::may_pass(fd)) return unknown_version;
  if (fd < 0) return {};
  file_version v;
  struct stat s;
  if (sys::fstat(static_cast<int>(fd), &s) >= 0 && S_ISREG(s.st_mode)) {
    v = {s.st_ino, static_cast<std::uint64_t>(s.st_size), s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
    if (into != nullptr) {
      if (auto owned = io_handle::adopt(static_cast<int>(fd)); owned.has_value()) {
        *into = std::move(*owned);
        return v;
      }
      v = unknown_version;
    }
  }
  (void)sys::close(static_cast<int>(fd));
  return v;
}

std::string forcing_variable() {
  for (char const* const name : {"RES_OPTIONS", "HOSTALIASES"})
    if (char const* const value = std::getenv(name); value != nullptr && *value != 0) return name;
  return std::getenv("LOCALDOMAIN") != nullptr ? "LOCALDOMAIN" : "";
}

std::string name_of_this_host() {
  char name[256];
  if (::gethostname(name, sizeof(name)) != 0) return {};
  name[sizeof(name) - 1] = 0;
  return name;
}

} // namespace

files_reading::files_reading(resolver_options const& options, settings const* before)
    : options_(options),
      fresh_(before != nullptr ? std::make_shared<settings>(*before) : std::make_shared<settings>()),
      knows_all_(before != nullptr) {}

std::string const& files_reading::path(int file) const noexcept {
  return file == 0 ? options_.resolv_conf : file == 1 ? options_.nsswitch_conf : options_.hosts;
}

bool files_reading::some() {
  is_whole_ = false;
  bool const is_over = read_some();
  is_whole_ = true;
  return is_over;
}

bool files_reading::read_some() {
  for (; current_ != n_files; ++current_) {
    if (!is_open_ && !open()) continue;
    if (!read_piece()) return false;
    parse();
  }
  complete();
  return true;
}

// False: it is as it was, or cannot be looked at.
bool files_reading::open() {
  file_version& seen = fresh_->versions[current_];
  if (knows_all_ && version_of(path(current_)) == seen) return false;
  file_version const found = version_of(path(current_), &file_);
  lacks_some_ = lacks_some_ || found == unknown_version;
  if (knows_all_ && found == unknown_version) return false;
  seen = found;
  offset_ = 0;
  text_.clear();
  if (current_ == 2) {
    hosts_ = std::make_shared<hosts_table>();
    parser_.emplace(*hosts_);
  }
  is_open_ = true;
  return true;
}

// True: that was the last piece. The hosts are taken from it at once; the other files are small.
bool files_reading::read_piece() {
  std::size_t const before = text_.size();
  text_.resize(before + piece_bytes);
  std::size_t got = 0;
  bool is_last = !file_ || offset_ >= longest_file;
  while (!is_last && got != piece_bytes) { // a read may bring less than there is
    iovec const room{text_.data() + before + got, piece_bytes - got};
    // At an offset, because a forked child may go on, too.
    std::int64_t const n =
        sys::uninterrupted([&] { return sys::preadv2(file_.native_handle(), &room, 1, offset_, 0); });
    lacks_some_ = lacks_some_ || n < 0;
    is_last = n <= 0;
    if (is_last) break;
    got += static_cast<std::size_t>(n);
    offset_ += n;
  }
  text_.resize(before + got);
  if (parser_) {
    std::string_view const text(text_);
    if (std::size_t const end = hosts_parser::end_of_words(text.substr(before)); end != 0) {
      parser_->add(text.substr(0, before + end));
      text_.erase(0, before + end);
    }
  }
  return is_last;
}

// The file, or the rest of it.
void files_reading::parse() {
  if (current_ == 0) fresh_->conf = parse_resolv_conf(text_);
  if (current_ == 1) fresh_->nss = parse_nsswitch(text_);
  if (current_ == 2) {
    parser_->add(text_);
    parser_.reset();
    fresh_->hosts = std::move(hosts_);
  }
  file_ = io_handle();
  is_open_ = false;
}

void files_reading::complete() {
  file_version const mdns = version_of("/etc/mdns.allow");
  lacks_some_ = lacks_some_ || mdns == unknown_version;
  fresh_->mdns_is_wider = mdns.seconds >= 0;
  fresh_->forces_libc = forcing_variable();
  fresh_->own_name = name_of_this_host();

  resolv_conf& conf = fresh_->conf;
  if (!options_.servers.empty()) {
    conf = resolv_conf();
    conf.servers = options_.servers;
    conf.search = options_.search;
  } else if (conf.search.empty()) { // resolv.conf(5): the domain of this host
    if (std::size_t const dot = fresh_->own_name.find('.'); dot != fresh_->own_name.npos)
      conf.search.push_back(without_dot(std::string_view(fresh_->own_name).substr(dot + 1)));
  }
  if (options_.timeout.count() > 0) conf.timeout = options_.timeout;
  if (options_.attempts > 0) conf.attempts = static_cast<unsigned>(options_.attempts);
  if (options_.use_tcp) conf.use_tcp = true;
}

bool files_reading::can_go_on() const {
  for (int i = 0; i != current_ + (is_open_ ? 1 : 0); ++i)
    if (version_of(path(i)) != fresh_->versions[i]) return false;
  return is_whole_;
}

// ── who reads them ─────────────────────────────────────────────────────────────────────────────────────────

// The turn to read: one at a time.
class system_files::turn {
 public:
  explicit turn(system_files& of) noexcept : of_(of), got_(of.reading_.try_lock()) {
    // What a thread of the parent's process has left half changed is forgotten, and so is its memory.
    if (got_ == own_lock::got::debris) new (&of_.unfinished_) std::unique_ptr<files_reading>();
  }
  turn(turn const&) = delete;
  turn& operator=(turn const&) = delete;
  ~turn() { // in a forked child the lock is the child's own
    if (*this && generation_ == sys::fork_generation()) of_.reading_.unlock();
  }
  explicit operator bool() const noexcept { return got_ != own_lock::got::nothing; }

  /// What is to be read. Preconditions: it is this one's turn.
  files_reading& begin() {
    if (of_.unfinished_ == nullptr || !of_.unfinished_->can_go_on()) {
      of_.unfinished_.reset();
      of_.unfinished_ = std::make_unique<files_reading>(of_.options_, of_.known().get());
    }
    return *of_.unfinished_;
  }
  /// It has been read, in this one's turn or not. What lacks some is for this caller alone: the next looks
  /// again.
  std::shared_ptr<settings const> end(files_reading& read) noexcept {
    std::shared_ptr<settings const> const fresh = read.take();
    std::shared_ptr<settings const> old = fresh; // destroyed after the lock is open
    if (!read.lacks_some()) {
      of_.lock();
      of_.current_.swap(old);
      of_.checked_ns_ = begun_ns_;
      of_.lock_.unlock();
    }
    if (*this) of_.unfinished_.reset();
    return fresh;
  }

 private:
  system_files& of_;
  own_lock::got const got_;
  unsigned const generation_ = sys::fork_generation();
  std::int64_t const begun_ns_ = sys::steady_now();
};

// What was half changed is forgotten, and so is the memory that it held.
void system_files::lock() noexcept {
  if (lock_.lock() == own_lock::got::debris) new (&current_) std::shared_ptr<settings const>();
}

std::shared_ptr<settings const> system_files::known() noexcept {
  lock();
  std::shared_ptr<settings const> known = current_;
  lock_.unlock();
  return known;
}

std::shared_ptr<settings const> system_files::if_fresh() noexcept {
  std::int64_t const fresh_for = deadline(options_.check_every).nanoseconds(); // the longest span is for ever
  std::int64_t const moment = sys::steady_now();
  lock();
  std::shared_ptr<settings const> fresh;
  if (moment - checked_ns_ < fresh_for) fresh = current_;
  lock_.unlock();
  return fresh;
}

std::shared_ptr<settings const> system_files::now() {
  if (auto fresh = if_fresh()) return fresh;
  turn mine(*this);
  if (!mine)
    if (auto before = known()) return before;
  // The one that reads them for the first time may be a coroutine of this thread, so it is not waited for.
  std::optional<files_reading> alone;
  files_reading& files = mine ? mine.begin() : alone.emplace(options_, nullptr);
  while (!files.some()) continue;
  return mine.end(files);
}

task<result<std::shared_ptr<settings const>>> system_files::co_now(deadline limit) {
  environment const& here = co_await this_coro::environment;
  detail::time_limit const time(limit), patience(std::chrono::seconds(1));
  for (;;) {
    if (auto fresh = if_fresh()) co_return fresh;
    turn mine(*this);
    std::optional<files_reading> alone;
    if (!mine) {
      if (auto before = known()) co_return before;
      // Asked for again rather than waited for: a thread that reads may be one of the parent's process.
      if (limit.is_zero()) co_return std::make_error_code(std::errc::operation_would_block);
      if (time.has_passed()) co_return std::make_error_code(std::errc::timed_out);
      if (!patience.has_passed()) {
        if (auto const slept = co_await co_sleep(std::chrono::milliseconds(1)); !slept.has_value())
          co_return slept.error();
        continue;
      }
      alone.emplace(options_, nullptr); // the one that reads may be a coroutine that is not run any more
    }
    files_reading& files = mine ? mine.begin() : *alone;
    while (!files.some()) {
      co_await co_yield_now();
      if (here.stop.stop_requested()) co_return std::make_error_code(std::errc::operation_canceled);
      if (time.has_passed()) co_return std::make_error_code(std::errc::timed_out);
    }
    co_return mine.end(files);
  }
}

} // namespace unio::net
