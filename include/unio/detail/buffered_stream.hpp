// unio/detail/buffered_stream.hpp: the memory of buffered streams, and requests to it.

#pragma once

#include <unio/deadline.hpp>
#include <unio/detail/yield.hpp>
#include <unio/frames.hpp>
#include <unio/io_request.hpp>
#include <unio/task.hpp>

#include <coroutine>
#include <string_view>

namespace unio::inline v0_1 {
class buffered_reader;
class buffered_writer;
} // namespace unio

namespace unio::inline v0_1::detail {

/// A request that memory can often answer at once, and that otherwise takes a task. `Question` has at_once(),
/// which returns whether it left an answer, and slowly(yields): if `yields`, that lets others run first.
template <class Question> class UNIO_TO_AWAIT buffered_awaitable {
  using answer_type = typename Question::answer_type;

 public:
  explicit buffered_awaitable(Question q) noexcept : question_(q) {}
  bool await_ready() noexcept {
    yields_ = turn_is_over();
    return !yields_ && question_.at_once(answer_);
  }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) {
    task_ = question_.slowly(yields_);
    return task_awaiter<answer_type>(task_.child()).await_suspend(h, e);
  }
  answer_type await_resume() { return task_ ? task_.child().promise().take() : answer_; }

 private:
  Question question_;
  answer_type answer_;
  task<answer_type> task_;
  bool yields_ = false;
};

struct buffered_read {
  using answer_type = io_result<mutable_buffers>;
  buffered_reader* from;
  io_request<mutable_buffers> request;
  deadline until;
  [[nodiscard]] UNIO_API bool at_once(answer_type& a) const noexcept;
  [[nodiscard]] UNIO_API task<answer_type> slowly(bool yields) const;
};
struct buffered_peek {
  using answer_type = io_result<const_buffer>;
  buffered_reader* from;
  std::size_t bytes;
  deadline until;
  [[nodiscard]] UNIO_API bool at_once(answer_type& a) const noexcept;
  [[nodiscard]] UNIO_API task<answer_type> slowly(bool yields) const;
};
struct buffered_line {
  using answer_type = io_result<std::string_view>;
  buffered_reader* from;
  deadline until;
  [[nodiscard]] UNIO_API bool at_once(answer_type& a) const noexcept;
  [[nodiscard]] UNIO_API task<answer_type> slowly(bool yields) const;
};
struct buffered_write {
  using answer_type = io_result<const_buffers>;
  buffered_writer* to;
  io_request<const_buffers> request;
  deadline until;
  [[nodiscard]] UNIO_API bool at_once(answer_type& a) const noexcept;
  [[nodiscard]] UNIO_API task<answer_type> slowly(bool yields) const;
};

/// The caller's memory, or a block of the frame pool.
class buffer_memory {
 public:
  buffer_memory() = default;
  explicit buffer_memory(std::size_t bytes)
      : data_(static_cast<std::byte*>(frame_pool::allocate(bytes))), size_(bytes), is_own_(true) {}
  explicit buffer_memory(mutable_buffer callers) noexcept : data_(callers.data()), size_(callers.size()) {}
  buffer_memory(buffer_memory const&) = delete;
  buffer_memory& operator=(buffer_memory const&) = delete;
  ~buffer_memory() {
    if (is_own_) frame_pool::deallocate(data_, size_);
  }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool is_own_ = false;
};

} // namespace unio::detail
