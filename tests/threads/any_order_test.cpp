// Programs that a seed draws: threads come to a multiplexer, start, cancel, poll and destroy operations,
// close handles, post, wake, do something else, and end. Whatever they do, each receiver is called once, what
// is posted runs once, and in the end nothing is pending.

#include "support/test.hpp"
#include "testing/random.hpp"
#include "threads/support.hpp"
#include "threads/watched.hpp"

namespace {

using namespace test;
using namespace threads_tests;

/// What a receiver was told.
struct told {
  std::atomic<int> values{0}, ends{0};
  std::atomic<bool> is_gone{false}; ///< its operation is destroyed
};
struct tell {
  told* to;
  template <class Result> void set_value(Result&&) noexcept {
    require(++to->values == 1 && to->ends == 0 && !to->is_gone, "a value comes once, before the end");
  }
  void set_done() noexcept {
    require(++to->ends == 1 && to->values == 1 && !to->is_gone, "the end comes once, after the value");
  }
};

/// A connection, and reads of it one after the other, which one thread at a time starts, asks and destroys.
class line {
 public:
  explicit line(io_multiplexer& m) : connection_(m) {}

  /// Does one of what may be done, if no other thread is about it.
  void use(std::uint64_t what) {
    std::unique_lock const lock(mutex_, std::try_to_lock);
    if (!lock) return;
    switch (what % 6) {
      case 0:
        return start();
      case 1:
        return is_closed_ ? void() : connection_.write();
      case 2:
        return read_.has_value() ? read_->cancel() : void();
      case 3:
        return read_.has_value() ? void(read_->poll()) : void();
      case 4:
        return forget();
      default:
        return close();
    }
  }
  void close() {
    if (std::exchange(is_closed_, true)) return;
    require(connection_.ends.first.close().has_value(), "the handle is closed");
  }
  /// In flight or not.
  void forget() {
    if (!read_.has_value()) return;
    read_.reset();
    all_.back().is_gone = true;
  }
  void expect_end() {
    require(!read_.has_value() || all_.back().ends == 1, "its receiver was notified");
    forget();
  }

 private:
  void start() {
    if (is_closed_ || read_.has_value()) return;
    all_.emplace_back();
    read_.emplace(unio::atomic_async_read(connection_.ends.first, unio::mutable_buffer(room_)),
                  tell{&all_.back()});
    read_->start();
  }

  std::mutex mutex_;
  connection connection_;
  std::deque<told> all_;
  bool is_closed_ = false;
  std::byte room_[1];
  std::optional<unio::io_operation_connection<unio::atomic_async_read, tell>> read_;
};

struct everything {
  std::unique_ptr<io_multiplexer> m = multiplexer(3);
  line lines[3]{line(*m), line(*m), line(*m)};
  std::atomic<int> posted{0}, ran{0};
};

void live(everything& all, unio::testing::random_source draw) {
  for (int i = 0; i != 8; ++i) {
    auto const what = draw.below(16);
    auto const more = draw.below(60);
    auto const work = [&all] { ++all.ran; };
    if (what < 8) {
      all.lines[more % 3].use(more / 3);
    } else if (what < 10) {
      ++all.posted;
      (void)(more % 2 != 0 ? all.m->post(work) : all.m->spawn(work));
    } else if (what == 10) {
      all.m->wake();
    } else if (what == 11) {
      std::this_thread::sleep_for(more * 100us);
    } else if (what < 14) {
      (void)all.m->try_run();
    } else {
      (void)all.m->try_run_for(more * 100us);
    }
  }
}

void live_on_three_threads(everything& all) {
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i != 3; ++i)
    threads.emplace_back(live, std::ref(all), unio::testing::random_source(schedule_seed() * 3 + i));
  for (std::thread& t : threads) t.join();
}

class any_order : public threads_on {};
ON_BOTH_SYSTEMS(any_order);

TEST_P(any_order, each_receiver_is_called_once_and_nothing_stays_pending) {
  expect_no_failure([] {
    everything all;
    live_on_three_threads(all);
    for (line& l : all.lines) l.close();
    run_to_the_end(*all.m);
    for (line& l : all.lines) l.expect_end();
    require(all.ran == all.posted, "what was posted has run");
  });
}

TEST_P(any_order, the_multiplexers_end_ends_what_its_threads_have_left) {
  expect_no_failure([] {
    everything all;
    live_on_three_threads(all);
    std::thread([&] { all.m.reset(); }).join();
    for (line& l : all.lines) l.expect_end();
  });
}

} // namespace
