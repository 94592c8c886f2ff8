// A name server on loopback that answers at once, for programs that measure resolvers. It knows every name:
// one address of each family.
#pragma once

#include "support/helper_process.hpp"
#include "support/measure.hpp"

#include <cstdint>

namespace resolve_bench {

/// Runs beside a subject, in a process of its own.
class name_server {
 public:
  name_server();
  ~name_server();
  name_server(name_server const&) = delete;
  name_server& operator=(name_server const&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int socket_;
  std::uint16_t port_;
  benchmarks::helper_process process_;
};

/// What is looked up.
inline constexpr char const* the_name = "host.example.test.";
inline constexpr int addresses = 2;

/// Called with the number of addresses that a subject has found. Throws if it is wrong.
void expect_found(int n);

} // namespace resolve_bench
