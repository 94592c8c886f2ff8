#include "driver/remains.hpp"

#include "driver/failed_multiplexer.hpp"
#include "sys/fork.hpp"

#include <mutex>

namespace unio::inline v0_1::driver {
namespace {

struct remains {
  failed_multiplexer multiplexer; // first: it is where the other one was
  std::size_t size_bytes;
  remains* next = nullptr;

  explicit remains(std::size_t bytes) noexcept : size_bytes(bytes) {
    multiplexer.why = make_error_code(error::multiplexer_destroyed);
    multiplexer.was_one = true;
  }
};

// All remains, oldest first. They are reached from here, and never destroyed: to the end of the process.
class graves {
 public:
  void add(remains& r) noexcept {
    std::lock_guard const held(lock_);
    *(first_ != nullptr ? &last_->next : &first_) = &r;
    last_ = &r;
  }
  // Null: there are none of this size to be used again.
  void* take(std::size_t size_bytes) noexcept {
    std::lock_guard const held(lock_);
    std::size_t count = 0;
    remains* before_oldest = nullptr;
    remains* oldest = nullptr;
    for (remains *r = first_, *before = nullptr; r != nullptr; before = r, r = r->next) {
      if (r->size_bytes != size_bytes || ++count != 1) continue;
      oldest = r;
      before_oldest = before;
    }
    if (count <= leaves_remains::kept) return nullptr;
    *(before_oldest != nullptr ? &before_oldest->next : &first_) = oldest->next;
    if (last_ == oldest) last_ = before_oldest;
    return oldest;
  }

 private:
  sys::process_lock lock_{sys::guarded::remains};
  remains* first_ = nullptr;
  remains* last_ = nullptr;
};

constinit graves all;

} // namespace

void* leaves_remains::operator new(std::size_t bytes) {
  if (void* const memory = all.take(bytes); memory != nullptr) return memory;
  return ::operator new(bytes, std::align_val_t{alignment});
}

void* leaves_remains::operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  if (void* const memory = all.take(bytes); memory != nullptr) return memory;
  return ::operator new(bytes, std::align_val_t{alignment}, std::nothrow);
}

void leaves_remains::operator delete(void* memory, std::size_t bytes) noexcept {
  static_assert(alignof(remains) <= alignment);
  UNIO_EXPECTS(bytes >= sizeof(remains), "what is left of a multiplexer needs its memory");
  all.add(*::new (memory) remains(bytes));
}

void leaves_remains::operator delete(void* memory, std::nothrow_t const&) noexcept {
  ::operator delete(memory, std::align_val_t{alignment});
}

} // namespace unio::driver
