// async_map_barrier and async_map_advise: what the kernel does with the memory of a map.

#include "op/call.hpp"

#include <unio/map_handle.hpp>

#include <sys/mman.h>
#include <unistd.h>

namespace unio::inline v0_1 {

/// Private state of operations on maps.
struct detail::map_access_to {
  // Whole pages around the range of the operation; or why there is none.
  struct range {
    void* at;
    std::size_t bytes;
    int refused;
  };
  template <class Operation> static range range_of(Operation& op) noexcept {
    map_handle const& m = *op::state<Operation>(op);
    if (!m.is_open() || !m.has(op.offset(), op.bytes())) return {nullptr, 0, -EINVAL};
    extent_type const end = op.bytes() != 0 ? op.offset() + op.bytes() : m.length_;
    auto const page = static_cast<extent_type>(::sysconf(_SC_PAGESIZE));
    extent_type const begin = op.offset() / page * page;
    return {m.at_ + begin, static_cast<std::size_t>(end - begin), 0};
  }
  static bool reaches_a_file(map_handle const& m) noexcept {
    return m.has_file() && m.access_ == map_access::write;
  }
};

namespace {

constexpr int advices[] = {MADV_NORMAL,   MADV_SEQUENTIAL, MADV_RANDOM,
                           MADV_WILLNEED, MADV_DONTNEED,   MADV_NORMAL};

using to = detail::map_access_to;

int synchronize_at_once(async_map_barrier& op) noexcept {
  to::range const r = to::range_of(op);
  if (r.refused != 0) return r.refused;
  return to::reaches_a_file(*op::state<async_map_barrier>(op)) && r.bytes != 0 ? -EAGAIN : 0;
}
int synchronize(async_map_barrier& op) noexcept {
  if (int const at_once = synchronize_at_once(op); at_once != -EAGAIN) return at_once;
  to::range const r = to::range_of(op);
  return op::uninterrupted([&] { return sys::msync(r.at, r.bytes, MS_SYNC); });
}

int advise(async_map_advise& op) noexcept {
  to::range const r = to::range_of(op);
  if (r.refused != 0 || r.bytes == 0) return r.refused;
  return op::uninterrupted([&] { return sys::madvise(r.at, r.bytes, advices[static_cast<int>(op.what())]); });
}
int advise_at_once(async_map_advise& op) noexcept {
  if (to::range const r = to::range_of(op); r.refused != 0 || r.bytes == 0) return r.refused;
  bool const does_io = op.what() == access_advice::will_need || op.what() == access_advice::dont_need;
  return does_io ? -EAGAIN : advise(op);
}

} // namespace

constinit operation_faces const async_map_barrier::table_ =
    op::call_faces<async_map_barrier, synchronize, synchronize_at_once>("map_barrier");
constinit operation_faces const async_map_advise::table_ =
    op::call_faces<async_map_advise, advise, advise_at_once>("map_advise");

} // namespace unio
