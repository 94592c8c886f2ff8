// map_handle.hpp and guard_maps(): memory that grows, files as memory, and files that are cut short.

#include "support/calls.hpp"
#include "support/child.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/map_handle.hpp>

#include <sys/mount.h>

namespace {

using namespace test;
using unio::file_handle;

auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

file_handle opened_in(test::temporary_directory const& d, char const* name, mode m = mode::write) {
  return file_handle::file(d.handle(), name, m,
                           m == mode::write ? creation::if_needed : creation::open_existing)
      .value();
}
std::string text_of(map_handle const& m, std::size_t offset, std::size_t n) {
  return {reinterpret_cast<char const*>(m.address()) + offset, n};
}
void put(map_handle& m, std::size_t offset, std::string_view text) {
  std::memcpy(m.address() + offset, text.data(), text.size());
}

// ---- anonymous memory -------------------------------------------------------------------------------------

TEST(map_handle, is_memory_that_grows_in_place) {
  map_handle m = map_handle::anonymous(10, 64 * page).value();
  std::byte* const at = m.address();
  EXPECT_EQ(m.length(), 10U);
  put(m, 0, "0123456789");
  ASSERT_EQ(m.resize(32 * page).value(), 32 * page);
  EXPECT_EQ(m.address(), at);
  put(m, 31 * page, "end");
  EXPECT_EQ(text_of(m, 0, 12), std::string("0123456789\0\0", 12));
  ASSERT_EQ(m.resize(5).value(), 5U);
  ASSERT_EQ(m.resize(10).value(), 10U);
  EXPECT_EQ(text_of(m, 0, 10), std::string("01234\0\0\0\0\0", 10));
  ASSERT_EQ(m.resize(1000 * page).value(), 1000 * page) << "beyond the reservation it may move";
  EXPECT_EQ(text_of(m, 0, 5), "01234");
  EXPECT_EQ(text_of(m, 999 * page, 1), std::string(1, '\0'));
  EXPECT_EQ(m.resize(0).error().value(), EINVAL);
  EXPECT_EQ(m.resize(unio::no_offset).error().value(), ENOMEM);
  EXPECT_EQ(map_handle::anonymous(0).error().value(), EINVAL);
}

TEST(map_handle, gives_ranges_back_and_zeroes_them) {
  map_handle m = map_handle::anonymous(8 * page).value();
  std::fill(m.bytes().begin(), m.bytes().end(), std::byte{'x'});
  ASSERT_TRUE(m.zero(page + 10, 3 * page));
  EXPECT_EQ(text_of(m, page + 9, 2), std::string("x\0", 2));
  EXPECT_EQ(text_of(m, 4 * page + 9, 2), std::string("\0x", 2));
  EXPECT_EQ(std::count(m.bytes().begin(), m.bytes().end(), std::byte{0}),
            static_cast<std::ptrdiff_t>(3 * page));
  ASSERT_TRUE(m.decommit(6 * page, page));
  ASSERT_TRUE(m.commit(6 * page, page));
  EXPECT_EQ(text_of(m, 6 * page, 1), std::string(1, '\0'));
  EXPECT_EQ(m.decommit(1, page).error().value(), EINVAL);
  EXPECT_EQ(m.decommit(7 * page, 2 * page).error().value(), EINVAL);
  EXPECT_EQ(m.zero(8 * page, 1).error().value(), EINVAL);
  std::fill(m.bytes().begin(), m.bytes().end(), std::byte{'x'});
  ASSERT_TRUE(m.advise(0, page, unio::access_advice::dont_need));
  EXPECT_EQ(text_of(m, 0, 1), std::string(1, '\0'));
  ASSERT_TRUE(m.advise(0, 0, unio::access_advice::random));
  EXPECT_TRUE(m.barrier(0, 0)) << "no file: nothing to be made durable";
  EXPECT_EQ(m.read_copy(0, {}).error().value(), EBADF);
}

TEST(map_handle, shrinks_where_a_range_was_given_back) {
  map_handle m = map_handle::anonymous(4 * page).value();
  std::fill(m.bytes().begin(), m.bytes().end(), std::byte{'x'});
  ASSERT_TRUE(m.decommit(page, 3 * page));
  ASSERT_EQ(m.resize(page + 10).value(), page + 10);
  EXPECT_EQ(text_of(m, page - 1, 3), std::string("x\0\0", 3));
  ASSERT_EQ(m.resize(3 * page).value(), 3 * page);
  EXPECT_EQ(text_of(m, 3 * page - 1, 1), std::string(1, '\0'));
}

TEST(map_handle, grows_whatever_was_advised_of_its_parts) {
  test::temporary_directory const d;
  d.write("a", std::string(4 * page, 'a'));
  map_handle section = map_handle::section(opened_in(d, "a"), 0, 0, map_access::write).value();
  map_handle own = map_handle::anonymous(4 * page).value();
  put(own, 0, "own");
  for (map_handle* const m : {&own, &section}) {
    ASSERT_TRUE(m->advise(page, page, unio::access_advice::random));
    auto const grown = m->resize(1000 * page);
    ASSERT_TRUE(grown) << grown.error().message();
    m->address()[1000 * page - 1] = std::byte{'z'};
  }
  EXPECT_EQ(text_of(own, 0, 3), "own");
  EXPECT_EQ(text_of(section, 4 * page - 1, 2), std::string("a\0", 2));
}

TEST(mapped, of_more_objects_than_there_are_bytes_is_refused) {
  constexpr std::size_t too_many = std::numeric_limits<std::size_t>::max() / sizeof(std::uint64_t) + 2;
  using numbers = unio::mapped<std::uint64_t>;
  EXPECT_EQ(numbers::anonymous(too_many).error().value(), ENOMEM);
  EXPECT_EQ(numbers::anonymous(1, too_many).error().value(), ENOMEM);
  numbers m = numbers::anonymous(5).value();
  EXPECT_EQ(m.resize(too_many).error().value(), ENOMEM);
  EXPECT_EQ(m.size(), 5U);
  test::temporary_directory const d;
  d.write("a", std::string(page, 'a'));
  EXPECT_EQ(numbers::section(opened_in(d, "a"), 0, too_many).error().value(), EINVAL);
}

// ---- sections ---------------------------------------------------------------------------------------------

TEST(map_handle, is_a_section_of_a_file) {
  test::temporary_directory const d;
  d.write("a", std::string(page, 'a') + "hello");
  file_handle f = opened_in(d, "a");
  map_handle m = map_handle::section(f, page, 0, map_access::write, 16 * page).value();
  EXPECT_EQ(m.length(), 5U);
  ASSERT_TRUE(f.close()) << "the map has a descriptor of its own";
  put(m, 0, "HE");
  ASSERT_TRUE(m.barrier(0, 5));
  EXPECT_EQ(d.read("a").substr(page), "HEllo");
  std::byte* const at = m.address();
  ASSERT_EQ(m.resize(2 * page).value(), 2 * page);
  EXPECT_EQ(m.address(), at);
  put(m, 2 * page - 3, "end");
  EXPECT_EQ(d.read("a").size(), 3 * page);
  EXPECT_EQ(d.read("a").substr(3 * page - 3), "end");
  ASSERT_TRUE(m.zero(0, page));
  EXPECT_EQ(text_of(m, 0, 2), std::string(2, '\0'));
  std::byte copy[8] = {};
  EXPECT_EQ(m.read_copy(2 * page - 3, copy).value(), 3U);
  EXPECT_EQ(std::memcmp(copy, "end", 3), 0);
  EXPECT_EQ(m.write_copy(1, std::as_bytes(std::span("xy", 2))).value(), 2U);
  EXPECT_EQ(text_of(m, 0, 3), std::string("\0xy", 3));
  EXPECT_EQ(m.read_copy(3 * page, copy).error().value(), EINVAL);
}

TEST(map_handle, takes_in_what_another_process_adds) {
  test::temporary_directory const d;
  d.write("a", "first");
  file_handle f = opened_in(d, "a", mode::read);
  map_handle m = map_handle::section(f, 0, 4 * page).value();
  EXPECT_EQ(m.length(), 5U);
  std::string const more(2 * page, 'z');
  ASSERT_EQ(test::in_child([&] {
              d.write("a", "first" + more);
              return 0;
            }),
            0);
  EXPECT_EQ(m.update().value(), 5 + more.size());
  EXPECT_EQ(text_of(m, 2 * page, 5), "zzzzz");
  EXPECT_EQ(m.resize(8 * page).error().value(), EACCES);
  EXPECT_EQ(m.write_copy(0, {}).error().value(), EBADF);
  EXPECT_EQ(m.zero(0, 1).error().value(), EACCES);
}

TEST(map_handle, does_not_cut_what_another_process_adds_while_it_is_resized) {
  test::temporary_directory const d;
  static std::string path;
  path = d / "a";
  d.write("a", "first");
  map_handle m = map_handle::section(opened_in(d, "a"), 0, page, map_access::write).value();
  test::replaced_calls calls;
  calls->fstat = [](int fd, struct stat* s) noexcept { // the other one comes after it
    auto const r = unio::sys::kernel.fstat(fd, s);
    EXPECT_EQ(::truncate(path.c_str(), static_cast<off_t>(4 * page)), 0);
    return r;
  };
  EXPECT_EQ(m.resize(2 * page).value(), 2 * page);
  EXPECT_EQ(d.read("a").size(), 4 * page);
}

TEST(map_handle, keeps_changes_of_copy_on_write_to_itself) {
  test::temporary_directory const d;
  d.write("a", "hello");
  map_handle m = map_handle::section(opened_in(d, "a"), 0, 0, map_access::copy_on_write).value();
  put(m, 0, "HELLO");
  ASSERT_TRUE(m.barrier(0, 0));
  ASSERT_TRUE(m.zero(1, 2));
  EXPECT_EQ(text_of(m, 0, 5), std::string("H\0\0LO", 5));
  EXPECT_EQ(d.read("a"), "hello");
}

TEST(map_handle, refuses_what_cannot_be_mapped) {
  test::temporary_directory const d;
  d.write("a", "hello");
  file_handle reader = opened_in(d, "a", mode::read);
  EXPECT_EQ(map_handle::section(reader, 0, 0, map_access::write).error().value(), EACCES);
  EXPECT_EQ(map_handle::section(reader, 1, 2).error().value(), EINVAL);
  EXPECT_EQ(map_handle::section(reader, page, 0).error().value(), EINVAL);
  file_handle null = file_handle::file({}, "/dev/null").value();
  EXPECT_EQ(map_handle::section(null, 0, 10).error().value(), ENODEV);
}

TEST(map_handle, is_moved_with_its_memory) {
  map_handle a = map_handle::anonymous(page).value();
  put(a, 0, "x");
  map_handle b = std::move(a);
  EXPECT_FALSE(a.is_open()); // NOLINT
  EXPECT_EQ(text_of(b, 0, 1), "x");
  b = map_handle::anonymous(2 * page).value();
  EXPECT_EQ(b.length(), 2 * page);
  b.close();
  EXPECT_FALSE(b);
}

TEST(map_handle, reports_what_the_device_says) {
  test::temporary_directory const d;
  d.write("a", "hello");
  map_handle m = map_handle::section(opened_in(d, "a"), 0, 0, map_access::write).value();
  test::replaced_calls calls;
  calls->msync = [](void*, std::size_t, int) noexcept -> std::int64_t { return -EIO; };
  EXPECT_EQ(m.barrier(0, 0).error().value(), EIO);
}

TEST(mapped, is_an_array_in_a_file) {
  test::temporary_directory const d;
  struct point {
    std::int32_t x, y;
  };
  file_handle f = opened_in(d, "points");
  ASSERT_TRUE(f.truncate(3 * sizeof(point) + 1));
  auto points = unio::mapped<point>::section(f, 0, 0, map_access::write, 1000).value();
  ASSERT_EQ(points.size(), 3U) << "as many as fit";
  points[2] = {7, 8};
  ASSERT_EQ(points.resize(100).value(), 100U);
  points.span().back() = {1, 2};
  int sum = 0;
  for (point const& p : points) sum += p.x + p.y;
  EXPECT_EQ(sum, 18);
  EXPECT_EQ(d.read("points").size(), 100 * sizeof(point));
  auto numbers = unio::mapped<std::uint64_t>::anonymous(10).value();
  EXPECT_EQ(numbers.size(), 10U);
  numbers[9] = 1;
}

// ---- files that are cut short -----------------------------------------------------------------------------

TEST(map_guard, is_not_needed_for_copies) {
  test::temporary_directory const d;
  d.write("a", std::string(4 * page, 'a'));
  map_handle m = map_handle::section(opened_in(d, "a"), 0, 0, map_access::write).value();
  ASSERT_EQ(::truncate((d / "a").c_str(), static_cast<off_t>(page)), 0);
  std::string into(4 * page, 'x');
  EXPECT_EQ(m.read_copy(0, std::as_writable_bytes(std::span(into))).value(), page);
  EXPECT_EQ(m.read_copy(2 * page, std::as_writable_bytes(std::span(into))).value(), 0U);
}

TEST(map_guard, is_off_by_default) {
  struct sigaction now{};
  ASSERT_EQ(::sigaction(SIGBUS, nullptr, &now), 0);
  std::string const before(reinterpret_cast<char const*>(&now.sa_handler), sizeof now.sa_handler);
  map_handle const m = map_handle::anonymous(page).value();
  ASSERT_EQ(::sigaction(SIGBUS, nullptr, &now), 0);
  EXPECT_EQ(std::string(reinterpret_cast<char const*>(&now.sa_handler), sizeof now.sa_handler), before);
}

// A process of its own, whose handlers are as they were when it began.
template <class F> int in_guarded_child(F f) {
  return test::in_child([&] {
    CHILD_EXPECTS(unio::guard_maps() && unio::guard_maps()); // twice is once
    return f();
  });
}

TEST(map_guard, makes_zeros_of_what_was_cut_off) {
  test::temporary_directory const d;
  d.write("a", std::string(4 * page, 'a'));
  EXPECT_EQ(in_guarded_child([&] {
              map_handle m = map_handle::section(opened_in(d, "a"), 0, 0, map_access::write).value();
              auto volatile const* const at = reinterpret_cast<char volatile*>(m.address());
              CHILD_EXPECTS(!m.was_cut() && at[3 * page] == 'a');
              CHILD_EXPECTS(::truncate((d / "a").c_str(), static_cast<off_t>(page)) == 0);
              CHILD_EXPECTS(at[3 * page] == 0 && at[2 * page + 5] == 0 && at[0] == 'a');
              CHILD_EXPECTS(m.was_cut());
              CHILD_EXPECTS(m.update().value() == page && !m.was_cut());
              d.write("a", std::string(4 * page, 'b'));
              CHILD_EXPECTS(m.update().value() == 4 * page && at[3 * page] == 'b');
              return 0;
            }),
            0);
}

// Hard case 64: a hole has no room of its own until something is stored there. What has its bytes copied is
// told at once; a plain store is lost, and was_cut() tells.
TEST(map_guard, tells_of_holes_that_a_full_filesystem_has_no_room_for) {
  test::temporary_directory const d;
  std::filesystem::create_directory(d / "full");
  if (::mount("none", (d / "full").c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  EXPECT_EQ(in_guarded_child([&] {
              constexpr extent_type bytes = 1 << 20;
              auto file = opened_in(d, "full/a");
              CHILD_EXPECTS(file.truncate(bytes).value() == bytes);
              map_handle m = map_handle::section(file, 0, 0, map_access::write).value();
              auto volatile* const at = reinterpret_cast<char volatile*>(m.address());
              std::size_t stored = 0;
              for (std::size_t i = 0; i < bytes && !m.was_cut(); i += page, ++stored) at[i] = 'x';
              CHILD_EXPECTS(m.was_cut() && stored <= 1 + (64 << 10) / page);
              CHILD_EXPECTS(at[0] == 'x');
              std::string const text(page, 'y');
              auto const copied = m.write_copy(bytes - page, std::as_bytes(std::span(text)));
              CHILD_EXPECTS(copied.error().value() == ENOSPC);
              auto const allocated = file.allocate(0, bytes, unio::allocation::grow);
              return CHILD_MEETS(allocated.error().value() == ENOSPC);
            }),
            0);
  ::umount((d / "full").c_str());
}

TEST(map_guard, protects_views_of_mapped_files) {
  test::temporary_directory const d;
  d.write("a", std::string(4 * page, 'a'));
  EXPECT_EQ(in_guarded_child([&] {
              auto f = unio::mapped_file_handle::mapped_file(d.handle(), "a").value();
              char buffer[1];
              auto const view = f.read({unio::mutable_buffer(buffer, 1), 3 * page}).value();
              auto volatile const* const at = reinterpret_cast<char volatile const*>(view.front().data());
              CHILD_EXPECTS(at[0] == 'a');
              CHILD_EXPECTS(::truncate((d / "a").c_str(), 5) == 0);
              CHILD_EXPECTS(at[0] == 0 && f.was_cut());
              d.write("a", std::string(4 * page, 'b'));
              CHILD_EXPECTS(f.update_map().value() == 4 * page && !f.was_cut());
              return CHILD_MEETS(f.address()[3 * page] == std::byte{'b'});
            }),
            0);
}

TEST(mapped_file, may_be_written_through_its_memory) {
  test::temporary_directory const d;
  d.write("a", "hello");
  auto f = unio::mapped_file_handle::mapped_file(d.handle(), "a", mode::write, creation::open_existing, 0,
                                                 unio::handle::caching::all, unio::handle::flag::none,
                                                 map_access::write)
               .value();
  f.address()[0] = std::byte{'J'};
  EXPECT_EQ(d.read("a"), "Jello");
  EXPECT_EQ(unio::mapped_file_handle::mapped_file(d.handle(), "a", mode::read, creation::open_existing, 0,
                                                  unio::handle::caching::all, unio::handle::flag::none,
                                                  map_access::write)
                .error()
                .value(),
            EACCES);
}

// One process cuts the file and lets it grow again, all the time; the other one touches all of it.
TEST(map_guard, survives_a_file_that_is_cut_all_the_time) {
  test::temporary_directory const d;
  d.write("a", std::string(64 * page, 'a'));
  EXPECT_EQ(in_guarded_child([&] {
              pid_t const cutter = ::fork();
              if (cutter == 0)
                for (std::string const name = d / "a";;) {
                  (void)!::truncate(name.c_str(), 0);
                  (void)!::truncate(name.c_str(), static_cast<off_t>(64 * page));
                }
              bool fine = true;
              {
                map_handle m =
                    map_handle::section(opened_in(d, "a"), 0, 64 * page, map_access::write).value();
                for (int round = 0; round != 300; ++round) {
                  auto volatile* const at = reinterpret_cast<char volatile*>(m.address());
                  for (std::size_t i = 0; i != 64; ++i) {
                    char const first = at[i * page]; // once: it may be cut between two looks
                    fine = fine && (first == 0 || first == 'a');
                    at[i * page + 1] = 'x';
                  }
                  fine = fine && m.update().has_value();
                }
              }
              ::kill(cutter, SIGKILL);
              ::waitpid(cutter, nullptr, 0);
              return CHILD_MEETS(fine);
            }),
            0);
}

// Where a map was that has been moved there is soon one of another thread.
TEST(map_guard, tells_each_map_what_was_cut_though_others_are_moved) {
  test::temporary_directory const d;
  d.write("a", std::string(20 * page, 'a'));
  EXPECT_EQ(in_guarded_child([&] {
              std::atomic<bool> stop = false;
              std::vector<std::thread> movers;
              for (char const* name : {"b", "c", "d", "e"})
                movers.emplace_back([&, name] {
                  auto const f = opened_in(d, "a");
                  while (!stop) {
                    map_handle m = map_handle::section(f, 0, page, map_access::read).value();
                    for (extent_type n = 2; n != 20; ++n) m.resize(n * page).value();
                    auto view = unio::mapped_file_handle::mapped_file(d.handle(), name, mode::write,
                                                                      creation::if_needed, page)
                                    .value();
                    view.truncate(2 * page).value();
                    view.truncate(page).value();
                  }
                });
              std::atomic<int> untold = 0;
              auto const cut_often = [&](char const* name) {
                auto file = opened_in(d, name);
                for (int round = 0; round != 5000; ++round) {
                  file.truncate(2 * page).value();
                  map_handle const m = map_handle::section(file, 0, 2 * page, map_access::read).value();
                  file.truncate(page).value();
                  (void)*reinterpret_cast<char volatile const*>(m.address() + page);
                  untold += m.was_cut() ? 0 : 1;
                }
              };
              std::thread other(cut_often, "cut");
              cut_often("too");
              other.join();
              stop = true;
              for (auto& t : movers) t.join();
              return CHILD_MEETS(untold == 0);
            }),
            0);
}

std::atomic<int> others = 0;

TEST(map_guard, leaves_other_faults_to_the_handler_before) {
  test::temporary_directory const d;
  d.write("a", std::string(2 * page, 'a'));
  test::expect_in_child([&] {
    struct sigaction mine{};
    mine.sa_sigaction = [](int, siginfo_t* s, void*) {
      ++others;
      if (s->si_code == SI_USER || s->si_code == SI_TKILL) return;
      ::_exit(s->si_code == BUS_ADRERR ? 0 : 7);
    };
    mine.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &mine, nullptr);
    CHILD_EXPECTS(unio::guard_maps());
    ::raise(SIGBUS);
    CHILD_EXPECTS(others == 1);
    // Memory that is not the library's.
    file_handle f = opened_in(d, "a");
    void* const at = ::mmap(nullptr, 2 * page, PROT_READ, MAP_SHARED, f.native_handle(), 0);
    CHILD_EXPECTS(f.truncate(0));
    return static_cast<char volatile*>(at)[page] == 0 ? 4 : 5;
  });
}

} // namespace
