// Rows of the table of operations for names, metadata and directories.

#include "op/rows.hpp"
#include "support/operation_table.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;
using test::failure;

/// Shared by all rows: a file "a" of nine bytes, a link "link" to it and an empty directory "below".
struct names : test::temporary_directory {
  names() {
    write("a", "say hello");
    std::filesystem::create_symlink("a", *this / "link");
    std::filesystem::create_directory(*this / "below");
  }
};
names& named_files() {
  static names d;
  return d;
}

/// An operation on names, which never waits.
struct on_names : fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false; // only a thread that may block can make the call
  path_handle base = path_handle::path(named_files().path()).value();
  explicit on_names(io_multiplexer* m) {
    base.set_multiplexer(m);
    clean();
  }
  /// Removes what a row makes.
  static void clean() {
    for (char const* const name : {"new", "other", "made"}) std::filesystem::remove_all(named_files() / name);
  }
  static bool exists(char const* name) {
    return std::filesystem::exists(std::filesystem::symlink_status(named_files() / name));
  }
};

// ---- metadata --------------------------------------------------------------------------------------------

struct stat_handle : on_names {
  static ending value() { return {"a file of 9 bytes"}; }
  unio::file_handle file;
  static constexpr auto wanted = unio::stat_fields::everything;
  stat_handle(io_multiplexer* m, script) : on_names(m) {
    file = unio::file_handle::file(named_files().handle(), "a").value();
    file.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_stat, file, stat, wanted)
  ending brought(sender::result_type r) {
    std::string const kind = r->kind == unio::entry_kind::file ? "a file" : "something";
    return {kind + " of " + std::to_string(r->size) + " bytes"};
  }
};

template <bool Exists> struct stat_name : on_names {
  static ending value() { return Exists ? ending{"a link"} : failure(ENOENT); }
  stat_name(io_multiplexer* m, script) : on_names(m) {}
  static constexpr auto wanted = unio::stat_fields::kind;
  static constexpr auto how = unio::last_link::itself;
  UNIO_FREE_SPELLINGS(async_stat, stat, base, Exists ? "link" : "missing", wanted, how)
  ending brought(sender::result_type r) {
    return {r->kind == unio::entry_kind::symlink ? "a link" : "something"};
  }
};

struct stat_all : on_names {
  static ending value() { return {"a link, no such file, an embedded NUL"}; }
  std::string with_nul{"a\0b", 3};
  unio::stat_of_name all[3] = {{"link"}, {"missing"}, {with_nul}};
  stat_all(io_multiplexer* m, script) : on_names(m) {}
  static constexpr auto wanted = unio::stat_fields::kind;
  static constexpr auto how = unio::last_link::itself;
  UNIO_FREE_SPELLINGS(async_stat_all, stat_all, base, all, wanted, how)
  ending brought(sender::result_type const&) {
    std::string text =
        !all[0].error && all[0].value.kind == unio::entry_kind::symlink ? "a link" : "something";
    if (all[1].error == std::errc::no_such_file_or_directory) text += ", no such file";
    if (all[2].error == unio::error::embedded_nul) text += ", an embedded NUL";
    return {text};
  }
};

struct set_metadata_of_handle : on_names {
  static ending value() { return {"0640"}; }
  unio::file_handle file;
  unio::metadata_change change{.permissions = 0640};
  set_metadata_of_handle(io_multiplexer* m, script) : on_names(m) {
    named_files().write("new", "");
    file = unio::file_handle::file(named_files().handle(), "new").value();
    file.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_set_metadata, file, set_metadata, change)
  ending brought(sender::result_type const&) {
    auto const p = std::filesystem::status(named_files() / "new").permissions();
    return {p == std::filesystem::perms(0640) ? "0640" : "other permissions"};
  }
};

struct set_metadata_of_name : on_names {
  static ending value() { return failure(ENOENT); }
  unio::metadata_change change{.modified = unio::metadata_change::now};
  set_metadata_of_name(io_multiplexer* m, script) : on_names(m) {}
  static constexpr auto how = unio::last_link::followed;
  UNIO_FREE_SPELLINGS(async_set_metadata, set_metadata, base, "missing", change, how)
};

struct stat_volume : on_names {
  static ending value() { return {"names of 255 bytes"}; }
  stat_volume(io_multiplexer* m, script) : on_names(m) {}
  UNIO_SPELLINGS(async_stat_volume, base, stat_volume)
  ending brought(sender::result_type r) {
    EXPECT_LE(r->available, r->free);
    EXPECT_LE(r->free, r->total);
    return {"names of " + std::to_string(r->longest_name) + " bytes"};
  }
};

// ---- directories -----------------------------------------------------------------------------------------

struct read_directory : on_names {
  static ending value() { return {"a below link, all at once", 0}; }
  unio::directory_handle listed;
  alignas(8) std::byte memory[4096];
  unio::directory_filter filter;
  read_directory(io_multiplexer* m, script) : on_names(m) {
    listed = unio::directory_handle::directory(base, ".").value();
    listed.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_read_directory, listed, read, unio::mutable_buffer(memory), filter)
  void again() { ASSERT_TRUE(listed.rewind()); }
  void close() { ASSERT_TRUE(listed.close()); }
  ending brought(sender::result_type const& r) {
    std::set<std::string> names; // in an order of its own
    for (unio::directory_entry const e : *r) names.emplace(e.name());
    std::string text;
    for (std::string const& n : names) text.append(text.empty() ? "" : " ").append(n);
    return {text + (r->is_snapshot() && r->at_end() ? ", all at once" : "")};
  }
};

struct read_directory_filtered : read_directory {
  static ending value() { return {"below, all at once", 0}; }
  read_directory_filtered(io_multiplexer* m, script s) : read_directory(m, s) {
    filter.wants = [](unio::directory_entry const& e, void*) noexcept { return e.name() == "below"; };
  }
};

template <bool Exists> struct open_directory : on_names {
  static ending value() { return Exists ? ending{"opened"} : failure(ENOTDIR); }
  static constexpr char const* name = Exists ? "below" : "a";
  open_directory(io_multiplexer* m, script) : on_names(m) {}
  static constexpr auto creation = unio::handle::creation::open_existing;
  static constexpr auto flag = unio::handle::flag::none;
  UNIO_FREE_SPELLINGS(async_open_directory, open_directory, base, name, creation, flag)
  ending brought(sender::result_type r) {
    EXPECT_EQ(r->kind(), unio::handle_kind::directory);
    return {"opened"};
  }
};

struct open_new_directory : open_directory<true> {
  static ending value() { return {"made"}; }
  open_new_directory(io_multiplexer* m, script s) : open_directory(m, s) {}
  static constexpr auto creation = unio::handle::creation::only_if_not_exist;
  static constexpr auto flag = unio::handle::flag::beneath;
  UNIO_FREE_SPELLINGS(async_open_directory, open_directory, base, "made", creation, flag)
  void again() { clean(); }
  ending brought(sender::result_type r) {
    return {r->current_path().value() == named_files() / "made" ? "made" : "elsewhere"};
  }
};

struct open_path : on_names {
  static ending value() { return {"opened"}; }
  open_path(io_multiplexer* m, script) : on_names(m) {}
  static constexpr auto flag = unio::handle::flag::no_symlinks;
  UNIO_FREE_SPELLINGS(async_open_path, open_path, base, "below", flag)
  ending reduce(sender::result_type const& r) {
    return r.has_value() ? ending{"opened"} : failure(r.error());
  }
};

template <bool IsLink> struct open_symlink : on_names {
  static ending value() { return IsLink ? ending{"opened"} : failure(EINVAL); }
  static constexpr char const* name = IsLink ? "link" : "a";
  open_symlink(io_multiplexer* m, script) : on_names(m) {}
  static constexpr auto flag = unio::handle::flag::none;
  UNIO_FREE_SPELLINGS(async_open_symlink, open_symlink, base, name, flag)
  ending reduce(sender::result_type const& r) {
    return r.has_value() ? ending{"opened"} : failure(r.error());
  }
};

struct read_symlink : on_names {
  static ending value() { return {"a", 1}; }
  unio::symlink_handle link = unio::symlink_handle::symlink(base, "link").value();
  char memory[16];
  read_symlink(io_multiplexer* m, script) : on_names(m) { link.set_multiplexer(m); }
  UNIO_SPELLINGS(async_read_symlink, link, read, unio::mutable_buffer(memory))
  void close() { ASSERT_TRUE(link.close()); }
  ending brought(sender::result_type const& r) { return {std::string(*r), r.bytes_transferred()}; }
};

// The buffer is as large as the target, so that more might be missing.
struct read_symlink_by_name : on_names {
  static ending value() { return failure(ERANGE); }
  char memory[1];
  read_symlink_by_name(io_multiplexer* m, script) : on_names(m) {}
  UNIO_FREE_SPELLINGS(async_read_symlink, read_symlink, base, "link", unio::mutable_buffer(memory))
  ending brought(sender::result_type const& r) { return {std::string(*r)}; }
};

// ---- names -----------------------------------------------------------------------------------------------

struct make_directory : on_names {
  static ending value() { return {"done, and there"}; }
  make_directory(io_multiplexer* m, script) : on_names(m) {}
  UNIO_FREE_SPELLINGS(async_make_directory, make_directory, base, "made", 0700U)
  void again() { clean(); }
  ending brought(sender::result_type const&) {
    return {std::filesystem::is_directory(named_files() / "made") ? "done, and there" : "done"};
  }
};

struct unlink_file : on_names {
  static ending value() { return {"done, and gone"}; }
  static constexpr auto what = unio::unlink_mode::file;
  unlink_file(io_multiplexer* m, script) : on_names(m) { again(); }
  UNIO_FREE_SPELLINGS(async_unlink, unlink, base, "new", what)
  void again() { named_files().write("new", ""); }
  ending brought(sender::result_type const&) { return {exists("new") ? "done" : "done, and gone"}; }
};

struct unlink_directory_that_is_a_file : on_names {
  static ending value() { return failure(ENOTDIR); }
  static constexpr auto what = unio::unlink_mode::directory;
  unlink_directory_that_is_a_file(io_multiplexer* m, script) : on_names(m) {}
  UNIO_FREE_SPELLINGS(async_unlink, unlink, base, "a", what)
};

template <unio::relink_mode How> struct rename_to_taken : on_names {
  static ending value() {
    if (How == unio::relink_mode::no_replace) return failure(EEXIST);
    return {How == unio::relink_mode::exchange ? "second, first" : ", first"};
  }
  rename_to_taken(io_multiplexer* m, script) : on_names(m) { again(); }
  UNIO_FREE_SPELLINGS(async_rename, rename, base, "new", base, "other", How)
  void again() {
    named_files().write("new", "first");
    named_files().write("other", "second");
  }
  ending brought(sender::result_type const&) {
    return {named_files().read("new") + ", " + named_files().read("other")};
  }
};

struct make_symlink : on_names {
  static ending value() { return {"any target"}; }
  static constexpr auto how = unio::relink_mode::replace;
  make_symlink(io_multiplexer* m, script) : on_names(m) { named_files().write("new", ""); }
  UNIO_FREE_SPELLINGS(async_make_symlink, make_symlink, base, "new", "any target", how)
  ending brought(sender::result_type const&) {
    return {std::filesystem::read_symlink(named_files() / "new").string()};
  }
};

struct hard_link : on_names {
  static ending value() { return {"say hello"}; }
  hard_link(io_multiplexer* m, script) : on_names(m) {}
  UNIO_FREE_SPELLINGS(async_hard_link, hard_link, base, "a", base, "new")
  void again() { clean(); }
  ending brought(sender::result_type const&) { return {named_files().read("new")}; }
};

// ---- names of what is open -------------------------------------------------------------------------------

struct of_open_file : on_names {
  unio::file_handle file;
  of_open_file(io_multiplexer* m, script) : on_names(m) { make(m); }
  void make(io_multiplexer* m) {
    clean();
    named_files().write("new", "say hello");
    file = unio::file_handle::file(named_files().handle(), "new").value();
    file.set_multiplexer(m);
  }
  void close() { ASSERT_TRUE(file.close()); }
};

struct relink_file : of_open_file {
  static ending value() { return {"say hello, moved"}; }
  using of_open_file::of_open_file;
  static constexpr auto how = unio::relink_mode::replace;
  UNIO_SPELLINGS(async_relink, file, relink, base, "other", how)
  ending brought(sender::result_type const&) {
    return {named_files().read("other") + (exists("new") ? "" : ", moved")};
  }
};

struct link_file : of_open_file {
  static ending value() { return {"say hello, twice"}; }
  using of_open_file::of_open_file;
  UNIO_SPELLINGS(async_link_inode, file, link, base, "other")
  void again() { std::filesystem::remove(named_files() / "other"); }
  ending brought(sender::result_type const&) {
    return {named_files().read("other") + (exists("new") ? ", twice" : "")};
  }
};

struct unlink_open_file : of_open_file {
  static ending value() { return {"done, and gone"}; }
  using of_open_file::of_open_file;
  UNIO_SPELLINGS(async_unlink_inode, file, unlink)
  void again() { make(file.own_multiplexer()); }
  ending brought(sender::result_type const&) { return {exists("new") ? "done" : "done, and gone"}; }
};

struct unlink_replaced_file : of_open_file {
  static ending value() { return failure(ENOENT); }
  unlink_replaced_file(io_multiplexer* m, script s) : of_open_file(m, s) {
    std::filesystem::rename(named_files() / "new", named_files() / "other");
    std::filesystem::remove(named_files() / "other");
    named_files().write("new", "another");
  }
  UNIO_SPELLINGS(async_unlink_inode, file, unlink)
};

struct parent_of_file : of_open_file {
  static ending value() { return {"its directory"}; }
  using of_open_file::of_open_file;
  UNIO_FREE_SPELLINGS(async_parent_of, parent_of, file)
  ending brought(sender::result_type const& r) {
    return {r->current_path().value() == named_files().path() ? "its directory" : "another"};
  }
};

// ---- extended attributes ---------------------------------------------------------------------------------

// Without them the rows say so, the same everywhere.
bool has_attributes() {
  static bool const known = [] {
    named_files().write("new", "");
    auto f = unio::file_handle::file(named_files().handle(), "new").value();
    return f.set_attribute("user.unio", unio::const_buffer("x", 1), unio::attribute_mode::set).has_value();
  }();
  return known;
}

struct set_attribute : of_open_file {
  static ending value() { return has_attributes() ? ending{"done"} : failure(EOPNOTSUPP); }
  using of_open_file::of_open_file;
  static constexpr auto mode = unio::attribute_mode::set;
  UNIO_SPELLINGS(async_set_attribute, file, set_attribute, "user.unio", unio::const_buffer("hello", 5), mode)
};

struct get_attribute : of_open_file {
  static ending value() { return has_attributes() ? ending{"hello", 5} : failure(EOPNOTSUPP); }
  char memory[16];
  get_attribute(io_multiplexer* m, script s) : of_open_file(m, s) {
    (void)unio::set_attribute(base, "new", "user.unio", unio::const_buffer("hello", 5),
                              unio::attribute_mode::set, unio::last_link::itself);
  }
  UNIO_SPELLINGS(async_get_attribute, file, get_attribute, "user.unio", unio::mutable_buffer(memory))
  ending brought(sender::result_type const& r) {
    return {std::string(reinterpret_cast<char const*>(r->data()), r->size()), r.bytes_transferred()};
  }
};

struct get_attribute_that_is_missing : of_open_file {
  static ending of_closed() { return value(); } // which it does not use
  static ending value() { return has_attributes() ? failure(ENODATA) : failure(EOPNOTSUPP); }
  char memory[16];
  static constexpr auto how = unio::last_link::followed;
  using of_open_file::of_open_file;
  UNIO_FREE_SPELLINGS(async_get_attribute, get_attribute, base, "new", "user.missing",
                      unio::mutable_buffer(memory), how)
  ending reduce(sender::result_type const& r) { return r.has_value() ? ending{"there"} : failure(r.error()); }
};

struct list_attributes : get_attribute {
  static ending value() { return has_attributes() ? ending{"user.unio "} : ending{}; }
  list_attributes(io_multiplexer* m, script s) : get_attribute(m, s) {}
  char names[64];
  UNIO_SPELLINGS(async_list_attributes, file, list_attributes, unio::mutable_buffer(names))
  ending brought(sender::result_type const& r) {
    std::string text;
    for (std::string_view const n : *r)
      if (n.starts_with("user.")) text.append(n).append(" ");
    return {text};
  }
};

struct remove_attribute : get_attribute {
  static ending value() { return has_attributes() ? ending{"done"} : failure(EOPNOTSUPP); }
  remove_attribute(io_multiplexer* m, script s) : get_attribute(m, s) {}
  UNIO_SPELLINGS(async_remove_attribute, file, remove_attribute, "user.unio")
  void again() {
    (void)file.set_attribute("user.unio", unio::const_buffer("hello", 5), unio::attribute_mode::set);
  }
  ending brought(sender::result_type const& r) { return reduced(r); }
};

std::vector<row> name_table() {
  named_files(); // before the first cell counts descriptors
  return {
      row_of<stat_handle>("stat_file"),
      row_of<stat_name<true>>("stat_name"),
      row_of<stat_name<false>>("stat_missing"),
      row_of<stat_all>("stat_all"),
      row_of<set_metadata_of_handle>("set_metadata"),
      row_of<set_metadata_of_name>("set_metadata_of_missing"),
      row_of<stat_volume>("stat_volume"),
      row_of<read_directory>("read_directory"),
      row_of<read_directory_filtered>("read_directory_filtered"),
      row_of<open_directory<true>>("open_directory"),
      row_of<open_directory<false>>("open_directory_that_is_a_file"),
      row_of<open_new_directory>("open_new_directory"),
      row_of<open_path>("open_path"),
      row_of<open_symlink<true>>("open_symlink"),
      row_of<open_symlink<false>>("open_symlink_that_is_a_file"),
      row_of<read_symlink>("read_symlink"),
      row_of<read_symlink_by_name>("read_symlink_into_too_little"),
      row_of<make_directory>("make_directory"),
      row_of<unlink_file>("unlink"),
      row_of<unlink_directory_that_is_a_file>("unlink_directory_that_is_a_file"),
      row_of<rename_to_taken<unio::relink_mode::replace>>("rename_replacing"),
      row_of<rename_to_taken<unio::relink_mode::no_replace>>("rename_to_a_taken_name"),
      row_of<rename_to_taken<unio::relink_mode::exchange>>("rename_exchanging"),
      row_of<make_symlink>("make_symlink"),
      row_of<hard_link>("hard_link"),
      row_of<relink_file>("relink"),
      row_of<link_file>("link_inode"),
      row_of<unlink_open_file>("unlink_inode"),
      row_of<unlink_replaced_file>("unlink_inode_that_was_replaced"),
      row_of<parent_of_file>("parent_of"),
      row_of<set_attribute>("set_attribute"),
      row_of<get_attribute>("get_attribute"),
      row_of<get_attribute_that_is_missing>("get_attribute_that_is_missing"),
      row_of<list_attributes>("list_attributes"),
      row_of<remove_attribute>("remove_attribute"),
  };
}

} // namespace

std::vector<test::row> test::name_rows() { return name_table(); }
