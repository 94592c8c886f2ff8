// atomic_append: its calls, its queue, what is told of deaths however long it takes, and which files it
// accepts. What all mutexes have in common is in shared_fs_mutex_test.cpp.

#include "locks/append_layout.hpp"
#include "locks/lock_file_fixture.hpp"
#include "support/failing_calls.hpp"
#include "support/file_size.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/locks/atomic_append.hpp>

#include <sys/stat.h>

namespace {

using namespace test;
using namespace unio::fs;
namespace layout = unio::fs::append_layout;

constexpr entity a(7);
constexpr entity b(8);

class atomic_append_ : public test::lock_file_fixture<atomic_append> {
 protected:
  static int calls_of_a_lock(atomic_append& m, std::vector<entity> const& entities) {
    failing_calls calls;
    (void)m.lock(entities).value();
    return calls.count_all();
  }
};

// ── happy ──────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(atomic_append_, makes_five_calls_for_one_entity_and_for_ten) {
  atomic_append m = open();
  (void)m.lock(a).value(); // has a description from now on
  std::vector<entity> many;
  for (std::uint64_t n = 1; n != 11; ++n) {
    many.emplace_back(n * 1000);
    EXPECT_EQ(calls_of_a_lock(m, many), 5) << n;
  }
}

TEST_F(atomic_append_, serves_in_the_order_of_arrival) {
  atomic_append m = open();
  auto held = m.lock(a).value();
  std::vector<process> all;
  for (long i = 0; i != 4; ++i) {
    all.emplace_back([this, i](process::channel& with) {
      atomic_append own = open();
      with.say('o');
      auto const got = own.lock(a).value();
      std::string const so_far = directory.read("order");
      directory.write("order", so_far + static_cast<char>('0' + i));
      return 0;
    });
    EXPECT_EQ(all.back().hear(), 'o');
    auto const size = std::filesystem::file_size(path);
    for (int n = 0; n != 2000 && std::filesystem::file_size(path) == size; ++n)
      std::this_thread::sleep_for(1ms);
  }
  held.unlock();
  for (process& p : all) EXPECT_EQ(p.wait(), 0);
  EXPECT_EQ(directory.read("order"), "0123");
}

TEST_F(atomic_append_, lets_go_in_one_look_however_long_the_queue_behind_it_is) {
  atomic_append m = open();
  auto held = m.lock(a).value();
  for (int i = 0; i != 500; ++i) (void)m.lock(b).value(); // 64,000 bytes of records
  {
    failing_calls calls;
    held.unlock();
    EXPECT_LT(calls.count<&table::pwritev2>() + calls.count<&table::preadv2>() + calls.count<&table::fcntl>(),
              5);
  }
  EXPECT_TRUE(m.try_lock(a).has_value());
}

TEST_F(atomic_append_, locks_as_many_as_it_says_and_no_more) {
  atomic_append m = open();
  std::vector<entity> many;
  for (std::uint64_t i = 0; i != atomic_append::most_entities; ++i) many.emplace_back(i);
  {
    auto const held = m.lock(many).value();
    EXPECT_EQ(m.try_lock(many.back()).error(), condition::would_block);
    EXPECT_EQ(m.try_lock(many[20'001]).error(), condition::would_block);
  }
  many.emplace_back(1'000'000);
  EXPECT_EQ(m.lock(many).error(), error::too_many_entities);
  EXPECT_TRUE(m.try_lock(a).has_value());
}

TEST_F(atomic_append_, gives_storage_back) {
  atomic_append m = open();
  for (int i = 0; i != 8000; ++i) (void)m.lock(a).value();
  struct stat s;
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  EXPECT_GE(s.st_size, 8000 * 128);
  EXPECT_LT(s.st_blocks * 512, 800'000);
  m = atomic_append::open(directory / "other").value();
  (void)open();
  EXPECT_EQ(std::filesystem::file_size(path), layout::cells_at);
}

// ── deaths ─────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(atomic_append_, tells_of_each_entity_of_the_dead_once) {
  atomic_append m = open();
  std::vector<entity> many;
  for (std::uint64_t i = 0; i != 25; ++i) many.emplace_back(i); // of three cells
  die_with(many);
  for (entity const e : many) {
    EXPECT_TRUE(m.lock(e).value().owner_died()) << e.value;
    EXPECT_FALSE(m.lock(e).value().owner_died()) << e.value;
  }
}

TEST_F(atomic_append_, says_nothing_of_the_death_of_one_that_waited) {
  atomic_append m = open();
  for (std::uint64_t n : {1, 25}) { // of one cell, of three
    SCOPED_TRACE(n);
    std::vector<entity> wanted;
    for (std::uint64_t i = 0; i != n; ++i) wanted.emplace_back(1000 - i);
    auto held = m.lock(wanted[0]).value();
    auto const size = std::filesystem::file_size(path);
    {
      process waits([&](process::channel&) { return open().lock(wanted).has_value() ? 0 : 1; });
      for (int i = 0; i != 2000 && std::filesystem::file_size(path) == size; ++i)
        std::this_thread::sleep_for(1ms);
      ASSERT_GT(std::filesystem::file_size(path), size); // it has asked
    }
    process next([&](process::channel&) { return open().lock(wanted).value().owner_died() ? 1 : 0; });
    auto const is_found = [&] { // the death, while it was still waiting
      return directory.read("lock")[size + offsetof(layout::cell, state)] != layout::waiting_or_held;
    };
    for (int i = 0; i != 2000 && !is_found(); ++i) std::this_thread::sleep_for(1ms);
    held.unlock();
    EXPECT_EQ(next.wait(), 0);
  }
}

TEST_F(atomic_append_, carries_what_is_untold_along_and_looks_at_little) {
  atomic_append m = open();
  die_with({a, b});
  EXPECT_TRUE(m.lock(b).value().owner_died());
  for (std::uint64_t i = 0; i != 5000; ++i) EXPECT_FALSE(m.lock(entity(100 + i % 3)).value().owner_died());
  failing_calls calls;
  (void)m.lock(entity(100)).value();
  EXPECT_LT(calls.count<&table::preadv2>(), 90); // of 32 cells each
  EXPECT_TRUE(m.lock(a).value().owner_died());
  EXPECT_FALSE(m.lock(a).value().owner_died());
  EXPECT_FALSE(m.lock(b).value().owner_died());
}

TEST_F(atomic_append_, looks_at_little_although_nobody_asks_for_what_the_dead_had) {
  atomic_append m = open();
  die_with({a});
  for (std::uint64_t i = 0; i != 5000; ++i) EXPECT_FALSE(m.lock(b).value().owner_died());
  failing_calls calls;
  (void)m.lock(b).value();
  EXPECT_LT(calls.count<&table::preadv2>(), 90); // of 32 cells each
  EXPECT_TRUE(m.lock(a).value().owner_died());
}

TEST_F(atomic_append_, tells_one_that_came_before_the_death_was_carried) {
  atomic_append m = open();
  die_with({a});
  auto held = m.lock(b).value();
  process waits([this](process::channel& with) { // for b; a is next in line for it
    atomic_append own = open();
    with.say('w');
    auto const got = own.lock(std::array{a, b}).value();
    return CHILD_MEETS(got.owner_died());
  });
  waits.hear();
  auto const size = std::filesystem::file_size(path);
  for (int n = 0; n != 2000 && std::filesystem::file_size(path) == size; ++n)
    std::this_thread::sleep_for(1ms);
  for (std::uint64_t i = 0; i != 3000; ++i) (void)m.lock(entity(100)).value();
  held.unlock();
  EXPECT_EQ(waits.wait(), 0);
  EXPECT_FALSE(m.lock(a).value().owner_died());
}

TEST_F(atomic_append_, keeps_notes_where_the_file_is_opened_anew) {
  die_with({a});
  EXPECT_TRUE(open().lock(a).value().owner_died());
  EXPECT_FALSE(open().lock(a).value().owner_died());
}

// ── a full filesystem ──────────────────────────────────────────────────────────────────────────────────────

TEST_F(atomic_append_, survives_records_that_were_cut_off) {
  atomic_append m = open();
  (void)m.lock(a).value();
  process limited([this](process::channel&) { // what it appends is cut off in the middle of a record
    atomic_append own = open();
    std::vector<entity> many;
    for (std::uint64_t i = 0; i != 40; ++i) many.emplace_back(i); // four records
    for (rlim_t const room : {rlim_t{0}, rlim_t{40}, rlim_t{128}, rlim_t{200}}) {
      CHILD_EXPECTS(test::limit_file_size(std::filesystem::file_size(path) + room));
      CHILD_EXPECTS(!own.lock(many).has_value());
      CHILD_EXPECTS(!own.lock(many, 10ms).has_value());
    }
    return 0;
  });
  EXPECT_EQ(limited.wait(), 0);
  auto held = m.lock(std::array{a, b}, 20s);
  ASSERT_TRUE(held.has_value()) << held.error().message();
  EXPECT_FALSE(held->owner_died());
  EXPECT_EQ(open().try_lock(a).error(), condition::would_block);
  held->unlock();
  EXPECT_TRUE(open().try_lock(a).has_value());
}

// With zeros behind it a record of few entities would be whole.
TEST_F(atomic_append_, takes_no_record_that_was_cut_off_for_one_of_the_dead) {
  static std::size_t length; // 0: all of it
  atomic_append m = open();
  for (std::size_t n = 8; n != sizeof(layout::cell); n += 8) {
    {
      failing_calls calls;
      calls.answer<&table::pwritev2>(
          [](int fd, iovec const* v, int count, std::int64_t at, int flags) noexcept {
            std::size_t const part = std::exchange(length, 0);
            iovec const first{v->iov_base, part != 0 ? part : v->iov_len};
            return unio::sys::kernel.pwritev2(fd, &first, count, at, flags);
          });
      length = n;
      EXPECT_EQ(m.lock(a).error(), std::errc::no_space_on_device);
    }
    auto const held = m.lock(a, 20s);
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_FALSE(held->owner_died()) << n;
  }
}

// As the kernel ends a write of several pages: what was killed had not asked yet.
TEST_F(atomic_append_, is_had_by_others_if_one_was_killed_while_it_appended) {
  for (bool const others_append : {false, true}) {
    process killed([this](process::channel&) {
      atomic_append own = open();
      std::vector<entity> many;
      for (std::uint64_t i = 0; i != 40; ++i) many.emplace_back(i); // four records
      failing_calls calls;
      calls.answer<&table::pwritev2>(
          [](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept -> std::int64_t {
            iovec const half{v->iov_base, v->iov_len / 2};
            (void)unio::sys::kernel.pwritev2(fd, &half, n, at, flags);
            return ::raise(SIGKILL);
          });
      return own.lock(many).has_value() ? 1 : 2;
    });
    (void)killed.wait();
    atomic_append m = open();
    for (int i = 0; others_append && i != 5; ++i) (void)m.lock(entity(1000)).value();
    auto const held = m.lock(a, 20s);
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_FALSE(held->owner_died());
  }
}

TEST_F(atomic_append_, is_not_stuck_where_it_cannot_mark_what_is_done) {
  atomic_append m = open();
  auto held = m.lock(a).value();
  {
    failing_calls calls;
    calls.fail<&table::pwritev2>(EIO);
    held.unlock();
  }
  EXPECT_TRUE(m.lock(a, 20s).has_value()); // it reports a death that was none
}

TEST_F(atomic_append_, goes_on_after_a_signal_in_each_of_its_calls) {
  atomic_append m = open();
  (void)m.lock(a).value(); // has a description from now on
  for (int at = 1; at != 4; ++at) {
    failing_calls calls;
    calls.fail<&table::preadv2>(EINTR, {.at = at});
    calls.fail<&table::pwritev2>(EINTR, {.at = at});
    auto held = m.lock(a);
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_FALSE(held->owner_died()) << "of a death that was none";
    held->unlock();
    EXPECT_FALSE(m.lock(a, 20s).value().owner_died()) << "of a death that was none";
  }
  failing_calls calls;
  calls.fail<&table::getrandom>(EINTR);
  EXPECT_EQ(opening("lock"), std::error_code());
}

// ── files ──────────────────────────────────────────────────────────────────────────────────────────────────

// On filesystems whose reads and writes a signal cuts short.
TEST_F(atomic_append_, is_not_ended_by_a_signal_and_tells_of_no_death) {
  atomic_append m = open();
  int interrupted = 0;
  for (int at = 1; at <= 6; ++at) {
    SCOPED_TRACE(at);
    failing_calls calls;
    calls.fail<&table::pwritev2>(EINTR, {.at = at});
    calls.fail<&table::preadv2>(EINTR, {.at = at});
    {
      auto const held = m.lock(a);
      ASSERT_TRUE(held.has_value()) << held.error().message();
      EXPECT_FALSE(held->owner_died());
    }
    auto const next = m.lock(a);
    ASSERT_TRUE(next.has_value()) << next.error().message();
    EXPECT_FALSE(next->owner_died());
    interrupted += calls.failures<&table::pwritev2>() + calls.failures<&table::preadv2>();
  }
  EXPECT_GE(interrupted, 5) << "the canary";
}

TEST_F(atomic_append_, refuses_foreign_content_and_leaves_it_alone) {
  (void)open();
  std::string const whole = directory.read("lock");
  expect_refused("x", error::not_a_lock_file);
  expect_refused(std::string(5000, '\0'), error::not_a_lock_file);
  std::string changed = whole;
  std::memcpy(changed.data(), "unio memory_map", 16);
  expect_refused(changed, error::different_lock_file);
  changed = whole;
  changed[offsetof(layout::append_header, version)] = 2;
  expect_refused(changed, error::newer_lock_file);
  changed = whole;
  changed[offsetof(layout::append_header, cell_size)] = 64;
  expect_refused(changed, error::damaged_lock_file);
  expect_refused(whole.substr(0, layout::cells_at - 1), error::damaged_lock_file); // a part of a copy
}

TEST_F(atomic_append_, is_made_anew_if_a_power_loss_has_taken_its_header) {
  (void)open();
  directory.write("lock", std::string(layout::cells_at, '\0'));
  EXPECT_TRUE(open().lock(a).has_value());
}

TEST_F(atomic_append_, is_made_anew_if_a_power_loss_has_taken_all_that_counted) {
  std::string changed = good();
  std::uint64_t const first = layout::cells_at + (std::uint64_t{1} << 20);
  std::memcpy(changed.data() + offsetof(layout::append_header, first), &first, sizeof first);
  directory.write("lock", changed); // the same inode
  {
    atomic_append const m = open();
    EXPECT_EQ(std::filesystem::file_size(path), layout::cells_at);
    directory.write("lock", changed);
    EXPECT_EQ(opening("lock"), error::damaged_lock_file); // it has a user
  }
  atomic_append m = open();
  EXPECT_TRUE(m.lock(a).has_value());
}

// ── cut off: `: > lock` ────────────────────────────────────────────────────────────────────────────────────

TEST_F(atomic_append_, is_made_anew_after_it_was_cut_off_while_it_was_held) {
  for (bool const waits : {false, true}) {
    {
      atomic_append m = open();
      auto held = m.lock(a).value();
      std::filesystem::resize_file(path, 0);
      if (waits) {
        EXPECT_EQ(m.lock(b).error(), error::damaged_lock_file);
      }
      held.unlock();
    }
    {
      atomic_append const m = open();
      EXPECT_EQ(std::filesystem::file_size(path), layout::cells_at);
    }
    atomic_append m = open();
    auto const held = m.lock(a).value();
    EXPECT_FALSE(held.owner_died());
    EXPECT_EQ(open().try_lock(a).error(), condition::would_block);
  }
}

TEST_F(atomic_append_, grants_nothing_while_users_are_left_that_it_was_cut_off_under) {
  for (int const held_before : {0, 1, 100}) { // how far the queue has moved on
    SCOPED_TRACE(held_before);
    {
      atomic_append m = open();
      atomic_append idle = open();
      for (int i = 0; i != held_before; ++i) (void)m.lock(b).value();
      auto first = m.lock(a).value();
      auto second = m.lock(b).value();
      std::filesystem::resize_file(path, 0);
      EXPECT_EQ(opening("lock"), error::damaged_lock_file);
      for (int i = 0; i != 200; ++i) {
        EXPECT_EQ(m.lock(a).error(), error::damaged_lock_file) << i;
        EXPECT_EQ(idle.lock(b).error(), error::damaged_lock_file) << i;
        if (i == 100) second.unlock();
      }
      EXPECT_EQ(opening("lock"), error::damaged_lock_file);
      first.unlock();
      EXPECT_EQ(opening("lock"), error::damaged_lock_file);
    }
    EXPECT_TRUE(open().lock(a).has_value());
  }
}

TEST_F(atomic_append_, tells_who_waits_that_it_was_cut_off) {
  for (bool const dies : {false, true}) {
    process owner([this](process::channel& with) {
      atomic_append m = open();
      auto held = m.lock(a).value();
      with.say('h');
      with.hear();
      held.unlock();
      return 0;
    });
    EXPECT_EQ(owner.hear(), 'h');
    auto const size = std::filesystem::file_size(path);
    process waits(
        [this](process::channel&) { return open().lock(a).error() == error::damaged_lock_file ? 0 : 1; });
    for (int n = 0; n != 2000 && std::filesystem::file_size(path) == size; ++n)
      std::this_thread::sleep_for(1ms);
    std::filesystem::resize_file(path, 0);
    if (dies) {
      owner.kill();
    } else {
      owner.say('u');
      EXPECT_EQ(owner.wait(), 0);
    }
    EXPECT_EQ(waits.wait(), 0);
    EXPECT_TRUE(open().lock(a).has_value());
  }
}

// Of a user that was killed before it could cut it off, too.
TEST_F(atomic_append_, is_made_anew_where_a_user_has_appended_to_what_was_cut_off) {
  std::string record;
  {
    atomic_append m = open();
    (void)m.lock(a).value();
    record = directory.read("lock").substr(layout::cells_at);
  }
  ASSERT_EQ(record.size(), sizeof(layout::cell));
  std::string const page(layout::cells_at, '\0');
  std::string const done("\1\0\0\0\0\0\0", 8);
  std::string const gone(offsetof(layout::cell, state), '\0');
  for (std::string const& content : {record, record + record, record + page, page + gone + done,
                                     page + std::string(1280, '\0') + gone + done, page + record}) {
    directory.write("lock", content);
    EXPECT_EQ(opening("lock"), std::error_code());
    EXPECT_EQ(std::filesystem::file_size(path), layout::cells_at);
  }
  // A disk's image may begin with zeros.
  for (std::string const& content : {page + page, page + std::string("text"), page + gone + gone + done,
                                     std::string(40000, '\0') + done, "text" + page + gone + done})
    expect_refused(content, error::not_a_lock_file);
}

TEST_F(atomic_append_, is_not_taken_for_cut_off_where_storage_was_given_back) {
  atomic_append m = open();
  atomic_append idle = open(); // looks from the beginning, through what was given back
  for (int i = 0; i != 8000; ++i) (void)m.lock(a).value();
  auto const held = m.lock(b).value();
  EXPECT_TRUE(idle.lock(a).has_value());
  EXPECT_EQ(idle.try_lock(b).error(), condition::would_block);
  EXPECT_GE(std::filesystem::file_size(path), 8000 * sizeof(layout::cell));
}

// Between asking for the file's length and reading its header, which now says that the queue begins behind
// that length.
TEST_F(atomic_append_, is_opened_while_others_move_the_queue_on) {
  static atomic_append* user = nullptr;
  static int locks = 0;
  atomic_append m = open();
  user = &m;
  locks = 0;
  failing_calls calls;
  calls.answer<&table::preadv2>([](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
    if (atomic_append* const u = std::exchange(user, nullptr); u != nullptr)
      for (; locks != 5000; ++locks) (void)u->lock(a).value();
    return unio::sys::kernel.preadv2(fd, v, n, at, flags);
  });
  auto const late = atomic_append::open(path);
  EXPECT_EQ(locks, 5000);
  ASSERT_TRUE(late.has_value()) << late.error().message();
}

TEST_F(atomic_append_, takes_a_copy_for_no_lock_file_of_anybody) {
  atomic_append m = open();
  auto const held = m.lock(a).value();
  std::filesystem::copy_file(path, directory / "copy");
  std::vector<atomic_append> users;
  for (int i = 0; i != 2; ++i) users.push_back(atomic_append::open(directory / "copy").value());
  for (atomic_append& u : users) EXPECT_FALSE(u.try_lock(a).value().owner_died());
  EXPECT_EQ(open().try_lock(a).error(), condition::would_block);
}

TEST_F(atomic_append_, reads_a_queue_of_rubbish_without_harm) {
  atomic_append m = open();
  {
    std::ofstream file(path, std::ios::binary | std::ios::app);
    for (int i = 0; i != 100'001; ++i) file.put(static_cast<char>(i * 37 + i / 251));
  }
  auto const held = m.lock(a).value();
  EXPECT_FALSE(held.owner_died());
  EXPECT_EQ(m.try_lock(a).error(), condition::would_block);
  EXPECT_TRUE(m.try_lock(b).has_value());
}

} // namespace
