// Immediate executors (Asio 1.30 and later): where the handler of an operation that ends inside of the
// function that starts it is called.

#include "asio_flavour.hpp"
#include "support/counting_executor.hpp"
#include "support/test.hpp"

#if UNIO_ASIO_VERSION >= 103000

namespace {

using namespace asio_tests;
using test::counting_executor;

/// One end reads a byte, by an operation that is started outside of run() and ends at once if the other end
/// has written it. What a handler of the context starts ends in a later turn, so that handlers do not nest.
template <class Executor> struct reading {
  explicit reading(unio::asio_context& c) : context(c), pair(c), stream(std::move(pair.a)) {}
  void operator()(auto bind) {
    auto const handler = [this](asio_error_code e, std::size_t n) {
      EXPECT_FALSE(called);
      EXPECT_FALSE(e);
      EXPECT_EQ(n, 1U);
      called = true;
    };
    stream.async_read_some(asio::buffer(&got, 1), bind(handler));
    called_inside = called;
    context.run();
    EXPECT_TRUE(called);
    EXPECT_EQ(got, 'x');
  }
  void write() { pair.b.write_some(asio::buffer("x", 1)); }

  unio::asio_context& context;
  ends pair;
  unio::asio_stream<unio::socket_handle, Executor> stream;
  char got = 0;
  bool called = false, called_inside = false;
};

template <class Executor> struct asio_immediate : ::testing::Test {
  unio::asio_context context;
  reading<Executor> read{context};
  int calls = 0;
};
using executors = ::testing::Types<unio::asio_executor, asio::any_io_executor>;
TYPED_TEST_SUITE(asio_immediate, executors);

TYPED_TEST(asio_immediate, without_one_the_handler_is_called_later) {
  this->read.write();
  this->read([](auto const& handler) { return handler; });
  EXPECT_FALSE(this->read.called_inside);
}

TYPED_TEST(asio_immediate, is_where_the_handler_is_called_at_once) {
  this->read.write();
  this->read([this](auto const& handler) {
    return asio::bind_immediate_executor(counting_executor{&this->calls}, handler);
  });
  EXPECT_TRUE(this->read.called_inside);
  EXPECT_EQ(this->calls, 1);
}

TYPED_TEST(asio_immediate, may_be_of_the_type_of_the_default) {
  asio::any_io_executor const here = asio::system_executor();
  this->read.write();
  this->read([&](auto const& handler) { return asio::bind_immediate_executor(here, handler); });
  EXPECT_TRUE(this->read.called_inside);
}

TYPED_TEST(asio_immediate, may_be_the_contexts_own) {
  this->read.write();
  this->read([this](auto const& handler) {
    return asio::bind_immediate_executor(this->context.get_executor(), handler);
  });
  EXPECT_FALSE(this->read.called_inside); // not in run(): there it is called
}

TYPED_TEST(asio_immediate, is_seen_through_other_bindings) {
  this->read.write();
  this->read([this](auto const& handler) {
    auto const bound = asio::bind_immediate_executor(counting_executor{&this->calls}, handler);
    return asio::bind_executor(this->context.get_executor(),
                               asio::bind_allocator(std::allocator<void>(), bound));
  });
  EXPECT_TRUE(this->read.called_inside);
  EXPECT_EQ(this->calls, 1);
}

TYPED_TEST(asio_immediate, is_not_for_an_operation_that_waits) {
  asio::steady_timer timer(this->context, 20ms);
  timer.async_wait([this](asio_error_code) { this->read.write(); });
  this->read([this](auto const& handler) {
    return asio::bind_immediate_executor(counting_executor{&this->calls}, handler);
  });
  EXPECT_FALSE(this->read.called_inside);
  EXPECT_EQ(this->calls, 0);
}

TYPED_TEST(asio_immediate, serves_what_has_nothing_to_do) {
  bool called = false, called_inside = false;
  asio::post(this->context, [&] {
    this->read.stream.async_read_some(
        asio::mutable_buffer(),
        asio::bind_immediate_executor(counting_executor{&this->calls}, [&](asio_error_code e, std::size_t n) {
          EXPECT_FALSE(e);
          EXPECT_EQ(n, 0U);
          called = true;
        }));
    called_inside = called;
  });
  this->context.run();
  EXPECT_TRUE(called);
  EXPECT_TRUE(called_inside);
  EXPECT_EQ(this->calls, 1);
}

} // namespace

#else

TEST(asio_immediate, is_tested_with_a_later_asio) { GTEST_SKIP() << "this Asio has no immediate executors"; }

#endif
