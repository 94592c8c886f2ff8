#include "fs/crew.hpp"

#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/threads.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace unio::inline v0_1::fs::trees {
namespace {

int processors() noexcept {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 8U));
}

int descriptor_limit() noexcept {
  rlimit l{};
  if (::getrlimit(RLIMIT_NOFILE, &l) != 0) return 64;
  return static_cast<int>(std::min<rlim_t>(l.rlim_cur, 1 << 20));
}

} // namespace

crew::crew(crew_settings const& s) noexcept
    : settings_(s),
      threads_(s.threads > 0 ? std::min(s.threads, most_threads) : processors()),
      most_open_(std::clamp(descriptor_limit() / 4, 4, 512)) {}

crew::~crew() {
  while (evict()) continue;
  if (root_ != nullptr) close_all(*root_);
  for (int i = 0; workers_ != nullptr && i != threads_; ++i)
    if (workers_[i].buffer != nullptr) sys::munmap(workers_[i].buffer, settings_.buffer + settings_.spare);
  delete[] workers_;
  while (chunks_ != nullptr) {
    std::byte* next = nullptr;
    std::memcpy(&next, chunks_, sizeof next);
    ::operator delete(std::exchange(chunks_, next));
  }
}

int crew::begin(int fd, int other_fd) noexcept {
  // The kernel gives the lowest number that is free: that of the roots says how many are in use. A thread has
  // its directory open and that above, on each side, and two files, or two pieces of a path. With too few for
  // all threads some would find none for as long as the others work.
  int const free = descriptor_limit() - std::max(fd, other_fd) - 1;
  int const of_a_thread = 2 * settings_.sides + 2;
  most_open_ = std::clamp(free - of_a_thread, 2, most_open_);
  threads_ = std::clamp((free - most_open_) / of_a_thread, 1, threads_);
  workers_ = new (std::nothrow) worker[static_cast<std::size_t>(threads_)];
  if (workers_ != nullptr) {
    for (int i = 0; i != threads_; ++i) {
      workers_[i].owner = this;
      workers_[i].index = i;
    }
    worker& w = workers_[0];
    node nobody{};
    if (give_buffer(w)) root_ = make(w, nobody, {});
  }
  if (root_ == nullptr) {
    if (fd >= 0) sys::close(fd);
    if (other_fd >= 0) sys::close(other_fd);
    return -ENOMEM;
  }
  root_->parent = nullptr;
  root_->depth = 0;
  root_->users = 1; // never idle: the way to all others
  root_->fd[0] = fd;
  root_->fd[1] = other_fd;
  return 0;
}

int crew::run() noexcept {
  pending_.store(1, std::memory_order_relaxed);
  queue_.push(*root_);
  work(workers_[0]);
  for (int i = 1; i < started_; ++i) ::pthread_join(workers_[i].thread, nullptr);
  return ended_.load(std::memory_order_relaxed);
}

// ── the work ───────────────────────────────────────────────────────────────────────────────────────────────

void crew::work(worker& w) noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (done_.load(std::memory_order_relaxed)) return;
    node* const n = queue_.first;
    if (n == nullptr) {
      lock.unlock();
      auto const goes_on = [this] {
        return pending_.load(std::memory_order_relaxed) != 0 || done_.load(std::memory_order_relaxed);
      };
      for (std::uint32_t i = 0; i != spins && !goes_on(); ++i) sys::sched_yield();
      lock.lock(); // before the end too: run() looks how many were started
      if (queue_.first != nullptr || done_.load(std::memory_order_relaxed)) continue;
      ++asleep_;
      wake_.wait(lock);
      --asleep_;
      continue;
    }
    queue_.first = n->next;
    if (queue_.first == nullptr) queue_.last = nullptr;
    pending_.store(--queue_.size, std::memory_order_relaxed);
    lock.unlock();
    if (!must_end()) {
      if (int const e = visit(w, *n); e < 0) end(e);
    }
    w.shown_node = nullptr;
    finish(w, n);
    lock.lock();
  }
}

void crew::push(node_list& children) noexcept {
  if (children.size == 0) return;
  {
    std::lock_guard const lock(mutex_);
    children.first->parent->references += static_cast<std::uint32_t>(children.size);
    // Where more wait than have descriptors their parents would be opened again, each from far above.
    if (settings_.depth_first || queue_.size > static_cast<std::size_t>(most_open_) / 2) {
      children.last->next = queue_.first;
      if (queue_.last == nullptr) queue_.last = children.last;
      queue_.first = children.first;
    } else {
      (queue_.last != nullptr ? queue_.last->next : queue_.first) = children.first;
      queue_.last = children.last;
    }
    queue_.size += children.size;
    pending_.store(queue_.size, std::memory_order_relaxed);
    if (asleep_ != 0) {
      wake_.notify_all();
    } else if (started_ < threads_ && queue_.size > 1) {
      start_helper();
    }
  }
  children = {};
}

bool crew::give_buffer(worker& w) const noexcept {
  auto const p = sys::mmap(nullptr, settings_.buffer + settings_.spare, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p < 0 && p > -4096) return false;
  w.buffer = reinterpret_cast<std::byte*>(p); // NOLINT(performance-no-int-to-ptr): the table returns numbers
  return true;
}

// Starts one helper, which may start others. If it cannot, the threads that there are do the work.
void crew::start_helper() noexcept {
  worker& w = workers_[started_];
  if (!give_buffer(w)) return;
  auto const run = [](void* self) -> void* {
    auto& me = *static_cast<worker*>(self);
    me.owner->work(me);
    return nullptr;
  };
  if (sys::start_thread(run, &w, &w.thread) != 0) {
    threads_ = started_;
    sys::munmap(std::exchange(w.buffer, nullptr), settings_.buffer + settings_.spare);
    return;
  }
  ++started_;
}

void crew::hold(node& n) noexcept {
  std::lock_guard const lock(mutex_);
  for (node* p = &n; p != nullptr && !p->is_held; p = p->parent) p->is_held = true;
}

void crew::finish(worker& w, node* n) noexcept {
  for (;;) {
    {
      std::lock_guard const lock(mutex_);
      if (--n->references != 0) return;
    }
    node* const parent = n->parent;
    if (ended_.load(std::memory_order_relaxed) == 0) {
      if (parent != nullptr && settings_.climb) climb(*n);
      int const e = left(w, *n);
      if (e < 0) end(e);
      if (e > 0) {
        std::lock_guard const lock(mutex_);
        n->references = 1;
        n->next = queue_.first;
        if (queue_.last == nullptr) queue_.last = n;
        queue_.first = n;
        pending_.store(++queue_.size, std::memory_order_relaxed);
        return; // to work(), which takes it
      }
    }
    std::lock_guard const lock(mutex_);
    if (parent == nullptr) {
      done_.store(true, std::memory_order_relaxed);
      wake_.notify_all();
      return;
    }
    if (!n->is_held) {
      make_busy(*n);
      close_all(*n);
      n->next = freed_[n->units];
      freed_[n->units] = n;
    }
    n = parent;
  }
}

bool crew::must_end() noexcept {
  if (ended_.load(std::memory_order_relaxed) != 0) return true;
  if (settings_.stop.stop_requested() || settings_.second_stop.stop_requested()) end(-ECANCELED);
  if (settings_.due != deadline::forever && sys::steady_now() >= settings_.due) end(-ETIMEDOUT);
  return ended_.load(std::memory_order_relaxed) != 0;
}

void crew::end(int code) noexcept {
  int none = 0;
  ended_.compare_exchange_strong(none, code, std::memory_order_relaxed);
}

std::int64_t crew::read(worker& w, int fd) const noexcept {
  return sys::uninterrupted([&] { return sys::getdents64(fd, w.buffer, settings_.buffer); });
}

} // namespace unio::fs::trees
