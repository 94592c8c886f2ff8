// Callbacks composed as a networking library composes them: templates on executor and handler throughout.
//
// Each composed operation is an object that holds the handler of the level above and is itself the handler of
// the level below: it moves itself in, so that only the leaf allocates. `Memory` says how.
#pragma once

#include "mock/context.hpp"
#include "mock/subjects.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace mock {

class inline_executor {
 public:
  explicit inline_executor(io_context& context) : context_(&context) {}
  inline_executor(inline_executor const& other) noexcept : context_(other.context_) {}

  template <class F> void dispatch(F&& f) const { std::forward<F>(f)(); }
  void post(work* w) const { context_->post(w); }

 private:
  io_context* context_;
};

struct socket {
  io_context& context;
};

// ── the leaf ───────────────────────────────────────────────────────────────────────────────────────────

template <class Memory, class Executor, class Handler> class io_operation final : public work {
 public:
  io_operation(Executor const& executor, Handler&& handler)
      : executor_(executor), handler_(std::move(handler)) {}

  // The state is given back before the handler is called, which can then start its next operation in it.
  void operator()() override {
    Executor executor = std::move(executor_);
    Handler handler = std::move(handler_);
    delete this;
    executor.dispatch(std::move(handler));
  }

  static void* operator new(std::size_t size) { return Memory::allocate(size); }
  static void operator delete(void* p, std::size_t size) { Memory::deallocate(p, size); }

 private:
  Executor executor_;
  Handler handler_;
};

template <class Memory, class Executor, class Handler>
void async_io(socket& s, Executor const& executor, Handler handler) {
  s.context.post(new io_operation<Memory, Executor, Handler>(executor, std::move(handler)));
}

// ── what is composed of it ─────────────────────────────────────────────────────────────────────────────
//
// Operations and executor are moved member by member, as those of a library are that hold more than pointers.
// Left to the compiler, moving is copying bytes, which g++ 12 does in pieces of 16 through the stack instead
// of keeping the members in registers: a request of 100 I/Os then takes half as long again.

template <class Executor, class Handler> class read_some_operation {
 public:
  read_some_operation(Executor const& executor, Handler&& handler)
      : executor_(executor), handler_(std::move(handler)) {}
  read_some_operation(read_some_operation&& other) noexcept
      : executor_(std::move(other.executor_)), handler_(std::move(other.handler_)) {}

  void operator()() { handler_(); }

 private:
  Executor executor_;
  Handler handler_;
};

template <class Memory, class Executor, class Handler>
void async_read_some(socket& s, Executor const& executor, Handler handler) {
  async_io<Memory>(s, executor, read_some_operation<Executor, Handler>(executor, std::move(handler)));
}

template <class Memory, class Executor, class Handler> class read_operation {
 public:
  read_operation(socket& from, Executor const& executor, Handler&& handler)
      : from_(&from), executor_(executor), handler_(std::move(handler)) {}
  read_operation(read_operation&& other) noexcept
      : from_(other.from_),
        executor_(std::move(other.executor_)),
        handler_(std::move(other.handler_)),
        pieces_left_(other.pieces_left_) {}

  void start() { async_read_some<Memory>(*from_, Executor(executor_), std::move(*this)); }

  void operator()() {
    if (--pieces_left_ == 0) return handler_();
    start();
  }

 private:
  socket* from_;
  Executor executor_;
  Handler handler_;
  int pieces_left_ = pieces_per_read;
};

template <class Memory, class Executor, class Handler>
void async_read(socket& s, Executor const& executor, Handler handler) {
  read_operation<Memory, Executor, Handler>(s, executor, std::move(handler)).start();
}

template <class Memory, class Executor, class Handler> class request_operation {
 public:
  request_operation(socket& from, Executor const& executor, Handler&& handler)
      : from_(&from), executor_(executor), handler_(std::move(handler)) {}
  request_operation(request_operation&& other) noexcept
      : from_(other.from_),
        executor_(std::move(other.executor_)),
        handler_(std::move(other.handler_)),
        reads_left_(other.reads_left_) {}

  void start() { async_read<Memory>(*from_, Executor(executor_), std::move(*this)); }

  void operator()() {
    if (--reads_left_ == 0) return handler_();
    start();
  }

 private:
  socket* from_;
  Executor executor_;
  Handler handler_;
  int reads_left_ = reads_per_request;
};

template <class Memory, class Executor, class Handler>
void async_request(socket& s, Executor const& executor, Handler handler) {
  request_operation<Memory, Executor, Handler>(s, executor, std::move(handler)).start();
}

// ── the client ─────────────────────────────────────────────────────────────────────────────────────────

template <class Memory, depth Depth> class next_request {
 public:
  next_request(socket& from, inline_executor executor, std::uint64_t& requests_left)
      : from_(&from), executor_(executor), requests_left_(&requests_left) {}
  next_request(next_request&& other) noexcept
      : from_(other.from_), executor_(other.executor_), requests_left_(other.requests_left_) {}

  void start() {
    const inline_executor executor = executor_;
    if constexpr (Depth == depth::async_io) async_io<Memory>(*from_, executor, std::move(*this));
    if constexpr (Depth == depth::async_read_some)
      async_read_some<Memory>(*from_, executor, std::move(*this));
    if constexpr (Depth == depth::async_read) async_read<Memory>(*from_, executor, std::move(*this));
    if constexpr (Depth == depth::async_request) async_request<Memory>(*from_, executor, std::move(*this));
  }

  void operator()() {
    if (--*requests_left_ != 0) start();
  }

 private:
  socket* from_;
  inline_executor executor_;
  std::uint64_t* requests_left_;
};

template <class Memory, depth Depth> benchmarks::sample run_callbacks_at(std::uint64_t requests) {
  io_context context;
  socket s{context};
  std::uint64_t left = requests;
  std::uint64_t completed = 0;
  const benchmarks::sample result = benchmarks::measure(requests, [&] {
    next_request<Memory, Depth>(s, inline_executor(context), left).start();
    completed = context.run();
  });
  check_completed(Depth, requests, completed);
  return result;
}

template <class Memory> benchmarks::sample run_callbacks(depth d, std::uint64_t requests) {
  switch (d) {
    case depth::async_io:
      return run_callbacks_at<Memory, depth::async_io>(requests);
    case depth::async_read_some:
      return run_callbacks_at<Memory, depth::async_read_some>(requests);
    case depth::async_read:
      return run_callbacks_at<Memory, depth::async_read>(requests);
    case depth::async_request:
      return run_callbacks_at<Memory, depth::async_request>(requests);
  }
  return {};
}

} // namespace mock
