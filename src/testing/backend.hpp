// src/testing/backend.hpp: the driver of a simulation: the ring's client over a simulated kernel, and what
// other drivers do as well.

#pragma once

#include "driver/uring/client.hpp"
#include "testing/kernel.hpp"

namespace unio::inline v0_1::testing {

class simulated_backend final : public driver::ring_client<simulated_kernel> {
 public:
  explicit simulated_backend(world& w) noexcept : ring_client(w.open_doorbell(), w), world_(w) {}

  int bind(driver::engine& e) noexcept override;
  void arm(driver::engine&, io_operation& op, driver::attempted) noexcept override;
  bool prefers_batch(driver::engine&, io_operation const& op) noexcept override;
  bool disarm(driver::engine&, io_operation& op) noexcept override;
  int reap(driver::engine&, std::int64_t until) noexcept override;
  void describe(capabilities& c) const noexcept override;

  /// A seed may decide that nothing, or everything, is tried inside start().
  void predict(driver::engine& e, int fd) noexcept;

 private:
  bool post_events(driver::engine& e) noexcept;

  world& world_;
  int deadlocks_ = 0; // in a row
};

} // namespace unio::testing
