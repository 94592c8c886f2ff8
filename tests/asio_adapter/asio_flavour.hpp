// The same tests with standalone Asio and, with UNIO_ASIO_BOOST, with Boost.Asio.

#pragma once

#include <unio/asio.hpp>

#if defined(UNIO_ASIO_BOOST)
#include <boost/asio.hpp>
#include <boost/asio/experimental/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/deferred.hpp>
namespace asio = boost::asio;
#else
#include <asio.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#if UNIO_ASIO_VERSION < 103000
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/deferred.hpp>
#endif
#endif

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace asio_tests {

using namespace std::chrono_literals;
using unio::asio_error_code;
#if UNIO_ASIO_VERSION < 103000
namespace tokens = asio::experimental;
#else
namespace tokens = asio;
#endif

/// Two ends of a connection.
struct ends {
  explicit ends(unio::asio_context& c) : ends(c, unio::socket_handle::pair().value()) {}
  ends(unio::asio_context& c, unio::socket_pair p) : a(c, std::move(p.first)), b(c, std::move(p.second)) {}
  unio::asio_stream<unio::socket_handle> a, b;
};

/// Runs a coroutine whose end is of no interest.
template <class Context, class Function> void start_coroutine(Context& c, Function f) {
  asio::co_spawn(c, std::move(f), asio::detached);
}

/// What a handler was called with.
struct outcome {
  bool called = false;
  asio_error_code ec;
  std::size_t bytes = 0;
  auto handler() {
    return [this](asio_error_code e, std::size_t n = 0) {
      EXPECT_FALSE(called);
      called = true;
      ec = e;
      bytes = n;
    };
  }
};

/// Counts what it lends; each number is a block that was not given back.
struct counted_memory {
  int blocks = 0;
  int allocations = 0;
};
template <class T> struct counting_allocator {
  using value_type = T;
  explicit counting_allocator(counted_memory& m) noexcept : memory(&m) {}
  template <class U> counting_allocator(counting_allocator<U> const& other) noexcept : memory(other.memory) {}
  T* allocate(std::size_t n) {
    T* const p = std::allocator<T>().allocate(n);
    ++memory->blocks;
    ++memory->allocations;
    return p;
  }
  void deallocate(T* p, std::size_t n) noexcept {
    --memory->blocks;
    std::allocator<T>().deallocate(p, n);
  }
  template <class U> bool operator==(counting_allocator<U> const& other) const noexcept {
    return memory == other.memory;
  }
  counted_memory* memory;
};

/// Counts the objects that live, so that a handler that leaks is seen.
struct alive {
  explicit alive(int& n) : count(&n) { ++*count; }
  alive(alive const& other) : count(other.count) { ++*count; }
  alive& operator=(alive const&) = delete;
  ~alive() { --*count; }
  int* count;
};

/// Whether a program may be compiled for an Asio with immediate executors.
inline constexpr bool has_immediate_executors = UNIO_ASIO_VERSION >= 103000;

} // namespace asio_tests
