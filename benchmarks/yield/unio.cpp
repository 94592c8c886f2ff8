// yield_unio: the operation that does nothing, and what is posted; `batch` of each take turns.

#include "support/measure.hpp"
#include "support/unio_driver.hpp"

#include <unio/unio.hpp>

#include <stdexcept>
#include <vector>

namespace {

using namespace benchmarks;

// Until nothing is left to do.
void run_all(unio::io_multiplexer& m) {
  while (m.run().value() != 0) {
  }
}

void check(std::int64_t left) {
  if (left > 0) throw std::runtime_error("not all that was started ran");
}

// ---- the no-op --------------------------------------------------------------------------------------------

struct starts_again {
  std::int64_t* left = nullptr;
  std::error_code* error = nullptr;
  unio::io_operation* op = nullptr;
  void set_value(unio::io_result<void>&& r) noexcept {
    if (!r) *error = r.error();
  }
  void set_done() noexcept {
    if (--*left <= 0 || *error) return;
    op->reset();
    op->start();
  }
};

sample no_op_multiplexed(std::string const& driver, std::size_t batch, std::uint64_t operations) {
  const auto m = multiplexer_on(driver);
  auto left = static_cast<std::int64_t>(operations);
  std::error_code error;
  using connection = unio::io_operation_connection<unio::async_no_op, starts_again>;
  std::vector<connection> all;
  for (std::size_t i = 0; i < batch; ++i)
    all.push_back(unio::connect(unio::async_no_op(m.get()), starts_again{&left, &error}));
  for (connection& c : all) c.receiver().op = &c;
  const sample s = measure(operations, [&] {
    for (connection& c : all) c.start();
    run_all(*m);
  });
  if (error) throw std::system_error(error, "no_op");
  check(left);
  return s;
}

unio::task<> no_op_again(std::int64_t& left) {
  while (left-- > 0) (co_await unio::co_no_op()).value();
}

// ---- a task that lets others go first ---------------------------------------------------------------------

struct reschedule {
  unio::resumption self{};
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h, unio::environment const& e) noexcept {
    self = unio::resumption(h, &e);
    e.executor.post(self);
  }
  static void await_resume() noexcept {}
};

unio::task<> yield_again(std::int64_t& left) {
  while (left-- > 0) co_await reschedule();
}

template <class Coroutine>
sample awaited(Coroutine f, std::string const& driver, std::size_t batch, std::uint64_t operations) {
  const auto m = multiplexer_on(driver);
  auto left = static_cast<std::int64_t>(operations);
  for (std::size_t i = 0; i < batch; ++i) unio::async_run(*m, f(left));
  const sample s = measure(operations, [&] { run_all(*m); });
  check(left);
  return s;
}

// ---- what is posted ---------------------------------------------------------------------------------------

template <class Where> struct poster : unio::work {
  poster(Where to, std::int64_t& of) noexcept : work(&posts_again), where(to), left(&of) {}
  static void posts_again(work& w, bool) noexcept {
    auto& self = static_cast<poster&>(w);
    if (--*self.left > 0) self.where.post(self);
  }
  Where where;
  std::int64_t* left;
};

struct directly {
  unio::io_multiplexer* m;
  void post(unio::work& w) const noexcept { m->post(w); }
};

template <class Where>
sample nodes(unio::io_multiplexer& m, Where where, std::size_t batch, std::uint64_t operations) {
  auto left = static_cast<std::int64_t>(operations);
  std::vector<poster<Where>> all(batch, poster<Where>(where, left));
  const sample s = measure(operations, [&] {
    for (auto& p : all) where.post(p);
    run_all(m);
  });
  check(left);
  return s;
}

sample post_to_multiplexer(std::string const& driver, std::size_t batch, std::uint64_t operations) {
  const auto m = multiplexer_on(driver);
  return nodes(*m, directly{m.get()}, batch, operations);
}

// As a library posts, which knows no more than that it is an executor.
sample post_to_executor(std::string const& driver, std::size_t batch, std::uint64_t operations) {
  const auto m = multiplexer_on(driver);
  const unio::multiplexer_executor executor = m->executor();
  return nodes(*m, unio::executor_ref(executor), batch, operations);
}

struct posted_function {
  unio::io_multiplexer* m;
  std::int64_t* left;
  void operator()() const {
    if (--*left > 0) m->post(*this).value();
  }
};

sample post_function(std::string const& driver, std::size_t batch, std::uint64_t operations) {
  const auto m = multiplexer_on(driver);
  auto left = static_cast<std::int64_t>(operations);
  const sample s = measure(operations, [&] {
    for (std::size_t i = 0; i < batch; ++i) m->post(posted_function{m.get(), &left}).value();
    run_all(*m);
  });
  check(left);
  return s;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  const auto add = [&](char const* what, std::string const& subject, auto run) {
    for (std::string const driver : both_drivers)
      for (const std::size_t batch : {1u, 32u})
        cases.push_back({subject + ", " + driver,
                         {{"what", what}, {"batch", std::to_string(batch)}},
                         [=](std::uint64_t n) { return run(driver, batch, n); }});
  };
  const auto add_awaited = [&](char const* what, std::string const& subject, auto coroutine) {
    add(what, subject, [coroutine](std::string const& driver, std::size_t batch, std::uint64_t n) {
      return awaited(coroutine, driver, batch, n);
    });
  };
  add("no-op", "unio multiplexed", no_op_multiplexed);
  add_awaited("no-op", "unio awaited", no_op_again);
  add("post", "unio post", post_to_multiplexer);
  add("post", "unio post, executor", post_to_executor);
  add("post", "unio post, function", post_function);
  add_awaited("post", "unio awaited", yield_again);
  return subject_main(argc, argv, cases);
}
