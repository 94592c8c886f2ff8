// unio/detail/strand.hpp: assigning a strand.

#pragma once

#include <unio/strand.hpp>

#include <utility>

namespace unio {

template <is_executor Executor>
inline strand<Executor>& strand<Executor>::operator=(strand const& other) noexcept {
  other.state_->share();
  std::exchange(state_, other.state_)->release();
  return *this;
}

} // namespace unio
