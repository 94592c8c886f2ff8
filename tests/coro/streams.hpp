// What the tests of streams share: a stream that moves as many bytes at a time and fails when its script
// says; streams with views and threads of their own.

#pragma once

#include "support/beside.hpp"
#include "support/test.hpp"
#include "support/texts.hpp"

namespace test {

inline unio::anonymous_pipe pipe() { return unio::pipe_handle::anonymous().value(); }

inline std::error_code const broken{EPROTO, std::system_category()};

// ---- a scripted stream ------------------------------------------------------------------------------------

// Yields `source`, and takes into `sink`, by the script: how many bytes at most, and what goes wrong then.
// After the script: `most` at a time.
struct scripted {
  struct step {
    std::size_t bytes;
    std::error_code error = {};
  };
  std::string source = {};
  std::string sink = {};
  std::size_t most = static_cast<std::size_t>(-1);
  std::deque<step> reads = {};
  std::deque<step> writes = {};
  std::size_t at = 0;
  int calls = 0;

  static step take(std::deque<step>& script, std::size_t otherwise) {
    if (script.empty()) return {otherwise};
    step const s = script.front();
    script.pop_front();
    return s;
  }

  task<io_result<mutable_buffers>> co_read(io_request<mutable_buffers> request, deadline = {}) {
    ++calls;
    EXPECT_NE(request.buffers.bytes(), 0U) << "an empty read asks nothing of the stream";
    step const s = take(reads, most);
    std::size_t n = std::min({s.bytes, request.buffers.bytes(), source.size() - at});
    mutable_buffers const filled = request.buffers.first(n);
    for (mutable_buffer const b : filled) {
      std::copy_n(source.data() + at, b.size(), reinterpret_cast<char*>(b.data()));
      at += b.size();
    }
    if (s.error) co_return io_result<mutable_buffers>(s.error, n);
    co_return io_result<mutable_buffers>(unio::result<mutable_buffers>(filled), n);
  }
  task<io_result<const_buffers>> co_write(io_request<const_buffers> request, deadline = {}) {
    ++calls;
    EXPECT_NE(request.buffers.bytes(), 0U) << "an empty write asks nothing of the stream";
    step const s = take(writes, most);
    std::size_t const n = std::min(s.bytes, request.buffers.bytes());
    const_buffers const taken = request.buffers.first(n);
    sink += text_of(taken);
    if (s.error) co_return io_result<const_buffers>(s.error, n);
    co_return io_result<const_buffers>(unio::result<const_buffers>(taken), n);
  }
};

// Yields views of its own memory, as a mapped file does, through an awaitable that knows no environment;
// takes no deadline; cannot be written.
struct viewed {
  std::string source;
  std::size_t most;
  std::size_t at = 0;

  struct awaiter {
    viewed& v;
    std::size_t room;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    [[nodiscard]] bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
    [[nodiscard]] io_result<mutable_buffers> await_resume() const noexcept {
      std::size_t const n = std::min({room, v.most, v.source.size() - v.at});
      mutable_buffers const got = mutable_buffers(mutable_buffer(v.source.data() + v.at, n)).first(n);
      v.at += n;
      return {unio::result<mutable_buffers>(got), n};
    }
  };
  [[nodiscard]] awaiter co_read(io_request<mutable_buffers> request) {
    return {*this, request.buffers.bytes()};
  }
};

// Completes on a thread of its own.
struct from_elsewhere {
  struct awaiter {
    mutable_buffers to;
    std::thread thread;
    [[nodiscard]] static bool await_ready() noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) {
      thread = std::thread([h] { h.resume(); });
    }
    [[nodiscard]] io_result<mutable_buffers> await_resume() {
      thread.join();
      *to.front().data() = std::byte{'x'};
      return {unio::result<mutable_buffers>(to.first(1)), 1};
    }
  };
  [[nodiscard]] awaiter co_read(io_request<mutable_buffers> request) { return {request.buffers, {}}; }
};

} // namespace test
