// Rows of the table of operations for the length and the space of files, for maps, and for tee.

#include "op/rows.hpp"
#include "support/ends.hpp"
#include "support/operation_table.hpp"
#include "support/spellings.hpp"
#include "support/test.hpp"

#include <unio/map_handle.hpp>

namespace {

using namespace test;
using test::failure;

// What has to be given to a thread is never done at once.
struct on_file : fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false;
  unio::file_handle file;

  on_file(io_multiplexer* m, script) {
    directory().write("file", "say hello");
    file = unio::file_handle::file(directory().handle(), "file", unio::handle::mode::write).value();
    file.set_multiplexer(m);
  }
  static std::string text() { return directory().read("file"); }
};

struct truncate_file : on_file {
  static ending value() { return {"say", 3}; }
  using on_file::on_file;
  UNIO_SPELLINGS(async_truncate, file, truncate, 3)
  ending reduce(sender::result_type r) {
    return r.has_value() ? ending{text(), static_cast<std::size_t>(*r)} : failure(r.error());
  }
};

struct truncate_too_far : on_file {
  static constexpr bool zero_is_enough = true;
  static ending value() { return failure(EFBIG); }
  using on_file::on_file;
  UNIO_SPELLINGS(async_truncate, file, truncate, unio::no_offset)
  static ending reduce(sender::result_type r) { return r.has_value() ? ending{} : failure(r.error()); }
};

struct truncate_mapped : fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false;
  static ending value() { return {"5 in the map", 5}; }
  unio::mapped_file_handle file;

  truncate_mapped(io_multiplexer* m, script) {
    directory().write("mapped", "say hello");
    file = unio::mapped_file_handle::mapped_file(directory().handle(), "mapped", unio::handle::mode::write)
               .value();
    file.set_multiplexer(m);
  }
  using sender = unio::async_truncate;
  template <class S = sender> S describe(unio::deadline d) { return S(file, 5, d); }
  auto block(unio::deadline d) { return static_cast<unio::file_handle&>(file).truncate(5, d); }
  auto await(unio::deadline d) { return file.co_truncate(5, d); }
  ending brought(sender::result_type r) {
    return {std::to_string(file.length()) + " in the map", static_cast<std::size_t>(*r)};
  }
};

struct maximum_extent : on_file {
  static ending value() { return {"", 9}; }
  using on_file::on_file;
  UNIO_SPELLINGS(async_maximum_extent, file, maximum_extent)
  static ending reduce(sender::result_type r) {
    return r.has_value() ? ending{"", static_cast<std::size_t>(*r)} : failure(r.error());
  }
};

struct zero : on_file {
  static ending value() { return {std::string("say \0\0\0lo", 9)}; }
  using on_file::on_file;
  UNIO_SPELLINGS(async_zero, file, zero, 4, 3)
  static ending reduce(sender::result_type r) { return r.has_value() ? ending{text()} : failure(r.error()); }
};

template <unio::allocation How> struct allocate : on_file {
  static ending value() { return {"", How == unio::allocation::grow ? 8192U : 9U}; }
  using on_file::on_file;
  UNIO_SPELLINGS(async_allocate, file, allocate, 0, 8192, How)
  static ending reduce(sender::result_type r) {
    return r.has_value() ? ending{"", text().size()} : failure(r.error());
  }
};

template <unio::access_advice What> struct advise : on_file {
  static constexpr bool zero_is_enough =
      What != unio::access_advice::will_need && What != unio::access_advice::dont_need;
  using on_file::on_file;
  UNIO_SPELLINGS(async_advise, file, advise, 0, 0, What)
};

struct write_back : on_file {
  using on_file::on_file;
  UNIO_SPELLINGS(async_write_back, file, write_back, 0, 0)
};

struct extents : on_file {
  static ending value() { return {"0+9 "}; }
  using on_file::on_file;
  std::array<unio::file_extent, 4> found;
  UNIO_SPELLINGS(async_extents, file, extents, std::span(found), 0)
  static ending brought(sender::result_type r) {
    std::string all;
    for (unio::file_extent const& e : *r)
      all += std::to_string(e.offset) + "+" + std::to_string(e.bytes) + " ";
    return {all};
  }
};

struct clone_extents : on_file {
  static ending value() { return {"we say hello", 5}; }
  unio::file_handle to;
  clone_extents(io_multiplexer* m, script s) : on_file(m, s) {
    directory().write("clone", "we say nothi");
    to = unio::file_handle::file(directory().handle(), "clone", unio::handle::mode::write).value();
  }
  UNIO_SPELLINGS(async_clone_extents, file, clone_extents_to, 4, unio::no_offset / 4, to, 7)
  static ending brought(sender::result_type r) {
    return {directory().read("clone"), static_cast<std::size_t>(r->bytes)};
  }
};

struct clone_to_a_pipe : on_file {
  static ending value() { return failure(EINVAL); }
  pipe_ends to;
  using on_file::on_file;
  UNIO_SPELLINGS(async_clone_extents, file, clone_extents_to, 0, 9, to.sink, 0)
  static ending reduce(sender::result_type r) { return r.has_value() ? ending{} : failure(r.error()); }
};

// ---- maps -------------------------------------------------------------------------------------------------

struct on_map : on_file {
  unio::map_handle map;
  on_map(io_multiplexer* m, script s) : on_file(m, s) {
    map = unio::map_handle::section(file, 0, 0, unio::map_access::write).value();
    map.set_multiplexer(m);
  }
};

struct map_barrier : on_map {
  using on_map::on_map;
  UNIO_SPELLINGS(async_map_barrier, map, barrier, 0, 0)
};

struct map_barrier_too_far : on_map {
  static constexpr bool zero_is_enough = true;
  static ending value() { return failure(EINVAL); }
  using on_map::on_map;
  UNIO_SPELLINGS(async_map_barrier, map, barrier, 0, 1U << 20)
};

template <unio::access_advice What> struct map_advise : on_map {
  static constexpr bool zero_is_enough = advise<What>::zero_is_enough;
  using on_map::on_map;
  UNIO_SPELLINGS(async_map_advise, map, advise, 0, 0, What)
};

// ---- tee --------------------------------------------------------------------------------------------------

struct tee_pipes : fixture {
  static ending value() { return {"hellohello", 5}; }
  static ending at_end() { return {}; }
  pipe_ends from, to;

  tee_pipes(io_multiplexer* m, script) { from.source.set_multiplexer(m); }
  UNIO_FREE_SPELLINGS(async_tee, tee, from.source, to.sink, 100)
  void make_ready() { put(from.sink, "hello"); }
  void end() { ASSERT_TRUE(from.sink.close()); }
  void close() { ASSERT_TRUE(from.source.close()); }
  ending brought(sender::result_type r) {
    if (*r == 0) return {};
    return {take(from.source, *r) + take(to.source, *r), *r};
  }
};

} // namespace

std::vector<test::row> test::file_rows() {
  using unio::access_advice;
  using unio::allocation;
  return {row_of<truncate_file>("truncate"),
          row_of<truncate_too_far>("truncate_too_far"),
          row_of<truncate_mapped>("truncate_mapped_file"),
          row_of<maximum_extent>("maximum_extent"),
          row_of<zero>("zero"),
          row_of<allocate<allocation::grow>>("allocate"),
          row_of<allocate<allocation::keep_size>>("allocate_keep_size"),
          row_of<advise<access_advice::random>>("advise_random"),
          row_of<advise<access_advice::no_reuse>>("advise_no_reuse"),
          row_of<advise<access_advice::will_need>>("advise_will_need"),
          row_of<advise<access_advice::dont_need>>("advise_dont_need"),
          row_of<write_back>("write_back"),
          row_of<extents>("extents"),
          row_of<clone_extents>("clone_extents"),
          row_of<clone_to_a_pipe>("clone_extents_to_a_pipe"),
          row_of<map_barrier>("map_barrier"),
          row_of<map_barrier_too_far>("map_barrier_too_far"),
          row_of<map_advise<access_advice::random>>("map_advise_random"),
          row_of<map_advise<access_advice::will_need>>("map_advise_will_need"),
          row_of<tee_pipes>("tee")};
}
