// Callbacks behind interfaces without templates: any executor, any handler, operations that could live in a
// library.
//
// The best of this form. Handlers are move-only functions, passed by reference since to move one is a call;
// an operation's continuation is the one pointer that owns it, which fits into such a function without
// allocating. What allocates is one operation per call and level: 1 per async_io, async_read_some, async_read
// and async_request, so 211 for a request. Memory is not recycled.

#include "mock/context.hpp"
#include "mock/subjects.hpp"

#include <functional>
#include <memory>
#include <new>
#include <type_traits>

namespace mock {
namespace {

using handler = std::move_only_function<void()>;

// Holds any executor that is as small and as trivial as executors are; larger ones would be allocated.
class any_executor {
 public:
  template <class Executor> explicit any_executor(Executor executor) : operations_(&operations_of<Executor>) {
    static_assert(sizeof(Executor) <= sizeof(storage_) && std::is_trivially_copyable_v<Executor>);
    ::new (static_cast<void*>(&storage_)) Executor(executor);
  }

  void dispatch(handler&& h) const { operations_->dispatch(&storage_, std::move(h)); }
  void post(work* w) const { operations_->post(&storage_, w); }

 private:
  struct operations {
    void (*dispatch)(void const*, handler&&);
    void (*post)(void const*, work*);
  };

  template <class Executor>
  static constexpr operations operations_of = {
      .dispatch = [](void const* e, handler&& h) { static_cast<Executor const*>(e)->dispatch(std::move(h)); },
      .post = [](void const* e, work* w) { static_cast<Executor const*>(e)->post(w); },
  };

  operations const* operations_;
  void* storage_ = nullptr;
};

struct inline_executor {
  io_context* context;

  void dispatch(handler&& h) const { h(); }
  void post(work* w) const { context->post(w); }
};

struct socket {
  io_context& context;
};

class io_operation final : public work {
 public:
  io_operation(any_executor executor, handler&& h) : executor_(executor), handler_(std::move(h)) {}

  void operator()() override {
    const any_executor executor = executor_;
    handler h = std::move(handler_);
    delete this;
    executor.dispatch(std::move(h));
  }

 private:
  any_executor executor_;
  handler handler_;
};

void async_io(socket& s, any_executor executor, handler&& h) {
  s.context.post(new io_operation(executor, std::move(h)));
}

struct read_some_operation {
  any_executor executor;
  handler done;
};

void async_read_some(socket& s, any_executor executor, handler&& h) {
  auto operation = std::make_unique<read_some_operation>(executor, std::move(h));
  async_io(s, executor, [operation = std::move(operation)]() mutable {
    handler done = std::move(operation->done);
    operation.reset();
    done();
  });
}

// Reading a number of pieces, whose operations differ in what a piece is.
using async_piece = void (*)(socket&, any_executor, handler&&);

template <async_piece Piece> struct repeated_operation {
  socket* from;
  any_executor executor;
  handler done;
  int pieces_left;

  static void start(std::unique_ptr<repeated_operation> self) {
    socket& s = *self->from;
    const any_executor executor = self->executor;
    Piece(s, executor, [self = std::move(self)]() mutable { finished_one(std::move(self)); });
  }

  static void finished_one(std::unique_ptr<repeated_operation> self) {
    if (--self->pieces_left != 0) return start(std::move(self));
    handler done = std::move(self->done);
    self.reset();
    done();
  }
};

void async_read(socket& s, any_executor executor, handler&& h) {
  using operation = repeated_operation<async_read_some>;
  operation::start(std::make_unique<operation>(&s, executor, std::move(h), pieces_per_read));
}

void async_request(socket& s, any_executor executor, handler&& h) {
  using operation = repeated_operation<async_read>;
  operation::start(std::make_unique<operation>(&s, executor, std::move(h), reads_per_request));
}

struct client {
  async_piece begin;
  socket& from;
  any_executor executor;
  std::uint64_t requests_left;

  void start() {
    begin(from, executor, [this] {
      if (--requests_left != 0) start();
    });
  }
};

constexpr async_piece operation_of(depth d) {
  switch (d) {
    case depth::async_io:
      return async_io;
    case depth::async_read_some:
      return async_read_some;
    case depth::async_read:
      return async_read;
    case depth::async_request:
      return async_request;
  }
  return nullptr;
}

benchmarks::sample run(depth d, std::uint64_t requests) {
  io_context context;
  socket s{context};
  client all{operation_of(d), s, any_executor(inline_executor{&context}), requests};
  std::uint64_t completed = 0;
  const benchmarks::sample result = benchmarks::measure(requests, [&] {
    all.start();
    completed = context.run();
  });
  check_completed(d, requests, completed);
  return result;
}

} // namespace

subject callbacks_erased() { return {.name = "callbacks, erased", .run = run}; }

} // namespace mock
