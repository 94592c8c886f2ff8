// Locks on simulated files, which another owner holds now and then: every operation ends once, and what was
// locked is unlocked, whatever is cancelled, times out or is destroyed meanwhile.

#include "simulation/support.hpp"
#include "support/calls.hpp"
#include "support/test.hpp"

namespace {

using namespace test;
using unio::file_handle;

// How many locks the simulated kernel has granted and not taken back.
std::int64_t locked = 0;
std::int64_t (*simulated_fcntl)(int, int, long) noexcept = nullptr;

std::int64_t balance(int fd, int command, long argument) noexcept {
  std::int64_t const r = simulated_fcntl(fd, command, argument);
  bool const about_locks = command == F_OFD_SETLK || command == F_OFD_SETLKW;
  if (about_locks && r == 0)
    locked += reinterpret_cast<struct flock const*>(argument)->l_type == F_UNLCK ? -1 : 1;
  return r;
}

class balanced_locks {
 public:
  balanced_locks() {
    locked = 0;
    simulated_fcntl = calls_->fcntl;
    calls_->fcntl = balance;
  }

 private:
  test::replaced_calls calls_;
};

TEST(simulated_lock, leaves_nothing_locked_however_it_ends) {
  int granted = 0, canceled = 0, timed_out = 0, destroyed = 0;
  for_seeds(2000, [&](simulation& s) {
    balanced_locks const balanced;
    test::dice d(s.seed());
    file_handle file = s.file();
    for (int round = 0; round != 10; ++round) {
      std::optional<test::started<async_lock_range>> op;
      op.emplace(async_lock_range(file, d.below(100), 1 + d.below(10), lock_kind::exclusive,
                                  std::chrono::microseconds(1 + d.below(6000))));
      for (std::uint64_t turns = d.below(4); turns != 0; --turns) (void)s.multiplexer().try_run_for(1ms);
      if (d.below(3) == 0) op->cancel();
      if (d.below(4) == 0) {
        destroyed += op->finished() ? 0 : 1;
        op.reset();
      } else {
        EXPECT_TRUE(test::run_until(s, [&] { return op->ended(); }));
        test::expect_ended_once(*op);
        granted += op->error ? 0 : 1;
        canceled += op->error == unio::condition::canceled;
        timed_out += op->error == unio::condition::timed_out;
      }
      EXPECT_EQ(locked, 0);
    }
    ASSERT_TRUE(file.close());
  });
  if (std::getenv("UNIO_SEED") != nullptr) return;
  EXPECT_GT(granted, 100);
  EXPECT_GT(canceled, 50);
  EXPECT_GT(timed_out, 5);
  EXPECT_GT(destroyed, 50);
}

SEEDED_TEST(simulated_lock, waits_with_a_deadline_and_without_and_tries, 100) {
  balanced_locks const balanced;
  file_handle file = s.file();
  for (unio::io_multiplexer* const m : {&s.multiplexer(), static_cast<unio::io_multiplexer*>(nullptr)}) {
    file.set_multiplexer(m);
    auto const begun = s.now();
    auto lock = file.lock_file(lock_kind::shared);
    ASSERT_TRUE(lock.has_value());
    EXPECT_EQ(locked, 1);
    ASSERT_TRUE(lock->unlock());
    {
      auto const tried = file.try_lock_file(lock_kind::exclusive);
      EXPECT_TRUE(tried.has_value() || tried.error() == unio::condition::would_block);
    }
    EXPECT_EQ(file.lock_range(0, 0, lock_kind::shared).error().value(), EINVAL);
    EXPECT_LT(s.now() - begun, 10s);
  }
  EXPECT_EQ(locked, 0);
}

} // namespace
