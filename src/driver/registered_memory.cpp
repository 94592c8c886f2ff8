#include "driver/registered_memory.hpp"

#include "driver/uring/ring.hpp"
#include "sys/fork.hpp"
#include "sys/passing.hpp"

#include <mutex>
#include <new>
#include <utility>

namespace unio::inline v0_1::driver {
namespace {

constinit sys::process_lock lock(sys::guarded::offered_memory);
constinit offered_memory::pieces list;
constinit std::uint64_t last_serial = 0;
constinit known_entries* first_known = nullptr;

} // namespace

constinit std::atomic<std::uint64_t> offered_memory::version_{0};
constinit offered_memory::user const* offered_memory::user_ = nullptr;

bool offered_memory::offer(std::byte* at, std::size_t bytes) noexcept {
  static constexpr user rings = {&registered_memory::look_again, &registered_memory::find_known};
  std::lock_guard const held(lock);
  if (user_ == nullptr) user_ = &rings; // who sees the version sees it
  for (piece& p : list) {
    if (p.bytes != 0) continue;
    p = {reinterpret_cast<std::uintptr_t>(at), bytes, ++last_serial};
    for (known_entries* k = last_serial == 1 ? first_known : nullptr; k != nullptr; k = k->next_)
      k->look_from_now_on();
    version_.fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

void offered_memory::withdraw(std::byte* at, std::size_t bytes) noexcept {
  std::lock_guard const held(lock);
  for (piece& p : list)
    if (p.bytes != 0 && p.at - reinterpret_cast<std::uintptr_t>(at) < bytes) p = {};
  version_.fetch_add(1, std::memory_order_release);
}

std::uint64_t offered_memory::copy_to(pieces& to) noexcept {
  std::lock_guard const held(lock);
  to = list;
  return version();
}

known_entries::known_entries() noexcept {
  std::lock_guard const held(lock);
  next_ = first_known;
  if (next_ != nullptr) next_->previous_ = this;
  first_known = this;
}

known_entries::~known_entries() {
  std::lock_guard const held(lock);
  (previous_ != nullptr ? previous_->next_ : first_known) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

void known_entries::add(std::uint8_t kind) noexcept {
  std::lock_guard const held(lock); // something is offered before it, or finds it
  marks_[kind].store(last_serial == 0 ? known : looks, std::memory_order_relaxed);
}

// Under the lock.
void known_entries::look_from_now_on() noexcept {
  for (std::atomic<std::uint8_t>& m : marks_)
    if (m.load(std::memory_order_relaxed) == known) m.store(looks, std::memory_order_relaxed);
}

int registered_memory::find_known(std::uintptr_t at, std::size_t bytes) noexcept {
  if (!known_->pieces[last_].has(at, bytes) && !seek(at, bytes)) return none;
  if (known_->serials[last_] != known_->pieces[last_].serial && !add(last_)) return none;
  if (counted_ != nullptr) ++counted_->registered_uses;
  return static_cast<int>(last_);
}

void registered_memory::look_again() noexcept {
  if (known_ == nullptr) known_.reset(new (std::nothrow) known);
  if (known_ == nullptr) return; // it is tried again
  version_ = offered_memory::copy_to(known_->pieces);
  known_->refused = {}; // what has gone may have made room
  end_ = 0;
  for (unsigned i = 0; i != offered_memory::most; ++i) {
    if (known_->pieces[i].bytes != 0) end_ = i + 1;
    if (known_->serials[i] == 0 || known_->serials[i] == known_->pieces[i].serial) continue;
    // Refused, it stays: no operation is told its number, and what comes there replaces it.
    (void)table_.set(table_.kernel, i, 0, 0);
    known_->serials[i] = 0;
    bytes_ -= std::exchange(known_->bytes[i], 0);
  }
}

bool registered_memory::seek(std::uintptr_t at, std::size_t bytes) noexcept {
  for (unsigned i = 0; i != end_; ++i)
    if (known_->pieces[i].has(at, bytes)) {
      last_ = i;
      return true;
    }
  return false;
}

// A piece that was refused, by RLIMIT_MEMLOCK say, is not tried again before the list changes: each attempt
// brings all of it into memory.
bool registered_memory::add(unsigned number) noexcept {
  offered_memory::piece const& p = known_->pieces[number];
  if (known_->refused[number] == p.serial) return false;
  if (state_ == table_state::none) {
    int const e = table_.make(table_.kernel);
    if (!sys::may_pass(e)) state_ = e == 0 ? table_state::made : table_state::refused;
  }
  if (state_ != table_state::made || table_.set(table_.kernel, number, p.at, p.bytes) != 0) {
    known_->refused[number] = p.serial;
    if (counted_ != nullptr) ++counted_->registrations_refused;
    return false;
  }
  known_->serials[number] = p.serial;
  known_->bytes[number] = p.bytes;
  bytes_ += p.bytes;
  return true;
}

} // namespace unio::driver
