// Shows     an executor of your own that composes with unio's: of the queued work the most urgent runs first.
//           Around it are strands, which keep the tasks of each in order; beneath it a multiplexer.
// Run       build/release/examples/example_priority_executor
// Read next include/unio/executor.hpp: what an executor offers

#include <unio/unio.hpp>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace {

enum class level : std::size_t { urgent, normal, idle };

/// Queued work, by level, and the turn that runs the first of it on `Inner`. For an inner executor with one
/// thread: nothing here is locked.
template <unio::is_executor Inner> class priority_queue : private unio::work {
 public:
  explicit priority_queue(Inner inner) : work(&take_turn), inner_(std::move(inner)) {}

  void push(unio::work& w, level l) {
    w.next = nullptr;
    list& to = lists_[static_cast<std::size_t>(l)];
    (to.first != nullptr ? to.last->next : to.first) = &w;
    to.last = &w;
    post_turn();
  }
  bool remove(unio::work& w) {
    for (list& l : lists_) {
      unio::work* before = nullptr;
      for (unio::work* p = l.first; p != nullptr; before = std::exchange(p, p->next)) {
        if (p != &w) continue;
        (before != nullptr ? before->next : l.first) = w.next;
        if (l.last == &w) l.last = before;
        return true;
      }
    }
    return false;
  }
  Inner const& inner() const { return inner_; }

 private:
  struct list {
    unio::work* first = nullptr;
    unio::work* last = nullptr;
  };

  unio::work* pop() {
    for (list& l : lists_)
      if (l.first != nullptr) return std::exchange(l.first, l.first->next);
    return nullptr;
  }
  // A work is in one queue at a time, and so is the turn.
  void post_turn() {
    if (!std::exchange(posted_, true)) inner_.post(static_cast<unio::work&>(*this));
  }
  static void take_turn(unio::work& w, bool run) noexcept {
    auto& self = static_cast<priority_queue&>(w);
    self.posted_ = false;
    unio::work* const first = self.pop();
    if (first == nullptr) return; // it was withdrawn
    self.post_turn();
    (*first)(run);
  }

  Inner inner_;
  std::array<list, 3> lists_;
  bool posted_ = false;
};

/// One level of a queue.
template <unio::is_executor Inner> class priority_executor {
 public:
  priority_executor(priority_queue<Inner>& q, level l) : queue_(&q), level_(l) {}

  std::coroutine_handle<> dispatch(unio::resumption& r) const {
    post(r); // more urgent work may be queued
    return std::noop_coroutine();
  }
  void post(unio::work& w) const { queue_->push(w, level_); }
  bool withdraw(unio::work& w) const { return queue_->remove(w); }
  unio::io_multiplexer* multiplexer() const { return unio::executor_ref(queue_->inner()).multiplexer(); }
  bool operator==(priority_executor const&) const = default;

 private:
  priority_queue<Inner>* queue_;
  level level_;
};

// What it awaits may complete in any order: a level is that of work which is queued.
unio::task<> say(std::string& line, std::string_view word) {
  line.append(word).append(" ");
  (co_await unio::co_no_op()).value();
}

} // namespace

int main() {
  auto m = unio::io_multiplexer::best_available().value();
  priority_queue queue(m->executor());
  using priority = priority_executor<unio::multiplexer_executor>;
  unio::strand<priority> const urgent{priority(queue, level::urgent)}, idle{priority(queue, level::idle)};
  priority const normal(queue, level::normal);

  std::string line;
  unio::async_run(idle, say(line, "leisure"));
  unio::async_run(normal, say(line, "work"));
  unio::async_run(urgent, say(line, "fire!"));
  unio::async_run(urgent, say(line, "water!"));
  while (m->run().value() > 0) {
  }
  std::printf("%s\n", line.c_str());
  return line == "fire! water! work leisure " ? 0 : 1;
}
