// Guards of file locks, and this process's list of the locks that it holds.
//
// For the kernel one open file is one owner: it grants a lock that overlaps another of the same owner, merges
// the two, and unlocking one takes bytes from the other. So every guard is listed by its descriptor, from
// before its lock is requested until after it was released, and overlaps are refused.

#include "sys/descriptors.hpp"
#include "sys/fork.hpp"
#include "sys/ofd_lock.hpp"

#include <unio/file_handle.hpp>
#include <unio/file_lock.hpp>

#include <mutex>

namespace unio::inline v0_1 {

static_assert(sizeof(file_lock) == 48);

namespace {

constexpr extent_type largest_offset = std::numeric_limits<std::int64_t>::max(); // off_t

// Guards by the number of their descriptor. A list rather than a table, so that another guard allocates
// nothing; a program that holds thousands through one handle pays for walking it, as for walking the kernel's
// own list.
constexpr unsigned buckets = 64;
constinit sys::process_lock mutex(sys::guarded::file_locks);
constinit file_lock* held[buckets] = {};

file_lock*& bucket_of(int fd) noexcept { return held[static_cast<unsigned>(fd) % buckets]; }

// Numbers above the table share entries with lower ones, whose handles have no relation to them.
std::uint32_t generation_of(int fd) noexcept {
  return static_cast<unsigned>(fd) < sys::descriptor_table_size ? sys::generation(fd) : 0;
}

std::uint64_t bytes_of(extent_type first, extent_type last) noexcept {
  return last == largest_offset ? sys::to_the_end : last - first + 1;
}

} // namespace

// False: it overlaps a listed one.
bool file_lock::list() noexcept {
  std::lock_guard const guard(mutex);
  file_lock*& first = bucket_of(fd_);
  for (file_lock const* l = first; l != nullptr; l = l->next_)
    if (l->fd_ == fd_ && l->generation_ == generation_ && l->first_ <= last_ && first_ <= l->last_)
      return false;
  next_ = first;
  previous_ = &first;
  if (next_ != nullptr) next_->previous_ = &next_;
  first = this;
  return true;
}

void file_lock::unlist() noexcept {
  std::lock_guard const guard(mutex);
  *previous_ = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  fd_ = -1;
}

void file_lock::move_from(file_lock& other) noexcept {
  first_ = other.first_;
  last_ = other.last_;
  generation_ = other.generation_;
  process_ = other.process_;
  kind_ = other.kind_;
  if (other.fd_ < 0) return;
  std::lock_guard const guard(mutex);
  fd_ = std::exchange(other.fd_, -1);
  next_ = other.next_;
  previous_ = other.previous_;
  *previous_ = this;
  if (next_ != nullptr) next_->previous_ = &next_;
}

file_lock::file_lock(file_lock&& other) noexcept { move_from(other); }

file_lock& file_lock::operator=(file_lock&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) give_back();
    move_from(other);
  }
  return *this;
}

int file_lock::take(int fd, extent_type first, extent_type last, lock_kind kind, bool sleeps) noexcept {
  if (fd < 0) return -EBADF;
  fd_ = fd;
  generation_ = generation_of(fd);
  process_ = sys::fork_generation();
  first_ = first;
  last_ = last;
  kind_ = kind;
  if (!list()) {
    fd_ = -1;
    return -EDEADLK;
  }
  int const r = sys::ofd_lock(fd, first, bytes_of(first, last), kind == lock_kind::exclusive, sleeps);
  if (r < 0) unlist();
  return r;
}

result<void> file_lock::unlock() noexcept {
  if (fd_ < 0) return {};
  if (generation_ == generation_of(fd_)) {
    int const r = sys::ofd_unlock(fd_, first_, bytes_of(first_, last_));
    if (r < 0) return detail::to_error_code(r);
  }
  unlist();
  return {};
}

void file_lock::release() noexcept {
  if (fd_ >= 0) unlist();
}

void file_lock::give_back() noexcept {
  if (process_ == sys::fork_generation()) (void)unlock(); // otherwise it is the parent's
  release();
}

} // namespace unio
