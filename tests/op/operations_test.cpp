// The table of operations: every operation, on every driver, in every style, by the same scripts, with the
// same result.
//
// A test plays one script with one operation in all styles on io_uring and on epoll (and in none, for the
// blocking calls), and compares what came of it with what has to and with each other. What rows, scripts and
// styles are stands in support/operation_table.hpp. A new operation is a new row here.

#include "op/rows.hpp"
#include "support/direct_io.hpp"
#include "support/drivers.hpp"
#include "support/operation_table.hpp"
#include "support/spellings.hpp"
#include "support/test.hpp"

#include <iterator>

namespace {

using namespace test;

std::vector<test::row> const& table() {
  static std::vector<test::row> const rows = [] {
    test::directory(); // before the first cell counts descriptors
    std::vector<test::row> all;
    for (auto const part : {test::reading_rows, test::writing_rows, test::connection_rows, test::waiting_rows,
                            test::moving_rows, test::chain_rows, test::datagram_rows, test::process_rows,
                            test::file_rows, test::name_rows}) {
      std::vector<test::row> some = part();
      all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    }
    return all;
  }();
  return rows;
}

struct entry {
  test::row const* row;
  script what;
};

std::vector<entry> entries() {
  std::vector<entry> all;
  for (test::row const& r : table())
    test::for_each_script([&](script s) {
      if (r.expected(s).has_value()) all.push_back({&r, s});
    });
  return all;
}

void PrintTo(entry const& e, std::ostream* out) { *out << e.row->name << ", " << test::name_of(e.what); }

class operations : public ::testing::TestWithParam<entry> {};

std::vector<test::cell> play_everywhere(test::row const& r, script s,
                                        std::vector<std::string> const& drivers) {
  std::vector<test::cell> cells;
  auto const play = [&](std::string const& where, test::style how, io_multiplexer* m) {
    SCOPED_TRACE(where);
    cells.push_back({where, r.play(s, how, m)});
  };
  if (r.has(s, test::style::blocking)) play("blocking", test::style::blocking, nullptr);
  for (std::string const& driver : drivers) {
    auto const m = test::make_multiplexer(driver.c_str()).value();
    if (auto f = unio::file_handle::file({}, "/dev/null"); f.has_value()) {
      f->set_multiplexer(m.get()); // the first operation on a file has a ring open a pipe for itself
      (void)f->barrier();
    }
    test::for_each_style([&](test::style how) {
      if (how == test::style::blocking || !r.has(s, how)) return;
      std::string const where = driver + " " + test::name_of(how);
      if (how != test::style::elsewhere) return play(where, how, m.get());
      // Another thread runs it, alone or as one of several: this one has begun to run the other.
      for (int const threads : {1, 2}) {
        std::ptrdiff_t const descriptors = test::count_descriptors();
        test::environment_variable const of_each_thread("UNIO_DRIVER", driver.c_str());
        play(threads == 1 ? where : where + ", of several threads", how,
             test::make_multiplexer(driver.c_str(), threads).value().get());
        EXPECT_EQ(test::count_descriptors(), descriptors) << "a descriptor leaked: " << where;
      }
    });
  }
  return cells;
}

TEST_P(operations, end_the_same_on_every_driver_and_in_every_style) {
  if (GetParam().row->name.ends_with("_on_ipv6")) {
    static std::string const missing = test::no_ipv6();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
  if (GetParam().row->name.ends_with("_past_the_cache")) {
    static std::string const missing = test::no_direct_io(test::directory().path());
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
  std::vector<test::cell> const cells =
      play_everywhere(*GetParam().row, GetParam().what, test::available_drivers());
  for (std::string const& d : test::differences(*GetParam().row->expected(GetParam().what), cells))
    ADD_FAILURE() << d;
}

INSTANTIATE_TEST_SUITE_P(table, operations, ::testing::ValuesIn(entries()), [](auto const& of) {
  return of.param.row->name + "__" + test::name_of(of.param.what);
});

TEST(operation_table, has_both_drivers) {
  std::string missing;
  if (test::available_drivers(&missing).size() < 2)
    GTEST_SKIP() << "the table has only one driver. " << missing;
}
// ---- canaries: what is wrong has to be noticed -----------------------------------------------------------

TEST(operation_table, finds_nothing_where_all_is_as_it_should_be) {
  ending const e{"hello", 5};
  EXPECT_TRUE(test::differences(e, {{"a", e}, {"b", e}}).empty());
}

TEST(operation_table, notices_lost_bytes_other_data_and_other_errors) {
  ending const e{"hello", 5};
  for (ending const& wrong : {ending{"hello", 4}, ending{"hellp", 5}, ending{},
                              test::failure(unio::condition::canceled), test::failure(EPIPE)}) {
    auto const found = test::differences(e, {{"first", e}, {"second", wrong}});
    ASSERT_EQ(found.size(), 2U) << to_string(wrong); // not as expected, and not as the other
    EXPECT_TRUE(found[0].starts_with("second: ")) << found[0];
    EXPECT_EQ(found[1], "second differs from first");
  }
  EXPECT_NE(test::failure(unio::condition::canceled), test::failure(unio::condition::timed_out));
}

TEST(operation_table, notices_that_nothing_was_played) { EXPECT_EQ(test::differences({}, {}).size(), 1U); }

// A row that claims what is not so.
struct read_that_expects_another_text : read_from<pipe_ends> {
  static ending value() { return {"hullo", 5}; }
  using read_from::read_from;
};

// A row whose operation loses the last byte when it is awaited.
struct read_that_loses_a_byte : read_from<pipe_ends> {
  using read_from::read_from;
  auto await(deadline d) { return ends.source.co_read(unio::mutable_buffer(memory, 4), d); }
};

TEST(operation_table, notices_a_broken_row) {
  std::vector<std::string> const drivers = test::available_drivers();
  test::row const wrong = test::row_of<read_that_expects_another_text>("wrong");
  EXPECT_GE(test::differences(*wrong.expected(script::ready), play_everywhere(wrong, script::ready, drivers))
                .size(),
            6U);
  test::row const lossy = test::row_of<read_that_loses_a_byte>("lossy");
  auto const found =
      test::differences(*lossy.expected(script::waits), play_everywhere(lossy, script::waits, drivers));
  EXPECT_EQ(found.size(), 2 * drivers.size());
  for (std::string const& d : found) EXPECT_NE(d.find("awaited"), std::string::npos) << d;
}

} // namespace
