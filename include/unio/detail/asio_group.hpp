// unio/detail/asio_group.hpp: implements asio_group, and how all of a context are dropped.

#pragma once

#include <unio/detail/asio_nodes.hpp>

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

inline asio_group::asio_group(asio_service& s, bool is_locked) noexcept
    : service_(&s), is_locked_(is_locked) {
  enlist();
}
inline asio_group::asio_group(asio_group&& other) noexcept
    : service_(other.service_), is_locked_(other.is_locked_) {
  enlist();
  auto const held = lock();
  adopt(other);
}
inline asio_group& asio_group::operator=(asio_group&& other) noexcept {
  if (this == &other) return *this;
  if (first_ != nullptr) {
    auto const held = lock();
    (is_locked_ ? service_->elsewhere_ : service_->here_).adopt(*this);
  }
  if (service_ != other.service_) {
    delist();
    service_ = other.service_;
    enlist();
  }
  is_locked_ = other.is_locked_;
  auto const held = lock();
  adopt(other);
  return *this;
}
inline asio_group::~asio_group() {
  if (this != &service_->here_ && this != &service_->elsewhere_ && first_ != nullptr) {
    auto const held = lock();
    (is_locked_ ? service_->elsewhere_ : service_->here_).adopt(*this);
  }
  delist();
}
inline std::unique_lock<std::recursive_mutex> asio_group::lock() const {
  return is_locked_ ? std::unique_lock(service_->mutex_) : std::unique_lock<std::recursive_mutex>();
}
inline void asio_group::be_locked() noexcept {
  if (std::exchange(is_locked_, true)) return;
  for (asio_node* n = first_; n != nullptr; n = n->next_in_group) n->is_locked = true;
}
inline void asio_group::enlist() noexcept {
  std::lock_guard const held(service_->mutex_);
  previous_ = nullptr;
  next_ = std::exchange(service_->groups_, this);
  if (next_ != nullptr) next_->previous_ = this;
}
inline void asio_group::delist() noexcept {
  std::lock_guard const held(service_->mutex_);
  (previous_ != nullptr ? previous_->next_ : service_->groups_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}
inline void asio_group::append(asio_node& n) noexcept {
  n.in_group = this;
  n.is_locked = is_locked_;
  n.next_in_group = nullptr;
  n.previous_in_group = last_;
  (last_ != nullptr ? last_->next_in_group : first_) = &n;
  last_ = &n;
}
inline void asio_group::unlink(asio_node& n) noexcept {
  (n.previous_in_group != nullptr ? n.previous_in_group->next_in_group : first_) = n.next_in_group;
  (n.next_in_group != nullptr ? n.next_in_group->previous_in_group : last_) = n.previous_in_group;
  n.in_group = nullptr;
}
inline void asio_group::adopt(asio_group& other) noexcept {
  while (asio_node* const n = other.first_) {
    other.unlink(*n);
    append(*n);
  }
}
inline void asio_group::insert(asio_node& n) noexcept {
  if (!is_locked_) [[likely]]
    return append(n);
  std::lock_guard const held(service_->mutex_);
  append(n);
}
inline asio_node* asio_group::take() noexcept {
  auto const held = lock();
  asio_node* const n = first_;
  if (n != nullptr) unlink(*n);
  return n;
}
inline std::size_t asio_group::cancel(std::size_t at_most) noexcept {
  auto const held = lock(); // which keeps the nodes from being freed
  std::size_t left = 0;
  for (asio_node const* n = first_; n != nullptr; n = n->next_in_group) ++left;
  std::size_t count = 0;
  for (; left != 0 && count != at_most && first_ != nullptr; --left) {
    asio_node& n = *first_;
    unlink(n); // to the end: cancelling may take out others
    append(n);
    if (n.is_cancelled.exchange(true, std::memory_order_relaxed)) continue; // until it has ended
    n.functions->cancel(n);
    ++count;
  }
  return count;
}
inline bool asio_node::leave_group() noexcept {
  if (!is_locked) [[likely]] {
    if (in_group == nullptr) return false;
    return in_group->unlink(*this), true;
  }
  std::lock_guard const held(service->mutex_);
  if (in_group == nullptr) return false;
  return in_group->unlink(*this), true;
}

inline void asio_service::shutdown() noexcept {
  is_closing_.store(true, std::memory_order_relaxed);
  waiting_ = nullptr; // they are in their groups
  auto const next = [this]() noexcept -> asio_node* {
    std::lock_guard const held(mutex_);
    for (asio_group* g = groups_; g != nullptr; g = g->next_)
      if (asio_node* const n = g->take(); n != nullptr) return n;
    return nullptr;
  };
  while (asio_node* const n = next()) n->functions->drop(*n); // which may destroy objects, and so groups
}

} // namespace unio::detail
